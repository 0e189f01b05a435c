"""Find tags, heads and numbers in a model's text, and align tags and heads with the words of the question."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from decabench.prompts.clutter import find_json, lines_of

__all__ = ["MISSING", "find_items", "find_number"]

MISSING = "_"
"""The item for a word that has none in the text."""

_MOST_EXTRA = 100
"""The number of items beyond the last word to keep for the metric, because a text may continue endlessly."""


def find_items(text: str, kind: str, names: Sequence[str], words: Sequence[str] = ()) -> str | None:
    """Return the tags (or the heads and relations, for `tree`) that a text gives to words: one for each, in order.

    Items are placed by the number or the word in front of them, or else by their order if there is one for each word. A
    word without an item gets `_`. Items beyond the last word and items outside `names` are kept for the metric to
    count. None if the text is not a sequence of items, or if the alignment is ambiguous.
    """
    reading = _Reading(kind, names, words)
    value = find_json(text)
    if isinstance(value, dict | list):
        found = reading.json(value)
    else:
        found = reading.lines(text) or reading.one_line(text)
    if not found or (
        reading.is_tree and 2 * sum(map(bool, map(_PARSED.fullmatch, found.values()))) < len(found)
    ):
        return None
    most = (len(words) or len(found)) + _MOST_EXTRA
    last = max((place for place in found if place <= most), default=0)
    return " ".join(found.get(place, MISSING) for place in range(1, last + 1)) or None


_Items = dict[int, str]
"""Items by the number of their word."""

_FULL_NAMES = {
    "adjective": "ADJ",
    "adposition": "ADP",
    "adverb": "ADV",
    "auxiliary": "AUX",
    "auxiliary verb": "AUX",
    "coordinating conjunction": "CCONJ",
    "determiner": "DET",
    "interjection": "INTJ",
    "noun": "NOUN",
    "numeral": "NUM",
    "particle": "PART",
    "preposition": "ADP",
    "pronoun": "PRON",
    "proper noun": "PROPN",
    "punctuation": "PUNCT",
    "subordinating conjunction": "SCONJ",
    "symbol": "SYM",
    "verb": "VERB",
}
"""The universal parts of speech as universaldependencies.org calls them, and two usual names."""

_NUMBERED = re.compile(r"[\s|*_`(\[-]*(\d{1,6})[.):\]*_`]{0,3}(?:\s*\|\s*|\s+)(\S.*)")
"""A line that begins with a number: `1 From ADP`, `1. From: ADP`, `| 1 | From | ADP |`."""
_HEAD = re.compile(r"(\d{1,6})\s*[:,|\s]\s*([A-Za-z_][\w:.-]*)")
_PARSED = re.compile(r"\d{1,6}:[A-Za-z_][\w:.-]*(?<!:)")
"""A head and its relation, well written."""
_INLINE = re.compile(r"(?<!\S)(\d{1,6})[.):]?\s+")
_KEYS = (
    ("word", "token", "form", "text"),
    ("id", "number", "index"),
    ("tag", "pos", "upos", "pos_tag", "label"),
    ("head",),
    ("relation", "deprel", "rel"),
)
"""Keys of an object about a word: the word, its number, its tag, its head and its relation."""
_AROUND = "*`\"'()[]|"
_CONLLU_CELLS = 9
"""Columns of a line of CoNLL-U after the number: form, lemma, UPOS, XPOS, features, head, relation and two more."""
_OPENS = " -*•`\"'()[]|_"
_BETWEEN = frozenset({"->", "=>", "→", "-", "–", "—", ":", "=", "|", "/", "is"})


class _Reading:
    """Reads texts about the words of one question."""

    def __init__(self, kind: str, names: Sequence[str], words: Sequence[str]) -> None:
        self.is_tree = kind == "tree"
        self.words = words
        self._names = {name.casefold(): name for name in names}
        if not self.is_tree and set(_FULL_NAMES.values()) <= set(names):
            self._names = {**_FULL_NAMES, **self._names}

    def lines(self, text: str) -> _Items | None:
        """Return the items of lines that begin with the number of a word, or with the words themselves, in order."""
        lines = lines_of(text)
        if heads := self._head_lines(lines):
            return heads
        if (rows := self._word_lines(lines)) and self._are_mostly_known(rows):
            return dict(enumerate(rows, 1))
        found: _Items = {}
        rests: dict[int, str] = {}
        for match in filter(None, map(_NUMBERED.match, lines)):
            number, rest = int(match[1]), match[2]
            if number > 0 and number not in found and (item := self.item(rest, number)):
                found[number], rests[number] = item, rest  # a second number 1 begins another example
        if len(found) > 1 or (found and len(self.words) == 1):
            return found
        # A single number may be a word: `15 – NUM`.
        return self._inline(text) or {
            n: item for n, item in found.items() if n == 1 or self._names_word(rests[n], n)
        }

    def _head_lines(self, lines: Sequence[str]) -> _Items | None:
        """Return heads and relations of a line for each word, `2: det`, if the numbers cannot be those of the words."""
        heads = [match for line in lines if (match := _HEAD.fullmatch(line.rstrip(",;")))]
        if not self.is_tree or not len(heads) == len(lines) == len(self.words):
            return None
        if [int(match[1]) for match in heads] == list(range(1, len(heads) + 1)):
            return None
        return {number: f"{match[1]}:{match[2]}" for number, match in enumerate(heads, 1)}

    def _word_lines(self, lines: Sequence[str]) -> list[str]:
        """Return the items of the last lines, one for each word and each after its word; none otherwise."""
        found = []
        last = lines[-len(self.words) :] if self.words else ()
        for word, line in zip(self.words, last, strict=False):
            begin = next((at for at in range(len(line)) if line.startswith(word, at)), -1)
            rest = line[begin + len(word) :].lstrip(_OPENS + ",:=/→>–—\t")
            if begin < 0 or line[:begin].strip(_OPENS) or not rest or not (item := self.item(rest, 0)):
                return []
            found.append(item)
        return found if len(found) == len(self.words) > 1 else []

    def _names_word(self, rest: str, number: int) -> bool:
        return number <= len(self.words) and rest.lstrip(_AROUND).startswith(self.words[number - 1])

    def _inline(self, text: str) -> _Items:
        """Return the items of `1 ADP 2 DET` on one line: each number must be the next."""
        starts: list[tuple[int, int]] = []
        for match in _INLINE.finditer(text):
            if int(match[1]) == len(starts) + 1:
                starts.append(match.span())
        ends = [*(start for start, _ in starts[1:]), len(text)]
        found: _Items = {}
        for number, ((_, begin), end) in enumerate(zip(starts, ends, strict=False), 1):
            if item := self.item(text[begin:end].strip().rstrip(",;"), number):
                found[number] = item
        return found if len(found) > 1 else {}

    def one_line(self, text: str) -> _Items | None:
        """Return the items of a line, or an item a line, without numbers, if there is one for each word.

        A single line may have too few or too many items; with several lines the alignment would be ambiguous.
        """
        rows = [[cell.rstrip(",;") or cell for cell in line.strip("[]").split()] for line in lines_of(text)]
        sequences = [row for row in rows if self._is_sequence(row)]
        together, apart = ([cell for row in each for cell in row] for each in (rows, sequences))
        complete = [row for row in (together, apart, *rows) if len(row) == len(self.words)]
        if not complete and rows and len(sequences) == len(rows) and max(map(len, rows)) == 1:
            complete = [together]  # an item a line
        for row in [*complete, *(sequences if len(sequences) == 1 else [])]:
            if self._is_sequence(row):
                return {number: self.item(cell, number) or MISSING for number, cell in enumerate(row, 1)}
        return None

    def json(self, value: Any) -> _Items | None:
        """Return the items of a JSON list of items or of rows that end in one, or of an object with places as keys."""
        while isinstance(value, dict) and len(value) == 1:
            (value,) = value.values()
        if isinstance(value, list) and value and all(isinstance(held, dict) for held in value):
            return self._objects(value)
        pairs = self._placed(value) if isinstance(value, dict) else list(enumerate(value, 1))
        found: _Items = {}
        for number, held in pairs:
            cells = held if isinstance(held, list) else [held]
            texts = [str(cell) for cell in cells if isinstance(cell, str | int)]
            if len(texts) < len(cells) or not texts:
                return None
            if len(texts) > 2 and texts[:2] == [str(number), self._word(number)]:
                texts = texts[1:]  # `[1, "From", "ADP"]`
            if item := self.item(" ".join(texts), number):
                found[number] = item
        return found or None

    def _objects(self, rows: Sequence[Mapping[str, Any]]) -> _Items | None:
        """Return the items of an object for each word; None if a word or a number in one is another's."""
        found: _Items = {}
        for place, row in enumerate(rows, 1):
            keyed = {key.casefold(): value for key, value in row.items()}
            word, number, tag, head, relation = (
                next((keyed[key] for key in keys if key in keyed), None) for keys in _KEYS
            )
            item = f"{head}:{relation}" if self.is_tree else tag
            is_others = word not in (None, self._word(place)) or number not in (None, place, str(place))
            if not isinstance(item, str) or (self.words and is_others):
                return None
            found[place] = self.item(item, 0) or MISSING
        return found if len(found) == len(self.words) or not self.words else None

    def _placed(self, value: Mapping[str, Any]) -> list[tuple[int, Any]]:
        """Return the values by the numbers that are their keys, or the words; none if it is ambiguous."""
        if list(value) == list(self.words) or (not self.words and value):
            return list(enumerate(value.values(), 1))
        if all(re.fullmatch(r"[0-9]{1,6}", key) for key in value):
            return [(int(key), held) for key, held in value.items()]
        if all(self.words.count(key) == 1 for key in value):
            return [(self.words.index(key) + 1, held) for key, held in value.items()]
        return []

    def item(self, rest: str, number: int) -> str | None:
        """Return a line's item for a word; the word may be repeated before it."""
        cells, word = rest.split(), self._word(number)
        if len(cells) == _CONLLU_CELLS and cells[5].isdecimal():
            return f"{cells[5]}:{cells[6]}" if self.is_tree else cells[2]
        cells = rest.replace("|", " ").split()
        if word is not None and len(cells) == 1 and cells[0] not in self._names:
            for mark in ("/", "_", ":", "="):
                # `From/ADP`; but `5:nummod` of the word 5 is its head and relation.
                item = cells[0].removeprefix(word + mark)
                cells = cells if self.is_tree and not _HEAD.fullmatch(item) else [item]
        elif len(cells) > 1 and word in (
            cells[0],
            cells[0].strip(_AROUND),
            cells[0].removesuffix(":").strip(_AROUND),
        ):
            cells = cells[1:]
        while len(cells) > 1 and cells[0] in _BETWEEN:
            cells = cells[1:]
        if self.is_tree:
            if match := _HEAD.search(" ".join(cells)):
                return f"{match[1]}:{match[2].rstrip(',;.')}"
            return cells[-1].strip(_AROUND + ",;") or None if cells else None
        for place, cell in enumerate(cells):
            if name := self._name(" ".join(cells[place : place + 2])) or self._name(cell):
                return name
        return (cells[-1].strip(_AROUND + ",;") or cells[-1]) if cells else None

    def _word(self, number: int) -> str | None:
        return self.words[number - 1] if 0 < number <= len(self.words) else None

    def _name(self, cell: str) -> str | None:
        return self._names.get(cell.casefold()) or self._names.get(cell.strip(_AROUND + ",;.").casefold())

    def _is_sequence(self, cells: Sequence[str]) -> bool:
        """Return whether most of the cells can be items, so that prose is not mistaken for tags."""
        if not cells:
            return False
        if self.is_tree:
            return 2 * sum(bool(_HEAD.fullmatch(cell)) for cell in cells) >= len(cells)
        if self._names:
            items = [self.item(cell, number) for number, cell in enumerate(cells, 1)]
            others = [cell for cell in cells if not self._name(cell)]
            if 2 * sum(cell.strip(_AROUND) in self.words for cell in others) > len(others):
                return False  # the words themselves
            is_complete = len(cells) == len(self.words)
            return self._are_mostly_known(items) and (is_complete or 4 * self._known(items) > 3 * len(items))
        return len(cells) == len(self.words) or not self.words

    def _are_mostly_known(self, items: Sequence[str | None]) -> bool:
        return self.is_tree or not self._names or 2 * self._known(items) >= len(items)

    def _known(self, items: Sequence[str | None]) -> int:
        return sum(item in self._names.values() for item in items)


