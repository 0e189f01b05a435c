"""What files of answers tell of how they came to be: how many had no form, were cut short or refused, and what a cut
context leaves to be found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from decabench.layout import PredictionFile
from decabench.metrics.base import Item
from decabench.predictions import Line, read_records
from decabench.tasks import Task

__all__ = ["COUNTED", "Told", "ceiling", "is_reachable", "told_of"]

COUNTED = ("unparseable", "truncated", "refused", "context_cut")
"""What is counted, in the order in which it is said."""

_NOWHERE = "unanswerable"
"""What QA-ZRE's answer is where the context has none: no cut can take it away."""


@dataclass(frozen=True)
class Told:
    """What one file tells of its answers."""

    counts: Mapping[str, int]
    """Of `COUNTED`, those that are not 0."""
    kept: Mapping[str, tuple[int, int]]
    """By id, which characters of the context were shown, where they were not all."""


def told_of(file: PredictionFile) -> Told:
    """Reads a file of answers once. Raises SubmissionError at its first fault."""
    counts = dict.fromkeys(COUNTED, 0)
    kept: dict[str, tuple[int, int]] = {}
    for line in read_records(file):
        for name in _named(line):
            counts[name] += 1
        if line.context_kept is not None:
            kept[str(line.id)] = line.context_kept
    return Told({name: count for name, count in counts.items() if count}, kept)


def _named(line: Line) -> Iterable[str]:
    rules = line.rule.split("+")
    if "unparseable" in rules:
        yield "unparseable"
    if line.finish == "length":
        yield "truncated"
    if line.finish == "refused" or "refused" in rules:
        yield "refused"
    if line.context_kept is not None:
        yield "context_cut"


def ceiling(
    task: Task, told: Told, references: Sequence[Item], rows: Iterable[Mapping[str, Any]]
) -> float | None:
    """Of how many examples the gold answer can still be found, 0-100; None where no context of such a task was cut.

    `rows` has the id and the context of every example of the split.
    """
    if not task.extractive or not told.kept:
        return None
    golds = {item.id: item.answers for item in references if item.id in told.kept}
    lost = sum(
        not is_reachable(golds[row["id"]], row["context"], told.kept[row["id"]])
        for row in rows
        if row["id"] in golds
    )
    return 100 * (1 - lost / len(references))


def is_reachable(golds: Sequence[str], context: str, kept: tuple[int, int]) -> bool:
    """Whether the cut took none of the references, or not all that can be found in the context.

    A reference that the whole context does not have word for word is none that a cut could take away. `unanswerable`
    can always be said.
    """
    shown = context[slice(*kept)]
    before = [gold for gold in golds if gold == _NOWHERE or _has(context, gold)]
    return not before or any(gold == _NOWHERE or _has(shown, gold) for gold in before)


def _has(text: str, gold: str) -> bool:
    """Whether the text has the answer, or all of several that are joined with `, `; case and spaces aside."""
    return _has_words(text, gold) or all(_has_words(text, part) for part in gold.split(", "))


def _has_words(text: str, words: str) -> bool:
    pattern = r"\s+".join(re.escape(word) for word in words.split())
    return re.search(rf"(?<!\w){pattern}(?!\w)", text, re.IGNORECASE) is not None
