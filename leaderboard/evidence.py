"""What the statistics beside a results file say: tests between systems, and the score of every example by itself.

`statistics/<task>.parquet` holds one row an example: its group, and one number for each column of the metric. It is
believed only where it adds up to the score that the results file states; what cannot be used counts as missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decabench.leaderboard.read import Entry
from decabench.metrics import METRICS
from decabench.scoring import Sample, read_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["Evidence", "TaskEvidence", "standard_errors"]

_FEWEST_GROUPS = 8
"""Below this many groups a standard error says nothing."""

_FAR = 0.01
"""Points by which statistics may miss the stated score."""


@dataclass(frozen=True)
class TaskEvidence:
    """The statistics of one system on one task."""

    sample: Sample
    """Summed by group."""
    influence: Array
    """(groups,): what each group adds to the score, to first order."""
    scores: Array
    """(examples,): the headline of each example by itself; not a number where it has none."""

    @property
    def has_errors(self) -> bool:
        """Whether there are groups enough for a standard error."""
        return len(self.influence) >= _FEWEST_GROUPS


class Evidence:
    """The statistics of all submissions of a folder, each file read once."""

    def __init__(self, submissions: Path) -> None:
        self._submissions = submissions
        self._known: dict[tuple[str, str], TaskEvidence | None] = {}

    def of(self, entry: Entry, task: str) -> TaskEvidence | None:
        """What there is; None where there is nothing that can be used. `task` is a name of ours."""
        key = (entry.path, task)
        if key not in self._known:
            self._known[key] = self._read(entry, task)
        return self._known[key]

    def _read(self, entry: Entry, task: str) -> TaskEvidence | None:
        result = entry.tasks.get(task)
        path = (self._submissions / entry.path).parent / "statistics" / f"{task}.parquet"
        if result is None or result.score is None or result.metric not in METRICS or not path.is_file():
            return None
        try:
            groups, rows = read_rows(path, METRICS[result.metric].columns)
        except Exception:  # a damaged file is the reader's to name in many ways; the board goes on without it
            return None
        evidence = _evidence(result.metric, task, groups, rows)
        if abs(evidence.sample.score - result.score) > _FAR:
            return None
        return evidence


def _evidence(metric: str, task: str, groups: Array, rows: Array) -> TaskEvidence:
    import numpy as np

    _, number = np.unique(groups, return_inverse=True)
    count = int(number.max()) + 1
    sums = np.stack([np.bincount(number, weights=column, minlength=count) for column in rows.T], axis=1)
    sample = Sample(METRICS[metric], sums, len(rows), task)
    with np.errstate(all="ignore"):
        return TaskEvidence(sample, _influence(sample), sample.headline(rows).astype(np.float32))


def _influence(sample: Sample) -> Array:
    """The infinitesimal jackknife: the gradient of the headline at the totals, times each group's row."""
    import numpy as np

    totals = sample.rows.sum(axis=0)
    step = np.maximum(np.abs(totals), 1.0) * 1e-6
    moved = np.diag(step)
    gradient = (sample.headline(totals + moved) - sample.headline(totals - moved)) / (2 * step)
    influence: Array = sample.rows @ np.nan_to_num(gradient)
    centred: Array = influence - influence.mean()
    return centred


def standard_errors(systems: Sequence[TaskEvidence | None]) -> list[list[float | None]]:
    """Of the difference of each two systems on one task, to first order; None where it is not known."""
    import numpy as np

    errors: list[list[float | None]] = [[None] * len(systems) for _ in systems]
    of_shape: dict[tuple[int, ...], list[int]] = {}
    for index, system in enumerate(systems):
        if system is not None and system.has_errors:
            of_shape.setdefault(system.sample.rows.shape, []).append(index)
    for indexes in of_shape.values():
        influence = np.stack([systems[index].influence for index in indexes])  # type: ignore[union-attr]
        products = influence @ influence.T
        own = np.diag(products)
        squares = np.maximum(own[:, None] + own[None, :] - 2 * products, 0.0)
        groups = influence.shape[1]
        for row, found in zip(indexes, np.sqrt(squares * groups / (groups - 1)), strict=True):
            for column, error in zip(indexes, found, strict=True):
                errors[row][column] = round(float(error), 3)
    return errors
