"""Validation with the harness's own metrics on a capped sample of the validation split."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from decabench.models.answering import Answerer
from decabench.scoring import find_metric, score_task
from decabench.tasks import Task
from decabench.tasks.example import Example
from decabench.tasks.store import Store

__all__ = ["Scores", "Validator", "capped"]


@dataclass(frozen=True)
class Scores:
    """The headline scores of a validation, 0-100 each."""

    tasks: Mapping[str, float]
    """By task."""

    @property
    def total(self) -> float:
        """Their sum: a decaScore where it is over the ten tasks, on all of their examples."""
        return sum(self.tasks.values())

    def by(self, choice: str) -> float:
        """One task's score by its name, else the total."""
        return self.tasks[choice] if choice in self.tasks else self.total


def capped(store: Store, task: str, limit: int, whole_groups: bool) -> list[Example]:
    """A sample of the validation split, always the same: `limit` examples (0 for all) in the data's order.

    Which they are is decided by the digests of their ids, or of their groups where those must be whole: the first of
    a file are often alike, and the first dialogues of WOZ easier than the rest.
    """
    if not limit:
        return list(store.examples(task, "validation"))
    column = "group" if whole_groups else "id"
    names = Counter(row[column] for row in store.read(task, "validation", (column,)))
    chosen: set[str] = set()
    count = 0
    for name in sorted(names, key=lambda name: hashlib.blake2b(name.encode(), digest_size=8).digest()):
        if count >= limit:
            break
        chosen.add(name)
        count += names[name]
    return [example for example in store.examples(task, "validation") if getattr(example, column) in chosen]


class Validator:
    """The same examples every time."""

    def __init__(
        self, store: Store, tasks: Iterable[Task], limit: int, cut_context: Mapping[str, int]
    ) -> None:
        self._cut = cut_context
        self._tasks: list[tuple[Task, list[Example]]] = []
        for task in tasks:
            whole = find_metric(task.metric).scope != "example"
            self._tasks.append((task, capped(store, task.name, limit, whole)))

    def __call__(self, answerer: Answerer) -> Scores:
        """Answers and scores."""
        scores = {}
        for task, examples in self._tasks:
            pairs = [(example.context, example.question) for example in examples]
            replies = answerer.answer(pairs, self._cut.get(task.name))
            found = score_task([task.metric], [reply.text for reply in replies], examples, None)
            scores[task.name] = found.scores[found.headline]
        return Scores(scores)
