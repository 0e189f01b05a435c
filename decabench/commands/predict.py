"""`decabench predict`."""

from __future__ import annotations

from pathlib import Path

import click

from decabench.commands.options import home_option, include_option, split_option, tasks_option

__all__ = ["predict"]


@click.command()
@click.option(
    "--predictor",
    required=True,
    metavar="NAME",
    help="majority, first-choice, copy-context, lead-3, random, oracle, or package.module:object.",
)
@tasks_option
@split_option("validation", "Which split to answer.")
@click.option(
    "--output",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The submission's folder, new or empty.",
)
@click.option("--name", default="", help="The submission's name.  [default: the predictor's]")
@click.option("--author", "authors", multiple=True, help="Who made it; may be repeated.")
@click.option("--description", default="", help="A sentence on how it answers.")
@click.option("--seed", default=0, show_default=True, help="For predictors that draw.")
@click.option(
    "--batch-size", type=click.IntRange(min=1), default=64, show_default=True, help="Questions a call."
)
@click.option("--compress", type=click.Choice(["gz", "zst"]), help="Compress the files of answers.")
@click.option("--force", is_flag=True, help="Replace a submission that is in the folder.")
@home_option
@include_option
def predict(
    predictor: str,
    tasks: tuple[str, ...],
    split: str,
    output: Path,
    name: str,
    authors: tuple[str, ...],
    description: str,
    seed: int,
    batch_size: int,
    compress: str | None,
    force: bool,
    home: Path | None,
    include: tuple[Path, ...],
) -> None:
    """Answer the questions of prepared tasks and write a submission.

    Without --tasks: every task of the ten that has the split.
    """
    from decabench.commands.options import chosen_tasks
    from decabench.predicting import PART, Run
    from decabench.predicting import predict as run
    from decabench.tasks import DECATHLON, known_tasks
    from decabench.tasks.home import home_folder
    from decabench.tasks.prepare import available_splits
    from decabench.tasks.store import Store

    if output.exists() and any(path.name != PART for path in output.iterdir()) and not force:
        raise click.UsageError(f"{output} is not empty: name another folder, or replace it with --force.")
    known = known_tasks(include)
    names = chosen_tasks(tasks, include) or [
        task for task in DECATHLON if split in available_splits(known[task])
    ]
    request = Run(
        predictor=predictor,
        tasks=[known[task] for task in names],
        split=split,
        output=output,
        store=Store(home_folder(home)),
        name=name,
        authors=authors,
        description=description,
        seed=seed,
        batch_size=batch_size,
        compress=compress,
    )
    run(request)
    click.echo(f"Wrote {predictor}'s answers to {len(names)} tasks ({split}) to {output}.")
