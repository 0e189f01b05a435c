"""Small results files for the decathlon's ten tasks, for the tests in this folder."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from decabench.leaderboard.entries import Board, Entry, Evidence, Kind, Standings, clean, describe_submission
from decabench.leaderboard.ranking import rank_suite
from decabench.metrics import METRICS as ALL_METRICS
from decabench.metrics import Metric
from decabench.scoring import Results
from decabench.scoring.significance import Sample
from decabench.tasks import DECATHLON, TASKS, Suite

NAMES = DECATHLON.tasks
PUBLIC = tuple(name for name in NAMES if not TASKS[name].hidden)
METRICS = {name: TASKS[name].metric for name in NAMES}
COUNT = 100
"""The number of examples of each task. Each right answer is one point."""


def scored(name: str, score: float, data: str = "a", signature: str = "v:1", **about: Any) -> dict[str, Any]:
    return {
        "status": "scored",
        "metric": METRICS.get(name, "em"),
        "headline": METRICS.get(name, "em"),
        "score": score,
        "signature": f"{name}|{signature}",
        "n": COUNT,
        "data": data_of(name, data, **about),
    }


def data_of(name: str, data: str = "a", **about: Any) -> dict[str, Any]:
    given = {"fingerprint": f"sha256:{data}-{name}", "origin": "upstream", "verified": True}
    return {**given, "rows": COUNT, "published_count": None, **about}


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
    """Return a results file. `scores` is one number for all tasks of the split, or a number for each task."""
    if not isinstance(scores, Mapping):
        scores = dict.fromkeys(NAMES if split == "validation" else PUBLIC, scores)
    tasks = {task: scored(task, score, data, signature, **(of_data or {})) for task, score in scores.items()}
    for task, reason in (failed or {}).items():
        tasks[task] = {**scored(task, 0.0), "status": "failed", "score": None, "reason": reason, "faults": 1}
        tasks[task]["data"] |= {"fingerprint": ""}
    is_complete = all(tasks.get(task, {}).get("status") == "scored" for task in NAMES)
    return with_total(
        {
            "format": "decabench.results/1",
            "decabench": "0.1.0",
            "submission": {"name": name, **(about or {})},
            "split": split,
            "decascore": sum(scores[task] for task in NAMES) if is_complete else None,
            "interval": None,
            "tasks": tasks,
        }
    )


def with_total(file: Mapping[str, Any]) -> dict[str, Any]:
    """Return the file with the total of its tasks, if it is for the decathlon."""
    if "suite" in file:
        return dict(file)
    tasks = [file["tasks"].get(name, {}) for name in NAMES]
    scores = [task["score"] for task in tasks if task.get("status") == "scored"]
    total = {"score": math.fsum(scores), "tasks": len(scores), "complete": len(scores) == len(NAMES)}
    return {**file, "total": {**total, "of": 100 * len(scores), "text": "", "missing": [], "failed": []}}


def suite_results(
    name: str, suite: Suite, scores: Mapping[str, float], metrics: Mapping[str, str], **about: Any
) -> dict[str, Any]:
    """Return a results file for a suite other than the decathlon."""
    tasks = {
        task: {**scored(task, score), "metric": metrics[task], "headline": metrics[task]}
        for task, score in scores.items()
    }
    counted = [scores[task] for task in suite.tasks if task in scores]
    is_complete = len(counted) == len(suite.tasks)
    total: dict[str, Any] = {"score": None, "of": 0}
    if suite.total != "none":
        value = math.fsum(counted) / (len(counted) if suite.total == "mean" else 1)
        total = {"score": value, "of": 100 * len(counted)}
    return {
        "format": "decabench.results/1",
        "decabench": "0.1.0",
        "submission": {"name": name, **about},
        "split": "validation",
        "interval": None,
        "tasks": tasks,
        "suite": {
            "name": suite.name,
            "title": suite.title,
            "tasks": list(suite.tasks),
            "total": suite.total,
            "total_name": suite.total_name,
        },
        "total": {
            **total,
            "tasks": len(counted),
            "complete": is_complete,
            "text": "",
            "missing": [],
            "failed": [],
        },
    }


def without(*missing: str, score: float = 50.0) -> dict[str, float]:
    """Return the same score for all tasks, without the named tasks."""
    return {task: score for task in NAMES if task not in missing}


def entry(
    file: Mapping[str, Any],
    path: str = "x/validation",
    kind: Kind = "verified",
    find: Callable[[str, str, float, Metric], Sample | None] | None = None,
) -> Entry:
    """Return a file's entry as if scored here. `find` returns statistics by name, task, score and metric."""
    read = Results.from_json(json.dumps(with_total(file)))
    evidence = {}
    for task, result in read.tasks.items():
        metric = ALL_METRICS.get(result.metric)
        known = find and metric and result.status == "scored"
        sample = find(read.submission["name"], task, result.score or 0.0, metric) if known else None  # type: ignore[misc, arg-type]
        evidence[task] = Evidence(kind, "" if kind == "verified" else "the answers are not available", sample)
    return Entry(
        path=path,
        split=read.split,
        tasks=clean(read.tasks),
        evidence=evidence,
        suite=read.suite,
        total=read.total.score if read.total.complete else None,
        interval=read.interval,
        apart="reported" if kind == "reported" else "",
        **describe_submission(read.submission),
    )


