"""Check that the data of a task fits its metric."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from decabench.errors import MetricError
from decabench.metrics import METRICS, Item, Metric, evaluate, fold_label, read_change
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
    default_form,
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
    """Check that a prepared split of a task fits its metric.

    Gold answers must get the best score, and must stay the same when they are read and written again. Empty and
    shuffled answers must score lower. Hidden labels are quoted only if `hidden` is set. Raises MissingDataError if the
    split isn't prepared, MetricError if it can't be scored.
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
    is_structured = not isinstance(task.output, Text) or metric.find_fault is not None
    if is_structured:
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
    if (
        metric.scope == "corpus" or not metric.higher_is_better
    ):  # the lowest possible score isn't known in advance
        steps.append(ProofStep("empty answers are scored", True, f"{empty:.2f}"))
    else:
        floor = empty_answer_floor(task.metric, examples)
        passed = abs(empty - floor) < _SMALLEST_DIFFERENCE
        steps.append(ProofStep("empty answers score lowest", passed, f"{empty:.2f}, floor {floor:.2f}"))
    shuffled = score(_shuffle(answers))[metric.headline]
    passed, detail = False, "all answers are the same"
    if len(set(answers)) > 1:
        best = gold[metric.headline]
        passed = shuffled < best if metric.higher_is_better else shuffled > best
        detail = f"{shuffled:.2f} against {best:.2f}"
    steps.append(ProofStep("shuffled answers score below gold", passed, detail))
    if is_structured and (wrong := _misplace(task, examples)):
        steps.append(_wrong(task, metric, score(wrong)[metric.headline], shuffled, examples))
    elif is_structured:
        steps.append(ProofStep(_WRONG, False, "all values are the same"))
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
    """Check that gold answers stay the same when the metric reads them, and when they are extracted from a text.

    If the official scorer rejects some gold answers (`Task.gold_score`), one in a thousand may change.
    """
    form = settle_form(task.answer_form, task.output)
    lost: dict[str, str] = {}
    for example in examples:
        fault = find_fault(example, task.output, task.metrics)
        answer = example.answers[0]
        if not fault:
            found = extract(answer, form, example.question, context=example.context)
            if found.rule.endswith(("unparseable", "refused")):
                fault = f"In a model's text, its answer {answer[:60]!r} would count as {found.rule}."
            elif found.answer.lower().split() != answer.lower().split():
                fault = (
                    f"In a model's text, its answer {answer[:60]!r} would be read as {found.answer[:60]!r}."
                )
        if fault:
            lost[example.id] = fault
    notes = [f"{id_}: {fault.rstrip('.')}" for id_, fault in list(lost.items())[:3]]
    is_known = len(lost) <= (len(examples) // 1_000 if task.gold_score else 0)
    if lost and is_known:
        notes = [
            f"known exceptions in the published data, correct according to {task.gold_score}: {', '.join(lost)}"
        ]
    if alike := find_alike(task.output, task.metric, _values(task, examples)):
        notes.append(alike.rstrip("."))
    detail = "; ".join([f"{len(examples) - len(lost):,} of {len(examples):,}", *notes])
    return ProofStep("gold answers stay the same when read and written", is_known and not alike, detail)


def _values(task: Task, examples: Sequence[Example]) -> list[str]:
    match task.output:
        case Label(names=()):
            return sorted({answer for example in examples for answer in example.answers})
        case Tags(names=()):
            return sorted({tag for example in examples for tag in example.answers[0].split()})
        case _:
            return []


# Wrong answers, in which each value comes from another example


_WRONG = "wrong values score low"


def _wrong(task: Task, metric: Metric, score: float, chance: float, examples: Sequence[Example]) -> ProofStep:
    """Check that answers made up of values from other examples score low.

    Tags, trees, states and queries with no correct value must score the same as empty answers. Labels, numbers and
    answers to third-party metrics must score no better than shuffled gold answers.
    """
    if _kind(task) in ("label", "number") or metric.name not in METRICS:
        low, word = max(chance, 0.0), "by chance"
    else:
        low, word = empty_answer_floor(task.metric, examples), "floor"
    above = score - low if metric.higher_is_better else low - score
    return ProofStep(_WRONG, above < _SMALLEST_DIFFERENCE, f"{score:.2f}, {word} {low:.2f}")


def _kind(task: Task) -> str:
    return default_form(task.output, task.metric).kind


def _misplace(task: Task, examples: Sequence[Example]) -> list[str] | None:
    golds, kind = [example.answers[0] for example in examples], _kind(task)
    match kind:
        case "number":
            return _misplace_numbers(golds)
        case "state":
            return _misplace_slots(golds)
        case "tags" | "tree":
            is_plain = isinstance(task.output, Tags) and task.output.scheme == "plain"
            has_chunks = kind == "tags" and not (is_plain and task.metric != "sequence_f1")
            plain = str.lower if kind == "tags" else _without_subtype
            return _misplace_items(golds, _kind_of_chunk if has_chunks else plain)
    others = _rotate(map(fold_label, golds))
    return [_other_answer(example, others) for example in examples] if others else None


def _other_answer(example: Example, others: Mapping[str, str]) -> str:
    right = set(map(fold_label, example.answers))
    other = fold_label(example.answers[0])
    for _ in others:
        other = others[other]
        if other not in right:
            break
    return other


def _rotate(values: Iterable[str]) -> dict[str, str]:
    """Map each distinct value to the value that is half the sorted list away.

    Returns an empty dict if there is only one distinct value.
    """
    ordered = sorted(set(values))
    half = len(ordered) // 2
    return {value: ordered[(at + half) % len(ordered)] for at, value in enumerate(ordered)} if half else {}


def _misplace_numbers(golds: Sequence[str]) -> list[str] | None:
    """Replace each number with the smallest or the largest gold number, whichever is farther away.

    Returns None if all numbers are equal.
    """
    low, high = min(golds, key=float), max(golds, key=float)
    if float(low) == float(high):
        return None
    return [high if float(high) - float(gold) >= float(gold) - float(low) else low for gold in golds]


def _misplace_items(golds: Sequence[str], read: Callable[[str], str]) -> list[str] | None:
    """Return the gold sequences with a wrong value for every item, or None if there is only one value.

    In chunk tags such as `B-NP`, only the kind (`NP`) is replaced. The tag `O` counts as a kind.
    """
    others = _rotate(read(item) for gold in golds for item in gold.split())

    def other(item: str) -> str:
        value = others[read(item)]
        if read is not _kind_of_chunk or value == _OUTSIDE:
            return value
        return f"{'B' if read(item) == _OUTSIDE else item.partition('-')[0]}-{value}"

    return [" ".join(map(other, gold.split())) for gold in golds] if others else None


_OUTSIDE = "O"


def _kind_of_chunk(tag: str) -> str:
    prefix, _, kind = tag.lower().partition("-")
    return _OUTSIDE if prefix == "o" else kind


def _without_subtype(item: str) -> str:
    """Return `head:relation` without the relation's subtype, which metrics ignore."""
    return ":".join(item.lower().split(":")[:2])


def _misplace_slots(golds: Sequence[str]) -> list[str] | None:
    changes = [read_change(gold) for gold in golds]
    values = _rotate(value for change in changes for value in change.inform.values())
    requests = _rotate(name for change in changes for name in change.requested)
    moved = []
    for gold, change in zip(golds, changes, strict=True):
        goal = ", ".join(f"{slot}: {values.get(value, '')}" for slot, value in change.inform.items())
        asked = ", ".join(requests.get(name, name) for name in change.requested)
        moved.append(gold if change.request is None else f"{goal}; {asked}")
    return moved if values else None


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


def empty_answer_floor(metric: str, examples: Sequence[Example]) -> float:
    """Return the score, 0–100, that empty answers should get for these gold answers.

    Empty answers are right for dialogue states without slots and for the unanswerable questions of SQuAD 2.
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


def _shuffle(answers: Sequence[str]) -> Sequence[str]:
    moved = list(answers)
    random.Random(0).shuffle(moved)  # this can leave a short list unchanged
    return moved if moved != answers else [*answers[1:], *answers[:1]]
