"""What answers questions: a protocol with one method. A predictor never sees an answer of what it predicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from decabench.tasks import Task

__all__ = ["Predictor", "PredictorFactory", "Question", "Setting"]


@dataclass(frozen=True, slots=True)
class Question:
    """An example without its answers."""

    id: str
    """The example's id."""
    question: str
    """What is asked."""
    context: str
    """What it is asked of."""


@runtime_checkable
class Predictor(Protocol):
    """Anybody's model."""

    def predict(self, questions: Sequence[Question]) -> Sequence[str]:
        """One answer a question, in the same order."""


@dataclass(frozen=True)
class Setting:
    """What a predictor is made for: one task and split, and the training answers it may learn from."""

    task: Task
    """The task."""
    split: str
    """The split whose questions it will be given."""
    training_answers: Callable[[], Iterator[str]]
    """The first answer of every training example, streamed; raises MissingDataError where none is prepared."""
    gold_answers: Callable[[], Mapping[str, str]]
    """Id to first answer of the split itself: for the oracle alone."""
    seed: int = 0
    """For predictors that draw."""


PredictorFactory = Callable[[Setting], Predictor]
"""Makes a predictor for one task. A plain object with `predict` serves for all tasks as it is."""
