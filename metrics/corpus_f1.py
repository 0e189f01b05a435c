"""Corpus F1 (cF1) of zero-shot relation extraction, where a question may have no answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .base import Metric, Reference, Row, Score, Scores, Totals, evaluate, f1, items, per_example, percent
from .nf1 import normalize

__all__ = ["CORPUS_F1", "corpus_f1"]

_NULL = frozenset(["unanswerable"])


def _words(text: str) -> frozenset[str]:
    """The set of words of the normalised text, without `and`."""
    return frozenset(normalize(text).split()) - {"and"}


def _row(prediction: str, reference: Reference) -> Row:
    predicted = _words(prediction)
    alternatives = {_words(answer) for answer in reference.answers}
    union = frozenset().union(*alternatives)
    answerable = alternatives - {_NULL}
    return (
        1.0,
        float(predicted == union != _NULL),
        float(predicted in answerable),
        float(predicted != _NULL),
        float(union != _NULL),
        float(bool(answerable)),
    )


def _score(totals: Totals) -> Scores:
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
    columns=("n", "right", "right_any", "answered", "answerable", "answerable_any"),
    headline="corpus_f1",
    statistics=per_example(_row),
    score=_score,
)


def corpus_f1(predictions: Iterable[str], references: Iterable[Any]) -> Score:
    """Corpus F1, 0-100 (Levy et al. 2017): 2PR / (P + R), P = right / answered, R = right / answerable.

    A prediction is right if its set of words (normalised, without `and`) equals the gold one and the gold one is
    not `unanswerable` alone; it counts as answered unless it is that word alone. 0 / 0 is 0. As in decaNLP 2018,
    alternative golds are united into one set, so that of two different ones neither is right; `corpus_f1_any`,
    `precision_any` and `recall_any` in `details` accept any of them instead.
    Raises MetricError for unequal numbers or an example without a reference.
    """
    return evaluate(CORPUS_F1, predictions, items(references))