# Numbers

_NUMBER = (
    r"[-+\u2212\u2013]?(?:[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|(?:\d+(?:[.,]\d+)?|\.\d+)(?:[eE][-+]?\d{1,3})?)"
    r"(?!\w|[.,]\d)"
)
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_OF = r"(?:/\s*|(?<=\s)out of\s+(?:a possible\s+)?|\bscale (?:of|from)\s+"
_SCALE = re.compile(
    rf"{_OF}|\bfrom\s+|\bbetween\s+){_NUMBER}(?:\s*(?:to|and|-|–)\s*{_NUMBER})?", re.IGNORECASE
)
_END_OF_SCALE = re.compile(rf"{_OF}(?:{_NUMBER}\s*(?:to|and|-|–)\s*)?)({_NUMBER})", re.IGNORECASE)
_MINUS = re.compile(r"\b(?:minus|negative)\s+(?=\.?\d)", re.IGNORECASE)
_DASH = re.compile(rf"(?:^|[=:(]|\s)[-\u2212\u2013]\s+{_NUMBER}")
"""A minus sign or a list marker: on a scale with negative numbers, it is ambiguous."""
_SIZED = re.compile(rf"(?<![\w.,]){_NUMBER}\s*(?:hundred|thousand|million|billion|trillion)\b", re.IGNORECASE)
_PERCENT = re.compile(rf"(?<![\w.,]){_NUMBER}\s*(?:%|per ?cent\b)", re.IGNORECASE)
_ANY = re.compile(rf"(?<![\w.,]){_NUMBER}")
_HAS_WORDS = re.compile(r"[^\W\d_]{2}")


