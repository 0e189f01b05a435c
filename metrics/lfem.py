"""Logical form exact match (lfEM) of text-to-SQL, and execution accuracy where the table has rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from ._numeric import any_nonzero, percent
from .base import Item, Metric, MetricError, Reference, Row, Score, Scores, Totals, evaluate, items

if TYPE_CHECKING:
    import sqlite3

__all__ = ["AGGREGATORS", "LFEM", "OPERATORS", "LogicalForm", "Table", "from_sql", "lfem", "parse"]

# ---- _logical_form

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


# ---- _execution

_NUMBER = re.compile(r"[-+]?\d*\.\d+|\d+")


class Table:
    """One table with its rows: text lower-cased, numbers in `real` columns."""

    def __init__(self, rows: Sequence[Sequence[Any]], types: Sequence[str] | None = None) -> None:
        """Without `types` a column is `real` where every cell is a number, else `text`."""
        import sqlite3

        self.types = list(types) if types else [_type(column) for column in zip(*rows, strict=True)]
        self.database: sqlite3.Connection = sqlite3.connect(":memory:")
        columns = ", ".join(
            f"col{i} {'REAL' if kind == 'real' else 'TEXT'}" for i, kind in enumerate(self.types)
        )
        self.database.execute(f"CREATE TABLE cells ({columns})")
        places = ", ".join("?" for _ in self.types)
        cells = [[self._cell(i, cell) for i, cell in enumerate(row)] for row in rows]
        self.database.executemany(f"INSERT INTO cells VALUES ({places})", cells)

    def close(self) -> None:
        self.database.close()

    def run(self, form: LogicalForm) -> list[Any] | None:
        """The values that the query finds, None where it cannot be run."""
        import sqlite3

        try:
            query, values = self._query(form)
            return [found for (found,) in self.database.execute(query, values)]
        except (sqlite3.Error, IndexError, ValueError, OverflowError):
            return None

    def _query(self, form: LogicalForm) -> tuple[str, dict[str, Any]]:
        """The statement and its values. As in DBEngine, a column's last value overrules its earlier ones."""
        if form.select is None:
            raise ValueError("no column")
        values = {f"col{column}": self._value(column, value) for column, _, value in form.conditions}
        tests = [f"col{column} {OPERATORS[operator]} :col{column}" for column, operator, _ in form.conditions]
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        return f"SELECT {AGGREGATORS[form.aggregator]}(col{form.select}) FROM cells{where}", values

    def _value(self, column: int, text: str) -> str | float:
        """A condition's value: in a `real` column the number, or the text's first (IndexError if none)."""
        if self.types[column] != "real":
            return text
        number = _number(text)
        return float(_NUMBER.findall(text)[0]) if number is None else number

    def _cell(self, column: int, cell: Any) -> Any:
        number = _number(cell) if self.types[column] == "real" else None
        return str(cell).lower() if number is None else number


def _number(value: Any) -> float | None:
    try:
        return float(str(value).replace(",", ""))
    except ValueError:
        return None


def _type(cells: Sequence[Any]) -> str:
    return "real" if all(isinstance(cell, int | float) for cell in cells) else "text"


# ---- lfem

SHARES = ("lfem", "lfem_unordered", "lfem_corrected")
COLUMNS = ("n", *SHARES, "n_executed", "executed_right")


def row(prediction: str, reference: Reference) -> Row:
    gold = from_sql(_required(reference, "sql"))
    predicted = parse(prediction, _required(reference, "header"))
    same = predicted == gold
    unordered = predicted is not None and predicted.equals_unordered(gold)
    same_text = prediction.lower().split() == reference.answers[0].lower().split()
    executed, right = execution(predicted, gold, reference.meta)
    return tuple(map(float, (1, same, unordered, same or same_text, executed, right)))


def _required(reference: Reference, key: str) -> Any:
    value = reference.meta.get(key)
    if value is None:
        raise MetricError(f"lfem needs meta[{key!r}] of every example; {reference.id or 'one'} has none.")
    return value


def execution(predicted: LogicalForm | None, gold: LogicalForm, meta: Mapping[str, Any]) -> tuple[bool, bool]:
    """(the gold query could be run, the prediction finds the same values)."""
    if not meta.get("rows"):
        return (False, False)
    table = Table(meta["rows"], meta.get("types"))
    try:
        wanted = table.run(gold)
        right = predicted is not None and wanted is not None and table.run(predicted) == wanted
    finally:
        table.close()
    return (wanted is not None, right)


def statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    return [row(text, reference) for text, reference in zip(predictions, references, strict=True)]


def score(totals: Totals) -> Scores:
    scores = {name: percent(totals[name], totals["n"]) for name in SHARES}
    if any_nonzero(totals["n_executed"]):
        scores["execution"] = percent(totals["executed_right"], totals["n_executed"])
    return scores


LFEM = Metric(
    name="lfem",
    definition="Share of queries whose (select, aggregate, ordered conditions) equal the gold form.",
    source="Zhong et al. 2017; decaNLP 2018 (lfEM)",
    signature="lfem|case:lower|parser:decanlp2018|conditions:ordered|v:1",
    columns=COLUMNS,
    headline="lfem",
    statistics=statistics,
    score=score,
)


def lfem(
    predictions: Sequence[str],
    references: Sequence[Any],
    tables: Sequence[Mapping[str, Any]] | None = None,
) -> Score:
    """Logical form exact match, 0-100, of WikiSQL queries (Zhong et al. 2017, as decaNLP 2018 counts it).

    References are gold query texts with `tables` giving each {sql, header} (and types, rows), or lists of one
    {sql, header, answer}. `details` also has lfem_unordered (conditions in any order), lfem_corrected (right
    too where the text equals the gold text: three gold queries of the test set cannot be read back), and,
    where there are rows, execution: the share that finds the same values as the gold query.
    Raises MetricError for an example without its form or header.
    """
    if tables is None:
        return evaluate(LFEM, predictions, [gold_item(reference) for reference in references])
    return evaluate(LFEM, predictions, items(references, meta=tables))


def gold_item(reference: Any) -> Item:
    gold = reference[0] if isinstance(reference, list | tuple) and len(reference) == 1 else reference
    if not isinstance(gold, Mapping) or "answer" not in gold:
        raise MetricError(f"Without tables= a reference is [{{sql, header, answer}}]; given {reference!r}.")
    # The table of WikiSQL's own files holds rows and types beside the header.
    return Item([gold["answer"]], meta={**gold.get("table", {}), **gold})
