"""Significance tests for all pairs of systems, based on resamples that all systems share.

Each resample flips the signs of the units' contributions to the differences, with the same signs
for all systems (the wild cluster bootstrap with the null imposed: Cameron, Gelbach and Miller
2008). Differences are studentized: each is divided by its standard error, in the data and in
every resample. A pair's p-value is the proportion of resamples in which this ratio is at least as
large as in the data. For the adjusted p-value, the largest ratio of any pair is counted instead
(Westfall and Young 1993), which makes adjusted p-values simultaneously valid for all pairs of a
leaderboard. docs/statistics.md explains the method and its error rates.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from threading import local
from typing import Any, TypeVar

import numpy as np
from numpy.random import SFC64, SeedSequence
from numpy.typing import NDArray

from decabench.scoring.significance import Interval, Sample
from decabench.tasks import Combination

Array = NDArray[Any]

Part = TypeVar("Part")
Found = TypeVar("Found")
Key = TypeVar("Key")

RESAMPLES = 1_999
"""The number of resamples. The data itself counts as one more, so p-values are multiples of 1/2,000."""

LEVEL = 0.05
"""The two-sided significance level, which corresponds to 95% intervals."""

POWER = 0.8

_FEWEST = 6
"""The smallest number of units that can give a p-value below LEVEL. If all six units favor the
same system, the p-value is 2 / 2^6, or about 0.03.
"""

_NORMAL = 1.96
"""The two-sided quantile of the normal distribution at LEVEL."""

_CELLS = 4_000_000
"""The maximum number of signs in memory at a time. A sign takes four bytes."""

_PAIRS = 64
"""The maximum number of pairs to resample at once. More pairs would not fit into the processor's cache."""

_MANY_PARTS = 100
"""The number of systems above which threads are faster."""

_TIE = 1e-4
"""The relative tolerance for rounding errors in single precision. Values this close count as equal."""

_SURE = 1e6
"""The upper limit of squared ratios, which corresponds to a thousand standard errors.

Larger ratios occur only if the variance is 0 except for rounding errors.
"""

_LARGE = 20
"""The binary exponent above which effects are scaled down.

The squares of very large effects would overflow single precision.
"""

_CANCELLED = 1e-7
"""The threshold for recomputing a sum over differences, as a fraction of the subtracted terms.

Below this fraction, half of the digits are lost to cancellation, and the sum is computed again
from the differences themselves.
"""


@dataclass(frozen=True)
class _Block:
    """The units of one task and stratum, for systems that were scored on the same units.

    In the formulas, x are the effects of the units on a system's score, s the units' shares of the examples, e the
    signs in a resample, h = 1 / (1 - s), and c = (units - 1) / units. Sums are over units.

    A resample changes a score by `moved`. The variance of the resampled score is `products` + `moved` * `lean`, where
    `lean` is c sum(h^2 s s) * `moved` - 2 c sum(e h^2 s x). `moved` and `lean` are linear in x, so their
    values for a difference between two scores are the differences between the values of the two systems. In all arrays,
    the shares follow the systems, as if they were the effects of one more system. Large effects are divided by a power
    of two (`FlippedTask.powers`).
    """

    moved: Array
    """(systems + 1, resamples): sum(e x), the change of each score."""
    lean: Array
    """(systems + 1, resamples): the coefficient of `moved` in the variance, as defined above."""
    products: Array
    """(systems + 1, systems + 1): c sum(h^2 x x'), the variances and covariances of the systems' scores."""


@dataclass(frozen=True)
class FlippedTask:
    """The resamples of one task for all systems. Totals over several tasks use the same resamples."""

    scores: Array
    """(systems,): the scores; NaN for a system without statistics."""
    layouts: Array
    """(systems,): the index of each system's layout; systems scored on the same units have the same
    layout. -1 for a system without statistics.
    """
    rows: Array
    """(systems,): the index of each system in the arrays of its blocks."""
    powers: Array
    """(systems,): the exponent of the power of two that each system's effects were divided by; usually 0."""
    blocks: Sequence[Sequence[_Block]]
    """The blocks of units of each layout."""
    squares: Array
    """(systems, systems): the sum of the units' squared contributions to a difference; NaN if the layouts differ.
    """
    fourths: Array
    """(systems, systems): the sum of the fourth powers of the units' contributions to a difference."""
    span: float
    """The largest possible difference between two scores."""
    examples: int
    """The number of examples scored."""


