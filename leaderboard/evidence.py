"""Statistical evidence from the files beside the results: tests between systems, rank groups and scores of examples.

`statistics/<task>.parquet` has a row for each example: its group, and a number for each column of the metric. `audit`
refuses results that contradict theirs before anything here is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from decabench.leaderboard.entries import Entry, is_inside
from decabench.metrics import METRICS, Metric
from decabench.scoring import (
    Sample,
    bootstrap,
    combine,
    holm,
    interval,
    p_value,
    read_rows,
    seeded_generator,
    swapped_differences,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = [
    "LEVEL",
    "Evidence",
    "Place",
    "ShuffleTest",
    "TaskEvidence",
    "Versus",
    "assign_places",
    "standard_errors",
]

_FEWEST_GROUPS = 8
"""With fewer groups than this, a standard error is meaningless."""

_FAR = 0.01
"""How far, in points, statistics may deviate from the stated score."""


@dataclass(frozen=True)
class TaskEvidence:
    """The statistics of one system on one task."""

    sample: Sample
    """The statistics, summed by group."""
    influence: Array
    """(groups,): how much each group adds to the score, to first order."""
    scores: Array
    """(examples,): the headline score of each example by itself; NaN if it has none."""

    @property
    def has_errors(self) -> bool:
        """Whether there are enough groups for a standard error."""
        return len(self.influence) >= _FEWEST_GROUPS

    @cached_property
    def drawn(self) -> Array | None:
        """The score of each resample; None for a single group, whose interval would have no width."""
        return bootstrap(self.sample) if len(self.sample.rows) > 1 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the score."""
        return None if self.drawn is None else interval(self.drawn).ends


class Evidence:
    """The statistics of all submissions in a folder; each file is read only once."""

    def __init__(self, submissions: Path, metrics: Mapping[str, Metric] = METRICS) -> None:
        self.metrics = metrics
        self._submissions = submissions
        self._known: dict[tuple[str, str], TaskEvidence | None] = {}

    def find(self, entry: Entry, task: str) -> TaskEvidence | None:
        """Return the statistics of an entry on a task of its suite; None if there are no usable ones."""
        key = (entry.path, task)
        if key not in self._known:
            self._known[key] = self._read(entry, task)
        return self._known[key]

    def total_interval(self, entry: Entry) -> tuple[float, float] | None:
        """Return the 95 % interval of an entry's total; None unless there are statistics of every task of its suite."""
        found = [self.find(entry, task) for task in entry.suite.tasks]
        drawn = [known.drawn for known in found if known is not None and known.drawn is not None]
        if entry.suite.total == "none" or len(drawn) < len(found):
            return None
        return interval(combine(drawn, entry.suite.total)).ends

    def _read(self, entry: Entry, task: str) -> TaskEvidence | None:
        result = entry.tasks.get(task)
        path = (self._submissions / entry.path).parent / "statistics" / f"{task}.parquet"
        if result is None or result.score is None or result.metric not in self.metrics or not path.is_file():
            return None
        if not is_inside(path, self._submissions):
            return None
        metric = self.metrics[result.metric]
        try:
            units, rows = read_rows(path, metric.columns)
        except Exception:  # a damaged file can fail in many ways, and the board can do without it
            return None
        evidence = _sum_by_group(metric, task, units[:, -1], rows)
        if not abs(evidence.sample.score - result.score) <= _FAR:
            return None
        return evidence


def _sum_by_group(metric: Metric, task: str, groups: Array, rows: Array) -> TaskEvidence:
    import numpy as np

    _, number = np.unique(groups, return_inverse=True)
    count = int(number.max()) + 1
    sums = np.stack([np.bincount(number, weights=column, minlength=count) for column in rows.T], axis=1)
    sample = Sample(metric, sums, len(rows), task)
    with np.errstate(all="ignore"):
        scores = sample.headline(rows).astype(np.float32)
        if metric.range[0] < 0:  # a correlation, which a single example does not have
            scores = np.full_like(scores, np.nan)
        return TaskEvidence(sample, _influence(sample), scores)


def _influence(sample: Sample) -> Array:
    """Return the gradient of the headline score at the totals times each group's row (infinitesimal jackknife)."""
    import numpy as np

    totals = sample.rows.sum(axis=0)
    step = np.maximum(np.abs(totals), 1.0) * 1e-6
    moved = np.diag(step)
    gradient = (sample.headline(totals + moved) - sample.headline(totals - moved)) / (2 * step)
    influence: Array = sample.rows @ np.nan_to_num(gradient)
    centred: Array = influence - influence.mean()
    return centred


def standard_errors(systems: Sequence[TaskEvidence | None]) -> list[list[float | None]]:
    """Return the standard error of the difference of any two systems on a task, to first order; None if unknown."""
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
                errors[row][column] = _round_error(float(error))
    return errors


def _round_error(error: float) -> float:
    """Round to three decimals, or below 0.1 to three digits, so that errors on short scales do not become 0."""
    return round(error, 3) if error >= 0.1 else float(f"{error:.3g}")


# The test between two totals

SHUFFLES = 2_000
"""The number of shuffles to test the difference between two totals."""

CLEAR, NEAR = 6.0, 1.0
"""For differences of more than CLEAR or less than NEAR standard errors, the normal p is used instead of shuffling."""

_TIE = 1e-4
"""The rounding error of single-precision sums, in points: values this close to the observed difference equal it."""

