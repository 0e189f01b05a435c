"""Review submissions to a board from a pull request or a queue: read, check, score and rank them.

All submitted data is untrusted. The files of a pull request are read from git as blobs, because a
checkout could follow links or run filters. Submissions in a queue are first moved to a folder that their
author can't access. Reviews never contain labels or say whether an answer is right, and scores are rounded
as on the pages.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import TimeoutError
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from multiprocessing import active_children
from pathlib import Path

from decabench.errors import DecabenchError, MissingDataError
from decabench.files import as_paths
from decabench.leaderboard.entries import Board, Column, Entry, Row, Standings
from decabench.leaderboard.scores import BoardOptions, find_submissions, group_runs, score_submissions
from decabench.leaderboard.site import make_keeper, rank_entries
from decabench.scoring import PairTests, ScoringOptions, score_submission, show_p
from decabench.submission import Fault, check_submission
from decabench.tasks import Store, known_tasks
from decabench.workers import process_pool

_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""Matches the folder names that are accepted, which never need to be quoted in a shell."""
_NAMING = (
    "must start with a letter or digit, contain only letters, digits, dots, hyphens and underscores, and have at most "
    "100 characters"
)
_MOST_FILES = 1_000
_PLAIN = "send only regular files, without links or Git repositories"
_REFUSED = ".refused"


@dataclass(frozen=True)
class SendingLimits:
    """Limits on an author's submissions."""

    megabytes: int = 100
    """The maximum total size of a submission's files, in MB (1,000,000 bytes)."""
    quota: tuple[int, int] | None = None
    """(n, days): at most n submissions within that many days. None means no limit."""

    def faults(self, files: int, size: int, used: int) -> list[str]:
        """Return a message for each limit that is exceeded.

        Args:
            files: The number of files.
            size: Their total size in bytes.
            used: The number of earlier submissions that count toward the quota.
        """
        faults = []
        if self.quota and used >= self.quota[0]:
            limit, days = self.quota
            within = f"{days} day" if days == 1 else f"{days} days"
            faults.append(
                f"you have reached your limit of submissions ({limit} in {within}); try again later"
            )
        if files > _MOST_FILES or size > 1_000_000 * self.megabytes:
            faults.append(
                f"it has more than {_MOST_FILES:,} files or is larger than {self.megabytes:,} MB; send only answers"
            )
        return faults


# Pull requests


@dataclass(frozen=True)
class Problem:
    """A problem with the pull request itself."""

    path: str
    """The path of the affected file or folder in the repository."""
    message: str
    """A description of the problem, and how to fix it."""


@dataclass(frozen=True)
class PullRequest:
    """The contents of a pull request."""

    prefix: str
    """The path of the folder of submissions in the repository, for example `submissions/`."""
    folder: str
    """The changed folder, relative to the folder of submissions. Empty if there is nothing to review."""
    problems: Sequence[Problem]
    """The problems found. If there are any, no files were written."""


