"""`decabench train`."""

from __future__ import annotations

from pathlib import Path

import click

from decabench.commands._console import (
    FiniteRange,
    chosen_tasks,
    echo,
    file_option,
    folded,
    home_option,
    include_option,
    is_chatty,
    is_set,
    log_option,
    note,
    output_option,
    print_json,
    tasks_option,
)
from decabench.models import MODELS


@click.command()
@click.option(
    "--model",
    metavar="NAME",
    help=f"The model: {'; '.join(map(', '.join, MODELS.values()))}; or package.module:object.  [default: mqan]",
)
@tasks_option
@click.option(
    "--schedule",
    type=click.Choice(["joint", "curriculum", "anti-curriculum", "sequential"]),
    help="Order of the tasks in training; anti-curriculum starts with SQuAD alone.  [default: joint]",
)
@output_option("Folder for the run's checkpoints, logs and plot.")
@file_option(
    "--config", text="Read settings from this file, such as a run's config.toml.", metavar="FILE.toml"
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a setting, such as model.dimension=100 or steps=2000. Can be repeated.",
)
@click.option(
    "--init",
    metavar="CHECKPOINT",
    help="Checkpoint to start from, or a run's folder to start from its best checkpoint. Weights, model settings "
    "and vectors are taken from the checkpoint.",
)
@click.option(
    "--freeze",
    multiple=True,
    metavar="PART",
    help="Freeze a part's weights. Can be repeated. MQAN has encoder, decoder and generate; other "
    "models have embed, shared and heads. Parts inside these, such as decoder.layers, work too.",
)
@click.option("--device", default="auto", show_default=True, help="Device: auto, cpu, cuda, cuda:1 or mps.")
@click.option(
    "--resume", is_flag=True, help="Continue from the latest checkpoint in the folder, if there is one."
)
@click.option(
    "--stop-after",
    type=FiniteRange(min=0, min_open=True),
    metavar="MINUTES",
    help="Write a checkpoint and stop after this many minutes. Continue with --resume.",
)
@log_option
@home_option
@include_option
def train(
    model: str | None,
    tasks: tuple[str, ...],
    suite: str | None,
    schedule: str | None,
    output: Path,
    config: Path | None,
    settings: tuple[str, ...],
    init: str | None,
    freeze: tuple[str, ...],
    device: str,
    resume: bool,
    stop_after: float | None,
    log: tuple[str, ...],
    home: Path | None,
    include: tuple[Path, ...],
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
    from decabench.tasks import DECATHLON
    from decabench.training import plan_training, run_training, show_score

    trackers = make_trackers(log)
    chosen = None
    if tasks or suite:
        chosen = chosen_tasks(tasks, include, suite) or list(DECATHLON.tasks)  # `--tasks all` returns None
    options = {"schedule": schedule, "freeze": list(freeze)}
    given = [f"{name}={json.dumps(value)}" for name, value in options.items() if value]
    say = note if is_set("quiet") else (lambda text: echo(folded(text)))
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
    echo(folded(f"{sentence}{advice}"))
    place, answers = quote(str(output)), quote(str(output.with_name(f"{output.name}-answers")))
    names = ",".join(run.config.tasks)
    trusted = ""
    if ":" in run.config.model.name:
        trusted = f"PYTHONPATH=. {TRUSTED}={quote(run.config.model.name)} "
    same = "".join(f" --include {quote(str(path))}" for path in include)
    same += f" --home {quote(str(home))}" if home else ""
    echo(
        f"Answer questions with the model: {trusted}decabench predict --predictor trained:{place} "
        f"--tasks {names}{same} --output {answers}"
    )
