"""The data structure shared by all tasks: a question, a context and answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SPLITS = ("train", "validation", "test")
"""The only valid split names, in the order in which splits are prepared and shown."""


@dataclass(frozen=True, slots=True)
class Example:
    """A (question, context, answer) triple with everything that scoring needs."""

    id: str
    """A stable id, unique in its split: upstream's id, or `<task>.<split>.<index>` if that would reveal the answer."""
    question: str
    """The question."""
    context: str
    """The text that the question is about."""
    answers: tuple[str, ...]
    """All reference answers. The first is the training target."""
    units: tuple[str, ...]
    """Sampling units, outermost first, for example SQuAD's article, then paragraph. Resampling keeps units whole."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """JSON data for structured metrics, such as the table and the logical form."""


@dataclass(frozen=True, slots=True)
class Question:
    """An example without its answers, which is everything that a predictor receives."""

    id: str
    """The example's id."""
    question: str
    """The question."""
    context: str
    """The text that the question is about."""
