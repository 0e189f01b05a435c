"""Checks every score before it is shown: recomputed from statistics always, scored again from answers on request.

A results file that contradicts its statistics, its answers or its data is refused with the reason. What could be
checked decides the evidence of a row (`Entry.kind`), and the evidence whether it may be ranked.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import decabench
from decabench.errors import DecabenchError, StorageError
from decabench.files import file_digest
from decabench.leaderboard.entries import (
    Check,
    Entries,
    Entry,
    Refusal,
    TaskEntry,
    describe_submission,
    is_inside,
    printable_line,
    submission_folder,
)
from decabench.leaderboard.evidence import Evidence
from decabench.leaderboard.row_limits import find_impossible_rows
from decabench.metrics import METRICS, Metric
from decabench.scoring import (
    TOLERANCE,
    ManifestFault,
    check_manifest,
    exact_sums,
    is_version_of,
    numbers_agree,
    read_head,
    read_rows,
    stored_metric,
)
from decabench.submission import METADATA_NAME, read_metadata
from decabench.tasks import SplitRecord, Store, is_task_name, nest_units, number_units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = [
    "ContradictionError",
    "FileDigests",
    "audit",
    "differs_in_words",
    "find_answers",
    "refusal_reason",
    "units_fit",
    "with_intervals",
]

_MOST_EXAMPLES = 10_000_000
"""The largest number of examples whose statistics are read: a small file may unpack to any size."""

NO_STATISTICS = "there are no statistics beside the results"
OLD_STATISTICS = "its statistics were written by an earlier version: evaluate again"
OTHER_VERSION = "it was scored by another version of the metric, whose statistics mean something else here"


class ContradictionError(DecabenchError, ValueError):
    """A results file contradicts its own statistics, answers or data."""


class FileDigests:
    """The sha256 of files, each read once: for a single build, as long as nothing writes to a file."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int, int, int, int], str] = {}

    def __call__(self, path: Path) -> str:
        """Return `sha256:…`; a file that was written to since is read again.

        Its change time tells, which nobody can set, unlike the time of its last modification.
        """
        facts = path.stat()
        key = (
            str(path),
            facts.st_dev,
            facts.st_ino,
            facts.st_size,
            facts.st_mtime_ns,
            facts.st_ctime_ns,
        )
        if key not in self._known:
            self._known[key] = file_digest(path)
        return self._known[key]


def audit(
    found: Entries,
    evidence: Evidence,
    submissions: Path,
    home: Path,
    digests: FileDigests | None = None,
    threads: int = 1,
) -> Entries:
    """Recompute every score from its statistics; return the entries with what was found, contradictions refused."""
    manifests = _Manifests(submissions, digests or FileDigests())
    data = _Data(Store(home))

    def checked(entry: Entry) -> Entry | Refusal:
        try:
            if fault := manifests.find_fault(entry) or _differs_from_metadata(entry, submissions):
                raise ContradictionError(fault)
            return _audit_entry(entry, evidence, submissions, data)
        except (
            ContradictionError,
            StorageError,
            OSError,
        ) as error:  # one unreadable file must not stop the whole board
            return Refusal(entry.path, refusal_reason(error, submissions))

    with ThreadPoolExecutor(threads) as pool:  # files are read, unpacked and added up without Python's lock
        results = list((pool.map if threads > 1 else map)(checked, found.entries))
    refused = [*found.refused, *(result for result in results if isinstance(result, Refusal))]
    return replace(
        found,
        entries=tuple(result for result in results if isinstance(result, Entry)),
        refused=tuple(sorted(refused, key=lambda refusal: refusal.path)),
    )


def refusal_reason(error: Exception, submissions: Path) -> str:
    """Say why an entry is refused, in one line; of a file that cannot be read, without the folders above."""
    if isinstance(error, StorageError) and isinstance(error.__cause__, OSError):
        error = error.__cause__
    if isinstance(error, OSError):
        name = os.path.relpath(os.fsdecode(error.filename), submissions) if error.filename else "a file"
        return printable_line(f"{name} cannot be read: {os.strerror(error.errno or 0)}", 300)
    return printable_line(str(error), 300)


