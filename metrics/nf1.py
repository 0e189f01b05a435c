"""Token F1 and exact match for question answering: nf1, em and nem."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from .base import Metric, Reference, Row, Scores, Totals, per_example, percent

try:
    from ._speedups import ngram_hits, normalize_ascii
except ImportError:  # built without a compiler
    _compiled = False
else:
    _compiled = True

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"  # string.punctuation; the module is slow to import
_NO_PUNCTUATION = str.maketrans("", "", _PUNCTUATION)


def normalize(text: str) -> str:
    """Lowercase text, remove ASCII punctuation and the words a, an and the, and collapse whitespace.

    The order of steps is the same as in SQuAD's evaluate-v1.1 and decaNLP 2018, so `t.h.e` is removed too.
    """
    if _compiled and (normalized := normalize_ascii(text)) is not None:
        return normalized
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def token_f1(prediction: str, answer: str) -> float:
    """Return the F1 of two bags of words, 0-1. It is 0 if they have no words in common, even if both are empty."""
    predicted, gold = prediction.split(), answer.split()
    if predicted == gold:
        return 1.0 if gold else 0.0
    both = set(gold).intersection(predicted)
    if not both:
        return 0.0
    # the number of words in the intersection of the bags
    if len(gold) > _FEW and _compiled:
        shared = ngram_hits([gold, predicted], 1)[0]
    else:
        times = Counter(gold) if len(gold) > _FEW else {word: gold.count(word) for word in both}
        shared = sum([min(times[word], predicted.count(word)) for word in both])
    precision, recall = shared / len(predicted), shared / len(gold)
    return 2 * precision * recall / (precision + recall)


_FEW = 8
"""The word count up to which counting each word separately is faster than building a Counter."""

_SCORES = ("nf1", "nf1_empty_match", "em", "nem")


def _row(prediction: str, reference: Reference) -> Row:
    normalized = normalize(prediction)
    if prediction in reference.answers:  # true for most answers of a good model
        return _SAME if normalized else _SAME_AND_EMPTY
    lowered = prediction.lower()
    answers = dict.fromkeys(reference.answers)  # several annotators often give the same answer
    gold = [normalize(answer) for answer in answers]
    normalized_same = float(normalized in gold)
    is_best = normalized_same and normalized
    best = 1.0 if is_best else max([token_f1(normalized, answer) for answer in gold])
    same = float(lowered in [answer.lower() for answer in answers])
    empty_match = normalized_same if normalized == "" else best
    return (1.0, best, empty_match, same, normalized_same)


_SAME = (1.0, 1.0, 1.0, 1.0, 1.0)
_SAME_AND_EMPTY = (1.0, 0.0, 1.0, 1.0, 1.0)
"""The row of a right answer that is empty after normalization, such as `the`."""


def _score(totals: Totals) -> Scores:
    return {name: percent(totals[name], totals["n"]) for name in _SCORES}


nf1 = Metric(
    name="nf1",
    definition="Word F1 between the normalized prediction and the best reference, averaged over examples.",
    about="""Token F1, 0-100: the mean over examples of 100 * 2PR / (P + R), with each example's best reference.

    P is the share of the prediction's words that are in the reference, and R is the share of the reference's words
    that are in the prediction. Both strings are normalized first (lowercase, no punctuation, no a/an/the). If both are
    empty, the score is 0, as in SQuAD evaluate-v1.1 and decaNLP 2018; `details["nf1_empty_match"]` counts this as
    right. `details` also has em and nem.
    """,
    source="SQuAD evaluate-v1.1 (Rajpurkar et al. 2016); decaNLP 2018",
    signature="nf1|case:lower|norm:squad1|refs:max|empty:0|v:1",
    columns=("n", *_SCORES),
    headline="nf1",
    statistics=per_example(_row),
    score=_score,
)

em = replace(
    nf1,
    name="em",
    definition="Share of predictions that equal a reference, ignoring case.",
    about="""Exact match, 0-100 (decaNLP 2018): the percentage of predictions that equal a reference, ignoring case.

    Differences in spaces are not ignored.
    """,
    source="decaNLP 2018",
    signature="em|case:lower|norm:none|refs:max|v:1",
    headline="em",
)

nem = replace(
    nf1,
    name="nem",
    definition="Share of predictions that equal a reference after normalization.",
    about="""Normalized exact match, 0-100: the percentage of predictions that equal a reference after normalization.

    This is exact_match in SQuAD's official scorer.
    """,
    source="SQuAD evaluate-v1.1 (exact_match); decaNLP 2018",
    signature="nem|case:lower|norm:squad1|refs:max|v:1",
    headline="nem",
)