def read_request(
    into: Path, submissions: Path, commit: str, owner: str | None, limits: SendingLimits
) -> PullRequest:
    """Copy the folder that a pull request changes into `into`, and return the request with its problems.

    If there are problems, no files are written.

    Args:
        into: The output folder. For example, `alice/mqan/submission.toml` is written there.
        submissions: The board's folder of submissions, in a clone of its repository.
        commit: The last commit of the pull request, which would be merged into the checked-out commit.
        owner: The only folder that the request may change, or None for any single folder.
        limits: The maximum size, and the quota of merged changes to the same folder.

    Raises DecabenchError if git fails.
    """

    def git(*arguments: str) -> bytes:
        try:
            done = subprocess.run(["git", "-C", submissions, *arguments], capture_output=True, check=False)
        except OSError as error:
            raise DecabenchError(f"git can't be started ({error.strerror}). Install git.") from error
        if done.returncode:
            reason = done.stderr.decode(errors="replace").strip().rstrip(".") or "no reason given"
            raise DecabenchError(f"git {arguments[0]} failed: {reason}. Check the commits and the folder.")
        return done.stdout

    def git_line(*arguments: str) -> str:
        return git(*arguments).decode().rstrip("\n")

    prefix = git_line("rev-parse", "--show-prefix")
    first, last = (
        git_line("rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")
        for name in ("HEAD", commit)
    )
    fork = git_line("merge-base", first, last)
    found = git("diff-tree", "-r", "--no-renames", "--name-only", "-z", fork, last)
    changed = [os.fsdecode(path) for path in found.split(b"\0") if path]
    inside = [path.removeprefix(prefix) for path in changed if path.startswith(prefix)]
    folders = sorted({path.partition("/")[0] for path in inside if "/" in path})
    if not folders:
        return PullRequest(
            prefix,
            "",
            [Problem(f"{prefix}{path}", f"put the file into a folder in {prefix}") for path in inside],
        )
    folder = next((each for each in folders if owner and each.casefold() == owner.casefold()), folders[0])
    own = f"{prefix}{folder}/"
    problems = [
        Problem(path, f"a pull request may only change files in {own}")
        for path in changed
        if not path.startswith(own)
    ]
    if not _FOLDER.fullmatch(folder):
        problems.append(Problem(own, f"the name of the folder {_NAMING}"))
    elif owner and folder.casefold() != owner.casefold():
        problems.append(Problem(own, f"your folder is {prefix}{owner}/; move everything there"))
    blobs, size = {}, 0
    for line in git("ls-tree", "-rzl", "--full-tree", last, own).split(b"\0")[:-1]:
        head, _, name = line.partition(b"\t")
        mode, _, blob, length = head.decode().split()
        path = os.fsdecode(name)
        blobs[path] = blob
        size += int(length) if length.isdecimal() else 0
        if mode not in ("100644", "100755") or not {"", ".", "..", ".git"}.isdisjoint(path.split("/")):
            problems.append(Problem(path, _PLAIN))
    used = 0
    if limits.quota:
        since = f"--since={limits.quota[1]}.days"
        used = git("log", "--first-parent", since, "--format=%H", first, "--", folder).count(b"\n")
    problems += [Problem(own, fault) for fault in limits.faults(len(blobs), size, used)]
    for path, blob in () if problems else blobs.items():
        target = into / path.removeprefix(prefix)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(git("cat-file", "blob", blob))
    return PullRequest(prefix, folder if blobs else "", problems)


# Queues


def take_queue(queue: Path, submissions: Path) -> list[Path]:
    """Move new submissions to a folder that their authors can't access, and return their paths.

    Submissions left by an interrupted run are included. Each path ends in `<author>/<name>`. Names that
    begin with a dot are skipped, because they are still being uploaded.
    """

    def waiting(folder: Path) -> list[Path]:
        authors = [
            path
            for path in folder.iterdir()
            if path.is_dir() and not path.is_symlink() and _FOLDER.fullmatch(path.name)
        ]
        return sorted(
            path for author in authors for path in author.iterdir() if not path.name.startswith(".")
        )

    taken = submissions / ".taken"
    taken.mkdir(parents=True, exist_ok=True)
    for place in waiting(queue):
        _move(place, taken)
    return waiting(taken)


def queue_fault(place: Path, results: Path, now: datetime, limits: SendingLimits) -> str:
    """Return the reason for refusing a queued submission without opening it, or an empty string if there is none.

    `results` is the folder with the outcomes of earlier submissions.
    """
    if not _FOLDER.fullmatch(place.name):
        return f"its name {_NAMING}"
    files = [place, *place.rglob("*")] if place.is_dir() and not place.is_symlink() else [place]
    for path in files:
        if path.is_symlink() or not (path.is_file() or path.is_dir()) or path.name.casefold() == ".git":
            return _PLAIN
    used = 0
    if limits.quota:
        begin = _stamp(now - timedelta(days=limits.quota[1]))
        outcomes = (results / place.parent.name).glob("*.md")
        used = sum(path.name >= begin and not path.stem.endswith(_REFUSED) for path in outcomes)
    size = sum(path.stat().st_size for path in files if path.is_file())
    return next(iter(limits.faults(len(files), size, used)), "")


