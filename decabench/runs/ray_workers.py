"""Ray actors: workers that hold the model, and a dispatcher that gives each batch to a free worker."""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from decabench.errors import DecabenchError, LostDeviceError
from decabench.predictors import (
    Backend,
    Failure,
    Outcome,
    Predictor,
    Setting,
    StreamingPredictor,
    storable_outcome,
)
from decabench.runs.ask import ask_predictor
from decabench.tasks import Question

__all__ = ["TRIES", "BatchReply", "Dispatcher", "Worker", "WorkerEnvironment", "unpickle_error"]

TRIES = 3
"""How many workers may die on an example before it is considered the cause."""

_WHOLE_TRIES = 2
"""How many times a batch is asked as a whole: the first worker may have died with its machine."""

_POLL_SECONDS = 0.5
"""Seconds between two checks of a worker that is being restarted."""


@dataclass(frozen=True)
class WorkerEnvironment:
    """What a worker needs to find the same code and files as the driver, if its machine has them."""

    folder: str
    """The working directory, to which relative paths of models and programs refer."""
    path: tuple[str, ...]
    """Where to look for Python modules."""
    share: int
    """Workers on one machine, which share its CPUs; 0 leaves the number of threads alone."""

    def enter(self) -> None:
        """Set up this process."""
        if Path(self.folder).is_dir():
            os.chdir(self.folder)
        sys.path.extend(entry for entry in self.path if entry not in sys.path)
        if self.share:  # Ray gives an actor one thread for each CPU that it asked for
            usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
            cpus = len(usable) or os.cpu_count() or 1
            os.environ["OMP_NUM_THREADS"] = str(max(1, cpus // self.share))


@dataclass(frozen=True)
class BatchReply:
    """The outcome of one batch."""

    outcomes: Sequence[tuple[str, Outcome]] = ()
    """(id, outcome) pairs, in the order in which they arrived."""
    error: bytes | None = None
    """The pickled DecabenchError that ended it."""


class Worker:
    """One copy of the model. It lives for the whole run, through all tasks; Ray restarts it if it dies."""

    def __init__(self, backend: bytes, environment: WorkerEnvironment) -> None:
        environment.enter()
        self._backend = backend
        self._stack = ExitStack()
        self._make: Callable[[Setting], Any] | None = None
        self._pickled_setting = b""
        self._setting: Setting | None = None
        self._predictor: Predictor | StreamingPredictor | None = None

    def ready(self) -> bytes | None:
        """Load the model if it is not loaded; return the pickled error if that fails."""
        try:
            if self._make is None:
                backend: Backend = pickle.loads(self._backend)
                self._make = self._stack.enter_context(backend.open())
        except (Exception, SystemExit) as error:
            return _pickle_error(error)
        return None

    def ask(self, setting: bytes, questions: Sequence[Question], batch_size: int) -> BatchReply:
        """Answer a batch as the local engine would."""
        outcomes: list[tuple[str, Outcome]] = []
        try:
            if self._setting is None or self._pickled_setting != setting:
                self._predictor = None  # one at a time: it may hold its own model
                self._setting, self._pickled_setting = pickle.loads(setting), setting
            for id_, outcome in ask_predictor(self._make_once, self._setting, questions, batch_size):
                outcomes.append((id_, storable_outcome(outcome)))
        except LostDeviceError:
            os._exit(1)  # Ray restarts the worker on a working device; here every question would fail
        except (Exception, SystemExit) as error:
            return BatchReply(outcomes, _pickle_error(error))
        return BatchReply(outcomes)

    def close(self) -> None:
        """Close the backend, which ends its programs and frees its memory."""
        self._predictor = None
        self._stack.close()

    def _make_once(self, setting: Setting) -> Any:
        """Make one predictor for each task, not for each batch."""
        if self._predictor is None:
            assert self._make is not None  # the dispatcher gives work only to workers that are ready
            self._predictor = self._make(setting)
        return self._predictor


def _pickle_error(error: BaseException) -> bytes:
    """Pickle an error so that the driver can read it, with its traceback as a note for --debug."""
    trace = "".join(traceback.format_exception(error))
    if not isinstance(error, DecabenchError):
        error = DecabenchError(
            f"The predictor failed on a worker ({type(error).__name__}: {error}): run again with --debug for the "
            "traceback."
        )
    error.add_note(trace)
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:  # its class cannot be recreated from its arguments, or cannot be imported
        return pickle.dumps(DecabenchError(str(error)))
    return data


def unpickle_error(data: bytes) -> DecabenchError:
    """Return the error in a reply."""
    error: DecabenchError = pickle.loads(data)
    return error


@dataclass
class Dispatcher:
    """Gives each batch to an idle worker, so that a slow one holds up no other.

    A worker has one batch at a time, so if it dies, that batch is known. It is asked again elsewhere, as a whole and
    then example by example; an example on which TRIES workers die is a Failure.
    """

    workers: Sequence[Any]
    """The actors."""
    _free: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)  # None once no worker is left
    _error: bytes | None = None
    _gone: int = 0
    _starting: set[asyncio.Task[None]] = field(default_factory=set)
    _is_open: bool = False

    async def ask(self, setting: bytes, questions: Sequence[Question], batch_size: int) -> BatchReply:
        """Return the reply of the first free worker."""
        if not self._is_open:
            self._is_open = True
            for worker in self.workers:
                self._start(worker)
        return await self._ask(setting, questions, batch_size)

    async def close(self) -> None:
        """Close the idle workers; when a run ends well, that is all of them."""
        closing = []
        while not self._free.empty():
            worker = self._free.get_nowait()
            if worker is not None:
                closing.append(worker.close.remote())
        await asyncio.gather(*closing, return_exceptions=True)

    async def _ask(self, setting: bytes, questions: Sequence[Question], batch_size: int) -> BatchReply:
        for _ in range(_WHOLE_TRIES if len(questions) > 1 else TRIES):
            reply = await self._ask_once(setting, questions, batch_size)
            if reply is not None:
                return reply
        if len(questions) == 1:
            lost = Failure(f"the worker died while answering it ({TRIES} times)")
            return BatchReply([(questions[0].id, lost)])
        outcomes: list[tuple[str, Outcome]] = []
        for question in questions:
            reply = await self._ask(setting, [question], batch_size)
            outcomes.extend(reply.outcomes)
            if reply.error is not None:
                return BatchReply(outcomes, reply.error)
        return BatchReply(outcomes)

    async def _ask_once(
        self, setting: bytes, questions: Sequence[Question], batch_size: int
    ) -> BatchReply | None:
        """Return a worker's reply, or None if the worker died."""
        from ray.exceptions import RayError

        worker = await self._free.get()
        if worker is None:
            self._free.put_nowait(None)  # wake the next waiter
            return BatchReply(error=self._error)
        try:
            reply: BatchReply = await worker.ask.remote(setting, questions, batch_size)
        except RayError:
            self._start(worker)
            return None
        self._free.put_nowait(worker)
        return reply

    def _start(self, worker: Any) -> None:
        task = asyncio.ensure_future(self._enlist(worker))
        self._starting.add(task)  # asyncio itself keeps no reference to it
        task.add_done_callback(self._starting.discard)

    async def _enlist(self, worker: Any) -> None:
        """Wait until a worker has loaded the model. If it cannot, the others do the work."""
        from ray.exceptions import ActorUnavailableError, RayError

        deaths, error = 0, None
        while deaths < TRIES:
            try:
                error = await worker.ready.remote()
            except ActorUnavailableError:
                await asyncio.sleep(_POLL_SECONDS)  # Ray is restarting it
                continue
            except RayError as died:
                deaths, cause = deaths + 1, str(died).strip().splitlines()[-1]
                error = pickle.dumps(DecabenchError(_CANNOT_START.format(tries=TRIES, cause=cause)))
                await asyncio.sleep(_POLL_SECONDS)
                continue
            if error is None:
                self._free.put_nowait(worker)
                return
            break
        self._error = self._error or error
        self._gone += 1
        if self._gone == len(self.workers):
            self._free.put_nowait(None)


_CANNOT_START = (
    "No worker of the Ray cluster could load the model in {tries} tries each ({cause}): check that there is enough "
    "memory, and that the same decabench is installed on every machine."
)
