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
    help="Which tasks train when; anti-curriculum begins with SQuAD alone.  [default: joint]",
)
@output_option("The run's folder: checkpoints, logs and a plot.")
@click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE.toml",
    help="Settings, as in a run's config.toml.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting, such as model.dimension=100 or steps=2000; may be repeated.",
)
@click.option(
    "--init", metavar="CHECKPOINT", help="Begin with the weights of a checkpoint, or of a run's best."
)
@click.option(
    "--freeze",
    multiple=True,
    metavar="PART",
    help="Keep the weights of a part: encoder, decoder, generate, or deeper; may be repeated.",
)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps.")
@click.option("--resume", is_flag=True, help="Go on from the folder's latest checkpoint, if it has one.")
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

    Without --tasks or --suite: the ten, or the configuration's. Start it with torchrun for several processes.
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
        raise click.UsageError(f"{output} is not empty: name another folder, or go on with --resume.")
    known = known_tasks(include)
    skip, cut = context_limits(known.values(), "skip"), context_limits(known.values(), "cut")
    made = TrainConfig(skip_context=skip, cut_context=cut)
    if init:  # the sizes and vectors of that checkpoint, or of the run itself where it goes on
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
