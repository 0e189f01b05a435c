"""Token F1 and exact match, the metrics of question answering: nf1, em, nem."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ._numeric import percent
from .base import Metric, Reference, Row, Score, Scores, Totals, evaluate, items

__all__ = ["EM", "NEM", "NF1", "em", "nem", "nf1", "normalize"]

# ---- _text

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(text: str) -> str:
    """Lower-cased, without ASCII punctuation and the words a, an, the, whitespace squeezed.

    As the official SQuAD evaluate-v1.1 and decaNLP 2018 do it: in this order, so that `t.h.e` goes too.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


# ---- nf1

COLUMNS = ("n", "nf1", "nf1_empty_match", "em", "nem")


def token_f1(prediction: str, answer: str) -> float:
    """F1 of two bags of words, 0-1; 0 where no word is shared, so also where both are empty."""
    predicted, gold = prediction.split(), answer.split()
    # The size of the bags' intersection; answers are far shorter than what some predictors say.
    shared = sum(min(times, predicted.count(word)) for word, times in Counter(gold).items())
    if shared == 0:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(gold)
    return 2 * precision * recall / (precision + recall)


def row(prediction: str, answers: Sequence[str]) -> Row:
    lowered, normalized = prediction.lower(), normalize(prediction)
    gold = [normalize(answer) for answer in answers]
    best = max(token_f1(normalized, answer) for answer in gold)
    empty_match = max(best, float(normalized == "" and "" in gold))
    return (1.0, best, empty_match, float(lowered in [a.lower() for a in answers]), float(normalized in gold))


def statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    return [row(text, reference.answers) for text, reference in zip(predictions, references, strict=True)]


def score(totals: Totals) -> Scores:
    return {name: percent(totals[name], totals["n"]) for name in COLUMNS[1:]}


NF1 = Metric(
    name="nf1",
    definition="Token-bag F1 of normalised strings, the best over the references, averaged over examples.",
    source="SQuAD evaluate-v1.1 (Rajpurkar et al. 2016); decaNLP 2018",
    signature="nf1|case:lower|norm:squad1|refs:max|empty:0|v:1",
    columns=COLUMNS,
    headline="nf1",
    statistics=statistics,
    score=score,
)

EM = replace(
    NF1,
    name="em",
    definition="Share of predictions that equal a reference, letter for letter but for case.",
    source="decaNLP 2018",
    signature="em|case:lower|norm:none|refs:max|v:1",
    headline="em",
)

NEM = replace(
    NF1,
    name="nem",
    definition="Share of predictions that equal a reference after normalisation.",
    source="SQuAD evaluate-v1.1 (exact_match); decaNLP 2018",
    signature="nem|case:lower|norm:squad1|refs:max|v:1",
    headline="nem",
)


def nf1(predictions: Sequence[str], references: Sequence[Any]) -> Score:
    """Token F1, 0-100: 2PR / (P + R) of shared words, the best over references, the mean over examples.

    P and R are the shares of the prediction's and of the reference's words that are shared, words being those
    of the normalised strings (lower case, no punctuation, no a/an/the). Empty against empty scores 0, as in
    SQuAD v1.1 and decaNLP 2018; `details["nf1_empty_match"]` counts it as right. em and nem stand beside it.
    Raises MetricError for unequal numbers or an example without a reference.
    """
    return evaluate(NF1, predictions, items(references))


def em(predictions: Sequence[str], references: Sequence[Any]) -> Score:
    """Exact match, 0-100: the prediction equals a reference but for case; spaces count (decaNLP 2018).

    Raises MetricError for unequal numbers or an example without a reference.
    """
    return evaluate(EM, predictions, items(references))


def nem(predictions: Sequence[str], references: Sequence[Any]) -> Score:
    """Normalised exact match, 0-100: equality after SQuAD's normalisation (its official exact_match).

    Raises MetricError for unequal numbers or an example without a reference.
    """
    return evaluate(NEM, predictions, items(references))
