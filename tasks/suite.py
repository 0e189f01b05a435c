"""What a suite is: tasks that are reported together, how their scores combine, and what papers report on them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Combination", "PublishedRow", "Suite"]

Combination = Literal["sum", "mean", "none"]
"""How the headline scores of a suite's tasks become one number."""


@dataclass(frozen=True)
class PublishedRow:
    """A model's scores as a paper prints them: shown apart, never ranked among scored submissions."""

    name: str
    """The model."""
    training: str
    """How it was trained: `joint`, `single-task`."""
    scores: Mapping[str, float]
    """By task name, in the metric's own unit."""
    total: float | None = None
    """The suite's total as printed; None where the paper gives none."""
    source: str = ""
    """Where in which paper; the suite's source where empty."""


@dataclass(frozen=True)
class Suite:
    """Tasks that are reported together. A task more in the registry changes no suite."""

    name: str
    """`decathlon`: what `--suite` takes."""
    title: str
    """What a person calls it."""
    tasks: tuple[str, ...]
    """The names of its tasks, in the order of its tables."""
    total: Combination = "none"
    """How their scores combine. Metrics of which lower is better go with `none` alone."""
    total_name: str = "total"
    """What the combined score is called: `decaScore`."""
    description: str = ""
    """What it measures, in a sentence or two."""
    source: str = ""
    """The paper whose scores `published` holds."""
    source_url: str = ""
    """Where the paper is."""
    published: tuple[PublishedRow, ...] = ()
    """What papers report on it."""
    notes: tuple[str, ...] = field(default=())
    """What a reader of the published rows must know."""
    origin: str = "decabench"
    """Who defined it: `decabench`, or `user` for a file or an entry point."""

    def combine(self, scores: Mapping[str, float]) -> float | None:
        """The total of scores by task; None unless every task of the suite has one, and for `none`."""
        if self.total == "none" or any(task not in scores for task in self.tasks):
            return None
        found = math.fsum(scores[task] for task in self.tasks)
        return found if self.total == "sum" else found / len(self.tasks)
