"""The proof of a task: what must hold for any task whose data and metric fit each other."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from decabench.errors import MetricError
from decabench.metrics import Item, Metric, evaluate
from decabench.scoring.evaluator import find_metric
from decabench.tasks import HIDDEN_ADVICE, Example, Store, Task, unquoted

__all__ = ["ProofStep", "empty_answer_floor", "prove_task"]

_SMALLEST_DIFFERENCE = 1e-6


@dataclass(frozen=True)
class ProofStep:
    """One thing that was checked."""

    name: str
    """What must hold."""
    passed: bool
    """Whether it does."""
    detail: str
    """The figures."""


def prove_task(task: Task, split: str, store: Store, hidden: bool = False) -> list[ProofStep]:
    """Prove that a prepared split of a task fits its metric.

    Every example has text, only tasks that say so ask different questions, gold answers score the best there is, empty
    answers the least, and shuffled gold answers fall below gold. Raises MissingDataError if the split is not prepared,
    MetricError if the metric cannot score it. Hidden labels are quoted in details and errors only if `hidden` is set.
    """
    store.require([task], split)
    store.require_labels(task.name, split)
    is_unquoted = store.hides(task, split) and not hidden
    instead = MetricError(f"{task.metric} cannot score the {split} split of {task.name}. {HIDDEN_ADVICE}")
    with unquoted(is_unquoted, instead):
        steps = _prove(task, split, store)
    return [
        replace(step, detail=HIDDEN_ADVICE) if is_unquoted and not step.passed else step for step in steps
    ]


def _prove(task: Task, split: str, store: Store) -> list[ProofStep]:
    """Do what `prove_task` says, quoting whatever is wrong."""
    examples = list(store.examples(task.name, split))
    metric = find_metric(task.metric)
    references = [Item(example.answers, example.id, example.units, example.meta) for example in examples]

    def score(answers: Sequence[str]) -> dict[str, float]:
        return dict(evaluate(metric, answers, references).details)

    gold = score([example.answers[0] for example in examples])
    empty = score([""] * len(examples))[metric.headline]
    return [
        _renders(examples),
        _questions(task, examples),
        _row_count(task, split, len(examples)),
        _gold(task, gold, metric),
        _empty(task, metric, empty, examples),
        _shuffled(examples, metric, gold[metric.headline], lambda answers: score(answers)[metric.headline]),
    ]


def _renders(examples: Sequence[Example]) -> ProofStep:
    """Check that every part has text; a task may do without contexts, but not without some of them."""
    wanted = any(example.context.strip() for example in examples)
    broken = [
        example.id
        for example in examples
        if not example.question.strip()
        or (wanted and not example.context.strip())
        or not all(answer.strip() for answer in example.answers)
    ]
    shown = f"; empty parts in {', '.join(broken[:5])}" if broken else ""
    detail = f"{len(examples) - len(broken):,} of {len(examples):,}{shown}"
    return ProofStep("every example renders", not broken, detail)


def _questions(task: Task, examples: Sequence[Example]) -> ProofStep:
    """Check that a task says if its examples ask different questions, which some models would not read otherwise."""
    asked = len({example.question for example in examples})
    detail = "1 question" if asked == 1 else f"{asked:,} questions"
    if asked > 1 and not task.question_varies:
        detail += ", but the task does not say question_varies"
    return ProofStep("questions vary as the task says", asked == 1 or task.question_varies, detail)


def _row_count(task: Task, split: str, rows: int) -> ProofStep:
    published = task.counts.get(split)
    if published is None:
        return ProofStep("row count", True, f"{rows:,} (none published)")
    return ProofStep("row count", rows > 0, f"{rows:,} of {published:,} published")


def _gold(task: Task, scores: dict[str, float], metric: Metric) -> ProofStep:
    """Check that gold scores the best there is, by `Task.gold_score` if a quirk of the official scorer denies it."""
    name = task.gold_score or metric.headline
    best = metric.range[1] if metric.higher_is_better else metric.range[0]
    passed = abs(scores[name] - best) < _SMALLEST_DIFFERENCE
    detail = f"{metric.headline} {scores[metric.headline]:.2f}"
    more = "" if name == metric.headline else f", {name} {scores[name]:.2f}"
    return ProofStep(f"gold scores {best:g}", passed, detail + more)


def _empty(task: Task, metric: Metric, score: float, examples: Sequence[Example]) -> ProofStep:
    if metric.scope == "corpus" or not metric.higher_is_better:
        # The floor of correlations and errors is not known beforehand.
        return ProofStep("empty answers are scored", True, f"{score:.2f}")
    floor = empty_answer_floor(task.metric, examples)
    passed = abs(score - floor) < _SMALLEST_DIFFERENCE
    return ProofStep("empty answers score the floor", passed, f"{score:.2f}, floor {floor:.2f}")


def empty_answer_floor(metric: str, examples: Sequence[Example]) -> float:
    """Return what empty answers must score, 0–100, from the gold answers alone.

    Nothing equals an empty answer, except a dialogue state to which nothing has been added yet, so that such turns are
    right, and the answer to a question of SQuAD 2 that has none.
    """
    if metric == "squad2":
        none = sum(all(answer in ("", "unanswerable") for answer in example.answers) for example in examples)
        return 100 * none / len(examples)
    if metric != "joint_goal_em":
        return 0.0
    informed: set[str] = set()
    unchanged = 0
    for example in examples:
        goals = example.answers[0].partition(";")[0]
        if goals.strip() and goals.strip().lower() != "none":
            informed.add(example.units[-1])
        unchanged += example.units[-1] not in informed
    return 100 * unchanged / len(examples)


def _shuffled(
    examples: Sequence[Example], metric: Metric, gold: float, score: Callable[[Sequence[str]], float]
) -> ProofStep:
    name = "shuffled answers fall below gold"
    answers = [example.answers[0] for example in examples]
    if len(set(answers)) < 2:
        return ProofStep(name, False, "all answers are the same")
    moved = list(answers)
    random.Random(0).shuffle(moved)
    if moved == answers:  # a shuffle of very few may change nothing
        moved = answers[1:] + answers[:1]
    shuffled = score(moved)
    passed = shuffled < gold if metric.higher_is_better else shuffled > gold
    return ProofStep(name, passed, f"{shuffled:.2f} against {gold:.2f}")
