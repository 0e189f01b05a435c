"""`decabench leaderboard`."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["leaderboard"]


@click.command()
@click.option(
    "--submissions",
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="A folder with submissions and their results.json files.",
)
@click.option(
    "--output",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="SITE",
    help="The folder of the page.",
)
def leaderboard(submissions: Path, output: Path) -> None:
    """Write the board as one static page that opens from the disk."""
    from decabench.leaderboard import build

    page = build(submissions, output)
    click.echo(f"Board: {page.resolve().as_uri()}")