def flip_signs(samples: Sequence[Sample | None], seed: int = 0, resamples: int = RESAMPLES) -> FlippedTask:
    """Resample one task for all systems. The sample of a system without statistics is None."""
    known: dict[tuple[str, bytes, bytes], list[int]] = {}
    for index, sample in enumerate(samples):
        if sample is not None and len(sample.sizes) > 1 and np.isfinite(sample.effects).all():
            key = (sample.metric.name, sample.sizes.tobytes(), sample.strata.tobytes())
            known.setdefault(key, []).append(index)
    layouts, rows = (np.full(len(samples), -1) for _ in range(2))
    powers = np.zeros(len(samples), dtype=int)
    squares, fourths = (np.full((len(samples), len(samples)), math.nan) for _ in range(2))
    blocks = []
    for layout, indexes in enumerate(known.values()):
        layouts[indexes], rows[indexes] = layout, range(len(indexes))
        alike = [one for i in indexes if (one := samples[i])]
        effects = np.stack([sample.effects for sample in alike])
        _, exponents = np.frexp(np.abs(effects).max(axis=1))
        powers[indexes] = np.where(exponents > _LARGE, exponents, 0)
        scaled = np.ldexp(effects, -powers[indexes, None]) if powers[indexes].any() else effects
        blocks.append(_make_blocks(alike[0], scaled, seed, resamples))
        squares[np.ix_(indexes, indexes)], fourths[np.ix_(indexes, indexes)] = _power_sums(alike, effects)
    found = [sample for sample in samples if sample is not None]
    return FlippedTask(
        scores=np.array([math.nan if sample is None else sample.score for sample in samples]),
        layouts=layouts,
        rows=rows,
        powers=powers,
        blocks=blocks,
        squares=squares,
        fourths=fourths,
        span=max((sample.metric.range[1] - sample.metric.range[0] for sample in found), default=math.inf),
        examples=max((sample.examples for sample in found), default=0),
    )


def _make_blocks(first: Sample, effects: Array, seed: int, resamples: int) -> list[_Block]:
    """Return a block for each stratum.

    `effects` has shape (systems, units) and contains the effects for all systems with the same
    units as `first`.
    """
    strata = [first.strata == number for number in range(int(first.strata.max()) + 1)]
    parts: list[tuple[Array, Array, Array, float]] = []
    for inside in strata:
        count = int(inside.sum())
        x = effects.T if len(strata) == 1 else effects[:, inside].T
        s = first.shares[inside]
        parts.append((x, s, 1 / (1 - s) ** 2, (count - 1) / count))
    columns = [
        np.column_stack([x, s] if (s == s[0]).all() else [x, s, c * (h2 * s)[:, None] * x, c * h2 * s**2])
        for x, s, h2, c in parts
    ]
    columns = [block.astype(np.float32) for block in columns]
    flipped = [
        [signs[:, inside] @ block for inside, block in zip(strata, columns, strict=True)]
        if len(strata) > 1
        else [signs @ columns[0]]
        for signs in _signs(seed, first.name, resamples, len(first.sizes))
    ]
    made, rows = [], len(effects) + 1
    for (x, s, h2, c), pieces in zip(parts, zip(*flipped, strict=True), strict=True):
        sums = np.concatenate(pieces).T
        weights, square = c * (h2 * s) @ x, c * float((h2 * s**2).sum())
        moved = np.ascontiguousarray(sums[:rows])
        lean = np.float32(square) * moved
        lean -= 2 * (sums[rows:] if len(sums) > rows else np.float32(c * h2[0] * s[0]) * moved)
        products = np.block([[c * (x * h2[:, None]).T @ x, weights[:, None]], [weights, square]])
        made.append(_Block(moved, lean, products))
    return made


