"""Labels: the options of a question, the label in a text, and the forms that labels take in texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    """Return the labels that a question offers."""
    if not form.labels_from_question:
        return form.labels
    if form.labels and all(_pattern((_key(label),)).search(question) for label in form.labels):
        return form.labels
    return options(question) or form.labels


def is_other_label(text: str, output: Output, question: str) -> bool:
    """Return whether an answer in the dataset's own words is not a possible label, ignoring case and spaces.

    If an output declares no labels, the question's options are used. False for outputs that are not labels.
    """
    labels = possible_labels(output, question)
    return bool(labels) and fold_label(text) not in map(fold_label, labels)


def possible_labels(output: Output, question: str) -> tuple[str, ...]:
    """Return the labels of an output, or else those that the question names; empty for outputs that are not
    labels."""
    return tuple(output.names or options(question)) if isinstance(output, Label) else ()


def options(question: str) -> tuple[str, ...]:
    """Return the options at the end of a question: `Who? Bob or Charlie?`, `-- yes, no, or maybe?`."""
    clause = _CLAUSE.split(question.strip().rstrip("?.! "))[-1]
    before, found, last = clause.rpartition(" or ")
    if not found:
        return ()
    first = [part.strip() for part in before.strip().rstrip(",").split(",")]
    if _ASKS_WHAT.match(first[0]) and len(first) > 1:
        first = first[1:]  # `Which is it, negative or positive?`
    elif _ASKS.match(first[0]):
        first[0] = first[0].split()[-1]  # `Is this review negative or positive?`
    found_all = (*first, last.strip())
    return found_all if all(found_all) else ()


def match_label(text: str, labels: Sequence[str]) -> str | None:
    """Return the label that makes up a text, ignoring case, punctuation and an article; None for any other
    text."""
    keys = _Keys.of(tuple(labels))
    return keys.find(keys.read(text)) if text.strip() else None


def find_label(text: str, labels: Sequence[str], question: str = "", finished: bool = True) -> str | None:
    """Return a text's label; None if the text has no label or several, or denies one.

    A label counts if it is a whole line, perhaps after a heading, or if it opens the first line. In a sentence it
    counts only if the first or the last line names no other label and denies nothing, and the text is `finished`,
    because a text that was cut off may have continued with the opposite.
    """
    keys = _Keys.of(tuple(labels))
    text = keys.read(text)
    if question and text.casefold().startswith(question.casefold()) and text[len(question) :].strip():
        text = text[len(question) :]
    lines = [line for line in lines_of(text) if not _UNCHECKED.match(line)]
    if not lines or not keys.labels:
        return None
    if whole := keys.find(text):
        return whole
    while len(lines) > 1 and is_remark(lines[-1]):
        lines.pop()
    stated = {label for line in lines if (label := keys.stated(line))}
    if not stated and (opening := keys.opening(lines[0])):
        stated = {opening, *filter(None, map(keys.opening, lines[1:]))}  # several if the options are listed
    for line in lines[1:] if stated else ():
        stated |= keys.corrections(line)
    if not stated and finished:
        stated = {label for line in {lines[0], lines[-1]} if (label := keys.named(line))}
    return stated.pop() if len(stated) == 1 else None


_ARTICLE = re.compile(r"^(?:(?:an?|the)\s+)+")


@dataclass(frozen=True)
class _Keys:
    """Labels by their normalized spelling, which keeps the signs and marks that distinguish labels: `-1` and
    `1`, `C++`."""

    labels: Mapping[str, str]
    """The labels by their keys; the words of a label may be joined, as in `very-positive` and `VERY_POSITIVE`."""
    exact: frozenset[str]
    """All labels, exactly as written."""
    marks: str
    """Marks at the ends of labels that distinguish some of them."""

    @classmethod
    @lru_cache(256)
    def of(cls, labels: tuple[str, ...]) -> _Keys:
        given = [label for label in dict.fromkeys(labels) if label.strip()]
        counts = Counter(map(_key, given))
        alike = [label for label in given if counts[_key(label)] > 1]
        ends = (end for label in alike for end in _ENDS_OF_LABEL.findall(label))
        marks = "".join(sorted({mark for end in ends for mark in end if not mark.isspace()}))
        counts = Counter(_key(label, marks) for label in given)
        # Labels that are still alike, such as `an A` and `the A`, count only letter by letter.
        keys = {key: label for label in given if counts[key := _key(label, marks)] == 1}
        joined = {key.replace(" ", mark): label for key, label in keys.items() if " " in key for mark in "-_"}
        return cls({**joined, **keys}, frozenset(given), marks)

    @property
    def _known(self) -> list[str]:
        return [_key(label, self.marks) for label in dict.fromkeys(self.labels.values())]

    def _mentions(self, text: str, ending: str = r"(?![\w-]|['\u2019]\w)") -> list[re.Match[str]]:
        return list(_pattern(tuple(self._known), ending).finditer(text))

    def stated(self, line: str) -> str | None:
        """Return the label that is a whole line, alone or after a heading: `Sentiment: positive`, `(B) neutral`."""
        rest = line
        if head := _HEAD.match(line):
            rest = line[head.end() :] if not self._mentions(head.group()) else line
        elif option := _OPTION.match(line):
            rest = line[option.end() :]
        return self.find(line) or (self.find(rest) if rest.strip() else None)

    def opening(self, line: str) -> str | None:
        """Return the label at the start of a line, followed by punctuation; other labels may follow only in an
        explanation."""
        first = line.lstrip(_AROUND)
        mentions = self._mentions(first[:_LONGEST])
        if not mentions or mentions[0].start():
            return None
        rest = first[mentions[0].end() :].lstrip("*_`\"'\u201d")
        keys = [_key(each.group(), self.marks) for each in mentions]
        is_alone = len(set(keys)) == 1 or (_EXPLAINS.match(rest) and not _CORRECTS.search(rest))
        return self.labels[keys[0]] if is_alone and _ENDS.match(rest) and not _SCORED.match(rest) else None

    def corrections(self, line: str) -> set[str]:
        """Return the labels in a line in which a model changes its mind."""
        if len(line) > _LONGEST or not _CORRECTS.search(line):
            return set()
        return {self.labels[_key(each.group(), self.marks)] for each in self._mentions(line)}

    def named(self, line: str) -> str | None:
        """Return the only label that a sentence names, provided that nothing in it is denied or hypothetical."""
        if len(line) > _LONGEST or _DENIES.search(line):
            return None
        keys = {_key(each.group(), self.marks) for each in self._mentions(line, r"(?![\w-])")}
        if len(keys) != 1 or not self._mentions(line):  # `Bob's friend` is not Bob
            return None
        (key,) = keys
        return None if key in _WEAK else self.labels[key]

    def read(self, text: str) -> str:
        """Return a text with an ASCII minus sign, if labels are distinguished by the sign."""
        return text.replace("\u2212", "-") if "-" in self.marks else text

    def find(self, text: str) -> str | None:
        """Return the label that a text consists of; None if it is not a label."""
        stripped = text.strip()
        if _NEGATIVE.match(stripped) and stripped not in self.exact:
            return None
        return stripped if stripped in self.exact else self.labels.get(_key(text, self.marks))


_NEGATIVE = re.compile(r"[*_`\"'(]*[-\u2212]\d")
"""`-1`, as opposed to the label 1."""
_ENDS_OF_LABEL = re.compile(r"^[\W_]+|[\W_]+$")


@lru_cache(256)
def _words(marks: str) -> re.Pattern[str]:
    """Return the pattern of a text within surrounding marks; `marks` are part of the text itself."""
    word = rf"(?:[^\W_]|[{re.escape(marks)}])" if marks else r"[^\W_]"
    return re.compile(rf"{word}(?:.*{word})?", re.DOTALL)


def _key(text: str, marks: str = "") -> str:
    """Normalize a label: ignore case, articles and surrounding marks other than the given ones."""
    if marks:
        text = _BULLET.sub("", text)
    words = _words(marks).search(text)
    return _ARTICLE.sub("", " ".join(words.group().casefold().split())) if words else text.strip()


_BULLET = re.compile(r"^\s*[-*+•]\s+")


_NO_DECIMALS = r"(?!(?<=\d)(?!\.0+(?!\d))[.,:/]\d)"
"""What follows a number that is a label: `3.5`, `3,000` and `3/10` are other numbers, but `3.0` is 3."""


@lru_cache(256)
def _pattern(keys: tuple[str, ...], ending: str = r"(?![\w-]|['\u2019]\w)") -> re.Pattern[str]:
    longest_first = sorted(keys, key=len, reverse=True)
    words = "|".join(re.escape(label).replace(r"\ ", r"\s+") for label in longest_first)
    return re.compile(rf"(?<![\w\u2212-])(?!(?<=\d[.,:/])\d)({words}){ending}{_NO_DECIMALS}", re.IGNORECASE)


_LONGEST = 10_000
"""Longer lines are skipped, because reading all their mentions of labels would take minutes."""
_AROUND = "*_`\"'\u201c\u201d\u2018\u2019 "
_DENIES = re.compile(
    r"\b(?:not|no|never|neither|nor|without|nothing|none|cannot|hardly|rather|instead|unless|if|whether|while|although"
    r"|would|could|should|might|may|must|lacks?|lacking|fails?|failed|refus\w+|despite|word|words|phrase|far|first"
    r"|seems?|initially|hard|difficult|want\w*|hop\w+|expect\w*|suppos\w+|less|anything|ruled?)\b|n['\u2019]t\b|\?",
    re.IGNORECASE,
)
"""Words after which a sentence may mean the opposite of the label that it names."""
_ENDS = re.compile(r"\s*(?:[!;)\]\n]|[.:](?!\d)|\.0+(?![.,]?\d)|[–—-]\s|,(?!\d|\s*(?:or|and)\b)|$)")
_EXPLAINS = re.compile(
    r"\s*(?:[.!;:)\n]|[–—-]\s|,\s(?:because|since|as|given|so|not|rather)\b)", re.IGNORECASE
)
_CORRECTS = re.compile(
    r"\b(?:wait|actually|instead|but|however|correct\w*|final\w*|therefore|overall)\b", re.IGNORECASE
)
_SCORED = re.compile(r"\s*[:=–—-]\s*(?:no\b|not\b|false\b|yes\b|true\b|[\d.]+)", re.IGNORECASE)
_HEAD = re.compile(r"\W*[^\W\d_]+(?:[ _][^\W\d_]+){0,3}(?:[ ]\([^()]*\))?[*_\"'`]*\s{0,3}[:=\uff1a]\s*")
_UNCHECKED = re.compile(r"[-*\s]*\[\s?\]\s")
"""An unticked box of a list."""
_OPTION = re.compile(r"\W*(?:option\s+)?(?:[A-Ea-e]|\d)\s*[).:–-]\W*\s", re.IGNORECASE)
_WEAK = frozenset({"yes", "no", "maybe", "true", "false", "unknown", "a", "i"})
"""Labels that are everyday words, so that no sentence can be taken to name them."""