def find_number(text: str, scale: tuple[float, float] | None = None) -> str | None:
    """Return the number in a text: the only one of its first, or of its last, line with a number.

    The ends of scales do not count. `1,500` is 1500, or 1.500 if the scale has only that.
    """
    lines = [line for line in lines_of(text) if _numbers(line)]
    found = set()
    for line in lines[:1] + lines[-1:]:
        numbers = set(_numbers(line))
        is_certain = len(numbers) == 1 and not _is_on_another_scale(line, scale)
        found.add(_plain_number(numbers.pop(), scale) if is_certain else None)
        if not _HAS_WORDS.search(_SCALE.sub(" ", line)):
            break  # only a number, so the rest of the text explains it
    return found.pop() if len(found) == 1 else None


def _is_on_another_scale(line: str, scale: tuple[float, float] | None) -> bool:
    """Return whether the number of a line means a different number: `3/10` on a scale to 5, `1.5 million`, `- 4`."""
    if _SIZED.search(line):
        return True
    if scale is None:
        return False
    low, high = scale
    ends = [_plain_number(_signed(end), None) for end in _END_OF_SCALE.findall(line)]
    return (
        any(float(end) != high for end in ends)
        or (high != 100 and bool(_PERCENT.search(line)))
        or (low < 0 and bool(_DASH.search(line)))
    )


def _signed(number: str) -> str:
    return number.replace("\u2212", "-").replace("\u2013", "-").lstrip("+")


def _plain_number(number: str, scale: tuple[float, float] | None) -> str:
    """Return a number with a point before its decimals and no other marks."""
    decimal = number.replace(",", ".")
    if not _THOUSANDS.fullmatch(number):
        return decimal
    thousands = number.replace(",", "")
    is_decimal = number.count(",") == 1 and "." not in number
    if is_decimal and scale and not scale[0] <= float(thousands) <= scale[1]:
        return decimal
    return thousands


def _numbers(line: str) -> list[str]:
    return [_signed(match.group()) for match in _ANY.finditer(_MINUS.sub("-", _SCALE.sub(" ", line)))]
