"""Run a predictor on a Ray cluster: Ray Data carries the questions, and actors that outlive a task answer them.

The pool of actors is our own, since neither of Ray's fits. Ray Data makes one for each dataset, so that every task,
and every wording, would load the model again (after waiting 9 s for the pool); an example that kills its worker would
be retried for ever, or end the run. `ray.util.ActorPool` loses the batch of an actor that dies, and does not say
which one. Our actors live from the first question to the last, and the map tasks of the datasets, which Ray Data
schedules and streams, hand them their batches. docs/cluster.md has the figures.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import shutil
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import decabench
from decabench.errors import DecabenchError, LostDeviceError, ModelError, install_hint
from decabench.plugins import TRUSTED
from decabench.predictors import (
    Backend,
    Failure,
    Outcome,
    Predictor,
    Setting,
    StreamingPredictor,
    storable_outcome,
)
from decabench.runs.ask import EngineOptions, ask_predictor
from decabench.tasks import Question

__all__ = [
    "TRIES",
    "BatchReply",
    "Dispatcher",
    "RayEngine",
    "Worker",
    "WorkerEnvironment",
    "WorkerLayout",
    "connected",
    "lay_out",
    "require_ray",
    "unpickle_error",
]

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
    trusted: str = ""
    """The models that a checkpoint may name, as the user set them."""

    def enter(self) -> None:
        """Set up this process."""
        if Path(self.folder).is_dir():
            os.chdir(self.folder)
        sys.path.extend(entry for entry in self.path if entry not in sys.path)
        if self.trusted:
            os.environ[TRUSTED] = self.trusted
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
                error = pickle.dumps(ModelError(_CANNOT_START.format(tries=TRIES, cause=cause)))
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


_STORE_BYTES = 512 * 2**20
"""Size of the object store of a cluster started here; it holds only what is in flight."""

_LEAST_STORE_BYTES = 100 * 2**20
"""Ray requires at least 75 MB."""


@dataclass(frozen=True)
class WorkerLayout:
    """How many copies of the model to run, and what each may use."""

    workers: int
    """Copies of the model."""
    gpus: float
    """GPUs for each copy."""
    share: int
    """The maximum number of copies on one machine."""


def require_ray() -> Any:
    """Import Ray. Raises DecabenchError if it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read on import: an evaluation sends no reports
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about Ray's own settings
            import ray
            import ray.data

            ray.data.DataContext.get_current()
    except ImportError as error:
        raise DecabenchError(f"--engine ray needs Ray: {install_hint('ray')}.") from error
    return ray


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[None]:
    """Connect to a cluster, and shut it down if it was started here; the caller's session is used and left running.

    `address` is Ray's: `auto`, `host:6379`, or None for RAY_ADDRESS and, without that, a cluster on this machine.
    Raises DecabenchError.
    """
    ray = require_ray()
    if ray.is_initialized():
        with _quiet():
            yield
        return
    address = address or os.environ.get("RAY_ADDRESS") or None
    if address and address.startswith("ray://"):
        raise DecabenchError(
            f"{address} is an address for Ray Client, which Ray Data does not support: run decabench on a machine of "
            "the cluster with --address auto, or submit it with ray job submit."
        )
    with _quiet(), _own_sigterm():
        try:
            _start(ray, workers) if address in (None, "local") else _connect(ray, str(address))
            yield
        finally:
            ray.shutdown()


