"""Metrics for token sequences: tag accuracy, chunk F1, and attachment scores of dependency parses.

Answers contain one item per token, separated by spaces. Only the first reference of an example is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from .base import (
    Item,
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
    require_gold,
    show_value,
)

MISSING = "_"
"""The placeholder for an item that a model left out."""


@dataclass(frozen=True)
class ItemFaults:
    """The numbers of malformed items in a prediction. Items that are well formed but wrong don't count."""

    missing: int
    """The number of tokens without an item: there are too few items, or the item is `_` but the gold item isn't."""
    extra: int
    """The number of items beyond the last token."""
    unknown: int
    """The number of tags that don't occur in the gold answers or, in trees, unreadable items."""
    outside: int
    """The number of heads in trees that are not tokens of the sentence."""


def count_faults(prediction: str, gold: str, known: Set[str] | None) -> ItemFaults:
    """Count malformed items in a prediction. `known` contains the known tags in lowercase; it is None for a tree."""
    items, expected = prediction.lower().split(), gold.lower().split()
    pairs = list(zip(items, expected, strict=False))
    given = [ours for ours, theirs in pairs if ours != MISSING or theirs == MISSING]
    unknown = outside = 0
    if known is not None:
        unknown = sum(item not in known for item in given)
    else:
        heads = [_read_token(item).head for item in given]
        unknown = sum(head is None for head in heads)
        outside = sum(head is not None and head > len(expected) for head in heads)
    extra = max(len(items) - len(expected), 0)
    return ItemFaults(len(expected) - len(given), extra, unknown, outside)


def _tag_row(prediction: str, reference: Reference) -> Row:
    gold = reference.answers[0].lower().split()
    right = sum(a == b for a, b in zip(prediction.lower().split(), gold, strict=False))
    return (float(len(gold)), float(right))


def _tag_score(totals: Totals) -> Scores:
    return {"tag_accuracy": percent(totals["right"], totals["tags"])}


tag_accuracy = Metric(
    name="tag_accuracy",
    definition="Share of tokens whose predicted tag equals the gold tag.",
    about="""Tagging accuracy, 0-100: 100 * right tags / gold tags, over the tokens of all sequences together.

    A missing tag counts as wrong. Tags after the last token are ignored.
    """,
    source="standard definition",
    signature="tag_accuracy|case:lower|split:space|missing:wrong|extra:ignored|refs:first|v:1",
    columns=("tags", "right"),
    headline="tag_accuracy",
    statistics=per_example(_tag_row),
    score=_tag_score,
    reads="tags",
)


_Tag = tuple[str, str]
"""The prefix and kind of a tag: `B-NP` is ("b", "np")."""

_Chunk = tuple[str, int, int]
"""The kind of a chunk, and the indexes of its first and last token."""

_OUTSIDE = ("o", "")

# The pairs (previous prefix, prefix) between which a chunk starts or ends, from conlleval's startOfChunk and
# endOfChunk, and the prefixes of single-token chunks and of tokens outside chunks. The pairs with S, and B after E, are
# for IOBES, which conlleval doesn't support.
_STARTS = frozenset(["bb", "ib", "ob", "oi", "oe", "ee", "ei", "eb", "sb", "si", "se"])
_ENDS = frozenset(["bb", "bo", "ib", "io", "ee", "ei", "eo", "eb"])
_SINGLE = frozenset("s[]")
_NONE = frozenset("o.")


def _read_tag(text: str) -> _Tag:
    """Split a lowercased tag into its prefix and kind at the first hyphen. Without a hyphen, the kind is empty."""
    prefix, _, kind = text.partition("-")
    return prefix, kind


def _are_listed(pairs: Set[str], before: _Tag, tag: _Tag) -> bool:
    return len(before[0]) == len(tag[0]) == 1 and before[0] + tag[0] in pairs


def _ends_chunk(before: _Tag, tag: _Tag) -> bool:
    """Return whether a chunk ends before `tag`, according to the two prefixes or a change of kind."""
    changes = before[0] not in _NONE and before[1] != tag[1]
    return changes or before[0] in _SINGLE or _are_listed(_ENDS, before, tag)


def _starts_chunk(before: _Tag, tag: _Tag) -> bool:
    """Return whether a chunk starts at `tag`, according to the two prefixes or a change of kind."""
    changes = tag[0] not in _NONE and before[1] != tag[1]
    return changes or tag[0] in _SINGLE or _are_listed(_STARTS, before, tag)


def chunks(tags: Sequence[str]) -> set[_Chunk]:
    """Return the chunks (kind, first, last) of an IOB1, IOB2, IOE or IOBES tag sequence, by conlleval's rules."""
    found: set[_Chunk] = set()
    before, kind, first = _OUTSIDE, "", -1  # of the open chunk; -1 if no chunk is open
    for position, tag in enumerate([*(_read_tag(tag.lower()) for tag in tags), _OUTSIDE]):
        starts, is_last = _starts_chunk(before, tag), position == len(tags)
        if first >= 0 and (starts or is_last or _ends_chunk(before, tag)):
            found.add((kind or "_", first, position - 1))
            first = -1
        if starts:
            first, kind = position, tag[1]
        before = tag
    return found


