"""Intervals and paired tests from statistics rows alone, for averages, BLEU, corpus F1 and ROUGE.

A resample or a shuffle is a weighted sum of rows, so a thousand of them are one matrix product and one call of the
metric's `score`. Rows are first summed by group (the paragraph, dialogue or document), because groups are what was
sampled. Every block of resamples has its own seed, so the numbers do not depend on how many workers share them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from decabench.errors import DataError, DecabenchError
from decabench.files import atomic_file
from decabench.metrics import Metric, Row
from decabench.tasks import Combination

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = [
    "Difference",
    "Interval",
    "Sample",
    "bootstrap",
    "combine",
    "combine_differences",
    "examples_for_one_point",
    "holm",
    "interval",
    "p_value",
    "paired_test",
    "read_rows",
    "seeded_generator",
    "swapped_differences",
    "write_rows",
]

RESAMPLES = 1_000
SHUFFLES = 10_000
CONFIDENCE = 0.95
POWER = 0.8
_BLOCK = 50


@dataclass(frozen=True)
class Sample:
    """The statistics of one system on one task, a row for each group."""

    metric: Metric
    """The metric that turns the statistics into scores."""
    rows: Array
    """(groups, columns): the sums of the examples' rows."""
    examples: int
    """The number of examples in all groups."""
    name: str = ""
    """The task's name; it seeds the task's resamples, so that tasks are drawn independently."""

    @classmethod
    def of(
        cls, metric: Metric, rows: Sequence[Row], units: Sequence[Sequence[str]], name: str = ""
    ) -> Sample:
        """Sum rows by innermost unit, given the units of every example, outermost first; units keep their order.

        Raises DecabenchError if there are no rows, or if there are not units for each of them.
        """
        import numpy as np

        if len(rows) != len(units) or not rows:
            raise DecabenchError(
                f"{name or metric.name} has {len(rows)} rows and the units of {len(units)}: give units for each row."
            )
        numbers = _number_units(units)[-1]
        sums = np.zeros((max(numbers) + 1, len(metric.columns)))
        np.add.at(sums, numbers, np.asarray(rows, dtype=float))
        return cls(metric, sums, len(rows), name)

    def headline(self, totals: Array) -> Array:
        """Compute the headline from sums of rows: (..., columns) to (...)."""
        columns = {name: totals[..., index] for index, name in enumerate(self.metric.columns)}
        return self.metric.score(columns)[self.metric.headline]  # type: ignore[no-any-return]

    @property
    def score(self) -> float:
        """The headline of all rows."""
        return float(self.headline(self.rows.sum(axis=0)))


# Rows on disk: what intervals and tests need, without answers or data


def _number_units(units: Sequence[Sequence[str]]) -> list[list[int]]:
    """Number the units of each level from 0, in order of their first example; inner ones are told apart by outer ones.

    Rows without units are each a unit of their own.
    """
    if not units[0]:
        return [list(range(len(units)))]
    levels = []
    for depth in range(1, len(units[0]) + 1):
        numbers: dict[tuple[str, ...], int] = {}
        levels.append([numbers.setdefault(tuple(names[:depth]), len(numbers)) for names in units])
    return levels


def write_rows(
    path: Path, metric: str, signature: str, rows: Mapping[str, Any], units: Sequence[Sequence[str]]
) -> None:
    """Write a parquet file with a row for each example: its units and the columns of `rows`.

    `unit_1` numbers the outermost units, `unit_2` those within, and so on.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    levels = enumerate(_number_units(units), start=1)
    columns = {f"unit_{level}": pa.array(numbers, pa.int32()) for level, numbers in levels}
    columns |= {name: pa.array(values) for name, values in rows.items()}
    table = pa.table(columns).replace_schema_metadata({"metric": metric, "signature": signature})
    with atomic_file(path) as file:
        pq.write_table(table, file, compression="zstd")


def read_rows(path: Path, columns: Sequence[str]) -> tuple[Array, Array]:
    """Return the numbers of each example's units, (examples, levels), and its row, (examples, columns).

    Levels are outermost first; files of earlier versions have one, `group`. Raises DataError if the file is damaged,
    empty or has other columns.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path, memory_map=True)
        levels = [f"unit_{level}" for level in range(1, len(file.schema_arrow.names) + 1)]
        levels = [name for name in levels if name in file.schema_arrow.names] or ["group"]
        table = file.read([*levels, *columns], use_threads=False)
        units = np.stack([table.column(name).to_numpy() for name in levels], axis=1)
        rows = np.stack([table.column(name).to_numpy().astype(float) for name in columns], axis=1)
        if not len(rows) or units.dtype.kind not in "iu" or not np.isfinite(rows).all():
            raise ValueError("no finite rows and numbered units")
    except (pa.ArrowException, KeyError, TypeError, ValueError, OSError) as error:
        raise DataError(f"{path} is damaged ({type(error).__name__}: {error}): evaluate again.") from error
    return units, rows


