"""Metrics for text-to-SQL: logical form exact match (lfEM), and execution accuracy if tables have rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

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
    show_value,
)

if TYPE_CHECKING:
    import sqlite3

AGGREGATORS = ("", "max", "min", "count", "sum", "avg")
OPERATORS = ("=", ">", "<", "op")
_COLUMN_AND_OPERATOR = re.compile(r"(Col\d+ Cond\d+)")

_Condition = tuple[Any, ...]
"""A condition: (column, operator, value). Only misread queries have tuples of other lengths."""


class LogicalForm(NamedTuple):
    """The logical form of a WikiSQL query."""

    select: int | None
    """The index of the selected column; None if the text names no column."""
    aggregator: int
    """An index into AGGREGATORS."""
    conditions: tuple[_Condition, ...]
    """The conditions, in the order in which the query lists them."""

    @classmethod
    def from_sql(cls, sql: Mapping[str, Any]) -> LogicalForm:
        """Read WikiSQL's `{sel, agg, conds: [[column, operator, value]]}`, lowercasing values.

        Raises MetricError if the mapping doesn't have this form.
        """
        try:
            conditions = [(column, operator, str(value).lower()) for column, operator, value in sql["conds"]]
            return cls(sql["sel"], sql["agg"], tuple(conditions))
        except (KeyError, TypeError, ValueError):
            raise MetricError(
                f"A WikiSQL form must look like {{sel, agg, conds: [[column, operator, value]]}}, but got "
                f"{show_value(sql)}."
            ) from None

    def equals_unordered(self, other: LogicalForm) -> bool:
        """Return whether two forms are equal, ignoring the order of conditions."""
        same = (self.select, self.aggregator) == (other.select, other.aggregator)
        return same and Counter(self.conditions) == Counter(other.conditions)


def parse_query(text: str, header: Sequence[str]) -> LogicalForm | None:
    """Parse a query over a table's columns, ignoring case, or return None if it can't be parsed.

    Two bugs of decaNLP 2018's parser are reproduced: it finds `where` inside words, and column names inside values.
    """
    names = [name.lower() for name in header]
    selection, where, conditions = text.lower().partition("where")
    try:
        select, aggregator = _read_selection(selection.split()[1:-2], names)
        return LogicalForm(select, aggregator, _read_conditions(conditions, names) if where else ())
    except (KeyError, IndexError, ValueError):
        return None


def _read_selection(words: Sequence[str], names: Sequence[str]) -> tuple[int | None, int]:
    """Read (column, aggregator) from the words between `select` and `from table`.

    Raises KeyError if the words are not a column and don't start with an aggregator, and IndexError if there are no
    words.
    """
    whole = _find_column(" ".join(words), names)
    if whole is not None:
        return whole, 0
    if words[0] not in AGGREGATORS:
        raise KeyError(words[0])
    return _find_column(" ".join(words[1:]), names), AGGREGATORS.index(words[0])


def _find_column(name: str, names: Sequence[str]) -> int | None:
    """Return the index of the last column with this name, or None if there is no such column."""
    return len(names) - 1 - names[::-1].index(name) if name in names else None


def _read_conditions(text: str, names: Sequence[str]) -> tuple[_Condition, ...]:
    marked = f" {text} "
    named = [(index, name) for index, name in enumerate(names) if name in marked]
    for index, name in sorted(named, key=lambda column: len(column[1]), reverse=True):
        marked = marked.replace(f" {name} ", f" Col{index} ")
    marked = " ".join([_MARKS.get(word, word) for word in marked.split()])
    pieces = [piece for piece in _COLUMN_AND_OPERATOR.split(marked) if piece.strip()]
    read = []
    for heads, values in zip_longest(pieces[::2], pieces[1::2]):
        column, operator = heads.split()[:2]
        condition: _Condition = (int(column.replace("Col", "")), int(operator.replace("Cond", "")))
        read.append(condition if values is None else (*condition, _read_value(values, names)))
    return tuple(read)


_MARKS = {operator: f"Cond{index}" for index, operator in enumerate(OPERATORS)}


def _read_value(text: str, names: Sequence[str]) -> str:
    """Return a condition's value without the `and` that joins it to the next condition.

    Placeholders such as `Col2` and `Cond0` are replaced with the original words.
    """
    words = text.split()
    if words[-1] == "and":
        words.pop()
    if "Col" in text:
        words = [_unmark(word, "Col", names) for word in words]
    value = " ".join(words)
    if "Cond" not in value:
        return value
    return " ".join(_unmark(word, "Cond", OPERATORS) for word in value.split())


def _unmark(word: str, mark: str, texts: Sequence[str]) -> str:
    return texts[int(word.replace(mark, ""))] if mark in word else word


_NUMBER = re.compile(r"[-+]?\d*\.\d+|\d+")


class Table:
    """An SQLite table with lowercased text. Without `types`, a column is `real` if it contains only numbers."""

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
        """Run a query, and return its results, or None if it can't be executed."""
        import sqlite3

        try:
            query, values = self._query(form)
            return [found for (found,) in self.database.execute(query, values)]
        except (sqlite3.Error, IndexError, ValueError, OverflowError):
            return None

    def _query(self, form: LogicalForm) -> tuple[str, dict[str, Any]]:
        """Return an SQL statement and its values.

        If a column has several conditions, they all use the last condition's value, as in WikiSQL's DBEngine.
        """
        if form.select is None:
            raise ValueError("no column")
        values = {f"col{column}": self._value(column, value) for column, _, value in form.conditions}
        tests = [f"col{column} {OPERATORS[operator]} :col{column}" for column, operator, _ in form.conditions]
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        return f"SELECT {AGGREGATORS[form.aggregator]}(col{form.select}) FROM cells{where}", values

    def _value(self, column: int, text: str) -> str | float:
        """Return a condition's value: the text itself or, for a `real` column, the number in it.

        If the text is not a number, its first number is used. Raises IndexError if it contains no number.
        """
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
    gold, header = LogicalForm.from_sql(_require(reference, "sql")), _require(reference, "header")
    line, answer = _on_one_line(prediction), _on_one_line(reference.answers[0])
    is_possible = line == answer or (_has_columns(line, header, gold) and _has_values(line, gold))
    predicted = parse_query(prediction, header) if is_possible or reference.meta.get("rows") else None
    same = predicted == gold
    unordered = same or (predicted is not None and predicted.equals_unordered(gold))
    corrected = same or line == answer
    executed, right = _execute(predicted, gold, reference.meta)
    return (1.0, float(same), float(unordered), float(corrected), float(executed), float(right))


