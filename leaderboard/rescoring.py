"""Scores answers again, and remembers what was verified.

A record of a verification is kept beside the prepared data, never in a submission, whose author could have written it.
It is named after a digest of the results, statistics and answers, of the data, and of the code that scores, so that it
holds for these alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import decabench
from decabench.errors import DecabenchError, StorageError, SubmissionError
from decabench.files import atomic_file
from decabench.leaderboard.audit import (
    ContradictionError,
    FileDigests,
    differs_in_words,
    find_answers,
    refusal_reason,
    units_fit,
    with_intervals,
)
from decabench.leaderboard.entries import (
    Check,
    Entries,
    Entry,
    Refusal,
    TaskEntry,
    is_inside,
    printable_line,
)
from decabench.leaderboard.evidence import Evidence
from decabench.metrics import METRICS, Metric
from decabench.scoring import (
    ScoredTask,
    ScoringOptions,
    code_digest,
    numbers_agree,
    read_rows,
    score_submission,
    statistics_path,
)
from decabench.submission import FOLDER, METADATA_NAME, VARIANTS, WITHHELD, find_predictions
from decabench.tasks import TASKS, Store, known_tasks, number_units
from decabench.untrusted import read_json

__all__ = ["RECORD_FORMAT", "Verification", "only_verified", "verify_entries"]

RECORD_FORMAT = "decabench.verified/2"

NOT_AT_HAND = "its answers are not at hand"
OTHER_SCORE = (
    "it was scored by another version of the metric, and its answers have another score here: evaluate again"
)

_FOLDER = "verified"
_LARGEST_RECORD = 1 << 20


@dataclass(frozen=True)
class Verification:
    """How to verify entries."""

    home: Path
    """The folder of prepared data, which also holds the records."""
    again: bool = True
    """Whether to score what has no record; otherwise only records are used."""
    include: Sequence[Path] = ()
    """Files that define tasks."""
    jobs: int = 1
    """The number of processes."""
    report: Callable[[str], object] = str
    """Takes a line for each submission before its answers are scored, which may take long."""
    digests: FileDigests = field(default_factory=FileDigests)
    """FileDigests of the files that were read before."""

    @cached_property
    def tasks(self) -> Collection[str]:
        """The names of the tasks that are known."""
        return known_tasks(tuple(self.include)).keys()


def verify_entries(found: Entries, submissions: Path, evidence: Evidence, options: Verification) -> Entries:
    """Return the entries with their verified tasks marked, and those refused whose answers give other scores."""
    kept: list[Entry] = []
    refused = list(found.refused)
    for entry in found.entries:
        try:
            kept.append(_verify_entry(entry, submissions, evidence, options))
        except (ContradictionError, StorageError, OSError) as error:
            refused.append(Refusal(entry.path, refusal_reason(error, submissions)))
    return replace(
        found, entries=tuple(kept), refused=tuple(sorted(refused, key=lambda refusal: refusal.path))
    )


def _verify_entry(entry: Entry, submissions: Path, evidence: Evidence, options: Verification) -> Entry:
    place = find_answers(entry, submissions)
    stated = _stated_tasks(entry)
    if not stated or place is None:
        return entry
    answered = _answered(place)
    if left := _left_out(entry, answered or {}, Store(options.home)):
        raise ContradictionError(
            f"it leaves out {left}, though the answers are beside it: evaluate all of them, so that a task that failed "
            "is seen"
        )
    record = options.home / _FOLDER / f"{_digest(entry, submissions, place, options)}.json"
    hidden = {name for name in stated if evidence.hides(name, entry.split)}  # its statistics are not stored
    known = {name: verdict for name, verdict in _read_record(record).items() if name in {*stated} - hidden}
    verdicts: dict[str, _Verdict] = {}
    if options.again:
        lacking = {name: task for name, task in stated.items() if name not in known}
        reasons = _find_obstacles(entry, lacking, answered, options)
        verdicts = {name: _unverified(stated[name], reason) for name, reason in reasons.items()}
        at_hand = {name: task for name, task in lacking.items() if name not in reasons}
        if at_hand:
            verdicts |= _score_again(entry, at_hand, place, submissions, evidence, options)
        # The record's name holds for the code of this package alone, not for that of other tasks and metrics.
        own = {
            name: verdict
            for name, verdict in verdicts.items()
            if verdict.check.kind == "verified"
            and name in TASKS
            and stated[name].metric in METRICS
            and name not in hidden
        }
        if own:
            _write_record(record, known | own)
    verdicts |= known
    applied = {name: verdict.apply(stated[name]) for name, verdict in verdicts.items()}
    verified = replace(entry, tasks=dict(entry.tasks) | applied)
    return with_intervals(verified, evidence) if hidden else verified


def only_verified(found: Entries) -> Entries:
    """Refuse the entries with a score, also that of a limited run, that is not verified."""
    kept: list[Entry] = []
    refused = list(found.refused)
    for entry in found.entries:
        stated = _stated_tasks(entry)
        name = next((name for name, task in stated.items() if task.check.kind != "verified"), None)
        if name is None:
            kept.append(entry)
        else:
            check = stated[name].check
            reason = f"its score for {name} is not verified, but {check.kind} ({check.detail})"
            refused.append(Refusal(entry.path, printable_line(reason, 300)))
    return replace(
        found, entries=tuple(kept), refused=tuple(sorted(refused, key=lambda refusal: refusal.path))
    )


@dataclass(frozen=True)
class _Verdict:
    """What became of a score that was, or could not be, computed again."""

    check: Check
    """What it rests on now."""
    signature: str = ""
    """The signature of the metric that gave it here, if it is verified."""

    def apply(self, task: TaskEntry) -> TaskEntry:
        """Return the task with the check.

        A verified score is that of the metric here, whose table no statement of another signature takes it out of.
        """
        if not self.signature:
            return replace(task, check=self.check)
        signatures = {**task.signatures, task.metric: self.signature}
        return replace(
            task, check=self.check, signature=self.signature, signatures=signatures, is_current=True
        )


def _answered(place: Path) -> Collection[tuple[str, str]] | None:
    """Return the (task, split) pairs that have answers; None for an archive, which has to be unpacked to know."""
    if not place.is_dir():
        return None
    try:
        return find_predictions(place)[0].keys()
    except (DecabenchError, OSError):
        return ()


def _left_out(entry: Entry, answered: Collection[tuple[str, str]], store: Store) -> str:
    """Name a task of an entry's suite that has answers here, and their data, and no result."""
    for name in entry.suite.tasks:
        if (name, entry.split) in answered and name not in entry.tasks and entry.split in store.records(name):
            return name
    return ""


