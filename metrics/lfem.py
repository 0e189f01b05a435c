"""Text-to-SQL: logical form exact match (lfEM), and execution accuracy if the table has rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from .base import (
    Item,
    Metric,
    MetricError,
    Reference,
    Row,
    Score,
    Scores,
    Totals,
    any_nonzero,
    evaluate,
    items,
    per_example,
    percent,
)

if TYPE_CHECKING:
    import sqlite3

__all__ = [
    "AGGREGATORS",
    "LFEM",
    "LFEM_NORMALISED",
    "OPERATORS",
    "LogicalForm",
    "Table",
    "lfem",
    "parse_query",
    "read_normalised",
]

AGGREGATORS = ("", "max", "min", "count", "sum", "avg")
OPERATORS = ("=", ">", "<", "op")
_COLUMN_AND_OPERATOR = re.compile(r"(Col\d+ Cond\d+)")

_Condition = tuple[Any, ...]
"""(column, operator, value); shorter or longer only if a text was misread."""


@dataclass(frozen=True)
class LogicalForm:
    """A WikiSQL query."""

    select: int | None
    """Index of the selected column; None if the text names none."""
    aggregator: int
    """Index into AGGREGATORS."""
    conditions: tuple[_Condition, ...]
    """In the order of the text."""

    @classmethod
    def from_sql(cls, sql: Mapping[str, Any]) -> LogicalForm:
        """Read WikiSQL's `{sel, agg, conds: [[column, operator, value]]}`; values become lower case."""
        try:
            conditions = tuple(
                (column, operator, str(value).lower()) for column, operator, value in sql["conds"]
            )
            return cls(sql["sel"], sql["agg"], conditions)
        except (KeyError, TypeError, ValueError):
            raise MetricError(
                f"A WikiSQL form must be {{sel, agg, conds: [[column, operator, value]]}}; given {sql!r}."
            ) from None

    def equals_unordered(self, other: LogicalForm) -> bool:
        """Compare with the conditions in any order."""
        same = (self.select, self.aggregator) == (other.select, other.aggregator)
        return same and Counter(self.conditions) == Counter(other.conditions)


def parse_query(text: str, header: Sequence[str]) -> LogicalForm | None:
    """Parse query text over a table's columns, ignoring case; None if it cannot be read.

    This is decaNLP 2018's parser, bugs included: `where` is found inside words, and inside a value the name of a
    column is taken for the column.
    """
    names = [name.lower() for name in header]
    selection, where, conditions = text.lower().partition("where")
    try:
        select, aggregator = _read_selection(selection.split()[1:-2], names)
        return LogicalForm(select, aggregator, _read_conditions(conditions, names) if where else ())
    except (KeyError, IndexError, ValueError):
        return None


def _read_selection(words: Sequence[str], names: Sequence[str]) -> tuple[int | None, int]:
    """Read (column, aggregator) from the words between `select` and `from table`. KeyError if there is neither."""
    whole = _find_column(" ".join(words), names)
    if whole is not None:
        return whole, 0
    if words[0] not in AGGREGATORS:
        raise KeyError(words[0])
    return _find_column(" ".join(words[1:]), names), AGGREGATORS.index(words[0])


def _find_column(name: str, names: Sequence[str]) -> int | None:
    """Return the index of the column of that name, the last of several."""
    return max((index for index, other in enumerate(names) if other == name), default=None)


def _read_conditions(text: str, names: Sequence[str]) -> tuple[_Condition, ...]:
    marked = f" {text} "
    longest_first = sorted(enumerate(names), key=lambda column: len(column[1]), reverse=True)
    for index, name in longest_first:
        marked = marked.replace(f" {name} ", f" Col{index} ")
    for index, operator in enumerate(OPERATORS):
        marked = " ".join(f"Cond{index}" if word == operator else word for word in marked.split())
    pieces = [piece for piece in _COLUMN_AND_OPERATOR.split(marked) if piece.strip()]
    read = []
    for heads, values in zip_longest(pieces[::2], pieces[1::2]):
        column, operator = heads.split()[:2]
        condition: _Condition = (int(column.replace("Col", "")), int(operator.replace("Cond", "")))
        read.append(condition if values is None else (*condition, _read_value(values, names)))
    return tuple(read)


