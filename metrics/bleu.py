"""Corpus BLEU: sacrebleu counts, and the score is computed from sums of its counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._numeric import exponential, logarithm, ratio, where
from .base import Metric, MetricError, Reference, Row, Score, Scores, Totals, evaluate, items

__all__ = ["BLEU", "bleu"]

ORDERS = (1, 2, 3, 4)
NAMES = (*(f"right{n}" for n in ORDERS), *(f"total{n}" for n in ORDERS), "system_length", "reference_length")
COLUMNS = (*NAMES, *(f"cased_{name}" for name in NAMES))
LOG_OF_ZERO = -9999999999.0
"""What sacrebleu takes for log 0: a precision of 0 makes the score 0."""


def statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    try:
        from sacrebleu.metrics.bleu import BLEU as SacreBLEU
    except ImportError:
        raise MetricError(
            "BLEU needs sacrebleu, which is not installed: pip install 'sacrebleu>=2.4'"
        ) from None
    # effective_order changes only the sentence's own score, which we do not read; without it sacrebleu warns.
    lower = SacreBLEU(lowercase=True, tokenize="13a", effective_order=True)
    cased = SacreBLEU(lowercase=False, tokenize="13a", effective_order=True)
    return [
        counts(lower, text, reference.answers) + counts(cased, text, reference.answers)
        for text, reference in zip(predictions, references, strict=True)
    ]


def counts(scorer: Any, prediction: str, answers: Sequence[str]) -> Row:
    """One segment's clipped and total n-gram counts and lengths (the closest reference's)."""
    found = scorer.sentence_score(prediction, list(answers))
    return tuple(map(float, (*found.counts, *found.totals, found.sys_len, found.ref_len)))


def corpus_bleu(totals: Totals, prefix: str) -> Any:
    """BP * exp(mean of log p_n) from sums, with sacrebleu's smoothing (exp) of orders without a match."""
    system, reference = totals[prefix + "system_length"], totals[prefix + "reference_length"]
    brevity = where(system < reference, exponential(1 - ratio(reference, system)), 1.0)
    logs, smoothing = 0.0, 1.0
    for order in ORDERS:
        right, total = totals[f"{prefix}right{order}"], totals[f"{prefix}total{order}"]
        smoothing = where(right == 0, 2 * smoothing, smoothing)
        precision = where(right == 0, ratio(100.0, smoothing * total), ratio(100.0 * right, total))
        logs = logs + logarithm(precision, LOG_OF_ZERO)
    return where(totals[prefix + "right1"] == 0, 0.0, brevity * exponential(logs / len(ORDERS)))


def score(totals: Totals) -> Scores:
    return {"bleu": corpus_bleu(totals, ""), "bleu_cased": corpus_bleu(totals, "cased_")}


BLEU = Metric(
    name="bleu",
    definition="Corpus BLEU of up to 4-grams, lower-cased.",
    source="Papineni et al. 2002; sacrebleu (Post 2018)",
    signature="bleu|case:lower|tok:13a|smooth:exp|order:4|refs:all,closest|v:1",
    columns=COLUMNS,
    headline="bleu",
    statistics=statistics,
    score=score,
    packages=("sacrebleu",),
)


def bleu(predictions: Sequence[str], references: Sequence[Any]) -> Score:
    """Corpus BLEU, 0-100: BP * exp(1/4 sum log p_n), tokenizer 13a, lower-cased; `bleu_cased` beside it.

    p_n is the share of the predictions' n-grams found in a reference (clipped), smoothed as sacrebleu does;
    BP = exp(1 - r/c) where the predictions' length c is under the closest references' r. sacrebleu counts,
    and its version ends the signature. Raises MetricError where it is not installed, for unequal numbers or
    an example without a reference.
    """
    return evaluate(BLEU, predictions, items(references))
