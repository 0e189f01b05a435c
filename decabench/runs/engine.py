"""The predictor in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, Protocol, Self

from decabench.errors import DecabenchError, UnknownNameError
from decabench.predictors import (
    Answer,
    Backend,
    Failure,
    Outcome,
    Predictor,
    PredictorFactory,
    Setting,
    StreamingPredictor,
)
from decabench.tasks import Question
from decabench.text import describe_error, excerpt

__all__ = ["BATCH", "Engine", "EngineOptions", "LocalEngine", "outcomes_of"]

# ---- engine

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


# ---- local

_THEIRS = (Exception, GeneratorExit)
"""What a predictor's code may raise of a question. SystemExit is about all of them, KeyboardInterrupt is the user's."""


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
    predictor = _made(factory, setting)
    if isinstance(predictor, StreamingPredictor):
        yield from _streamed(setting, predictor, questions)
    elif isinstance(predictor, Predictor):
        remaining = iter(questions)
        while batch := tuple(islice(remaining, batch_size)):
            yield from _asked(setting, predictor, batch)
    else:
        raise UnknownNameError(
            f"What was made for {setting.task.name}, {_shown(predictor)}, is no predictor: it needs a method "
            "predict(questions) that returns one text each."
        )


def _made(factory: PredictorFactory, setting: Setting) -> Any:
    """What somebody else's code makes; what it raises is said to be its own."""
    try:
        return factory(setting)
    except DecabenchError:
        raise
    except (*_THEIRS, SystemExit) as error:
        raise DecabenchError(
            f"The predictor failed on {setting.task.name} before its first question "
            f"({describe_error(error)}): run again with --debug for the place."
        ) from error


def _streamed(
    setting: Setting, predictor: StreamingPredictor, questions: Iterable[Question]
) -> Iterator[tuple[str, Outcome]]:
    """What it yields, checked. Only its own code is under guard: who takes the outcomes may close this at any time."""
    answers = 0
    pairs = _guarded(setting, answers, lambda: iter(predictor.stream(questions)))
    try:
        while (pair := _guarded(setting, answers, partial(next, pairs, _END))) is not _END:
            yield _pair(setting, pair)
            answers += 1
    finally:
        if hasattr(pairs, "close"):  # at once, not when the garbage is collected: it may hold a program
            _guarded(setting, answers, pairs.close)


_END = object()
"""What stands for the end of a stream."""


def _guarded(setting: Setting, answers: int, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except DecabenchError:
        raise
    except (*_THEIRS, SystemExit) as error:
        so_far = "1 answer" if answers == 1 else f"{answers:,} answers"
        raise DecabenchError(
            f"The predictor failed on {setting.task.name} ({describe_error(error)}) after {so_far}: "
            "fix it and run the same "
            "command again to go on, for what was answered is kept; --debug shows the place."
        ) from error


def _pair(setting: Setting, pair: object) -> tuple[str, Outcome]:
    if isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], str):
        return pair[0], _outcome(setting, pair[1])
    raise DecabenchError(
        f"The predictor streamed {_shown(pair)} for {setting.task.name}: it must yield pairs (id, text)."
    )


def _asked(
    setting: Setting, predictor: Predictor, batch: Sequence[Question]
) -> Iterator[tuple[str, Outcome]]:
    """One outcome a question. A batch that raises is asked again one by one, to find whose fault it is."""
    try:
        found = predictor.predict(list(batch))  # theirs to sort or to empty: ours keeps the order of the ids
        answers = list(found) if _is_series(found) else None
    except DecabenchError:
        raise
    except SystemExit as error:
        raise DecabenchError(
            f"The predictor ended the program on {setting.task.name} ({describe_error(error)}): it must "
            "raise an error of a "
            "question, or return; run again with --debug for the place."
        ) from error
    except _THEIRS as error:
        if len(batch) == 1:
            yield batch[0].id, Failure(describe_error(error))
            return
        for question in batch:
            yield from _asked(setting, predictor, (question,))
        return
    if answers is None or len(answers) != len(batch):
        returned = f"a {type(found).__name__}" if answers is None else f"{len(answers):,}"
        raise DecabenchError(
            f"The predictor was given {len(batch)} questions of {setting.task.name} and must return as many texts, in "
            f"their order, and returned {returned}."
        )
    for question, answer in zip(batch, answers, strict=True):
        yield question.id, _outcome(setting, answer)


def _is_series(answers: object) -> bool:
    """Whether it is a list of any kind: a single string is none, and what has no order or has keys is none."""
    return isinstance(answers, Iterable) and not isinstance(answers, (str, bytes, Mapping, AbstractSet))


def _outcome(setting: Setting, answer: object) -> Outcome:
    if isinstance(answer, str):
        return Answer(answer)
    if isinstance(answer, (Answer, Failure)):
        return answer
    raise DecabenchError(
        f"The predictor returned {_shown(answer)} for a question of {setting.task.name}: an answer is a text."
    )


def _shown(value: object) -> str:
    return excerpt(repr(value), 100)