def _read_value(text: str, names: Sequence[str]) -> str:
    """Read a value: without the `and` that ends it, marks turned back into the text that they replaced."""
    words = text.split()
    if words[-1] == "and":
        words.pop()
    value = " ".join(_unmark(word, "Col", names) for word in words)
    if "Cond" not in value:
        return value
    return " ".join(_unmark(word, "Cond", OPERATORS) for word in value.split())


def _unmark(word: str, mark: str, texts: Sequence[str]) -> str:
    return texts[int(word.replace(mark, ""))] if mark in word else word


_NUMBER = re.compile(r"[-+]?\d*\.\d+|\d+")


class Table:
    """A table with its rows in SQLite, text in lower case; without `types` a column of numbers alone is `real`."""

    def __init__(self, rows: Sequence[Sequence[Any]], types: Sequence[str] | None = None) -> None:
        import sqlite3

        self.types = list(types) if types else [_guess_type(column) for column in zip(*rows, strict=True)]
        self.database: sqlite3.Connection = sqlite3.connect(":memory:")
        columns = ", ".join(
            f"col{i} {'REAL' if kind == 'real' else 'TEXT'}" for i, kind in enumerate(self.types)
        )
        self.database.execute(f"CREATE TABLE cells ({columns})")
        places = ", ".join("?" for _ in self.types)
        cells = [[self._cell(i, cell) for i, cell in enumerate(row)] for row in rows]
        self.database.executemany(f"INSERT INTO cells VALUES ({places})", cells)

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    def run(self, form: LogicalForm) -> list[Any] | None:
        """Return the values that the query finds, or None if it cannot be run."""
        import sqlite3

        try:
            query, values = self._query(form)
            return [found for (found,) in self.database.execute(query, values)]
        except (sqlite3.Error, IndexError, ValueError, OverflowError):
            return None

    def _query(self, form: LogicalForm) -> tuple[str, dict[str, Any]]:
        """Make the statement and its values; as in WikiSQL's DBEngine, a column's last value overrides earlier ones."""
        if form.select is None:
            raise ValueError("no column")
        values = {f"col{column}": self._value(column, value) for column, _, value in form.conditions}
        tests = [f"col{column} {OPERATORS[operator]} :col{column}" for column, operator, _ in form.conditions]
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        return f"SELECT {AGGREGATORS[form.aggregator]}(col{form.select}) FROM cells{where}", values

    def _value(self, column: int, text: str) -> str | float:
        """A condition's value: for a `real` column its number, or the first one in it (IndexError if none)."""
        if self.types[column] != "real":
            return text
        number = _parse_number(text)
        return float(_NUMBER.findall(text)[0]) if number is None else number

    def _cell(self, column: int, cell: Any) -> Any:
        number = _parse_number(cell) if self.types[column] == "real" else None
        return str(cell).lower() if number is None else number


def _guess_type(cells: Sequence[Any]) -> str:
    return "real" if all(isinstance(cell, int | float) for cell in cells) else "text"


def _parse_number(value: Any) -> float | None:
    try:
        return float(str(value).replace(",", ""))
    except ValueError:
        return None


_SHARES = ("lfem", "lfem_unordered", "lfem_corrected")


def _row(prediction: str, reference: Reference) -> Row:
    gold = LogicalForm.from_sql(_require(reference, "sql"))
    predicted = parse_query(prediction, _require(reference, "header"))
    same = predicted == gold
    unordered = predicted is not None and predicted.equals_unordered(gold)
    same_text = prediction.lower().split() == reference.answers[0].lower().split()
    executed, right = _execute(predicted, gold, reference.meta)
    return tuple(map(float, (1, same, unordered, same or same_text, executed, right)))


def _require(reference: Reference, key: str) -> Any:
    value = reference.meta.get(key)
    if value is None:
        raise MetricError(f"lfem needs meta[{key!r}] of every example; {reference.id or 'one'} has none.")
    return value


