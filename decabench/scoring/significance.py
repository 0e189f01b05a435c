"""Confidence intervals for scores, from statistics that are summed by sampled unit.

Intervals show how scores would vary with another sample of units. The units are the
outermost groups of examples, such as SQuAD's articles rather than their paragraphs, if there
are at least ten such groups. If there are fewer, such as six relations, the outer groups
become strata, the units inside them are resampled, and the interval applies only to these
strata. The spread of a score is estimated with the jackknife over units, and its interval is
computed with Student's t on the log-odds scale over the metric's range. docs/statistics.md
explains the method.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decabench.errors import DataError
from decabench.files import atomic_file
from decabench.metrics import Metric
from decabench.tasks import Combination, nest_units
from decabench.text import printable
from decabench.untrusted import open_parquet

Array = NDArray[Any]

CONFIDENCE = 0.95

ENOUGH = 10
"""The minimum number of units that an outer level must have to be resampled."""


@dataclass(frozen=True)
class Layout:
    """The grouping of a split's examples into sampled units. It is the same for all systems."""

    unit: Array
    """(examples,): the index of each example's unit."""
    sizes: Array
    """(units,): the number of examples in each unit."""
    strata: Array
    """(units,): each unit's stratum, as in `Sample`."""
    level: int
    """The level of the units; 0 is outermost."""
    fixed: int
    """The number of outer units, if they are too few to be resampled; 0 if the outermost units are resampled."""

    @classmethod
    def of(cls, levels: Array) -> Layout:
        """Choose the units to resample, given unit indexes of shape (examples, levels).

        The level is the outermost level with at least ENOUGH units, or else the innermost level. A
        unit is identified by its index on its own level and on all outer levels.
        """
        outer = np.zeros(len(levels), dtype=np.int64)
        for level, unit in enumerate(nest_units(levels)):
            sizes = np.bincount(unit)
            if len(sizes) >= ENOUGH:
                fixed = int(outer.max()) + 1 if level else 0
                strata = np.zeros(len(sizes), dtype=np.int64)
                strata[unit] = outer
                return cls(unit, sizes, _merge_lonely(strata), level, fixed)
            outer = unit
        sizes = np.bincount(outer)
        return cls(outer, sizes, np.zeros(len(sizes), dtype=np.int64), levels.shape[1] - 1, 0)


