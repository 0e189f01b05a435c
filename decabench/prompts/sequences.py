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

    Items are placed by the words or the numbers beside them, others by their order. A word without an item gets `_`,
    items beyond the last word stay, and so does an item that is none of `names`: the metric counts them. None if the
    text is not a sequence of items, or if it is not certain which item is whose.
    """
    reading = _Reading(kind, names, words)
    value = find_json(text)
    if isinstance(value, dict | list):
        found = dict(_json_items(_json_content(value), reading)) or None
        if not found and _is_structured(value):
            return None
    else:
        found = None
    found = (
        found
        or reading.after_words(text)
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
_NAMED_HEAD = re.compile(
    r"\bhead\W{1,5}(\d{1,6})\W{1,5}(?:relation|deprel|rel|label)\W{1,5}([A-Za-z_][\w:.-]*)", re.IGNORECASE
)
_CALLED_HEAD = re.compile(r"(?<![\w:])([A-Za-z_][\w:.-]{0,40})\((\d{1,6})\)")
"""`case(4)`: a relation and its head."""
_INLINE = re.compile(r"(?<!\S)(\d{1,6})[.):]?\s+")
_INLINE_OR_CLOSE = re.compile(r"(?<!\S)(\d{1,6})(?:[.):]?\s+|[.):=/](?=\S))")
_AROUND = "*`\"'()[]|"
_BETWEEN = frozenset({"->", "=>", "→", "-", "–", "—", ":", "=", "|", "/", "is"})

_OPENS = frozenset(" \n,;|()[]{}\"'`*_•-–.")
"""What may stand between an item and the next word."""
_MOST_OPENING = 12
_MOST_STARTS = 20
"""Places that are tried for the first word: each costs a reading of what follows."""
_JOINS = re.compile(
    r"[\"'`*_]{0,3}(?: ?(?:->|=>|→|[-–—:=|/,_]|is(?= )) ?| (?=\()| )?[\"'`*(\[]{0,3}"  # `From: ADP`, `From (ADP)`
)
_OPEN_ITEM = r"[^\s,;()\[\]{}|\"'`*]+|(?<= )[^\w\s]{1,2}(?=\s|$)"
_REMARK = re.compile(r" \([a-z][a-z ,'-]{0,60}\)$")
"""What a tag stands for: `ADP (adposition)`."""
_CONLLU_CELLS = 9
"""Columns of a line of CoNLL-U after the number: form, lemma, UPOS, XPOS, features, head, relation and two more."""
_ENDS_UNIT = re.compile(r"[\"'`*)\]|.,; ]{0,6}(?:\n|$)")


class _Reading:
    """Reads texts about the words of one question."""

    def __init__(self, kind: str, names: Sequence[str], words: Sequence[str]) -> None:
        self.is_tree = kind == "tree"
        self.words = words
        self._names = {name.casefold(): name for name in names}
        if not self.is_tree and set(_FULL_NAMES.values()) <= set(names):
            self._names = {**_FULL_NAMES, **self._names}

    def numbered_lines(self, text: str) -> _Items | None:
        """Return the items of lines that begin with the number of a word, or of runs of `1 ADP 2 DET`."""
        if heads := self._head_lines(lines_of(text)):
            return heads
        lines = [match.groups() for line in lines_of(text) if (match := _NUMBERED.match(line))]
        found: _Items = {}
        for number, rest in lines:
            item = self.item(rest, int(number))
            if item and int(number) > 0:
                found.setdefault(int(number), item)  # a second one begins another example
        if len(found) > 1 or (found and len(self.words) == 1):
            return found
        return self._inline(text) or {
            number: item
            for number, item in found.items()
            if number == 1
            or any(self._names_word(rest, number) for given, rest in lines if int(given) == number)
        }

    def _names_word(self, rest: str, number: int) -> bool:
        """Tell whether a line repeats the word of its number, so that the number is not a word: `15 – NUM`."""
        return number <= len(self.words) and rest.lstrip(_AROUND).startswith(self.words[number - 1])

    def _head_lines(self, lines: Sequence[str]) -> _Items | None:
        """Return heads and relations of a line for each word, `2: det`, if the numbers cannot be those of the words."""
        heads = [match for line in lines if (match := _HEAD.fullmatch(line.rstrip(",;")))]
        if not self.is_tree or not len(heads) == len(lines) == len(self.words):
            return None
        if [int(match[1]) for match in heads] == list(range(1, len(heads) + 1)):
            return None
        return {number: f"{match[1]}:{match[2]}" for number, match in enumerate(heads, 1)}

    def _inline(self, text: str) -> _Items:
        """Return the items of `1 ADP 2 DET` or `1:ADP, 2:DET` on one line: each number must be the next."""
        starts: list[tuple[int, int]] = []
        for match in (_INLINE if self.is_tree else _INLINE_OR_CLOSE).finditer(text):
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
        cells = rest.split()
        if len(cells) == _CONLLU_CELLS and cells[5].isdecimal():
            if self.is_tree:
                return f"{cells[5]}:{cells[6]}"
            return next((name for cell in cells[2:4] if (name := self._name(cell))), cells[2])
        cells = rest.replace("|", " ").split()
        word = self.words[number - 1] if 0 < number <= len(self.words) else None
        if word is not None and len(cells) == 1 and cells[0] not in self._names:
            for mark in (
                "/",
                "_",
                ":",
                "=",
            ):  # `From/ADP`; but `5:nummod` of the word 5 is its head and relation
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
        return self._head(cells) if self.is_tree else self._tag(cells)

    def _tag(self, cells: Sequence[str]) -> str | None:
        for place, cell in enumerate(cells):
            if name := self._name(" ".join(cells[place : place + 2])) or self._name(cell):
                return name
        return (cells[-1].strip(_AROUND + ",;") or cells[-1]) if cells else None

    def _name(self, cell: str) -> str | None:
        return self._names.get(cell.casefold()) or self._names.get(cell.strip(_AROUND + ",;.").casefold())

    def _head(self, cells: Sequence[str]) -> str | None:
        text = " ".join(cells)
        if match := _NAMED_HEAD.search(text):
            return f"{match[1]}:{match[2].rstrip(',;.')}"
        if match := _CALLED_HEAD.search(text):
            return f"{match[2]}:{match[1]}"
        if match := _HEAD.search(text):
            return f"{match[1]}:{match[2].rstrip(',;.')}"
        return cells[-1].strip(_AROUND + ",;") or None if cells else None

    def word_lines(self, text: str) -> _Items | None:
        """Return the items of lines that begin with the words themselves, in order: `From ADP`."""
        lines = lines_of(text)
        if len(lines) != len(self.words) or len(lines) < 2:
            return None
        if not all(line.startswith(word) for line, word in zip(lines, self.words, strict=True)):
            return None
        return {number: item for number, line in enumerate(lines, 1) if (item := self.item(line, number))}

    def after_words(self, text: str) -> _Items | None:
        """Return items that follow their words, every word in order: `- From: ADP`, `(From, ADP) (the, DET)`.

        What the marks between them are does not matter, so long as there is nothing else.
        """
        if not self.words:
            return None
        lines = [" ".join(line.split()) for line in lines_of(text)]
        bare = [_REMARK.sub("", line) for line in lines]
        return self._in_order("\n".join(lines)) or (
            self._in_order("\n".join(bare)) if bare != lines else None
        )

    def _in_order(self, text: str) -> _Items | None:
        """Return the items after the words, from the first place on at which each word has one."""
        pattern = self._item_pattern()
        begin = -1
        for _ in range(_MOST_STARTS):
            begin = text.find(self.words[0], begin + 1)
            if begin < 0:
                return None
            if begin and text[begin - 1] not in _OPENS:
                continue
            items = self._items_from(text, begin, pattern)
            if items and self._are_mostly_known(items):
                return dict(enumerate(items, 1))
        return None

    def _items_from(self, text: str, begin: int, pattern: re.Pattern[str]) -> list[str] | None:
        """Return the item after each word, from a place on; None if another thing stands between them."""
        items: list[str] = []
        end = begin
        for word in self.words:
            for start in range(end, end + _MOST_OPENING + 1):
                if start > end and (start > len(text) or text[start - 1] not in _OPENS):
                    return None
                if start == end and items:
                    continue  # something must stand between an item and a word
                if text.startswith(word, start) and (
                    match := self._follows(text, start + len(word), pattern)
                ):
                    break
            else:
                return None
            items.append(self.item(match.group(), 0) or MISSING)
            end = match.end()
        if not _ENDS_UNIT.match(text, end):
            return None
        items[-1] = items[-1].rstrip(".") or items[-1]  # of the sentence
        return items

    @staticmethod
    def _follows(text: str, end: int, pattern: re.Pattern[str]) -> re.Match[str] | None:
        joins = _JOINS.match(text, end)
        return pattern.match(text, joins.end()) if joins and joins.end() > end else None

    def _item_pattern(self) -> re.Pattern[str]:
        if self.is_tree:
            return re.compile(f"{_NAMED_HEAD.pattern}|{_CALLED_HEAD.pattern}|{_HEAD.pattern}", re.IGNORECASE)
        known = "|".join(re.escape(name) for name in sorted(self._names, key=len, reverse=True))
        return re.compile(rf"(?:{known})(?![\w$])|{_OPEN_ITEM}" if known else _OPEN_ITEM, re.IGNORECASE)

    def one_line(self, text: str) -> _Items | None:
        """Return the items of a line, or of all lines together, without numbers: `ADP DET NOUN`.

        What has an item for each word comes first. Several lines that have not, all together or any of them, are not
        read: which items are of these words is not certain.
        """
        rows = [[cell.rstrip(",;") or cell for cell in line.strip("[]").split()] for line in lines_of(text)]
        sequences = [row for row in rows if self._is_sequence(row)]
        together, apart = ([cell for row in each for cell in row] for each in (rows, sequences))
        complete = [row for row in (together, apart, *rows) if len(row) == len(self.words)]
        if len(sequences) > 1 and not self.words:
            complete = [together]
        elif len(sequences) > 1 and len(sequences) == len(rows) and max(map(len, rows)) == 1:
            complete = complete or [together]  # an item a line: too few, or too many
        for row in [*complete, *(sequences if len(sequences) == 1 else [])]:
            if self._is_sequence(row):
                return {number: self.item(cell, number) or MISSING for number, cell in enumerate(row, 1)}
        return None

    def _is_sequence(self, cells: Sequence[str]) -> bool:
        """Tell whether most of the cells can be items, so that prose is not taken for tags."""
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


# JSON

_NUMBER_KEYS = ("id", "number", "index", "position", "no", "n", "i", "#", "token id", "word number")
_WORD_KEYS = ("word", "token", "form", "text")
_TAG_KEYS = (
    "tag",
    "pos",
    "upos",
    "pos tag",
    "part of speech",
    "chunk",
    "chunk tag",
    "entity",
    "ner",
    "label",
)
_HEAD_KEYS = ("head", "head id", "head index", "governor", "parent")
_RELATION_KEYS = ("relation", "deprel", "rel", "dep", "dependency", "label")


def _json_content(value: Any) -> Any:
    """Return the list or object of items that an object holds."""
    while isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    if isinstance(value, dict):
        lists = [held for held in value.values() if isinstance(held, list)]
        value = lists[-1] if lists else value
    return value


def _is_structured(value: Any) -> bool:
    """Tell whether JSON holds objects, which no other rule can read."""
    content = _json_content(value)
    held = content.values() if isinstance(content, dict) else content if isinstance(content, list) else []
    return any(isinstance(each, dict) for each in held)


def _json_items(value: Any, reading: _Reading) -> Iterator[tuple[int, str]]:
    """Yield the items of a JSON list of items, pairs or objects, or of an object with numbers or words as keys."""
    if isinstance(value, list) and value and all(isinstance(held, dict) for held in value):
        yield from _object_items(value, reading)
        return
    if isinstance(value, dict):
        pairs = _placed(value, reading.words)
    else:
        pairs = list(enumerate(value, 1)) if isinstance(value, list) else []
    for number, held in pairs:
        if isinstance(held, dict):
            item = _item_of(_keyed(held), reading)
        else:
            cells = held if isinstance(held, list) else [held]
            texts = [str(cell) for cell in cells if isinstance(cell, str | int)]
            if len(texts) > 2 and texts[0] == str(number) and texts[1] == _word(reading, number):
                texts = texts[1:]  # `[1, "From", "ADP"]`
            item = reading.item(" ".join(texts), number) if texts else None
        if item:
            yield number, item


def _placed(value: Mapping[str, Any], words: Sequence[str]) -> list[tuple[int, Any]]:
    """Return the values by the numbers that are their keys, or the words; none if it is not certain which."""
    if list(value) != list(words) and all(map(_IS_PLACE.fullmatch, value)):
        return [(int(key), held) for key, held in value.items()]
    if not words or len(value) == len(words):
        return list(enumerate(value.values(), 1))
    if all(words.count(key) == 1 for key in value):
        return [(words.index(key) + 1, held) for key, held in value.items()]
    return []


_IS_PLACE = re.compile(r"[0-9]{1,6}")
"""The number of a word."""


def _object_items(objects: Sequence[Mapping[str, Any]], reading: _Reading) -> Iterator[tuple[int, str]]:
    """Yield the items of objects with keys such as id, word and tag; none if the words say that they are others'."""
    rows = [_keyed(each) for each in objects]
    numbers = [_first(row, _NUMBER_KEYS) for row in rows]
    places = list(range(1, len(rows) + 1))
    if all(isinstance(number, int | str) and _IS_PLACE.fullmatch(str(number)) for number in numbers):
        given = [int(number) for number in numbers]
        if len(set(given)) != len(given) or (reading.is_tree and 0 in given):
            return  # counted from 0, heads may be as well
        places = [number + (min(given) == 0) for number in given]
    words = [_first(row, _WORD_KEYS) for row in rows]
    wrong = sum(
        word is not None and str(word) != _word(reading, place)
        for word, place in zip(words, places, strict=True)
    )
    is_certain = len(rows) == len(reading.words) or not reading.words
    if reading.words and 2 * wrong > (len(rows) if is_certain else 0):
        return
    for place, row in zip(places, rows, strict=True):
        if item := _item_of(row, reading):
            yield place, item