def _differs_from_metadata(entry: Entry, submissions: Path) -> str:
    """Return how an entry differs from the submission.toml beside its answers; empty if it does not, or there is none.

    Answers to another wording of the questions must not pose as answers to the original because results.json says so.
    """
    folder = find_answers(entry, submissions)
    path = folder / METADATA_NAME if folder is not None and folder.is_dir() else None
    if path is None or not path.is_file() or not is_inside(path, submissions):
        return ""
    info, faults = read_metadata(path.parent)
    if info is None:
        return f"its {METADATA_NAME} cannot be read: {next(iter(faults))}"
    return differs_in_words(entry, info.described())


def differs_in_words(entry: Entry, about: Mapping[str, Any]) -> str:
    """Return how an entry differs from what its submission says of itself; empty if it does not."""
    for key, value in describe_submission(about).items():
        if (stated := getattr(entry, key)) != value:
            what = "variant" if key == "wording" else key
            return f"its {what} is {_in_words(stated)}, but {METADATA_NAME} says {_in_words(value)}: evaluate again"
    return ""


def _in_words(value: object) -> str:
    return "nothing" if value in ("", (), None) else printable_line(str(value), 60)


class _Manifests:
    """What contradicts the manifests of submissions; each is held against its files once."""

    def __init__(self, submissions: Path, digests: FileDigests) -> None:
        self._submissions = submissions
        self._digests = digests
        self._known: dict[Path, list[ManifestFault]] = {}

    def find_fault(self, entry: Entry) -> str:
        """Return what contradicts the manifest of an entry's results; empty if nothing does, or it has no manifest."""
        path = self._submissions / entry.path
        place = find_answers(entry, self._submissions)
        root = place.with_name(f"{place.name}.results") if place is not None and place.is_file() else place
        if root is None or not path.is_relative_to(root):
            return ""
        if root not in self._known:
            self._known[root] = check_manifest(root, self._digests)
        folder = path.parent.relative_to(root).as_posix()
        faults = (fault for fault in self._known[root] if fault.folder in ("", folder))
        return next((f"{fault.task}: {fault.reason}" if fault.task else fault.reason for fault in faults), "")


def find_answers(entry: Entry, submissions: Path) -> Path | None:
    """Return the folder or the archive of the answers behind an entry; None if it is not there."""
    *folders, _ = entry.path.split("/")
    archives = [index for index, part in enumerate(folders) if part.endswith(".results")]
    if archives:
        name = folders[archives[0]].removesuffix(".results")
        path = submissions.joinpath(*folders[: archives[0]], name)
        return path if path.is_file() and is_inside(path, submissions) else None
    path = submissions / submission_folder(entry.path)
    if path == submissions or not path.is_dir() or not is_inside(path, submissions):
        return None
    return path


@dataclass(frozen=True)
class _Split:
    """A prepared split."""

    record: SplitRecord
    """What is recorded of its data."""
    units: Array
    """(examples, levels): the number of each example's unit on each level."""


