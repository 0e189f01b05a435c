"""Find the example that a foreign row is about, by the texts that both carry.

Other programs tokenize, lower-case, escape, cut and join texts, and put prompts around them. So a text is compared as a
set of words and of pairs of neighbouring words. Case, punctuation, accents and spaces are ignored. Rare words weigh
more: the logarithm of all examples over the examples that have the word.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest
from itertools import pairwise
from statistics import median
from typing import NamedTuple

__all__ = ["ComparedTexts", "Difference", "ExampleTexts", "RowWords", "TextMatcher", "letters_of"]

_COPIED, _COPIES = 0.5, 0.8
"""The minimum share of a text, by weight, in any copy and in most copies. Other texts share less than a third."""
_COMPLETE = 0.97
"""The share of a text from which a row counts as holding the whole text."""
_MARGIN, _MARGIN_SHARE = 2.0, 0.02
"""The extra weight that another example must explain to be nearer: a third of a rare word's, and a share of all."""
_EXPLAINED = 0.7
"""The share of a row that its example explains. The rest can be titles or similar, but not another example."""
_FEW, _TEMPLATE = 5, 0.9
"""The share of rows that have a word of the template around the texts, and the number of rows that show it."""
_PROSE = 3
"""The number of words that distinguish a text from a label, a number or a time."""
_RARE, _MOST_PLACES, _NEAR, _MOST_NEAR = 30, 500, 8, 40
"""The number of words to search by, of examples that may have each word, and of examples to compare."""
_MOST_WORDS = 1_500_000
"""The number of a split's words that are compared. Beyond that, a fixed share is used."""


class ExampleTexts(NamedTuple):
    """The texts of an example that another program may have copied."""

    question: str
    """The question."""
    context: str
    """The context."""
    answers: tuple[str, ...] = ()
    """The references, which some programs write next to the answers."""


@dataclass(frozen=True)
class RowWords:
    """The words of a row, and pairs of neighbours."""

    texts: tuple[str, ...]
    """The row's texts."""
    parts: tuple[frozenset[str], ...]
    """The words of each text, without those of the template."""
    all: frozenset[str]
    """All words, those of the template included."""
    known: frozenset[str]
    """The words, without those of the template, that some example has."""
    is_prose: bool
    """Whether the row has words besides the template and numbers."""

    @cached_property
    def letters(self) -> list[str]:
        """The letters of each text that has any."""
        return list(filter(None, map(letters_of, self.texts)))


@dataclass(frozen=True)
class Difference:
    """A row whose texts differ from its example's."""

    row: int
    """The number of the row, from 0."""
    says: str
    """The text of the row, from shortly before the first words that the example lacks."""
    expected: str
    """The text of the example, from shortly before the first words that the row lacks."""
    other: int | None
    """The number of the example whose texts the row has, from 0; None if no example has them."""


@dataclass(frozen=True)
class ComparedTexts:
    """The result of a comparison."""

    differences: tuple[Difference, ...]
    """The rows whose texts differ from their examples."""
    are_copies: bool
    """Whether most rows have texts of their examples rather than only numbers or labels."""


