"""Boards for a plan's suites. Each submission contains the answers of all runs of a row with the same seed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from decabench.errors import DecabenchError
from decabench.submission import FOLDER, METADATA_NAME, SubmissionInfo, open_submission, render_metadata
from papers.plan import BOARDS, Place, Plan, seeded_runs


def shown_rows(plan: Plan, place: Place) -> dict[str, list[str]]:
    """Return the names of the trained rows by suite. A row appears in every suite that it has runs for."""
    rows = [row for table in plan.tables for row in plan.rows_of(table, place.include)] or plan.trained_rows
    found: dict[str, list[str]] = {}
    for row in dict.fromkeys(row for row in rows if plan.runs_of(row)):
        for suite in dict.fromkeys(run.suite or plan.suite for run in plan.runs_of(row)):
            found.setdefault(suite, []).append(row)
    return found


def folder_names(rows: Sequence[str]) -> dict[str, str]:
    """Return a prefix for each row's folder names: `w-o-sr` for `w/o SR`, or `w-o-sr-2` if that is taken."""
    found: dict[str, str] = {}
    for row in rows:
        plain = re.sub(r"[^a-z0-9]+", "-", row.lower()).strip("-") or "row"
        names = (plain, *(f"{plain}-{number}" for number in range(2, len(rows) + 2)))
        found[row] = next(name for name in names if name not in found.values())
    return found


def join_row(plan: Plan, place: Place, row: str, suite: str, seed: int, folder: Path) -> bool:
    """Combine the answers of a row's runs, for one suite and one seed, into a submission.

    Returns whether there were any answers.
    """
    every = seeded_runs(plan, place, plan.runs_of(row), {seed})
    runs = [one for one in every if one.suite == suite and one.is_scored]
    if not runs:
        return False
    data: dict[str, str] = {}
    predictor: dict[str, dict[str, Any]] = {}
    (folder / FOLDER).mkdir(parents=True)
    for one in runs:
        with open_submission(one.submission) as opened:
            for (task, split), file in opened.files.items():
                if split == plan.split:
                    shutil.copyfile(file.path, folder / FOLDER / file.path.name)
                    data[f"{task}.{split}"] = opened.info.data[f"{task}.{split}"]
            backend = opened.info.predictor.get("backend", {})
            predictor[one.run.name] = {
                key: backend[key] for key in ("model", "weights", "vectors", "step") if key in backend
            }
    count = f"{len(runs)} model{'s' if len(runs) > 1 else ''}"
    info = SubmissionInfo(
        f"{row}, seed {seed}",
        description=f"{row} of the reproduction of {plan.paper}: {count}.",
        predictor={"name": row, "seed": seed, "runs": predictor},
        data=data,
    )
    (folder / METADATA_NAME).write_bytes(render_metadata(info))
    return True


def build_boards(plan: Plan, place: Place, site: Path) -> Iterator[Path]:
    """Combine, score and rank completed runs. Yields the folder of each suite's board."""
    for suite, rows in shown_rows(plan, place).items():
        submissions = place.output / BOARDS / suite
        if submissions.exists():
            shutil.rmtree(submissions)
        found = False
        for baseline in plan.baselines if suite == plan.suite else ():
            source = place.plan.parent / baseline.submission
            shutil.copytree(source, submissions / source.name, ignore=shutil.ignore_patterns("results"))
            score(plan, suite, submissions / source.name, place)
        names = folder_names(rows)
        for row in rows:
            for seed in sorted({seed for run in plan.runs_of(row) for seed in plan.seeds_of(run)}):
                folder = submissions / f"{names[row]}-seed-{seed}"
                if join_row(plan, place, row, suite, seed, folder):
                    found = True
                    score(plan, suite, folder, place)
        if found:
            where = ("--submissions", str(submissions), "--output", str(site / suite), "--suite", suite)
            call("leaderboard", *where, *data_options(place))
            yield site / suite


def data_options(place: Place) -> list[str]:
    """Return the command-line options for the location of the data."""
    options = [option for path in place.include for option in ("--include", str(path))]
    return options + (["--home", str(place.home)] if place.home else [])


def score(plan: Plan, suite: str, folder: Path, place: Place, split: str = "") -> None:
    """Score a submission on a suite, by default on the plan's split. Raises DecabenchError if scoring fails."""
    options = ("--submission", str(folder), "--split", split or plan.split, "--suite", suite)
    call("evaluate", *options, *data_options(place))


def call(*arguments: str) -> None:
    """Run a decabench command. Raises DecabenchError if the command fails."""
    done = subprocess.run(
        [sys.executable, "-m", "decabench", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise DecabenchError(f"decabench {arguments[0]} failed:\n{done.stderr}")
