"""The board as CSV and JSON, for other programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from decabench.leaderboard.board import Row, Table, TaskColumn
from decabench.leaderboard.published import PUBLISHED, SOURCE

__all__ = ["csv_text", "json_text"]

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
        {"name": row.name, "training": row.training, "decascore": row.decascore, "scores": dict(row.scores)}
        for row in PUBLISHED
    ]
    content = {
        "format": FORMAT,
        "submissions": submissions,
        "reported_not_verified": {"source": SOURCE, "rows": reported},
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