def outcome_path(results: Path, place: Path, now: datetime, is_valid: bool) -> Path:
    """Return the path for a submission's outcome, for example `results/alice/2026-11-29T060000-mqan.md`."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", place.name)[:100]
    return results / place.parent.name / f"{_stamp(now)}-{name}{'' if is_valid else _REFUSED}.md"


def settle(place: Path, submissions: Path, is_valid: bool) -> None:
    """Move a submission to the folder of accepted or refused submissions, replacing an earlier version."""
    _move(place, submissions if is_valid else submissions / _REFUSED)


def _stamp(now: datetime) -> str:
    return f"{now:%Y-%m-%dT%H%M%S}"


def _move(place: Path, folder: Path) -> None:
    target = folder / place.parent.name / place.name
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(place, target)


# Reviews


@dataclass(frozen=True)
class ReviewedScore:
    """A score compared with the board's scores. Numbers are formatted as on the pages, and empty if missing."""

    task: str
    """The task, or the name of the suite's total."""
    score: str
    """The score, or the reason why there is no score."""
    interval: str = ""
    """The 95% interval of the score."""
    before: str = ""
    """The score of the earlier submission that this submission replaces."""
    best: str = ""
    """The best score among the other systems."""
    difference: str = ""
    """The score minus the best score of the other systems."""
    p: str = ""
    """The two-sided p-value of `difference`, adjusted for multiple comparisons across all pairs on the board."""
    counts: str = ""
    """The number of scored answers, and how many of them are empty."""


@dataclass(frozen=True)
class Review:
    """The result of checking and scoring a submission."""

    path: str
    """The submission's path in the folder of submissions, for example `alice/mqan`."""
    faults: Sequence[Fault] = ()
    """The faults that make the submission invalid, at most 20 of each kind per file."""
    warnings: Sequence[Fault] = ()
    """Warnings that don't make the submission invalid."""
    listing: Sequence[str] = ()
    """Faults, warnings and the number of answers, as printed by `decabench check`."""
    refusal: str = ""
    """Why the submission has no score although its files have no faults. Empty otherwise."""
    place: str = ""
    """The place, for example `rank 2 of 7` or `rank 2 (1 to 4) of 7`, or why the submission is not ranked."""
    scores: Sequence[ReviewedScore] = ()
    """The scores, starting with the total."""

    @property
    def ok(self) -> bool:
        """Whether the submission can be added to the board."""
        return not self.faults and not self.refusal


def review_submissions(
    sent: Path, path: str, submissions: Path, split: str, options: BoardOptions, seconds: float
) -> list[Review]:
    """Review a submission, or a folder of submissions, as if it were at the same path on the board.

    Args:
        sent: The folder that contains `path`.
        path: The path in that folder and in the board's folder of submissions: `alice` or `alice/mqan`.
        submissions: The board's folder of submissions. Its faulty submissions are left out.
        split: The split to score.
        options: The suite, data and tasks of the board.
        seconds: The time limit for checking and scoring each submission.

    Raises MissingDataError if the data is not prepared, and UnknownNameError for an unknown suite.
    """
    keeper = make_keeper(replace(options, splits=(split,)))
    suite = keeper.suites[0]
    if not any(keeper.record(task, split) for task in suite.tasks):
        raise MissingDataError(
            f"No labeled {split} data is prepared for {suite.name}. Run decabench prepare --suite {suite.name}."
        )

    def is_sent(other: str) -> bool:
        return other == path or other.startswith(f"{path}/")

    top, paths, unread = find_submissions(sent)
    reviews = {each.path: Review(each.path, refusal=each.reason) for each in unread if is_sent(each.path)}
    scoring = ScoringOptions(split, suite.tasks, options.home, include=as_paths(options.include), suite=suite)
    for each in filter(is_sent, paths):
        reviews[each] = _examine_in_time(top / each, each, scoring, seconds)
    if not reviews:
        return [Review(path, refusal="it contains no submission; add submission.toml and predictions/")]
    valid = [each for each in paths if each in reviews and reviews[each].ok]
    entries, refused = score_submissions(top, valid, keeper)
    for refusal in refused:
        known = reviews.get(refusal.path, Review(refusal.path))
        reviews[refusal.path] = replace(known, refusal=refusal.reason)
    if entries:
        folder, others, _ = find_submissions(submissions)
        old, _ = score_submissions(folder, others, keeper)
        kept = [each for each in old if not is_sent(each.submission)]
        in_order = sorted([*kept, *entries], key=lambda entry: entry.submission)  # the board's order
        board = rank_entries(suite, group_runs(in_order, keeper), keeper)
        before = {each.submission: each for each in old}
        rows = {row.entry.submission: (table, row) for table in board.tables for row in table.all_rows}
        for each in (each for each in valid if reviews[each].ok):
            if each in rows:
                table, row = rows[each]
                scores = tuple(_review_scores(board, table, row, before.get(each)))
                reviews[each] = replace(reviews[each], place=_describe_place(table, row), scores=scores)
            else:
                reviews[each] = replace(
                    reviews[each], refusal=f"it has no answers to any task in {suite.name}"
                )
    return [reviews[each] for each in sorted(reviews)]


