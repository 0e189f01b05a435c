"""Checks of a split's examples while they are read, and the facts about them that its record states."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from decabench.errors import DataError
from decabench.files import canonical_texts
from decabench.metrics import METRICS, MetricError, Reference
from decabench.tasks.example import Example
from decabench.tasks.outputs import compares_words, find_alike, find_fault
from decabench.tasks.task import Task

MOST_FAULTS = 20
"""The maximum number of different faults of a table to report at once."""


def check_examples(task: Task, split: str, examples: Iterable[Example]) -> Iterator[Example]:
    """Yield the examples of a split. Raises DataError for examples that cannot be scored."""
    checked = _check_classes(task, split, _check_levels(task, examples))
    # The reader of a task file checks its own answers.
    own = task.origin == "user" and task.definition is None
    return _check_answers(task, split, checked) if own else checked


def _check_levels(task: Task, examples: Iterable[Example]) -> Iterator[Example]:
    """Raise DataError if the task names more or fewer units than its first example has."""
    for number, example in enumerate(examples):
        if not number and task.unit_names and len(task.unit_names) != len(example.units):
            raise DataError(
                f"{task.name} names its units {', '.join(task.unit_names)}, but an example has "
                f"{len(example.units)}: {', '.join(map(repr, example.units))}. Give one name for each "
                "unit."
            )
        yield example


def _check_classes(task: Task, split: str, examples: Iterable[Example]) -> Iterator[Example]:
    """Raise DataError for more classes than a metric can score, before any prediction."""
    found = (METRICS[name].find_classes for name in (task.metric, *task.secondary) if name in METRICS)
    firsts: list[tuple[Callable[[Sequence[Reference]], Sequence[str]], dict[str, Example]]]
    firsts = [(find, {}) for find in found if find is not None]
    for example in examples:
        for find, first in firsts if example.answers else ():
            for name in find([example]):
                first.setdefault(name, example)
        yield example
    for find, first in firsts:
        try:
            find(list(first.values()))
        except MetricError as error:
            raise DataError(f"{task.name}, {split}: {error}") from error


def _check_answers(task: Task, split: str, examples: Iterable[Example]) -> Iterator[Example]:
    """Raise DataError for answers that change when they are read and written again."""
    if fault := find_alike(task.output, task.metric):
        raise DataError(fault)
    faults: dict[str, list[str]] = {}
    for example in examples:
        if example.answers and (fault := find_fault(example, task.output, (task.metric, *task.secondary))):
            faults.setdefault(fault, []).append(example.id)
            if len(faults) > MOST_FAULTS:
                break
        yield example
    if faults:
        raise DataError(describe_rows(f"{task.name}, {split}", faults))


def describe_rows(name: str, faults: Mapping[str, Sequence[str]]) -> str:
    """Describe every kind of fault in a table, with the first row that has it."""
    told = []
    for fault, places in faults.items():
        others = len(places) - 1
        more = f" The same in {others:,} more row{'s' if others > 1 else ''}." if others else ""
        told.append(f"{places[0]}: {fault}{more}")
    if len(told) == 1:
        return f"{name}, {told[0]}"
    listed = "\n".join(f"- {each}" for each in told[:MOST_FAULTS])
    return f"{name} has faults:\n{listed}" + ("\n- and others" if len(told) > MOST_FAULTS else "")


_WORKING = re.compile(
    r"\S.{20,}(####|\\boxed\{|</think>|answer(?: is|:))\s*\S[^\n]{0,60}\s*", re.IGNORECASE | re.DOTALL
)
"""A text that ends in a mark and a short answer, as in GSM8K and MATH."""


@dataclass
class SplitFacts:
    """The facts about a split that its record states, collected while its examples are read."""

    task: Task
    """The task."""
    split: str
    """The split."""
    least: int
    """The published number of examples, if no digest verifies the files; else 0."""
    rows: int = 0
    """The number of examples that were read."""
    labelled: bool = True
    """Whether the data has labels."""
    asked: Any = field(default_factory=hashlib.sha256)
    """A digest of the text that a predictor receives, if labels are hidden."""
    marks: Counter[str] = field(default_factory=Counter)
    """Marks before the short answer in gold answers that show their working, which a model could not guess."""

    def collect(self, examples: Iterable[Example]) -> Iterator[Example]:
        """Yield examples, and collect the facts about them. Raises DataError if there are too few."""
        has_words = self.task.origin == "user" and compares_words(self.task.output, self.task.metric)
        for example in examples:
            yield example
            self.rows += 1
            if self.split in self.task.hidden:
                asked = f"{canonical_texts((example.id, example.question, example.context))}\n"
                self.asked.update(asked.encode("utf-8", "surrogatepass"))
                self.labelled = bool(example.answers)
            if has_words and example.answers and (found := _WORKING.fullmatch(example.answers[0])):
                self.marks[found[1]] += 1
        if self.rows < self.least:
            raise DataError(
                f"{self.task.name}, {self.split}, has only {self.rows:,} of {self.least:,} examples: "
                "fetch it again with --force."
            )

    @property
    def note(self) -> str:
        """A warning if most gold answers contain their working; else empty."""
        if 2 * (count := self.marks.total()) <= self.rows:
            return ""
        mark = self.marks.most_common(1)[0][0]
        return (
            f"{count:,} of {self.rows:,} gold answers end in `{mark}` and a short answer; the metric "
            "compares the whole text, so keep only the part after the mark as the answer"
        )
