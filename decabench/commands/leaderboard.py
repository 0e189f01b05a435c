"""`decabench leaderboard`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from decabench.commands._console import (
    SCORED_SPLITS,
    choice_option,
    complete_suite,
    echo,
    folded,
    home_option,
    include_option,
    is_set,
    jobs_option,
    note,
    output_option,
    print_json,
)

if TYPE_CHECKING:
    from decabench.leaderboard import Policy


@click.command()
@click.option(
    "--submissions",
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Folder with submissions, which can be grouped in subfolders, or a single submission.",
)
@output_option("Folder for the site.", metavar="SITE")
@click.option(
    "--suite",
    "suites",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_suite,
    help="Build a board for this suite. Can be repeated.  [default: suites in --include, else decathlon]",
)
@choice_option(
    "--examples",
    ["free", "all", "none"],
    "Which texts the site shows: free (only texts that may be redistributed), all (for private use) or none.",
)
@click.option(
    "--baselines/--no-baselines",
    default=True,
    show_default=True,
    help="Also run and score the baselines (a floor and a ceiling) on each task whose data is prepared.",
)
@click.option(
    "--rank-reported",
    is_flag=True,
    help="Also rank reported scores, which come without answers or data. Use this option only if you "
    "trust the people who sent the scores.",
)
@click.option(
    "--split",
    "splits",
    type=click.Choice(SCORED_SPLITS),
    multiple=True,
    help="Score and rank this split. Can be repeated.  [default: both]",
)
@jobs_option
@home_option
@include_option
def leaderboard(
    submissions: Path,
    output: Path,
    suites: tuple[str, ...],
    examples: str,
    baselines: bool,
    rank_reported: bool,
    splits: tuple[str, ...],
    jobs: int,
    home: Path | None,
    include: tuple[Path, ...],
) -> None:
    """Score submissions, and write the leaderboard as a static site that you can open directly from disk.

    A board ranks scores that were computed from answers on this machine. Unchanged answers are not scored again.
    Scores without answers or without prepared data are listed separately. If there is nothing to show, writes nothing
    and exits with 1.
    """
    from decabench.leaderboard import BoardOptions, build_leaderboard
    from decabench.tasks import home_folder

    def report(line: str) -> None:
        note(f"{line} ...")

    make = None
    if baselines:
        from decabench.runs import make_baselines

        make = partial(make_baselines, home=home_folder(home), include=include, report=report)
    options = BoardOptions(
        home,
        suites,
        include,
        cast("Policy", examples),
        rank_reported,
        jobs,
        make,
        splits or SCORED_SPLITS,
    )
    site = build_leaderboard(submissions, output, options, require_results=True, report=report)
    if is_set("json"):
        from decabench.commands._documents import BoardDocument

        print_json(BoardDocument.from_value(site, index=site.index.resolve().as_uri()))
    else:
        echo(f"Board: {site.index.resolve().as_uri()}")
        kinds = ("verified", "reported", "partial", "failed")
        counts = [f"{site.kinds[kind]} {kind}" for kind in kinds if site.kinds.get(kind)]
        made = f"; {site.baselines} from baselines" if site.baselines else ""
        echo(f"Results: {', '.join(counts)}{made}.")
        for word, refusals in (("Failed", site.failed), ("Left out", site.refused)):
            for each in refusals:
                echo(folded(f"{word}: {each.path}: {each.reason.rstrip('.')}.", err=True), err=True)