def _examine_in_time(place: Path, path: str, options: ScoringOptions, seconds: float) -> Review:
    """Check and score a submission in a process that is killed after `seconds`."""
    others = active_children()
    try:
        with process_pool(1) as pool:
            return pool.submit(_examine, place, path, options).result(seconds)
    except TimeoutError:
        for child in (each for each in active_children() if each not in others):
            child.join(5.0)
            child.kill()
        return Review(path, refusal=f"it took more than {seconds:g} seconds to check and score")


def _examine(place: Path, path: str, options: ScoringOptions) -> Review:
    """Check a submission. If it has no faults, score it, which also adds the scores to the ledger."""
    split, tasks = options.split, options.tasks or ()
    store, known = Store(options.home), known_tasks(as_paths(options.include))
    records = {task: found[split] for task in tasks if split in (found := store.records(task))}
    ids = {(task, split): tuple(store.ids(task, split)) for task in records}
    stated = {(task, split): record.stated for task, record in records.items()}
    report = check_submission(place, ids, known, splits=[split], fingerprints=stated, store=store)
    others = {count.file for count in report.files if count.task not in tasks}
    faults = [fault for fault in report.faults if fault.code != "no-data" or fault.file not in others]
    report = replace(report, submission=path, faults=tuple(faults))
    review = Review(path, report.faults, report.warnings, report.text().splitlines()[:-1])
    answered = [task for task in tasks if any(count.task == task for count in report.files)]
    if not faults and answered:
        try:
            score_submission(place, replace(options, tasks=answered))
        except DecabenchError as error:
            return replace(review, refusal=str(error).rstrip("."))
    return review


def _describe_place(table: Standings, row: Row) -> str:
    system = table.find_system(row)
    if system is not None:
        return f"{_describe_place(table, system)}, as the mean of {len(system.runs)} runs"
    if row.place is None:
        return "; ".join(
            (f"not ranked: {row.entry.apart}" if row.entry.apart else "not ranked", *row.remarks)
        )
    ranks = f" ({row.place.best} to {row.place.worst})" if row.place.span else ""
    return f"rank {row.place.rank}{ranks} of {table.ranked}"


def _review_scores(board: Board, table: Standings, row: Row, before: Entry | None) -> Iterator[ReviewedScore]:
    whole = table.find_system(row) or row
    system = next((at for at, each in enumerate(table.rows) if each is whole), None)
    own = None if system is None else next(at for at, each in enumerate(table.compared_rows) if each is row)

    def compare(
        shown: ReviewedScore,
        scale: Board | Column,
        mine: float | None,
        earlier: float | None,
        values: Sequence[float | None],
        tests: PairTests | None,
    ) -> ReviewedScore:
        others = {at: value for at, value in enumerate(values) if value is not None and at != system}
        best = (max if scale.higher_is_better else min)(others, key=others.__getitem__, default=None)
        difference, p = "", ""
        if best is not None and own is not None and mine is not None:
            difference = f"{mine - others[best]:+.{scale.digits}f}"
            if tests is not None and tests.is_tested(best, own):
                p = show_p(float(tests.adjusted[best, own]))
        return replace(
            shown,
            before="" if earlier is None else scale.show(earlier),
            best="" if best is None else scale.show(others[best]),
            difference=difference,
            p=p,
        )

    if row.value is not None:
        earlier = before.total if before and table.is_whole else None
        total = ReviewedScore(table.total_name, row.total, row.interval_text)
        yield compare(
            total, board, row.value, earlier, [each.value for each in table.rows], table.tests.total
        )
    for column, cell in zip(board.columns, row.cells, strict=True):
        result = row.entry.tasks.get(cell.task)
        counts = f"{result.n:,} answers, {result.empty:,} empty" if result and cell.text else ""
        score = ReviewedScore(cell.task, cell.text or cell.label, cell.interval, counts=counts)
        known = [each.entry.score(cell.task) for each in table.rows]
        earlier = before.score(cell.task) if before else None
        yield compare(score, column, cell.value, earlier, known, table.tests.tasks.get(cell.task))