class TextMatcher:
    """The texts of a split, by their words."""

    def __init__(self, examples: Sequence[ExampleTexts]) -> None:
        self._examples = examples
        size = sum(len(text) for question, context, _ in examples for text in (question, context))
        self._every = 1 + size // (6 * _MOST_WORDS)
        self._words_of: dict[str, frozenset[str]] = {}
        self._varied = [len({example[at] for example in examples}) > 1 for at in (0, 1)]
        counts = Counter(word for number in range(len(examples)) for word in self._of(number))
        self._rarest = math.log(len(examples) + 1)
        self._weights = {word: self._rarest - math.log(count) for word, count in counts.items()}

    def read(self, rows: Mapping[int, Sequence[str]]) -> dict[int, RowWords]:
        """Return the words of each row that has a text, by the number of the row."""
        read = {
            number: [words for words in map(self._words, texts) if any(map(str.isalpha, words))]
            for number, texts in rows.items()
        }
        joined = {number: frozenset[str]().union(*parts) for number, parts in read.items()}
        template: set[str] = set()
        if len(rows) >= _FEW:
            counts = Counter(word for words in joined.values() for word in words if " " not in word)
            template = {word for word, count in counts.items() if count > _TEMPLATE * len(rows)}
        found = {}
        for number, parts in read.items():
            own = [frozenset(word for word in part if template.isdisjoint(word.split())) for part in parts]
            kept = frozenset[str]().union(*own)
            is_text = any(map(_is_prose, parts)) or any(
                letters_of(text) in self._spelt for text in rows[number]
            )
            if kept and is_text:
                known = frozenset(word for word in kept if word in self._weights)
                is_prose = any(
                    _is_prose(part) and any(map(str.isalpha, left))
                    for part, left in zip(parts, own, strict=True)
                )
                found[number] = RowWords(tuple(rows[number]), tuple(own), joined[number], known, is_prose)
        return found

    def compare(self, rows: Mapping[int, RowWords], places: Mapping[int, int]) -> ComparedTexts:
        """Compare rows with their examples, whose numbers are in `places`."""
        fits = {number: self._fit(words, places[number]) for number, words in rows.items()}
        nearer = {number: self._nearer(words, places[number]) for number, words in rows.items()}
        are_copies = bool(fits) and median(fits.values()) >= _COPIES
        least = _COPIED if are_copies else _COPIES
        differences = [
            self._difference(number, words, places[number], nearer[number])
            for number, words in rows.items()
            if nearer[number] or (words.is_prose and fits[number] < least)
        ]
        return ComparedTexts(tuple(differences), are_copies)

    def find(self, rows: Mapping[int, RowWords]) -> dict[int, list[int]]:
        """Return the examples whose texts each row has: none, or several if they have the same texts."""
        return {
            number: sorted(
                {
                    twin
                    for example in self._equal(words) or self._contained(words) or self._alike(words)
                    for twin in self._twins[self._key(example)]
                }
            )
            for number, words in rows.items()
        }

    def _equal(self, words: RowWords) -> list[int]:
        """Return the examples that share most of their texts with the row."""
        counts = Counter(example for text in set(words.letters) for example in self._spelt.get(text, ()))
        most = max(counts.values(), default=0)
        return [example for example, count in counts.items() if count == most]

    def _contained(self, words: RowWords) -> list[int]:
        """Return the examples whose texts are in the row. If one contains another, only the longest counts."""
        near = [example for example, _ in self._nearest(words) if self._is_verbatim(words, example)]
        first = self._of(near[0]) if near else frozenset[str]()
        margin = self._margin(words)
        left = self._weight(words.known - first) > (1 - _EXPLAINED) * self._weight(words.known)
        beside = [each for each in near[1:] if self._weight((words.known & self._of(each)) - first) > margin]
        return [] if left and not beside else near[:1] + beside

    def _alike(self, words: RowWords) -> list[int]:
        """Return the examples that explain most of the row, if that is nearly all of it and more than a few words."""
        whole = self._weight(words.known)
        near = [
            (example, weight)
            for example, weight in self._nearest(words)
            if weight >= _EXPLAINED * whole and self._fit(words, example) >= _COPIES
        ]
        least = near[0][1] - self._margin(words) if near and whole > _FEW * self._rarest else math.inf
        return [example for example, weight in near if weight >= least]

    # Words and their weights

    def _words(self, text: str) -> frozenset[str]:
        if (found := self._words_of.get(text)) is None:
            words = _split(text)
            found = frozenset(words).union(map(" ".join, pairwise(words)))
            if self._every > 1:
                found = frozenset(word for word in found if zlib.crc32(word.encode()) % self._every == 0)
            self._words_of[text] = found
        return found

    def _of(self, example: int) -> frozenset[str]:
        question, context, answers = self._examples[example]
        return self._words(question).union(self._words(context), *map(self._words, answers))

    def _weight(self, words: Iterable[str]) -> float:
        weights, rarest = self._weights, self._rarest
        return sum([weights.get(word, rarest) for word in words])

    def _varied_texts(self, example: int) -> list[str]:
        """Return the question and the context, without one that all examples share."""
        texts = self._examples[example][:2]
        return [text for text, varied in zip(texts, self._varied, strict=True) if varied]

    # How well a row fits an example

    def _fit(self, words: RowWords, example: int) -> float:
        """Return the share of the example's text that is in the row, or of the row's text that is in the example."""
        carried = max(self._carried(words, example, 2 * self._rarest), default=0.0)
        if carried >= _COMPLETE:
            return carried
        own = self._of(example)
        parts = [[word for word in part if " " not in word] for part in words.parts]
        weights = [self._weight(part) for part in parts]
        least = 0.4 * max(weights, default=0.0)  # a title or a label is weak evidence
        shares = [
            self._weight(own.intersection(part)) / weight
            for part, weight in zip(parts, weights, strict=True)
            if weight and weight >= least
        ]
        fit = max([carried, *shares])
        return fit if fit >= _COPIED or not self._is_spelt_alike(words, example) else 1.0

    def _carried(self, words: RowWords, example: int, least: float = 0.0) -> list[float]:
        """Return how much of the question and the context the row has, if that distinguishes examples."""
        shares = []
        for part in map(self._words, self._varied_texts(example)):
            if (weight := self._weight(part)) > least:
                shares.append(self._weight(part & words.all) / weight)
        return shares

    def _is_complete(self, words: RowWords, example: int) -> bool:
        carried = self._carried(words, example)
        return min(carried, default=0.0) >= _COMPLETE or self._is_verbatim(words, example)

    def _is_spelt_alike(self, words: RowWords, example: int) -> bool:
        """Return whether a text of one is in a text of the other, letter by letter, wherever words end."""
        own = list(filter(None, map(letters_of, self._varied_texts(example))))
        return any(mine in theirs or theirs in mine for mine in own for theirs in words.letters)

    def _is_verbatim(self, words: RowWords, example: int) -> bool:
        """Return whether the row has the question and the context, letter by letter."""
        own = list(map(letters_of, self._varied_texts(example)))
        return all(any(mine in theirs for theirs in words.letters) for mine in own) and any(own)

    # Other examples

    def _margin(self, words: RowWords) -> float:
        return max(_MARGIN, _MARGIN_SHARE * self._weight(words.known))

    def _nearer(self, words: RowWords, example: int) -> list[int]:
        """Return the examples that fit the row better, the nearest first.

        If the row holds the whole text of its own example, the other examples must contain that text, because a prompt
        may also hold worked examples.
        """
        if example in self._equal(words):
            return []
        own = words.known & self._of(example)
        shared, margin = self._weight(own), self._margin(words)
        is_complete = self._is_complete(words, example)
        if is_complete and self._weight(words.known - own) <= margin:
            return []
        return [
            other
            for other, weight in self._nearest(words)
            if weight >= shared
            and ((weight > shared + margin and words.is_prose) or self._is_verbatim(words, other))
            and not (is_complete and (weight <= shared + margin or own - self._of(other)))
            and self._key(other) != self._key(example)
        ]

    def _nearest(self, words: RowWords) -> list[tuple[int, float]]:
        """Return the examples that explain most of a row, each with the weight that it explains."""
        votes: dict[int, float] = defaultdict(float)
        for word in sorted(words.known, key=lambda word: (-self._weights[word], word))[:_RARE]:
            if len(places := self._places[word]) <= _MOST_PLACES:
                for place in places:
                    votes[place] += 1 + self._weights[word]
        ranked = nlargest(_MOST_NEAR, votes.items(), key=lambda pair: (pair[1], -pair[0]))
        least = ranked[min(_NEAR, len(ranked)) - 1][1] if ranked else 0.0
        near = [
            (example, self._weight(words.known & self._of(example)))
            for example, vote in ranked
            if vote >= least
        ]
        return sorted(near, key=lambda pair: -pair[1])

    @cached_property
    def _places(self) -> Mapping[str, list[int]]:
        """The examples that have each word."""
        places = defaultdict(list)
        for number in range(len(self._examples)):
            for word in self._of(number):
                places[word].append(number)
        return places

    def _key(self, example: int) -> tuple[str, ...]:
        return tuple(map(letters_of, self._examples[example][:2]))

    @cached_property
    def _spelt(self) -> Mapping[str, list[int]]:
        """The examples that have each text, letter by letter."""
        spelt = defaultdict(list)
        for number in range(len(self._examples)):
            for text in set(map(letters_of, self._varied_texts(number))):
                spelt[text].append(number)
        return spelt

    @cached_property
    def _twins(self) -> Mapping[tuple[str, ...], list[int]]:
        """The examples that have the same texts, letter by letter."""
        twins = defaultdict(list)
        for number in range(len(self._examples)):
            twins[self._key(number)].append(number)
        return twins

    def _difference(self, row: int, words: RowWords, example: int, nearer: Sequence[int]) -> Difference:
        own = self._of(example)
        says = max(words.texts, key=lambda text: self._weight(self._words(text) - own))
        texts = self._varied_texts(example) or [self._examples[example].context]
        expected = max(texts, key=lambda text: self._weight(self._words(text) - words.all))
        return Difference(
            row, _from_news(says, own), _from_news(expected, words.all), nearer[0] if nearer else None
        )


