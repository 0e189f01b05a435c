"""The type of an answer, which decides the default metric, extraction, highlighting, limits and models' heads."""

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
"""How tags spell chunks; `plain` tags, such as parts of speech, mark single tokens."""

SCHEMES: tuple[Scheme, ...] = get_args(Scheme)


@dataclass(frozen=True)
class Text:
    """Free text: a span, a translation, a summary, a query."""

    extractive: bool = False
    """Whether an answer is part of the context, so that cutting the context may lose it."""
    max_tokens: int = 256
    """The maximum number of tokens in a language model's answer."""

    def __post_init__(self) -> None:
        _check_limit(self.max_tokens)


@dataclass(frozen=True)
class Label:
    """One of a few labels."""

    names: tuple[str, ...] = ()
    """The labels; none if each question names its own."""
    max_tokens: int = 24
    """The maximum number of tokens in a language model's answer."""

    def __post_init__(self) -> None:
        _check_names("label", self.names)
        _check_limit(self.max_tokens)


@dataclass(frozen=True)
class Tags:
    """One tag for each token of the context, separated by spaces."""

    scheme: Scheme = "plain"
    """How tags spell chunks."""
    names: tuple[str, ...] = ()
    """The tags; none if they are not known before the data is read."""
    max_tokens: int = 512
    """The maximum number of tokens in a language model's answer."""

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise DataError(f"There is no tagging scheme {self.scheme!r}: use one of {', '.join(SCHEMES)}.")
        _check_names("tag", self.names)
        _check_limit(self.max_tokens)


@dataclass(frozen=True)
class Tree:
    """A dependency tree: `head:relation` for each token of the context, heads counted from 1, 0 for the root."""

    relations: tuple[str, ...] = ()
    """The relations; none if they are not known before the data is read."""
    max_tokens: int = 1024
    """The maximum number of tokens in a language model's answer."""

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
    """The maximum number of tokens in a language model's answer."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise DataError(
                f"A scale must go from a lower to a higher number, not from {self.low:g} to {self.high:g}."
            )
        _check_limit(self.max_tokens)


Output = Text | Label | Tags | Tree | Number
"""The types of answers."""


def _check_names(kind: str, names: Sequence[str]) -> None:
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise DataError(f"Each {kind} must be a non-empty string; given {', '.join(map(repr, names))}.")
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"Each {kind} may be named only once; {', '.join(repeated)} is named more than once.")


def _check_limit(max_tokens: int) -> None:
    if max_tokens < 1:
        raise DataError(f"max_tokens is {max_tokens}: give 1 or more.")


def default_metric(output: Output) -> str:
    """Return the default headline metric for an output: a key of `decabench.metrics.METRICS`."""
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
