"""Ask a predictor all questions that are missing from the journal, recording each outcome as it arrives.

`answer_task` handles a single task. `LocalEngine` runs the predictor in this process; `ray_engine` runs it on
a cluster.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NoReturn, Protocol, Self

from decabench.errors import DecabenchError, ModelError
from decabench.predictors import (
    Answer,
    Backend,
    Failure,
    Outcome,
    Predictor,
    PredictorFactory,
    Setting,
    StreamingPredictor,
    in_batches,
    storable_outcome,
)
from decabench.runs.journal import Journal
from decabench.runs.plan import Budget, PlannedTask
from decabench.tasks import Question
from decabench.text import describe_error, excerpt, quoted, show_cost


@dataclass
class Tally:
    """The progress of a run on a task."""

    task: str
    """The task name, with the variant unless it is the dataset's own wording."""
    total: int
    """Number of examples to answer."""
    resumed: int = 0
    """The number of answers already in the journal."""
    answered: int = 0
    """The number of answers given in this run."""
    failed: int = 0
    """The number of examples that failed in this run."""
    prompt_tokens: int = 0
    """Number of prompt tokens in this run, where known."""
    completion_tokens: int = 0
    """Number of generated tokens in this run, where known."""
    cut: int = 0
    """The number of answers with a truncated context, including those from the journal."""
    truncated: int = 0
    """The number of answers that reached the token limit, including those from the journal."""
    unparseable: int = 0
    """The number of outputs without an answer in the form that the task requires."""
    refused: int = 0
    """The number of answers refused by the model or by a filter on its server, which score as wrong."""
    empty: int = 0
    """The number of answers that are empty for any reason not counted in another field."""
    cut_reasoning: int = 0
    """The number of empty answers that reached the token limit, usually during reasoning."""
    only_reasoning: int = 0
    """The number of empty answers of models that stopped after their reasoning."""
    not_in_context: int = 0
    """The number of answers to an extractive task that don't occur in the context."""
    served_by: list[str] = field(default_factory=list)
    """Models that answered, as reported by the server, in order of appearance."""
    other_label: int = 0
    """The number of answers that match none of the possible labels."""
    other_label_example: str = ""
    """A message about the first answer counted in `other_label`, with the valid labels and advice."""
    answer_format: str = ""
    """A message about the format that most answers seem to use, such as HTML. Empty for plain text."""
    template: int = 0
    """The number of answers from which role headers or chat template tokens were removed."""
    tool_calls: int = 0
    """The number of outputs that call a tool instead of answering. They are not included in `unparseable`."""
    seconds: float = 0.0
    """Seconds from the start of the task to the latest outcome, excluding the time to load a model in this process."""
    commonest_error: str = ""
    """The most common error message."""
    cost: float | None = None
    """The cost of all tokens, if prices were given."""

    @property
    def done(self) -> int:
        """The number of finished examples: resumed, answered or failed."""
        return self.resumed + self.answered + self.failed

    def count(self, outcome: Outcome) -> None:
        """Count an outcome."""
        if isinstance(outcome, Failure):
            self.failed += 1
            return
        self.answered += 1
        self.prompt_tokens += outcome.prompt_tokens or 0
        self.completion_tokens += outcome.completion_tokens or 0
        self.count_cuts(outcome)

    def count_cuts(self, answer: Answer) -> None:
        """Count a truncated context or answer."""
        self.cut += answer.context_kept is not None
        self.truncated += answer.finish == "length"


class Progress(Protocol):
    """Interface for displaying the progress of a run."""

    def show(self, predictor: str) -> AbstractContextManager[None]:
        """Return a context manager that shows the display while questions are answered.

        The display is cleared on exit.
        """
        return nullcontext()

    def begin(self, tally: Tally) -> None:
        """Called at the start of a task."""
        return

    def update(self, tally: Tally) -> None:
        """Called after every outcome."""
        return

    def end(self, tally: Tally) -> None:
        """Called when a task is finished or has been stopped."""
        return


class Silent(Progress):
    """A progress display that prints nothing."""


BATCH = 64
"""The default number of questions in each call to `predict`, for predictors that don't stream."""


class Engine(AbstractContextManager["Engine"], Protocol):
    """Runs a backend on several tasks, one after another. Nothing is loaded before the first question."""

    def outcomes(self, setting: Setting, questions: Iterable[Question]) -> Iterator[tuple[str, Outcome]]:
        """Yield (id, outcome) pairs as they arrive, in any order.

        An error in a single example results in a Failure. An error that would affect all examples raises
        DecabenchError.
        """


