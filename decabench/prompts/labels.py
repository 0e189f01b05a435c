"""Labels: the options of a question, a text's label, and the forms of labels in texts."""

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
    if form.labels and all(_pattern([_key(label)]).search(question) for label in form.labels):
        return form.labels
    return options(question) or form.labels


def is_other_label(text: str, output: Output, question: str) -> bool:
    """Return whether an answer in the dataset's own words is not a possible label, ignoring case and spaces.

    An output without labels of its own takes those that the question names. False for outputs that are not labels.
    """
    labels = possible_labels(output, question)
    return bool(labels) and fold_label(text) not in map(fold_label, labels)


def possible_labels(output: Output, question: str) -> tuple[str, ...]:
    """Return the labels of an output, or those that the question names; none for outputs that are not labels."""
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
    """Return the label that a text consists of, ignoring case, punctuation and an article; None if it is another."""
    keys = _Keys.of(tuple(labels))
    return keys.find(keys.read(text)) if text.strip() else None


def find_label(text: str, labels: Sequence[str], question: str = "", finished: bool = True) -> str | None:
    """Return a text's label; None if the text has no label or several, or denies it.

    A label on its own counts anywhere, and so does a label that opens the text. In a sentence it counts only if the
    sentence asserts it and the text is `finished`, because a text that was cut off may have continued with the
    opposite.
    """
    keys = _Keys.of(tuple(labels))
    by_key, text = keys.labels, keys.read(text)
    if question and text.casefold().startswith(question.casefold()) and text[len(question) :].strip():
        text = text[len(question) :]
    lines = [line for line in lines_of(text) if not _UNCHECKED.match(line)]
    if not lines or not by_key:
        return None
    if whole := keys.find(text):
        return whole
    while len(lines) > 1 and is_remark(lines[-1]):
        lines.pop()
    reading = _Reading(keys)
    stated = {label for line in lines if (label := reading.stated(line))}
    if not stated and not reading.lists_options(lines) and (opening := reading.opening(lines)):
        stated = {opening}
    if stated:
        stated |= reading.corrections(lines[1:] if len(lines) > 1 else [])
        return stated.pop() if len(stated) == 1 else None
    if not finished:
        return None
    found = {reading.asserted(line) for line in {lines[0], lines[-1]}} - {None}
    if not found and not reading.names_any(text):
        found = {by_key.get(label) for label in _relations(text)} - {None}
    return found.pop() if len(found) == 1 else None


_RELATES = re.compile(r"(?:\b(?:un)?|-)(entail|contradict)\w*", re.IGNORECASE)
_PREMISE = r"(?:(?:so|therefore|thus|hence|yes),? )?the premise (?:(?:clearly|directly|strongly) )?"
_HYPOTHESIS = r"(?:(?:so|therefore|thus|hence),? )?the hypothesis (?:(?:clearly|directly|strongly) )?"
_IS = r"(?:is )?(?:(?:clearly|directly|strongly) )?"
_RELATION = re.compile(
    rf"[*_\"'`]*(?:(?:entailed|contradict(?:ory|ed|s))|{_PREMISE}(?:entails|contradicts) the hypothesis"
    rf"|{_HYPOTHESIS}(?:{_IS}entailed(?: by the premise)?|contradicts the premise"
    rf"|{_IS}contradict(?:ed by|ory to) the premise))[*_\"'`]*",
    re.IGNORECASE,
)


def _relations(text: str) -> set[str]:
    """Return the label of a plain sentence such as `The premise entails the hypothesis.`, unless others discuss it
    too."""
    sentences = [sentence.strip() for sentence in re.split(r"[.!;\n]", text)]
    said = [sentence for sentence in sentences if _RELATES.search(sentence)]
    if not all(_RELATION.fullmatch(sentence) for sentence in said):
        return set()
    stems = {stem.casefold() for sentence in said for stem in _RELATES.findall(sentence)}
    found = {{"entail": "entailment", "contradict": "contradiction"}[stem] for stem in stems}
    return found if len(found) == 1 else set()


