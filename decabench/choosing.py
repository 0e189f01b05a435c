"""Which examples of a split are asked: all, the first N, or those of a list."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from decabench.errors import DecabenchError
from decabench.faults import shown
from decabench.predictor import Question
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
        """What a submission says of it: `limit 100`, or `ids` and a digest of the list."""
        parts = [] if self.limit is None else [f"limit {self.limit}"]
        if self.ids is not None:
            digest = hashlib.sha256("\n".join(sorted(self.ids)).encode()).hexdigest()
            parts.insert(0, f"ids sha256:{digest}")
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

    def check(self, store: Store, tasks: Sequence[str], split: str) -> None:
        """Raises DecabenchError where the list names examples that none of the tasks has."""
        if self.ids is None:
            return
        missing = set(self.ids)
        for task in tasks:
            missing.difference_update(store.ids(task, split))
        if missing:
            named = ", ".join(shown(id_) for id_ in sorted(missing)[:5])
            more = f" and {len(missing) - 5:,} more" if len(missing) > 5 else ""
            raise DecabenchError(
                f"--ids names examples that {', '.join(tasks)} ({split}) lack: {named}{more}; take ids from "
                "decabench prepare --export-ids."
            )


def read_ids(path: Path) -> frozenset[str]:
    """One id a line, blank lines passed over. Raises DecabenchError for a file that has none."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DecabenchError(
            f"{path} cannot be read as a list of ids ({error}): write one id a line, in UTF-8."
        ) from error
    ids = frozenset(line.strip() for line in lines if line.strip())
    if not ids:
        raise DecabenchError(f"{path} names no example: write one id a line.")
    return ids
