"""Tasks from outside the package: Python files, TOML files and installed entry points."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from decabench.metrics.errors import DecabenchError
from decabench.tasks.errors import UnknownNameError
from decabench.tasks.plugins import load_entry_point, load_file, plugin_names
from decabench.tasks.registry import TASKS
from decabench.tasks.task import Task
from decabench.tasks.toml import read_toml_task

__all__ = ["GROUP", "included_tasks", "known_tasks"]

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
    for point in plugin_names(GROUP).values():
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
