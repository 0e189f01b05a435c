"""The way back from query text to a logical form, as decaNLP 2018 reads it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from .errors import MetricError

__all__ = ["AGGREGATORS", "OPERATORS", "LogicalForm", "from_sql", "parse"]

AGGREGATORS = ("", "max", "min", "count", "sum", "avg")
OPERATORS = ("=", ">", "<", "op")
_COLUMN_AND_OPERATOR = re.compile(r"(Col\d+ Cond\d+)")

Condition = tuple[Any, ...]
"""(column, operator, value); shorter or longer only where a text was read wrongly."""


@dataclass(frozen=True)
class LogicalForm:
    """A WikiSQL query."""

    select: int | None
    """Index of the selected column; None where the text names none."""
    aggregator: int
    """Index into max, min, count, sum, avg after the empty one."""
    conditions: tuple[Condition, ...]
    """In the order of the text."""

    def equals_unordered(self, other: LogicalForm) -> bool:
        """Equality with the conditions in any order."""
        same = (self.select, self.aggregator) == (other.select, other.aggregator)
        return same and Counter(self.conditions) == Counter(other.conditions)


def from_sql(sql: Mapping[str, Any]) -> LogicalForm:
    """The form of WikiSQL's `{sel, agg, conds: [[column, operator, value]]}`, values in lower case."""
    try:
        conditions = tuple((column, operator, str(value).lower()) for column, operator, value in sql["conds"])
        return LogicalForm(sql["sel"], sql["agg"], conditions)
    except (KeyError, TypeError, ValueError):
        raise MetricError(
            f"A WikiSQL form is {{sel, agg, conds: [[column, operator, value]]}}; given {sql!r}."
        ) from None


def parse(text: str, header: Sequence[str]) -> LogicalForm | None:
    """The form that lower-cased query text stands for over a table's columns, None where it cannot be read.

    The text is read as 2018 read it, with its faults: `where` is found inside words, and a column's name is
    taken for the column inside a value too.
    """
    names = [name.lower() for name in header]
    selection, where, conditions = text.lower().partition("where")
    try:
        select, aggregator = _read_selection(selection.split()[1:-2], names)
        return LogicalForm(select, aggregator, _read_conditions(conditions, names) if where else ())
    except (KeyError, IndexError, ValueError):
        return None


def _longest_first(names: Sequence[str]) -> list[tuple[int, str]]:
    return sorted(enumerate(names), key=lambda column: len(column[1]), reverse=True)


def _read_selection(words: Sequence[str], names: Sequence[str]) -> tuple[int | None, int]:
    """(column, aggregator) of the words between `select` and `from table`. KeyError if there is neither."""
    whole = _find(" ".join(words), names)
    if whole is not None:
        return whole, 0
    if words[0] not in AGGREGATORS:
        raise KeyError(words[0])
    return _find(" ".join(words[1:]), names), AGGREGATORS.index(words[0])


def _find(name: str, names: Sequence[str]) -> int | None:
    """The column of that name; the last of several."""
    return max((index for index, other in enumerate(names) if other == name), default=None)


def _read_conditions(text: str, names: Sequence[str]) -> tuple[Condition, ...]:
    marked = f" {text} "
    for index, name in _longest_first(names):
        marked = marked.replace(f" {name} ", f" Col{index} ")
    for index, operator in enumerate(OPERATORS):
        marked = " ".join(f"Cond{index}" if word == operator else word for word in marked.split())
    pieces = [piece for piece in _COLUMN_AND_OPERATOR.split(marked) if piece.strip()]
    read = []
    for heads, values in zip_longest(pieces[::2], pieces[1::2]):
        column, operator = heads.split()[:2]
        condition: Condition = (int(column.replace("Col", "")), int(operator.replace("Cond", "")))
        read.append(condition if values is None else (*condition, _read_value(values, names)))
    return tuple(read)


def _read_value(text: str, names: Sequence[str]) -> str:
    """The words of a value, without the `and` that ends it, marks turned back to what they replaced."""
    words = text.split()
    if words[-1] == "and":
        words.pop()
    value = " ".join(_unmark(word, "Col", names) for word in words)
    if "Cond" not in value:
        return value
    return " ".join(_unmark(word, "Cond", OPERATORS) for word in value.split())


def _unmark(word: str, mark: str, texts: Sequence[str]) -> str:
    return texts[int(word.replace(mark, ""))] if mark in word else word
