"""Reviews submissions to a board: checks and scores them, and shows where they would rank.

Reviews never contain labels or say whether an answer is right. Figures have the same digits as on the pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import TimeoutError
from dataclasses import dataclass, replace
from multiprocessing import active_children
from pathlib import Path

from decabench.errors import DecabenchError, MissingDataError
from decabench.files import as_paths
from decabench.leaderboard.entries import Entry
from decabench.leaderboard.scores import find_submissions, score_submissions
from decabench.leaderboard.site import BoardOptions, make_keeper, rank_entries
from decabench.leaderboard.standings import Board, Row, Standings
from decabench.scoring import PairTests, ScoringOptions, score_submission, show_p
from decabench.submission import Fault, check_submission
from decabench.tasks import Store, Suite, home_folder, known_tasks
from decabench.workers import process_pool

__all__ = ["Review", "ReviewedScore", "review_submissions"]


@dataclass(frozen=True)
class ReviewedScore:
    """A score next to the board's; figures are formatted as on the pages, and empty if missing."""

    task: str
    """The task, or the name of the suite's total."""
    score: str
    """The score, or the reason why there is none."""
    interval: str = ""
    """Its 95 % interval."""
    before: str = ""
    """The score of the submission that it replaces."""
    best: str = ""
    """The best score of any other system."""
    difference: str = ""
    """The score minus the best other score."""
    p: str = ""
    """The two-sided p of that difference, adjusted for all pairs of the board."""
    counts: str = ""
    """How many answers were scored, and how many of them are empty."""


@dataclass(frozen=True)
class Review:
    """A submission that was sent, checked and scored."""

    path: str
    """Its path among the submissions: `alice/mqan`."""
    faults: Sequence[Fault] = ()
    """Its faults; the first 20 of each kind in each file."""
    warnings: Sequence[Fault] = ()
    """Oddities that leave it valid."""
    listing: Sequence[str] = ()
    """Faults, warnings and the number of answers, as printed by `decabench check`."""
    refusal: str = ""
    """Why it has no score, if no file is at fault; empty otherwise."""
    place: str = ""
    """Its place: `rank 2 of 7`, `rank 2 (1 to 4) of 7`, or why it is not ranked."""
    scores: Sequence[ReviewedScore] = ()
    """Its scores, the total first."""

    @property
    def ok(self) -> bool:
        """Whether it may go on the board."""
        return not self.faults and not self.refusal


def review_submissions(
    sent: Path, path: str, submissions: Path, split: str, options: BoardOptions, seconds: float
) -> list[Review]:
    """Review a submission, or a folder of submissions, as if it were at the same path on the board.

    Args:
        sent: The folder that contains it.
        path: Its path in that folder, and among the board's submissions: `alice` or `alice/mqan`.
        submissions: The board's submissions, which the ledger remembers. Faulty submissions are left out.
        split: The split to score.
        options: The suite, the data and the tasks of the board.
        seconds: How long checking and scoring one submission may take.

    Raises MissingDataError if the data is not prepared, UnknownNameError for an unknown suite.
    """
    keeper = make_keeper(replace(options, splits=(split,)))
    suite = keeper.suites[0]
    if not any(keeper.record(task, split) for task in suite.tasks):
        raise MissingDataError(
            f"No data of {suite.name}, {split}, is prepared with labels: run decabench prepare --suite {suite.name}."
        )
    top, paths, unread = find_submissions(sent)
    reviews = {
        each.path: Review(each.path, refusal=each.reason) for each in unread if _is_in(path, each.path)
    }
    for each in (each for each in paths if _is_in(path, each)):
        reviews[each] = _examine_in_time(top / each, each, suite, split, options, seconds)
    if not reviews:
        reviews[path] = Review(
            path, refusal="it contains no submission: add submission.toml and predictions/"
        )
    valid = [each for each in paths if each in reviews and reviews[each].ok]
    entries, refused = score_submissions(top, valid, keeper)
    for refusal in refused:
        known = reviews.get(refusal.path, Review(refusal.path))
        reviews[refusal.path] = replace(known, refusal=refusal.reason)
    if entries:
        folder, others, _ = find_submissions(submissions)
        old, _ = score_submissions(folder, others, keeper)
        kept = [each for each in old if not _is_in(path, each.submission)]
        board = rank_entries(suite, [*kept, *entries], keeper)
        before = {each.submission: each for each in old}
        for each in (each for each in valid if reviews[each].ok):
            reviews[each] = _with_scores(reviews[each], board, before.get(each))
    return [reviews[each] for each in sorted(reviews)]


