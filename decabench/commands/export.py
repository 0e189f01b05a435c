"""`decabench export`."""

from __future__ import annotations

from pathlib import Path

import click

from decabench.commands._console import echo
from decabench.commands._options import output_option, require_torch

__all__ = ["export"]


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path, exists=True, file_okay=False))
@output_option("New folder for the copy.")
@click.option(
    "--words",
    default=20_000,
    show_default=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="Words to include from the top of each vector file, in addition to the model's own vocabulary.",
)
@click.option("--full", is_flag=True, help="Keep float32 instead of half precision, at twice the size.")
def export(checkpoint: Path, output: Path, words: int, full: bool) -> None:
    """Write a self-contained copy of a trained model, with its word vectors.

    CHECKPOINT is a checkpoint, or a run's folder, whose best checkpoint is used. The copy needs no other files: use it
    with decabench predict --predictor trained:DIR.
    """
    require_torch()
    from decabench.models import UNFINISHED_EXPORT, Checkpoint, export_checkpoint

    if output.exists() and {path.name for path in output.iterdir()} - UNFINISHED_EXPORT:
        raise click.UsageError(f"{output} is not empty: name another folder.")
    made = export_checkpoint(Checkpoint.open(checkpoint), output, words, not full)
    echo(f"{output}: {made.size / 1e6:.1f} MB, with vectors for {made.words:,} words.")