@dataclass(frozen=True)
class TaskRun:
    """A task to run, with its journal, engine, progress display and limits."""

    planned: PlannedTask
    """The task, and the wording in which its questions are asked."""
    journal: Journal
    """The open journal. Questions that it answers are not asked again."""
    engine: Engine
    """The engine that runs the model."""
    progress: Progress = field(default_factory=Silent)
    """Displays the progress of the run."""
    give_up_after: int = 25
    """The number of consecutive failures that stop the run; 0 for no limit."""
    budget: Budget | None = None
    """The run's budget, if its cost is limited."""


def answer_task(run: TaskRun) -> Tally:
    """Ask every question that isn't answered in the journal, retrying earlier failures at the end.

    Raises ModelError if the budget is spent before all questions are answered, or after too many
    consecutive failures. Questions that already failed in an earlier run don't count toward this limit.
    """
    tally = Tally(run.planned.name, 0)
    for question in run.planned.questions():
        tally.total += 1
        known = run.journal.outcomes.get(question.id)
        if isinstance(known, Answer):
            tally.resumed += 1
            tally.count_cuts(known)
    run.progress.begin(tally)
    try:
        if tally.resumed < tally.total:
            _ask_rest(run, tally)
    finally:
        run.progress.end(tally)
    return tally


def _ask_rest(run: TaskRun, tally: Tally) -> None:
    pending: set[str] = set()
    failed = {id_ for id_, outcome in run.journal.outcomes.items() if isinstance(outcome, Failure)}
    errors: Counter[str] = Counter()
    in_a_row = 0
    outcomes = run.engine.outcomes(run.planned.setting, _unanswered(run, failed, pending))
    start = before = time.monotonic()  # after the model is loaded, if this process loads it

    def record(id_: str, outcome: Outcome) -> None:
        nonlocal in_a_row, before
        now = time.monotonic()
        run.journal.append(id_, outcome, now - before)
        before = now
        tally.count(outcome)
        if run.budget:
            run.budget.count(outcome)
        tally.seconds = now - start
        if not isinstance(outcome, Failure):
            in_a_row = 0
            return
        error = outcome.error
        if len(errors) < 1_000 or error in errors:
            errors[error] += 1
        in_a_row += id_ not in failed
        if run.give_up_after and in_a_row >= run.give_up_after and id_ not in failed:
            raise ModelError(
                f"Stopped on {tally.task} after {in_a_row} failures in a row (--give-up-after). The last failure was: "
                f"{error}{'' if error.endswith(('.', '!', '?', '…')) else '.'} Fix the error, then run the same "
                "command again to continue."
            )

    for id_, outcome in outcomes:
        if id_ not in pending:
            raise ModelError(
                f"The predictor answered {quoted(id_)} in {run.planned.task.name} more than once, or without "
                "being asked. Return one answer per question, with the question's id."
            )
        pending.discard(id_)
        record(id_, storable_outcome(outcome))
        run.progress.update(tally)
    if run.budget and run.budget.is_spent and tally.done < tally.total:
        raise ModelError(
            f"Stopped on {tally.task} at a cost of {show_cost(run.budget.spent)}, because --max-cost is "
            f"{run.budget.most:g}; {tally.total - tally.done:,} of {tally.total:,} questions are left. "
            "To continue, run the same command with a larger --max-cost. Earlier answers are kept."
        )
    for id_ in sorted(pending):
        record(id_, Failure("the predictor stopped without answering this question"))
    tally.commonest_error = errors.most_common(1)[0][0] if errors else ""


def _unanswered(run: TaskRun, failed: Set[str], pending: set[str]) -> Iterator[Question]:
    """Yield the unanswered questions until the budget is spent, adding each to `pending`.

    Earlier failures come last, so that repeated failures can't keep other questions from being asked.
    """
    for again in (False, True) if failed else (False,):
        for question in run.planned.questions():
            if run.budget and run.budget.is_spent:
                return  # pending requests are still answered
            is_answered = isinstance(run.journal.outcomes.get(question.id), Answer)
            if not is_answered and (question.id in failed) is again:
                pending.add(question.id)
                yield question


class LocalEngine:
    """Runs the model in this process. The model is loaded at the first question, once for all tasks."""

    def __init__(self, backend: Backend, batch_size: int = BATCH) -> None:
        self._backend, self._batch_size = backend, batch_size
        self._stack = ExitStack()
        self._factory: PredictorFactory | None = None

    def __enter__(self) -> Self:
        self._stack.enter_context(_without_silent_exit())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def outcomes(self, setting: Setting, questions: Iterable[Question]) -> Iterator[tuple[str, Outcome]]:
        """See `Engine.outcomes`."""
        if self._factory is None:
            self._factory = self._stack.enter_context(self._backend.open())
        return ask_predictor(self._factory, setting, questions, self._batch_size)