_WORD = re.compile(
    r"[\u0e00-\u0eff\u2e80-\u9fff\uf900-\ufaff]|[^\W_\u0e00-\u0eff\u2e80-\u9fff\uf900-\ufaff]+"
)
"""A character of a script that has no spaces, or a run of letters and digits."""
_SUFFIX = re.compile(r"\s*(n?)\s*['\u2019`]\s*(s|t|re|ve|ll|d|m)\b")
"""Endings that tokenizers split off: `do n't`, `it 's`."""


def _split(text: str) -> list[str]:
    if "&" in text:
        text = html.unescape(text)
    text = _SUFFIX.sub(r"\1\2", text.casefold())
    return _WORD.findall(text if text.isascii() else unicodedata.normalize("NFKD", text))


def letters_of(text: str) -> str:
    """Return the letters and digits of a text, without case, accents and spaces."""
    return "".join(_split(text))


def _is_prose(words: Iterable[str]) -> bool:
    return sum(word.isalpha() for word in words) >= _PROSE


def _from_news(text: str, known: frozenset[str]) -> str:
    """Return a text from shortly before its first word that is not known."""
    for found in _WORD.finditer(text):
        if not known.issuperset(_split(found[0])):
            start = text.rfind(" ", 0, max(0, found.start() - 20)) + 1
            return text if start < 20 else f"…{text[start:]}"
    return text
