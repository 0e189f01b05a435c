"""Attachment scores of dependency parsing: UAS and LAS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._numeric import f1, percent
from .accuracy import tag_counts
from .base import Metric, MetricError, Reference, Row, Score, Scores, Totals, evaluate, items

__all__ = ["PARSING", "SEQUENCE_F1", "chunks", "sequence_f1", "uas_las"]

# ---- sequence_f1

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


# ---- uas_las

PUNCTUATION = "punct"


def row__uas_las(prediction: str, answer: str) -> Row:
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


def statistics__uas_las(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    return [
        row__uas_las(text, reference.answers[0])
        for text, reference in zip(predictions, references, strict=True)
    ]


def score__uas_las(totals: Totals) -> Scores:
    return {name: percent(totals[name], totals["tokens"]) for name in ("uas", "las")}


PARSING = Metric(
    name="parsing",
    definition="Share of tokens but punctuation with the right head (UAS) and label (LAS).",
    source="CoNLL-X, Buchholz and Marsi 2006",
    signature="parsing|case:lower|punct:excluded|missing:wrong|refs:first|v:1",
    columns=("tokens", "uas", "las"),
    headline="las",
    statistics=statistics__uas_las,
    score=score__uas_las,
)


def uas_las(predictions: Sequence[str], references: Sequence[Any]) -> Score:
    """LAS, 0-100, with `uas` beside it: tokens with the right head and label / tokens that are not `punct`.

    A parse is one `head:label` a token, separated by spaces (`2:nsubj 0:root`); what is missing or cannot be
    read is wrong, tokens beyond the gold ones are passed over. The first reference is the gold one.
    Raises MetricError for a gold token that is not head:label.
    """
    return evaluate(PARSING, predictions, items(references))
