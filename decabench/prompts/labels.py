"""Find the labels offered by a question, and the label in a text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from decabench.metrics import fold_label
from decabench.prompts.clutter import is_remark, lines_of
from decabench.tasks import AnswerForm, Label, Output

__all__ = [
    "find_label",
    "is_other_label",
    "labels_for",
    "match_label",
    "options",
    "possible_labels",
]

_CLAUSE = re.compile(r"(?<=[.?!:;])\s+|\s+--\s+")
_ASKS = re.compile(
    r"(?:is|are|was|were|does|do|did|would|which|what|who|how|can|could|has|have)\b", re.IGNORECASE
)
_ASKS_WHAT = re.compile(r"(?:which|what|who|how)\b", re.IGNORECASE)


def labels_for(form: AnswerForm, question: str) -> tuple[str, ...]:
    """Return the labels offered by a question."""
    if not form.labels_from_question:
        return form.labels
    if form.labels and all(_pattern((label,))[0].search(question) for label in form.labels):
        return form.labels
    return options(question) or form.labels


def is_other_label(text: str, output: Output, question: str) -> bool:
    """Whether an answer is not one of the possible labels, ignoring case and whitespace.

    If the output declares no labels, the question's options are used. Always false for outputs that are not
    labels.
    """
    labels = possible_labels(output, question)
    return bool(labels) and fold_label(text) not in map(fold_label, labels)


def possible_labels(output: Output, question: str) -> tuple[str, ...]:
    """Return the labels of an output, or else those named in the question.

    Empty for outputs that are not labels.
    """
    return tuple(output.names or options(question)) if isinstance(output, Label) else ()


def options(question: str) -> tuple[str, ...]:
    """Return the options at the end of a question, such as `-- yes, no, or maybe?`."""
    clause = _CLAUSE.split(question.strip().rstrip("?.! "))[-1]
    before, found, last = clause.rpartition(" or ")
    if not found:
        return ()
    first = [part.strip() for part in before.strip().rstrip(",").split(",")]
    if _ASKS_WHAT.match(first[0]) and len(first) > 1:
        first = first[1:]  # as in `Which is it, negative or positive?`
    elif _ASKS.match(first[0]):
        first[0] = first[0].split()[-1]  # as in `Is this review negative or positive?`
    found_all = (*first, last.strip())
    return found_all if all(found_all) else ()


_Mentions = list[tuple[int, int, str]]
"""Labels found in a text, as (start, end, label)."""

_NO_DECIMALS = r"(?!(?<=\d)(?!\.0+(?!\d))[.,:/]\d)"
"""Excludes digits that make a numeric label part of another number.

`3.5`, `3,000` and `3/10` are other numbers, but `3.0` is 3.
"""


@lru_cache(256)
def _pattern(labels: tuple[str, ...]) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Return a pattern that matches any label, and the label for each group.

    Labels that differ only in case are left out.
    """
    counts = Counter(label.casefold() for label in labels)
    names = sorted((label for label in labels if counts[label.casefold()] == 1), key=len, reverse=True)
    words = (r"[\s_-]+".join(map(re.escape, label.split())) for label in names)
    groups = "|".join(f"({word})" for word in words) or "(?!)"
    pattern = rf"(?<![\w\u2212-])(?!(?<=\d[.,:/])\d)(?:{groups})(?:\.0+(?!\d))?(?![\w+#-]|['\u2019]\w){_NO_DECIMALS}"
    return re.compile(pattern, re.IGNORECASE), tuple(names)


def _mentions(text: str, labels: Sequence[str]) -> _Mentions:
    pattern, names = _pattern(tuple(dict.fromkeys(label for label in labels if label.strip())))
    if any(name.startswith("-") for name in names):
        text = text.replace("\u2212", "-")
    return [(*match.span(), names[(match.lastindex or 1) - 1]) for match in pattern.finditer(text)]


def match_label(text: str, labels: Sequence[str]) -> str | None:
    """Return the label that makes up the whole text, or None.

    Case, punctuation and articles are ignored.
    """
    plain = text.strip()
    if plain in labels:
        return plain if plain else None
    plain = plain.strip("_ ")
    found = _mentions(plain, labels)
    if len(found) != 1:
        return None
    start, end, label = found[0]
    before = _ARTICLE.sub("", plain[:start])
    return None if re.search(r"[^\W_]", before + plain[end:]) else label


_ARTICLE = re.compile(r"(?<![^\W_])(?:an?|the)\s+$", re.IGNORECASE)


