"""ROUGE-1, ROUGE-2 and summary-level ROUGE-L as ROUGE-1.5.5 computes them (`-m -n 2`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from . import _rouge155 as perl
from ._numeric import percent
from .base import Metric, Reference, Row, Score, Scores, Totals, evaluate, items
from .errors import MetricError

__all__ = ["ROUGE", "ROUGE_LINES", "rouge"]

KINDS = ("rouge1", "rouge2", "rougeL")
PARTS = ("precision", "recall", "f")
COLUMNS = ("n", *(f"{kind}_{part}" for kind in KINDS for part in PARTS))

Counts = tuple[int, int, int]
"""Hits, units of the candidate, units of the reference."""


def longest_common(candidate: perl.Sentences, reference: perl.Sentences) -> Counts:
    _, left, right = perl.overlap(candidate, reference, 1)
    return (perl.lcs_hits(candidate, reference), left, right)


COUNTERS: tuple[Callable[[perl.Sentences, perl.Sentences], Counts], ...] = (
    partial(perl.overlap, order=1),
    partial(perl.overlap, order=2),
    longest_common,
)


def row(prediction: str, answers: Sequence[str], separator: str) -> Row:
    """One example's P, R and F of each kind. Counts of several references are summed first (`-f A`)."""
    candidate = perl.sentence_tokens(prediction, separator)
    references = [perl.sentence_tokens(answer, separator) for answer in answers]
    values = [1.0]
    for counter in COUNTERS:
        counts = [counter(candidate, reference) for reference in references]
        hits, left, right = map(sum, zip(*counts, strict=True))
        values.extend(perl.precision_recall_f1(hits, left, right))
    return tuple(values)


def statistics(
    predictions: Sequence[str], references: Sequence[Reference], separator: str = "."
) -> list[Row]:
    pairs = zip(predictions, references, strict=True)
    return [row(text, reference.answers, separator) for text, reference in pairs]


def score(totals: Totals) -> Scores:
    scores = {kind: percent(totals[f"{kind}_f"], totals["n"]) for kind in KINDS}
    scores["rouge"] = (scores["rouge1"] + scores["rouge2"] + scores["rougeL"]) / 3
    for kind in KINDS:
        for part in ("precision", "recall"):
            scores[f"{kind}_{part}"] = percent(totals[f"{kind}_{part}"], totals["n"])
    return scores


ROUGE = Metric(
    name="rouge",
    definition="Mean of the F of ROUGE-1, ROUGE-2 and summary-level ROUGE-L, averaged over examples.",
    source="Lin 2004, ROUGE-1.5.5 -m -n 2; decaNLP 2018",
    signature="rouge|scorer:1.5.5|stem:porter+wordnet2.0|sentences:period|refs:pooled|round:5|v:1",
    columns=COLUMNS,
    headline="rouge",
    statistics=statistics,
    score=score,
)

ROUGE_LINES = replace(
    ROUGE,
    name="rouge_lines",
    definition="The same for texts that have one sentence a line.",
    source="Lin 2004, ROUGE-1.5.5 -m -n 2; See et al. 2017",
    signature=ROUGE.signature.replace("rouge|", "rouge_lines|").replace("sentences:period", "sentences:line"),
    statistics=partial(statistics, separator="\n"),
)


def check_sentences(separator: str) -> None:
    if separator not in (".", "\n"):
        raise MetricError(f"Sentences end at '.' or at a line's end; sentences={separator!r} is neither.")


def rouge(
    predictions: Sequence[str], references: Sequence[Any], sentences: Literal[".", "\n"] = "."
) -> Score:
    """ROUGE, 0-100: the mean of ROUGE-1, ROUGE-2 and ROUGE-L F, as ROUGE-1.5.5 -m -n 2 has them.

    F = 2PR / (P + R) an example, of clipped n-grams, or of the union of longest common subsequences of each
    reference sentence with every candidate sentence; P over the candidate's units, R over the reference's.
    The corpus score is the mean of F. `sentences` says what ends one: "." as in decaNLP 2018, or "\\n".
    Several references are pooled: hits and units are summed over them before P and R, ROUGE's default `-f A`.
    `details` has rouge1, rouge2, rougeL, rouge, and precisions and recalls.
    Raises MetricError for another `sentences`, unequal numbers or an example without a reference.
    """
    check_sentences(sentences)
    return evaluate(ROUGE if sentences == "." else ROUGE_LINES, predictions, items(references))