@contextmanager
def _without_silent_exit() -> Iterator[None]:
    """Make os._exit() in a predictor's code end this process with an error.

    Processes forked by the predictor can still call os._exit() as usual.
    """
    usual, own = os._exit, os.getpid()

    def leave(status: int) -> NoReturn:
        if os.getpid() == own:
            sys.stderr.write(
                f"Error: The predictor called os._exit({status}), so no submission was written. Remove "
                "this call, then run the same command again to continue.\n"
            )
            sys.stderr.flush()
            status = ModelError.exit_code
        usual(status)

    os._exit = leave
    try:
        yield
    finally:
        os._exit = usual


_THEIRS = (Exception, GeneratorExit)
"""Errors in a predictor's code that affect only a single question.

SystemExit affects all questions, and KeyboardInterrupt comes from the user.
"""


@dataclass
class _Guard:
    task: str
    answers: int = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        try:
            yield
        except DecabenchError:
            raise
        except (*_THEIRS, SystemExit) as error:
            count = _count(self.answers, "answer")
            raise ModelError(
                f"The predictor failed on {self.task} after {count} ({describe_error(error)}). Fix the "
                "error, then run the same command again to continue. --debug shows the traceback."
            ) from error

    def outcome(self, answer: object) -> Outcome:
        self.answers += 1
        if isinstance(answer, str):
            return Answer(answer)
        if isinstance(answer, (Answer, Failure)):
            return answer
        remedy = f"; return str({_shown(answer)})" if isinstance(answer, (int, float)) else ""
        raise ModelError(
            f"The predictor returned {_shown(answer)} for a question in {self.task}. Answers must be strings{remedy}."
        )


def ask_predictor(
    factory: PredictorFactory, setting: Setting, questions: Iterable[Question], batch_size: int
) -> Iterator[tuple[str, Outcome]]:
    """Create a predictor and yield its (id, outcome) pairs.

    Raises ModelError if the predictor fails or violates the protocol.
    """
    guard = _Guard(setting.task.name)
    with guard():
        predictor: Any = factory(setting)
    if isinstance(predictor, StreamingPredictor):
        yield from _stream(predictor, guard, questions)
    else:
        for batch in in_batches(questions, lambda: batch_size):
            yield from _ask_batch(predictor, guard, batch)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _ask_batch(
    predictor: Predictor, guard: _Guard, batch: Sequence[Question]
) -> Iterator[tuple[str, Outcome]]:
    """Yield an (id, outcome) pair for each question. If a batch fails, its questions are asked again one at a time."""
    try:
        returned: Any = predictor.predict(list(batch))  # the predictor may change the list
        # A single string, set or mapping is not a sequence of answers.
        is_series = isinstance(returned, Iterable) and not isinstance(returned, (str, bytes, Mapping, Set))
        answers = list(returned) if is_series else None
    except (DecabenchError, SystemExit):
        with guard():
            raise
    except _THEIRS as error:
        if len(batch) == 1:
            yield batch[0].id, Failure(describe_error(error))
            return
        for question in batch:
            yield from _ask_batch(predictor, guard, (question,))
        return
    if answers is None or len(answers) != len(batch):
        given = _count(len(answers), "answer") if answers is not None else "None"
        if answers is None and returned is not None:
            given = f"a {type(returned).__name__}"
        raise ModelError(
            f"The predictor returned {given} for {_count(len(batch), 'question')} in {guard.task}. Return a list "
            "with one text for each question, in the same order."
        )
    for question, answer in zip(batch, answers, strict=True):
        yield question.id, guard.outcome(answer)


_END = object()
"""Sentinel for the end of a stream."""


def _stream(
    predictor: StreamingPredictor, guard: _Guard, questions: Iterable[Question]
) -> Iterator[tuple[str, Outcome]]:
    """Yield the (id, outcome) pairs of a predictor's stream, after checking each of them.

    Only errors in the predictor's code are caught, not those raised at `yield` when the consumer closes this
    generator.
    """
    with guard():
        pairs = iter(predictor.stream(questions))
    try:
        while True:
            pair: Any
            with guard():
                pair = next(pairs, _END)
            if pair is _END:
                return
            if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], str)):
                raise ModelError(
                    f"The predictor streamed {_shown(pair)} for {guard.task}. A predictor must yield (id, text) pairs."
                )
            yield pair[0], guard.outcome(pair[1])
    finally:
        # Close the stream now, not at garbage collection, because it may keep a program running.
        if hasattr(pairs, "close"):
            with guard():
                pairs.close()


def _shown(value: object) -> str:
    return excerpt(repr(value), 100)
