"""All tasks and suites by name, whether built in or from installed packages or included files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TypeVar

from decabench.errors import DecabenchError, UnknownNameError, require_name
from decabench.files import Paths, as_paths, file_digest
from decabench.plugins import load_entry_point, load_file
from decabench.tables import read_toml
from decabench.tasks.builtin_suites import DECATHLON, SUITES
from decabench.tasks.datasets.cnn_dailymail import CNN_DAILYMAIL
from decabench.tasks.datasets.conll import (
    CONLL2000,
    CONLL2003,
    CONLL2003_ENTITIES,
    EN_POS,
    ONTONOTES,
    ONTONOTES_ENTITIES,
)
from decabench.tasks.datasets.hindi_english import HI_POS, HIEN_POS
from decabench.tasks.datasets.nli import MULTINLI, SNLI
from decabench.tasks.datasets.reviews import FDU, IMDB, MR, PRODUCTS, SENTENCES, SUBJ
from decabench.tasks.datasets.schema import SCHEMA
from decabench.tasks.datasets.sick import SICK_ENTAILMENT, SICK_RELATEDNESS
from decabench.tasks.datasets.squad import SQUAD, SQUAD2
from decabench.tasks.datasets.srl import SRL
from decabench.tasks.datasets.sst import SST, SST_FINE
from decabench.tasks.datasets.translation import IWSLT_EN_DE, IWSLT_OTHERS, MULTI30K_EN_DE
from decabench.tasks.datasets.treebanks import PTB_DEP, PTB_POS, UD_DEP, UD_POS
from decabench.tasks.datasets.wikisql import WIKISQL
from decabench.tasks.datasets.woz import WOZ_DE, WOZ_EN
from decabench.tasks.datasets.zre import ZRE
from decabench.tasks.suite import SUITE_FORMAT, Suite, check_suite, suite_from_toml
from decabench.tasks.task import Task
from decabench.tasks.taskfile import TASK_FORMAT, task_from_toml

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
    **FDU,
    "sst.fine": SST_FINE,
    "subj": SUBJ,
    "mr": MR,
    "imdb": IMDB,
    **PRODUCTS,
    "snli": SNLI,
    **SENTENCES,
    "squad2": SQUAD2,
    "woz.de": WOZ_DE,
    "multi30k.en.de": MULTI30K_EN_DE,
    **IWSLT_OTHERS,
    "ud.pos": UD_POS,
    "conll2000": CONLL2000,
    "ud.dep": UD_DEP,
    "sick.relatedness": SICK_RELATEDNESS,
    "sick.entailment": SICK_ENTAILMENT,
    "conll2003": CONLL2003,
    "conll2003.entities": CONLL2003_ENTITIES,
    "ontonotes": ONTONOTES,
    "ontonotes.entities": ONTONOTES_ENTITIES,
    "ptb.pos": PTB_POS,
    "ptb.dep": PTB_DEP,
    "hien.pos": HIEN_POS,
    "en.pos": EN_POS,
    "hi.pos": HI_POS,
}
"""The built-in tasks, by name."""

_GROUPS: Mapping[type[Task | Suite], str] = {Task: "decabench.tasks", Suite: "decabench.suites"}
"""The entry-point groups for packages that provide tasks and suites."""

Brought = TypeVar("Brought", Task, Suite)


def get_task(name: str, tasks: Mapping[str, Task] = TASKS) -> Task:
    """Return a task by name. Raises UnknownNameError for an unknown name, listing similar names."""
    if name in tasks:
        return tasks[name]
    if name in SUITES:
        raise UnknownNameError(
            f"{name} is a suite, not a task. Choose the tasks in the suite with --suite {name}."
        )
    several = name.split(",")
    if len(several) > 1 and all(each.strip() in tasks for each in several):
        raise UnknownNameError(f"{name} lists {len(several)} tasks, but only one task is allowed.")
    return tasks[_require(name, tasks, "task")]


def get_suite(name: str, suites: Mapping[str, Suite] = SUITES) -> Suite:
    """Return a suite by name. Raises UnknownNameError for an unknown name, listing similar names."""
    if name not in suites and name in TASKS:
        raise UnknownNameError(f"{name} is a task, not a suite. Choose the task with --tasks {name}.")
    return suites[_require(name, suites, "suite")]


def _require(name: str, known: Iterable[str], kind: str) -> str:
    try:
        return require_name(name, known, kind)
    except UnknownNameError as error:
        raise UnknownNameError(f"{error} To use your own {kind}, specify its file with --include.") from None


def select_tasks(tasks: str | Task | Iterable[str | Task], known: Mapping[str, Task] = TASKS) -> list[Task]:
    """Return the given tasks, looking up names in the registry. Raises UnknownNameError for an unknown name."""
    given = [tasks] if isinstance(tasks, str | Task) else tasks
    return [get_task(task, known) if isinstance(task, str) else task for task in given]


def select_suite(suite: str | Suite | None, include: Paths = ()) -> Suite:
    """Return the given suite, or look it up by name. None means the decathlon.

    Raises UnknownNameError for an unknown name.
    """
    if isinstance(suite, str):
        return get_suite(suite, known_suites(include))
    return DECATHLON if suite is None else suite


def choose_tasks(given: Iterable[str], suite: str | None = None, include: Paths = ()) -> list[str] | None:
    """Parse comma-separated lists of task names. Returns None if all tasks are chosen, with `all` or by default.

    With `suite`, only the suite's tasks can be chosen, and the names of all of them are returned instead of None.
    Raises UnknownNameError for an unknown task or suite, and DecabenchError if the lists are empty or
    contain a task outside the suite.
    """
    given = list(given)
    names = [name.strip() for value in given for name in value.split(",") if name.strip()]
    if given and not names:
        raise DecabenchError("--tasks is empty. To use all tasks, omit this option.")
    within = list(get_suite(suite, known_suites(include)).tasks) if suite else None
    if not names or names == ["all"]:
        return within
    known = known_tasks(include)
    for name in names:
        if len(words := name.split()) > 1 and all(word in known for word in words):
            raise UnknownNameError(f"Separate the tasks with commas: --tasks {','.join(words)}.")
    chosen = [get_task(name, known).name for name in dict.fromkeys(names)]
    if within is not None and (outside := [name for name in chosen if name not in within]):
        raise DecabenchError(
            f"--tasks lists {', '.join(outside)}, but the suite {suite} contains only {', '.join(within)}. "
            "Choose from these tasks, or omit --suite."
        )
    return chosen


def known_tasks(include: Paths = ()) -> dict[str, Task]:
    """Return all tasks by name: the built-in tasks, and those of installed packages and included files.

    A broken package only causes a warning. Raises UnknownNameError or DataError for an included file that can't be
    used.
    """
    return _known(Task, TASKS, _all_included(include))


def known_suites(include: Paths = ()) -> dict[str, Suite]:
    """Return all suites by name, after checking each suite against the known tasks.

    A broken package only causes a warning. Raises UnknownNameError or DataError for an included file that
    can't be used.
    """
    items = _all_included(include)
    known, tasks = _known(Suite, SUITES, items), _known(Task, TASKS, items)
    for suite in [suite for name, suite in known.items() if name not in SUITES]:
        try:
            check_suite(suite, tasks)
        except DecabenchError as error:
            if suite in items:
                raise
            warnings.warn(str(error), stacklevel=2)  # a broken package must not stop every command
            del known[suite.name]
    return known


def load_included(path: Path) -> tuple[Task | Suite, ...]:
    """Return the tasks and suites that a .toml or .py file defines.

    The file is loaded once per process, and again only if it has changed. Raises UnknownNameError if
    it doesn't exist, has another suffix, or is a .py file without tasks or suites. Raises DataError
    for a TOML file with faults.
    """
    if not path.exists():
        several = " Use --include once for each file." if os.pathsep in str(path) else ""
        variable = os.environ.get("DECABENCH_INCLUDE", "").split(os.pathsep)
        source = "The variable DECABENCH_INCLUDE" if str(path) in variable else "--include"
        raise UnknownNameError(f"{source} refers to {path}, which does not exist.{several}")
    content = file_digest(path) if path.is_file() else ""
    return _load_once(path, path.absolute(), content)


@lru_cache(maxsize=256)
def _load_once(path: Path, place: Path, content: str) -> tuple[Task | Suite, ...]:
    """Load a file once. `place` (its absolute path) and `content` (its digest) are only used as cache keys."""
    if path.suffix == ".toml":
        return (_from_toml(path),)
    if path.suffix != ".py":
        raise UnknownNameError(f"--include requires a .toml or .py file, but got {path}.")
    own = [*TASKS.values(), *SUITES.values()]
    found: list[Task | Suite] = []
    for value in vars(load_file(path)).values():
        if isinstance(value, Task | Suite) and value not in (*own, *found):
            found.append(value)
    if not found:
        raise UnknownNameError(f"{path} does not define a decabench.tasks.Task or Suite at the top level.")
    return tuple(replace(value, origin="user") for value in found)


def _from_toml(path: Path) -> Task | Suite:
    content = read_toml(path)
    if content.get("format") == SUITE_FORMAT:
        return suite_from_toml(content, path)
    if content.get("format") == TASK_FORMAT:
        return task_from_toml(content, path)
    given = f"format {content['format']!r:.60}" if "format" in content else "no format"
    raise UnknownNameError(
        f"{path} has {given}. Write format = {TASK_FORMAT!r} for a task, or {SUITE_FORMAT!r} for a suite."
    )


def _all_included(include: Paths) -> list[Task | Suite]:
    paths = as_paths(include)
    if repeated := [path for at, path in enumerate(paths) if path in paths[:at]]:
        raise UnknownNameError(f"{repeated[0]} is included more than once. Include each file only once.")
    return [item for path in paths for item in load_included(path)]


def _known(
    kind: type[Brought], own: Mapping[str, Brought], items: Sequence[Task | Suite]
) -> dict[str, Brought]:
    known, word = dict(own), kind.__name__.lower()
    for item in _installed(kind):
        if item.name in known:
            warnings.warn(
                f"An installed package defines another {word} named {item.name!r}, which is ignored.",
                stacklevel=3,
            )
        known.setdefault(item.name, item)
    for added in items:
        if isinstance(added, kind):
            if added.name in known:
                raise UnknownNameError(f"There are two {word}s named {added.name!r}. Rename your {word}.")
            known[added.name] = added
    return known


def _installed(kind: type[Brought]) -> Iterator[Brought]:
    for point in entry_points(group=_GROUPS[kind]):
        try:
            item = load_entry_point(point)
            if not isinstance(item, kind):
                raise UnknownNameError(
                    f"The entry point {point.name} = {point.value} is not a decabench.tasks.{kind.__name__}."
                )
        except DecabenchError as error:
            warnings.warn(str(error), stacklevel=3)  # a broken package must not stop every command
        else:
            yield replace(item, origin="user")
