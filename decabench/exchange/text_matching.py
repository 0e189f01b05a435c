"""Match rows to examples by the text they share.

Other programs tokenize, lower-case and escape text, and embed it in prompts. Comparisons therefore ignore
case, punctuation, accents and whitespace.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

_SHARED = 0.6
"""The fraction of long words that a row and an example must share to count as the same text."""
_KEY = 12
"""The number of letters at the beginning of a text that are used to look it up in a prompt."""


class ExampleTexts(NamedTuple):
    """The texts of an example, which another program may have copied."""

    question: str
    """The question."""
    context: str
    """The context."""
    answers: tuple[str, ...] = ()
    """The reference answers. Some programs write them next to the model's answers."""


@dataclass(frozen=True)
class RowTexts:
    """The texts of a row."""

    texts: tuple[str, ...]
    """The original texts."""
    letters: tuple[str, ...]
    """The letters of each text. Texts without letters are left out."""


@dataclass(frozen=True)
class Difference:
    """A row whose text differs from its example."""

    row: int
    """The row's index, counted from 0."""
    says: str
    """The row's longest text."""
    expected: str
    """The example's longest text."""
    other: int | None
    """The index of an example that has the row's text, counted from 0; None if there is none."""


class TextMatcher:
    """Finds the examples of a split by their text, ignoring case, punctuation and accents."""

    def __init__(self, examples: Sequence[ExampleTexts]) -> None:
        self._examples = examples
        self._varied = [len({example[at] for example in examples}) > 1 for at in (0, 1)]
        """Whether questions and contexts vary between examples.

        Text shared by all examples identifies none of them.
        """

    def read(self, rows: Mapping[int, Sequence[str]]) -> dict[int, RowTexts]:
        """Return the text of each row by row number.

        Rows that contain only labels and numbers are left out.
        """
        found = {}
        for number, texts in rows.items():
            letters = tuple(filter(None, map(letters_of, texts)))
            # A text with fewer words may be a label, a number or a time.
            has_prose = any(sum(map(str.isalpha, _split(text))) >= 3 for text in texts)
            if has_prose or any(text in self._spelt for text in letters):
                found[number] = RowTexts(tuple(texts), letters)
        return found

    def compare(
        self, rows: Mapping[int, RowTexts], places: Mapping[int, int]
    ) -> tuple[list[Difference], bool]:
        """Return the rows whose text differs from their example, and whether most rows contain their example's text.

        `places` maps each row's index to its example's index.
        """
        found = self.find(rows)
        fits = {number: self._fits(texts, places[number]) for number, texts in rows.items()}
        are_copies = 2 * sum(fits.values()) > len(fits)
        differences = []
        for number, row in rows.items():
            example, others = places[number], found[number]
            if example not in others and (others or not fits[number]):
                own = self._texts(example) or [self._examples[example].context]
                says, expected = max(row.texts, key=len), max(own, key=len)
                differences.append(Difference(number, says, expected, others[0] if others else None))
        return differences, are_copies

    def find(self, rows: Mapping[int, RowTexts]) -> dict[int, list[int]]:
        """Return the examples that match each row's text.

        A row matches several examples if they share their text. It may also match no example.
        """
        return {
            number: sorted(
                {
                    twin
                    for example in self._equal(row) or self._contained(row)
                    for twin in self._same[self._own[example]]
                }
            )
            for number, row in rows.items()
        }

    def _equal(self, row: RowTexts) -> list[int]:
        counts = Counter(example for text in set(row.letters) for example in self._spelt.get(text, ()))
        most = max(counts.values(), default=0)
        return [example for example, count in counts.items() if count == most]

    def _contained(self, row: RowTexts) -> list[int]:
        """Return examples whose text is contained in the row, or starts with the row's truncated text.

        If one of these examples contains another, only the longest is returned.
        """
        near = {
            example
            for text in row.letters
            for at in range(len(text) - _KEY + 1)
            for example in self._begins.get(text[at : at + _KEY], ())
        }
        held = [
            each
            for each in near
            if all(
                any(own in text or (len(text) > 4 * _KEY and own.startswith(text)) for text in row.letters)
                for own in self._own[each]
            )
        ]
        return [
            each
            for each in held
            if not any(
                self._own[other] != self._own[each]
                and all(any(own in text for text in self._own[other]) for own in self._own[each])
                for other in held
            )
        ]

    def _fits(self, row: RowTexts, example: int) -> bool:
        """Return whether the row and the example contain the same text, or share most of their long words.

        Sharing most words is enough because a text in the file may be truncated.
        """
        if any(mine in text or text in mine for mine in self._own[example] for text in row.letters):
            return True
        words = _long_words(row.texts)
        own = _long_words(self._texts(example))
        return len(words & own) > _SHARED * min(len(words), len(own))

    def _texts(self, example: int) -> list[str]:
        """Return the question and context, leaving out text shared by all examples."""
        question, context, _ = self._examples[example]
        return [text for text, varied in zip((question, context), self._varied, strict=True) if varied]

    @cached_property
    def _own(self) -> list[tuple[str, ...]]:
        numbers = range(len(self._examples))
        return [tuple(filter(None, map(letters_of, self._texts(number)))) for number in numbers]

    @cached_property
    def _spelt(self) -> Mapping[str, list[int]]:
        spelt = defaultdict(list)
        for number, texts in enumerate(self._own):
            for text in set(texts):
                spelt[text].append(number)
        return spelt

    @cached_property
    def _begins(self) -> Mapping[str, list[int]]:
        begins = defaultdict(list)
        for number, texts in enumerate(self._own):
            if len(longest := max(texts, key=len, default="")) >= _KEY:
                begins[longest[:_KEY]].append(number)
        return begins

    @cached_property
    def _same(self) -> Mapping[tuple[str, ...], list[int]]:
        same = defaultdict(list)
        for number, texts in enumerate(self._own):
            same[texts].append(number)
        return same


_WORD = re.compile(
    r"[\u0e00-\u0eff\u2e80-\u9fff\uf900-\ufaff]|[^\W_\u0e00-\u0eff\u2e80-\u9fff\uf900-\ufaff]+"
)
"""Matches a word: a run of letters and digits, or a single character in scripts without spaces between
words.
"""

_BRACKET = re.compile(r"-[lr][rcs]b-")
"""A bracket in treebank notation, such as `-LRB-`."""


def _split(text: str) -> list[str]:
    if "&" in text:
        text = html.unescape(text)
    text = _BRACKET.sub(" ", text.casefold())
    return _WORD.findall(text if text.isascii() else unicodedata.normalize("NFKD", text))


def letters_of(text: str) -> str:
    """Return the letters and digits of a text, without case, accents or spaces."""
    return "".join(_split(text))


def _long_words(texts: Sequence[str]) -> set[str]:
    return {word for text in texts for word in _split(text) if len(word) > 3}
