"""The shape of all data: a question, a context and answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["SPLITS", "Example", "Question"]

SPLITS = ("train", "validation", "test")
"""The only split names, in the order in which they are prepared and shown."""


@dataclass(frozen=True, slots=True)
class Example:
    """A (question, context, answer) triple of decaNLP, with what is needed to score it."""

    id: str
    """Stable, and unique in its split: upstream's id if it does not tell the answer, else `<task>.<split>.<index>`."""
    question: str
    """The question."""
    context: str
    """The text that the question is about."""
    answers: tuple[str, ...]
    """All references; the first is the training target. Never empty."""
    units: tuple[str, ...]
    """What it was sampled in, outermost first: SQuAD's article, then paragraph. Resampling keeps a unit whole."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """What a structured metric needs (the table and the logical form); JSON values only."""


@dataclass(frozen=True, slots=True)
class Question:
    """An example without its answers: all that a predictor is given."""

    id: str
    """The example's id."""
    question: str
    """The question."""
    context: str
    """The text that the question is about."""
