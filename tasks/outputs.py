"""What an answer is: the one fact from which metric, extraction, highlighting, limits and models' heads follow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from decabench.errors import DataError

__all__ = [
    "SCHEMES",
    "Label",
    "Number",
    "Output",
    "Scheme",
    "Tags",
    "Text",
    "Tree",
    "default_metric",
    "describe_output",
]

Scheme = Literal["plain", "IOB1", "IOB2", "IOBES"]
"""How tags spell chunks; `plain` tags stand for themselves, as parts of speech do."""

SCHEMES: tuple[Scheme, ...] = get_args(Scheme)


@dataclass(frozen=True)
class Text:
    """Free text: a span, a translation, a summary, a query."""

    extractive: bool = False
    """Whether an answer is a part of the context, so that a context that was cut may have lost it."""
    max_tokens: int = 256
    """The most tokens that a language model may spend on an answer."""

    def __post_init__(self) -> None:
        _check_limit(self.max_tokens)


@dataclass(frozen=True)
class Label:
    """One of a few labels."""

    names: tuple[str, ...] = ()
    """The labels; none where each question names its own."""
    max_tokens: int = 24
    """The most tokens that a language model may spend on an answer."""

    def __post_init__(self) -> None:
        _check_names("label", self.names)
        _check_limit(self.max_tokens)


@dataclass(frozen=True)
class Tags:
    """One tag for each token of the context, separated by spaces."""

    scheme: Scheme = "plain"
    """How tags spell chunks."""
    names: tuple[str, ...] = ()
    """The tags; none where they are not known before the data is read."""
    max_tokens: int = 512
    """The most tokens that a language model may spend on an answer."""

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise DataError(f"There is no scheme of tags {self.scheme!r}: it is one of {', '.join(SCHEMES)}.")
        _check_names("tag", self.names)
        _check_limit(self.max_tokens)


@dataclass(frozen=True)
class Tree:
    """A dependency tree: `head:relation` for each token of the context, heads counted from 1, 0 for the root."""

    relations: tuple[str, ...] = ()
    """The relations; none where they are not known before the data is read."""
    max_tokens: int = 1024
    """The most tokens that a language model may spend on an answer."""

    def __post_init__(self) -> None:
        _check_names("relation", self.relations)
        _check_limit(self.max_tokens)


@dataclass(frozen=True)
class Number:
    """A number on a scale."""

    low: float
    """The lowest possible answer."""
    high: float
    """The highest possible answer."""
    max_tokens: int = 16
    """The most tokens that a language model may spend on an answer."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise DataError(
                f"A scale goes from a low to a higher number, not from {self.low:g} to {self.high:g}."
            )
        _check_limit(self.max_tokens)


Output = Text | Label | Tags | Tree | Number
"""What an answer is."""


def _check_names(kind: str, names: Sequence[str]) -> None:
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise DataError(f"Each {kind} is a string that is not empty; given {', '.join(map(repr, names))}.")
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"Each {kind} is named once; {', '.join(repeated)} is named more than once.")


def _check_limit(max_tokens: int) -> None:
    if max_tokens < 1:
        raise DataError(f"max_tokens is {max_tokens}: give 1 or more.")


def default_metric(output: Output) -> str:
    """Return the headline metric of a task that names none: a key of `decabench.metrics.METRICS`."""
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


def describe_output(output: Output) -> str:
    """Describe an output in a phrase: `one of negative, positive`."""
    match output:
        case Text(extractive=True):
            return "a span of the context"
        case Text():
            return "text"
        case Label(names=()):
            return "one of the labels that the question names"
        case Label(names=names):
            return f"one of {', '.join(names)}"
        case Tags(scheme=scheme, names=names):
            spelled = "" if scheme == "plain" else f" ({scheme})"
            return f"a tag{spelled} for each token of the context{_listed(names)}"
        case Tree(relations=relations):
            return f"a head and a relation for each token of the context{_listed(relations)}"
        case Number(low=low, high=high):
            return f"a number from {low:g} to {high:g}"


def _listed(names: Sequence[str]) -> str:
    return f": {', '.join(names)}" if names else ""
