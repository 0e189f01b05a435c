"""`decabench leaderboard`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from decabench.commands._options import output_option

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
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder of prepared data, for example answers.  [default: $DECABENCH_HOME, else the user's data folder]",
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
def leaderboard(
    submissions: Path, output: Path, home: Path | None, examples: str, serve: bool, port: int
) -> None:
    """Write the leaderboard as a static site that opens straight from disk."""
    from decabench.leaderboard import build
    from decabench.tasks import home_folder

    page = build(submissions, output, home=home_folder(home), examples=cast("Policy", examples))
    click.echo(f"Board: {page.resolve().as_uri()}")
    if serve:
        from decabench.leaderboard import serving

        with serving(output, port) as server:
            click.echo(f"Serving on http://127.0.0.1:{server.server_address[1]}/ until Ctrl-C.")
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                click.echo("Stopped.")
