"""Accuracy of labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .base import (
    Metric,
    Reference,
    Row,
    Score,
    Scores,
    Totals,
    evaluate,
    fold_label,
    items,
    per_example,
    percent,
)

__all__ = ["ACCURACY", "accuracy"]


def _row(prediction: str, reference: Reference) -> Row:
    return (1.0, float(fold_label(prediction) in map(fold_label, reference.answers)))


def _score(totals: Totals) -> Scores:
    return {"accuracy": percent(totals["right"], totals["n"])}


ACCURACY = Metric(
    name="accuracy",
    definition="Share of labels that equal a reference, ignoring case and extra spaces.",
    source="standard definition",
    signature="accuracy|case:lower|space:squeezed|refs:any|v:1",
    columns=("n", "right"),
    headline="accuracy",
    statistics=per_example(_row),
    score=_score,
)


def accuracy(predictions: Iterable[str], references: Iterable[Any]) -> Score:
    """Label accuracy, 0-100: 100 * right / n, where n is the number of examples.

    A label is right if it equals any reference; unlike in `em`, spaces around and between words do not count.
    Raises MetricError for unequal numbers or an example without a reference.
    """
    return evaluate(ACCURACY, predictions, items(references))
