"""Validation with the harness's own metrics on a capped sample of the validation split."""

from __future__ import annotations

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
        """The total for `decascore`, else one task's."""
        return self.total if choice == "decascore" else self.tasks[choice]


def capped(examples: Iterable[Example], limit: int, whole_groups: bool) -> list[Example]:
    """The first `limit` examples (0 for all), and where groups must be whole, those that end the last group."""
    made: list[Example] = []
    for example in examples:
        if limit and len(made) >= limit and not (whole_groups and example.group == made[-1].group):
            break
        made.append(example)
    return made


class Validator:
    """The same examples every time."""

    def __init__(
        self, store: Store, tasks: Iterable[Task], limit: int, cut_context: Mapping[str, int]
    ) -> None:
        self._cut = cut_context
        self._tasks: list[tuple[Task, list[Example]]] = []
        for task in tasks:
            whole = find_metric(task.metric).scope != "example"
            self._tasks.append((task, capped(store.examples(task.name, "validation"), limit, whole)))

    def __call__(self, answerer: Answerer) -> Scores:
        """Answers and scores."""
        scores = {}
        for task, examples in self._tasks:
            pairs = [(example.context, example.question) for example in examples]
            replies = answerer.answer(pairs, self._cut.get(task.name))
            found = score_task([task.metric], [reply.text for reply in replies], examples, None)
            scores[task.name] = found.scores[found.headline]
        return Scores(scores)
