"""Corpus F1 (cF1) of zero-shot relation extraction, where a question may have no answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._numeric import f1, percent
from .base import Metric, Reference, Row, Score, Scores, Totals, evaluate, items
from .nf1 import normalize

__all__ = ["CORPUS_F1", "corpus_f1"]

COLUMNS = ("n", "right", "right_any", "answered", "answerable", "answerable_any")
NULL = frozenset(["unanswerable"])


def words(text: str) -> frozenset[str]:
    """The set of words of the normalised text, without `and`."""
    return frozenset(normalize(text).split()) - {"and"}


def row(prediction: str, answers: Sequence[str]) -> Row:
    predicted = words(prediction)
    alternatives = {words(answer) for answer in answers}
    union = frozenset().union(*alternatives)
    answerable = alternatives - {NULL}
    return (
        1.0,
        float(predicted == union != NULL),
        float(predicted in answerable),
        float(predicted != NULL),
        float(union != NULL),
        float(bool(answerable)),
    )


def statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    return [row(text, reference.answers) for text, reference in zip(predictions, references, strict=True)]


def score(totals: Totals) -> Scores:
    precision = percent(totals["right"], totals["answered"])
    recall = percent(totals["right"], totals["answerable"])
    precision_any = percent(totals["right_any"], totals["answered"])
    recall_any = percent(totals["right_any"], totals["answerable_any"])
    return {
        "corpus_f1": f1(precision, recall),
        "precision": precision,
        "recall": recall,
        "corpus_f1_any": f1(precision_any, recall_any),
        "precision_any": precision_any,
        "recall_any": recall_any,
    }


CORPUS_F1 = Metric(
    name="corpus_f1",
    definition="F1 of precision over answered and recall over answerable questions, by sets of words.",
    source="Levy et al. 2017, evaluate.py; decaNLP 2018",
    signature="corpus_f1|case:lower|norm:squad1-and|words:set|refs:union|null:unanswerable|zero:0|v:1",
    columns=COLUMNS,
    headline="corpus_f1",
    statistics=statistics,
    score=score,
)


def corpus_f1(predictions: Sequence[str], references: Sequence[Any]) -> Score:
    """Corpus F1, 0-100: 2PR / (P + R), P = right / answered, R = right / answerable (Levy et al. 2017).

    A prediction is right if its set of words (no punctuation, no the/a/an/and) equals the gold one and the
    gold is not `unanswerable` alone; a prediction counts as answered unless it is that word alone. Quirk of
    2018: alternative golds are united into one set, so that with two different ones neither is right;
    `corpus_f1_any` (with `precision_any`, `recall_any`) takes equality with any of them instead.
    0 / 0 is 0. Raises MetricError for unequal numbers or an example without a reference.
    """
    return evaluate(CORPUS_F1, predictions, items(references))
