"""Find tags or heads in a model's output, and align them with the words of the context."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from decabench.prompts.markup import find_json, lines_of

MISSING = "_"
"""The placeholder for a word that has no item in the text."""

_MOST_EXTRA = 100
"""The maximum number of items to keep after the last word. Some outputs repeat items endlessly."""


def find_items(text: str, kind: str, names: Sequence[str], words: Sequence[str] = ()) -> str | None:
    """Return the items that a text assigns to the words, in word order and separated by spaces.

    Items are tags or, for the kind `tree`, heads with relations. They are assigned to words by the
    number or word before them, or by their order. Words without an item get `_`. Items after the
    last word and items that aren't in `names` are kept, so that the metric counts them. Returns
    None if the text isn't a sequence of items or the alignment is ambiguous.
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
"""Maps the number of a word, counting from 1, to its item."""

_NUMBERED = re.compile(r"[\s|*_`(\[-]*(\d{1,6})[.):\]*_`]{0,3}(?:\s*\|\s*|\s+)(\S.*)")
"""A line that starts with a number, such as `1 From ADP`, `1. From: ADP` or `| 1 | From | ADP |`."""
_HEAD = re.compile(r"(\d{1,6})\s*[:,|\s]\s*([A-Za-z_][\w:.-]*)")
_PARSED = re.compile(r"\d{1,6}:[A-Za-z_][\w:.-]*(?<!:)")
"""A well-formed pair of head and relation."""
_MOST_CELLS = 4
"""The maximum number of parts in a line about a word: the word, a separator such as `->`, the head and the
relation.
"""
_AROUND = "*`\"'()[]|"
_OPENS = " -*•`\"'()[]|_"
_BETWEEN = frozenset({"->", "=>", "→", "-", "–", "—", ":", "=", "|", "/", "is"})


class _Reading:
    def __init__(self, kind: str, names: Sequence[str], words: Sequence[str]) -> None:
        self.is_tree = kind == "tree"
        self.words = words
        self._names = {name.casefold(): name for name in names}

    def lines(self, text: str) -> _Items | None:
        """Return items from lines that start with the number of a word, or with the words in order."""
        lines = lines_of(text)
        if (rows := self._word_lines(lines)) and self._are_mostly_known(rows):
            return dict(enumerate(rows, 1))
        found: _Items = {}
        rests: dict[int, str] = {}
        numbered = [(int(match[1]), match[2]) for match in map(_NUMBERED.match, lines) if match]
        first = self._first(number for number, _ in numbered)
        for number, rest in ((number + 1 - first, rest) for number, rest in numbered):
            if number > 0 and number not in found and (item := self.item(rest, number)):
                # A number that occurs again belongs to another example and is skipped.
                found[number], rests[number] = item, rest
        if len(found) > 1 or (found and len(self.words) == 1):
            return found
        # A single number at the start of a line may be a word and not its position, as in `15 – NUM`.
        return {
            n: item
            for n, item in found.items()
            if len(rests[n].split()) <= _MOST_CELLS and (n == 1 or self._names_word(rests[n], n))
        }

    def _word_lines(self, lines: Sequence[str]) -> list[str]:
        """Return the items from the last lines, if each word has a line with the word followed by its item."""
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

    def one_line(self, text: str) -> _Items | None:
        """Return unnumbered items, which may be on one line or on several lines.

        Items on a single line are returned even if there are too few or too many. On several lines, there
        must be one item for each word, because the alignment would otherwise be ambiguous.
        """
        rows = [[cell.rstrip(",;") or cell for cell in line.strip("[]").split()] for line in lines_of(text)]
        sequences = [row for row in rows if self._is_sequence(row)]
        together, apart = ([cell for row in each for cell in row] for each in (rows, sequences))
        complete = [row for row in (together, apart, *rows) if len(row) == len(self.words)]
        if not complete and rows and len(sequences) == len(rows) and max(map(len, rows)) == 1:
            complete = [together]  # one item per line
        for row in [*complete, *(sequences if len(sequences) == 1 else [])]:
            if self._is_sequence(row):
                return {number: self.item(cell, number) or MISSING for number, cell in enumerate(row, 1)}
        return None

    def json(self, value: Any) -> _Items | None:
        while isinstance(value, dict | list) and len(value) == 1:
            (value,) = value.values() if isinstance(value, dict) else value
        if isinstance(value, str):
            return self.lines(value) or self.one_line(value)
        if not isinstance(value, dict | list):
            return None
        pairs = list(value.items()) if isinstance(value, dict) else list(enumerate(value, 1))
        if not all(isinstance(held, str) and re.fullmatch("[0-9]{1,6}", str(key)) for key, held in pairs):
            return None
        if not self.is_tree and any(sum(map(bool, map(self._name, held.split()))) > 1 for _, held in pairs):
            return None
        first = self._first(int(key) for key, _ in pairs)
        if any(int(key) < first for key, _ in pairs):
            return None
        numbered = ((int(key) + 1 - first, held) for key, held in pairs)
        found = {number: item for number, held in numbered if (item := self.item(held, number))}
        return found if self._are_mostly_known([*found.values()]) else None

    def _first(self, numbers: Iterable[int]) -> int:
        """Return the number that the text gives to the first word, 0 or 1. In trees, it is always 1, because 0 is
        the root.
        """
        return int(self.is_tree or 0 not in numbers)

    def item(self, rest: str, number: int) -> str | None:
        word = self.words[number - 1] if 0 < number <= len(self.words) else None
        cells = rest.replace("|", " ").split()
        if word is not None and len(cells) == 1 and cells[0] not in self._names:
            for mark in ("/", "_", ":", "="):
                # A cell may have the word and its tag, as in `From/ADP`. But `5:nummod` is a head with its relation,
                # even if the word is 5.
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

    def _name(self, cell: str) -> str | None:
        return self._names.get(cell.casefold()) or self._names.get(cell.strip(_AROUND + ",;.").casefold())

    def _is_sequence(self, cells: Sequence[str]) -> bool:
        """Return whether most cells can be items. This prevents prose from being mistaken for tags."""
        if not cells:
            return False
        if self.is_tree:
            return 2 * sum(bool(_HEAD.fullmatch(cell)) for cell in cells) >= len(cells)
        if self._names:
            items = [self.item(cell, number) for number, cell in enumerate(cells, 1)]
            others = [cell for cell in cells if not self._name(cell)]
            if 2 * sum(cell.strip(_AROUND + ":") in self.words for cell in others) > len(others):
                return False  # the cells are the words themselves
            is_complete = len(cells) == len(self.words)
            return self._are_mostly_known(items) and (
                is_complete or (self._name(cells[0]) is not None and 4 * self._known(items) > 3 * len(items))
            )
        return len(cells) == len(self.words) or not self.words

    def _are_mostly_known(self, items: Sequence[str | None]) -> bool:
        return self.is_tree or not self._names or 2 * self._known(items) >= len(items)

    def _known(self, items: Sequence[str | None]) -> int:
        return sum(item in self._names.values() for item in items)
