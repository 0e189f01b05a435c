"""`decabench review`: request, queue. Submissions from others are only read as data, and never executed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from decabench.commands._console import echo, is_set, print_json
from decabench.commands._options import (
    SCORED_SPLITS,
    complete_suite,
    home_option,
    include_option,
    split_option,
)

if TYPE_CHECKING:
    from decabench.leaderboard import Problem, PullRequest, Review, SendingLimits

__all__ = ["review"]

_MOST_SHOWN = 40
_MOST_ANNOTATIONS = 10
"""The maximum number of errors that GitHub shows for a step."""


class _Board(NamedTuple):
    """The board that receives submissions, and the limits for authors."""

    submissions: Path
    suite: str | None
    split: str
    quota: tuple[int, int] | None
    largest: int
    seconds: float
    home: Path | None
    include: tuple[Path, ...]

    @property
    def limits(self) -> SendingLimits:
        """How much an author may send."""
        from decabench.leaderboard import SendingLimits

        return SendingLimits(self.largest, self.quota)

    def review(self, sent: Path, path: str) -> list[Review]:
        """Check and score the submissions at a path in the folder `sent`."""
        from decabench.leaderboard import BoardOptions, review_submissions

        options = BoardOptions(self.home, [self.suite] if self.suite else (), self.include)
        return review_submissions(sent, path, self.submissions, self.split, options, self.seconds)


@click.group()
def review() -> None:
    """Check and score submissions from others, and show where they would rank."""


def _quota(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    if not (found := re.fullmatch(r"([1-9]\d{0,5})/([1-9]\d{0,4})", value)):
        raise click.BadParameter(f"write N/DAYS, such as 4/30, not {value!r}.")
    return int(found[1]), int(found[2])


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that both commands have, as the parameter `board`."""
    folder = click.Path(path_type=Path, file_okay=False)

    @wraps(command)
    def run(*arguments: Any, **given: Any) -> Any:
        board = _Board(**{name: given.pop(name) for name in _Board._fields})
        return command(*arguments, board=board, **given)

    for decorate in (
        include_option,
        home_option,
        click.option(
            "--seconds",
            type=click.FloatRange(min=0, min_open=True),
            default=600.0,
            show_default=True,
            help="Seconds allowed for checking and scoring one submission.",
        ),
        click.option(
            "--largest",
            type=click.IntRange(min=1),
            default=100,
            show_default=True,
            metavar="MB",
            help="Maximum size of a submission, in megabytes.",
        ),
        click.option(
            "--quota",
            callback=_quota,
            metavar="N/DAYS",
            help="Accept at most N submissions per author within DAYS days.",
        ),
        split_option("validation", "Split to score.", SCORED_SPLITS),
        click.option(
            "--suite",
            metavar="NAME",
            shell_complete=complete_suite,
            help="The suite of the board.  [default: that in --include, else decathlon]",
        ),
        click.option("--submissions", required=True, type=folder, help="The board's folder of submissions."),
    ):
        run = decorate(run)
    return run


@review.command()
@click.argument("commit")
@_options
@click.option("--owner", metavar="NAME", help="Refuse a request that changes a folder other than NAME.")
@click.option(
    "--github",
    is_flag=True,
    help="Print faults as annotations, and append the summary to $GITHUB_STEP_SUMMARY.",
)
@click.pass_context
def request(
    context: click.Context,
    commit: str,
    board: _Board,
    owner: str | None,
    github: bool,
) -> None:
    """Review a pull request, whose last commit is COMMIT, in a clone of the board's repository.

    Check out the commit to merge into first. The request may change only one folder in --submissions, its
    author's. Only the submissions there are checked and scored; the ledger remembers the scores of all others.
    The request's files are read from git, and never checked out. Exits with 1 if the request must not be
    merged.
    """
    from decabench.files import temporary_folder
    from decabench.leaderboard import read_request

    with temporary_folder() as sent:
        found = read_request(sent, board.submissions, commit, owner, board.limits)
        reviews = board.review(sent, found.folder) if found.folder and not found.problems else []
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
    context.exit(1 if found.problems or not all(each.ok for each in reviews) else 0)


@review.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@_options
@click.option(
    "--results",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the outcomes, which authors receive.",
)
def queue(
    folder: Path,
    board: _Board,
    results: Path,
) -> None:
    """Review submissions in FOLDER/AUTHOR/, and write the outcomes to RESULTS/AUTHOR/.

    An outcome has scores and counts, or faults, but never labels or anything about single answers. Valid submissions
    move into --submissions, and refused ones into .refused/ there. Names that begin with a dot are ignored, because
    they are still being uploaded.
    """
    from decabench.leaderboard import Review, outcome_path, queue_fault, settle, take_queue

    reviews = []
    for place in take_queue(folder, board.submissions):
        author, now = place.parent.name, datetime.now(UTC)
        path = f"{author}/{place.name}"
        fault = queue_fault(place, results / author, now, board.limits)
        found = [Review(path, refusal=fault)] if fault else board.review(place.parents[1], path)
        is_valid = all(each.ok for each in found)
        outcome = outcome_path(results, place, now, is_valid)
        outcome.parent.mkdir(parents=True, exist_ok=True)
        outcome.write_text(_markdown([], found), encoding="utf-8")
        settle(place, board.submissions, is_valid)
        reviews += found
        echo(f"{path}: {found[0].place if is_valid else 'refused'}: {outcome}")
    if is_set("json"):
        _print_json([], reviews)


# The outcome


def _print_json(problems: Sequence[Problem], reviews: Sequence[Review]) -> None:
    from decabench.commands._documents import ReviewDocument

    print_json(ReviewDocument(problems=problems, reviews=reviews))


def _markdown(problems: Sequence[Problem], reviews: Sequence[Review]) -> str:
    """Return the outcome as Markdown, with all of the author's text escaped."""
    from decabench.exchange import escape_markdown as plain

    lines = [f"- {plain(f'{each.path}: {each.message}')}" for each in problems[:_MOST_SHOWN]]
    if more := len(problems) - _MOST_SHOWN:
        lines += [f"- and {more:,} more"] if more > 0 else []
    for each in reviews:
        verdict = each.place if each.ok else "refused"
        lines += ["", f"## {plain(each.path)}: {plain(verdict)}", ""]
        lines += [f"{plain(each.refusal[:1].upper() + each.refusal[1:])}.", ""] if each.refusal else []
        lines += [*(f"- {plain(line)}" for line in each.listing[:_MOST_SHOWN]), ""]
        if each.scores:
            lines += [
                "| task | score | 95 % | before | best other | difference | p | answers |",
                "|---|--:|--:|--:|--:|--:|--:|---|",
            ]
        for one in each.scores:
            cells = (
                one.task,
                one.score,
                one.interval,
                one.before,
                one.best,
                one.difference,
                one.p,
                one.counts,
            )
            lines.append(f"| {' | '.join(map(plain, cells))} |")
    return "\n".join(lines).strip("\n") + "\n" if lines else ""


def _annotations(sent: Path, request: PullRequest, reviews: Sequence[Review]) -> list[str]:
    """Return workflow commands, errors first, which GitHub shows next to the files."""
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
    """Return one workflow command. Everything that could end it, or begin another command, is escaped."""

    def escaped(text: str, *more: str) -> str:
        for character in ("%", "\r", "\n", *more):
            text = text.replace(character, f"%{ord(character):02X}")
        return text

    place = "" if line is None else f",line={line}"
    return f"::{level} file={escaped(path, ':', ',')}{place},title={title}::{escaped(message)}"
