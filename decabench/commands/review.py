"""`decabench review`: request, queue. Submissions from other people are read as data and never executed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from decabench.commands._console import (
    SCORED_SPLITS,
    complete_suite,
    echo,
    home_option,
    include_option,
    is_set,
    number_option,
    print_json,
    split_option,
)

if TYPE_CHECKING:
    from decabench.leaderboard import Problem, PullRequest, Review

_MOST_SHOWN = 40
_MOST_ANNOTATIONS = 10
"""The maximum number of errors that GitHub shows for a step."""


@click.group()
def review() -> None:
    """Check and score submissions from other people, and show where they would rank."""


def _quota(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    if not (found := re.fullmatch(r"([1-9]\d{0,5})/([1-9]\d{0,4})", value)):
        raise click.BadParameter(f"{value!r} must have the form N/DAYS, such as 4/30.")
    return int(found[1]), int(found[2])


_OPTIONS = (
    click.option(
        "--submissions",
        required=True,
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder with the board's submissions.",
    ),
    click.option(
        "--suite",
        metavar="NAME",
        shell_complete=complete_suite,
        help="Suite that the board ranks.  [default: the suite in --include, else decathlon]",
    ),
    split_option("validation", "Split to score.", SCORED_SPLITS),
    click.option(
        "--quota",
        callback=_quota,
        metavar="N/DAYS",
        help="Accept at most N submissions per author within DAYS days.",
    ),
    number_option("--largest", 100, "Maximum size of a submission in megabytes.", metavar="MB"),
    number_option("--seconds", 600.0, "Seconds allowed for checking and scoring one submission."),
    home_option,
    include_option,
)
"""The options of both commands."""


def _board_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _review(
    sent: Path,
    path: str,
    submissions: Path,
    suite: str | None,
    split: str,
    seconds: float,
    home: Path | None,
    include: tuple[Path, ...],
) -> list[Review]:
    from decabench.leaderboard import BoardOptions, review_submissions

    options = BoardOptions(home, [suite] if suite else (), include)
    return review_submissions(sent, path, submissions, split, options, seconds)


@review.command()
@click.argument("commit")
@_board_options
@click.option("--owner", metavar="NAME", help="Refuse a request that changes any folder other than NAME.")
@click.option(
    "--github",
    is_flag=True,
    help="Print faults as GitHub annotations, and append the summary to $GITHUB_STEP_SUMMARY.",
)
def request(
    commit: str,
    submissions: Path,
    owner: str | None,
    github: bool,
    largest: int,
    quota: tuple[int, int] | None,
    **board: Any,
) -> None:
    """Review a pull request in a clone of the board's repository. COMMIT is the request's last commit.

    First check out the commit that the request would be merged into. The request may change only its author's
    folder in --submissions. Only the submissions in that folder are checked and scored; all other scores come
    from the ledger. The request's files are read from git and never checked out. Exits with 1 if the request
    must not be merged.
    """
    from decabench.files import temporary_folder
    from decabench.leaderboard import SendingLimits, read_request

    with temporary_folder() as sent:
        found = read_request(sent, submissions, commit, owner, SendingLimits(largest, quota))
        is_readable = found.folder and not found.problems
        reviews = _review(sent, found.folder, submissions, **board) if is_readable else []
        annotations = _annotations(sent, found, reviews)
    text = _markdown(found.problems, reviews) or "This request contains no submission.\n"
    if is_set("json"):
        _print_json(found.problems, reviews)
    if github:
        for line in annotations[:_MOST_ANNOTATIONS]:
            echo(line)
        with open(os.environ.get("GITHUB_STEP_SUMMARY", os.devnull), "a", encoding="utf-8") as handle:
            handle.write(text)
    elif not is_set("json"):
        echo(text, nl=False)
    click.get_current_context().exit(1 if found.problems or not all(each.ok for each in reviews) else 0)


@review.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@_board_options
@click.option(
    "--results",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the outcomes, which are meant for the authors.",
)
def queue(
    folder: Path,
    submissions: Path,
    results: Path,
    largest: int,
    quota: tuple[int, int] | None,
    **board: Any,
) -> None:
    """Review submissions in FOLDER/AUTHOR/, and write the outcomes to RESULTS/AUTHOR/.

    An outcome contains scores and counts, or faults, but never labels or anything about single answers. Valid
    submissions are moved to --submissions, and refused submissions to .refused/ in that folder. Submissions whose
    names begin with a dot are ignored, because they are still being uploaded.
    """
    from decabench.leaderboard import Review, SendingLimits, outcome_path, queue_fault, settle, take_queue

    reviews = []
    for place in take_queue(folder, submissions):
        path, now = f"{place.parent.name}/{place.name}", datetime.now(UTC)
        if fault := queue_fault(place, results, now, SendingLimits(largest, quota)):
            found = [Review(path, refusal=fault)]
        else:
            found = _review(place.parents[1], path, submissions, **board)
        is_valid = all(each.ok for each in found)
        outcome = outcome_path(results, place, now, is_valid)
        outcome.parent.mkdir(parents=True, exist_ok=True)
        outcome.write_text(_markdown([], found), encoding="utf-8")
        settle(place, submissions, is_valid)
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
    """Return GitHub workflow commands that show faults next to the files, errors first."""
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
