"""The predictor in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, Self

from decabench.engines.engine import EngineOptions
from decabench.errors import DecabenchError, UnknownNameError
from decabench.predictor import (
    Answer,
    Failure,
    Outcome,
    Predictor,
    PredictorFactory,
    Question,
    Setting,
    StreamingPredictor,
)

__all__ = ["LocalEngine", "outcomes_of"]


class LocalEngine:
    """Loads the model at the first question, once for all tasks, and asks it here."""

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self._stack = ExitStack()
        self._factory: PredictorFactory | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def outcomes(self, setting: Setting, questions: Iterable[Question]) -> Iterator[tuple[str, Outcome]]:
        """As `Engine.outcomes`."""
        if self._factory is None:
            self._factory = self._stack.enter_context(self._options.backend.open())
        return outcomes_of(self._factory, setting, questions, self._options.batch_size)


def outcomes_of(
    factory: PredictorFactory, setting: Setting, questions: Iterable[Question], batch_size: int
) -> Iterator[tuple[str, Outcome]]:
    """Makes the predictor and asks it. Raises DecabenchError where it breaks its protocol."""
    predictor = _outside(setting, partial(factory, setting))
    if isinstance(predictor, StreamingPredictor):
        yield from predictor.stream(questions)
    elif isinstance(predictor, Predictor):
        remaining = iter(questions)
        while batch := list(islice(remaining, batch_size)):
            yield from zip(
                (question.id for question in batch), _asked(setting, predictor, batch), strict=True
            )
    else:
        raise UnknownNameError(
            f"What was made for {setting.task.name}, {predictor!r:.100}, is no predictor: it needs a method "
            "predict(questions) that returns one text each."
        )


def _outside(setting: Setting, call: Callable[[], Any]) -> Any:
    """What somebody else's code makes; what it raises is said to be its own."""
    try:
        return call()
    except DecabenchError:
        raise
    except Exception as error:
        raise DecabenchError(
            f"The predictor failed on {setting.task.name} before its first question "
            f"({type(error).__name__}: {error}): run again with --debug for the place."
        ) from error


def _asked(setting: Setting, predictor: Predictor, batch: Sequence[Question]) -> Iterator[Outcome]:
    """One outcome a question. A batch that raises is asked again one by one, to find whose fault it is."""
    try:
        answers = list(_texts(predictor.predict(batch)))
    except DecabenchError:
        raise
    except Exception as error:
        if len(batch) == 1:
            yield Failure(f"{type(error).__name__}: {error}")
            return
        for question in batch:
            yield from _asked(setting, predictor, [question])
        return
    if len(answers) != len(batch):
        raise DecabenchError(
            f"The predictor was given {len(batch)} questions of {setting.task.name} and must return as many texts."
        )
    for answer in answers:
        yield _outcome(setting, answer)


def _texts(answers: object) -> Iterable[object]:
    """What was returned, where it is a list of any kind: a single string is no list of answers."""
    return () if isinstance(answers, str) or not isinstance(answers, Iterable) else answers


def _outcome(setting: Setting, answer: object) -> Outcome:
    if isinstance(answer, str):
        return Answer(answer)
    if isinstance(answer, (Answer, Failure)):
        return answer
    raise DecabenchError(
        f"The predictor returned {answer!r:.100} for a question of {setting.task.name}: an answer is a text."
    )