# A query that lacks a column or value of the gold form can't be right. It is not parsed, because parsing takes far
# longer.


def _has_columns(line: str, header: Sequence[str], gold: LogicalForm) -> bool:
    for at in (gold.select, *[column for column, _, _ in gold.conditions]):
        if isinstance(at, int) and 0 <= at < len(header) and _on_one_line(header[at]) not in line:
            return False
    return True


def _has_values(line: str, gold: LogicalForm) -> bool:
    return all([_on_one_line(value) in line for _, _, value in gold.conditions])


def _require(reference: Reference, key: str) -> Any:
    value = reference.meta.get(key)
    if value is None:
        raise MetricError(
            f"lfem requires meta[{key!r}] for every example, but it is missing for {reference.id or 'an example'}."
        )
    return value


def _execute(predicted: LogicalForm | None, gold: LogicalForm, meta: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return whether the gold query can be executed, and whether the predicted query returns the same values."""
    if not meta.get("rows"):
        return (False, False)
    table = Table(meta["rows"], meta.get("types"))
    try:
        wanted = table.run(gold)
        right = predicted is not None and wanted is not None and table.run(predicted) == wanted
    finally:
        table.close()
    return (wanted is not None, right)


def _find_fault(reference: Reference) -> str:
    """Describe the fault of a gold query that isn't parsed into its gold form.

    Returns an empty string for other queries. Faulty queries are still scored, as in decaNLP 2018.
    """
    read = parse_query(reference.answers[0], _require(reference, "header"))
    return "" if read == LogicalForm.from_sql(_require(reference, "sql")) else _UNREADABLE


_UNREADABLE = (
    "a query that does not parse to its logical form in meta['sql']. Values can't contain the name of a column, and "
    "column names can't contain `where`"
)


def _score(totals: Totals) -> Scores:
    scores = {name: percent(totals[name], totals["n"]) for name in _SHARES}
    if any_nonzero(totals["n_executed"]):
        scores["execution"] = percent(totals["executed_right"], totals["n_executed"])
    return scores


LFEM = Metric(
    name="lfem",
    definition="Share of queries with the gold query's column, aggregator and conditions, in the same order.",
    source="Zhong et al. 2017; decaNLP 2018 (lfEM)",
    signature="lfem|case:lower|parser:decanlp2018|conditions:ordered|v:1",
    columns=("n", *_SHARES, "n_executed", "executed_right"),
    headline="lfem",
    statistics=per_example(_row),
    score=_score,
    find_fault=_find_fault,
    reads="sql",
)


# Logical form exact match for queries in ordinary SQL

_LONGEST_QUERY = 10_000
"""The maximum length of a query in characters. WikiSQL's queries have a few hundred at most."""
_OPENING, _CLOSING = tuple("\"'`["), tuple("\"'`]")
_QUOTE_PAIRS = (("'", "'"), ('"', '"'), ("`", "`"), ("\u2018", "\u2019"), ("\u201c", "\u201d"))
_QUOTES = tuple(start for start, _ in _QUOTE_PAIRS)


def read_normalised(text: str, header: Sequence[str]) -> LogicalForm | None:
    """Parse a query in ordinary SQL, with optional quotes and parentheses, or return None if it can't be parsed."""
    line, names = _on_one_line(text), [_on_one_line(name) for name in header]
    if len(line) > _LONGEST_QUERY:
        return None
    longest_first = sorted(filter(None, names), key=len, reverse=True)
    selected = _select(line, longest_first)
    if selected is None:
        return None
    aggregator, column, rest = selected
    conditions, position = list[_Condition](), 0
    while position < len(rest):
        found = _find_condition(rest, position, longest_first)
        if found is None:
            return None
        name, operator, value, position = found
        conditions.append((_find_column(name, names), OPERATORS.index(operator), _bare(value)))
    return LogicalForm(_find_column(column, names), AGGREGATORS.index(aggregator), tuple(conditions))


def _on_one_line(text: str) -> str:
    return " ".join(text.lower().split())


# Columns are tried one by one, because compiling a pattern of their names takes a hundred times longer than parsing.

_NAMES = "|".join(filter(None, AGGREGATORS))


@cache  # compiled on first use
def _selections() -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    """Return pairs of patterns for the text before and after a selected column, in the order to try them.

    The first pattern of each pair has a group for the aggregator.
    """
    return (
        (re.compile("select ()"), re.compile("")),
        (re.compile(rf"select ({_NAMES}) ?\( ?"), re.compile(r" ?\)")),
        (re.compile(f"select ({_NAMES}) "), re.compile("")),
    )


_FROM = r" from [\"'`\[]?[\w.]+[\"'`\]]?(?: where (.+?))?(?: ?;)?"
_BEFORE_VALUE = (("==", "="), *((operator, operator) for operator in "=<>"), (" op ", "op"))
"""The ways to write an operator before a value, each with the operator's name in OPERATORS."""


def _select(line: str, names: Sequence[str]) -> tuple[str, str, str] | None:
    end_of_query = re.compile(_FROM)
    for opening, closing in _selections():
        if begun := opening.match(line):
            for column, end in _columns_at(line, begun.end(), names):
                closed = closing.match(line, end)
                if closed and (found := end_of_query.fullmatch(line, closed.end())):
                    return begun[1], column, found[1] or ""
    return None


def _columns_at(text: str, start: int, names: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield (column, end index) for each column whose name may begin at `start`.

    The name may be in quotes.
    """
    for inner in (start + 1, start) if text.startswith(_OPENING, start) else (start,):
        for name in names:
            if text.startswith(name, inner):
                end = inner + len(name)
                if text.startswith(_CLOSING, end):
                    yield name, end + 1
                yield name, end


def _find_condition(text: str, start: int, names: Sequence[str]) -> tuple[str, str, str, int] | None:
    for bracket in (1, 0) if text.startswith("(", start) else (0,):
        for column, end in _columns_at(text, start + bracket, names):
            for operator, begin in _operators_at(text, end):
                found = _find_value_end(text, begin, bracket, names)
                if found is not None:
                    return column, operator, text[begin : found[0]], found[1]
    return None


def _operators_at(text: str, start: int) -> Iterator[tuple[str, int]]:
    for begin in (start + 1, start) if text.startswith(" ", start) else (start,):
        for written, operator in _BEFORE_VALUE:
            if text.startswith(written, begin):
                end = begin + len(written)
                if text.startswith(" ", end):
                    yield operator, end + 1
                yield operator, end


def _find_value_end(text: str, begin: int, bracket: int, names: Sequence[str]) -> tuple[int, int] | None:
    """Return the index at which a value ends, and the index at which the next condition starts.

    A value ends at the first `and` that is followed by a condition, or at the end of the text.
    """
    stop = begin
    while stop < len(text):
        stop = text.find(" and ", stop + 1)
        if stop == -1:
            stop = len(text)
        elif not _starts_condition(text, stop + len(" and "), names):
            continue
        end = stop - bracket
        if end > begin and text.startswith(")" * bracket, end):
            return end, min(stop + len(" and "), len(text))
    return None


def _starts_condition(text: str, start: int, names: Sequence[str]) -> bool:
    for inner in (start + 1, start) if text.startswith("(", start) else (start,):
        for _, end in _columns_at(text, inner, names):
            if text.startswith((" =", " <", " >", "=", "<", ">", " op ", "op "), end):
                return True
    return False


def _bare(value: str) -> str:
    text = _on_one_line(value)
    if not text.startswith(_QUOTES):
        return text
    for start, end in _QUOTE_PAIRS:
        inner = text[len(start) : len(text) - len(end)].strip()
        if inner and text.startswith(start) and text.endswith(end):
            return _bare(inner.replace("''", "'") if start == "'" else inner)  # `'"Hell"'` has two pairs
    return text


def _is_same_normalised(text: str, header: Sequence[str], gold: LogicalForm) -> bool:
    line = _on_one_line(text)
    if not _has_columns(line, header, gold):
        return False
    if _has_values(line, gold) and parse_query(text, header) == gold:
        return True
    bare = tuple((column, operator, _bare(value)) for column, operator, value in gold.conditions)
    # A doubled quote is an escaped quote.
    if "''" not in line and not all(value in line for _, _, value in bare):
        return False
    return read_normalised(text, header) == gold._replace(conditions=bare)


def _normalised_row(prediction: str, reference: Reference) -> Row:
    sql, header = _require(reference, "sql"), _require(reference, "header")
    same = _on_one_line(prediction) == _on_one_line(reference.answers[0])
    return (1.0, float(same or _is_same_normalised(prediction, header, LogicalForm.from_sql(sql))))


def _find_normalised_fault(reference: Reference) -> str:
    gold = LogicalForm.from_sql(_require(reference, "sql"))
    fault = _find_fault(reference)
    same = fault and _is_same_normalised(reference.answers[0], _require(reference, "header"), gold)
    return "" if same else fault


def _normalised_score(totals: Totals) -> Scores:
    return {"lfem_normalised": percent(totals["lfem_normalised"], totals["n"])}


LFEM_NORMALISED = Metric(
    name="lfem_normalised",
    definition="Like lfem, but also accepts ordinary SQL: quoted columns and values, COUNT(column), and any case and "
    "spacing.",
    source="a variant of the official lfEM for models that write ordinary SQL",
    signature="lfem_normalised|case:lower|quotes:dropped|calls:read|conditions:ordered|v:1",
    columns=("n", "lfem_normalised"),
    headline="lfem_normalised",
    statistics=per_example(_normalised_row),
    score=_normalised_score,
    find_fault=_find_normalised_fault,
    reads="sql",
)


def lfem(
    predictions: Iterable[str], references: Iterable[Any], tables: Iterable[Mapping[str, Any]] | None = None
) -> Score:
    """Compute logical form exact match, the percentage of WikiSQL queries that equal the gold form.

    A query is right if its selected column, aggregator and ordered conditions equal the gold form
    (Zhong et al. 2017; decaNLP 2018). Pass gold queries as `references`, with a mapping for each in
    `tables`: {sql, header}, and optionally types and rows. Without `tables`, each reference is a list
    with a single {sql, header, answer}.

    `details` also has two variants of the score: lfem_unordered ignores the order of conditions, and
    lfem_corrected also accepts the text of the gold query, because three gold queries of the test set
    can't be parsed. If tables have rows, `details` also has execution: of the examples whose gold query
    can be executed, the percentage for which the predicted query returns the same values. Raises
    MetricError for an example without a form or header.
    """
    if tables is None:
        return evaluate(LFEM, predictions, [_gold_item(reference) for reference in references])
    return evaluate(LFEM, predictions, items(references, meta=tables))


def _gold_item(reference: Any) -> Item:
    gold = reference[0] if isinstance(reference, list | tuple) and len(reference) == 1 else reference
    if not isinstance(gold, Mapping) or "answer" not in gold:
        raise MetricError(
            f"Without tables=, each reference must have the form [{{sql, header, answer}}], but got "
            f"{show_value(reference)}."
        )
    # WikiSQL's own files have rows and types next to the header.
    return Item([gold["answer"]], meta={**gold.get("table", {}), **gold})