class _Data:
    """The prepared data that results name, if it is at hand; each split is read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[str, str], _Split | None] = {}
        self._lock = Lock()

    def find(self, name: str, split: str, fingerprint: str) -> _Split | None:
        """Return a split; None if it is not the data with this fingerprint that is prepared."""
        with self._lock:
            if (name, split) not in self._known:
                self._known[name, split] = self._read(name, split)
            known = self._known[name, split]
        return known if known is not None and known.record.fingerprint == fingerprint else None

    def _read(self, name: str, split: str) -> _Split | None:
        import numpy as np

        try:
            record = self._store.record(name, split)
            units = number_units([row["units"] for row in self._store.read(name, split, ("units",))])
        except DecabenchError:
            return None
        return _Split(record, np.ascontiguousarray(units, dtype=np.int32))  # as files of statistics have them


def units_fit(found: Array, wanted: Array) -> bool:
    """Return whether numbered units, (examples, levels), group examples as the data does.

    Files of earlier versions have the innermost level alone; whatever rests on them needs the levels of the data.
    """
    import numpy as np

    if len(found) != len(wanted):
        return False
    if np.array_equal(found, wanted):
        return True
    theirs = np.stack(list(nest_units(found)), axis=1)
    return np.array_equal(theirs, wanted) or np.array_equal(theirs, wanted[:, -1:])


def _audit_entry(entry: Entry, evidence: Evidence, submissions: Path, data: _Data) -> Entry:
    folder = (submissions / entry.path).parent / "statistics"
    tasks = {}
    for name, task in entry.tasks.items():
        path = folder / f"{name}.parquet"
        usable = is_task_name(name) and is_inside(path, submissions) and not evidence.hides(name, entry.split)
        split = data.find(name, entry.split, task.fingerprint) if is_task_name(name) else None
        if split is not None and task.score is not None and len(split.units) != task.n:
            raise ContradictionError(
                f"it scored {task.n or 0:,} examples of {name}, but the data that it names has {len(split.units):,}"
            )
        known = evidence.tasks.get(name)
        statistics = _Statistics(
            path if usable else None,
            None if split is None else split.units,
            len(known.unit_names) if known else 0,
            partial(evidence.keep, entry, name),
        )
        published = known.counts.get(entry.split) if known else None
        described = _describe_data(task, split.record if split else None, published)
        tasks[name] = _audit_task(name, described, evidence.metrics, statistics)
    return with_intervals(replace(entry, tasks=tasks), evidence)


def _describe_data(task: TaskEntry, record: SplitRecord | None, published: int | None) -> TaskEntry:
    """Replace what a file says of its data by what is known of it here; without the data it remains a statement."""
    if record is None:
        return replace(task, published_count=published, at_hand=False)
    return replace(
        task,
        origin=record.origin,
        verified=record.verified,
        note=printable_line(record.note, 500),
        published_count=published,
        at_hand=True,
    )


@dataclass(frozen=True)
class _Statistics:
    """Where the statistics of a task are, and what is known of its data."""

    path: Path | None
    """The file; None if it may not be read."""
    units: Array | None
    """(examples, levels): the units of every example, if the data is at hand."""
    levels: int
    """How many levels of units the task has; 0 if it is not known here."""
    keep: Callable[[Metric, Array, Array], None]
    """Takes (metric, units, rows) once they have been checked."""


def _audit_task(
    name: str,
    task: TaskEntry,
    metrics: Mapping[str, Metric],
    statistics: _Statistics,
) -> TaskEntry:
    """Recompute one task from its statistics. Raises ContradictionError."""
    stated = task.any_score
    if stated is None:
        return task
    metric = metrics.get(task.metric)
    if metric is None:
        reason = (
            f"the metric {task.metric or 'of this score'} is not known here, so nothing can be recomputed"
        )
        return replace(task, check=Check(detail=reason))
    low, high = metric.range
    if not low - TOLERANCE <= stated <= high + TOLERANCE:
        raise ContradictionError(
            f"its score for {name} is {stated:g}, but {metric.name} goes from {low:g} to {high:g}"
        )
    _check_signature(name, task, metric)
    if task.limited is not None:
        return replace(task, check=Check(detail="it is a limited run, which has no statistics"))
    if statistics.path is None or not statistics.path.is_file():
        return replace(task, check=Check(detail=NO_STATISTICS))
    scores = _recompute(name, task, metric, statistics.path, statistics)
    if isinstance(scores, str):
        return replace(task, check=Check(detail=scores))
    check = Check("consistent", "recomputed from the statistics of every example", decabench.__version__)
    return replace(
        task,
        score=min(scores[metric.headline], high),
        scores={key: scores[key] for key in task.scores if key in scores},
        stated={key: value for key, value in task.scores.items() if key not in scores},
        signature=task.signature or metric.full_signature,
        is_current=not task.signature or is_version_of(task.signature, metric),
        check=check,
    )


def _check_signature(name: str, task: TaskEntry, metric: Metric) -> None:
    """Refuse the signature of one metric on the scores of another: it would share a table with them."""
    for other in METRICS.values():
        if other.signature != metric.signature and is_version_of(task.signature, other):
            raise ContradictionError(
                f"it scored {name} by {metric.name}, but states the signature of {other.name}"
            )
    if task.headline and task.headline != metric.headline and metric.name in METRICS:
        raise ContradictionError(
            f"it states {task.headline} as the score for {name}, but the score of {metric.name} is {metric.headline}"
        )


def _recompute(
    name: str, task: TaskEntry, metric: Metric, path: Path, statistics: _Statistics
) -> dict[str, float] | str:
    """Return the scores that the statistics give, or why they say nothing here.

    Raises ContradictionError if they do not give the stated ones.
    """
    is_same_version = is_version_of(task.signature, metric)
    try:
        _check_file(name, task, path)
        metric, found, rows = _read(name, metric, path)
    except ContradictionError:
        if is_same_version or not task.signature:
            raise
        return OTHER_VERSION
    if len(rows) != task.n or task.rows != task.n:
        raise ContradictionError(
            f"it scored {task.n or 0:,} of {task.rows:,} examples of {name}, but its statistics have {len(rows):,}"
        )
    if statistics.units is not None and not units_fit(found, statistics.units):
        raise ContradictionError(f"its statistics for {name} group the examples otherwise than the data does")
    if fault := find_impossible_rows(metric, rows):
        if not is_same_version and task.signature:
            return OTHER_VERSION
        raise ContradictionError(f"its statistics for {name} cannot come from {metric.name}: {fault}")
    scores = _score(name, metric, rows)
    stated = [(metric.headline, task.score), *task.scores.items()]
    for key, value in stated:
        if key in scores and not numbers_agree(value, scores[key]):
            if not is_same_version and task.signature:
                return OTHER_VERSION
            what = "score" if key == metric.headline else key
            raise ContradictionError(
                f"its {what} for {name} is {_show(value)}, but its statistics give {_show(scores[key])}"
            )
    if statistics.units is None and statistics.levels not in (0, found.shape[1]):
        return OLD_STATISTICS  # without the outer level, an interval may be half as wide as it should be
    statistics.keep(metric, found if statistics.units is None else statistics.units, rows)
    return scores


def _score(name: str, metric: Metric, rows: Array) -> dict[str, float]:
    """Return the scores of rows. Raises ContradictionError if they are none: numbers near the largest overflow."""
    try:
        totals = dict(zip(metric.columns, exact_sums(rows), strict=True))
        scores = {key: float(value) for key, value in metric.score(totals).items()}
    except (ArithmeticError, ValueError) as error:
        raise ContradictionError(f"its statistics for {name} give no score: {error}") from error
    for key, value in scores.items():
        if not math.isfinite(value):
            raise ContradictionError(f"its statistics for {name} give no {key}: it would be {value}")
    return scores


def _check_file(name: str, task: TaskEntry, path: Path) -> None:
    """Check the size and the labels of a file before its rows are read."""
    import pyarrow as pa

    try:
        head = read_head(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ContradictionError(
            f"its statistics for {name} are damaged ({type(error).__name__}): evaluate again"
        ) from error
    if head.rows > _MOST_EXAMPLES:
        raise ContradictionError(
            f"its statistics for {name} have {head.rows:,} rows, which is too many to read"
        )
    for key, label, value in head.differing(task.metric, task.signature):
        raise ContradictionError(
            f"its statistics for {name} are of the {key} {printable_line(label, 80)}, its results of {value}"
        )


def _read(name: str, metric: Metric, path: Path) -> tuple[Metric, Array, Array]:
    """Return the metric with the columns of the file, and the units and rows in it."""
    try:
        metric = stored_metric(metric, path)
        return metric, *read_rows(path, metric.columns)
    except StorageError:
        raise
    except Exception as error:  # a damaged file can fail in many ways
        raise ContradictionError(
            f"its statistics for {name} are damaged or not those of {metric.name}: evaluate again"
        ) from error


def _show(value: float | None) -> str:
    """Show a number with enough digits to see what differs."""
    return "missing" if value is None else f"{value:.8g}"


def with_intervals(entry: Entry, evidence: Evidence) -> Entry:
    """Replace stated totals by recomputed ones, and stated intervals and units by those of the statistics."""
    tasks = {}
    for name, task in entry.tasks.items():
        known = evidence.find(entry, name) if task.check.kind != "self-reported" else None
        interval, units = (known.interval, known.units) if known is not None else (None, "")
        tasks[name] = replace(task, interval=interval, units=units)
    scores = {name: task.score for name, task in tasks.items() if task.score is not None}
    total = entry.suite.combine(scores) if entry.total is not None else None
    recomputed = replace(entry, tasks=tasks, total=total, interval=None)
    if recomputed.kind in (None, "self-reported"):
        return recomputed
    return replace(recomputed, interval=evidence.total_interval(recomputed))