@dataclass(frozen=True)
class Sample:
    """The statistics of one system on one task, with a row for each sampled unit."""

    metric: Metric
    """The metric that turns statistics into scores."""
    rows: Array
    """(units, columns): for each unit, the sum of its examples' rows."""
    sizes: Array
    """(units,): the number of examples in each unit."""
    strata: Array
    """(units,): each unit's stratum. Units are resampled within strata. All 0 if there is a single stratum."""
    name: str = ""
    """The task's name, which seeds the resamples so that each task is resampled independently."""
    level: int = 0
    """The level of the units; 0 is outermost."""
    fixed: int = 0
    """The number of outer units, if they are too few to be resampled; 0 if the outermost units are resampled."""
    influence: Array | None = None
    """(units,): the first-order effect of each unit on the score, for rank metrics, whose rows can't be summed."""

    @classmethod
    def of_levels(cls, metric: Metric, rows: Array, levels: Array, name: str = "") -> Sample:
        """Return a sample of statistics, which are summed by unit.

        `rows` contains statistics of shape (examples, columns), and `levels` contains unit indexes
        of shape (examples, levels), as returned by `decabench.tasks.number_units`.
        """
        return cls.of_layout(metric, rows, Layout.of(levels), name)

    @classmethod
    def of_layout(cls, metric: Metric, rows: Array, layout: Layout, name: str = "") -> Sample:
        """Return a sample of statistics of shape (examples, columns), which are summed by unit."""
        unit, count = layout.unit, len(layout.sizes)
        if count == len(rows):  # each example is a unit
            sums = np.ascontiguousarray(rows)  # so that sums are rounded in the same order
        else:
            sums = np.stack([np.bincount(unit, weights=column, minlength=count) for column in rows.T], axis=1)
        influence = None
        if metric.influence is not None:
            influence = np.bincount(unit, weights=metric.influence(rows), minlength=count)
        return cls(metric, sums, layout.sizes, layout.strata, name, layout.level, layout.fixed, influence)

    def condensed(self) -> Sample:
        """Return a sample with the same score, effects and spread, but a single row with the totals."""
        found = replace(self, rows=self.rows.sum(axis=0, keepdims=True), influence=None)
        vars(found).update(score=self.score, effects=self.effects, spread=self.spread, interval=self.interval)
        return found

    def headline(self, totals: Array) -> Array:
        """Compute the headline score from sums of rows.

        `totals` has shape (..., columns), and the result has shape (...).
        """
        columns = {name: totals[..., index] for index, name in enumerate(self.metric.columns)}
        return self.metric.score(columns)[self.metric.headline]  # type: ignore[no-any-return]

    @cached_property
    def score(self) -> float:
        """The headline score over all rows."""
        return float(self.headline(self.rows.sum(axis=0)))

    @property
    def examples(self) -> int:
        """The number of examples in all units."""
        return int(self.sizes.sum())

    @property
    def effective(self) -> float:
        """The effective number of units, (sum n)^2 / sum n^2, where n are the sizes of the units (Kish 1965)."""
        return _effective(self.sizes)

    @property
    def shares(self) -> Array:
        """(units,): each unit's share of the examples in its stratum."""
        # Not cached, because a board keeps the samples of all systems in memory.
        shares: Array = self.sizes / np.bincount(self.strata, weights=self.sizes)[self.strata]
        return shares

    @cached_property
    def effects(self) -> Array:
        """(units,): how much each unit adds to the score, summing to 0 in each stratum.

        Unless `influence` is set, each effect is computed by leaving out the unit, which changes the score by
        `effect / (1 - share)`. This also works for corpus metrics.
        """
        if self.influence is not None:
            effects = self.influence
        elif len(self.rows) < 2:
            return np.zeros(len(self.rows))
        else:
            with np.errstate(all="ignore"):
                change = self.score - self.headline(_sums_without_each(self.rows))
            effects = np.nan_to_num(change) * (1 - self.sizes / self.examples)
        sums = np.bincount(self.strata, weights=effects)
        centred: Array = effects - self.shares * sums[self.strata]
        return centred

    @cached_property
    def spread(self) -> Spread:
        """The jackknife variance of the score over units within strata, which is infinite if it overflows."""
        parts, shares = [], self.shares
        for stratum in range(int(self.strata.max()) + 1):
            inside = self.strata == stratum
            count = int(inside.sum())
            if count > 1:
                with np.errstate(over="ignore"):  # answers such as 1e99 can overflow
                    deviations = self.effects[inside] / (1 - shares[inside])
                    variance = (count - 1) / count * float(np.sum(deviations**2))
                parts.append(Spread(variance, max(_effective(self.sizes[inside]) - 1, 1.0)))
        return Spread.combined(parts)

    @cached_property
    def interval(self) -> Interval | None:
        """The interval of the score.

        None if there is only one unit, an end would overflow, or the score doesn't vary on an unbounded scale.
        """
        if len(self.sizes) < 2:
            return None
        return _interval(self.score, self.spread, self.metric.range, self.effective)

    @property
    def varies(self) -> bool:
        """Whether the score varies between samples; False if all units are equal."""
        low, high = self.metric.range
        least = 1e-12 * (high - low) if math.isfinite(high - low) else 0.0
        return math.sqrt(self.spread.variance) > least


def _sums_without_each(rows: Array) -> Array:
    """Return, for each row, the sum of all other rows. Subtracting the row from the total would lose digits."""
    sums: Array = np.zeros(rows.shape)
    for column, found in zip(
        rows.T, sums.T, strict=True
    ):  # one column at a time, because there may be millions of rows
        np.cumsum(column[:-1], out=found[1:])
        found[:-1] += np.cumsum(column[:0:-1])[::-1]
    return sums