# Intervals


@dataclass(frozen=True)
class Interval:
    """A percentile bootstrap interval."""

    low: float
    """Its lower end, in the score's units."""
    high: float
    """Its upper end."""
    confidence: float = CONFIDENCE
    """The share of such intervals that contain the score of the whole population."""

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends, rounded for files, so that libraries that add in another order leave the same bytes."""
        return round(self.low, 4), round(self.high, 4)


def seeded_generator(seed: int, name: str, *more: int) -> Generator:
    """Return a generator seeded by the task's name, so that other tasks and workers do not affect it."""
    import numpy as np

    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence([seed, key, *more])))


def _in_blocks(number: int, jobs: int, compute: Callable[[int, int], Array]) -> Array:
    """Compute blocks (start, end), in this thread or in several, and join them in order."""
    import numpy as np

    starts = range(0, number, _BLOCK)
    ends = [min(start + _BLOCK, number) for start in starts]
    if jobs < 2:
        return np.concatenate(list(map(compute, starts, ends)))
    with ThreadPoolExecutor(jobs) as pool:
        return np.concatenate(list(pool.map(compute, starts, ends)))


def _resampled_totals(rows: Array, number: int, generator: Generator) -> Array:
    """Return (number, columns): sums over groups drawn with replacement."""
    import numpy as np

    groups = len(rows)
    counts = np.empty((number, groups))
    for index in range(number):
        counts[index] = np.bincount(generator.integers(0, groups, groups, dtype=np.uint32), minlength=groups)
    return counts @ rows


def bootstrap(sample: Sample, resamples: int = RESAMPLES, seed: int = 0, jobs: int = 1) -> Array:
    """Return the headline of each resample, (resamples,).

    Groups are drawn with replacement (Efron and Tibshirani 1993).
    """

    def compute(start: int, end: int) -> Array:
        generator = seeded_generator(seed, sample.name, start)
        return sample.headline(_resampled_totals(sample.rows, end - start, generator))

    return _in_blocks(resamples, jobs, compute)


def combine(parts: Sequence[Array], combination: Combination = "sum") -> Array:
    """Return the suite's total of each resample: tasks are strata, resampled independently."""
    import numpy as np

    total: Array = np.sum(list(parts), axis=0)
    return total / len(parts) if combination == "mean" else total


def interval(scores: Array, confidence: float = CONFIDENCE) -> Interval:
    """Return the percentile interval of resampled scores."""
    import numpy as np

    tail = 100 * (1 - confidence) / 2
    low, high = np.percentile(scores, [tail, 100 - tail])
    return Interval(float(low), float(high), confidence)


# Paired tests


@dataclass(frozen=True)
class Difference:
    """B against A on the same examples."""

    difference: float
    """B's headline minus A's, whichever is better."""
    interval: Interval
    """The interval of the difference, from a paired bootstrap: the same groups are drawn for both."""
    p: float
    """Two-sided p-value, by approximate randomization."""
    shuffled: Array
    """The difference in each shuffle, for totals over tasks."""
    drawn: Array
    """The difference in each resample, for totals over tasks."""
    examples: int
    """The number of examples compared."""