def _stated_tasks(entry: Entry) -> dict[str, TaskEntry]:
    return {name: task for name, task in entry.tasks.items() if task.any_score is not None}


# Records


def _digest(entry: Entry, submissions: Path, place: Path, options: Verification) -> str:
    """Compute a digest of everything that a verification is about."""
    store = Store(options.home)
    results = submissions / entry.path
    files = [results, *sorted((results.parent / "statistics").glob("*.parquet"))]
    files += [place] if place.is_file() else list(_answer_files(place))
    root = place.parent if place.is_file() else place  # so that it may be moved
    digest = hashlib.sha256(f"{RECORD_FORMAT}\n{entry.split}\n{code_digest()}\n".encode())
    for name in sorted(entry.tasks):
        with suppress(DecabenchError):  # what is not prepared cannot have been scored
            digest.update(f"{name}\t{store.record(name, entry.split).fingerprint}\n".encode())
    for path in files:
        if not path.is_file() or not is_inside(path, submissions):
            continue
        content = options.digests(path).removeprefix("sha256:")
        name = path.relative_to(root).as_posix()
        digest.update(f"{name}\t{content}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:40]


def _answer_files(folder: Path) -> Iterator[Path]:
    """Yield everything that decides how a submission is scored: what it says of itself, and all files of answers."""
    yield folder / METADATA_NAME
    for pattern in (f"{FOLDER}/*", f"{VARIANTS}/*/{FOLDER}/*", f"{WITHHELD}/*"):
        yield from sorted(folder.glob(pattern))


def _read_record(path: Path) -> dict[str, _Verdict]:
    """Return the verified tasks of a record; none if there is no usable one."""
    try:
        content = read_json(path, _LARGEST_RECORD)
        if content["format"] != RECORD_FORMAT:
            return {}
        check = _verified(content["decabench"], content["date"])
        return {name: _Verdict(check, signature) for name, signature in content["tasks"].items()}
    except (DecabenchError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _write_record(path: Path, verdicts: Mapping[str, _Verdict]) -> None:
    last = list(verdicts.values())[-1].check
    content = {
        "format": RECORD_FORMAT,
        "decabench": last.version,
        "date": last.date,
        "tasks": {name: verdict.signature for name, verdict in verdicts.items()},
    }
    with atomic_file(path) as file:
        file.write((json.dumps(content, indent=1, sort_keys=True) + "\n").encode())


def _verified(version: str, date: str) -> Check:
    return Check("verified", "its answers were scored again on the data", version, date)


# Scoring again


def _score_again(
    entry: Entry,
    scored: Mapping[str, TaskEntry],
    place: Path,
    submissions: Path,
    evidence: Evidence,
    options: Verification,
) -> dict[str, _Verdict]:
    """Score tasks whose answers and data are available; return a verdict on each task.

    The statistics of hidden labels become evidence, since no file has them.

    Raises ContradictionError if the answers give other scores than the file states, or are no valid submission.
    """
    verdicts: dict[str, _Verdict] = {}
    scoring = ScoringOptions(
        entry.split,
        list(scored),
        options.home,
        options.jobs,
        options.include,
        "raw" if entry.is_raw else "extracted",
    )
    examples = sum(task.rows for task in scored.values())
    tasks = f"{len(scored)} task{'s' if len(scored) > 1 else ''}"
    options.report(f"Verifying {entry.name} ({entry.split}): {tasks}, {examples:,} examples")
    try:
        results, found = score_submission(place, scoring)
    except (
        SubmissionError
    ) as error:  # a file more among the answers would otherwise keep wrong ones from being seen
        raise ContradictionError(
            f"its answers are no valid submission: {printable_line(str(error).rstrip('.'), 200)}"
        ) from error
    except (DecabenchError, MemoryError) as error:  # one submission must not end the board of all
        why = str(error) if isinstance(error, DecabenchError) else "there is not enough memory"
        reason = f"its answers could not be scored again: {printable_line(why, 200)}"
        return {name: _unverified(task, reason) for name, task in scored.items()}
    if fault := differs_in_words(entry, results.submission):
        raise ContradictionError(fault)
    today = datetime.now(UTC).date().isoformat()
    for name in scored:
        if name not in results.tasks:  # what an archive holds is known once it is unpacked
            verdicts[name] = _unverified(scored[name], NOT_AT_HAND)
            continue
        again = results.tasks[name]
        if again.status in _RUNS and again.status != scored[name].status:
            raise ContradictionError(
                f"its score for {name} is that of a {_RUNS[scored[name].status]} run, but its answers are those "
                f"of a {_RUNS[again.status]} run: evaluate again"
            )
        if again.status not in _RUNS:
            why = printable_line(again.reason, 120)
            raise ContradictionError(f"it states a score for {name}, but its answers cannot be scored: {why}")
        if fault := next(_other_answers(name, scored[name], found[name]), ""):
            raise ContradictionError(fault)
        if fault := next(_differences(name, scored[name], found[name]), ""):
            if again.signature == scored[name].signature:
                raise ContradictionError(fault)
            # Its statistics may agree with it: whoever states a signature of his own can have written both.
            verdicts[name] = _Verdict(Check(detail=OTHER_SCORE))
            continue
        path = statistics_path((submissions / entry.path).parent, name)
        if scored[name].check.kind == "consistent" and options.digests(path) != found[name].statistics:
            _compare_statistics(name, path, evidence.metrics[scored[name].metric], found[name])
        sample = found[name].sample
        if evidence.hides(name, entry.split) and again.status == "scored" and sample is not None:
            evidence.keep(entry, name, sample.metric, found[name].units, found[name].rows)
        verdicts[name] = _Verdict(_verified(decabench.__version__, today), again.signature)
    return verdicts


_RUNS = {"scored": "whole", "partial": "limited"}


def _unverified(task: TaskEntry, reason: str) -> _Verdict:
    return _Verdict(replace(task.check, detail=f"{task.check.detail}; not verified: {reason}"))


def _find_obstacles(
    entry: Entry,
    scored: Mapping[str, TaskEntry],
    answered: Collection[tuple[str, str]] | None,
    options: Verification,
) -> dict[str, str]:
    """Return why tasks cannot be scored again, by name; `answered` is None where that is not known yet."""
    store = Store(options.home)
    reasons = {}
    for name, task in scored.items():
        if answered is not None and (name, entry.split) not in answered:
            reasons[name] = NOT_AT_HAND
            continue
        if name not in options.tasks:
            reasons[name] = "the task is not known here: give its file with --include"
            continue
        try:
            prepared = store.record(name, entry.split).fingerprint
        except DecabenchError:
            reasons[name] = "the data is not prepared here"
            continue
        if prepared != task.fingerprint:
            reasons[name] = "the data that is prepared here is not the data that was scored"
    return reasons


def _other_answers(name: str, stated: TaskEntry, again: ScoredTask) -> Iterator[str]:
    """Yield why a file does not state the score of the answers beside it, whichever metric it was scored by."""
    found = again.result
    if stated.predictions and stated.predictions != found.predictions:
        yield f"the answers for {name} beside it are not those that it scored"
    if stated.n != found.n:
        yield f"it scored {stated.n or 0:,} examples of {name}, but there are answers to {found.n:,}"
    if stated.empty is not None and stated.empty != found.empty:
        yield f"it states {stated.empty:,} of its answers for {name} as empty, but {found.empty or 0:,} are"


def _differences(name: str, stated: TaskEntry, again: ScoredTask) -> Iterator[str]:
    """Yield what scoring again does not reproduce."""
    found = again.result
    pairs = [("score", stated.any_score, found.score)]
    pairs += [(key, value, found.scores[key]) for key, value in stated.scores.items() if key in found.scores]
    for key, one, other in pairs:
        if one is None or other is None or not numbers_agree(one, other):
            yield f"its {key} for {name} is {one or 0.0:.8g}, but its answers give {other or 0.0:.8g}"


def _compare_statistics(name: str, path: Path, metric: Metric, again: ScoredTask) -> None:
    """Raise ContradictionError if the statistics in a file are not those of the answers."""
    import numpy as np

    metric = metric.for_data(again.references)
    units, rows = read_rows(path, metric.columns)
    if not np.allclose(rows, np.asarray(again.rows, dtype=float), rtol=1e-6, atol=1e-6):
        raise ContradictionError(f"its statistics for {name} are not those of its answers: evaluate again")
    wanted = number_units([item.units for item in again.references]) if again.units is None else again.units
    if not units_fit(units, wanted):
        raise ContradictionError(f"its statistics for {name} group the examples otherwise than the data does")