def _merge_lonely(strata: Array) -> Array:
    """Merge strata that consist of a single unit, because a single unit has no variance.

    If there is only one such stratum, it is merged into the smallest other stratum.
    """
    counts = np.bincount(strata)
    lonely = counts[strata] == 1
    if lonely.any():
        other = int(np.argmin(np.where(counts > 1, counts, counts.max() + 1)))
        strata = np.where(lonely, len(counts) if lonely.sum() > 1 else other, strata)
    return np.unique(strata, return_inverse=True)[1]


def _effective(sizes: Array) -> float:
    return float(sizes.sum()) ** 2 / float((sizes.astype(float) ** 2).sum())


@dataclass(frozen=True)
class SampledUnits:
    """A description of the units that intervals resample."""

    number: int
    """The number of units."""
    effective: float
    """The effective number of units: how many units of equal size would carry the same information."""
    level: str | None = None
    """The name of a unit, such as `article`."""
    fixed: int = 0
    """The number of outer units, if they are too few to be resampled; 0 if the outermost units are resampled."""
    within: str | None = None
    """The name of an outer unit, such as `relation`."""


def describe_units(sample: Sample, names: Sequence[str] = ()) -> SampledUnits:
    """Describe the units that a sample consists of. `names` are the names of the task's levels, outermost first."""
    return SampledUnits(
        len(sample.sizes),
        round(sample.effective, 1),
        names[sample.level] if sample.level < len(names) else None,
        sample.fixed,
        names[sample.level - 1] if sample.fixed and sample.level <= len(names) else None,
    )


# Intervals


@dataclass(frozen=True)
class Spread:
    """The sampling variance of a score, with its degrees of freedom."""

    variance: float
    """The score's variance; infinite (unknown) if it is larger than any float."""
    freedom: float
    """The degrees of freedom of the variance."""

    @classmethod
    def combined(cls, parts: Sequence[Spread]) -> Spread:
        """Return the spread of a sum of independent parts, with Satterthwaite's (1946) degrees of freedom."""
        least = min((part.freedom for part in parts), default=1.0)
        try:
            variance = math.fsum(part.variance for part in parts)
            # dividing by a power of two is exact, and prevents squares from overflowing
            scale = max(math.ldexp(1.0, math.frexp(variance)[1] - 400), 1.0)
            below = math.fsum((part.variance / scale) ** 2 / part.freedom for part in parts)
        except OverflowError:
            return cls(math.inf, least)
        if not math.isfinite(variance):
            return cls(math.inf, least)
        return cls(variance, max((variance / scale) ** 2 / below, least) if below else least)


