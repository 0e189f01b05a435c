"""The proof of a task: what must hold for any task whose data and metric fit each other."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from decabench.metrics import Item, Metric, evaluate
from decabench.scoring.rows import find_metric
from decabench.tasks import Example, Store, Task

__all__ = ["Check", "empty_answer_floor", "validate_task"]

_SMALLEST_DIFFERENCE = 1e-6


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    """What must hold."""
    passed: bool
    """Whether it does."""
    detail: str
    """The figures."""


def empty_answer_floor(metric: str, examples: Sequence[Example]) -> float:
    """What empty answers must score, from the gold answers alone.

    Nothing equals an empty answer but a dialogue state to which nobody has added yet: those turns are right.
    """
    if metric != "joint_goal_em":
        return 0.0
    informed: set[str] = set()
    unchanged = 0
    for example in examples:
        goals = example.answers[0].partition(";")[0]
        if goals.strip() and goals.strip().lower() != "none":
            informed.add(example.group)
        unchanged += example.group not in informed
    return 100 * unchanged / len(examples)


def validate_task(task: Task, split: str, store: Store) -> list[Check]:
    """Proves a prepared split of a task. Raises MissingDataError where it is not prepared."""
    examples = list(store.examples(task.name, split))
    metric = find_metric(task.metric)
    references = [Item(example.answers, example.id, example.group, example.meta) for example in examples]

    def details(answers: Sequence[str]) -> dict[str, float]:
        return dict(evaluate(metric, answers, references).details)

    gold = details([example.answers[0] for example in examples])
    return [
        _renders(examples),
        _counted(task, split, len(examples)),
        _gold(task, gold, metric),
        _empty(task, metric, details([""] * len(examples))[metric.headline], examples),
        _shuffled(examples, metric, gold[metric.headline], lambda answers: details(answers)[metric.headline]),
    ]


def _renders(examples: Sequence[Example]) -> Check:
    """Every part has text. A task may do without contexts, but not without some of them."""
    wanted = any(example.context.strip() for example in examples)
    broken = [
        example.id
        for example in examples
        if not example.question.strip()
        or (wanted and not example.context.strip())
        or not all(answer.strip() for answer in example.answers)
    ]
    shown = f"; empty parts in {', '.join(broken[:5])}" if broken else ""
    return Check(
        "every example renders",
        not broken,
        f"{len(examples) - len(broken):,} of {len(examples):,}{shown}",
    )


def _counted(task: Task, split: str, rows: int) -> Check:
    published = task.counts.get(split)
    if published is None:
        return Check("row count", True, f"{rows:,} (none published)")
    return Check("row count", rows > 0, f"{rows:,} of {published:,} published")


def _gold(task: Task, scores: dict[str, float], metric: Metric) -> Check:
    """Gold must score the best there is, on the corrected score where a quirk of the official scorer denies it."""
    name, best = task.gold_score or metric.headline, best_score(metric)
    passed = abs(scores[name] - best) < _SMALLEST_DIFFERENCE
    detail = f"{metric.headline} {scores[metric.headline]:.2f}"
    more = "" if name == metric.headline else f", {name} {scores[name]:.2f}"
    return Check(f"gold scores {best:g}", passed, detail + more)


def best_score(metric: Metric) -> float:
    """The end of the metric's range that is best: 100, or 0 for errors."""
    return metric.range[1] if metric.higher_is_better else metric.range[0]


def _empty(task: Task, metric: Metric, got: float, examples: Sequence[Example]) -> Check:
    if metric.scope == "corpus" or not metric.higher_is_better:
        # Correlations and errors have no floor that is known beforehand.
        return Check("empty answers are scored", True, f"{got:.2f}")
    floor = empty_answer_floor(task.metric, examples)
    passed = abs(got - floor) < _SMALLEST_DIFFERENCE
    return Check("empty answers score the floor", passed, f"{got:.2f}, floor {floor:.2f}")


def _shuffled(
    examples: Sequence[Example], metric: Metric, gold: float, score: Callable[[Sequence[str]], float]
) -> Check:
    answers = [example.answers[0] for example in examples]
    if len(set(answers)) < 2:
        return Check("shuffled answers fall below gold", False, "all answers are the same")
    moved = list(answers)
    random.Random(0).shuffle(moved)
    if moved == answers:  # so few that the shuffle may change nothing
        moved = answers[1:] + answers[:1]
    got = score(moved)
    passed = got < gold if metric.higher_is_better else got > gold
    return Check("shuffled answers fall below gold", passed, f"{got:.2f} against {gold:.2f}")
