"""`decabench export`."""

from __future__ import annotations

from pathlib import Path

import click

from decabench.commands._console import echo, is_set, print_json
from decabench.commands._options import output_option, require_torch, size_option

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
@size_option(
    "--shard",
    "0",
    "Split weights and vectors into files of at most this size, such as 15M (15,000,000 bytes).",
)
def export(checkpoint: Path, output: Path, words: int, full: bool, shard: int) -> None:
    """Write a self-contained copy of a trained model, with its word vectors.

    CHECKPOINT is a checkpoint, or a run's folder, whose best checkpoint is used. The copy needs no other files: use it
    with decabench predict --predictor trained:DIR.
    """
    require_torch()
    from decabench.models import Checkpoint, export_checkpoint, is_unfinished

    if output.exists() and not is_unfinished(output):
        raise click.UsageError(f"{output} is not empty: name another folder.")
    made = export_checkpoint(Checkpoint.open(checkpoint), output, words, not full, shard)
    if is_set("json"):
        from decabench.commands._documents import ExportDocument

        print_json(ExportDocument(path=str(output), bytes=made.size, words=made.words, shards=made.shards))
    weights = f", its weights in {made.shards} {'file' if made.shards == 1 else 'files'}" if shard else ""
    echo(f"{output}: {made.size / 1e6:.1f} MB, with vectors for {made.words:,} words{weights}.")