@dataclass(frozen=True)
class Interval:
    """A 95% confidence interval."""

    low: float
    """The lower end, in the score's units."""
    high: float
    """The upper end, in the score's units."""

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends, rounded, because sums differ slightly between libraries.

        Rounds to four decimal places, or to three significant digits of the width if the interval is
        narrower than 0.01.
        """
        width = self.high - self.low
        is_point = width <= 1e-9 * max(abs(self.low), abs(self.high))  # equal up to rounding
        decimals = 4 if is_point else max(4, 2 - math.floor(math.log10(width)))
        return round(self.low, decimals), round(self.high, decimals)


def total_interval(samples: Sequence[Sample], combination: Combination = "sum") -> Interval | None:
    """Return the interval of a suite's total, treating tasks as independent.

    Variances and third moments are added. For a task without variance, for example because all answers are right, the
    half-widths of its own interval are added in quadrature instead (MOVER, Zou and Donner 2008). Returns None if a task
    has no interval.
    """
    if not samples or any(len(sample.sizes) < 2 for sample in samples):
        return None
    try:
        return _finite(_total_interval(samples, combination))
    except OverflowError:
        return None


def _total_interval(samples: Sequence[Sample], combination: Combination) -> Interval | None:
    total = math.fsum(sample.score for sample in samples)
    ends = []
    errors, lean = [], 0.0
    for sample in samples:
        own = sample.interval
        if own is None:
            return None
        halves = sample.score - own.low, own.high - sample.score
        if sample.varies and any(halves):
            errors.append(sum(halves) / 2 / student_t(sample.spread.freedom))
            lean += errors[-1] ** 3 * (halves[0] - halves[1]) / sum(halves)
        else:
            ends.append(halves)
    if errors:
        error = math.hypot(*errors)
        reach = error * student_t(Spread.combined([each.spread for each in samples if each.varies]).freedom)
        ends.append((reach * (1 + lean / error**3), reach * (1 - lean / error**3)))
    parts = len(samples) if combination == "mean" else 1
    below, above = (math.hypot(*halves) for halves in zip(*ends, strict=True))
    low, high = (math.fsum(sample.metric.range[end] for sample in samples) for end in (0, 1))
    return Interval(max(total - below, low) / parts, min(total + above, high) / parts)


def _interval(score: float, spread: Spread, scale: tuple[float, float], effective: float) -> Interval | None:
    low, high = scale
    error = math.sqrt(spread.variance)
    if not math.isfinite(error):
        return None
    reach = student_t(spread.freedom)
    if not math.isfinite(high - low):
        return _finite(_open_interval(score, error * reach, low)) if error > 0 else None
    share = min(max((score - low) / (high - low), 0.0), 1.0)
    relative = error / (high - low)
    if min(share, 1 - share) < 1e-9:  # all right or all wrong: use the exact bound (Clopper and Pearson 1934)
        missed = 1 - ((1 - CONFIDENCE) / 2) ** (1 / effective)
        ends = (0.0, missed) if share < 0.5 else (1 - missed, 1.0)
    else:
        if relative < 1e-12:  # equal units: treat them like single examples
            relative = math.sqrt(share * (1 - share) / effective)
        middle, step = math.log(share / (1 - share)), reach * relative / (share * (1 - share))
        ends = _logistic(middle - step), _logistic(middle + step)
    return Interval(low + (high - low) * ends[0], low + (high - low) * ends[1])


def _finite(interval: Interval | None) -> Interval | None:
    return interval if interval and math.isfinite(interval.low) and math.isfinite(interval.high) else None


def _open_interval(score: float, reach: float, low: float) -> Interval:
    """Return an interval for an unbounded scale. A log scale is used if scores have a lower bound, as errors do."""
    if not math.isfinite(low) or score <= low:
        return Interval(score - reach, score + reach)
    factor = math.exp(min(reach / (score - low), 700.0))
    return Interval(low + (score - low) / factor, low + (score - low) * factor)


def _logistic(odds: float) -> float:
    return 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0


@lru_cache(maxsize=1_000)
def student_t(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Return the two-sided quantile of Student's t distribution, such as 12.71 for one degree of freedom."""
    freedom = min(max(freedom, 1.0), 1e5)
    # With t = sqrt(freedom) tan(angle), the density of the angle is proportional to cos(angle)^(freedom - 1).
    angles, cosines = _angles()
    density = cosines ** (freedom - 1)
    inside = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return math.sqrt(freedom) * math.tan(float(np.interp(confidence, inside / inside[-1], angles)))


@lru_cache(maxsize=1)
def _angles() -> tuple[Array, Array]:
    angles = np.linspace(0.0, math.pi / 2, 40_001)
    return angles, np.cos(angles)


def show_interval(ends: tuple[float, float] | None, digits: int = 2, sign: str = "") -> str:
    """Return `24.5 to 59.1`, or `+0.12 to +0.98` if `sign` is `+`, or a dash if there is no interval."""
    return "–" if ends is None else f"{ends[0]:{sign}.{digits}f} to {ends[1]:{sign}.{digits}f}"


