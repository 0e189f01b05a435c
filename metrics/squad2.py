"""Exact match and F1 for SQuAD 2, where a question may have no answer in its passage."""

from __future__ import annotations

from .base import Metric, Reference, Row, Scores, Totals, per_example, percent
from .nf1 import normalize, token_f1

_NULL = "unanswerable"
"""The answer to an unanswerable question. An empty string would look like a missing answer."""


def _read(text: str) -> str:
    """Normalize an answer. `unanswerable` becomes an empty string, as the official scorer expects."""
    normalized = normalize(text)
    return "" if normalized == _NULL else normalized


def _row(prediction: str, reference: Reference) -> Row:
    ours = _read(prediction)
    gold = [answer for answer in map(_read, reference.answers) if answer]
    if gold:
        exact, f1 = float(ours in gold), max(token_f1(ours, answer) for answer in gold)
        return (1.0, 1.0, exact, f1, 0.0)
    return (1.0, 0.0, 0.0, 0.0, float(not ours))


def _score(totals: Totals) -> Scores:
    n, answerable, right = totals["n"], totals["answerable"], totals["no_answer_right"]
    no_answer = percent(right, n - answerable)
    return {
        "f1": percent(totals["answer_f1"] + right, n),
        "exact": percent(totals["answer_exact"] + right, n),
        "HasAns_exact": percent(totals["answer_exact"], answerable),
        "HasAns_f1": percent(totals["answer_f1"], answerable),
        "NoAns_exact": no_answer,
        "NoAns_f1": no_answer,
    }


squad2 = Metric(
    name="squad2",
    definition="Word F1 for answerable questions, and 0 or 100 for unanswerable questions, averaged over questions.",
    about="""F1 of SQuAD 2, 0-100, as in evaluate-v2.0 (Rajpurkar et al. 2018): the mean over all questions.

    For a question with an answer, F1 is computed as in `nf1`. A question has no answer if all its references are empty
    or `unanswerable`. Then a prediction that is empty or `unanswerable` scores 100, and any other prediction scores 0.
    `details` also has exact, HasAns_exact and HasAns_f1 for the questions with an answer, and NoAns_exact and NoAns_f1
    for the others. They are 0 if there are no such questions.
    """,
    source="SQuAD 2 evaluate-v2.0 (Rajpurkar et al. 2018)",
    signature="squad2|case:lower|norm:squad1|refs:max|null:empty,unanswerable|v:1",
    columns=("n", "answerable", "answer_exact", "answer_f1", "no_answer_right"),
    headline="f1",
    statistics=per_example(_row),
    score=_score,
    empty_may_be_right=True,
)
