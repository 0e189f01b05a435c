"""The board as CSV and JSON, for other programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from decabench.leaderboard.evidence import Evidence, standard_errors
from decabench.leaderboard.examples import TaskExamples
from decabench.leaderboard.ranking import Row, Table, TaskColumn
from decabench.tasks import DECATHLON

__all__ = ["csv_text", "json_text"]

# ---- datafiles

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


# ---- export

FORMAT = "decabench.board/1"

_ABOUT = (
    "board", "split", "kind", "rank", "rank_group", "state", "name", "total", "total_low", "total_high",
    "model_size", "date", "open_weights", "page",
)  # fmt: skip


def csv_text(tables: Sequence[Table], tasks: Sequence[TaskColumn], pages: Mapping[str, str]) -> str:
    """One line a submission. A text that a spreadsheet would take for a formula starts with an apostrophe."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    per_task = [name for task in tasks for name in (task.name, f"{task.name}_low", f"{task.name}_high")]
    writer.writerow([*_ABOUT, *per_task])
    for table, kind, row in _rows(tables):
        about = _about(table, kind, row, pages)
        scores = [value for task in tasks for value in _score(row, task.name)]
        writer.writerow([_cell(about[name]) for name in _ABOUT] + [_cell(value) for value in scores])
    return file.getvalue()


def json_text(tables: Sequence[Table], tasks: Sequence[TaskColumn], pages: Mapping[str, str]) -> str:
    """Everything in the tables, and the published rows apart."""
    submissions = []
    for table, kind, row in _rows(tables):
        scores = {task.name: _json_score(row, task.name) for task in tasks}
        submissions.append(
            {
                **_about(table, kind, row, pages),
                "authors": list(row.entry.authors),
                "url": row.entry.url,
                "results": row.entry.path,
                "tasks": scores,
            }
        )
    reported = [
        {"name": row.name, "training": row.training, "decascore": row.total, "scores": dict(row.scores)}
        for row in DECATHLON.published
    ]
    content = {
        "format": FORMAT,
        "submissions": submissions,
        "reported_not_verified": {"source": DECATHLON.source, "rows": reported},
    }
    return json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True, allow_nan=False) + "\n"


def _rows(tables: Sequence[Table]) -> list[tuple[Table, str, Row]]:
    kinds = [
        (table, kind, rows)
        for table in tables
        for kind, rows in (("system", table.rows), ("floor", table.floors), ("ceiling", table.ceilings))
    ]
    return [(table, kind, row) for table, kind, rows in kinds for row in rows]


def _about(table: Table, kind: str, row: Row, pages: Mapping[str, str]) -> dict[str, Any]:
    low, high = row.interval or (None, None)
    return {
        "board": table.id,
        "split": table.split,
        "kind": kind,
        "rank": row.rank,
        "rank_group": row.group,
        "state": row.state.name.lower(),
        "name": row.entry.name,
        "total": row.value,
        "total_low": low,
        "total_high": high,
        "model_size": row.entry.model_size,
        "date": row.entry.date,
        "open_weights": row.entry.open_weights,
        "page": f"submissions/{pages[row.entry.path]}.html",
    }


def _score(row: Row, task: str) -> tuple[float | None, float | None, float | None]:
    result = row.entry.tasks.get(task)
    if result is None or result.score is None:
        return None, None, None
    low, high = result.interval or (None, None)
    return result.score, low, high


def _json_score(row: Row, task: str) -> dict[str, Any]:
    result = row.entry.tasks.get(task)
    if result is None:
        return {"status": "missing"}
    if result.limited is not None:
        return {"status": "partial", **asdict(result.limited)}
    if result.score is None:
        return {"status": "failed", "reason": result.reason}
    found = {"status": "scored", "score": result.score, "interval": result.interval, "n": result.n}
    return {**found, "signature": result.signature, "fingerprint": result.fingerprint}


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, str) and value.lstrip().startswith(("=", "+", "-", "@")):
        return f"'{value}"
    return value
