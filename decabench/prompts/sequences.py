"""Find tags, heads and numbers in what a language model writes, and align what it says of words with the words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from decabench.prompts.clutter import find_json, lines_of

__all__ = ["MISSING", "find_items", "find_number"]

MISSING = "_"
"""The item of a word to which the text gives none."""

_MOST_EXTRA = 100
"""Items beyond the last word that are kept, for the metric to count; a text may go on without end."""


def find_items(text: str, kind: str, names: Sequence[str], words: Sequence[str] = ()) -> str | None:
    """Return the tags (or the heads and relations, for `tree`) that a text gives to words: one for each, in order.

    Lines with numbers are placed by their numbers, other items by their order. A word without an item gets `_`, items
    beyond the last word stay, and so does an item that is none of `names`: the metric counts them. None if the text is
    not a sequence of items.
    """
    reading = _Reading(kind, {name.casefold(): name for name in names}, words)
    found = (
        _from_json(text, reading)
        or reading.word_lines(text)
        or reading.numbered_lines(text)
        or reading.one_line(text)
    )
    if not found:
        return None
    most = (len(words) or len(found)) + _MOST_EXTRA
    last = max((place for place in found if place <= most), default=0)
    return " ".join(found.get(place, MISSING) for place in range(1, last + 1)) or None


_Items = dict[int, str]
"""Items by the number of their word."""

_NUMBERED = re.compile(r"[\s|*_`(\[-]*(\d{1,6})[.):\]*_`]{0,3}(?:\s*\|\s*|\s+)(\S.*)")
"""A line that begins with a number: `1 From ADP`, `1. From: ADP`, `| 1 | From | ADP |`."""
_HEAD = re.compile(r"(\d{1,6})\s*[:,|\s]\s*([A-Za-z_][\w:.-]*)")
_INLINE = re.compile(r"(?<!\S)(\d{1,6})[.):]?\s+")
_INLINE_OR_CLOSE = re.compile(r"(?<!\S)(\d{1,6})(?:[.):]?\s+|[.):=/](?=\S))")
_AROUND = "*`\"'()[]|"
_BETWEEN = frozenset({"->", "=>", "→", "-", "–", "—", ":", "=", "|", "/", "is"})


class _Reading:
    """Reads texts about the words of one question."""

    def __init__(self, kind: str, names: Mapping[str, str], words: Sequence[str]) -> None:
        self._is_tree = kind == "tree"
        self._names = names
        self._words = words

    def numbered_lines(self, text: str) -> _Items | None:
        """Return the items of lines that begin with the number of a word, or of runs of `1 ADP 2 DET`."""
        lines = [match.groups() for line in lines_of(text) if (match := _NUMBERED.match(line))]
        found: _Items = {}
        for number, rest in lines:
            item = self.item(rest, int(number))
            if item and int(number) > 0:
                found.setdefault(int(number), item)  # a second one begins another example
        if len(found) > 1 or (found and len(self._words) == 1):
            return found
        return self._inline(text) or found or None

    def _inline(self, text: str) -> _Items:
        """Return the items of `1 ADP 2 DET` or `1:ADP, 2:DET` on one line: each number must be the next."""
        starts: list[tuple[int, int]] = []
        for match in (_INLINE if self._is_tree else _INLINE_OR_CLOSE).finditer(text):
            if int(match[1]) == len(starts) + 1:
                starts.append(match.span())
        ends = [*(start for start, _ in starts[1:]), len(text)]
        found: _Items = {}
        for number, ((_, begin), end) in enumerate(zip(starts, ends, strict=False), 1):
            if item := self.item(text[begin:end].strip().rstrip(",;"), number):
                found[number] = item
        return found if len(found) > 1 else {}

    def item(self, rest: str, number: int) -> str | None:
        """Return the item in what a line says of a word, which may be repeated before it."""
        cells = rest.replace("|", " ").split()
        word = self._words[number - 1] if 0 < number <= len(self._words) else None
        if word is not None and len(cells) == 1 and cells[0] not in self._names:
            for mark in ("/", "_", ":", "="):  # `From/ADP`
                cells = [cells[0].removeprefix(word + mark)] if cells[0].startswith(word + mark) else cells
        elif len(cells) > 1 and word in (
            cells[0],
            cells[0].strip(_AROUND),
            cells[0].removesuffix(":").strip(_AROUND),
        ):
            cells = cells[1:]
        while len(cells) > 1 and cells[0] in _BETWEEN:
            cells = cells[1:]
        return self._head(cells) if self._is_tree else self._tag(cells)

    def _tag(self, cells: Sequence[str]) -> str | None:
        known = [name for cell in cells if (name := self._name(cell))]
        if known:
            return known[0]
        return (cells[-1].strip(_AROUND + ",;") or cells[-1]) if cells else None

    def _name(self, cell: str) -> str | None:
        return self._names.get(cell.casefold()) or self._names.get(cell.strip(_AROUND + ",;.").casefold())

    def _head(self, cells: Sequence[str]) -> str | None:
        text = " ".join(cells)
        if match := _HEAD.search(text):
            return f"{match[1]}:{match[2].rstrip(',;.')}"
        return cells[-1].strip(_AROUND + ",;") or None if cells else None

    def word_lines(self, text: str) -> _Items | None:
        """Return the items of lines that begin with the words themselves, in order: `From ADP`."""
        lines = lines_of(text)
        if len(lines) != len(self._words) or len(lines) < 2:
            return None
        if not all(line.startswith(word) for line, word in zip(lines, self._words, strict=True)):
            return None
        return {number: item for number, line in enumerate(lines, 1) if (item := self.item(line, number))}

    def one_line(self, text: str) -> _Items | None:
        """Return the items of a line, or of all lines together, without numbers: `ADP DET NOUN`."""
        lines = lines_of(text)
        for line in [*lines, " ".join(lines)]:
            cells = [cell.rstrip(",;") or cell for cell in line.strip("[]").split()]
            if self._is_sequence(cells):
                items = {}
                for number, cell in enumerate(cells, 1):
                    items[number] = self.item(cell, number) or MISSING
                return items
        return None

    def _is_sequence(self, cells: Sequence[str]) -> bool:
        """Tell whether most of the cells can be items, so that prose is not taken for tags."""
        if not cells:
            return False
        if self._is_tree:
            return 2 * sum(bool(_HEAD.fullmatch(cell)) for cell in cells) >= len(cells)
        if self._names:
            named = sum(
                self.item(cell, number) in self._names.values() for number, cell in enumerate(cells, 1)
            )
            return 2 * named >= len(cells)
        return len(cells) == len(self._words) or not self._words


def _from_json(text: str, reading: _Reading) -> _Items | None:
    """Return the items of a JSON list of items or pairs, or of an object with numbers or with such a list."""
    value = find_json(text)
    while isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    if isinstance(value, dict):
        lists = [held for held in value.values() if isinstance(held, list)]
        value = lists[-1] if lists else value
    return dict(_json_items(value, reading)) or None


def _json_items(value: Any, reading: _Reading) -> Iterator[tuple[int, str]]:
    if isinstance(value, dict):
        pairs = [(int(key), held) for key, held in value.items() if str(key).isdecimal() and len(key) < 7]
        pairs = pairs or list(enumerate(value.values(), 1))
    else:
        pairs = list(enumerate(value, 1)) if isinstance(value, list) else []
    for number, held in pairs:
        cells = list(held.values()) if isinstance(held, dict) else held if isinstance(held, list) else [held]
        texts = [str(cell) for cell in cells if isinstance(cell, str | int)]
        if texts and (item := reading.item(" ".join(texts), number)):
            yield number, item


# Numbers

_NUMBER = r"[-+]?\d+(?:[.,]\d+)?(?!\w)"
_SCALE = re.compile(
    r"(?:/\s*|(?<=\s)out of\s+(?:a possible\s+)?|\bscale (?:of|from)\s+|\bfrom\s+|\bbetween\s+)"
    rf"{_NUMBER}(?:\s*(?:to|and|-|–)\s*{_NUMBER})?",
    re.IGNORECASE,
)
_NAMED = re.compile(r"\bsentences?\s+(?:[AB12]\b(?:\s*(?:and|,)\s*[AB12]\b)?)", re.IGNORECASE)
_ANY = re.compile(rf"(?<![\w.,]){_NUMBER}")


def find_number(text: str) -> str | None:
    """Return the number that a text gives: the only one of its first or last line that has any, apart from scales."""
    lines = [line for line in lines_of(text) if _numbers(line)]
    for line in (lines[:1] + lines[-1:]) if lines else ():
        numbers = _numbers(line)
        if len(set(numbers)) == 1:
            return numbers[0]
    return None


def _numbers(line: str) -> list[str]:
    bare = _NAMED.sub(" ", _SCALE.sub(" ", line))
    return [match.group().replace(",", ".").lstrip("+") for match in _ANY.finditer(bare)]
