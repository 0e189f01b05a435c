"""Statistical evidence from the files beside the results: samples for tests between systems, and scores of examples.

`statistics/<task>.parquet` has a row for each example: its units, and a number for each column of the metric. `audit`
refuses results that contradict theirs before anything here is used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decabench.errors import DecabenchError
from decabench.leaderboard.entries import Entry, is_inside
from decabench.metrics import METRICS, Metric
from decabench.scoring import (
    Layout,
    Sample,
    describe_units,
    read_rows,
    score_interval,
    show_units,
    statistics_path,
    stored_metric,
    total_interval,
)
from decabench.tasks import TASKS, Store, Task, is_task_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["Evidence", "TaskEvidence"]

_FAR = 0.01
"""How far, in points, statistics may deviate from the stated score."""


@dataclass(frozen=True)
class TaskEvidence:
    """The statistics of one system on one task."""

    sample: Sample
    """The statistics, summed by unit and condensed: the rows of many systems would fill the memory."""
    scores: Array
    """(examples,): the headline score of each example by itself; NaN if it has none."""
    units: str = ""
    """What the interval rests on: `48 articles (41.2 effective)`."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the score; None if nothing is known of it."""
        found = score_interval(self.sample)
        return None if found is None else found.ends


class Evidence:
    """The statistics of all submissions in a folder; each file is read only once."""

    def __init__(
        self,
        submissions: Path,
        metrics: Mapping[str, Metric] = METRICS,
        tasks: Mapping[str, Task] = TASKS,
        home: Path | None = None,
    ) -> None:
        self.metrics = metrics
        self.tasks = tasks
        self._submissions = submissions
        self._store = Store(home) if home is not None else None
        self._hidden: dict[tuple[str, str], bool] = {}
        self._known: dict[tuple[str, str], TaskEvidence | None] = {}
        self._layouts: dict[bytes, Layout] = {}

    def find(self, entry: Entry, task: str) -> TaskEvidence | None:
        """Return the statistics of an entry on a task of its suite; None if there are no usable ones."""
        key = (entry.path, task)
        if key not in self._known:
            self._known[key] = self._read(entry, task)
        return self._known[key]

    def hides(self, task: str, split: str) -> bool:
        """Return whether labels prepared here are hidden, so that nothing about an example may be published."""
        key = task, split
        if key not in self._hidden:
            self._hidden[key] = self._find_hidden(task, split)
        return self._hidden[key]

    def has_secret(self, task: str, split: str, fingerprint: str) -> bool:
        """Return whether a fingerprint belongs to data prepared here with a secret; earlier fingerprints have none."""
        if self._store is None or not is_task_name(task):
            return False
        try:
            record = self._store.records(task).get(split)
        except DecabenchError:
            return False
        return record is not None and bool(record.salt) and record.fingerprint == fingerprint

    def _find_hidden(self, task: str, split: str) -> bool:
        if self._store is None or not is_task_name(task):
            return False
        try:
            record = self._store.records(task).get(split)
            is_here = record is not None and record.labelled
            return is_here and self._store.hides(self.tasks.get(task, task), split)
        except DecabenchError:  # damaged: nothing can be scored on it
            return False

    def keep(self, entry: Entry, task: str, metric: Metric, units: Array, rows: Array) -> None:
        """Take the rows of a file that was read and checked, so that it is not read again."""
        self._known[entry.path, task] = self._make(metric, task, units, rows)

    def total_interval(self, entry: Entry) -> tuple[float, float] | None:
        """Return the 95 % interval of an entry's total; None unless there are statistics of every task of its suite."""
        found = [self.find(entry, task) for task in entry.suite.tasks]
        samples = [known.sample for known in found if known is not None]
        if entry.suite.total == "none" or len(samples) < len(found):
            return None
        ends = total_interval(samples, entry.suite.total)
        return None if ends is None else ends.ends

    def _read(self, entry: Entry, task: str) -> TaskEvidence | None:
        result = entry.tasks.get(task)
        path = statistics_path((self._submissions / entry.path).parent, task)
        if result is None or result.score is None or result.metric not in self.metrics or not path.is_file():
            return None
        if not is_inside(path, self._submissions):
            return None
        metric = self.metrics[result.metric]
        try:
            metric = stored_metric(metric, path)
            units, rows = read_rows(path, metric.columns)
        except Exception:  # a damaged file can fail in many ways, and the board can do without it
            return None
        names = self._unit_names(task)
        if (
            names and len(names) != units.shape[1]
        ):  # of an earlier version, which knew the innermost units alone
            return None
        evidence = self._make(metric, task, units, rows)
        if not abs(evidence.sample.score - result.score) <= _FAR:
            return None
        return evidence

    def _unit_names(self, task: str) -> tuple[str, ...]:
        return self.tasks[task].unit_names if task in self.tasks else ()

    def _make(self, metric: Metric, task: str, units: Array, rows: Array) -> TaskEvidence:
        import numpy as np

        sample = Sample.of_layout(metric, rows, self._find_layout(units), task)
        with np.errstate(all="ignore"):
            scores = sample.headline(rows).astype(np.float32)
        if metric.range[0] < 0:  # a correlation, which a single example does not have
            scores = np.full_like(scores, np.nan)
        described = show_units(describe_units(sample, self._unit_names(task)))
        return TaskEvidence(sample.condensed(), scores, described)

    def _find_layout(self, units: Array) -> Layout:
        """Return the layout of some units, which is that of all systems on the same data."""
        key = hashlib.sha256(f"{units.shape} {units.dtype}\n".encode() + units.tobytes()).digest()
        if key not in self._layouts:
            self._layouts.setdefault(key, Layout.of(units))
        return self._layouts[key]