_PREFIXES = frozenset([*"bieso", *_SINGLE, *_NONE])
"""All supported prefixes."""
_SPELLING = (
    "Write O, or B-, I-, E- or S- followed by the kind. Replace L and U (BILOU) with E and S, and M and W (BMEWO) "
    "with I and S"
)


def _find_unknown_prefix(reference: Reference) -> str:
    """Describe the first gold tag that isn't valid in IOB1, IOB2, IOE1, IOE2 or IOBES.

    Returns an empty string if all tags are valid. conlleval would merge an invalid tag with its neighbors.
    """
    for tag in reference.answers[0].split():
        prefix, kind = _read_tag(tag.lower())
        if prefix not in _PREFIXES or (prefix in _NONE and kind):
            return f"the unknown tag {show_value(tag)}. {_SPELLING}"
    return ""


def _chunk_statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    require_gold(references, _find_unknown_prefix)
    return [_chunk_row(text, reference) for text, reference in zip(predictions, references, strict=True)]


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


sequence_f1 = Metric(
    name="sequence_f1",
    definition="F1 of chunks in all sequences. A chunk is right if its kind, start and end are right.",
    about="""Chunk F1, 0-100, by conlleval's rules (Tjong Kim Sang and Buchholz 2000): 2PR / (P + R).

    P = right / predicted chunks and R = right / gold chunks, over all sequences together. Tags look like B-NP, I-NP and
    O. An unknown tag, such as X-NP or NP, starts a chunk where the kind changes, as in conlleval. A prediction may be
    longer or shorter than the gold sequence, and all its chunks count. Gold tags may use IOB1, IOB2, IOE1, IOE2 or
    IOBES; the prefix S and a B after E are read as in seqeval. `details` also has precision, recall and tag_accuracy.

    Raises MetricError if a gold tag has another prefix, such as U and L in BILOU, if the numbers of predictions and
    references differ, or if an example has no reference.
    """,
    source="CoNLL-2000 conlleval (Tjong Kim Sang and Buchholz 2000); seqeval",
    signature="sequence_f1|case:lower|scheme:conlleval|length:any|refs:first|v:2",
    columns=("right", "predicted", "gold", "tags", "tags_right"),
    headline="sequence_f1",
    statistics=_chunk_statistics,
    score=_chunk_score,
    find_fault=_find_unknown_prefix,
    reads="tags",
)


class _Token(NamedTuple):
    """A token of a parse."""

    head: int | None
    """The number of the token's head, 0 for the root; None if unreadable."""
    relation: str
    """The token's relation without a subtype, such as `nmod` for `nmod:poss`."""


def _read_token(text: str) -> _Token:
    head, _, relation = text.partition(":")
    if not head.isdecimal() or len(head) > _DIGITS or not relation:
        return _Token(None, "")
    return _Token(int(head), relation.partition(":")[0])


_DIGITS = 9
"""The maximum number of digits in a head. Longer heads are unreadable."""

_CONTENT = frozenset(
    "nsubj obj iobj csubj ccomp xcomp obl vocative expl dislocated advcl advmod discourse nmod appos nummod acl amod "
    "conj fixed flat compound list parataxis orphan goeswith reparandum root dep".split()
)
"""The relations that CLAS counts, as in the CoNLL-18 evaluator."""

_PUNCTUATION = "punct"
"""The relation of punctuation in Universal Dependencies."""

_PUNCTUATION_TAGS = frozenset(["PUNCT", "``", "''", ",", ".", ":"])
"""The tags for punctuation in Universal Dependencies and in the Penn Treebank. Papers on parsing don't
score tokens with these tags.
"""


def _punctuation(reference: Reference, relations: Sequence[str]) -> list[bool]:
    """Return whether each token is punctuation, based on its gold tag or, if there are no tags, on its relation."""
    tags = reference.meta.get("upos") or reference.meta.get("pos")
    if tags is None:
        return [relation == _PUNCTUATION for relation in relations]
    tags = tags.split() if isinstance(tags, str) else list(tags)
    if len(tags) != len(relations):
        raise MetricError(
            f"There must be one tag per token, but {reference.id or 'an example'} has {len(tags)} instead of "
            f"{len(relations)}."
        )
    return [tag in _PUNCTUATION_TAGS for tag in tags]


def _find_unreadable(reference: Reference) -> str:
    words = reference.answers[0].split()
    unreadable = next((word for word in words if not _read_token(word).relation), "")
    return (
        f"the invalid token {show_value(unreadable)}. Write head:relation, such as 3:nsubj"
        if unreadable
        else ""
    )


