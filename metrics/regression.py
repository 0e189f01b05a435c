"""Agreement of numbers: Pearson's and Spearman's correlation, and mean squared error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ._numeric import percent, ratio, where
from .base import Metric, MetricError, Reference, Row, Score, Scores, Totals, evaluate, items

__all__ = ["MSE", "PEARSON", "SPEARMAN", "mse", "pearson", "spearman"]

LIMIT = 1e100
"""Larger numbers are taken as unreadable: their squares would leave the range of floats."""


def read_number(text: str) -> float | None:
    """The number that a text is, None where it is none, not finite or absurdly large."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < LIMIT else None


def read_pairs(
    predictions: Sequence[str], references: Sequence[Reference]
) -> tuple[list[float], list[float], list[float]]:
    """(predicted, gold, 1 where the prediction was no number).

    No number stands for the end of the gold range that is farther from its own gold value: the worst answer
    within the range, so that saying nothing never pays.
    """
    gold = [_gold(reference) for reference in references]
    low, high = min(gold), max(gold)
    read = [read_number(text) for text in predictions]
    filled = [
        (low if target - low > high - target else high) if number is None else number
        for number, target in zip(read, gold, strict=True)
    ]
    return filled, gold, [float(number is None) for number in read]


def _gold(reference: Reference) -> float:
    number = read_number(reference.answers[0])
    if number is None:
        raise MetricError(
            f"A gold answer has to be a number; {reference.id or 'one'} has {reference.answers[0]!r}."
        )
    return number


def ranks(values: Sequence[float]) -> list[float]:
    """1 for the smallest; equal values share the mean of their ranks."""
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


def moments(left: Sequence[float], right: Sequence[float], unreadable: Sequence[float]) -> list[Row]:
    return [
        (1.0, x, y, x * x, y * y, x * y, missing)
        for x, y, missing in zip(left, right, unreadable, strict=True)
    ]


def pearson_statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    return moments(*read_pairs(predictions, references))


def spearman_statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    predicted, gold, unreadable = read_pairs(predictions, references)
    return moments(ranks(predicted), ranks(gold), unreadable)


def correlation(totals: Totals) -> Any:
    """100 times the correlation of moments, and 0 where a side is constant."""
    n = totals["n"]
    covariance = n * totals["xy"] - totals["x"] * totals["y"]
    left, right = n * totals["xx"] - totals["x"] ** 2, n * totals["yy"] - totals["y"] ** 2
    left, right = where(left > 0, left, 0.0), where(right > 0, right, 0.0)
    return percent(covariance, left**0.5 * right**0.5)


def pearson_score(totals: Totals) -> Scores:
    return {"pearson": correlation(totals), "unreadable": percent(totals["unreadable"], totals["n"])}


def spearman_score(totals: Totals) -> Scores:
    return {"spearman": correlation(totals), "unreadable": percent(totals["unreadable"], totals["n"])}


def mse_statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    return [
        (1.0, (x - y) ** 2, missing)
        for x, y, missing in zip(*read_pairs(predictions, references), strict=True)
    ]


def mse_score(totals: Totals) -> Scores:
    return {
        "mse": ratio(totals["squares"], totals["n"]),
        "unreadable": percent(totals["unreadable"], totals["n"]),
    }


PEARSON = Metric(
    name="pearson",
    definition="Pearson's correlation of predicted and gold numbers, times 100.",
    source="SemEval 2014 task 1 (SICK)",
    signature="pearson|scale:100|unreadable:farthest|refs:first|v:1",
    columns=("n", "x", "y", "xx", "yy", "xy", "unreadable"),
    headline="pearson",
    statistics=pearson_statistics,
    score=pearson_score,
    scope="corpus",
    range=(-100.0, 100.0),
)

SPEARMAN = replace(
    PEARSON,
    name="spearman",
    definition="Spearman's rank correlation of predicted and gold numbers, times 100.",
    signature="spearman|scale:100|ties:mean|unreadable:farthest|refs:first|v:1",
    headline="spearman",
    statistics=spearman_statistics,
    score=spearman_score,
)

MSE = replace(
    PEARSON,
    name="mse",
    definition="Mean squared difference of predicted and gold numbers.",
    signature="mse|unreadable:farthest|refs:first|v:1",
    columns=("n", "squares", "unreadable"),
    headline="mse",
    statistics=mse_statistics,
    score=mse_score,
    range=(0.0, math.inf),
    higher_is_better=False,
)


def pearson(predictions: Sequence[str], references: Sequence[Any]) -> Score:
    """Pearson's correlation times 100, -100 to 100; 0 where all predictions or all gold values are equal.

    cov(x, y) / (sd(x) sd(y)) of answers read as numbers (the first reference). A prediction that is no number
    counts as the end of the gold range farther from its gold value; `details["unreadable"]` is their share,
    0-100. Raises MetricError for a gold answer that is no number.
    """
    return evaluate(PEARSON, predictions, items(references))


def spearman(predictions: Sequence[str], references: Sequence[Any]) -> Score:
    """Spearman's rank correlation times 100, -100 to 100: Pearson's of the ranks; ties share a mean rank.

    Unreadable predictions and errors as in `pearson`.
    """
    return evaluate(SPEARMAN, predictions, items(references))


def mse(predictions: Sequence[str], references: Sequence[Any]) -> Score:
    """Mean squared error, 0 and up, lower is better: mean of (x - y)^2 in the unit of the answers.

    Unreadable predictions and errors as in `pearson`.
    """
    return evaluate(MSE, predictions, items(references))
