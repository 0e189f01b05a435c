"""Runs a logical form over the rows of its table, as WikiSQL's DBEngine does, in SQLite in memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._logical_form import AGGREGATORS, OPERATORS, LogicalForm

if TYPE_CHECKING:
    import sqlite3

__all__ = ["Table"]

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