def _power_sums(samples: Sequence[Sample], effects: Array) -> tuple[Array, Array]:
    """Return the sums of the squares and of the fourth powers of the units' contributions to each difference.

    Both arrays have the shape (systems, systems). A unit contributes its effect plus its share of the difference
    between the scores. If there are several strata, the difference is first divided equally among them.
    """
    first = samples[0]
    scores = np.array([sample.score for sample in samples]) / (int(first.strata.max()) + 1)
    with np.errstate(over="ignore", invalid="ignore"):  # effects can be as large as 1e80
        parts = effects + first.shares * scores[:, None]
        # Subtracting the mean doesn't change the differences, and reduces rounding errors for similar systems.
        middle = parts - parts.mean(axis=0)
        powers = middle**2
        cubes = middle * powers
        ones = powers.sum(axis=1)
        both = np.square(powers).sum(axis=1)
        squares = ones[:, None] + ones - 2 * (middle @ middle.T)
        mixed = cubes @ middle.T
        fourths = both[:, None] + both + 6 * (powers @ powers.T) - 4 * (mixed + mixed.T)
        np.fill_diagonal(squares, 0.0)
        np.fill_diagonal(fourths, 0.0)
        sure = (fourths > _CANCELLED * (both[:, None] + both)) & (
            squares > _CANCELLED * (ones[:, None] + ones)
        )
        for a, b in np.argwhere(np.triu(~sure, 1)):
            exact = np.square(parts[b] - parts[a])
            squares[a, b] = squares[b, a] = exact.sum()
            fourths[a, b] = fourths[b, a] = np.square(exact).sum()
    return squares, fourths


