"""Pearson's and Spearman's correlation, mean squared error, and all three together.

Answers are parsed as numbers. Only the first reference of an example is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from .base import Metric, Reference, Row, Scores, Totals, bounded, percent, ratio, require_gold, where

_LIMIT = 1e100
"""Numbers whose absolute value is at least this large count as unreadable, because their squares could
overflow.
"""


def _parse_number(text: str) -> float | None:
    """Parse a number, or return None if the string isn't one.

    The number must be finite, with an absolute value below `_LIMIT`. Two kinds of strings that Python's
    `float` accepts don't count as numbers, because C's strtod, R and JSON reject them: `3_5` (35 in
    Python), and non-ASCII digits such as Arabic digits.
    """
    text = text.strip()
    try:
        number = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return None
    return number if abs(number) < _LIMIT else None


def _read_pairs(
    predictions: Sequence[str], references: Sequence[Reference]
) -> tuple[list[float], list[float], list[float]]:
    """Return the predicted numbers, the gold numbers, and a flag for each prediction.

    The flag is 1 if the prediction is unreadable and 0 if not. An unreadable prediction is replaced
    with the end of the gold range that is farther from its gold value. This is the worst possible
    answer within the range, so nothing is gained by leaving answers empty.
    """
    gold = [number for reference in references if (number := _parse_number(reference.answers[0])) is not None]
    if len(gold) < len(references):
        require_gold(references, _find_fault)
    low, high = min(gold), max(gold)
    read = [_parse_number(text) for text in predictions]
    filled = [
        (low if target - low > high - target else high) if number is None else number
        for number, target in zip(read, gold, strict=True)
    ]
    return filled, gold, [float(number is None) for number in read]


def _find_fault(reference: Reference) -> str:
    is_number = _parse_number(reference.answers[0]) is not None
    return "" if is_number else "no number. Use digits, such as -1500.25"


def ranks(values: Sequence[float]) -> list[float]:
    """Rank values in ascending order, starting from 1. Equal values get the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for place in range(first, last + 1):
            found[order[place]] = (first + last) / 2 + 1
        first = last + 1
    return found


def _centred(values: Sequence[float]) -> list[float]:
    """Subtract the median from values, and divide them by a power of 2 near their mean distance from the median.

    Correlations don't depend on shift and scale, but sums of squares lose digits if the values are far from 0, and
    overflow or underflow if they are huge or tiny. The median is also close to most values of any subset, and dividing
    by a power of 2 is exact.
    """
    from statistics import median  # slow to import

    middle = median(values)
    distances = [value - middle for value in values]
    _, exponent = math.frexp(math.fsum(map(abs, distances)) / len(distances))
    return [math.ldexp(distance, -exponent) for distance in distances]


def _moments(left: Iterable[float], right: Iterable[float], unreadable: Iterable[float]) -> list[Row]:
    return [
        (1.0, x, y, x * x, y * y, x * y, missing)
        for x, y, missing in zip(left, right, unreadable, strict=True)
    ]


def _moment_statistics(
    scale: Callable[[Sequence[float]], list[float]],
    predictions: Sequence[str],
    references: Sequence[Reference],
) -> list[Row]:
    predicted, gold, unreadable = _read_pairs(predictions, references)
    return _moments(scale(predicted), scale(gold), unreadable)


def _spearman_influence(rows: Any) -> Any:
    """Return how much each example moves Spearman's correlation, through its own ranks and the ranks of others.

    With standardized ranks a and b, adding weight to example j changes the correlation r by
    (a_j b_j - r (a_j^2 + b_j^2) / 2) / n, the derivative of Pearson's correlation. It also raises the
    rank of each example i with a higher value by 1 (with an equal value, by 1/2), which changes r by
    (b_i - r a_i) / (n sd).
    """
    import numpy

    left, right = (rows[:, spearman.columns.index(name)] for name in ("x", "y"))
    count, spreads = len(rows), (left.std(), right.std())
    if not all(spreads):
        return numpy.zeros(count)
    a, b = ((ranked - ranked.mean()) / spread for ranked, spread in zip((left, right), spreads, strict=True))
    r = float((a * b).mean())
    moved = a * b - r * (a**2 + b**2) / 2
    for ranked, spread, slope in ((left, spreads[0], b - r * a), (right, spreads[1], a - r * b)):
        _, place = numpy.unique(ranked, return_inverse=True)
        tied = numpy.bincount(place, weights=slope)
        above = tied[::-1].cumsum()[::-1] - tied / 2
        moved = moved + above[place] / spread
    return 100 * moved / count


def _mse_statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    return [
        (1.0, (x - y) ** 2, missing)
        for x, y, missing in zip(*_read_pairs(predictions, references), strict=True)
    ]


