"""Metrics of token sequences: tag accuracy, F1 of chunks, and attachment scores of dependency parses.

Answers hold one value per token, separated by spaces. Only the first reference counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .base import (
    Metric,
    MetricError,
    Reference,
    Row,
    Score,
    Scores,
    Totals,
    evaluate,
    f1,
    items,
    per_example,
    percent,
)

__all__ = ["PARSING", "SEQUENCE_F1", "TAG_ACCURACY", "chunks", "sequence_f1", "tag_accuracy", "uas_las"]


def _tag_row(prediction: str, reference: Reference) -> Row:
    """(gold tags, tags that are right at their position)."""
    gold = reference.answers[0].lower().split()
    right = sum(a == b for a, b in zip(prediction.lower().split(), gold, strict=False))
    return (float(len(gold)), float(right))


def _tag_score(totals: Totals) -> Scores:
    return {"tag_accuracy": percent(totals["right"], totals["tags"])}


TAG_ACCURACY = Metric(
    name="tag_accuracy",
    definition="Share of gold tags that the prediction has at the same position.",
    source="standard definition",
    signature="tag_accuracy|case:lower|split:space|missing:wrong|extra:ignored|refs:first|v:1",
    columns=("tags", "right"),
    headline="tag_accuracy",
    statistics=per_example(_tag_row),
    score=_tag_score,
)


def tag_accuracy(predictions: Sequence[str], references: Sequence[Any]) -> Score:
    """Tagging accuracy, 0-100: 100 * right tags / gold tags, over the tokens of all sequences together.

    A missing tag is wrong; tags beyond the last gold one are ignored.
    Raises MetricError for unequal numbers or an example without a reference.
    """
    return evaluate(TAG_ACCURACY, predictions, items(references))


_Tag = tuple[str, str]
"""(prefix, kind): `B-NP` is ("b", "np")."""

_Chunk = tuple[str, int, int]
"""(kind, first token, last token)."""

_OUTSIDE = ("o", "")


def _read_tag(text: str) -> _Tag:
    """Split a lower-cased tag; anything without one of the prefixes B, I, E and S is outside."""
    prefix, kind = text[:1], text[1:].removeprefix("-")
    if prefix not in "bies" or not prefix or (text[1:] and not text.startswith("-", 1)):
        return _OUTSIDE
    return prefix, kind or "_"


def _starts_chunk(before: _Tag, tag: _Tag) -> bool:
    """Tell whether a chunk starts with a tag: at B or S, after an end, or where the kind changes."""
    if tag[0] == "o":
        return False
    return tag[0] in "bs" or before[0] in "eso" or before[1] != tag[1]


def chunks(tags: Sequence[str]) -> set[_Chunk]:
    """Find the chunks (kind, first, last) of a tag sequence in IOB1, IOB2 or IOBES, as leniently as conlleval."""
    found: set[_Chunk] = set()
    before, first = _OUTSIDE, 0
    for position, tag in enumerate([*(_read_tag(tag.lower()) for tag in tags), _OUTSIDE]):
        starts = _starts_chunk(before, tag)
        if before[0] != "o" and (starts or tag[0] == "o"):
            found.add((before[1], first, position - 1))
        if starts:
            first = position
        before = tag
    return found


def _chunk_row(prediction: str, reference: Reference) -> Row:
    predicted, gold = chunks(prediction.split()), chunks(reference.answers[0].split())
    counts = (float(len(predicted & gold)), float(len(predicted)), float(len(gold)))
    return counts + _tag_row(prediction, reference)


def _chunk_score(totals: Totals) -> Scores:
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
    statistics=per_example(_chunk_row),
    score=_chunk_score,
)


def sequence_f1(predictions: Sequence[str], references: Sequence[Any]) -> Score:
    """Chunk F1, 0-100, by conlleval's rules (Tjong Kim Sang and Buchholz 2000): 2PR / (P + R).

    P = right / predicted chunks and R = right / gold chunks, over all sequences together; tags are such as B-NP,
    I-NP and O. A prediction may be longer or shorter than the gold sequence; all its chunks count. `details` also
    has precision, recall and tag_accuracy.
    Raises MetricError for unequal numbers or an example without a reference.
    """
    return evaluate(SEQUENCE_F1, predictions, items(references))


_PUNCTUATION = "punct"


def _parse_row(prediction: str, reference: Reference) -> Row:
    """(scored tokens, right heads, right heads with right labels) of one sentence."""
    gold = [token.partition(":") for token in reference.answers[0].lower().split()]
    malformed = [token for token in gold if not token[0].isdecimal() or not token[2]]
    if malformed:
        raise MetricError(
            f"A gold token must be head:label, such as 3:nsubj; given {''.join(malformed[0])!r}."
        )
    predicted = [token.partition(":") for token in prediction.lower().split()]
    predicted += [("", "", "")] * (len(gold) - len(predicted))
    scored = [pair for pair in zip(predicted, gold, strict=False) if pair[1][2] != _PUNCTUATION]
    labels_right = [ours[2] == theirs[2] for ours, theirs in scored if ours[0] == theirs[0]]
    return (float(len(scored)), float(len(labels_right)), float(sum(labels_right)))


def _parse_score(totals: Totals) -> Scores:
    return {name: percent(totals[name], totals["tokens"]) for name in ("uas", "las")}


PARSING = Metric(
    name="parsing",
    definition="Share of tokens, without punctuation, with the right head (UAS), and the right label too (LAS).",
    source="CoNLL-X, Buchholz and Marsi 2006",
    signature="parsing|case:lower|punct:excluded|missing:wrong|refs:first|v:1",
    columns=("tokens", "uas", "las"),
    headline="las",
    statistics=per_example(_parse_row),
    score=_parse_score,
)


def uas_las(predictions: Sequence[str], references: Sequence[Any]) -> Score:
    """Labelled attachment score, 0-100 (Buchholz and Marsi 2006), with the unlabelled one as `uas` in `details`.

    LAS = 100 * tokens with the right head and label / tokens whose gold label is not `punct`. A parse is one
    `head:label` per token (`2:nsubj 0:root`). Missing and unreadable tokens are wrong; tokens beyond the last gold
    one are ignored. Raises MetricError for a gold token that is not head:label.
    """
    return evaluate(PARSING, predictions, items(references))
