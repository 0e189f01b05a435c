"""Select scored examples by correctness, flag, id or text, and sort them for display."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from decabench.errors import DataError, require_name
from decabench.metrics import Item
from decabench.scoring.evaluator import ScoringOptions, score_submission, scored_examples
from decabench.scoring.examples import (
    Course,
    ExamplesHead,
    ScoredExample,
    describe_parting,
    find_courses,
)
from decabench.scoring.results import TaskResult, score_digits
from decabench.scoring.task_results import find_metric
from decabench.tasks import Store, Task

Order = Literal["data", "loss", "length"]
"""The sort order: the order of the data, the largest loss first, or the longest answer first."""


@dataclass(frozen=True)
class Inspected:
    """A task's scored examples, with their questions and contexts."""

    submission: str
    """The submission's name."""
    task: Task
    """The task."""
    head: ExamplesHead
    """The task, split, metric and data of the examples."""
    rows: Sequence[ScoredExample]
    """The answers to the dataset's own wording, in the order of the data."""
    wordings: Mapping[int, Sequence[ScoredExample]]
    """The answers to other wordings, by wording number, in the order of the data."""
    texts: Sequence[tuple[str, str]]
    """The question and the context of each row."""
    courses: Mapping[int, Course]
    """The compared dialogue states, by row index, for metrics that compare states instead of answers."""
    result: TaskResult
    """The task's result, with its score, counts of answers, samples and calibration."""
    predictor: Mapping[str, Any] = field(default_factory=dict)
    """The predictor's settings in `submission.toml`."""

    @property
    def score(self) -> float | None:
        """The task's score."""
        return self.result.score

    @property
    def flags(self) -> Counter[str]:
        """The number of rows with each flag."""
        return Counter(flag for row in self.rows for flag in row.flags)

    @property
    def facts(self) -> dict[str, Any]:
        """The model, protocol, number of samples, token usage and cost, if they were recorded."""
        key = f"{self.head.task}.{self.head.split}"
        parts = {name: self.predictor.get(name) for name in ("usage", "served_by")}
        usage, served = (part.get(key) if isinstance(part, dict) else None for part in parts.values())
        facts = {
            "model": self.predictor.get("model"),
            "served_by": served,
            "protocol": self.predictor.get("protocol"),
            "samples": self.result.samples and len(self.result.samples.scores),
            **(usage if isinstance(usage, dict) else {}),
        }
        return {name: value for name, value in facts.items() if value is not None}

    @property
    def digits(self) -> int:
        """The number of decimal places to print for scores: 2, or 3 if the scale is narrow or unbounded."""
        return score_digits(self.head.task, self.head.metric, least=2)


def find_examples(
    submission: str | Path, task: str, options: ScoringOptions, hidden: bool = False
) -> Inspected:
    """Score a submission on one task and return its examples.

    Raises the same errors as `evaluate`, and DataError if the answers have faults or if the labels are hidden and
    `hidden` is not set.
    """
    results, scored = score_submission(submission, replace(options, tasks=[task]))
    ((name, found),) = scored.items()
    head, made = scored_examples(options, scored, name, hidden)
    wordings: dict[int, list[ScoredExample]] = {0: []}
    for row in made:
        wordings.setdefault(row.variant, []).append(row)
    rows = wordings.pop(0)
    prompts = Store(options.home).prompts(name, options.split)
    metric, courses = find_metric(found.task.metric), {}
    if metric.states is not None:
        items = [Item(row.references, row.id) for row in rows]
        courses = find_courses(metric, [row.prediction or "" for row in rows], items)
    return Inspected(
        str(results.submission["name"]),
        found.task,
        head,
        rows,
        wordings,
        [prompts[row.id] for row in rows],
        courses,
        found.result,
        results.submission["predictor"],
    )


