"""Check that a task's data is compatible with its metric."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from decabench.errors import MetricError
from decabench.metrics import Item, Metric, evaluate
from decabench.prompts import extract, settle_form
from decabench.scoring.task_results import find_metric
from decabench.tasks import (
    HIDDEN_ADVICE,
    Example,
    Label,
    Store,
    Tags,
    Task,
    Text,
    find_alike,
    find_fault,
    unquoted,
)

_SMALLEST_DIFFERENCE = 1e-6


@dataclass(frozen=True)
class ProofStep:
    """The result of checking one property."""

    name: str
    """The name of the property."""
    passed: bool
    """Whether the property holds."""
    detail: str
    """The numbers behind the result, and examples of faults."""


def prove_task(task: Task, split: str, store: Store, hidden: bool = False) -> list[ProofStep]:
    """Check that a prepared split of a task fits its metric, and return the result of each step.

    Gold answers must get the best score, and reading or extracting them must not change them. Shuffled
    answers must score lower, and empty answers must get the lowest score if it is known. Hidden labels
    are quoted only if `hidden` is set. Raises MissingDataError if the split isn't prepared,
    and MetricError if it can't be scored.
    """
    store.require([task], split)
    store.require_labels(task.name, split)
    is_unquoted = store.hides(task, split) and not hidden
    instead = MetricError(f"{task.metric} can't score the {split} split of {task.name}. {HIDDEN_ADVICE}")
    with unquoted(is_unquoted, instead):
        steps = _prove(task, split, store)
    if not is_unquoted:
        return steps
    return [replace(step, detail="not shown" if step.passed else HIDDEN_ADVICE) for step in steps]


def _prove(task: Task, split: str, store: Store) -> list[ProofStep]:
    examples = list(store.examples(task.name, split))
    metric, record = find_metric(task.metric), store.record(task.name, split)
    steps = list(_check_texts(task, split, examples))
    if not isinstance(task.output, Text) or metric.find_fault is not None:
        steps.append(_reread(task, examples))
        if not steps[-1].passed:
            return steps  # scores of misread gold answers are meaningless
    references = [Item(example.answers, example.id, example.units, example.meta) for example in examples]
    answers = [example.answers[0] for example in examples]

    def score(answers: Sequence[str]) -> dict[str, float]:
        return dict(evaluate(metric, answers, references).details)

    gold = score(answers)
    steps.append(_gold(task, gold, metric, record.note if record.origin == "user" else ""))
    empty = score([""] * len(examples))[metric.headline]
    # the score of empty answers isn't known in advance if the metric scores a corpus, measures an error, or accepts
    # some empty answers
    is_known = metric.scope != "corpus" and metric.higher_is_better and not metric.empty_may_be_right
    name = "empty answers score lowest" if is_known else "empty answers are scored"
    steps.append(ProofStep(name, not is_known or abs(empty) < _SMALLEST_DIFFERENCE, f"{empty:.2f}"))
    shuffled = score(_shuffle(answers))[metric.headline]
    passed, detail = False, "all answers are the same"
    if len(set(answers)) > 1:
        best = gold[metric.headline]
        passed = shuffled < best if metric.higher_is_better else shuffled > best
        detail = f"{shuffled:.2f} against {best:.2f}"
    steps.append(ProofStep("shuffled answers score below gold", passed, detail))
    return steps


def _check_texts(task: Task, split: str, examples: Sequence[Example]) -> Iterator[ProofStep]:
    has_contexts = any(example.context.strip() for example in examples)
    broken = [
        example.id
        for example in examples
        if not example.question.strip()
        or (has_contexts and not example.context.strip())
        or not all(answer.strip() for answer in example.answers)
    ]
    shown = f"; empty parts in {', '.join(broken[:5])}" if broken else ""
    detail = f"{len(examples) - len(broken):,} of {len(examples):,}{shown}"
    yield ProofStep("every example has text", not broken, detail)
    asked = len({example.question for example in examples})
    is_declared = asked == 1 or task.question_varies  # some models read questions only if they vary
    detail = "1 question" if asked == 1 else f"{asked:,} questions"
    detail += "" if is_declared else ", but the task does not set question_varies"
    yield ProofStep("question_varies is set if questions vary", is_declared, detail)
    published = task.counts.get(split)
    of = "(none published)" if published is None else f"of {published:,} published"
    yield ProofStep("row count", published is None or bool(examples), f"{len(examples):,} {of}")


def _reread(task: Task, examples: Sequence[Example]) -> ProofStep:
    """Check that reading or extracting gold answers doesn't change them.

    Gold answers are read by the metric, and also extracted as if they were a model's output. If
    the official scorer rejects some gold answers (`Task.gold_score`), one in a thousand may
    change.
    """
    form = settle_form(task.answer_form, task.output)
    lost: dict[str, str] = {}
    for example in examples:
        fault = find_fault(example, task.output, task.metrics)
        answer = example.answers[0]
        if not fault:
            found = extract(answer, form, example.question, context=example.context)
            if found.rule.endswith(("unparseable", "refused")):
                fault = f"If a model gave the gold answer {answer[:60]!r}, it would count as {found.rule}."
            elif found.answer.lower().split() != answer.lower().split():
                fault = f"If a model gave the gold answer {answer[:60]!r}, it would be read as {found.answer[:60]!r}."
        if fault:
            lost[example.id] = fault
    notes = [f"{id_}: {fault.rstrip('.')}" for id_, fault in list(lost.items())[:3]]
    is_known = len(lost) <= (len(examples) // 1_000 if task.gold_score else 0)
    if lost and is_known:
        notes = [
            f"known exceptions in the published data, correct according to {task.gold_score}: {', '.join(lost)}"
        ]
    values: set[str] = set()
    match task.output:
        case Label(names=()):
            values = {answer for example in examples for answer in example.answers}
        case Tags(names=()):
            values = {tag for example in examples for tag in example.answers[0].split()}
    if alike := find_alike(task.output, task.metric, sorted(values)):
        notes.append(alike.rstrip("."))
    detail = "; ".join([f"{len(examples) - len(lost):,} of {len(examples):,}", *notes])
    return ProofStep("gold answers stay the same when read and written", is_known and not alike, detail)


def _gold(task: Task, scores: dict[str, float], metric: Metric, note: str) -> ProofStep:
    """Check that gold answers get the best possible headline score.

    If a quirk of the official scorer makes this impossible, the task's `gold_score` names another score to check.
    """
    name = task.gold_score or metric.headline
    best = metric.range[1] if metric.higher_is_better else metric.range[0]
    passed = abs(scores[name] - best) < _SMALLEST_DIFFERENCE
    detail = f"{metric.headline} {scores[metric.headline]:.2f}"
    more = "" if name == metric.headline else f", {name} {scores[name]:.2f}"
    more += f"; {note}" if note else ""
    return ProofStep(f"gold answers score {best:g}", passed, detail + more)


def _shuffle(answers: Sequence[str]) -> Sequence[str]:
    moved = list(answers)
    random.Random(0).shuffle(moved)  # this can leave a short list unchanged
    return moved if moved != answers else [*answers[1:], *answers[:1]]
