"""The data structure shared by all tasks: a question, a context and answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SPLITS = ("train", "validation", "test")
"""The only valid split names, in the order in which splits are prepared and shown."""


@dataclass(frozen=True, slots=True)
class Example:
    """A question with its context and reference answers, plus the metadata that scoring needs."""

    id: str
    """A stable id, unique within its split.

    By default, it is the id in the published data. If the data has no ids, or if they reveal the answers, examples
    are numbered, as in `<task>.<split>.<index>`.
    """
    question: str
    """The question."""
    context: str
    """The text that the question is about."""
    answers: tuple[str, ...]
    """All reference answers. The first is the training target."""
    units: tuple[str, ...]
    """The sampling units that contain the example, outermost first, such as the article and the paragraph in SQuAD.

    Intervals and tests resample whole units instead of single examples.
    """
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Extra JSON data that some metrics need, such as a WikiSQL query's logical form and table header."""


@dataclass(frozen=True, slots=True)
class Question:
    """An example without its answers. Predictors receive nothing else."""

    id: str
    """The example's id."""
    question: str
    """The question."""
    context: str
    """The text that the question is about."""
