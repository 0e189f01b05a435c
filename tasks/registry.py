"""Every task by name, and the ten of the decathlon in the paper's order."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from decabench.tasks.cnn_dailymail import CNN_DAILYMAIL
from decabench.tasks.errors import UnknownNameError
from decabench.tasks.iwslt import IWSLT_EN_DE
from decabench.tasks.multinli import MULTINLI
from decabench.tasks.schema import SCHEMA
from decabench.tasks.squad import SQUAD
from decabench.tasks.srl import SRL
from decabench.tasks.sst import SST
from decabench.tasks.task import Task
from decabench.tasks.wikisql import WIKISQL
from decabench.tasks.woz import WOZ_EN
from decabench.tasks.zre import ZRE

__all__ = ["DECATHLON", "TASKS", "get_task", "named"]

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

DECATHLON = tuple(TASKS)
"""The ten tasks of the decaScore, in the order of the paper's tables."""


def named(name: str, known: Iterable[str], kind: str) -> str:
    """`name` if it is known. Raises UnknownNameError with the near matches and the list."""
    names = list(known)
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise UnknownNameError(f"There is no {kind} {name!r}.{hint} Known: {', '.join(names)}.")


def get_task(name: str, tasks: Mapping[str, Task] = TASKS) -> Task:
    """A task by name. Raises UnknownNameError with the near matches and the list."""
    return tasks[named(name, tasks, "task")]
