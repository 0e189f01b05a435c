"""Several tasks prepared at once, each in a process of its own."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import active_children, get_context
from pathlib import Path
from types import FrameType

from decabench.metrics.errors import DecabenchError
from decabench.tasks.custom import known_tasks
from decabench.tasks.errors import DataError
from decabench.tasks.interrupts import interrupts_held
from decabench.tasks.prepare import Request, is_prepared, prepare_task
from decabench.tasks.store import SplitRecord
from decabench.tasks.task import Task

__all__ = ["Outcome", "prepare_all"]

_ENDED = 130


@dataclass(frozen=True)
class Outcome:
    """What became of one task."""

    task: str
    """Its name."""
    records: Mapping[str, SplitRecord] = field(default_factory=dict)
    """Its prepared splits; empty where it failed."""
    was_ready: bool = False
    """Whether there was nothing to do."""
    error: str = ""
    """The sentence that says why it failed."""
    exit_code: int = 0
    """What the command should end with because of it."""


def prepare_all(
    tasks: Sequence[Task],
    request: Request,
    jobs: int,
    include: Sequence[Path] = (),
    report: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Prepares tasks, reporting each as it ends; one that fails does not stop the others."""
    ready = [task for task in tasks if is_prepared(task, request)]
    waiting = [task for task in tasks if task not in ready]
    outcomes = [_attempt(task, request, was_ready=True) for task in ready]
    for outcome in outcomes:
        report(outcome)
    if jobs > 1 and len(waiting) > 1:
        outcomes += _in_processes([task.name for task in waiting], request, jobs, include, report)
    else:
        for task in waiting:
            outcomes.append(_attempt(task, request))
            report(outcomes[-1])
    order = [task.name for task in tasks]
    return sorted(outcomes, key=lambda outcome: order.index(outcome.task))


def _attempt(task: Task, request: Request, was_ready: bool = False) -> Outcome:
    try:
        return Outcome(task.name, prepare_task(task, request), was_ready)
    except DecabenchError as error:
        return Outcome(task.name, error=str(error), exit_code=error.exit_code)
    except Exception as error:  # an adapter met data in a form that nobody foresaw: the others go on
        if os.environ.get("DECABENCH_DEBUG"):
            raise
        sentence = (
            f"{task.name} could not be read ({type(error).__name__}: {error}): its files are in another form than "
            "expected; run again with --debug for the place."
        )
        return Outcome(task.name, error=sentence, exit_code=DataError.exit_code)


def _attempt_by_name(name: str, request: Request, include: Sequence[Path]) -> Outcome:
    try:
        return _attempt(known_tasks(include)[name], request)
    except SystemExit:
        # What was half-written is removed by now. The pool would take the exit for a result and go on.
        os._exit(_ENDED)


def _end_quietly(signum: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # nothing may stop the cleaning
    sys.exit(_ENDED)


def _start_worker() -> None:
    # A worker that its parent ends after a Ctrl-C cleans up and says nothing.
    signal.signal(signal.SIGTERM, _end_quietly)


def _outcome(future: Future[Outcome], name: str) -> Outcome:
    try:
        return future.result()
    except BrokenProcessPool:  # one process that is killed takes the whole pool with it
        sentence = f"{name} is not prepared: a process was killed, for want of memory perhaps; run again with --jobs 1."
        return Outcome(name, error=sentence, exit_code=DataError.exit_code)


def _in_processes(
    names: Sequence[str],
    request: Request,
    jobs: int,
    include: Sequence[Path],
    report: Callable[[Outcome], None],
) -> list[Outcome]:
    outcomes = []
    with ProcessPoolExecutor(min(jobs, len(names)), get_context("spawn"), _start_worker) as pool:
        try:
            with interrupts_held():
                pending = {
                    pool.submit(_attempt_by_name, name, request, tuple(include)): name for name in names
                }
            while pending:
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    outcomes.append(_outcome(future, pending.pop(future)))
                    report(outcomes[-1])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children():
                if child.pid is not None:
                    os.kill(child.pid, signal.SIGTERM)
            raise
    return outcomes
