"""One task's questions given to a program, and its answers taken as they come."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from decabench.errors import DecabenchError
from decabench.predictor import Failure, Outcome, Question
from decabench.predictors.command_process import Process, StalledError
from decabench.predictors.command_replies import Asked, outcome_of
from decabench.predictors.texts import excerpt

__all__ = ["CommandPredictor"]


@dataclass(frozen=True)
class CommandPredictor:
    """A program that answers the questions of one task."""

    arguments: tuple[str, ...]
    """The program and its arguments."""
    task: str
    """The task's name."""
    split: str
    """The split's name."""
    seed: int = 0
    """For programs that draw."""
    timeout: float | None = None
    """Seconds in which it must read a question or answer one; None for no limit."""

    def stream(self, questions: Iterable[Question]) -> Generator[tuple[str, Outcome], None, None]:
        """(id, outcome) as they come. Closing it ends the program and its children."""
        source = iter(questions)
        first = next(source, None)
        if first is None:
            return
        source = chain([first], source)
        asked = Asked({}, set())
        with Process(self.arguments, self._environment) as process:
            try:
                lines = process.lines(self._next_line(source, asked), lambda: not asked.waiting, self.timeout)
                for number, line in enumerate(lines, 1):
                    if line.strip():
                        yield outcome_of(line, number, asked)
                reason = _ending(process, len(asked.answered))
            except StalledError:
                reason = (
                    f"The program neither read nor answered for {self.timeout:g} s after {len(asked.answered)} "
                    f"answers, and was ended.{_last_words(process)}"
                )
        for id in (*asked.waiting, *(question.id for question in source)):
            yield id, Failure(reason)

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "DECABENCH_TASK": self.task,
            "DECABENCH_SPLIT": self.split,
            "DECABENCH_SEED": str(self.seed),
        }

    def _next_line(self, source: Iterator[Question], asked: Asked) -> Callable[[], bytes | None]:
        def next_line() -> bytes | None:
            question = next(source, None)
            if question is None:
                return None
            asked.waiting[question.id] = len(question.context)
            row = {
                "id": question.id,
                "question": question.question,
                "context": question.context,
                "task": self.task,
                "split": self.split,
            }
            return json.dumps(row).encode() + b"\n"

        return next_line


def _ending(process: Process, answers: int) -> str:
    """Why what is left has no answer. Raises DecabenchError where there was never one: so it would go on."""
    status = process.status()
    said = _last_words(process)
    how = "closed its output" if status is None else f"ended with status {status}"
    if status is not None and status < 0:
        how = f"was ended by {_signal_name(-status)}"
    if answers:
        return f"The program {how} after {answers} answers, without one to this question.{said}"
    raise DecabenchError(f"The program {how} before it answered anything.{said}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_words(process: Process) -> str:
    """The end of its messages, as the end of a sentence."""
    lines = [line for line in process.messages.splitlines() if line.strip()]
    return f" Its last messages: {excerpt(' / '.join(lines[-3:]), 400)}" if lines else ""