def _execute(predicted: LogicalForm | None, gold: LogicalForm, meta: Mapping[str, Any]) -> tuple[bool, bool]:
    """Run both queries: (the gold one could be run, the predicted one finds the same values)."""
    if not meta.get("rows"):
        return (False, False)
    table = Table(meta["rows"], meta.get("types"))
    try:
        wanted = table.run(gold)
        right = predicted is not None and wanted is not None and table.run(predicted) == wanted
    finally:
        table.close()
    return (wanted is not None, right)


def _score(totals: Totals) -> Scores:
    scores = {name: percent(totals[name], totals["n"]) for name in _SHARES}
    if any_nonzero(totals["n_executed"]):
        scores["execution"] = percent(totals["executed_right"], totals["n_executed"])
    return scores


LFEM = Metric(
    name="lfem",
    definition="Share of queries whose (select, aggregate, ordered conditions) equal the gold form.",
    source="Zhong et al. 2017; decaNLP 2018 (lfEM)",
    signature="lfem|case:lower|parser:decanlp2018|conditions:ordered|v:1",
    columns=("n", *_SHARES, "n_executed", "executed_right"),
    headline="lfem",
    statistics=per_example(_row),
    score=_score,
)


# The same after normalisation: what a person, or a database, reads in a query that is written as SQL usually is

_LONGEST_QUERY = 10_000
"""Characters; queries of WikiSQL have a few hundred at most."""
_OPEN, _CLOSE = r"[\"'`\[]?", r"[\"'`\]]?"
_QUOTE_PAIRS = (("'", "'"), ('"', '"'), ("`", "`"), ("\u2018", "\u2019"), ("\u201c", "\u201d"))


def read_normalised(text: str, header: Sequence[str]) -> LogicalForm | None:
    """Parse a query in which columns, the table and values may be quoted and aggregators have parentheses.

    Case, spacing and a final semicolon do not matter. Raises nothing: None for anything else.
    """
    line, names = _on_one_line(text), tuple(map(_on_one_line, header))
    if len(line) > _LONGEST_QUERY:
        return None
    patterns = (_selection_pattern(names, kind) for kind in _SELECTIONS)
    found = next((match for pattern in patterns if (match := pattern.fullmatch(line))), None)
    if found is None:
        return None
    parts = found.groupdict()
    conditions, position, rest = list[_Condition](), 0, parts["conditions"] or ""
    while position < len(rest):
        match = _condition_pattern(names).match(rest, position)
        if match is None:
            return None
        operator = OPERATORS.index("=" if match["operator"] == "==" else match["operator"])
        conditions.append((_find_column(match["column"], names), operator, _bare(match["value"])))
        position = match.end()
    aggregator = AGGREGATORS.index(parts.get("aggregator") or "")
    return LogicalForm(_find_column(parts["column"], names), aggregator, tuple(conditions))


def _on_one_line(text: str) -> str:
    return " ".join(text.lower().split())


_AGGREGATOR = f"(?P<aggregator>{'|'.join(filter(None, AGGREGATORS))})"
_SELECTIONS = ("{column}", rf"{_AGGREGATOR} ?\( ?{{column}} ?\)", f"{_AGGREGATOR} {{column}}")
"""What may stand between `select` and `from`; the first that fits counts."""


def _column_pattern(names: Sequence[str]) -> str:
    longest_first = sorted(filter(None, names), key=len, reverse=True)
    return f"{_OPEN}(?P<column>{'|'.join(map(re.escape, longest_first)) or '(?!)'}){_CLOSE}"


# Compiling a pattern takes a hundred times as long as matching it, so each is made when a query first needs it.


@lru_cache(maxsize=128)
def _selection_pattern(names: tuple[str, ...], kind: str) -> re.Pattern[str]:
    """Make the pattern of a whole query."""
    tail = rf" from {_OPEN}[\w.]+{_CLOSE}(?: where (?P<conditions>.+?))?(?: ?;)?"
    return re.compile(f"select {kind.replace('{column}', _column_pattern(names))}{tail}")


