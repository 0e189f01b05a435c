"""`decabench review`: request, queue. Submissions from other people are read as data and never executed."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from decabench.commands import _options
from decabench.commands._console import echo, is_set, print_json
from decabench.options import REQUIRED, option

if TYPE_CHECKING:
    from decabench.leaderboard import Problem, PullRequest, Review

_MOST_SHOWN = 40


@click.group()
def review() -> None:
    """Check and score submissions from other people, and show where they would rank."""


def _quota(text: str) -> tuple[int, int]:
    if not (found := re.fullmatch(r"([1-9]\d{0,5})/([1-9]\d{0,4})", text)):
        raise ValueError(f"{text!r} must have the form N/DAYS, such as 4/30.")
    return int(found[1]), int(found[2])


@dataclass(frozen=True)
class _Board:
    """The options shared by `review request` and `review queue`."""

    submissions: Path = option(REQUIRED, "Folder with the board's submissions.", type=_options.FOLDER)
    suite: str | None = option(
        None,
        "Suite that the board ranks.",
        metavar="NAME",
        complete=_options.complete_suite,
        unset="the suite in --include, else decathlon",
    )
    split: _options.ScoredSplit = option("validation", "Split to score.")
    quota: tuple[int, int] | None = option(
        None, "Accept at most N submissions per author within DAYS days.", metavar="N/DAYS", parse=_quota
    )
    largest: int = option(100, "Maximum size of a submission in megabytes.", metavar="MB", at_least=1)
    seconds: float = option(600.0, "Seconds allowed for checking and scoring one submission.", above=0)
    home: Path | None = _options.HOME
    include: tuple[Path, ...] = _options.INCLUDE

    def review(self, sent: Path, path: str) -> list[Review]:
        """Check and score the submissions in a folder."""
        from decabench.leaderboard import BoardOptions, review_submissions

        options = BoardOptions(self.home, [self.suite] if self.suite else (), self.include)
        return review_submissions(sent, path, self.submissions, self.split, options, self.seconds)


@review.command()
@click.argument("commit")
@_options.options_of(_Board)
@_options.with_options
def request(
    commit: str,
    owner: str | None = option(
        None, "Refuse a request that changes any folder other than NAME.", metavar="NAME"
    ),
    github: bool = option(
        False, "Print faults as GitHub annotations, and append the summary to $GITHUB_STEP_SUMMARY."
    ),
    **given: Any,
) -> None:
    """Review a pull request in a clone of the board's repository. COMMIT is the request's last commit.

    First check out the commit that the request would be merged into. The request may change only its author's
    folder in --submissions. Only the submissions in that folder are checked and scored; all other scores come
    from the ledger. The request's files are read from git and never checked out. Exits with 1 if the request
    must not be merged.
    """
    from decabench.files import temporary_folder
    from decabench.leaderboard import SendingLimits, read_request

    board = _Board(**given)
    limits = SendingLimits(board.largest, board.quota)
    with temporary_folder() as sent:
        found = read_request(sent, board.submissions, commit, owner, limits)
        is_readable = found.folder and not found.problems
        reviews = board.review(sent, found.folder) if is_readable else []
        annotations = _annotations(sent, found, reviews)
    text = _markdown(found.problems, reviews) or "This request contains no submission.\n"
    if is_set("json"):
        _print_json(found.problems, reviews)
    if github:
        for line in annotations[:10]:  # GitHub shows no more for a step
            echo(line, wrap=False)
        with open(os.environ.get("GITHUB_STEP_SUMMARY", os.devnull), "a", encoding="utf-8") as handle:
            handle.write(text)
    elif not is_set("json"):
        echo(text, nl=False, wrap=False)
    click.get_current_context().exit(1 if found.problems or not all(each.ok for each in reviews) else 0)


@review.command()
@click.argument("folder", type=_options.EXISTING_FOLDER)
@_options.options_of(_Board)
@_options.with_options
def queue(
    folder: Path,
    results: Path = option(
        REQUIRED,
        "Folder for the outcomes, with a subfolder for each author.",
        type=_options.FOLDER,
    ),
    **given: Any,
) -> None:
    """Review submissions in FOLDER/AUTHOR/, and write the outcomes to RESULTS/AUTHOR/.

    An outcome contains scores and counts, or faults, but never labels or details of individual answers.
    Valid submissions are moved to --submissions, and refused submissions to .refused/ in that folder.
    Submissions whose names begin with a dot are ignored, because they are still being uploaded.
    """
    from decabench.leaderboard import Review, SendingLimits, outcome_path, queue_fault, settle, take_queue

    board, reviews = _Board(**given), []
    limits = SendingLimits(board.largest, board.quota)
    for place in take_queue(folder, board.submissions):
        path, now = f"{place.parent.name}/{place.name}", datetime.now(UTC)
        if fault := queue_fault(place, results, now, limits):
            found = [Review(path, refusal=fault)]
        else:
            found = board.review(place.parents[1], path)
        is_valid = all(each.ok for each in found)
        outcome = outcome_path(results, place, now, is_valid)
        outcome.parent.mkdir(parents=True, exist_ok=True)
        outcome.write_text(_markdown([], found), encoding="utf-8")
        settle(place, board.submissions, is_valid)
        reviews += found
        echo(f"{path}: {found[0].place if is_valid else 'refused'}: {outcome}")
    if is_set("json"):
        _print_json([], reviews)


def _print_json(problems: Sequence[Problem], reviews: Sequence[Review]) -> None:
    from decabench.commands._documents import ReviewDocument

    print_json(ReviewDocument(problems=problems, reviews=reviews))


def _markdown(problems: Sequence[Problem], reviews: Sequence[Review]) -> str:
    from decabench.exchange import escape_markdown as plain  # authors control the text

    lines = [f"- {plain(f'{each.path}: {each.message}')}" for each in problems[:_MOST_SHOWN]]
    if len(problems) > _MOST_SHOWN:
        lines.append(f"- and {len(problems) - _MOST_SHOWN:,} more")
    for each in reviews:
        lines += ["", f"## {plain(each.path)}: {plain(each.place if each.ok else 'refused')}", ""]
        lines += [f"{plain(each.refusal[:1].upper() + each.refusal[1:])}.", ""] if each.refusal else []
        lines += [*(f"- {plain(line)}" for line in each.listing[:_MOST_SHOWN]), ""]
        if each.scores:
            lines.append("| task | score | 95% | before | best other | difference | p | answers |")
            lines.append("|---|--:|--:|--:|--:|--:|--:|---|")
        for one in each.scores:
            cells = (one.task, one.score, one.interval, one.before, one.best, one.difference, one.p)
            lines.append(f"| {' | '.join(map(plain, (*cells, one.counts)))} |")
    return "\n".join(lines).strip("\n") + "\n" if lines else ""


def _annotations(sent: Path, request: PullRequest, reviews: Sequence[Review]) -> list[str]:
    """Return GitHub workflow commands that annotate files with their faults, errors first."""
    lines = [_annotation("error", each.path, None, "request", each.message) for each in request.problems]
    for each in reviews:
        place = f"{request.prefix}{each.path}"
        if each.refusal:
            lines.append(_annotation("error", place, None, "refused", each.refusal))
        for level, faults in (("error", each.faults), ("warning", each.warnings)):
            for fault in faults:
                is_inside = fault.file and (sent / each.path).is_dir()
                path = f"{place}/{fault.file}" if is_inside else place
                lines.append(_annotation(level, path, fault.line, fault.code, fault.message))
    return sorted(lines, key=lambda line: not line.startswith("::error"))


def _annotation(level: str, path: str, line: int | None, title: str, message: str) -> str:
    """Return a workflow command, escaping characters that could end it or begin another command."""

    def escaped(text: str, *more: str) -> str:
        for character in ("%", "\r", "\n", *more):
            text = text.replace(character, f"%{ord(character):02X}")
        return text

    place = "" if line is None else f",line={line}"
    return f"::{level} file={escaped(path, ':', ',')}{place},title={title}::{escaped(message)}"
