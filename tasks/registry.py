"""Every task by name, and the ten of the decathlon in the paper's order."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from decabench.errors import UnknownNameError, require_name
from decabench.metrics import DecabenchError
from decabench.plugins import load_entry_point, load_file
from decabench.tasks.datasets.cnn_dailymail import CNN_DAILYMAIL
from decabench.tasks.datasets.iwslt import IWSLT_EN_DE
from decabench.tasks.datasets.multinli import MULTINLI
from decabench.tasks.datasets.schema import SCHEMA
from decabench.tasks.datasets.squad import SQUAD
from decabench.tasks.datasets.srl import SRL
from decabench.tasks.datasets.sst import SST
from decabench.tasks.datasets.wikisql import WIKISQL
from decabench.tasks.datasets.woz import WOZ_EN
from decabench.tasks.datasets.zre import ZRE
from decabench.tasks.suite import Suite
from decabench.tasks.suites.decathlon import DECATHLON
from decabench.tasks.task import Task
from decabench.tasks.taskfile import read_toml_task

__all__ = ["GROUP", "SUITES", "TASKS", "get_task", "included_tasks", "known_tasks"]

# ---- custom

GROUP = "decabench.tasks"
"""The entry-point group of packages that bring tasks."""


def known_tasks(include: Sequence[Path] = ()) -> dict[str, Task]:
    """All tasks by name: the ten, those of installed packages, and those of the included files."""
    known: dict[str, Task] = dict(TASKS)
    for task in _installed():
        if task.name in known:
            warnings.warn(f"A second installed task named {task.name!r} is left out.", stacklevel=2)
        known.setdefault(task.name, task)
    for task in (task for path in include for task in included_tasks(path)):
        if task.name in known:
            raise UnknownNameError(f"There are two tasks named {task.name!r}: rename the one that you bring.")
        known[task.name] = task
    return known


def included_tasks(path: Path) -> tuple[Task, ...]:
    """The tasks that a .toml or .py file defines. Raises UnknownNameError where there is none."""
    if not path.exists():
        raise UnknownNameError(f"--include names {path}, which is not there.")
    if path.suffix == ".toml":
        return (read_toml_task(path),)
    if path.suffix != ".py":
        raise UnknownNameError(f"--include takes a .toml or a .py file, not {path}.")
    tasks = tuple(_tasks_in(vars(load_file(path))))
    if not tasks:
        raise UnknownNameError(f"{path} defines no decabench.tasks.Task at its top level.")
    return tasks


def _tasks_in(namespace: Mapping[str, Any]) -> Iterator[Task]:
    seen: list[Task] = []
    for value in namespace.values():
        if isinstance(value, Task) and value not in seen and value not in TASKS.values():
            seen.append(value)
            yield _as_users(value)


def _as_users(task: Task) -> Task:
    return replace(task, origin="user")


def _installed() -> Iterator[Task]:
    for point in entry_points(group=GROUP):
        try:
            task = load_entry_point(point)
            if not isinstance(task, Task):
                raise UnknownNameError(
                    f"The entry point {point.name} = {point.value} is no decabench.tasks.Task."
                )
        except DecabenchError as error:
            warnings.warn(str(error), stacklevel=2)  # one broken package must not stop every command
        else:
            yield _as_users(task)


# ---- registry

TASKS: dict[str, Task] = {
    "squad": SQUAD,
    "iwslt.en.de": IWSLT_EN_DE,
    "cnn_dailymail": CNN_DAILYMAIL,
    "multinli.in.out": MULTINLI,
    "sst": SST,
    "srl": SRL,
    "zre": ZRE,
    "woz.en": WOZ_EN,
    "wikisql": WIKISQL,
    "schema": SCHEMA,
}

SUITES: dict[str, Suite] = {"decathlon": DECATHLON}
"""Every suite by its name; `--include` adds more."""


def get_task(name: str, tasks: Mapping[str, Task] = TASKS) -> Task:
    """A task by name. Raises UnknownNameError with the near matches and the list."""
    return tasks[require_name(name, tasks, "task")]
