"""The shape of all data: a question, a context and answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

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


# Numbers of units, which intervals resample


def number_units(units: Sequence[Sequence[str]]) -> Array:
    """Number each level's units from 0, in order of their first example: (examples, levels).

    Inner units inside different outer units are different. A row without units is its own unit.
    """
    import numpy as np

    if not units[0]:
        return np.arange(len(units))[:, None]
    labels = []
    for level in range(len(units[0])):
        numbers: dict[str, int] = {}
        labels.append([numbers.setdefault(names[level], len(numbers)) for names in units])
    return np.stack(list(nest_units(np.array(labels).T)), axis=1)


def nest_units(labels: Array) -> Iterator[Array]:
    """Yield the numbers of the units of each level, outermost first, as `number_units` gives them: (examples,).

    `labels` are integers, (examples, levels): those of an inner level need to be distinct only within an outer unit.
    """
    import numpy as np

    outer = np.zeros(len(labels), dtype=np.int64)
    for column in labels.T:
        _, inner = np.unique(column, return_inverse=True)  # from 0, so that no two pairs share a product
        pairs = outer * (int(inner.max(initial=0)) + 1) + inner
        _, first, unit = np.unique(pairs, return_index=True, return_inverse=True)
        outer = np.argsort(np.argsort(first))[unit]
        yield outer
