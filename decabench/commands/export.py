"""`decabench export`."""

from __future__ import annotations

from pathlib import Path

import click

from decabench.commands._options import output_option, require_torch

__all__ = ["export"]


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path, exists=True, file_okay=False))
@output_option("A new folder for it.")
@click.option(
    "--words",
    default=20_000,
    show_default=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="How many words of each file of vectors go with it, the first ones, beside those that it can generate.",
)
@click.option("--full", is_flag=True, help="In float32, not in half precision: twice the size.")
def export(checkpoint: Path, output: Path, words: int, full: bool) -> None:
    """Put a trained model and its word vectors into one small folder.

    CHECKPOINT is a checkpoint, or a run's folder, of which the best is taken. What comes out needs no other file:
    decabench predict --predictor mqan:DIR.
    """
    require_torch()
    from decabench.models import Saved
    from decabench.training import UNFINISHED
    from decabench.training import export as write

    if output.exists() and {path.name for path in output.iterdir()} - UNFINISHED:
        raise click.UsageError(f"{output} is not empty: name another folder.")
    made = write(Saved.open(checkpoint), output, words, not full)
    click.echo(f"{output}: {made.size / 1e6:.1f} MB, with vectors of {made.words:,} words.")