@lru_cache(maxsize=64)
def _condition_pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Make the pattern of a condition, with the `and` after it."""
    column = _column_pattern(names)
    other = column.replace("(?P<column>", "(?:")
    operator = r" ?(?P<operator>==|[=<>]| op ) ?"
    return re.compile(
        rf"(?P<open>\()?{column}{operator}(?P<value>.+?)(?(open)\))(?: and (?=\(?{other} ?(?:[=<>]|op ))|$)"
    )


def _bare(value: str) -> str:
    """Return a value on one line, without the quotation marks around it."""
    text = _on_one_line(value)
    for start, end in _QUOTE_PAIRS:
        inner = text[len(start) : len(text) - len(end)].strip()
        if inner and text.startswith(start) and text.endswith(end):
            return _bare(inner.replace("''", "'") if start == "'" else inner)  # `'"Hell"'` has two pairs
    return text


def _is_same_normalised(text: str, header: Sequence[str], gold: LogicalForm) -> bool:
    """Return whether a query reads as the gold form. One that lacks a gold column or value is not parsed."""
    line = _on_one_line(text)
    bare = tuple((column, operator, _bare(value)) for column, operator, value in gold.conditions)
    columns = (gold.select, *(column for column, _, _ in bare))
    parts = [_on_one_line(header[at]) for at in columns if isinstance(at, int) and 0 <= at < len(header)]
    if "''" not in line:  # which stands for one quotation mark of a value
        parts += (value for _, _, value in bare)
    return all(part in line for part in parts) and read_normalised(text, header) == replace(
        gold, conditions=bare
    )


def _normalised_row(prediction: str, reference: Reference) -> Row:
    gold = LogicalForm.from_sql(_require(reference, "sql"))
    header = _require(reference, "header")
    same = (
        parse_query(prediction, header) == gold
        or prediction.lower().split() == reference.answers[0].lower().split()
        or _is_same_normalised(prediction, header, gold)
    )
    return (1.0, float(same))


def _normalised_score(totals: Totals) -> Scores:
    return {"lfem_normalised": percent(totals["lfem_normalised"], totals["n"])}


LFEM_NORMALISED = Metric(
    name="lfem_normalised",
    definition="lfem that also reads quoted columns and values, COUNT(column), and any case and spacing.",
    source="beside the official lfEM, for models that write SQL as databases take it",
    signature="lfem_normalised|case:lower|quotes:dropped|calls:read|conditions:ordered|v:1",
    columns=("n", "lfem_normalised"),
    headline="lfem_normalised",
    statistics=per_example(_normalised_row),
    score=_normalised_score,
)


def lfem(
    predictions: Sequence[str],
    references: Sequence[Any],
    tables: Sequence[Mapping[str, Any]] | None = None,
) -> Score:
    """Logical form exact match, 0-100, of WikiSQL queries (Zhong et al. 2017; decaNLP 2018): 100 * right / n.

    A query is right if select, aggregate and ordered conditions equal the gold form. References are gold query
    texts, with the {sql, header} of each (and types, rows) in `tables`, or lists of one {sql, header, answer}.
    `details` also has lfem_unordered (conditions in any order); lfem_corrected (also right if the text equals the
    gold text: three gold queries of the test set cannot be parsed back); and, if tables have rows, execution:
    the share of queries that find the same values as the gold query.
    Raises MetricError for an example without its form or header.
    """
    if tables is None:
        return evaluate(LFEM, predictions, [_gold_item(reference) for reference in references])
    return evaluate(LFEM, predictions, items(references, meta=tables))


def _gold_item(reference: Any) -> Item:
    gold = reference[0] if isinstance(reference, list | tuple) and len(reference) == 1 else reference
    if not isinstance(gold, Mapping) or "answer" not in gold:
        raise MetricError(
            f"Without tables= a reference must be [{{sql, header, answer}}]; given {reference!r}."
        )
    # In WikiSQL's own files the table has rows and types beside the header.
    return Item([gold["answer"]], meta={**gold.get("table", {}), **gold})
