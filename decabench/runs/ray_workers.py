"""What runs on the cluster: workers that hold the model, and a desk that gives each batch to a worker that is free."""

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
from decabench.predictors import Backend, Failure, Outcome, Predictor, Setting, StreamingPredictor
from decabench.runs.engine import outcomes_of
from decabench.runs.journal import sound
from decabench.tasks import Question

__all__ = ["TRIES", "Desk", "Place", "Reply", "Worker", "error_of"]

TRIES = 3
"""How often a worker may die of one example before the example is held to be the cause."""

_WHOLE_TRIES = 2
"""How often a batch is asked whole: the first death may be that of a machine."""

_BREATH_SECONDS = 0.5
"""Between two looks at a worker that is being started again."""


@dataclass(frozen=True)
class Place:
    """What a worker needs to find the same code and files as the driver, where it has them."""

    folder: str
    """The working directory: relative paths of models and programs start there."""
    path: tuple[str, ...]
    """Where Python modules are looked for."""
    share: int
    """Workers on one machine, which share its CPUs; 0 leaves the number of threads as it is."""

    def enter(self) -> None:
        """Goes there."""
        if Path(self.folder).is_dir():
            os.chdir(self.folder)
        sys.path.extend(entry for entry in self.path if entry not in sys.path)
        if self.share:  # Ray gives an actor one thread a CPU that it asked for
            threads = max(1, _cpus() // self.share)
            os.environ["OMP_NUM_THREADS"] = str(threads)


def _cpus() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Reply:
    """What came of one batch."""

    outcomes: Sequence[tuple[str, Outcome]] = ()
    """(id, outcome), in the order in which they came."""
    error: bytes | None = None
    """The pickled DecabenchError that ended it."""


class Worker:
    """One copy of the model. It lives as long as the run, through all tasks; Ray starts it again where it dies."""

    def __init__(self, backend: bytes, place: Place) -> None:
        place.enter()
        self._backend = backend
        self._stack = ExitStack()
        self._make: Callable[[Setting], Any] | None = None
        self._asked_for = b""
        self._setting: Setting | None = None
        self._predictor: Predictor | StreamingPredictor | None = None

    def ready(self) -> bytes | None:
        """Loads the model where it is not loaded; the pickled error where that fails."""
        try:
            if self._make is None:
                backend: Backend = pickle.loads(self._backend)
                self._make = self._stack.enter_context(backend.open())
        except (Exception, SystemExit) as error:
            return _pickled(error)
        return None

    def ask(self, setting: bytes, questions: Sequence[Question], batch_size: int) -> Reply:
        """What the local engine would bring for these questions."""
        outcomes: list[tuple[str, Outcome]] = []
        try:
            found = outcomes_of(self._predictor_of, self._unpacked(setting), questions, batch_size)
            outcomes.extend((id_, sound(outcome)) for id_, outcome in found)
        except LostDeviceError:
            os._exit(
                1
            )  # Ray starts the worker again, on a device that answers; here every question would fail
        except (Exception, SystemExit) as error:
            return Reply(outcomes, _pickled(error))
        return Reply(outcomes)

    def close(self) -> None:
        """Leaves the backend, which ends its programs and frees its memory."""
        self._predictor = None
        self._stack.close()

    def _unpacked(self, setting: bytes) -> Setting:
        if self._setting is None or self._asked_for != setting:
            self._predictor = None  # one at a time: it may hold a model of its own
            self._setting, self._asked_for = pickle.loads(setting), setting
        return self._setting

    def _predictor_of(self, setting: Setting) -> Any:
        """One predictor a task, not one a batch."""
        if self._predictor is None:
            assert self._make is not None  # the desk gives work to workers that are ready
            self._predictor = self._make(setting)
        return self._predictor


def _pickled(error: BaseException) -> bytes:
    """An error that the driver can read: ours as they are, others by what they say, with the place for --debug."""
    if not isinstance(error, DecabenchError):
        said = f"{type(error).__name__}: {error}"
        told = DecabenchError(
            f"The predictor failed on a worker ({said}): run again with --debug for the place."
        )
        told.add_note("".join(traceback.format_exception(error)))
        return pickle.dumps(told)
    error.add_note("".join(traceback.format_exception(error)))
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:  # a class that is not made from its arguments, or is not to be imported
        return pickle.dumps(DecabenchError(str(error)))
    return data


def error_of(data: bytes) -> DecabenchError:
    """The error of a reply."""
    error: DecabenchError = pickle.loads(data)
    return error


@dataclass
class Desk:
    """Gives each batch to a worker that has nothing to do, so that a slow one holds up nobody.

    A worker has one batch at a time: when it dies, that batch was the one it was at. It is asked again elsewhere,
    whole, then example by example, and an example of which TRIES workers die is a Failure.
    """

    workers: Sequence[Any]
    """The actors."""
    _free: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    _error: bytes | None = None
    _gone: int = 0
    _starting: set[asyncio.Task[None]] = field(default_factory=set)
    _is_open: bool = False

    async def ask(self, setting: bytes, questions: Sequence[Question], batch_size: int) -> Reply:
        """The reply of whichever worker is free."""
        if not self._is_open:
            self._is_open = True
            for worker in self.workers:
                self._start(worker)
        return await self._ask(setting, questions, batch_size)

    async def close(self) -> None:
        """Closes the workers that have nothing to do: when a run ends in order, all that live."""
        closing = []
        while not self._free.empty():
            worker = self._free.get_nowait()
            if worker is not None:
                closing.append(worker.close.remote())
        await asyncio.gather(*closing, return_exceptions=True)

    async def _ask(self, setting: bytes, questions: Sequence[Question], batch_size: int) -> Reply:
        for _ in range(_WHOLE_TRIES if len(questions) > 1 else TRIES):
            reply = await self._ask_once(setting, questions, batch_size)
            if reply is not None:
                return reply
        if len(questions) == 1:
            lost = Failure(f"the worker died while answering it ({TRIES} times)")
            return Reply([(questions[0].id, lost)])
        outcomes: list[tuple[str, Outcome]] = []
        for question in questions:
            reply = await self._ask(setting, [question], batch_size)
            outcomes.extend(reply.outcomes)
            if reply.error is not None:
                return Reply(outcomes, reply.error)
        return Reply(outcomes)

    async def _ask_once(self, setting: bytes, questions: Sequence[Question], batch_size: int) -> Reply | None:
        """None where the worker died."""
        worker = await self._free.get()
        if worker is None:
            self._free.put_nowait(None)  # for whoever else waits
            return Reply(error=self._error)
        from ray.exceptions import RayError

        try:
            reply: Reply = await worker.ask.remote(setting, questions, batch_size)
        except RayError:
            self._start(worker)
            return None
        self._free.put_nowait(worker)
        return reply

    def _start(self, worker: Any) -> None:
        task = asyncio.ensure_future(self._enlist(worker))
        self._starting.add(task)  # asyncio itself does not hold on to it
        task.add_done_callback(self._starting.discard)

    async def _enlist(self, worker: Any) -> None:
        """Waits until a worker has loaded the model. One that cannot leaves the others to do the work."""
        from ray.exceptions import ActorUnavailableError, RayError

        deaths, error = 0, None
        while deaths < TRIES:
            try:
                error = await worker.ready.remote()
            except ActorUnavailableError:
                await asyncio.sleep(_BREATH_SECONDS)  # Ray is starting it again
                continue
            except RayError as died:
                deaths, cause = deaths + 1, str(died).strip().splitlines()[-1]
                error = pickle.dumps(DecabenchError(_CANNOT_START.format(tries=TRIES, cause=cause)))
                await asyncio.sleep(_BREATH_SECONDS)
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
    "No worker of the Ray cluster lived to load the model, and each was tried {tries} times ({cause}): is there "
    "memory for it, and is the same decabench installed on every machine?"
)
