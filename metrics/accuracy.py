"""Accuracy of labels and of token tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._numeric import percent
from .base import Metric, Reference, Row, Score, Scores, Totals, evaluate, items

__all__ = ["ACCURACY", "TAG_ACCURACY", "accuracy", "tag_accuracy"]


def _squeeze(text: str) -> str:
    return " ".join(text.lower().split())


def label_statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    return [
        (1.0, float(_squeeze(text) in map(_squeeze, reference.answers)))
        for text, reference in zip(predictions, references, strict=True)
    ]


def label_score(totals: Totals) -> Scores:
    return {"accuracy": percent(totals["right"], totals["n"])}


def tag_counts(prediction: str, answer: str) -> Row:
    """(tags in the gold answer, tags right at their position)."""
    gold = answer.lower().split()
    right = sum(a == b for a, b in zip(prediction.lower().split(), gold, strict=False))
    return (float(len(gold)), float(right))


def tag_statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    return [
        tag_counts(text, reference.answers[0])
        for text, reference in zip(predictions, references, strict=True)
    ]


def tag_score(totals: Totals) -> Scores:
    return {"tag_accuracy": percent(totals["right"], totals["tags"])}


ACCURACY = Metric(
    name="accuracy",
    definition="Share of labels that equal a reference but for case and spacing.",
    source="the usual one",
    signature="accuracy|case:lower|space:squeezed|refs:any|v:1",
    columns=("n", "right"),
    headline="accuracy",
    statistics=label_statistics,
    score=label_score,
)

TAG_ACCURACY = Metric(
    name="tag_accuracy",
    definition="Share of gold tags, one a token, that the prediction has at the same position.",
    source="the usual one",
    signature="tag_accuracy|case:lower|split:space|missing:wrong|extra:ignored|refs:first|v:1",
    columns=("tags", "right"),
    headline="tag_accuracy",
    statistics=tag_statistics,
    score=tag_score,
)


def accuracy(predictions: Sequence[str], references: Sequence[Any]) -> Score:
    """Label accuracy, 0-100: right / all; unlike `em`, spaces around and between words do not count.

    Raises MetricError for unequal numbers or an example without a reference.
    """
    return evaluate(ACCURACY, predictions, items(references))


def tag_accuracy(predictions: Sequence[str], references: Sequence[Any]) -> Score:
    """Tagging accuracy, 0-100: right tags / gold tags, over all tokens; tags are separated by spaces.

    A missing tag is wrong; tags beyond the gold ones are passed over. The first reference is the gold one.
    Raises MetricError for unequal numbers or an example without a reference.
    """
    return evaluate(TAG_ACCURACY, predictions, items(references))