def show_difference(interval: tuple[float, float] | None, same: bool, digits: int = 2) -> str:
    """Return the interval of a difference, with signs, or `no differences` if all units are equal."""
    return "no differences" if same else show_interval(interval, digits, sign="+")


def show_p(p: float | None) -> str:
    """Return a p-value as `0.0312`, or a dash if there was no test."""
    return "–" if p is None else f"{p:.4f}"


def show_units(units: SampledUnits | None) -> str:
    """Describe units, as in `48 articles (41.2 effective)` or `120 sentences in these 6 relations`."""
    if units is None or not all(0 <= value < 1e12 for value in (units.number, units.effective, units.fixed)):
        return ""
    if not units.number:
        return ""
    level, within = (printable((name or "unit")[:40]) for name in (units.level, units.within))
    text = f"{units.number:,} {level if units.number == 1 else _plural(level)}"
    if units.effective and abs(units.number - units.effective) >= 0.05:
        text += f" ({units.effective:,.1f} effective)"
    if units.fixed == 1:
        return f"{text} in this {within}"
    return f"{text} in these {units.fixed} {_plural(within)}" if units.fixed else text


def _plural(noun: str) -> str:
    return f"{noun[:-1]}ies" if re.search("[^aeiou]y$", noun) else f"{noun}s"


# Files of statistics


def write_statistics(path: Path, metric: Metric, units: Array, rows: Array, about: Mapping[str, str]) -> None:
    """Write a row for each example, with its units and statistics.

    The columns are `unit_1` (the outermost unit), `unit_2`, …, followed by the statistics.
    `units` contains unit indexes of shape (examples, levels), `rows` contains statistics of
    shape (examples, columns), and `about` becomes the file's metadata. Raises StorageError if
    the file can't be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {f"unit_{level}": numbers for level, numbers in enumerate(units.T.astype("int32"), start=1)}
    columns |= {name: rows[:, at] for at, name in enumerate(metric.columns)}
    table = pa.table({name: _to_arrow(values) for name, values in columns.items()})
    with atomic_file(path) as file:
        pq.write_table(table.replace_schema_metadata(about), file, compression="zstd")


# pyarrow's conversions from and to numpy import pandas, which takes longer than writing all files.


def _to_arrow(values: Any) -> Any:
    import pyarrow as pa

    array = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), len(array), [None, pa.py_buffer(array)])


def _to_numpy(column: Any) -> Array:
    return np.concatenate([np.from_dlpack(chunk) for chunk in column.chunks])


_MOST_COLUMNS = 4_000
"""The maximum number of columns. Metrics allow 1,000 classes, with a few columns for each class."""


def read_statistics(path: Path, metric: Metric) -> tuple[Metric, Array, Array]:
    """Read a statistics file, and return its metric, unit indexes and statistics.

    The metric has the classes that the file was written for. The unit indexes have shape
    (examples, levels), and the statistics have shape (examples, columns). Raises DataError if
    the file is damaged or empty, or lacks a column.
    """
    import pyarrow as pa

    try:
        with open_parquet(path) as file:
            names = file.schema_arrow.names
            if len(names) > _MOST_COLUMNS:
                raise ValueError(f"it has {len(names):,} columns")
            metric = metric.for_columns(names)
            levels = [name for level in range(1, len(names) + 1) if (name := f"unit_{level}") in names]
            table = file.read([*levels, *metric.columns], use_threads=False)
        units = np.stack([_to_numpy(table.column(name)) for name in levels], axis=1)
        rows = np.stack([_to_numpy(table.column(name)).astype(float) for name in metric.columns], axis=1)
        if not len(rows) or units.dtype.kind not in "iu" or not np.isfinite(rows).all():
            raise ValueError(
                "it has no rows, or contains NaN, infinite values or units that are not whole numbers"
            )
    except (pa.ArrowException, KeyError, TypeError, ValueError, OSError) as error:
        raise DataError(
            f"{path} is damaged ({type(error).__name__}: {error}). Run decabench evaluate again."
        ) from error
    return metric, units, rows
