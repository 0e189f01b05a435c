"""Small results files and the ten columns, for the tests of this folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from decabench.leaderboard.ranking import Table, TaskColumn, board
from decabench.leaderboard.read import Entry, entry_from_json

COLUMNS = (
    TaskColumn("squad", "Question answering", "nf1", hidden=("test",)),
    TaskColumn("iwslt.en.de", "Machine translation", "bleu"),
    TaskColumn("cnn_dailymail", "Summarization", "rouge"),
    TaskColumn("multinli.in.out", "Natural language inference", "em", hidden=("test",)),
    TaskColumn("sst", "Sentiment analysis", "em"),
    TaskColumn("srl", "Semantic role labeling", "nf1"),
    TaskColumn("zre", "Relation extraction", "corpus_f1"),
    TaskColumn("woz.en", "Goal-oriented dialogue", "joint_goal_em"),
    TaskColumn("wikisql", "Semantic parsing", "lfem"),
    TaskColumn("schema", "Pronoun resolution", "em"),
)
NAMES = tuple(column.name for column in COLUMNS)
PUBLIC = tuple(column.name for column in COLUMNS if not column.hidden)


def scored(name: str, score: float, data: str = "a", signature: str = "v:1", **about: Any) -> dict[str, Any]:
    given = {"fingerprint": f"sha256:{data}-{name}", "origin": "upstream", "verified": True, **about}
    return {"status": "scored", "score": score, "signature": f"{name}|{signature}", "n": 10, "data": given}


def results(
    name: str = "a system",
    scores: Mapping[str, float] | float = 50.0,
    failed: Mapping[str, str] | None = None,
    split: str = "validation",
    data: str = "a",
    signature: str = "v:1",
    about: Mapping[str, Any] | None = None,
    of_data: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One results file: `scores` is one number for all tasks of the split, or a number by task."""
    if not isinstance(scores, Mapping):
        scores = dict.fromkeys(NAMES if split == "validation" else PUBLIC, scores)
    tasks = {task: scored(task, score, data, signature, **(of_data or {})) for task, score in scores.items()}
    for task, reason in (failed or {}).items():
        tasks[task] = {"status": "failed", "reason": reason, "faults": 1}
    is_complete = all(tasks.get(task, {}).get("status") == "scored" for task in NAMES)
    return {
        "format": "decabench.results/1",
        "submission": {"name": name, **(about or {})},
        "split": split,
        "decascore": sum(scores[task] for task in NAMES) if is_complete else None,
        "tasks": tasks,
    }


def without(*missing: str, score: float = 50.0) -> dict[str, float]:
    """The same score for all tasks but some."""
    return {task: score for task in NAMES if task not in missing}


def entry(file: Mapping[str, Any], path: str = "x/results/validation.json") -> Entry:
    return entry_from_json(file, path, NAMES)


def tables(*files: Mapping[str, Any]) -> tuple[Table, ...]:
    entries = [entry(file, f"{number}/results.json") for number, file in enumerate(files)]
    return board(entries, COLUMNS)


def ranking(table: Table) -> list[tuple[int | None, str]]:
    return [(row.rank, row.entry.name) for row in table.rows]


def write(folder: Path, files: Sequence[Mapping[str, Any]]) -> Path:
    for number, file in enumerate(files):
        target = folder / f"submission-{number}" / "results" / f"{file['split']}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(file), encoding="utf-8")
    return folder
