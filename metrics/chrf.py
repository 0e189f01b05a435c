"""chrF2 and chrF++, the F-scores of character n-grams and of character and word n-grams.

sacrebleu counts n-grams, and scores are computed from sums of its counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from .base import Metric, Reference, Row, Scores, Totals, bounded, ratio, where
from .bleu import load_scorer

_CHARACTERS, _WORDS, _BETA = 6, 2, 2
_SIDES = ("predicted", "gold", "right")


def _columns(words: int) -> tuple[str, ...]:
    orders = [*(f"char{n}" for n in range(1, _CHARACTERS + 1)), *(f"word{n}" for n in range(1, words + 1))]
    return tuple(f"{order}_{side}" for order in orders for side in _SIDES)


def _statistics(words: int, predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    """Return the n-gram counts of each segment, compared with the reference that gives the highest F."""
    scorer = load_scorer("CHRF")(char_order=_CHARACTERS, word_order=words, beta=_BETA)
    rows = []
    for text, reference in zip(predictions, references, strict=True):
        # sacrebleu's sentence scores don't include these counts, which it uses for resampling.
        [counts] = scorer._extract_corpus_statistics([text], [[answer] for answer in reference.answers])
        rows.append(tuple(map(float, counts)))
    return rows


def _f_score(totals: Totals) -> Any:
    """Compute F from the mean precision and mean recall of the orders that occur in both texts."""
    precision, recall, orders = 0.0, 0.0, 0.0
    for order in dict.fromkeys(name.partition("_")[0] for name in totals):
        predicted, gold, right = (totals[f"{order}_{side}"] for side in _SIDES)
        both = where((predicted > 0) & (gold > 0), 1.0, 0.0)
        precision = precision + both * ratio(right, predicted)
        recall = recall + both * ratio(right, gold)
        orders = orders + both
    precision, recall = ratio(precision, orders), ratio(recall, orders)
    return bounded(100 * ratio((1 + _BETA**2) * precision * recall, _BETA**2 * precision + recall))


def _score(name: str, totals: Totals) -> Scores:
    return {name: _f_score(totals)}


chrf2 = Metric(
    name="chrf2",
    definition="F2 of character n-grams (n from 1 to 6) in the whole corpus.",
    about="""chrF2, 0-100 (Popović 2015): (1 + b^2) PR / (b^2 P + R) with b = 2, cased, over all segments together.

    For each n from 1 to 6, precision is the share of the predictions' character n-grams that are in the references, and
    recall is the share of the references' n-grams that are in the predictions, ignoring spaces. P and R are their means
    over n, leaving out each n for which either side has no n-grams. If there are several references, the one with the
    highest F is used. sacrebleu counts the n-grams, and the signature ends with its version.

    Raises MetricError if sacrebleu is not installed, if the numbers of predictions and references differ, or if an
    example has no reference.
    """,
    source="Popović 2015; sacrebleu (Post 2018)",
    signature="chrf2|case:mixed|eff:yes|nc:6|nw:0|space:no|beta:2|refs:best|v:1",
    columns=_columns(0),
    headline="chrf2",
    statistics=partial(_statistics, 0),
    score=partial(_score, "chrf2"),
    packages=("sacrebleu",),
    reads="text",
)

chrf_plus_plus = replace(
    chrf2,
    name="chrf_plus_plus",
    definition="F2 of character n-grams (n from 1 to 6) and word n-grams (n = 1 and 2) in the whole corpus.",
    about="""chrF++, 0-100 (Popović 2017): like chrF2, but P and R are also averaged over word n-grams for n = 1 and 2.

    References and errors are treated as in `chrf2`.
    """,
    source="Popović 2017; sacrebleu (Post 2018)",
    signature="chrf_plus_plus|case:mixed|eff:yes|nc:6|nw:2|space:no|beta:2|refs:best|v:1",
    columns=_columns(_WORDS),
    headline="chrf_plus_plus",
    statistics=partial(_statistics, _WORDS),
    score=partial(_score, "chrf_plus_plus"),
)
