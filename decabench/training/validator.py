"""Validation on a fixed sample of each task, scored with decabench's own metrics."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping

from decabench.errors import DecabenchError
from decabench.models import TrainedModel
from decabench.scoring import find_metric, score_task
from decabench.tasks import Example, Store, Task, unquoted
from decabench.training.config import TrainConfig


def total_score(scores: Mapping[str, float], best_by: str = "") -> float:
    """Return the score of the task `best_by` or, without such a task, the sum of all scores.

    Over all examples of the decathlon, the sum is the decaScore.
    """
    return scores[best_by] if best_by in scores else sum(scores.values())


def can_be_summed(tasks: Mapping[str, Task]) -> bool:
    """Return whether the tasks' scores can be added up: higher must be better for all tasks or for none."""
    return len({find_metric(task.metric).higher_is_better for task in tasks.values()}) == 1


def show_score(score: float, task: Task | None) -> str:
    """Format a score with one decimal place. Errors such as MSE have three decimal places if they are below 10.

    `task` is None for a sum of scores.
    """
    is_error = task is not None and math.isinf(find_metric(task.metric).range[1]) and score < 10
    return f"{score:.3f}" if is_error else f"{score:.1f}"


def check_best_by(config: TrainConfig, tasks: Mapping[str, Task]) -> bool:
    """Return whether a higher score is better for the run's `best_by`.

    Raises DecabenchError if `best_by` is a sum of scores, and lower is better for only some of them.
    With `last`, this is checked only if `patience` is set, because only then are sums compared.
    """
    if config.best_by == "last" and not config.patience:
        return True
    chosen = [config.best_by] if config.best_by in tasks else list(tasks)
    directions = {name: find_metric(tasks[name].metric).higher_is_better for name in chosen}
    if len(set(directions.values())) > 1:
        lower = [name for name, higher in directions.items() if not higher]
        raise DecabenchError(
            f"Lower scores are better for {', '.join(lower)}, but worse for the other tasks, so the sum of all scores "
            "is meaningless. Choose the best checkpoint by the score of one task with --set best_by=TASK."
        )
    return all(directions.values())


def sample_validation(store: Store, task: str, limit: int, whole_units: bool) -> list[Example]:
    """Return a fixed sample of the validation split, in the order of the data.

    The sample has `limit` examples, or a few more if units must stay whole; 0 means all examples.
    Examples are chosen by digests of their IDs or, to keep units whole, of their innermost units, such
    as dialogues. The first examples would be a worse sample, because they are often similar. For
    example, the first dialogues of WOZ are easier than the rest.
    """
    if not limit:
        return list(store.examples(task, "validation"))
    if whole_units:
        keys = [row["units"][-1] for row in store.read(task, "validation", ("units",))]
    else:
        keys = store.ids(task, "validation")
    names = Counter(keys)
    chosen: set[str] = set()
    count = 0
    for name in sorted(names, key=lambda name: hashlib.blake2b(name.encode(), digest_size=8).digest()):
        if count >= limit:
            break
        chosen.add(name)
        count += names[name]
    examples = store.examples(task, "validation")
    return [example for example, key in zip(examples, keys, strict=True) if key in chosen]


class Validator:
    """Scores a model's answers to a fixed sample of validation examples."""

    def __init__(self, store: Store, tasks: Iterable[Task], limit: int) -> None:
        self._tasks: list[tuple[Task, list[Example]]] = []
        for task in tasks:
            whole = find_metric(task.metric).scope != "example"
            self._tasks.append((task, sample_validation(store, task.name, limit, whole)))

    def __call__(self, model: TrainedModel) -> dict[str, float]:
        """Return each task's main score. Raises DecabenchError if a metric fails or returns a non-finite score."""
        scores = {}
        for task, examples in self._tasks:

            def fault(text: str, task: Task = task) -> DecabenchError:
                return DecabenchError(
                    f"The metric {task.metric} for {task.name} {text} on the validation answers. A checkpoint was "
                    "saved at this step. Correct the error in the metric, then continue with --resume."
                )

            replies = [reply.text for reply in model.answer(task, examples)]
            with unquoted("validation" in task.hidden, fault("fails")):
                try:
                    found = score_task([task.metric], replies, examples, None)
                except DecabenchError:
                    raise
                except Exception as error:  # custom metrics can raise any exception
                    raise fault(f"fails ({error!r})") from error
            score = found.scores[found.headline]
            if not math.isfinite(score):
                raise fault(f"returns {score}")
            scores[task.name] = score
        return scores
