"""Intervals and paired tests from statistics rows alone, for averages, BLEU, corpus F1 and ROUGE alike.

A resample or a shuffle is a weighted sum of rows, so a thousand of them are one matrix product and one call of the
metric's `score`. Rows are first summed within groups (the paragraph, the dialogue, the document), which are what was
sampled. Every block of resamples has a seed of its own, so the numbers do not depend on how many workers share them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from decabench.errors import DecabenchError
from decabench.metrics import Metric, Row

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = [
    "Difference",
    "Interval",
    "Sample",
    "bootstrap",
    "examples_for_one_point",
    "holm",
    "interval",
    "paired_test",
    "total",
]

RESAMPLES = 1_000
SHUFFLES = 10_000
CONFIDENCE = 0.95
POWER = 0.8
_BLOCK = 50


@dataclass(frozen=True)
class Interval:
    """A percentile bootstrap interval."""

    low: float
    """Its lower end, in the score's units."""
    high: float
    """Its upper end."""
    confidence: float = CONFIDENCE
    """How often such intervals hold the score of the whole population."""

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends as files keep them: rounded, so that libraries that add in another order leave the same bytes."""
        return round(self.low, 4), round(self.high, 4)


@dataclass(frozen=True)
class Sample:
    """One system's statistics on one task, one row a group."""

    metric: Metric
    """What scores them."""
    rows: Array
    """(groups, columns): sums of the examples' rows."""
    examples: int
    """How many examples the groups hold together."""
    name: str = ""
    """The task's name: it seeds the task's resamples, so that tasks are drawn independently."""

    @classmethod
    def of(cls, metric: Metric, rows: Sequence[Row], groups: Sequence[str], name: str = "") -> Sample:
        """From one row and one group name an example. Groups keep the order in which they first appear."""
        import numpy as np

        if len(rows) != len(groups) or not rows:
            raise DecabenchError(
                f"{name or metric.name} has {len(rows)} rows for {len(groups)} groups: give one each."
            )
        number = {group: index for index, group in enumerate(dict.fromkeys(groups))}
        sums = np.zeros((len(number), len(metric.columns)))
        np.add.at(sums, [number[group] for group in groups], np.asarray(rows, dtype=float))
        return cls(metric, sums, len(rows), name)

    def headline(self, totals: Array) -> Array:
        """The headline of sums of rows, (..., columns) to (...)."""
        columns = {name: totals[..., index] for index, name in enumerate(self.metric.columns)}
        return self.metric.score(columns)[self.metric.headline]  # type: ignore[no-any-return]

    @property
    def score(self) -> float:
        """The headline of all rows."""
        return float(self.headline(self.rows.sum(axis=0)))


def _blocks(number: int) -> Iterator[tuple[int, int]]:
    for start in range(0, number, _BLOCK):
        yield start, min(start + _BLOCK, number)


def _generator(seed: int, name: str, start: int) -> Any:
    """A generator for one block of one task: by name, so that other tasks and workers change nothing."""
    import numpy as np

    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence([seed, key, start])))


def _in_blocks(number: int, jobs: int, block: Any) -> Array:
    """The blocks of a computation, one after the other or on threads, in the same order."""
    import numpy as np

    spans = list(_blocks(number))
    if jobs < 2:
        return np.concatenate([block(start, end) for start, end in spans])
    with ThreadPoolExecutor(jobs) as pool:
        return np.concatenate(list(pool.map(lambda span: block(*span), spans)))


def _drawn_totals(rows: Array, number: int, generator: Any) -> Array:
    """(number, columns): sums over groups drawn with replacement."""
    import numpy as np

    groups = len(rows)
    counts = np.empty((number, groups))
    for index in range(number):
        counts[index] = np.bincount(generator.integers(0, groups, groups, dtype=np.uint32), minlength=groups)
    return counts @ rows


def bootstrap(sample: Sample, resamples: int = RESAMPLES, seed: int = 0, jobs: int = 1) -> Array:
    """The headline of each resample, (resamples,): groups are drawn with replacement (Efron and Tibshirani 1993)."""

    def block(start: int, end: int) -> Array:
        generator = _generator(seed, sample.name, start)
        return sample.headline(_drawn_totals(sample.rows, end - start, generator))

    return _in_blocks(resamples, jobs, block)


def total(parts: Mapping[str, Array]) -> Array:
    """The decaScore of each resample: tasks are strata, drawn independently, and their headlines are summed."""
    import numpy as np

    return np.sum(list(parts.values()), axis=0)  # type: ignore[no-any-return]


def interval(scores: Array, confidence: float = CONFIDENCE) -> Interval:
    """The percentile interval of resampled scores."""
    import numpy as np

    tail = 100 * (1 - confidence) / 2
    low, high = np.percentile(scores, [tail, 100 - tail])
    return Interval(float(low), float(high), confidence)


