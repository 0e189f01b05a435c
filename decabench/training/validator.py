"""Validation: a fixed sample of each task, scored by the harness's own metrics, and which scores are better."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from decabench.errors import DecabenchError
from decabench.models import TrainedModel
from decabench.scoring import find_metric, score_task
from decabench.tasks import Example, Store, Task
from decabench.training.config import TrainConfig

__all__ = ["ValidationScores", "Validator", "check_best_by", "sample_validation"]


@dataclass(frozen=True)
class ValidationScores:
    """The headline scores of a validation, 0-100 unless the metric's range says otherwise."""

    tasks: Mapping[str, float]
    """By task."""

    @property
    def total(self) -> float:
        """Their sum: a decaScore where it is over the ten tasks, on all of their examples."""
        return sum(self.tasks.values())

    def by(self, choice: str) -> float:
        """One task's score by its name, else the total."""
        return self.tasks[choice] if choice in self.tasks else self.total


def check_best_by(config: TrainConfig, tasks: Mapping[str, Task]) -> bool:
    """Whether a higher score is better, in what the configuration chooses by.

    Raises DecabenchError where it is a sum of scores of both directions.
    """
    chosen = [config.best_by] if config.best_by in tasks else list(tasks)
    directions = {name: find_metric(tasks[name].metric).higher_is_better for name in chosen}
    if len(set(directions.values())) > 1:
        lower = [name for name, higher in directions.items() if not higher]
        raise DecabenchError(
            f"A lower score is better for {', '.join(lower)}, and a higher one for the other tasks, so their sum means "
            "nothing: choose the best checkpoint by one task, --set best_by=TASK."
        )
    return all(directions.values())


def sample_validation(store: Store, task: str, limit: int, whole_groups: bool) -> list[Example]:
    """Sample the validation split, always the same: `limit` examples (0 for all), in the data's order.

    The digests of their ids decide, or those of their groups where these must stay whole: the first examples of a file
    are often alike, and the first dialogues of WOZ are easier than the others.
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
    """Answers and scores the same examples every time."""

    def __init__(self, store: Store, tasks: Iterable[Task], limit: int) -> None:
        self._tasks: list[tuple[Task, list[Example]]] = []
        for task in tasks:
            whole = find_metric(task.metric).scope != "example"
            self._tasks.append((task, sample_validation(store, task.name, limit, whole)))

    def __call__(self, model: TrainedModel) -> ValidationScores:
        """Answer and score."""
        scores = {}
        for task, examples in self._tasks:
            replies = model.answer(task, examples)
            found = score_task([task.metric], [reply.text for reply in replies], examples, None)
            scores[task.name] = found.scores[found.headline]
        return ValidationScores(scores)
