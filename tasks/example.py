"""The shape of all data: a question, a context and answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SPLITS = ("train", "validation", "test")
"""The only split names, in the order in which they are prepared and shown."""


@dataclass(frozen=True, slots=True)
class Example:
    """A (question, context, answer) triple of decaNLP, with everything that scoring needs."""

    id: str
    """Stable, and unique in its split: upstream's id unless that reveals the answer, else
    `<task>.<split>.<index>`."""
    question: str
    """The question."""
    context: str
    """The text that the question is about."""
    answers: tuple[str, ...]
    """All references; the first is the training target. Never empty."""
    units: tuple[str, ...]
    """Its sampling units, outermost first: SQuAD's article, then paragraph. Resampling keeps units whole."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Data for structured metrics, such as the table and the logical form; JSON values only."""


@dataclass(frozen=True, slots=True)
class Question:
    """An example without its answers: everything that a predictor receives."""

    id: str
    """The example's id."""
    question: str
    """The question."""
    context: str
    """The text that the question is about."""