def lay_out(workers: int | None, gpus: float) -> WorkerLayout:
    """Lay out workers over the connected cluster: one per GPU, or per machine, by default. Raises DecabenchError."""
    ray = require_ray()
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    resource, each = ("GPU", gpus) if gpus else ("CPU", 1.0)
    room = sum(int(node.get(resource, 0) // each) for node in nodes)
    if gpus and not room:
        raise DecabenchError(
            f"The model needs {gpus:g} GPU, but no machine of the cluster has that many: give --device cpu, or start "
            "Ray on machines with GPUs."
        )
    if workers and workers > room:
        raise DecabenchError(
            f"--workers {workers} is more than the cluster has {resource}s for: it has room for {room}."
        )
    chosen = workers or (room if gpus else len(nodes))
    return WorkerLayout(chosen, gpus, -(-chosen // max(1, len(nodes))))


_HOME = Path(decabench.__file__).parent.parent
"""The folder in which Ray starts. Ray looks there for modules, so it must not be somebody's checkpoint."""


def _start(ray: Any, workers: int | None) -> None:
    cpus = max(workers or 1, os.cpu_count() or 1)
    try:
        with chdir(_HOME):
            ray.init(
                "local",
                num_cpus=cpus,
                object_store_memory=_store_bytes(),
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except Exception as error:  # any class is possible: no port, no memory, no /tmp
        raise DecabenchError(
            f"Ray cannot start on this machine ({_summarize(error)}): run again with --debug for the traceback, or "
            "with --engine local."
        ) from error


def _connect(ray: Any, address: str) -> None:
    try:
        with chdir(_HOME):
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # no such host, no such cluster, another version of Ray or Python, no token
        raise DecabenchError(
            f"Cannot connect to a Ray cluster at {address} ({_summarize(error)}): run ray status on its head node to "
            "see whether it is up; Ray and Python must have the same versions here and there, and a cluster that asks "
            "for a token needs RAY_AUTH_MODE=token here too."
        ) from error


def _store_bytes() -> int:
    """Take half of the shared memory if there is little, as in a container."""
    try:
        free = shutil.disk_usage("/dev/shm").free
    except OSError:
        return _STORE_BYTES
    return max(_LEAST_STORE_BYTES, min(_STORE_BYTES, free // 2))


def _summarize(error: BaseException) -> str:
    """Summarize an error without Ray's traceback from another process."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, BaseException):
        return _summarize(cause)
    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
    return f"{type(error).__name__}: {lines[0].strip()}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Ray Data, which reports every execution; the run shows its own progress."""
    loggers = [logging.getLogger(name) for name in ("ray", "ray.data")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Restore the SIGTERM handler, which Ray replaces with its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


_WINDOW = 16_384
"""Questions in one dataset, which bounds what the driver and the object store hold."""

_GPU_BATCH = 256
"""The minimum number of questions that a worker with a GPU gets at once; it makes its own batches."""

_AHEAD = 2
"""Batches that wait for a worker, so that no worker waits for a batch."""

_CLOSE_SECONDS = 30.0
"""Seconds that workers get to close the model at the end of a run."""

_ABORT_SECONDS = 3.0
"""The same after an error or Ctrl-C, when they may be working on a batch."""

_BY_VALUE = "decabench_include_"
"""Prefix of modules that no worker can import, because they come from --include files."""


class RayEngine:
    """Connects and loads at the first question, once for all tasks. Raises DecabenchError if Ray is missing."""

    def __init__(self, options: EngineOptions) -> None:
        require_ray()
        self._options = options
        self._gpus = float(getattr(options.backend, "gpus", 0))  # for one copy of the model
        self._stack = ExitStack()
        self._dispatcher: Any = None
        self._workers: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            if self._dispatcher is not None:
                self._stop(_CLOSE_SECONDS if kind is None else _ABORT_SECONDS)

    def outcomes(self, setting: Setting, questions: Iterable[Question]) -> Iterator[tuple[str, Outcome]]:
        """See `Engine.outcomes`; the outcomes of a batch arrive together when the batch is done."""
        ray = require_ray()
        packed = _pickle_setting(setting)
        if self._dispatcher is None:
            self._start()
        size = self._options.batch_size
        ask = partial(_ask, self._dispatcher, ray.put(packed), size)
        remaining = iter(questions)
        while window := list(_batches(remaining, max(size, _GPU_BATCH) if self._gpus else size)):
            for row in self._replies(ask, window):
                reply: BatchReply = pickle.loads(row["reply"])
                yield from reply.outcomes
                if reply.error is not None:
                    raise unpickle_error(reply.error)

    def _start(self) -> None:
        """Start the dispatcher and the workers, which begin to load the model."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        ray = require_ray()
        self._stack.enter_context(connected(self._options.address, self._options.workers))
        layout = lay_out(self._options.workers, self._gpus)
        share = 0 if "OMP_NUM_THREADS" in os.environ else layout.share
        environment = WorkerEnvironment(os.getcwd(), tuple(sys.path), share, os.environ.get(TRUSTED, ""))
        backend = ray.cloudpickle.dumps(self._options.backend)
        worker = ray.remote(Worker).options(
            num_cpus=1, num_gpus=layout.gpus, max_restarts=-1, scheduling_strategy="SPREAD"
        )
        self._workers = [worker.remote(backend, environment) for _ in range(layout.workers)]
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        dispatcher = ray.remote(Dispatcher).options(
            num_cpus=0, max_concurrency=layout.workers + 2 * _AHEAD, scheduling_strategy=here
        )
        self._dispatcher = dispatcher.remote(self._workers)

    def _stop(self, seconds: float) -> None:
        """Close the model on all workers, within `seconds`, and end them."""
        ray = require_ray()
        with suppress(ray.exceptions.RayError):  # one that does not answer is killed anyway
            ray.wait([self._dispatcher.close.remote()], timeout=seconds)
        for actor in (self._dispatcher, *self._workers):
            ray.kill(actor)
        self._dispatcher, self._workers = None, []

    def _replies(self, ask: Any, window: Sequence[Sequence[Question]]) -> Iterator[Mapping[str, Any]]:
        """Yield a row for each batch as it is answered; a batch is a row, and a block, of a dataset."""
        ray = require_ray()
        items = [{"questions": pickle.dumps(batch)} for batch in window]
        dataset = ray.data.from_items(items, override_num_blocks=len(items))
        size = min(len(self._workers) + _AHEAD, len(items))
        replies = dataset.map(ask, compute=ray.data.TaskPoolStrategy(size=size), num_cpus=0)
        replies.context.enable_progress_bars = False
        replies.context.execution_no_progress_timeout_s = -1  # a large model may take long
        try:
            yield from replies.iter_rows()
        except Exception as error:  # the workers' own errors come in replies: this one is Ray's
            raise ModelError(
                f"The Ray cluster failed ({_summarize(error)}): the answers so far are kept; run the same command "
                "again to continue."
            ) from error


def _batches(questions: Iterator[Question], size: int) -> Iterator[list[Question]]:
    """Yield batches until a window is full."""
    for _ in range(max(1, _WINDOW // size)):
        if not (batch := list(islice(questions, size))):
            return
        yield batch


def _ask(dispatcher: Any, setting: Any, batch_size: int, row: Mapping[str, Any]) -> dict[str, bytes]:
    """Hand a batch to the dispatcher and wait; runs on the cluster, in a task of Ray Data."""
    ray = require_ray()
    reply = ray.get(dispatcher.ask.remote(setting, pickle.loads(row["questions"]), batch_size))
    return {"reply": pickle.dumps(reply)}


def _pickle_setting(setting: Setting) -> bytes:
    """Pickle a setting, with the code of tasks that only the driver has. Raises DecabenchError."""
    ray = require_ray()
    included = [module for name, module in sys.modules.items() if name.startswith(_BY_VALUE)]
    for module in included:
        ray.cloudpickle.register_pickle_by_value(module)
    try:
        pickled: bytes = ray.cloudpickle.dumps(setting)
        return pickled
    except Exception as error:  # an included task may contain anything
        raise DecabenchError(
            f"The task {setting.task.name} cannot be sent to the workers ({type(error).__name__}: {error}): its file "
            "must not refer to anything that cannot be pickled, such as an open file."
        ) from error
    finally:
        for module in included:
            ray.cloudpickle.unregister_pickle_by_value(module)
