"""`decabench leaderboard`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

import click

from decabench.commands import _options
from decabench.commands._console import echo, is_set, note, print_json
from decabench.options import REQUIRED, option


@click.command()
@_options.with_options
def leaderboard(
    submissions: Path = option(
        REQUIRED,
        "Folder with submissions, which can be grouped in subfolders, or a single submission.",
        type=_options.EXISTING_FOLDER,
    ),
    output: Path = option(REQUIRED, "Folder for the site.", type=_options.FOLDER, metavar="SITE"),
    suite: tuple[str, ...] = option(
        (),
        "Build a board for this suite. Can be repeated.",
        metavar="NAME",
        complete=_options.complete_suite,
        unset="suites in --include, else decathlon",
    ),
    examples: Literal["free", "all", "none"] = option(
        "free",
        "Which texts the site shows: free (only texts that may be redistributed), all (for private use) or none.",
    ),
    baselines: bool = option(
        True,
        "Also run and score the baselines (a floor and a ceiling) on each task whose data is prepared.",
        flag="--baselines/--no-baselines",
    ),
    rank_reported: bool = option(
        False,
        "Also rank reported scores, which come without answers or data. Use this option only if you "
        "trust the people who sent the scores.",
    ),
    split: tuple[_options.ScoredSplit, ...] = option(
        (), "Score and rank this split. Can be repeated.", unset="both"
    ),
    jobs: int = _options.JOBS,
    home: Path | None = _options.HOME,
    include: tuple[Path, ...] = _options.INCLUDE,
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
        suite,
        include,
        examples,
        rank_reported,
        jobs,
        make,
        split or ("validation", "test"),
    )
    site = build_leaderboard(submissions, output, options, require_results=True, report=report)
    if is_set("json"):
        from decabench.commands._documents import BoardDocument

        print_json(BoardDocument.from_value(site, index=site.index.resolve().as_uri()))
    else:
        echo(f"Board: {site.index.resolve().as_uri()}", wrap=False)
        kinds = ("verified", "reported", "partial", "failed")
        counts = [f"{site.kinds[kind]} {kind}" for kind in kinds if site.kinds.get(kind)]
        made = f"; {site.baselines} from baselines" if site.baselines else ""
        echo(f"Results: {', '.join(counts)}{made}.")
        for word, refusals in (("Failed", site.failed), ("Left out", site.refused)):
            for each in refusals:
                echo(f"{word}: {each.path}: {each.reason.rstrip('.')}.", err=True)