_ARTICLE = re.compile(r"^(?:(?:an?|the)\s+)+")


@dataclass(frozen=True)
class _Keys:
    """Labels by their normalized spelling, which keeps signs and marks that distinguish labels: `-1` and `1`, `C++`."""

    labels: Mapping[str, str]
    """The labels by their keys; words of one may be joined, as in `very-positive` and `VERY_POSITIVE`."""
    exact: frozenset[str]
    """All labels, letter by letter."""
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

    def key(self, text: str) -> str:
        """Normalize a text like the spellings of a label."""
        return _key(text, self.marks)

    def read(self, text: str) -> str:
        """Return a text with an ASCII minus sign if the sign distinguishes labels."""
        return text.replace("\u2212", "-") if "-" in self.marks else text

    def find(self, text: str) -> str | None:
        """Return the label that a text consists of; None if it is not a label."""
        stripped = text.strip()
        if _NEGATIVE.match(stripped) and stripped not in self.exact:
            return None
        return stripped if stripped in self.exact else self.labels.get(self.key(text))


_NEGATIVE = re.compile(r"[*_`\"'(]*[-\u2212]\d")
"""`-1`, which is not the label 1."""
_ENDS_OF_LABEL = re.compile(r"^[\W_]+|[\W_]+$")


@lru_cache(256)
def _words(marks: str) -> re.Pattern[str]:
    """Return the pattern of a text inside surrounding marks, where `marks` belong to the text."""
    word = rf"(?:[^\W_]|[{re.escape(marks)}])" if marks else r"[^\W_]"
    return re.compile(rf"{word}(?:.*{word})?", re.DOTALL)


def _key(text: str, marks: str = "") -> str:
    """Normalize a label: no case, no surrounding marks except the given ones, no article."""
    if marks:
        text = _BULLET.sub("", text)
    words = _words(marks).search(text)
    return _ARTICLE.sub("", " ".join(words.group().casefold().split())) if words else text.strip()


_BULLET = re.compile(r"^\s*[-*+•]\s+")


_NO_DECIMALS = r"(?!(?<=\d)(?!\.0+(?!\d))[.,:/]\d)"
"""After a label that is a number: `3.5`, `3,000` and `3/10` are other numbers, but `3.0` is 3."""


def _pattern(keys: Sequence[str], ending: str = r"(?![\w-]|['\u2019]\w)") -> re.Pattern[str]:
    longest_first = sorted(keys, key=len, reverse=True)
    words = "|".join(re.escape(label).replace(r"\ ", r"\s+") for label in longest_first)
    return re.compile(rf"(?<![\w\u2212-])(?!(?<=\d[.,:/])\d)({words}){ending}{_NO_DECIMALS}", re.IGNORECASE)