def paired_test(
    a: Sample, b: Sample, resamples: int = RESAMPLES, shuffles: int = SHUFFLES, seed: int = 0, jobs: int = 1
) -> Difference:
    """Test B against A. Raises DecabenchError if they were not scored on the same examples by the same metric."""
    import numpy as np

    if a.metric.name != b.metric.name or a.rows.shape != b.rows.shape:
        raise DecabenchError(
            f"{a.name or a.metric.name}: only systems that were scored on the same examples, by the same metric, can "
            "be compared."
        )
    both, width = np.concatenate([a.rows, b.rows], axis=1), a.rows.shape[1]

    def resample(start: int, end: int) -> Array:
        totals = _resampled_totals(both, end - start, seeded_generator(seed, a.name, start))
        return b.headline(totals[:, width:]) - a.headline(totals[:, :width])

    def shuffle(start: int, end: int) -> Array:
        generator = seeded_generator(seed, f"swap {a.name}", start)
        bits = generator.integers(0, 256, (end - start, (len(a.rows) + 7) // 8), np.uint8)
        return swapped_differences(a, b, [np.unpackbits(bits, axis=1)[:, : len(a.rows)].astype(float)])

    difference = b.score - a.score
    drawn = _in_blocks(resamples, jobs, resample)
    shuffled = _in_blocks(shuffles, jobs, shuffle)
    return Difference(difference, interval(drawn), p_value(shuffled, difference), shuffled, drawn, a.examples)


def swapped_differences(a: Sample, b: Sample, coins: Iterable[Array]) -> Array:
    """Return B minus A in each shuffle, (shuffles,): a coin decides for each group whether to swap its answers.

    `coins` are blocks of zeros and ones, (shuffles, groups); products are computed in their precision.
    """
    import numpy as np

    change = b.rows - a.rows
    moved = np.concatenate([block @ change.astype(block.dtype) for block in coins]).astype(float)
    with np.errstate(all="ignore"):
        found = b.headline(b.rows.sum(axis=0) - moved) - a.headline(a.rows.sum(axis=0) + moved)
    differences: Array = np.nan_to_num(found)
    return differences


def p_value(shuffled: Array, difference: float, tie: float | None = None) -> float:
    """Return the share of shuffles at least as far from 0, the observed one counted among them (Noreen 1989).

    Ties count: p is 1 if the systems never differ. Sums in another order differ in their last digits, so anything
    within `tie` of the observed difference equals it.
    """
    import numpy as np

    reach = abs(difference) - (1e-9 * max(1.0, abs(difference)) if tie is None else tie)
    return float((np.sum(np.abs(shuffled) >= reach) + 1) / (len(shuffled) + 1))


def combine_differences(parts: Sequence[Difference], combination: Combination = "sum") -> Difference:
    """Return the difference of suites' totals, each task shuffled and resampled independently."""
    difference = sum(part.difference for part in parts) / (len(parts) if combination == "mean" else 1)
    shuffled = combine([part.shuffled for part in parts], combination)
    drawn = combine([part.drawn for part in parts], combination)
    examples = sum(part.examples for part in parts)
    return Difference(difference, interval(drawn), p_value(shuffled, difference), shuffled, drawn, examples)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjust p-values for the number of tests by Holm's (1979) step-down method."""
    adjusted: dict[str, float] = {}
    highest = 0.0
    ordered = sorted(p_values, key=lambda name: (p_values[name], name))
    for rank, name in enumerate(ordered):
        highest = max(highest, min(1.0, p_values[name] * (len(ordered) - rank)))
        adjusted[name] = highest
    return {name: adjusted[name] for name in p_values}


def examples_for_one_point(difference: Difference, power: float = POWER) -> int | None:
    """Return the number of examples that show a difference of one point at 5 %, two-sided, with the given power.

    n' = n ((z_0.975 + z_power) s)^2, where s is the bootstrap's standard error of the difference in points.
    None if no example tells the systems apart.
    """
    import numpy as np

    normal = NormalDist()
    reach = normal.inv_cdf(1 - (1 - CONFIDENCE) / 2) + normal.inv_cdf(power)
    needed = difference.examples * (reach * float(np.std(difference.drawn, ddof=1))) ** 2
    return math.ceil(needed) or None