def find_label(text: str, labels: Sequence[str], question: str = "", finished: bool = True) -> str | None:
    """Return the label stated in a text, or None if it is missing, ambiguous or negated.

    A label must take up a whole line, optionally after a heading, or start the first line. A label in a
    sentence is accepted only if the first or last line names no other label and negates nothing. The text
    must also be `finished`, since a truncated text might have continued with the opposite.
    """
    if question and text.casefold().startswith(question.casefold()) and text[len(question) :].strip():
        text = text[len(question) :]
    lines = [line for line in lines_of(text) if not _UNCHECKED.match(line)]
    if not lines or not labels:
        return None
    if whole := match_label(text, labels):
        return whole
    while len(lines) > 1 and is_remark(lines[-1]):
        lines.pop()
    stated = {label for line in lines if (label := _stated(line, labels))}
    if not stated and (first := _opening(lines[0], labels)):
        # several labels if the options are listed
        stated = {first, *(label for line in lines[1:] if (label := _opening(line, labels)))}
    for line in lines[1:] if stated else ():
        if len(line) <= _LONGEST and _CORRECTS.search(line):
            stated.update(label for _, _, label in _mentions(line, labels))
    if not stated and finished:
        stated = {label for line in {lines[0], lines[-1]} if (label := _named(line, labels))}
    return stated.pop() if len(stated) == 1 else None


def _stated(line: str, labels: Sequence[str]) -> str | None:
    """Return a label that takes up a line, alone or after a heading such as `Sentiment:` or `(B)`."""
    if found := match_label(line, labels):
        return found
    start = _HEAD.match(line) or _OPTION.match(line)
    return (
        None
        if start is None or _mentions(start.group(), labels)
        else match_label(line[start.end() :], labels)
    )


def _opening(line: str, labels: Sequence[str]) -> str | None:
    """Return the label at the start of a line, before punctuation.

    Other labels may follow only in an explanation.
    """
    line = line.lstrip(_AROUND)[:_LONGEST]
    found = _mentions(line, labels)
    if not found or found[0][0]:
        return None
    rest = line[found[0][1] :].lstrip("*_`\"'\u201d")
    is_alone = len({label for _, _, label in found}) == 1
    is_explained = _EXPLAINS.match(rest) and not _CORRECTS.search(rest)
    return (
        found[0][2] if (is_alone or is_explained) and _ENDS.match(rest) and not _SCORED.match(rest) else None
    )


def _named(line: str, labels: Sequence[str]) -> str | None:
    if len(line) > _LONGEST or _DENIES.search(line):
        return None
    found = {label for _, _, label in _mentions(line, labels)}
    return found.pop() if len(found) == 1 and not {label.casefold() for label in found} & _WEAK else None


_LONGEST = 10_000
"""Longer lines are skipped because finding all labels in them would take minutes."""
_AROUND = "*_`\"'\u201c\u201d\u2018\u2019 "
_DENIES = re.compile(
    r"\b(?:not|no|never|neither|nor|without|nothing|none|cannot|hardly|rather|instead|unless|if|whether|while|although"
    r"|would|could|should|might|may|must|lacks?|lacking|fails?|failed|refus\w+|despite|word|words|phrase|far|first"
    r"|seems?|initially|hard|difficult|want\w*|hop\w+|expect\w*|suppos\w+|less|anything|ruled?)\b|n['\u2019]t\b|\?",
    re.IGNORECASE,
)
"""Words that may negate the label in a sentence."""
_ENDS = re.compile(r"\s*(?:[!;)\]\n]|[.:](?!\d)|[–—-]\s|,(?!\d|\s*(?:or|and)\b)|$)")
_EXPLAINS = re.compile(
    r"\s*(?:[.!;:)\n]|[–—-]\s|,\s(?:because|since|as|given|so|not|rather)\b)", re.IGNORECASE
)
_CORRECTS = re.compile(
    r"\b(?:wait|actually|instead|but|however|correct\w*|final\w*|therefore|overall)\b", re.IGNORECASE
)
_SCORED = re.compile(r"\s*[:=–—-]\s*(?:no\b|not\b|false\b|yes\b|true\b|[\d.]+)", re.IGNORECASE)
_HEAD = re.compile(r"\W*[^\W\d_]+(?:[ _][^\W\d_]+){0,3}(?:[ ]\([^()]*\))?[*_\"'`]*\s{0,3}[:=\uff1a]\s*")
_UNCHECKED = re.compile(r"[-*\s]*\[\s?\]\s")
"""An unchecked box in a list."""
_OPTION = re.compile(r"\W*(?:option\s+)?(?:[A-Ea-e]|\d)\s*[).:–-]\W*\s", re.IGNORECASE)
_WEAK = frozenset({"yes", "no", "maybe", "true", "false", "unknown", "a", "i"})
"""Labels that are too common as words to be recognized in a sentence."""