_BEFORE = 120
"""Characters before a label that are searched for a denial."""
_AFTER = 200
"""Characters after a label that are read."""
_LONGEST = 10_000
"""Longer lines assert no label, because reading all their mentions of labels would take minutes."""
_AROUND = "*_`\"'\u201c\u201d\u2018\u2019 "
_SPACE = r"[\s,\"'\u201c\u2018*_`(]+"
_DENIES = re.compile(
    r"(?:\b(?:not(?! only\b| just\b| merely\b)|no(?! doubt\b| question\b)|never|neither|nor|without(?! (?:a )?doubt\b)"
    r"|nothing|nobody|none|less|(?:would|could|might|may)(?: not)? (?:be|have been)"
    r"|cannot|hardly|scarcely|rather than|instead of|far from|anything but|lack(?:s|ing)?|fail(?:s|ed)?"
    r"|absence of|if|whether|unless|while|although|at first|initially|seemingly|considered|rul(?:es?|ed|ing) out"
    r"|(?:hard|difficult) to|want(?:s|ed)?|hope[sd]?|expect(?:s|ed)?|supposed)"
    rf"|n['\u2019]t(?! only\b| just\b| merely\b)){_SPACE}(?:[\w'\u2019-]+{_SPACE}){{0,8}}$",
    re.IGNORECASE,
)
_SUPPOSES = re.compile(rf"\bfor(?: it to be)?(?: an?| the)?{_SPACE}$", re.IGNORECASE)
_DENIED_AFTER = re.compile(
    r"\s*(?:would|could|should|must|needs?|requires?|can['\u2019]?t|cannot|does(?:n['\u2019]t| not)"
    r"|only (?:if|with|when)"
    r"|is(?:n['\u2019]t| not| wrong| incorrect| false| ruled| unlikely| impossible| out of the)\b"
    r"|\?)",
    re.IGNORECASE,
)
_CONTRASTS = re.compile(
    r"(?:(?:[,;.(\u2013\u2014]|\band|\bbut)\s*(?:(?:it|this|that)(?:['\u2019]s| is) )?(?:and |but )?not"
    r"|[;.,]\s+(?:it|this|that) isn['\u2019]t|[,(]\s*no|\brather than|\binstead of|\bas opposed to)"
    rf"(?:{_SPACE}(?:an?|the))?{_SPACE}$",
    re.IGNORECASE,
)
"""Text right before a label that is only contrasted with the answer: `Bob, not Charlie`."""
_SAYS_SO = re.compile(
    rf"(?:\b(?:it['\u2019]s|it is|answer is)|[:;.!]){_SPACE}(?:(?:an?|the){_SPACE})?$", re.IGNORECASE
)
_ENDS = re.compile(r"\s*(?:[!;)\]\n]|[.:](?!\d)|\.0+(?![.,]?\d)|[–—-]\s|,(?!\d|\s*(?:or|and)\b)|$)")
_SCORED = re.compile(r"\s*[:=–—-]\s*(?:no\b|not\b|false\b|yes\b|true\b|[\d.]+)", re.IGNORECASE)
_HEAD = re.compile(r"\W*[^\W\d_]+(?:[ _][^\W\d_]+){0,3}(?:[ ]\([^()]*\))?[*_\"'`]*\s{0,3}[:=\uff1a]\s*")
_CORRECTS = re.compile(
    r"\b(?:wait|actually|on second thought|correction|scratch that|or rather|instead|therefore|thus|hence"
    r"|final(?:ly)?|in conclusion|overall|should be|must be|correct answer|changed? my)\b",
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    r",(?!\s*(?:because|since|as|given|for|so|not|rather|instead|though|although|while|whereas|which|and not"
    r"|it|this|the)\b)",
    re.IGNORECASE,
)
"""A comma after the first words of a sentence that only begins with a label: `Bob, having lost to Charlie, left`."""
_IS_WORD = re.compile(
    r"\s+(?!(?:is|was|are|would|should|could|can|must|seems?|looks?|and|or|but|because|since|as|for|than)\b)[^\W_A-Z]"
)
"""Text that follows an article or a pronoun, but not a label that is a letter: `A dog`, `I think`."""
_STARTS = re.compile(r"(?:^|[.!?:,;(])[*_`\"'\s]*$")
_WEAK = frozenset({"yes", "no", "maybe", "true", "false", "unknown"})
"""Labels that are everyday words: in a sentence they count only if the sentence names them as the answer."""