def _relatedness_statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    """Return a row for each example, with its squared error and the moments of the numbers and of their ranks."""
    predicted, gold, unreadable = _read_pairs(predictions, references)
    errors = [(x - y) ** 2 for x, y in zip(predicted, gold, strict=True)]
    numbers = _moments(_centred(predicted), _centred(gold), unreadable)
    ranked = _moments(ranks(predicted), ranks(gold), unreadable)
    return [
        (1.0, error, missing, *of_numbers[1:6], *of_ranks[1:6])
        for error, missing, of_numbers, of_ranks in zip(errors, unreadable, numbers, ranked, strict=True)
    ]


_ROUNDING = 1e-13
"""A variance below this fraction of the mean square is treated as rounding error."""


def _correlation(totals: Totals) -> Any:
    """Compute 100 times the correlation from moments, or 0 if all predictions or all gold values are equal."""
    n = totals["n"]
    covariance = n * totals["xy"] - totals["x"] * totals["y"]
    left, right = (_scatter(n, totals[side], totals[2 * side]) for side in "xy")
    return bounded(percent(covariance, left**0.5 * right**0.5), -100.0)


def _scatter(n: Any, total: Any, squares: Any) -> Any:
    """Compute n^2 times the variance, given the sum and the sum of squares."""
    scatter = n * squares - total**2
    return where(scatter > _ROUNDING * n * squares, scatter, 0.0)


_MOMENTS = ("x", "y", "xx", "yy", "xy")


def _correlation_score(name: str, totals: Totals) -> Scores:
    return {name: _correlation(totals), "unreadable": percent(totals["unreadable"], totals["n"])}


def _mse_score(totals: Totals) -> Scores:
    return {
        "mse": ratio(totals["squares"], totals["n"]),
        "unreadable": percent(totals["unreadable"], totals["n"]),
    }


def _relatedness_score(totals: Totals) -> Scores:
    ranked = {name.removeprefix("rank_"): value for name, value in totals.items() if name.startswith("rank_")}
    return {
        **_mse_score(totals),
        "pearson": _correlation(totals),
        "spearman": _correlation({"n": totals["n"], **ranked}),
    }


pearson = Metric(
    name="pearson",
    definition="Pearson's correlation between predicted and gold numbers, times 100.",
    about="""Pearson's correlation times 100, -100 to 100 (SemEval 2014 task 1): 100 * cov(x, y) / (sd(x) sd(y)).

    It is 0 if all predictions or all gold values are equal. An unreadable prediction counts as the end of the gold
    range that is farther from its gold value; `details["unreadable"]` is the share of such predictions, 0-100.
    Raises MetricError for a gold answer that is not a number.
    """,
    source="SemEval 2014 task 1 (SICK)",
    signature="pearson|scale:100|centre:median|unreadable:farthest|refs:first|v:2",
    columns=("n", "x", "y", "xx", "yy", "xy", "unreadable"),
    headline="pearson",
    statistics=partial(_moment_statistics, _centred),
    score=partial(_correlation_score, "pearson"),
    scope="corpus",
    range=(-100.0, 100.0),
    depends_on_others=True,
    find_fault=_find_fault,
    reads="number",
)

spearman = replace(
    pearson,
    name="spearman",
    definition="Spearman's rank correlation between predicted and gold numbers, times 100.",
    about="""Spearman's correlation times 100, -100 to 100 (SemEval 2014 task 1): Pearson's correlation of ranks.

    Equal values get the mean of their ranks. Unreadable predictions and errors are treated as in `pearson`.
    """,
    signature="spearman|scale:100|ties:mean|unreadable:farthest|refs:first|v:2",
    headline="spearman",
    statistics=partial(_moment_statistics, ranks),
    score=partial(_correlation_score, "spearman"),
    influence=_spearman_influence,
)

mse = replace(
    pearson,
    name="mse",
    definition="Mean squared difference between predicted and gold numbers.",
    about="""Mean squared error, 0 and up, lower is better (SemEval 2014 task 1): the mean of (x - y)^2.

    Its unit is the square of the answers' unit. Unreadable predictions and errors are treated as in `pearson`.
    """,
    signature="mse|unreadable:farthest|refs:first|v:1",
    columns=("n", "squares", "unreadable"),
    headline="mse",
    statistics=_mse_statistics,
    score=_mse_score,
    range=(0.0, math.inf),
    higher_is_better=False,
    depends_on_others=False,
)

relatedness = replace(
    pearson,
    name="relatedness",
    definition="Mean squared difference between predicted and gold numbers. Pearson's and Spearman's correlations "
    "are also computed.",
    about="""The three scores of SemEval 2014 task 1 (SICK): mse is the headline; `details` has pearson and spearman.

    Each score is computed as in the metric of the same name, which describes its unit and the errors raised.
    """,
    signature=("relatedness|scale:100|centre:median|ties:mean|unreadable:farthest|refs:first|v:1"),
    columns=("n", "squares", "unreadable", *_MOMENTS, *(f"rank_{name}" for name in _MOMENTS)),
    headline="mse",
    statistics=_relatedness_statistics,
    score=_relatedness_score,
    range=(0.0, math.inf),
    higher_is_better=False,
    depends_on_others=False,  # only ranks do, and they don't affect the headline
)