@dataclass(frozen=True)
class Chosen:
    """Filters and a sort order for examples."""

    right: bool | None = None
    """True for right answers only, False for wrong answers only, None for all examples."""
    flags: tuple[str, ...] = ()
    """The flags to look for. An example matches if its answer to any wording has at least one of
    them. Empty for all examples.
    """
    ids: tuple[str, ...] = ()
    """The ids to look for; empty for all examples."""
    search: str = ""
    """A string that must occur in the question, context, references, answer, raw output or reasoning, ignoring case;
    empty for all examples.
    """
    order: Order = "data"
    """The sort order."""


@dataclass(frozen=True)
class Browsed:
    """An example with the details that are shown."""

    row: ScoredExample
    """The answer, with its score and flags."""
    question: str
    """The question."""
    context: str
    """The context."""
    loss: float
    """The distance from the best score; infinite for a wrong answer without an individual score."""
    wordings: Mapping[int, ScoredExample] = field(default_factory=dict)
    """The answers to other wordings, by wording number."""
    other: ScoredExample | None = None
    """The answer of the other submission, if two submissions are compared."""
    course: Course | None = None
    """The states that were compared, if the metric compares states."""
    before: tuple[str, ...] = ()
    """The contexts of earlier examples in the group, such as earlier turns of a dialogue, in order."""
    parted: str = ""
    """A description of the answer that made the state diverge from the gold state, or `here` if it is
    this example's own answer.
    """


def browse_examples(shown: Inspected, chosen: Chosen, other: Inspected | None = None) -> list[Browsed]:
    """Return the examples that match `chosen`, sorted.

    If `other` is given and `chosen.ids` is empty, only examples that exactly one of the two
    submissions got right are returned. `chosen.right` selects the examples that `shown` got right
    (True) or wrong (False).

    Raises UnknownNameError for an unknown id, and DataError if the submissions were scored on
    different data or with different metrics.
    """
    others: dict[str, ScoredExample] | None = None
    if other is not None:
        if (shown.head.data, shown.head.metric) != (other.head.data, other.head.metric):
            raise DataError(
                f"{shown.submission} and {other.submission} were scored on different data or with different "
                "metrics. Their examples can't be compared."
            )
        others = {row.id: row for row in other.rows}
    known = [row.id for row in shown.rows] if chosen.ids else []
    for id_ in chosen.ids:
        require_name(id_, known, f"answered example of {shown.head.task} ({shown.head.split})")
    found = [_browse(shown, place, others) for place in _matching(shown, chosen, others)]
    if chosen.order == "loss":
        found.sort(key=lambda each: -each.loss)
    elif chosen.order == "length":
        found.sort(key=lambda each: -len(each.row.prediction or ""))
    return found


def _matching(shown: Inspected, chosen: Chosen, others: Mapping[str, ScoredExample] | None) -> Iterator[int]:
    needle = chosen.search.casefold()
    for place, (row, text) in enumerate(zip(shown.rows, shown.texts, strict=True)):
        if chosen.ids and row.id not in chosen.ids:
            continue
        if others is not None and not chosen.ids:
            other = others.get(row.id)
            if other is None or {row.right, other.right} != {True, False}:
                continue
        if chosen.right is not None and row.right is not chosen.right:
            continue
        if chosen.flags and not any(
            set(chosen.flags) & set(each.flags)
            for each in (row, *(rows[place] for rows in shown.wordings.values()))
        ):
            continue
        own = (row.prediction or "", row.raw or "", row.reasoning or "")
        said = (*text, *own, *row.references)
        if not needle or any(needle in each.casefold() for each in said):
            yield place


def _browse(shown: Inspected, place: int, others: Mapping[str, ScoredExample] | None) -> Browsed:
    row, course = shown.rows[place], shown.courses.get(place)
    parted = ""
    if course is not None and course.parted is not None:
        there = shown.rows[course.parted]
        gold = there.references[0] if there.references else ""
        parted = describe_parting(there.id, gold, there.prediction or "")
    return Browsed(
        row,
        *shown.texts[place],
        shown.head.loss(row),
        {number: rows[place] for number, rows in shown.wordings.items()},
        others.get(row.id) if others is not None else None,
        course,
        tuple(shown.texts[at][1] for at in course.before) if course else (),
        "here" if course is not None and course.parted == place else parted,
    )