def _signs(seed: int, name: str, resamples: int, units: int) -> Iterator[Array]:
    """Yield blocks of signs, each of shape (resamples, units).

    The signs are seeded by the task's name, so tasks are independent.
    """
    generator = np.random.Generator(_source(seed, name))
    bits = generator.integers(0, 256, (resamples, (units + 7) // 8), np.uint8)
    step = max(1, _CELLS // units)
    for start in range(0, resamples, step):
        coins = np.unpackbits(bits[start : start + step], axis=1)[:, :units]
        yield 2 * coins.astype(np.float32) - 1


def _source(seed: int, name: str) -> SFC64:
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    return SFC64(SeedSequence([seed, key]))


def sign_state(name: str) -> list[int]:
    """Return the four words of SFC64 state that generate a task's signs. Leaderboard pages use the same state."""
    state: Any = _source(0, name).state
    return [int(word) for word in state["state"]["state"]]


@dataclass(frozen=True)
class PairTests:
    """The differences between all pairs of systems, with their tests.

    Arrays have the shape (systems, systems), with the difference b minus a in row a and column b. Values are NaN for
    pairs that can't be tested.
    """

    differences: Array
    """b minus a, in the score's units."""
    errors: Array
    """The standard error of the difference."""
    p: Array
    """The two-sided p-value of each pair, without adjustment for other pairs; NaN unless computed with intervals."""
    adjusted: Array
    """The p-value adjusted for all pairs of the family; see `compare_pairs`."""
    reach: Array
    """The distance from the difference to the end of the 95% interval that is closer to 0."""
    wide: Array
    """The distance to the end that is farther from 0. Equal to `reach` if `p` is not below 0.05."""
    sizes: Array
    """The size of a typical unit's contribution to the difference, among the units on which the systems differ; 0 if
    there are none.
    """
    span: float
    """The largest possible difference."""
    examples: int
    """The number of examples scored."""
    highest: Array | None = None
    """(resamples,): the highest squared ratio among the pairs that p-values are adjusted for."""

    @cached_property
    def tested(self) -> Array:
        """(systems, systems): whether a pair could be tested."""
        return ~np.isnan(self.adjusted)

    @cached_property
    def significant(self) -> Array:
        """(systems, systems): whether two systems differ significantly after adjusting for all pairs."""
        significant: Array = self.adjusted < LEVEL
        return significant

    @cached_property
    def ends(self) -> tuple[Array, Array]:
        """The lower and upper ends of the 95% intervals, or NaN for pairs without an interval.

        An interval excludes 0 if `p` is below 0.05.
        """
        rises = self.differences > 0
        low = np.maximum(self.differences - np.where(rises, self.reach, self.wide), -self.span)
        high = np.minimum(self.differences + np.where(rises, self.wide, self.reach), self.span)
        known = self.tested & (self.sizes != 0) & np.isfinite(low) & np.isfinite(high)
        return np.where(known, low, math.nan), np.where(known, high, math.nan)

    def is_tested(self, a: int, b: int) -> bool:
        """Return whether a pair could be tested."""
        return bool(self.tested[a, b])

    def differ(self, a: int, b: int) -> bool:
        """Return whether two systems differ significantly after adjusting for all pairs."""
        return bool(self.significant[a, b])

    def interval(self, a: int, b: int) -> Interval | None:
        """Return the 95% interval of b minus a, or None if there is no interval."""
        low, high = (float(end[a, b]) for end in self.ends)
        return None if math.isnan(low) else Interval(low, high)

    def is_same(self, a: int, b: int) -> bool:
        """Return whether every unit contributes equally to the scores of two systems."""
        return bool(self.sizes[a, b] == 0)


def compare_pairs(
    tasks: Sequence[FlippedTask],
    combination: Combination = "sum",
    family: Sequence[int] | None = None,
    intervals: bool = True,
) -> PairTests:
    """Test all pairs of systems on one task, or on the sum or mean of several tasks.

    `family` contains the indices of the systems to adjust p-values for, by default all systems. A pair within the
    family is adjusted for all pairs of the family. Any other pair is adjusted for these pairs and itself. Intervals
    and unadjusted p-values are computed only if `intervals` is true, because they account for more than half of the
    running time.
    """
    count = len(tasks[0].scores)
    parts = len(tasks) if combination == "mean" else 1
    scores = np.sum([task.scores for task in tasks], axis=0) / parts
    inside = np.zeros(count, dtype=bool)
    inside[list(range(count) if family is None else family)] = True
    errors, adjusted = (np.full((count, count), math.nan) for _ in range(2))
    p, reach, wide = (
        np.full((count, count), math.nan) if intervals else np.broadcast_to(math.nan, (count, count))
        for _ in range(3)
    )
    sizes = _sizes_of_units(tasks)
    highest: Array = np.zeros(1, dtype=np.float32)
    memory = _Memory()

    def test(pair: tuple[int, Array]) -> Array:
        a, ours = pair
        # If all pairs were divided by the same power of two, small effects would be lost.
        powers = np.max([np.maximum(task.powers[a], task.powers[ours]) for task in tasks], axis=0)
        differences = np.ldexp((scores[ours] - scores[a]) * parts, -powers)
        variance, resampled = _resample_pairs(tasks, a, ours, differences, powers, memory)
        observed = _bounded_ratio(differences**2, variance, variance.copy())
        is_family = inside[a] and inside[ours[0]]
        best: Array = np.zeros(1, dtype=np.float32)
        for some, reached in resampled:
            most = reached.max(axis=0)
            if not np.isfinite(most).all():  # an overflowing pair must not affect the others
                usable = np.isfinite(reached).all(axis=1)
                observed[some][~usable], reached[~usable] = math.nan, 0.0
                most = reached.max(axis=0)
            best = np.maximum(best, most)
            if not is_family:  # `highest` is known, because the pairs of the family are tested first
                adjusted[a, ours[some]] = _share(np.maximum(reached, highest), observed[some])
            if intervals:
                p[a, ours[some]] = _share(reached, observed[some])
                critical = _critical(reached)
                size = np.ldexp(sizes[a, ours[some]], -powers[some])
                ends = _find_ends(differences[some], variance[some], size, critical)
                reach[a, ours[some]], wide[a, ours[some]] = (
                    np.ldexp(end, powers[some]) / parts for end in ends
                )
        errors[a, ours] = np.ldexp(np.sqrt(variance), powers) / parts
        if is_family:
            adjusted[a, ours] = observed  # replaced by p-values once the highest ratio of all pairs is known
        return best

    family_pairs, other_pairs = _list_pairs(tasks, inside)
    for best in _map_threads(test, family_pairs):
        highest = np.maximum(highest, best)
    tested = ~np.isnan(adjusted) & inside & inside[:, None]
    adjusted[tested] = _share_of_sorted(np.sort(highest), adjusted[tested])
    for _ in _map_threads(test, other_pairs):
        pass
    lower, known = np.tril_indices(count, -1), ~np.isnan(scores)
    made = [(errors, 0.0), (adjusted, 1.0), *([(p, 1.0), (reach, 0.0), (wide, 0.0)] if intervals else ())]
    for one, value in made:
        one[lower] = one.T[lower]
        np.fill_diagonal(one, np.where(known, value, math.nan))
    np.fill_diagonal(sizes, np.where(known, 0.0, math.nan))
    return PairTests(
        differences=scores[None, :] - scores[:, None],
        errors=errors,
        p=p,
        adjusted=adjusted,
        reach=reach,
        wide=wide,
        sizes=sizes / parts,
        span=sum(task.span for task in tasks) / parts,
        examples=sum(task.examples for task in tasks),
        highest=np.broadcast_to(highest, RESAMPLES) if len(highest) == 1 else highest,
    )


def _map_threads(function: Callable[[Part], Found], parts: Sequence[Part]) -> Iterator[Found]:
    """Map a function over parts in order, with threads for long lists, because numpy releases the GIL."""
    if len(parts) < _MANY_PARTS:
        yield from map(function, parts)
        return
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        yield from pool.map(function, parts)


def _list_pairs(
    tasks: Sequence[FlippedTask], inside: Array
) -> tuple[list[tuple[int, Array]], list[tuple[int, Array]]]:
    """Return the pairs of systems inside the family, and all other pairs, as two lists.

    `inside` marks the systems of the family. Each item of a list contains the index of a system, and the indexes of
    the later systems that were scored on the same units.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, layout in enumerate(zip(*(task.layouts.tolist() for task in tasks), strict=True)):
        if -1 not in layout:
            groups.setdefault(layout, []).append(index)
    each = [
        (a, np.array(systems[at:], dtype=int))
        for systems in groups.values()
        for at, a in enumerate(systems, 1)
    ]
    return (
        [(a, ours) for a, others in each if len(ours := others[inside[others] & inside[a]])],
        [(a, ours) for a, others in each if len(ours := others[~(inside[others] & inside[a])])],
    )


class _Memory(local):
    """Arrays that each thread reuses, because allocating new arrays takes longer than the computation."""

    known: Array | None = None

    def take(self, count: int, pairs: int, resamples: int) -> Array:
        if self.known is None or self.known.shape[1] < pairs:
            self.known = np.empty((count, pairs, resamples), dtype=np.float32)
        return self.known[:, :pairs]


def _resample_pairs(
    tasks: Sequence[FlippedTask], a: int, others: Array, differences: Array, powers: Array, memory: _Memory
) -> tuple[Array, Iterator[tuple[slice, Array]]]:
    """Return each pair's variance, and an iterator over slices of the pairs with their squared ratios.

    The squared ratios have shape (pairs, resamples). They are at most `_SURE`, and are overwritten when the iterator
    advances. Differences are divided by the pairs' powers of two, and variances by the squares of these powers. To
    impose the null hypothesis, a difference is divided among blocks by their variances, and among the units of a
    block by their sizes. On a single task with units of equal size, each unit keeps exactly its own difference.
    """
    of_tasks = [(task, block) for task in tasks for block in task.blocks[task.layouts[a]]]
    found = [(block, task.rows[a], task.rows[others]) for task, block in of_tasks]
    exponents = np.array([task.powers for task, _ in of_tasks])
    # (blocks, pairs): factors that convert a system's units to the units of its pair; usually 1
    ours, theirs = (np.ldexp(1.0, exponents[:, at] - powers) for at in ([a], others))
    products = (
        (p[i, [i]], p[j, j], p[i, j], p[-1, [i]], p[-1, j], p[-1, -1:])
        for p, i, j in ((block.products, i, j) for block, i, j in found)
    )
    first, second, both, first_share, second_share, square = map(np.array, zip(*products, strict=True))
    own = np.maximum(first * ours**2 + second * theirs**2 - 2 * both * ours * theirs, 0.0)
    variance: Array = own.sum(axis=0)
    share = np.where(variance > 0, own / np.where(variance > 0, variance, 1.0), 1 / len(found))
    shared = share * differences
    weighed = second_share * theirs - first_share * ours
    fixed = (own + 2 * shared * weighed + shared**2 * square).sum(axis=0).astype(np.float32)
    weights = np.stack([-ours, shared], axis=-1).astype(np.float32)
    times = theirs.astype(np.float32)[..., None] if powers.any() else None

    def resample() -> Iterator[tuple[slice, Array]]:
        for start in range(0, len(others), _PAIRS):
            some = slice(start, start + _PAIRS)
            moved, spread, step, lean = memory.take(4, len(others[some]), found[0][0].moved.shape[1])
            for number, (block, i, j) in enumerate(found):
                by, across = (step, lean) if number else (moved, spread)
                at = j[some]
                rows = slice(at[0], at[-1] + 1) if at[-1] - at[0] < len(at) else at  # a slice is faster
                for values, out in ((block.moved, by), (block.lean, across)):
                    # the row of the first system, and the last row, which contains the values of the shares
                    np.matmul(weights[number, some], values[i :: len(values) - 1 - i], out=out)
                    out += values[rows] if times is None else values[rows] * times[number, some]
                across *= by
                if number:
                    moved += by
                    spread += across
            spread += fixed[some, None]
            yield some, _bounded_ratio(np.square(moved, out=moved), spread, step)

    return variance, resample()


def _sizes_of_units(tasks: Sequence[FlippedTask]) -> Array:
    """Return the typical effect of a unit on each difference, counting only units on which the two systems differ.

    The sizes have the shape (systems, systems), and are 0 for systems that don't differ on any unit. A size is
    sqrt(sum(u^4) / sum(u^2)), where u are the contributions of the units to the difference. If all contributions
    other than 0 have the same absolute value, the size is this value.
    """
    squares = np.sum([task.squares for task in tasks], axis=0)
    fourths = np.sum([task.fourths for task in tasks], axis=0)
    with np.errstate(invalid="ignore"):  # infinite sums
        sizes: Array = np.sqrt(fourths / np.where(squares > 0, squares, 1.0))
    return np.where(np.isnan(sizes) & ~np.isnan(squares), math.inf, sizes)


def _find_ends(differences: Array, variance: Array, sizes: Array, critical: Array) -> tuple[Array, Array]:
    """Return how far the interval of each difference extends towards 0 and away from 0.

    Two pseudo-units, one in favor of each system, keep the interval from becoming too narrow if few units differ
    (Agresti and Min 2005; Bonett and Price 2012). The test decides whether 0 is inside the interval: if 0 is more than
    `critical` standard errors from the difference, the near end is at most halfway from that point to 0.
    """
    tested = np.full(len(differences), math.inf)
    bounded = np.isfinite(critical)
    tested[bounded] = critical[bounded] * np.sqrt(variance[bounded])
    with np.errstate(invalid="ignore"):  # inf * 0 is NaN: pairs without any difference have no interval
        wide = np.maximum(critical, _NORMAL) * np.sqrt(variance + 2 * sizes**2)
    distance = np.abs(differences)
    return np.where(tested < distance, np.minimum(wide, (distance + tested) / 2), wide), wide


def _bounded_ratio(squares: Array, variances: Array, least: Array) -> Array:
    """Divide squares by variances in place, and return the ratios. `least` is a buffer of the same shape.

    Ratios are at most `_SURE`, and 0 / 0 is 0.
    """
    factor, tiny = squares.dtype.type(1 / _SURE), np.finfo(np.float32).tiny
    if not variances.min() >= squares.max() * factor + tiny:  # rare; also true if a value is NaN
        np.multiply(squares, factor, out=least)
        least += tiny
        variances = np.maximum(least, variances, out=least)
    squares /= variances
    return squares


def _share(reached: Array, observed: Array) -> Array:
    """Return the proportion of resamples whose value is at least the observed value.

    The data itself counts as one of the resamples.
    """
    # row by row, because numpy counts faster in flat arrays than along an axis
    count = np.array([np.count_nonzero(row) for row in reached >= _least(observed)[:, None]])
    share: Array = (count + 1) / (reached.shape[-1] + 1)
    return np.where(np.isnan(observed), math.nan, np.where(observed == 0, 1.0, share))


def _share_of_sorted(reached: Array, observed: Array) -> Array:
    count = len(reached) - np.searchsorted(reached, _least(observed))
    return np.where(observed == 0, 1.0, (count + 1) / (len(reached) + 1))


def _least(observed: Array) -> Array:
    """Return the smallest numbers that count as equal to the observed values.

    They are float32 like the resamples, so that NumPy doesn't have to convert the resamples to compare them.
    """
    exact = observed * (1 - _TIE) ** 2
    least = exact.astype(np.float32)
    return np.where(least < exact, np.nextafter(least, np.float32(math.inf)), least)


def _critical(reached: Array) -> Array:
    """Return the number of standard errors beyond which `_share` is below LEVEL. Reorders `reached`."""
    resamples = reached.shape[-1]
    # The largest number of values, counting the data, whose share is below LEVEL.
    allowed = math.ceil(LEVEL * (resamples + 1)) - 1
    if not allowed:
        return np.full(len(reached), math.inf)  # there are too few resamples for any p below LEVEL
    # Only large values are partitioned, because partitioning whole rows would take half of the total time.
    near = reached >= np.float32(0.8) * np.partition(reached[0], -allowed)[-allowed]
    found, end = reached.ravel()[np.flatnonzero(near)], 0
    squares = np.empty(len(reached))
    for number, count in enumerate(np.count_nonzero(near, axis=1).tolist()):
        start, end = end, end + count
        row = found[start:end] if count >= allowed else reached[number]
        row.partition(len(row) - allowed)
        squares[number] = row[-allowed]
    return np.where(squares < _SURE * (1 - _TIE), np.sqrt(squares), math.inf) / (1 - _TIE)


def holm(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """Adjust p-values for multiple testing with Holm's step-down method (1979)."""
    adjusted: dict[Key, float] = {}
    highest = 0.0
    for rank, key in enumerate(sorted(p_values, key=p_values.__getitem__)):
        highest = max(highest, min(1.0, p_values[key] * (len(p_values) - rank)))
        adjusted[key] = highest
    return {key: adjusted[key] for key in p_values}


def examples_for_one_point(tests: PairTests, a: int, b: int) -> int | None:
    """Return the number of examples needed to detect a difference of one point at the 5% level with 80% power.

    The number is n ((z_0.975 + z_0.8) s)^2, where n is the number of examples in the test, s the
    standard error in points, and z a quantile of the normal distribution. It is at least 6 n u, where
    u is the typical effect of a unit in points (`PairTests.sizes`): one point must correspond to at
    least six units, because a sign test on five units can't reach 0.05. Returns None if the number is
    unknown.
    """
    normal = NormalDist()
    reach = normal.inv_cdf(1 - LEVEL / 2) + normal.inv_cdf(POWER)
    error = reach * float(tests.errors[a, b])
    by_error = tests.examples * (error * error)
    by_count = tests.examples * _FEWEST * float(tests.sizes[a, b])
    if math.isinf(by_error) or math.isinf(by_count):
        return None
    return math.ceil(max(by_error, by_count) * (1 - 1e-6)) or None  # allow for single precision
