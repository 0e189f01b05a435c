"""Chunk F1 of tag sequences (chunking, named entities) by conlleval's rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._numeric import f1, percent
from .accuracy import tag_counts
from .base import Metric, Reference, Row, Score, Scores, Totals, evaluate, items

__all__ = ["SEQUENCE_F1", "chunks", "sequence_f1"]

Chunk = tuple[str, int, int]
"""(kind, first token, last token)."""

OUTSIDE = ("o", "")


def read_tag(tag: str) -> tuple[str, str]:
    """(prefix, kind) of a lower-cased tag such as `b-np`; anything without a known prefix is outside."""
    prefix, kind = tag[:1], tag[1:].removeprefix("-")
    if prefix not in "bies" or not prefix or (tag[1:] and not tag.startswith("-", 1)):
        return OUTSIDE
    return prefix, kind or "_"


def starts(before: tuple[str, str], tag: tuple[str, str]) -> bool:
    """Whether a chunk starts with a tag: at B or S, after an end, or where the kind changes."""
    if tag[0] == "o":
        return False
    return tag[0] in "bs" or before[0] in "eso" or before[1] != tag[1]


def chunks(tags: Sequence[str]) -> set[Chunk]:
    """The chunks of a tag sequence, in IOB1, IOB2 or IOBES, read as generously as conlleval does."""
    found: set[Chunk] = set()
    before, first = OUTSIDE, 0
    for position, tag in enumerate([*map(read_tag, (tag.lower() for tag in tags)), OUTSIDE]):
        begins = starts(before, tag)
        if before[0] != "o" and (begins or tag[0] == "o"):
            found.add((before[1], first, position - 1))
        if begins:
            first = position
        before = tag
    return found


def row(prediction: str, answer: str) -> Row:
    predicted, gold = chunks(prediction.split()), chunks(answer.split())
    return (
        float(len(predicted & gold)),
        float(len(predicted)),
        float(len(gold)),
        *tag_counts(prediction, answer),
    )


def statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    return [row(text, reference.answers[0]) for text, reference in zip(predictions, references, strict=True)]


def score(totals: Totals) -> Scores:
    precision = percent(totals["right"], totals["predicted"])
    recall = percent(totals["right"], totals["gold"])
    return {
        "sequence_f1": f1(precision, recall),
        "precision": precision,
        "recall": recall,
        "tag_accuracy": percent(totals["tags_right"], totals["tags"]),
    }


SEQUENCE_F1 = Metric(
    name="sequence_f1",
    definition="F1 of chunks with the right kind, start and end, over all sequences together.",
    source="CoNLL-2000 conlleval (Tjong Kim Sang and Buchholz 2000); seqeval",
    signature="sequence_f1|case:lower|scheme:conlleval|length:any|refs:first|v:1",
    columns=("right", "predicted", "gold", "tags", "tags_right"),
    headline="sequence_f1",
    statistics=statistics,
    score=score,
)


def sequence_f1(predictions: Sequence[str], references: Sequence[Any]) -> Score:
    """Chunk F1, 0-100, by conlleval's rules: 2PR / (P + R), P = right / predicted, R = right / gold chunks.

    Tags such as B-NP, I-NP, O are separated by spaces, one a token; a prediction may be longer or shorter
    than the gold sequence, its chunks count as they stand. The first reference is the gold one.
    Raises MetricError for unequal numbers or an example without a reference.
    """
    return evaluate(SEQUENCE_F1, predictions, items(references))