def alike(name: str, task: str, score: float, metric: Metric) -> Sample:
    """Return a sample of identical units, so that different scores always differ significantly."""
    row = [row_of(metric, score)[column] for column in metric.columns]
    return Sample.of_levels(metric, np.array([row] * 10), np.arange(10)[:, None], task)


def board(*files: Mapping[str, Any]) -> Board:
    """Return the decathlon's board for some results files."""
    entries = [entry(file, f"{number}/x", find=alike) for number, file in enumerate(files)]
    entries = [replace(one, apart="other wording") if one.wording else one for one in entries]
    return rank_suite(DECATHLON, entries, TASKS)


def tables(*files: Mapping[str, Any]) -> tuple[Standings, ...]:
    return board(*files).tables


def ranking(table: Standings) -> list[tuple[int | None, str]]:
    return [(row.rank, row.entry.name) for row in table.rows]


def write(folder: Path, files: Sequence[Mapping[str, Any]], with_statistics: bool = True) -> Path:
    """Write results files, with statistics that lead to their scores."""
    for number, file in enumerate(files):
        target = folder / f"submission-{number}" / "results" / f"{file['split']}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(with_total(file)), encoding="utf-8")
        if with_statistics:
            write_statistics(target.parent, file)
    return folder


def write_statistics(folder: Path, file: Mapping[str, Any]) -> None:
    """Write statistics next to a results file that lead to the scores of its tasks."""
    for name, task in file["tasks"].items():
        if task["status"] != "scored" or task["metric"] not in ALL_METRICS or "/" in name:
            continue
        metric = ALL_METRICS[task["metric"]]
        rows = rows_of(metric, task["score"], task["n"])
        columns = {column: [row[column] for row in rows] for column in metric.columns}
        levels = len(TASKS[name].unit_names) if name in TASKS else 1
        units = {f"unit_{level}": np.arange(task["n"]) for level in range(1, levels + 1)}
        (folder / "statistics").mkdir(exist_ok=True)
        pq.write_table(pa.table({**units, **columns}), folder / "statistics" / f"{name}.parquet")


def rows_of(metric: Metric, score: float, count: int) -> list[dict[str, float]]:
    """Return rows of right and wrong answers that lead to a score."""
    if metric.name == "pearson":
        return correlated(score / 100, count)
    if metric.name == "relatedness":
        return [{**dict.fromkeys(metric.columns, 0.0), "n": 1.0, "squares": score}] * count
    if not metric.higher_is_better:
        return [row_of(metric, score)] * count
    right = round(count * score / 100)
    assert abs(100 * right / count - score) < 1e-9, f"{score} is no share of {count} answers"
    return [row_between(metric, 1.0)] * right + [row_between(metric, 0.0)] * (count - right)


def correlated(share: float, count: int) -> list[dict[str, float]]:
    """Return rows of pairs with the correlation `share`. Needs an even number of pairs."""
    half = count // 2
    paired = half - half % 2
    without = [math.sqrt(half / paired) * (-1) ** index if index < paired else 0.0 for index in range(half)]
    other = math.sqrt(1 - share**2)
    numbers = [(x, share * x + other * rest) for x in (1.0, -1.0) for rest in without]
    return [
        {"n": 1.0, "x": x, "y": y, "xx": x * x, "yy": y * y, "xy": x * y, "unreadable": 0.0}
        for x, y in numbers
    ]


@cache
def row_of(metric: Metric, score: float) -> dict[str, float]:
    """Return a row whose sums lead to a score, interpolated between a perfect and an empty answer."""
    if metric.name == "mse":
        return {"n": 1.0, "squares": score, "unreadable": 0.0}
    low, high = 0.0, 1.0
    for _ in range(100):  # scores increase with the share of perfect rows
        share = (low + high) / 2
        row = row_between(metric, share)
        low, high = (share, high) if metric.score(row)[metric.headline] < score else (low, share)
    return row


def row_between(metric: Metric, share: float) -> dict[str, float]:
    """Return the row of a perfect answer (1), of an empty answer (0), or a mixture."""
    part = {
        "gold",
        "answered",
        "answerable",
        "answerable_any",
        "predicted",
        "tags",
        "tokens",
        "n",
        "n_executed",
    }
    lowest = {
        column: float(column in part or "total" in column or "length" in column) for column in metric.columns
    }
    return {column: low + share * (1 - low) for column, low in lowest.items()}
