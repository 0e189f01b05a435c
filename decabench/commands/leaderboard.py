"""`decabench leaderboard`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from decabench.commands._console import echo
from decabench.commands._options import home_option, include_option, output_option

if TYPE_CHECKING:
    from decabench.leaderboard import Policy

__all__ = ["leaderboard"]


@click.command()
@click.option(
    "--submissions",
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Folder of submissions and their results.json files.",
)
@output_option("Folder for the site.", metavar="SITE")
@click.option(
    "--suite",
    "suites",
    multiple=True,
    metavar="NAME",
    help="Only the board of this suite; may be repeated.  [default: every suite that there are results for]",
)
@click.option(
    "--examples",
    type=click.Choice(["free", "all", "none"]),
    default="free",
    show_default=True,
    help="Texts to show on the site: those that may be redistributed, all of them (for private use), or none.",
)
@click.option("--serve", is_flag=True, help="Then serve the site on localhost until Ctrl-C.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port for --serve; 0 picks a free one.",
)
@home_option
@include_option
def leaderboard(
    submissions: Path,
    output: Path,
    suites: tuple[str, ...],
    examples: str,
    serve: bool,
    port: int,
    home: Path | None,
    include: tuple[Path, ...],
) -> None:
    """Write the leaderboard as a static site that opens straight from disk.

    Each suite that there are results for has a board of its own. Examples of answers come from the prepared data, if it
    is the data that was scored.
    """
    from decabench.leaderboard import open_server, write_leaderboard

    page = write_leaderboard(
        submissions, output, home, suites=suites, include=include, examples=cast("Policy", examples)
    )
    echo(f"Board: {page.resolve().as_uri()}")
    if serve:
        with open_server(output, port) as server:
            echo(f"Serving on http://127.0.0.1:{server.server_address[1]}/ until Ctrl-C.")
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                echo("Stopped.")
