"""`decabench train`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from decabench.commands._options import (
    home_option,
    include_option,
    output_option,
    require_torch,
    tasks_option,
)

__all__ = ["train"]


@click.command()
@click.option(
    "--model",
    metavar="NAME",
    help="mqan; its ablations catt (without the question's pointer), satt (without coattention too) and s2s (without "
    "self-attention too); classifier, for tasks with labels; tagger; or package.module:object.  [default: mqan]",
)
@tasks_option
@click.option(
    "--schedule",
    type=click.Choice(["joint", "curriculum", "anti-curriculum", "sequential"]),
    help="Order of the tasks in training; anti-curriculum starts with SQuAD alone.  [default: joint]",
)
@output_option("Folder for the run: checkpoints, logs and a plot.")
@click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE.toml",
    help="File of settings, such as a run's config.toml.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting, such as model.dimension=100 or steps=2000; may be repeated.",
)
@click.option(
    "--init",
    metavar="CHECKPOINT",
    help="Start from the weights of a checkpoint, or of a run's best checkpoint.",
)
@click.option(
    "--freeze",
    multiple=True,
    metavar="PART",
    help="Freeze the weights of a part: encoder, decoder, generate, or a part inside these; may be repeated.",
)
@click.option("--device", default="auto", show_default=True, help="Device: auto, cpu, cuda, cuda:1 or mps.")
@click.option(
    "--resume", is_flag=True, help="Continue from the latest checkpoint in the folder, if there is one."
)
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
    home: Path | None,
    include: tuple[Path, ...],
) -> None:
    """Train a model on any set of tasks.

    Without --tasks or --suite, trains on the tasks of the configuration, or else on all tasks of the decathlon. Use
    torchrun to train with several processes.
    """
    import os
    import sys

    require_torch()
    from decabench.commands._options import chosen_tasks
    from decabench.errors import require_name
    from decabench.models import Checkpoint, latest_checkpoint
    from decabench.tasks import DECATHLON, Store, context_limits, home_folder, known_tasks
    from decabench.training import (
        TrainConfig,
        TrainingRun,
        from_mapping,
        is_unstarted,
        read_config,
        with_settings,
    )
    from decabench.training import train as run

    if output.exists() and not resume and not is_unstarted(output):
        raise click.UsageError(f"{output} is not empty: name another folder, or continue with --resume.")
    known = known_tasks(include)
    skip, cut = context_limits(known.values(), "skip"), context_limits(known.values(), "cut")
    made = TrainConfig(skip_context=skip, cut_context=cut)
    if init:  # sizes and vectors come from that checkpoint, or from the run itself if it is resumed
        begun = (latest_checkpoint(output) if resume else None) or Checkpoint.open(init)
        made = replace(made, init=init, model=begun.config, vectors=begun.vectors)
    made = read_config(config, made) if config else made
    made = from_mapping({"model": {"name": model}}, made) if model else made
    chosen = chosen_tasks(tasks, include, suite) if tasks or suite else list(made.tasks)
    made = replace(
        made,
        tasks=tuple(chosen or DECATHLON.tasks),
        schedule=schedule or made.schedule,
        freeze=freeze or made.freeze,
        init=init or made.init,
    )
    made = with_settings(made, settings)
    finished = run(
        TrainingRun(
            config=made,
            tasks={name: known[require_name(name, known, "task")] for name in made.tasks},
            store=Store(home_folder(home)),
            output=output,
            device=device,
            resume=resume,
            report=click.echo,
            bar=sys.stderr.isatty(),
        )
    )
    if os.environ.get("RANK", "0") == "0":
        which = "last" if made.best_by == "last" else "best"
        score = "" if finished.best is None else f" ({finished.best:.1f})"
        click.echo(
            f"Trained to step {finished.step}; the {which} checkpoint{score} is {finished.checkpoint}. "
            f"Answer with it: decabench predict --predictor trained:{output}"
        )