class _Reading:
    """Reads lines for one set of labels."""

    def __init__(self, keys: _Keys) -> None:
        self._by_key = keys.labels
        self._key = keys.key
        self._find = keys.find
        known = [keys.key(label) for label in dict.fromkeys(keys.labels.values())]
        self._label = _pattern(known)
        self._inflected = _pattern(known, r"(?:['\u2019]s|s['\u2019]?)(?!\w)")

    def stated(self, line: str) -> str | None:
        """Return the label that is a whole line, alone or after a heading: `Sentiment: positive`, `(B) neutral`."""
        rest = line
        if head := _HEAD.match(line):
            rest = line[head.end() :] if not self._label.search(head.group()) else line
        elif option := _OPTION.match(line):
            rest = line[option.end() :]
        return self._find(line) or (self._find(rest) if rest.strip() else None)

    def opening(self, lines: Sequence[str]) -> str | None:
        """Return the label that opens the first line and is followed by punctuation."""
        first = lines[0].lstrip(_AROUND)
        match = self._label.match(first)
        if match is None:
            return None
        rest = first[match.end() :].lstrip("*_`\"'\u201d")
        if (
            not _ENDS.match(rest)
            or self._label.match(rest.lstrip("*_`\"'\u201d,.;: "))
            or _SCORED.match(rest)
        ):
            return None
        if self._others(rest, match.group()) and (_CORRECTS.search(rest) or _GOES_ON.match(rest)):
            return None
        return self._by_key[self._key(match.group())]

    def lists_options(self, lines: Sequence[str]) -> bool:
        """Return whether lines repeat the options with their letters or numbers: `A. Paris`, `B. Rome`."""
        found = {label for line in lines if (label := self.opening([line]))}
        return len(found) > 1 and all(len(label) <= 2 for label in found)

    def names_any(self, text: str) -> bool:
        return bool(self._label.search(text))

    def _others(self, text: str, label: str) -> bool:
        return any(self._key(match.group()) != self._key(label) for match in self._label.finditer(text))

    def corrections(self, lines: Sequence[str]) -> set[str]:
        """Return the labels that later lines conclude with, as when a model changes its mind."""
        return {label for line in lines if _CORRECTS.search(line) and (label := self.asserted(line))}

    def asserted(self, line: str) -> str | None:
        """Return the label of a line, if it asserts exactly one.

        Another label may be denied next to it, but only as `Bob, not Charlie` or `not Charlie; it is Bob`. In `Bob got
        no answer because Charlie was out` the denial is of something else, and a person would have to guess, as in
        `Bob knocked on Charlie's door`.
        """
        if len(line) > _LONGEST:
            return None
        found, denied, is_said = set[str](), False, False
        for match in self._label.finditer(line):
            before = line[max(0, match.start() - _BEFORE) : match.start()]
            key = self._key(match.group())
            if key in ("a", "i") and _is_a_word(line, match):
                continue
            after = line[match.end() : match.end() + _AFTER].lstrip("*_`\"'\u201d")
            if _DENIES.search(before) or _SUPPOSES.search(before) or _DENIED_AFTER.match(after):
                if found and not (_CONTRASTS.search(before) and self._by_key[key] not in found):
                    return None
                denied = True
            elif _SCORED.match(after):
                return None  # one of several labels with their scores
            elif key not in _WEAK or (match.start() == 0 and _ENDS.match(after)):
                found.add(self._by_key[key])
                says_so = bool(_SAYS_SO.search(before))
                if denied and not says_so:
                    return None
                is_said = is_said or says_so
        mentioned = found | {
            self._by_key[self._key(match.group(1))] for match in self._inflected.finditer(line)
        }
        return found.pop() if len(found) == 1 and (is_said or len(mentioned) == 1) else None


def _is_a_word(line: str, match: re.Match[str]) -> bool:
    """Return whether a letter is an article or a pronoun rather than a label: `A dog`, `it is a dog`."""
    starts = match.group().islower() or bool(_STARTS.search(line[: match.start()]))
    return starts and bool(_IS_WORD.match(line[match.end() :]))


_UNCHECKED = re.compile(r"[-*\s]*\[\s?\]\s")
"""A box of a list that is not ticked."""
_OPTION = re.compile(r"\W*(?:option\s+)?(?:[A-Ea-e]|\d)\s*[).:–-]\W*\s", re.IGNORECASE)
