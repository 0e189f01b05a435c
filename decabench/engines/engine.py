"""What an engine does: questions in, outcomes out as they come, whatever runs the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from decabench.predictor import Backend, Outcome, Question, Setting

__all__ = ["BATCH", "Engine", "EngineOptions"]

BATCH = 64
"""Questions a call of `predict`, unless another number is asked for."""


@dataclass(frozen=True)
class EngineOptions:
    """What an engine is made with."""

    backend: Backend
    """What it runs."""
    batch_size: int = BATCH
    """Questions a call, for predictors that do not stream."""
    workers: int | None = None
    """How many copies of the model; None for one a GPU, or one a machine on CPU."""
    address: str | None = None
    """Where the cluster is, for `ray`; None starts one here."""


class Engine(AbstractContextManager["Engine"], Protocol):
    """Runs one backend for several tasks, one after the other. Nothing is loaded before the first question."""

    def outcomes(self, setting: Setting, questions: Iterable[Question]) -> Iterator[tuple[str, Outcome]]:
        """(id, outcome) as they come, in any order.

        What one example breaks is a Failure; what would break all of them is raised as a DecabenchError.
        """