@dataclass(frozen=True)
class Difference:
    """B against A on the same examples."""

    difference: float
    """B's headline minus A's."""
    interval: Interval
    """Of the difference, from a paired bootstrap: the same groups are drawn for both."""
    p: float
    """Two-sided, approximate randomization."""
    shuffled: Array
    """The difference in each shuffle, for sums over tasks."""
    drawn: Array
    """The difference in each resample, for sums over tasks."""
    examples: int
    """How many examples it rests on."""


def _check_pair(a: Sample, b: Sample) -> None:
    if a.metric.name != b.metric.name or a.rows.shape != b.rows.shape:
        raise DecabenchError(
            f"{a.name or a.metric.name}: two systems are compared on the same examples and metric only."
        )


def _paired_resamples(a: Sample, b: Sample, number: int, seed: int, jobs: int) -> Array:
    import numpy as np

    both = np.concatenate([a.rows, b.rows], axis=1)
    width = a.rows.shape[1]

    def block(start: int, end: int) -> Array:
        totals = _drawn_totals(both, end - start, _generator(seed, a.name, start))
        return b.headline(totals[:, width:]) - a.headline(totals[:, :width])

    return _in_blocks(number, jobs, block)


def _shuffles(a: Sample, b: Sample, number: int, seed: int, jobs: int) -> Array:
    """The difference where each group's answers are swapped between the systems by a fair coin."""
    import numpy as np

    total_a, total_b, change = a.rows.sum(axis=0), b.rows.sum(axis=0), b.rows - a.rows

    def block(start: int, end: int) -> Array:
        bits = _generator(seed, f"swap {a.name}", start).integers(
            0, 256, ((end - start), (len(change) + 7) // 8), np.uint8
        )
        moved = np.unpackbits(bits, axis=1)[:, : len(change)].astype(float) @ change
        return b.headline(total_b - moved) - a.headline(total_a + moved)

    return _in_blocks(number, jobs, block)


def p_value(shuffled: Array, difference: float) -> float:
    """The share of shuffles at least as far from 0, the observed one counted among them (Noreen 1989).

    Ties count: where the systems never differ, p is 1.
    """
    import numpy as np

    # Sums in another order differ in their last digits, and must not make a tie a difference.
    reach = abs(difference) - 1e-9 * max(1.0, abs(difference))
    return float((np.sum(np.abs(shuffled) >= reach) + 1) / (len(shuffled) + 1))


def paired_test(
    a: Sample,
    b: Sample,
    resamples: int = RESAMPLES,
    shuffles: int = SHUFFLES,
    seed: int = 0,
    jobs: int = 1,
) -> Difference:
    """B against A. Raises DecabenchError where they were not scored on the same examples by the same metric."""
    _check_pair(a, b)
    difference = b.score - a.score
    drawn = _paired_resamples(a, b, resamples, seed, jobs)
    shuffled = _shuffles(a, b, shuffles, seed, jobs)
    p = p_value(shuffled, difference)
    return Difference(difference, interval(drawn), p, shuffled, drawn, a.examples)


def summed(parts: Sequence[Difference]) -> Difference:
    """The difference of sums over tasks, each shuffled and drawn on its own."""
    import numpy as np

    difference = sum(part.difference for part in parts)
    shuffled = np.sum([part.shuffled for part in parts], axis=0)
    drawn = np.sum([part.drawn for part in parts], axis=0)
    examples = sum(part.examples for part in parts)
    return Difference(difference, interval(drawn), p_value(shuffled, difference), shuffled, drawn, examples)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's (1979) step-down correction: each p adjusted for the number of tests, never falling with rank."""
    adjusted: dict[str, float] = {}
    highest = 0.0
    ordered = sorted(p_values, key=lambda name: (p_values[name], name))
    for rank, name in enumerate(ordered):
        highest = max(highest, min(1.0, p_values[name] * (len(ordered) - rank)))
        adjusted[name] = highest
    return {name: adjusted[name] for name in p_values}


def examples_for_one_point(difference: Difference, power: float = POWER) -> int | None:
    """How many examples like these show a difference of one point at 5 %, two-sided, with the given power.

    n' = n ((z_0.975 + z_power) s)^2, where s is the bootstrap's standard error of the difference in points.
    None where no example tells the systems apart.
    """
    import math

    import numpy as np

    normal = NormalDist()
    reach = normal.inv_cdf(1 - (1 - CONFIDENCE) / 2) + normal.inv_cdf(power)
    needed = difference.examples * (reach * float(np.std(difference.drawn, ddof=1))) ** 2
    return math.ceil(needed) or None
