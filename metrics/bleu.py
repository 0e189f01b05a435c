"""Corpus BLEU, computed from sums of n-gram counts with sacrebleu's tokenizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .base import (
    Metric,
    MetricError,
    Reference,
    Row,
    Scores,
    Totals,
    bounded,
    exponential,
    logarithm,
    ratio,
    where,
)

try:
    from ._speedups import ngram_hits
except ImportError:  # built without a compiler
    _compiled = False
else:
    _compiled = True

_ORDERS = (1, 2, 3, 4)
_COUNTS = (
    *(f"right{n}" for n in _ORDERS),
    *(f"total{n}" for n in _ORDERS),
    "system_length",
    "reference_length",
)
_LOG_OF_ZERO = -9999999999.0
"""sacrebleu's value for log 0, which makes the score 0 if a precision is 0."""


def load_scorer(name: str) -> Any:
    """Import a sacrebleu metric: BLEU, CHRF or TER. Raises MetricError if sacrebleu is not installed."""
    try:
        from sacrebleu import metrics
    except ImportError:
        raise MetricError(
            f"{name} requires sacrebleu, which is not installed. Run pip install 'sacrebleu>=2.4'."
        ) from None
    return getattr(metrics, name)


def _statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    tokenize = load_scorer("BLEU")(tokenize="13a").tokenizer
    return [
        _row(text, reference.answers, tokenize)
        for text, reference in zip(predictions, references, strict=True)
    ]


def _row(prediction: str, answers: Sequence[str], tokenize: Callable[[str], str]) -> Row:
    """Return a segment's counts, first of the lowercased text and then of the text in its original case."""
    segments = [_read_words(text, tokenize) for text in (prediction, *answers)]
    lower = _count([words for words, _ in segments])
    if all(words == cased for words, cased in segments):
        return lower + lower
    return lower + _count([cased for _, cased in segments])


def _read_words(text: str, tokenize: Callable[[str], str]) -> tuple[list[str], list[str]]:
    cased = tokenize(text.rstrip())
    if "&" in text or "<" in text or "Σ" in text:  # lowercasing can change the tokens of such texts
        return tokenize(text.lower().rstrip()).split(), cased.split()
    return cased.lower().split(), cased.split()


def _count(segments: list[list[str]]) -> Row:
    words, *answers = segments
    right = ngram_hits(segments, _ORDERS[-1]) if _compiled else _count_hits(words, answers)
    total = [max(len(words) - order + 1, 0) for order in _ORDERS]
    _, closest = min([(abs(len(words) - len(answer)), len(answer)) for answer in answers])
    return tuple(map(float, (*right, *total, len(words), closest)))


def _count_hits(words: Sequence[str], answers: Sequence[Sequence[str]]) -> list[int]:
    """Count the n-grams of each order that are also in a reference, clipped to the maximum in any reference."""
    right = []
    for order in _ORDERS:
        available = Counter(_ngrams(answers[0], order))
        for answer in answers[1:]:
            available |= Counter(_ngrams(answer, order))
        grams = Counter(_ngrams(words, order))
        right.append(sum(min(grams[gram], available[gram]) for gram in grams.keys() & available.keys()))
    return right


def _ngrams(words: Sequence[str], order: int) -> Iterable[object]:
    return words if order == 1 else zip(*(words[start:] for start in range(order)), strict=False)


def _corpus_bleu(totals: Totals, prefix: str) -> Any:
    """Compute BP * exp(mean of log p_n) from sums, smoothing orders without a match as in sacrebleu ("exp")."""
    system, reference = totals[prefix + "system_length"], totals[prefix + "reference_length"]
    brevity = where(system < reference, exponential(1 - ratio(reference, system)), 1.0)
    logs, smoothing = 0.0, 1.0
    for order in _ORDERS:
        right, total = totals[f"{prefix}right{order}"], totals[f"{prefix}total{order}"]
        smoothing = where(right == 0, 2 * smoothing, smoothing)
        precision = where(right == 0, ratio(100.0, smoothing * total), ratio(100.0 * right, total))
        logs = logs + logarithm(precision, _LOG_OF_ZERO)
    score = bounded(brevity * exponential(logs / len(_ORDERS)))
    return where(totals[prefix + "right1"] == 0, 0.0, score)


def _score(totals: Totals) -> Scores:
    return {"bleu": _corpus_bleu(totals, ""), "bleu_cased": _corpus_bleu(totals, "cased_")}


bleu = Metric(
    name="bleu",
    definition="Corpus BLEU with n-grams of up to 4 words, lowercased.",
    about="""Corpus BLEU, 0-100 (Papineni et al. 2002), lowercased, tokenizer 13a: BP * exp(1/4 sum over n of log p_n).

    p_n is the percentage of the predictions' n-grams that occur in a reference (clipped), smoothed as in sacrebleu.
    BP is exp(1 - r/c) if c, the total length of the predictions, is less than r, the total length of the closest
    references, and otherwise 1. `details` also has `bleu_cased`. sacrebleu splits texts into tokens, and the signature
    ends with its version.

    Raises MetricError if sacrebleu is not installed, if the numbers of predictions and references differ, or if an
    example has no reference.
    """,
    source="Papineni et al. 2002; sacrebleu (Post 2018)",
    signature="bleu|case:lower|tok:13a|smooth:exp|order:4|refs:all,closest|v:1",
    columns=(*_COUNTS, *(f"cased_{name}" for name in _COUNTS)),
    headline="bleu",
    statistics=_statistics,
    score=_score,
    packages=("sacrebleu",),
    reads="text",
)
