"""One task answered: what the journal lacks is asked, and every outcome goes into the journal as it comes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field
from typing import Protocol

from decabench.errors import DecabenchError
from decabench.predictors import Answer, Failure, Outcome, Setting
from decabench.runs.engine import Engine
from decabench.runs.journal import Journal, sound
from decabench.tasks import Question
from decabench.text import quoted

__all__ = ["GIVE_UP_AFTER", "Progress", "Silent", "Tally", "TaskRun", "answer_task"]

GIVE_UP_AFTER = 25
"""So many failures in a row are no longer about single examples."""


@dataclass
class Tally:
    """What one task's run has done so far."""

    task: str
    """The task's name, with its variant where that is not the dataset's wording."""
    total: int
    """Examples to answer."""
    resumed: int = 0
    """Answers that were in the journal."""
    answered: int = 0
    """Answers of this run."""
    failed: int = 0
    """Examples that brought no answer in this run."""
    prompt_tokens: int = 0
    """Tokens given, where they were counted."""
    completion_tokens: int = 0
    """Tokens made, where they were counted."""
    cut: int = 0
    """Answers to a context that was cut to fit, those of the journal included."""
    truncated: int = 0
    """Answers that the limit of new tokens cut off, those of the journal included."""
    seconds: float = 0.0
    """On the clock, loading included."""
    commonest_error: str = ""
    """Of the failures."""

    @property
    def done(self) -> int:
        """Examples that this run needs no more."""
        return self.resumed + self.answered + self.failed


class Progress(Protocol):
    """Who is told how far a run is."""

    def begin(self, tally: Tally) -> None:
        """A task begins."""

    def update(self, tally: Tally) -> None:
        """One more outcome."""

    def end(self, tally: Tally) -> None:
        """The task is done, or stopped."""


class Silent:
    """Tells nobody."""

    def begin(self, tally: Tally) -> None:
        """Nothing."""

    def update(self, tally: Tally) -> None:
        """Nothing."""

    def end(self, tally: Tally) -> None:
        """Nothing."""


@dataclass(frozen=True)
class TaskRun:
    """One task to be answered in one wording."""

    name: str
    """What a person is told it is."""
    engine: Engine
    """What runs the model."""
    setting: Setting
    """What the predictor is made for."""
    questions: Callable[[], Iterator[Question]]
    """The questions in the order of the data, as often as they are wanted."""
    journal: Journal
    """Open: what it has an answer to is not asked again."""
    progress: Progress = field(default_factory=Silent)
    """Who is told."""
    give_up_after: int = GIVE_UP_AFTER
    """Failures in a row that stop it; 0 for never."""


def answer_task(run: TaskRun) -> Tally:
    """Asks what the journal has no answer to; what failed before comes last.

    Raises DecabenchError after too many failures in a row. Those that failed before do not count.
    """
    tally = Tally(run.name, 0)
    for question in run.questions():
        tally.total += 1
        known = run.journal.outcomes.get(question.id)
        if isinstance(known, Answer):
            tally.resumed += 1
            _note_cuts(tally, known)
    start = time.monotonic()
    run.progress.begin(tally)
    try:
        if tally.resumed < tally.total:
            _ask(run, tally, start)
    finally:
        tally.seconds = time.monotonic() - start
        run.progress.end(tally)
    return tally


def _ask(run: TaskRun, tally: Tally, start: float) -> None:
    pending: set[str] = set()
    failed = {id_ for id_, outcome in run.journal.outcomes.items() if isinstance(outcome, Failure)}
    watch = _Watch(run.name, run.give_up_after)

    def note(id_: str, outcome: Outcome) -> None:
        run.journal.append(id_, outcome)
        _count(tally, outcome)
        tally.seconds = time.monotonic() - start
        watch.note(outcome, id_ in failed)

    for id_, outcome in run.engine.outcomes(run.setting, _open_questions(run, failed, pending)):
        if id_ not in pending:
            raise DecabenchError(
                f"The predictor answered {quoted(id_)} of {run.setting.task.name}, which was not asked, or twice: "
                "every question needs one answer under its own id."
            )
        pending.discard(id_)
        note(id_, sound(outcome))
        run.progress.update(tally)
    for id_ in sorted(pending):
        note(id_, Failure("the predictor ended without an answer to it"))
    tally.commonest_error = watch.commonest


def _open_questions(run: TaskRun, failed: Set[str], pending: set[str]) -> Iterator[Question]:
    """What has no answer, noted as pending when it is taken.

    What failed before may well fail again, in a row: it must not keep the run from what was never asked.
    """
    for again in (False, True) if failed else (False,):
        for question in run.questions():
            is_answered = isinstance(run.journal.outcomes.get(question.id), Answer)
            if not is_answered and (question.id in failed) is again:
                pending.add(question.id)
                yield question


def _count(tally: Tally, outcome: Outcome) -> None:
    if isinstance(outcome, Failure):
        tally.failed += 1
        return
    tally.answered += 1
    tally.prompt_tokens += outcome.prompt_tokens or 0
    tally.completion_tokens += outcome.completion_tokens or 0
    _note_cuts(tally, outcome)


def _note_cuts(tally: Tally, answer: Answer) -> None:
    tally.cut += answer.context_kept is not None
    tally.truncated += answer.finish == "length"


class _Watch:
    """Counts failures in a row and remembers what they said."""

    def __init__(self, task: str, give_up_after: int) -> None:
        self._task = task
        self._limit = give_up_after
        self._in_a_row = 0
        self._errors: Counter[str] = Counter()

    @property
    def commonest(self) -> str:
        """The error that came most often."""
        return self._errors.most_common(1)[0][0] if self._errors else ""

    def note(self, outcome: Outcome, failed_before: bool) -> None:
        """Raises DecabenchError where the failures are no longer single ones; one that failed before is no news."""
        if not isinstance(outcome, Failure):
            self._in_a_row = 0
            return
        self._in_a_row += not failed_before
        if len(self._errors) < 1_000 or outcome.error in self._errors:
            self._errors[outcome.error] += 1
        if self._limit and not failed_before and self._in_a_row >= self._limit:
            raise DecabenchError(
                f"Stopped on {self._task} after {self._in_a_row} failures in a row; the last was: "
                f"{_sentence(outcome.error)} Mend it and run the same command again: what was answered is kept. "
                "--give-up-after sets how many are too many."
            )


def _sentence(error: str) -> str:
    return error if error.endswith((".", "!", "?", "…")) else f"{error}."
