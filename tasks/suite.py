"""Suites: groups of tasks, how their scores combine into a total, and scores from papers to compare with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from decabench.errors import DataError, UnknownNameError, near_matches
from decabench.metrics import METRICS
from decabench.tables import TomlTable
from decabench.tasks.task import Task, name_fault

SUITE_FORMAT = "decabench.suite/1"

Combination = Literal["sum", "mean", "none"]
"""How the headline scores of a suite's tasks combine into a single number."""


@dataclass(frozen=True)
class PublishedRow:
    """A model's scores as printed in a paper. They are shown separately and never ranked with submissions."""

    name: str
    """The model's name."""
    training: str
    """How the model was trained, for example `joint` or `single-task`."""
    scores: Mapping[str, float]
    """The scores by task, in the unit of each task's metric."""
    total: float | None = None
    """The total as printed, or None if the paper doesn't print a total."""
    source: str = ""
    """Where the scores were published. By default, the suite's source."""


@dataclass(frozen=True)
class Suite:
    """A group of tasks that are reported together.

    Adding a task to the registry doesn't change any suite. Raises DataError on creation if any field
    is invalid, listing every fault.
    """

    name: str
    """The name for `--suite`, for example `decathlon`."""
    title: str
    """The display name."""
    tasks: tuple[str, ...]
    """The names of the tasks, in the order of the suite's tables."""
    total: Combination = "none"
    """How scores combine. Use `none` if higher is better for some metrics and lower is better for others."""
    total_name: str = "total"
    """The name of the combined score, for example `decaScore`."""
    description: str = ""
    """A description of one or two sentences."""
    source: str = ""
    """The paper that the `published` scores come from."""
    source_url: str = ""
    """The paper's URL."""
    published: tuple[PublishedRow, ...] = ()
    """Scores reported in papers."""
    notes: tuple[str, ...] = field(default=())
    """Notes for readers of the published rows."""
    origin: str = "decabench"
    """Who defined the suite: `decabench`, or `user` for a file or an entry point."""

    def __post_init__(self) -> None:
        faults = []
        if fault := name_fault(self.name):
            faults.append(fault)
        if not self.tasks:
            faults.append("'tasks' must list at least one task.")
        if repeated := sorted(task for task, count in Counter(self.tasks).items() if count > 1):
            faults.append(f"'tasks' lists {', '.join(repeated)} more than once. List each task only once.")
        if self.total not in get_args(Combination):
            faults.append(f"'total' must be 'sum', 'mean' or 'none', not {self.total!r}.")
        for row in self.published:
            if strange := [task for task in row.scores if task not in self.tasks]:
                faults.append(
                    f"The published row {row.name!r} has scores for tasks that are not in the suite: "
                    f"{', '.join(strange)}."
                )
        for key in ("title", "total_name", "description", "source"):
            if not getattr(self, key).isprintable():
                faults.append(f"{key!r} contains characters that can't be printed. Remove them.")
        if self.source_url and not self.source_url.startswith(("https://", "http://")):
            faults.append("'source_url' must begin with https:// or http://.")
        if faults:
            raise DataError(f"Suite {self.name!r}: {' '.join(faults)}")

    def combine(self, scores: Mapping[str, float]) -> float | None:
        """Combine the scores of the tasks into the suite's total.

        Returns None if a task of the suite has no score, or if `total` is `none`.
        """
        if self.total == "none" or any(task not in scores for task in self.tasks):
            return None
        found = math.fsum(scores[task] for task in self.tasks)
        return found if self.total == "sum" else found / len(self.tasks)


def check_suite(suite: Suite, tasks: Mapping[str, Task]) -> None:
    """Check a suite against the known tasks.

    Raises UnknownNameError for an unknown task. Raises DataError if a total mixes metrics where higher is better with
    metrics where lower is better. Metrics from other packages are accepted without loading them.
    """
    if unknown := [name for name in suite.tasks if name not in tasks]:
        near = {name: near_matches(name, tasks, 1) for name in unknown}
        named = [f"{name} (did you mean {near[name][0]}?)" if near[name] else name for name in unknown]
        raise UnknownNameError(
            f"Suite {suite.name!r} lists unknown tasks: {', '.join(named)}. For your own tasks, also "
            "specify their files with --include."
        )
    if suite.total == "none":
        return
    metrics = {name: METRICS[metric] for name in suite.tasks if (metric := tasks[name].metric) in METRICS}
    lower = [name for name, metric in metrics.items() if not metric.higher_is_better]
    if lower and len(lower) < len(metrics):
        raise DataError(
            f"Suite {suite.name!r} has the total {suite.total!r}, but lower is better for the metrics "
            f"of {', '.join(lower)}, and higher is better for the others. Write total = 'none', or "
            "choose metrics with the same direction."
        )


_KEYS = ("format", "name", "title", "description", "tasks", "total", "total_name")
_ROW_KEYS = ("name", "training", "total", "source", "scores")


def suite_from_toml(content: Mapping[str, Any], path: Path) -> Suite:
    """Return the suite that a TOML file describes. Raises DataError if the file has faults, listing all of them."""
    file = TomlTable(content)
    file.refuse_unknown((*_KEYS, "source", "source_url", "notes", "published"))
    rows = []
    for table in file.tables("published"):
        table.refuse_unknown(_ROW_KEYS)
        scores = table.table("scores", f"{table.title}, scores")
        rows.append(
            PublishedRow(
                name=table.string("name"),
                training=table.string("training", ""),
                scores={task: scores.number(task) for task in scores.content},
                total=table.number("total") if "total" in table else None,
                source=table.string("source", ""),
            )
        )
    name, tasks = file.string("name"), file.strings("tasks")
    fields: dict[str, Any] = {
        "title": file.string("title", name),
        "total": file.choice("total", get_args(Combination), "none"),
        **{key: file.string(key, "") for key in ("description", "source", "source_url")},
        "total_name": file.string("total_name", "total"),
        "published": tuple(rows),
        "notes": file.strings("notes", ()),
    }
    file.raise_faults(str(path))
    try:
        return Suite(name, tasks=tasks, origin="user", **fields)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
