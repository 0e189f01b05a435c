"""`decabench train`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from decabench.commands import _options
from decabench.commands._console import echo, is_chatty, is_set, note, print_json
from decabench.models import MODELS
from decabench.options import REQUIRED, option


@click.command()
@_options.with_options
def train(
    model: str | None = option(
        None,
        f"The model: {'; '.join(map(', '.join, MODELS.values()))}; or package.module:object.",
        metavar="NAME",
        unset="mqan",
    ),
    tasks: tuple[str, ...] = _options.TASKS,
    suite: str | None = _options.SUITE,
    schedule: Literal["joint", "curriculum", "anti-curriculum", "sequential"] | None = option(
        None,
        "Order of the tasks in training; anti-curriculum starts with SQuAD alone.",
        unset="joint",
    ),
    output: Path = option(REQUIRED, "Folder for the run's checkpoints, logs and plot.", type=_options.FOLDER),
    config: Path | None = option(
        None,
        "Read settings from this file, such as a run's config.toml.",
        type=_options.EXISTING_FILE,
        metavar="FILE.toml",
    ),
    settings: tuple[str, ...] = option(
        (),
        "Change a setting, such as model.dimension=100 or steps=2000. Can be repeated.",
        flag="--set",
        metavar="KEY=VALUE",
        variable="DECABENCH_TRAIN_SET",
    ),
    init: str | None = option(
        None,
        "Checkpoint to start from, or a run's folder to start from its best checkpoint. Weights, model settings "
        "and vectors are taken from the checkpoint.",
        metavar="CHECKPOINT",
    ),
    freeze: tuple[str, ...] = option(
        (),
        "Freeze the weights of this part of the model. Can be repeated. MQAN has encoder, decoder and generate; most "
        "other models have embed, shared and heads. Nested parts, such as decoder.layers, also work.",
        metavar="PART",
    ),
    device: str = _options.DEVICE,
    resume: bool = option(False, "Continue from the latest checkpoint in the folder, if there is one."),
    stop_after: float | None = option(
        None,
        "Write a checkpoint and stop after this many minutes. Continue with --resume.",
        metavar="MINUTES",
        above=0,
    ),
    log: tuple[str, ...] = _options.LOG,
    home: Path | None = _options.HOME,
    include: tuple[Path, ...] = _options.INCLUDE,
) -> None:
    """Train a model on any set of tasks.

    Without --tasks or --suite, trains on the tasks of the configuration, or else on all tasks of the decathlon.
    """
    import json
    from dataclasses import replace
    from shlex import quote

    from decabench.errors import require_torch

    require_torch()
    from decabench.exchange import make_trackers
    from decabench.plugins import TRUSTED
    from decabench.tasks import DECATHLON, choose_tasks
    from decabench.training import plan_training, run_training, show_score

    trackers = make_trackers(log)
    chosen = None
    if tasks or suite:
        chosen = choose_tasks(tasks, suite, include) or list(DECATHLON.tasks)  # `--tasks all` returns None
    options = {"schedule": schedule, "freeze": list(freeze)}
    given = [f"{name}={json.dumps(value)}" for name, value in options.items() if value]
    say = note if is_set("quiet") else echo
    run = plan_training(
        output,
        chosen,
        model or "",
        [*given, *settings],
        config=config,
        init=init or "",
        home=home,
        device=device,
        resume=resume,
        include=include,
        report=say,
        trackers=trackers,
    )
    finished = run_training(replace(run, bar=is_chatty(), stop_after=60 * (stop_after or 0.0)))
    if is_set("json"):
        from decabench.commands._documents import TrainingDocument

        checkpoint = str(finished.checkpoint)
        print_json(TrainingDocument.from_value(finished, output=str(output), checkpoint=checkpoint))
    which = "last" if run.config.best_by == "last" else "best"
    score = (
        "" if finished.best is None else f" ({show_score(finished.best, run.tasks.get(run.config.best_by))})"
    )
    end = finished.ended[:1].upper() + finished.ended[1:] or f"Trained to step {finished.step}"
    sentence = f"{end}; the {which} checkpoint{score} is {finished.checkpoint}."
    advice = " Continue with the same command and --resume." if finished.goes_on else ""
    echo(f"{sentence}{advice}")
    place, answers = quote(str(output)), quote(str(output.with_name(f"{output.name}-answers")))
    names = ",".join(run.config.tasks)
    trusted = ""
    if ":" in run.config.model.name:
        trusted = f"PYTHONPATH=. {TRUSTED}={quote(run.config.model.name)} "
    same = "".join(f" --include {quote(str(path))}" for path in include)
    same += f" --home {quote(str(home))}" if home else ""
    command = f"decabench predict --predictor trained:{place} --tasks {names}{same} --output {answers}"
    echo(f"Answer questions with the model: {trusted}{command}", wrap=False)