_CELLS = 4_000_000
"""How many coin flips to unpack at once, at four bytes each."""


class ShuffleTest:
    """Tests differences of totals by approximate randomization; the same input gives the same p."""

    def __init__(self, shuffles: int = SHUFFLES, seed: int = 0) -> None:
        self._shuffles = shuffles
        self._seed = seed
        self._coins: dict[tuple[str, int], Array] = {}

    def test_totals(
        self, first: Sequence[TaskEvidence | None], second: Sequence[TaskEvidence | None]
    ) -> float | None:
        """Return the two-sided p of the difference between two totals, given the statistics of each task.

        None if a task lacks the statistics of one of the two systems.
        """
        import numpy as np

        pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
        if not pairs or len(pairs) < len(first) or not all(_are_paired(a, b) for a, b in pairs):
            return None
        difference = sum(b.sample.score - a.sample.score for a, b in pairs)
        error = _error(pairs)
        if error:
            distance = abs(difference) / error
            if distance > CLEAR:
                return 1 / (self._shuffles + 1)  # the lowest p that shuffles could give
            if distance < NEAR:
                return 2 * NormalDist().cdf(-distance)
        samples = [(a.sample, b.sample) for a, b in pairs]
        shuffled: Array = np.sum(
            [swapped_differences(a, b, self._coins_of(a.name, len(a.rows))) for a, b in samples], axis=0
        )
        return p_value(shuffled, difference, _TIE)

    def _coins_of(self, name: str, groups: int) -> Iterator[Array]:
        """Yield blocks of zeros and ones, (shuffles, groups), the same for all pairs."""
        import numpy as np

        if (name, groups) not in self._coins:
            shape = (self._shuffles, (groups + 7) // 8)
            self._coins[name, groups] = seeded_generator(self._seed, name).integers(0, 256, shape, np.uint8)
        coins = self._coins[name, groups]
        step = max(1, _CELLS // groups)
        for start in range(0, self._shuffles, step):
            yield np.unpackbits(coins[start : start + step], axis=1)[:, :groups].astype(np.float32)


def _are_paired(a: TaskEvidence, b: TaskEvidence) -> bool:
    return a.sample.metric.name == b.sample.metric.name and a.sample.rows.shape == b.sample.rows.shape


def _error(pairs: Sequence[tuple[TaskEvidence, TaskEvidence]]) -> float | None:
    """Return the standard error of the difference between totals; None if a task has too few groups."""
    if not all(a.has_errors for a, _ in pairs):
        return None
    return math.sqrt(sum(float(((b.influence - a.influence) ** 2).sum()) for a, b in pairs))


# Rank groups

LEVEL = 0.05
"""The significance level, two-sided."""

_WALKS = 20
"""The maximum number of walks for the groups to settle."""


@dataclass(frozen=True)
class Versus:
    """The comparison of a system with the first system of a rank group."""

    head: int
    """The index of the group's first system."""
    p: float | None
    """The corrected p-value; None if the pair could not be tested."""


@dataclass(frozen=True)
class Place:
    """The place of a system in a ranking."""

    rank: int
    """The rank that its group shares: 1, 1, 3."""
    group: int
    """The number of its rank group, from 1."""
    versus: Versus | None
    """The comparison that decided its group; None for the first system and for equal displayed totals."""


Compare = Callable[[int, int], float | None]
"""(first, second) -> the uncorrected p of the difference of their totals, or None."""


def assign_places(totals: Sequence[str], compare: Compare) -> list[Place]:
    """Return the places of systems ordered by their displayed totals, best first.

    Walking down, a system starts a new group if it differs significantly from the first one of the current group. Which
    pairs are compared depends on the groups, and Holm's correction on the pairs, so the walk is repeated until it
    settles.
    """
    test = cache(compare)
    strict = max(1, len(totals) - 1)

    def bonferroni(head: int, other: int) -> float | None:
        p = test(head, other)
        return None if p is None else min(1.0, p * strict)

    first = walked = _walk(totals, bonferroni)
    for _ in range(_WALKS):
        pairs = _compared_pairs(walked)
        tested = {f"{head} {other}": p for head, other in pairs if (p := test(head, other)) is not None}
        corrected = holm(tested)

        def by_holm(head: int, other: int, corrected: Mapping[str, float] = corrected) -> float | None:
            return corrected.get(f"{head} {other}", bonferroni(head, other))

        again = _walk(totals, by_holm)
        if _compared_pairs(again) == pairs and [p.group for p in again] == [p.group for p in walked]:
            return again
        walked = again
    return first


def _walk(totals: Sequence[str], compare: Compare) -> list[Place]:
    """Place systems in one walk, given corrected p-values."""
    placed: list[Place] = []
    head = 0
    for index, total in enumerate(totals):
        if index == 0:
            placed.append(Place(1, 1, None))
            continue
        if total == totals[head]:
            placed.append(Place(head + 1, placed[-1].group, None))
            continue
        p = compare(head, index)
        versus, is_new = Versus(head, p), p is None or p < LEVEL
        if is_new and total == totals[index - 1]:
            placed.append(Place(placed[-1].rank, placed[-1].group, versus))
            continue
        head = index if is_new else head
        placed.append(Place(head + 1, placed[-1].group + is_new, versus))
    return placed


def _compared_pairs(placed: Sequence[Place]) -> list[tuple[int, int]]:
    return [(place.versus.head, index) for index, place in enumerate(placed) if place.versus is not None]
