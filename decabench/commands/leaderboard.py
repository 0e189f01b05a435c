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
    help="A folder with submissions and their results.json files.",
)
@output_option("The folder of the site.", metavar="SITE")
@click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where the prepared data is, for examples of answers. Default: $DECABENCH_HOME or the user data folder.",
)
@click.option(
    "--examples",
    type=click.Choice(["free", "all", "none"]),
    default="free",
    show_default=True,
    help="Whose text may stand in the site: what may be passed on, everything (for yourself only), or nothing.",
)
@click.option("--serve", is_flag=True, help="Then show it on localhost until Ctrl-C.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Of --serve; 0 takes a free one.",
)
def leaderboard(
    submissions: Path, output: Path, home: Path | None, examples: str, serve: bool, port: int
) -> None:
    """Write the board as a static site that opens from the disk."""
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
