"""Attachment scores of dependency parsing: UAS and LAS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._numeric import percent
from .base import Metric, Reference, Row, Score, Scores, Totals, evaluate, items
from .errors import MetricError

__all__ = ["PARSING", "uas_las"]

PUNCTUATION = "punct"


def row(prediction: str, answer: str) -> Row:
    """(scored tokens, right heads, right heads with right labels) of one sentence."""
    gold = [token.partition(":") for token in answer.lower().split()]
    malformed = [token for token in gold if not token[0].isdecimal() or not token[2]]
    if malformed:
        raise MetricError(f"A gold token is head:label, such as 3:nsubj; given {''.join(malformed[0])!r}.")
    predicted = [token.partition(":") for token in prediction.lower().split()]
    predicted += [("", "", "")] * (len(gold) - len(predicted))
    scored = [pair for pair in zip(predicted, gold, strict=False) if pair[1][2] != PUNCTUATION]
    heads = [ours[2] == theirs[2] for ours, theirs in scored if ours[0] == theirs[0]]
    return (float(len(scored)), float(len(heads)), float(sum(heads)))


def statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    return [row(text, reference.answers[0]) for text, reference in zip(predictions, references, strict=True)]


def score(totals: Totals) -> Scores:
    return {name: percent(totals[name], totals["tokens"]) for name in ("uas", "las")}


PARSING = Metric(
    name="parsing",
    definition="Share of tokens but punctuation with the right head (UAS) and label (LAS).",
    source="CoNLL-X, Buchholz and Marsi 2006",
    signature="parsing|case:lower|punct:excluded|missing:wrong|refs:first|v:1",
    columns=("tokens", "uas", "las"),
    headline="las",
    statistics=statistics,
    score=score,
)


def uas_las(predictions: Sequence[str], references: Sequence[Any]) -> Score:
    """LAS, 0-100, with `uas` beside it: tokens with the right head and label / tokens that are not `punct`.

    A parse is one `head:label` a token, separated by spaces (`2:nsubj 0:root`); what is missing or cannot be
    read is wrong, tokens beyond the gold ones are passed over. The first reference is the gold one.
    Raises MetricError for a gold token that is not head:label.
    """
    return evaluate(PARSING, predictions, items(references))
