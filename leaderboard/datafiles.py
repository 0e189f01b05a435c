"""Data that a page's scripts read: classic script files, because browsers do not fetch JSON from `file://`.

Such a file hands one string of JSON to the site's registry. The string is ASCII without `<`, so that nothing in it can
end a script element, and it is parsed as JSON, so that no key in it can mean anything to the language.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from decabench.leaderboard.board import Row, Table, TaskColumn
from decabench.leaderboard.evidence import Evidence, standard_errors
from decabench.leaderboard.examples import TaskExamples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["compare_data", "examples_data", "histogram", "script", "task_data"]

BINS = 10


def script(name: str, value: object) -> bytes:
    """The file that gives `value` to the registry under `name`."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return f"decabench.put({_literal(name)},{_literal(text)});\n".encode("ascii")


def _literal(text: str) -> str:
    """A string literal of JavaScript."""
    return json.dumps(text, ensure_ascii=True).replace("<", "\\u003c").replace(">", "\\u003e")


def examples_data(examples: Mapping[str, TaskExamples]) -> dict[str, Any]:
    """What the page of a submission fetches when it is asked."""
    return {task: {"examples": list(of.shown), "why": of.why} for task, of in examples.items()}


def compare_data(
    tables: Sequence[Table], tasks: Sequence[TaskColumn], pages: Mapping[str, str], evidence: Evidence
) -> dict[str, Any]:
    """Every table with its rows and the standard errors of all differences."""
    return {
        "tasks": [{"name": task.name, "title": task.title, "metric": task.metric} for task in tasks],
        "tables": [_compared(table, tasks, pages, evidence) for table in tables],
    }


def _compared(
    table: Table, tasks: Sequence[TaskColumn], pages: Mapping[str, str], evidence: Evidence
) -> dict[str, Any]:
    rows = [*table.rows, *table.floors, *table.ceilings]
    return {
        "id": table.id,
        "split": table.split,
        "heading": table.heading,
        "of": 100 * table.counted,
        "rows": [_row(row, pages) for row in rows],
        "errors": {task.name: _triangle(_systems(rows, task.name, evidence)) for task in tasks},
    }


def _row(row: Row, pages: Mapping[str, str]) -> dict[str, Any]:
    return {
        "page": pages[row.entry.path],
        "name": row.entry.name,
        "mark": row.mark,
        "total": row.value,
        "interval": row.interval,
        "scores": [cell.value for cell in row.cells],
        "intervals": [task.interval if task else None for task in map(row.entry.tasks.get, _names(row))],
    }


def _names(row: Row) -> list[str]:
    return [cell.task for cell in row.cells]


def _systems(rows: Sequence[Row], task: str, evidence: Evidence) -> list[Any]:
    return [evidence.of(row.entry, task) for row in rows]


def _triangle(systems: Sequence[Any]) -> list[float | None] | None:
    """The errors of pairs (0,1), (0,2), (1,2), (0,3) ...: the lower triangle by rows."""
    if not any(systems):
        return None
    errors = standard_errors(systems)
    return [errors[row][column] for row in range(len(systems)) for column in range(row)]


def task_data(
    task: str, tables: Sequence[Table], pages: Mapping[str, str], evidence: Evidence
) -> dict[str, Any]:
    """The score distribution of every system with statistics, by table."""
    found: dict[str, Any] = {}
    for table in tables:
        rows = [*table.rows, *table.floors, *table.ceilings]
        systems = [(row, evidence.of(row.entry, task)) for row in rows]
        found[table.id] = [
            {"page": pages[row.entry.path], "name": row.entry.name, **histogram(of.scores)}
            for row, of in systems
            if of is not None
        ]
    return found


def histogram(scores: Sequence[float] | Array) -> dict[str, Any]:
    """Counts of scores from 0 to 100 in ten bins, 100 in the last, and how many had no score."""
    import numpy as np

    given = np.asarray(scores, dtype=float)
    finite = given[np.isfinite(given)]
    places = np.clip((finite * BINS / 100 + 1e-6).astype(int), 0, BINS - 1)
    bins = np.bincount(places, minlength=BINS).tolist()
    return {"bins": bins, "n": len(given), "unscored": len(given) - len(finite)}