def _keyed(held: Mapping[str, Any]) -> dict[str, Any]:
    return {key.casefold().replace("_", " ").strip(): value for key, value in held.items()}


def _first(row: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((row[key] for key in keys if key in row), None)


def _word(reading: _Reading, number: int) -> str | None:
    return reading.words[number - 1] if 0 < number <= len(reading.words) else None


def _item_of(row: Mapping[str, Any], reading: _Reading) -> str | None:
    """Return the item in the values of one word; None if its keys do not say which value is the item."""
    if reading.is_tree:
        head, relation = _first(row, _HEAD_KEYS), _first(row, _RELATION_KEYS)
        if isinstance(relation, str) and relation and not isinstance(head, bool) and str(head).isdecimal():
            return f"{head}:{'_'.join(relation.split())}"
        relation = head if isinstance(head, str) else relation  # `"head": "4:case"`
        return relation if isinstance(relation, str) and _HEAD.fullmatch(relation) else None
    tag = _first(row, _TAG_KEYS)
    rest = [value for key, value in row.items() if key not in (*_NUMBER_KEYS, *_WORD_KEYS)]
    if tag is None and len(rest) == 1:
        tag = rest[0]
    return reading.item(tag, 0) if isinstance(tag, str) else None


# Numbers

_NUMBER = (
    r"[-+\u2212\u2013]?(?:[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|(?:\d+(?:[.,]\d+)?|\.\d+)(?:[eE][-+]?\d{1,3})?)"
    r"(?!\w|[.,]\d)"
)
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_SCALE = re.compile(
    r"(?:/\s*|(?<=\s)out of\s+(?:a possible\s+)?|\bscale (?:of|from)\s+|\bfrom\s+|\bbetween\s+)"
    rf"{_NUMBER}(?:\s*(?:to|and|-|–)\s*{_NUMBER})?",
    re.IGNORECASE,
)
_END_OF_SCALE = re.compile(
    rf"(?:/\s*|(?<=\s)out of\s+(?:a possible\s+)?|\bscale (?:of|from)\s+(?:{_NUMBER}\s*(?:to|and|-|–)\s*)?)({_NUMBER})",
    re.IGNORECASE,
)
_MINUS = re.compile(r"\b(?:minus|negative)\s+(?=\.?\d)", re.IGNORECASE)
_DASH = re.compile(rf"(?:^|[=:(]|\s)[-\u2212\u2013]\s+{_NUMBER}")
"""A minus sign or a list marker: on a scale with negative numbers, it is ambiguous."""
_SIZED = re.compile(rf"(?<![\w.,]){_NUMBER}\s*(?:hundred|thousand|million|billion|trillion)\b", re.IGNORECASE)
_PERCENT = re.compile(rf"(?<![\w.,]){_NUMBER}\s*(?:%|per ?cent\b)", re.IGNORECASE)
_NAMED = re.compile(r"\bsentences?\s+(?:[AB12]\b(?:\s*(?:and|,)\s*[AB12]\b)?)", re.IGNORECASE)
_BECAUSE = re.compile(r"(?<=\s)(?:because|since)\b", re.IGNORECASE)
_NOT = re.compile(r"\bnot\b|n['\u2019]t\b", re.IGNORECASE)
_ANY = re.compile(rf"(?<![\w.,]){_NUMBER}")


def find_number(text: str, scale: tuple[float, float] | None = None) -> str | None:
    """Return the number that a text gives: the only one of its first or last line that has any, apart from scales.

    Sentences with different numbers give no number.
    Numbers in a reason that follows it do not count: `4, because both mention 2 boys`. `1,500` is 1500, or 1.500 if the
    scale has only that.
    """
    lines = [line for line in lines_of(text) if _numbers(line)]
    found = []
    for line in (lines[:1] + lines[-1:]) if lines else ():
        said = _BECAUSE.split(line, maxsplit=1)[0]
        numbers = _numbers(line if _NOT.search(said) else said) or _numbers(line)
        if len(set(numbers)) == 1:
            found.append(None if _is_on_another_scale(said, scale) else _plain_number(numbers[0], scale))
            if not _HAS_WORDS.search(_SCALE.sub(" ", line)):
                break  # only a number: the rest of the text is about it
    return found[0] if len(set(found)) == 1 else None


_HAS_WORDS = re.compile(r"[^\W\d_]{2}")


def _is_on_another_scale(line: str, scale: tuple[float, float] | None) -> bool:
    """Tell whether the number of a line stands for another one: `3/10` on a scale to 5, `1.5 million`, `- 4`."""
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
    bare = _NAMED.sub(" ", _SCALE.sub(" ", line))
    return [_signed(match.group()) for match in _ANY.finditer(_MINUS.sub("-", bare))]
