"""Corpus F1 (cF1) for zero-shot relation extraction, where a question may have no answer."""

from __future__ import annotations

from .base import Metric, Reference, Row, Scores, Totals, f1, per_example, percent
from .nf1 import normalize

_NULL = frozenset(["unanswerable"])


def _words(text: str) -> frozenset[str]:
    """Return the set of words in a normalized text, without `and`."""
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


corpus_f1 = Metric(
    name="corpus_f1",
    definition=(
        "F1 from the precision on answered questions and the recall on answerable questions. Answers are compared as "
        "sets of words."
    ),
    about="""Corpus F1, 0-100 (Levy et al. 2017): 2PR / (P + R), with P = right / answered and R = right / answerable.

    A prediction is right if its set of words (normalized, without `and`) equals the gold set, and the gold set is
    not just `unanswerable`. A question counts as answered unless the prediction is just `unanswerable`. 0 / 0 is 0. As
    in decaNLP 2018, the words of all references are merged into one gold set, so if two references differ, neither of
    them is right. In `details`, `corpus_f1_any`, `precision_any` and `recall_any` accept any reference instead.
    """,
    source="Levy et al. 2017, evaluate.py; decaNLP 2018",
    signature="corpus_f1|case:lower|norm:squad1-and|words:set|refs:union|null:unanswerable|zero:0|v:1",
    columns=("n", "right", "right_any", "answered", "answerable", "answerable_any"),
    headline="corpus_f1",
    statistics=per_example(_row),
    score=_score,
)
