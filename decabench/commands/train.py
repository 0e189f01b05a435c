"""`decabench train`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from decabench.commands._options import (
    home_option,
    include_option,
    output_option,
    require_torch,
    tasks_option,
)

if TYPE_CHECKING:
    from decabench.training import TrainConfig

__all__ = ["train"]


@click.command()
@click.option(
    "--model",
    type=click.Choice(["mqan", "catt", "satt", "s2s"]),
    help="MQAN, or one of its ablations: without the question's pointer, without coattention too, without "
    "self-attention too.  [default: mqan]",
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
    help="Settings, as a run's config.toml has them.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting, such as model.dimension=100 or steps=2000; may be repeated.",
)
@click.option(
    "--init", metavar="CHECKPOINT", help="Begin with the weights of a checkpoint or of a run's best."
)
@click.option(
    "--freeze",
    multiple=True,
    metavar="PART",
    help="Keep a part as it is: encoder, decoder, generate, or deeper; may be repeated.",
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
    """Train MQAN or one of its ablations on any set of tasks.

    Without --tasks or --suite: the ten, or the configuration's. Start it with torchrun for several processes.
    """
    import os
    import sys

    require_torch()
    from decabench.commands._options import chosen_tasks
    from decabench.errors import require_name
    from decabench.tasks import DECATHLON, Store, context_limits, home_folder, known_tasks
    from decabench.training import Run, TrainConfig, read_config, with_settings
    from decabench.training import train as run

    if output.exists() and any(output.iterdir()) and not resume:
        raise click.UsageError(f"{output} is not empty: name another folder, or go on with --resume.")
    known = known_tasks(include)
    skip, cut = context_limits(known.values(), "skip"), context_limits(known.values(), "cut")
    made = _initial(init, output if resume else None, TrainConfig(skip_context=skip, cut_context=cut))
    made = read_config(config, made) if config else made
    chosen = chosen_tasks(tasks, include, suite) if tasks or suite else list(made.tasks)
    made = replace(
        made,
        model=replace(made.model, name=model or made.model.name),
        tasks=tuple(chosen or DECATHLON.tasks),
        schedule=schedule or made.schedule,
        freeze=freeze or made.freeze,
        init=init or made.init,
    )
    made = with_settings(made, settings)
    finished = run(
        Run(
            config=made,
            tasks={name: known[require_name(name, known, "task")] for name in made.tasks},
            store=Store(home_folder(home)),
            output=output,
            device=device,
            resume=resume,
            report=click.echo,
            progress=sys.stderr.isatty(),
        )
    )
    if os.environ.get("RANK", "0") == "0":
        which = "last" if made.best_by == "last" else "best"
        click.echo(
            f"Trained to step {finished.step}; the {which} checkpoint ({finished.best:.1f}) is {finished.checkpoint}. "
            f"Answer with it: decabench predict --predictor mqan:{output}"
        )


def _initial(init: str | None, begun: Path | None, default: TrainConfig) -> TrainConfig:
    """The defaults, or with --init the sizes and vectors of that checkpoint: of the run itself where that goes on."""
    if not init:
        return default
    from decabench.models import Saved
    from decabench.training import latest

    saved = (latest(begun) if begun else None) or Saved.open(init)
    return replace(default, init=str(init), model=saved.model, vectors=saved.vectors)
