"""`decabench leaderboard`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
from click.core import ParameterSource

from decabench.commands._console import echo, is_set, note, print_json
from decabench.commands._console import serve as run_server
from decabench.commands._options import (
    complete_suite,
    home_option,
    include_option,
    jobs_option,
    output_option,
    processes,
)

if TYPE_CHECKING:
    from decabench.leaderboard import Policy, Site

__all__ = ["leaderboard"]


@click.command()
@click.option(
    "--submissions",
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Folder of submissions with their results, as <submission> or <group>/<submission>; or one submission.",
)
@output_option("Folder for the site.", metavar="SITE")
@click.option(
    "--suite",
    "suites",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_suite,
    help="Only the board of this suite; may be repeated.  [default: every suite that there are results for]",
)
@click.option(
    "--examples",
    type=click.Choice(["free", "all", "none"]),
    default="free",
    show_default=True,
    help="Texts to show on the site: those that may be redistributed, all of them (for private use), or none.",
)
@click.option(
    "--verify/--no-verify",
    default=True,
    show_default=True,
    help="Score answers again whose data is prepared, and refuse results that they contradict. Each only once.",
)
@click.option(
    "--verified-only",
    is_flag=True,
    help="Refuse results with a score that is not verified: for boards that strangers send submissions to.",
)
@jobs_option
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
    verify: bool,
    verified_only: bool,
    jobs: int | None,
    serve: bool,
    port: int,
    home: Path | None,
    include: tuple[Path, ...],
) -> None:
    """Write the leaderboard as a static site that opens straight from disk.

    Each suite that there are results for has a board of its own. Examples of answers come from the prepared data, if it
    is the data that was scored. Every score is recomputed from its statistics, and from the answers where they and
    their data are at hand; results that contradict theirs are refused. Exits with 1, and writes nothing, if there are
    no results to show.
    """
    from decabench.leaderboard import BoardOptions, build_leaderboard, open_server

    if not serve and click.get_current_context().get_parameter_source("port") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--port is for --serve: add it, or leave out --port.")
    policy = cast("Policy", examples)
    options = BoardOptions(home, suites, include, policy, verify, processes(jobs), verified_only)
    site = build_leaderboard(
        submissions,
        output,
        options,
        require_results=True,
        report=lambda line: note(f"{line} ..."),
    )
    if is_set("json"):
        from decabench.commands._documents import BoardDocument, RefusedFile

        print_json(
            BoardDocument(
                index=site.index.resolve().as_uri(),
                kinds=dict(site.kinds),
                refused=[RefusedFile(path=each.path, reason=each.reason) for each in site.refused],
                too_deep=list(site.too_deep),
                not_evaluated=list(site.not_evaluated),
            )
        )
    else:
        echo(f"Board: {site.index.resolve().as_uri()}")
        _print_evidence(site)
    if serve:
        with open_server(output, port) as server:
            run_server(server)


def _print_evidence(site: Site) -> None:
    """Print what the rows rest on, and on stderr why files were refused or not read."""
    kinds = ("verified", "consistent", "self-reported", "partial", "failed")
    counts = [f"{site.kinds[kind]} {kind}" for kind in kinds if site.kinds.get(kind)]
    if counts:
        echo(f"Results: {', '.join(counts)}.".replace("self-reported", "self-reported (not ranked)"))
    for refusal in site.refused:
        echo(f"Refused: {refusal.path}: {refusal.reason}.", err=True)
    for folder in dict.fromkeys(refusal.submission for refusal in site.refused):
        again = f"decabench evaluate --submission {site.submissions / folder}"
        echo(f"If its answers are at hand, score it again: {again}", err=True)
    if left := [str(site.submissions / folder) for folder in site.not_evaluated]:
        more = f", and {len(left) - 3:,} more" if len(left) > 3 else ""
        echo(
            f"Not scored yet: {', '.join(left[:3])}{more}. To add the first: decabench evaluate --submission {left[0]}",
            err=True,
        )
    for folder in site.too_deep:
        path = site.submissions / folder
        echo(
            f"Not read: {path} lies too deep for a submission: its place is <submission> or <group>/<submission> "
            f"below the folder of --submissions.",
            err=True,
        )
