"""What answers questions: a protocol with one method. A predictor never sees an answer of what it predicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from decabench.tasks import Question, Task

if TYPE_CHECKING:
    from decabench.prompts import Prompting

__all__ = [
    "Answer",
    "Backend",
    "Failure",
    "Finish",
    "Outcome",
    "Predictor",
    "PredictorFactory",
    "Setting",
    "StreamingPredictor",
]

Finish = Literal["stop", "length", "refused"]
"""Why an answer ended: of itself, at the limit of new tokens, or because the model or its server declined."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a predictor said to one question, and what is known of how it came to be."""

    text: str
    """The raw text: nothing stripped, nothing added."""
    finish: Finish = "stop"
    """Why it ended."""
    context_kept: tuple[int, int] | None = None
    """Which characters of the context the model was shown, [start, end), where they were not all."""
    prompt_tokens: int | None = None
    """Tokens that it was given, where they were counted."""
    completion_tokens: int | None = None
    """Tokens that it made, where they were counted."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A question that brought no answer."""

    error: str
    """What went wrong, in a sentence."""


Outcome = Answer | Failure


@runtime_checkable
class Predictor(Protocol):
    """Anybody's model."""

    def predict(self, questions: Sequence[Question]) -> Sequence[str | Answer | Failure]:
        """One answer a question, in the same order."""


@runtime_checkable
class StreamingPredictor(Protocol):
    """A model that decides for itself how many questions it works on at once, and in which order."""

    def stream(self, questions: Iterable[Question]) -> Iterator[tuple[str, Outcome]]:
        """(id, outcome) as they come, every question once; reads no further ahead than it can use."""


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
    prompting: Prompting | None = None
    """How a question becomes a prompt, for language models."""


PredictorFactory = Callable[[Setting], Predictor | StreamingPredictor]
"""Makes a predictor for one task. A plain object with `predict` serves for all tasks as it is."""


@runtime_checkable
class Backend(Protocol):
    """A way to run a model, before anything is loaded: a small value that can be pickled."""

    @property
    def prompted(self) -> bool:
        """Whether it is a language model, which is given prompts and whose answers are extracted."""

    def describe(self) -> Mapping[str, Any]:
        """All that decides its answers (name, revision or digest of the weights, decoding): JSON values, no secrets."""

    def open(self) -> AbstractContextManager[PredictorFactory]:
        """Loads the weights, starts the program or opens the connection: once for all tasks."""
