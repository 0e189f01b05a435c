"""Which examples of a split are asked: all, the first N, or those of a list."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from decabench.errors import DecabenchError
from decabench.faults import shown
from decabench.idlists import read_id_list
from decabench.predictor import Question
from decabench.tasks import Task
from decabench.tasks.store import Store

__all__ = ["Choice", "read_ids"]


@dataclass(frozen=True)
class Choice:
    """Which examples are asked."""

    limit: int | None = None
    """The first so many of each task."""
    ids: frozenset[str] | None = None
    """Only these, of any task."""

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self.limit is None and self.ids is None

    @property
    def text(self) -> str:
        """What a submission says of it: `limit 100`, or the number of ids and a digest of the list."""
        parts = [] if self.limit is None else [f"limit {self.limit}"]
        if self.ids is not None:
            digest = hashlib.sha256("\n".join(sorted(self.ids)).encode()).hexdigest()
            parts.insert(0, f"{len(self.ids)} ids, sha256:{digest}")
        return ", ".join(parts)

    def questions(
        self, store: Store, task: str, split: str, rewrite: Callable[[str], str] | None = None
    ) -> Iterator[Question]:
        """The questions in the order of the data, streamed, in the wording that is asked for."""
        rows = store.read(task, split, ("id", "question", "context"))
        chosen = (Question(**row) for row in rows if self.ids is None or row["id"] in self.ids)
        for question in islice(chosen, self.limit):
            if rewrite is None:
                yield question
            else:
                yield Question(question.id, rewrite(question.question), question.context)

    def tasks(self, store: Store, tasks: Sequence[Task], split: str) -> list[Task]:
        """The tasks that have any chosen example. Raises DecabenchError where none has one that is named."""
        if self.ids is None:
            return list(tasks)
        found = {task.name: self.ids.intersection(store.ids(task.name, split)) for task in tasks}
        missing = self.ids.difference(*found.values())
        if missing:
            named = ", ".join(shown(id_) for id_ in sorted(missing)[:5])
            more = f" and {len(missing) - 5:,} more" if len(missing) > 5 else ""
            raise DecabenchError(
                f"--ids names examples that {', '.join(found)} ({split}) lack: {named}{more}; decabench prepare "
                "--export-ids writes a list of all."
            )
        return [task for task in tasks if found[task.name]]


def read_ids(path: Path) -> frozenset[str]:
    """One id a line, blank lines passed over, or a file of `--export-ids`. Raises DecabenchError for no id."""
    if path.name.endswith((".json", ".json.gz")):
        return frozenset(chain.from_iterable(read_id_list(path).ids.values()))
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DecabenchError(
            f"{path} cannot be read as a list of ids ({error}): write one id a line, in UTF-8."
        ) from error
    ids = frozenset(line.strip() for line in lines if line.strip())
    if not ids:
        raise DecabenchError(f"{path} names no example: write one id a line.")
    return ids
