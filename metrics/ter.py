"""Translation edit rate: sacrebleu counts edits, and the rate is computed from sums of its counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from .base import Metric, Reference, Row, Score, Scores, Totals, evaluate, items, percent, where
from .bleu import load_scorer

__all__ = ["TER", "ter"]


def _statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    """(fewest edits to a reference, mean length of the references) of each segment."""
    scorer = load_scorer("TER")()
    found = [
        scorer.sentence_score(text, list(reference.answers))
        for text, reference in zip(predictions, references, strict=True)
    ]
    return [(float(segment.num_edits), float(segment.ref_length)) for segment in found]


def _score(totals: Totals) -> Scores:
    edits, length = totals["edits"], totals["reference_length"]
    # Only empty references leave no length; then sacrebleu calls any edit 100.
    return {"ter": where(length > 0, percent(edits, length), where(edits > 0, 100.0, 0.0))}


TER = Metric(
    name="ter",
    definition="Insertions, deletions, substitutions and shifts of words, over the words of the references.",
    source="Snover et al. 2006; sacrebleu (Post 2018)",
    signature="ter|case:lower|tok:tercom|norm:no|punct:yes|asian:no|refs:fewest,mean|v:1",
    columns=("edits", "reference_length"),
    headline="ter",
    statistics=_statistics,
    score=_score,
    range=(0.0, math.inf),
    higher_is_better=False,
    packages=("sacrebleu",),
)


def ter(predictions: Iterable[str], references: Iterable[Any]) -> Score:
    """Translation edit rate, 0 and up, lower is better (Snover et al. 2006): 100 * edits / reference words.

    An edit inserts, deletes or replaces a word, or shifts a block of words; case is ignored. Of several references,
    the one with the fewest edits counts, over their mean length. sacrebleu counts; its version ends the signature.
    Raises MetricError if it is not installed, for unequal numbers, or for an example without a reference.
    """
    return evaluate(TER, predictions, items(references))
