"""What an answer is: the one fact from which metric, extraction, highlighting, limits and models' heads follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Label", "Number", "Output", "Scheme", "Tags", "Text", "Tree", "default_metric"]

Scheme = Literal["plain", "IOB1", "IOB2", "IOBES"]
"""How tags spell chunks; `plain` tags stand for themselves, as parts of speech do."""


@dataclass(frozen=True)
class Text:
    """Free text: a span, a translation, a summary, a query."""

    extractive: bool = False
    """Whether an answer is a part of the context, so that a context that was cut may have lost it."""
    max_tokens: int = 256
    """The most tokens that a language model may spend on an answer."""


@dataclass(frozen=True)
class Label:
    """One of a few labels."""

    names: tuple[str, ...] = ()
    """The labels; none where each question names its own."""


@dataclass(frozen=True)
class Tags:
    """One tag for each token of the context, separated by spaces."""

    scheme: Scheme = "plain"
    """How tags spell chunks."""
    names: tuple[str, ...] = ()
    """The tags; none where they are not known before the data is read."""


@dataclass(frozen=True)
class Tree:
    """A dependency tree: `head:relation` for each token of the context, heads counted from 1, 0 for the root."""

    relations: tuple[str, ...] = ()
    """The relations; none where they are not known before the data is read."""


@dataclass(frozen=True)
class Number:
    """A number on a scale."""

    low: float
    """The least that an answer may be."""
    high: float
    """The most."""


Output = Text | Label | Tags | Tree | Number
"""What an answer is."""


def default_metric(output: Output) -> str:
    """The headline metric of a task that names none: a key of `decabench.metrics.METRICS`."""
    match output:
        case Label():
            return "accuracy"
        case Tags(scheme="plain"):
            return "tag_accuracy"
        case Tags():
            return "sequence_f1"
        case Tree():
            return "parsing"
        case Number():
            return "mse"
        case Text():
            return "nf1"