def _is_in(folder: str, path: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")


_GRACE = 5.0
"""How many seconds a process has to end before it is killed."""


def _examine_in_time(
    place: Path, path: str, suite: Suite, split: str, options: BoardOptions, seconds: float
) -> Review:
    """Check and score a submission in a process that is ended when its time is up."""
    others = active_children()
    try:
        with process_pool(1) as pool:
            include = as_paths(options.include)
            return pool.submit(_examine, place, path, suite, split, options.home, include).result(seconds)
    except TimeoutError:
        for child in (each for each in active_children() if each not in others):
            child.join(_GRACE)
            child.kill()
        return Review(path, refusal=f"checking and scoring it takes more than {seconds:g} seconds")


def _examine(
    place: Path, path: str, suite: Suite, split: str, home: str | Path | None, include: Sequence[Path]
) -> Review:
    """Check a submission and, if it has no faults, score it, which puts its scores into the ledger."""
    store, known = Store(home_folder(home)), known_tasks(include)
    records = {task: found[split] for task in suite.tasks if split in (found := store.records(task))}
    ids = {(task, split): tuple(store.ids(task, split)) for task in records}
    stated = {(task, split): record.stated for task, record in records.items()}
    report = check_submission(place, ids, known, splits=[split], fingerprints=stated, store=store)
    others = {count.file for count in report.files if count.task not in suite.tasks}
    faults = [fault for fault in report.faults if fault.code != "no-data" or fault.file not in others]
    report = replace(report, submission=path, faults=tuple(faults))
    review = Review(path, report.faults, report.warnings, report.text().splitlines()[:-1])
    answered = [task for task in suite.tasks if any(count.task == task for count in report.files)]
    if not faults and answered:
        try:
            score_submission(place, ScoringOptions(split, answered, home, include=include, suite=suite))
        except DecabenchError as error:
            return replace(review, refusal=str(error).rstrip("."))
    return review


def _with_scores(review: Review, board: Board, before: Entry | None) -> Review:
    """Add a submission's scores and place on a board."""
    for table in board.tables:
        for row in table.all_rows:
            if row.entry.submission == review.path:
                return replace(review, place=_place(table, row), scores=_scores(board, table, row, before))
    return replace(review, refusal=f"it answers no task of {board.suite.name}")


def _place(table: Standings, row: Row) -> str:
    if row.place is None:
        return "; ".join(
            (f"not ranked: {row.entry.apart}" if row.entry.apart else "not ranked", *row.remarks)
        )
    ranks = f" ({row.place.best} to {row.place.worst})" if row.place.span else ""
    return f"rank {row.place.rank}{ranks} of {sum(each.place is not None for each in table.rows)}"


def _scores(board: Board, table: Standings, row: Row, before: Entry | None) -> tuple[ReviewedScore, ...]:
    found = []
    rows, columns = table.compared_rows, {column.name: column for column in board.columns}
    own = rows.index(row) if row in rows else None
    for cell in row.cells:
        column, result = columns[cell.task], row.entry.tasks.get(cell.task)
        known = [None if each.entry.apart else each.entry.score(cell.task) for each in table.rows]
        counts = f"{result.n:,} answers, {result.empty:,} empty" if result and cell.text else ""
        earlier = before.score(cell.task) if before else None
        other = _best(known, own, column.higher_is_better)
        tests = table.tests.tasks.get(cell.task)
        found.append(
            ReviewedScore(
                cell.task,
                cell.text or cell.label,
                cell.interval,
                "" if earlier is None else column.show(earlier),
                *_against(other, own, known, tests, column.digits),
                counts,
            )
        )
    if row.value is None:
        return tuple(found)
    totals = [each.value for each in table.rows]
    other = _best(totals, own, board.higher_is_better)
    earlier = before.total if before and table.is_whole else None
    total = ReviewedScore(
        table.total_name,
        row.total,
        row.interval_text,
        "" if earlier is None else board.show(earlier),
        *_against(other, own, totals, table.tests.total, board.digits),
    )
    return (total, *found)


def _best(scores: Sequence[float | None], own: int | None, higher_is_better: bool) -> int | None:
    """Return the index of the best score among the other rows."""
    known = {at: score for at, score in enumerate(scores) if score is not None and at != own}
    return (max if higher_is_better else min)(known, key=known.__getitem__, default=None)


def _against(
    other: int | None, own: int | None, scores: Sequence[float | None], tests: PairTests | None, digits: int
) -> tuple[str, str, str]:
    """Return the best other score, the difference from it, and the p of the difference."""
    if other is None or (best := scores[other]) is None:
        return "", "", ""
    mine = scores[own] if own is not None and own < len(scores) else None
    difference = "" if mine is None else f"{mine - best:+.{digits}f}"
    is_tested = mine is not None and own is not None and tests is not None and tests.is_tested(other, own)
    p = show_p(float(tests.adjusted[other, own])) if is_tested and tests is not None else ""
    return f"{best:.{digits}f}", difference, p