def _parse_ud_row(prediction: str, reference: Reference) -> Row:
    """Return counts over all words, over words with a content relation, and over all words except punctuation."""
    words = reference.answers[0].lower().split()
    gold = [_read_token(word) for word in words]
    if unreadable := [word for word, token in zip(words, gold, strict=True) if not token.relation]:
        raise MetricError(
            f"A gold token must have the form head:relation, such as 3:nsubj, but got {show_value(unreadable[0])}."
        )
    predicted = [_read_token(word) for word in prediction.lower().split()[: len(gold)]]
    predicted += [_Token(None, "")] * (len(gold) - len(predicted))
    heads = [ours.head == theirs.head for ours, theirs in zip(predicted, gold, strict=True)]
    both = [ours == theirs for ours, theirs in zip(predicted, gold, strict=True)]
    content = [token.relation in _CONTENT for token in gold]
    counted = [not mark for mark in _punctuation(reference, [token.relation for token in gold])]
    return (
        float(len(gold)),
        float(sum(heads)),
        float(sum(both)),
        float(sum(content)),
        float(sum(token.relation in _CONTENT for token in predicted)),
        float(sum(right and counts for right, counts in zip(both, content, strict=True))),
        float(sum(counted)),
        float(sum(right and counts for right, counts in zip(heads, counted, strict=True))),
        float(sum(right and counts for right, counts in zip(both, counted, strict=True))),
    )


def _parse_row(prediction: str, reference: Reference) -> Row:
    """Return the numbers of words, right heads, and right heads with right relations, not counting punctuation."""
    return _parse_ud_row(prediction, reference)[-3:]


def _parse_score(totals: Totals) -> Scores:
    return {name: percent(totals[name], totals["tokens"]) for name in ("uas", "las")}


PARSING = Metric(
    name="parsing",
    definition=(
        "Share of words with the right head (UAS), and with the right head and relation (LAS). Subtypes of relations "
        "and punctuation are ignored."
    ),
    source="CoNLL-X, Buchholz and Marsi 2006",
    signature="parsing|case:lower|subtypes:cut|punct:tags,relation|missing:wrong|extra:ignored|refs:first|v:2",
    columns=("tokens", "uas", "las"),
    headline="las",
    statistics=per_example(_parse_row),
    score=_parse_score,
    find_fault=_find_unreadable,
    reads="tree",
)


def uas_las(
    predictions: Iterable[str], references: Iterable[Any], tags: Iterable[Any] | None = None
) -> Score:
    """Compute the labeled attachment score (LAS), 0-100, with the unlabeled score as `uas` in `details`.

    LAS is the percentage of words, excluding punctuation, that have the right head and relation (Buchholz and Marsi
    2006). A parse has a `head:relation` for each word (`2:nsubj 0:root`). Subtypes of relations are ignored, so
    `nmod:poss` counts as `nmod`. The scores equal las_without_punctuation and uas_without_punctuation of `parsing_ud`,
    which describes punctuation, `tags`, missing and unreadable words, and errors.
    """
    return evaluate(PARSING, predictions, _with_tags(references, tags))


def _with_tags(references: Iterable[Any], tags: Iterable[Any] | None) -> list[Item]:
    return items(
        references, **({} if tags is None else {"meta": [{"pos": of_example} for of_example in tags]})
    )


def _parse_ud_score(totals: Totals) -> Scores:
    precision = percent(totals["content_right"], totals["content_predicted"])
    recall = percent(totals["content_right"], totals["content_gold"])
    kept = totals["kept"]
    return {
        "las_ud": percent(totals["las"], totals["words"]),
        "uas_ud": percent(totals["uas"], totals["words"]),
        "clas_ud": f1(precision, recall),
        "las_without_punctuation": percent(totals["las_kept"], kept),
        "uas_without_punctuation": percent(totals["uas_kept"], kept),
    }


PARSING_UD = Metric(
    name="parsing_ud",
    definition=(
        "Share of all words with the right head and relation, ignoring subtypes (LAS). UAS, CLAS, and the LAS and UAS "
        "without punctuation are also computed."
    ),
    source="CoNLL 2018 shared task evaluator (Zeman et al. 2018)",
    signature="parsing_ud|case:lower|subtypes:cut|punct:tags,relation|missing:wrong|extra:ignored|refs:first|v:1",
    columns=(
        "words",
        "uas",
        "las",
        "content_gold",
        "content_predicted",
        "content_right",
        "kept",
        "uas_kept",
        "las_kept",
    ),
    headline="las_ud",
    statistics=per_example(_parse_ud_row),
    score=_parse_ud_score,
    find_fault=_find_unreadable,
    reads="tree",
)


def parsing_ud(
    predictions: Iterable[str], references: Iterable[Any], tags: Iterable[Any] | None = None
) -> Score:
    """Compute the LAS of the CoNLL 2018 shared task, 0-100, over all words including punctuation.

    Subtypes of relations are ignored. `details` also has uas_ud, clas_ud (the F1 over words with a content relation),
    and las_without_punctuation and uas_without_punctuation, which papers report. The last two leave out words whose
    gold tag is PUNCT or a punctuation tag of the Penn Treebank. `tags` are the gold tags of each example, as a string
    or a list; a task's examples have them as `upos` or `pos` in their `meta`. Without tags, words with the relation
    punct are left out. Missing and unreadable words are wrong, and words beyond the last gold word are ignored.

    Raises MetricError if a gold word doesn't have the form head:relation, or if the numbers of tags and words differ.
    """
    return evaluate(PARSING_UD, predictions, _with_tags(references, tags))
