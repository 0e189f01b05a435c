"""Run a predictor on a Ray cluster. Each actor has a copy of the model and answers batches.

Actors persist between tasks. Ray Data isn't used because it reloads the model for every task and
wording, and a single example that kills its worker ends the run. `ray.util.ActorPool` loses the
batch of an actor that dies. See docs/cluster.md for figures.
"""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import decabench
from decabench.errors import DecabenchError, LostDeviceError, ModelError, require_package
from decabench.plugins import TRUSTED
from decabench.predictors import (
    Backend,
    Failure,
    Outcome,
    Predictor,
    Setting,
    StreamingPredictor,
    in_batches,
    storable_outcome,
)
from decabench.runs.ask import BATCH, ask_predictor
from decabench.tasks import Question

TRIES = 3
"""The number of worker deaths after which an example becomes a Failure.

A worker that dies this many times while loading the model is no longer used.
"""

_WHOLE_TRIES = 2
"""The number of attempts at a whole batch before its examples are tried one by one.

The first death may have been caused by the machine rather than by an example.
"""

_POLL_SECONDS = 0.5
"""Seconds between checks on a worker that is restarting."""

_GPU_BATCH = 256
"""The minimum number of questions to send at once to a worker with a GPU. The worker divides them into batches."""

_CLOSE_SECONDS, _ABORT_SECONDS = 30.0, 3.0
"""The seconds to wait for workers to close the model: at the end of a run, and after an error or Ctrl-C."""

_BY_VALUE = "decabench_include_"
"""The prefix of modules from --include files, which are pickled by value because workers can't import them."""

_STORE_BYTES, _LEAST_STORE_BYTES = 512 * 2**20, 100 * 2**20
"""The maximum and minimum size, in bytes, of a local cluster's object store, which holds pending batches.

Ray requires 75 MB.
"""


@dataclass(frozen=True)
class WorkerEnvironment:
    """Settings that each worker gets from the driver: paths, trusted models and a share of the CPUs."""

    folder: str
    """The working directory, for relative paths of models and programs."""
    path: tuple[str, ...]
    """The search path for Python modules."""
    share: int
    """The number of workers that share a machine's CPUs; 0 leaves the number of threads unchanged."""
    trusted: str = ""
    """The value of DECABENCH_MODELS, which lists the models that checkpoints may refer to."""

    def enter(self) -> None:
        """Apply the settings to the current process."""
        if Path(self.folder).is_dir():
            os.chdir(self.folder)
        sys.path.extend(entry for entry in self.path if entry not in sys.path)
        if self.trusted:
            os.environ[TRUSTED] = self.trusted
        if self.share:  # Ray gives actors one thread per requested CPU
            usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
            cpus = len(usable) or os.cpu_count() or 1
            os.environ["OMP_NUM_THREADS"] = str(max(1, cpus // self.share))


@dataclass(frozen=True)
class BatchReply:
    """A worker's reply to a batch: its outcomes, and the error that ended it, if any."""

    outcomes: Sequence[tuple[str, Outcome]] = ()
    """(id, outcome) pairs, in order of arrival."""
    error: bytes | None = None
    """The pickled DecabenchError that ended the batch, if any."""


class Worker:
    """An actor with a copy of the model. It stays alive between tasks, and Ray restarts it if it dies."""

    def __init__(self, backend: bytes, environment: WorkerEnvironment) -> None:
        environment.enter()
        self._backend = backend
        self._stack = ExitStack()
        self._make: Callable[[Setting], Any] | None = None
        self._pickled_setting = b""
        self._setting: Setting | None = None
        self._predictor: Predictor | StreamingPredictor | None = None

    def ready(self) -> bytes | None:
        """Load the model if necessary. Returns None, or the pickled error if loading fails."""
        try:
            if self._make is None:
                backend: Backend = pickle.loads(self._backend)
                self._make = self._stack.enter_context(backend.open())
        except (Exception, SystemExit) as error:
            return _pickle_error(error)
        return None

    def ask(self, setting: bytes, questions: Sequence[Question], batch_size: int) -> BatchReply:
        """Answer a batch in the same way as the local engine."""
        outcomes: list[tuple[str, Outcome]] = []
        try:
            if self._setting is None or self._pickled_setting != setting:
                self._predictor = None  # one predictor at a time, since it may hold its own model
                self._setting, self._pickled_setting = pickle.loads(setting), setting
            for id_, outcome in ask_predictor(self._make_once, self._setting, questions, batch_size):
                outcomes.append((id_, storable_outcome(outcome)))
        except LostDeviceError:
            os._exit(1)  # every question would fail on this device, so let Ray restart the worker
        except (Exception, SystemExit) as error:
            return BatchReply(outcomes, _pickle_error(error))
        return BatchReply(outcomes)

    def close(self) -> None:
        """Close the backend, which ends its programs and frees its memory."""
        self._predictor = None
        self._stack.close()

    def _make_once(self, setting: Setting) -> Any:
        if self._predictor is None:
            assert self._make is not None  # only workers that are ready get work
            self._predictor = self._make(setting)
        return self._predictor


def _pickle_error(error: BaseException) -> bytes:
    """Pickle an error for the driver, with its traceback as a note for --debug."""
    trace = "".join(traceback.format_exception(error))
    if not isinstance(error, DecabenchError):
        error = DecabenchError(
            f"The predictor failed on a worker ({type(error).__name__}: {error}). To see the traceback, "
            "run again with --debug."
        )
    error.add_note(trace)
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:  # the class can't be imported or recreated from its arguments
        return pickle.dumps(DecabenchError(str(error)))
    return data


def unpickle_error(data: bytes) -> DecabenchError:
    """Unpickle the error in a worker's reply."""
    error: DecabenchError = pickle.loads(data)
    return error


@dataclass(frozen=True)
class _Batch:
    questions: Sequence[Question]
    deaths: int = 0
    """The number of workers that died while answering this batch."""

    def after_death(self) -> list[_Batch]:
        """Return the batches to try next.

        The whole batch is tried again first, and then each of its examples. A single example is tried until it has
        killed TRIES workers."""
        deaths = self.deaths + 1
        if len(self.questions) == 1:
            return [_Batch(self.questions, deaths)] if deaths < TRIES else []
        if deaths < _WHOLE_TRIES:
            return [_Batch(self.questions, deaths)]
        return [_Batch([question]) for question in self.questions]


class RayEngine:
    """Runs the model on a Ray cluster. The model is loaded once for all tasks, at the first question.

    By default, there are as many workers as the GPUs have room for, or one worker per machine if the
    model doesn't use GPUs. See `connected` for `address`. Each worker answers one batch at a time. If
    the worker dies, its batch is tried again as a whole, and then example by example. An example that
    kills TRIES workers becomes a Failure. Raises DecabenchError if Ray isn't installed.
    """

    def __init__(
        self,
        backend: Backend,
        batch_size: int = BATCH,
        workers: int | None = None,
        address: str | None = None,
    ) -> None:
        self._ray = require_ray()
        self._backend, self._batch_size = backend, batch_size
        self._count, self._address = workers, address
        self._gpus = float(getattr(backend, "gpus", 0))  # per copy of the model
        self._stack = ExitStack()
        self._workers: list[Any] = []
        self._idle: deque[Any] = deque()
        self._loading: dict[Any, tuple[Any, int]] = {}  # reference to (worker, number of deaths)
        self._error: bytes | None = None  # why a worker couldn't load the model

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            if self._workers:
                self._stop(_CLOSE_SECONDS if kind is None else _ABORT_SECONDS)

    def outcomes(self, setting: Setting, questions: Iterable[Question]) -> Iterator[tuple[str, Outcome]]:
        """See `Engine.outcomes`. All outcomes of a batch arrive together."""
        ray = self._ray
        packed = _pickle_setting(setting)
        if not self._workers:
            self._start()
        reference = ray.put(packed)
        size = self._batch_size
        whole = max(size, _GPU_BATCH) if self._gpus else size
        batches = map(_Batch, in_batches(questions, lambda: whole))
        again: deque[_Batch] = deque()
        asked: dict[Any, tuple[Any, _Batch]] = {}

        def hand_out() -> None:
            while self._idle and (batch := again.popleft() if again else next(batches, None)):
                worker = self._idle.popleft()
                asked[worker.ask.remote(reference, batch.questions, size)] = worker, batch

        hand_out()
        while asked or not self._idle:
            if not asked and not self._loading:
                raise unpickle_error(self._error or b"")
            try:
                (done, *_), _ = ray.wait([*asked, *self._loading])
            except ray.exceptions.RayError as error:
                raise ModelError(
                    f"The Ray cluster failed ({_summarize(error)}). To continue, run the same command again. Earlier "
                    "answers are kept."
                ) from error
            if done in self._loading:
                self._enlist(done)
                hand_out()
                continue
            worker, batch = asked.pop(done)
            reply = BatchReply()
            try:
                reply = ray.get(done)
                self._idle.append(worker)
            except ray.exceptions.RayError:
                self._load(worker)
                again.extend(rest := batch.after_death())
                if not rest:
                    lost = Failure(f"the worker died {TRIES} times while answering this question")
                    reply = BatchReply([(batch.questions[0].id, lost)])
            hand_out()  # before storing answers, so that no worker has to wait
            yield from reply.outcomes
            if reply.error is not None:
                raise unpickle_error(reply.error)

    def _start(self) -> None:
        ray = self._ray
        self._stack.enter_context(connected(self._address, self._count))
        count, share = lay_out(self._count, self._gpus)
        share = 0 if "OMP_NUM_THREADS" in os.environ else share
        environment = WorkerEnvironment(os.getcwd(), tuple(sys.path), share, os.environ.get(TRUSTED, ""))
        backend = ray.cloudpickle.dumps(self._backend)
        worker = ray.remote(Worker).options(
            num_cpus=1, num_gpus=self._gpus, max_restarts=-1, scheduling_strategy="SPREAD"
        )
        self._workers = [worker.remote(backend, environment) for _ in range(count)]
        for each in self._workers:
            self._load(each)

    def _load(self, worker: Any, deaths: int = 0) -> None:
        self._loading[worker.ready.remote()] = worker, deaths

    def _enlist(self, reference: Any) -> None:
        """Put a worker to use once it has loaded the model. A worker that dies loads it again, up to TRIES times."""
        ray = self._ray
        worker, deaths = self._loading.pop(reference)
        try:
            error = ray.get(reference)
        except ray.exceptions.ActorUnavailableError:  # being restarted by Ray
            time.sleep(_POLL_SECONDS)
            self._load(worker, deaths)
        except ray.exceptions.RayError as died:
            cause = str(died).strip().splitlines()[-1]
            message = (
                f"No worker in the Ray cluster could load the model in {TRIES} tries ({cause}). Check that there is "
                "enough memory, and that the same decabench is installed on every machine."
            )
            self._error = pickle.dumps(ModelError(message))
            if deaths + 1 < TRIES:
                time.sleep(_POLL_SECONDS)
                self._load(worker, deaths + 1)
        else:
            if error is None:
                self._idle.append(worker)
            else:
                self._error = error

    def _stop(self, seconds: float) -> None:
        ray = self._ray
        with suppress(ray.exceptions.RayError):  # unresponsive workers are killed anyway
            closing = [worker.close.remote() for worker in self._idle]
            if closing:
                ray.wait(closing, num_returns=len(closing), timeout=seconds)
        for worker in self._workers:
            ray.kill(worker)
        self._workers = []


def _pickle_setting(setting: Setting) -> bytes:
    ray = require_ray()
    included = [module for name, module in sys.modules.items() if name.startswith(_BY_VALUE)]
    for module in included:
        ray.cloudpickle.register_pickle_by_value(module)
    try:
        pickled: bytes = ray.cloudpickle.dumps(setting)
        return pickled
    except Exception as error:  # included tasks may contain anything
        raise DecabenchError(
            f"The task {setting.task.name} can't be sent to the workers ({type(error).__name__}: {error}). Remove "
            "anything that can't be pickled, such as an open file, from the task's Python file."
        ) from error
    finally:
        for module in included:
            ray.cloudpickle.unregister_pickle_by_value(module)


# Clusters


def require_ray() -> Any:
    """Import Ray. Raises DecabenchError if it is not installed."""
    require_package("--engine ray", "ray", "ray")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read on import; disables usage reports
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about Ray's own settings
        import ray
    return ray


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[None]:
    """Connect to a Ray cluster, and disconnect when the block ends.

    `address` is `auto` or `host:6379`. If it is None, RAY_ADDRESS is used, or else a cluster is
    started on this machine and shut down afterwards. If the caller already has a Ray session, that
    session is used and left running. Raises DecabenchError if Ray isn't installed, or if the cluster
    can't be started or reached.
    """
    ray = require_ray()
    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS") or None
    if address and address.startswith("ray://"):
        raise DecabenchError(
            f"{address} is an address for Ray Client, which decabench does not support. Run decabench on a machine in "
            "the cluster with --address auto, or submit the command with ray job submit."
        )
    with _own_sigterm():
        try:
            _connect(ray, address, workers)
            yield
        finally:
            ray.shutdown()


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Restore the SIGTERM handler when the block ends, because Ray replaces it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


def lay_out(workers: int | None, gpus: float) -> tuple[int, int]:
    """Return the number of workers, and their average number per machine, rounded up.

    By default, there are as many workers as the GPUs have room for, or one worker per machine if
    `gpus` is 0. `gpus` is the number of GPUs for each worker. Raises DecabenchError if the cluster
    has no room for the workers.
    """
    ray = require_ray()
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    resource, each = ("GPU", gpus) if gpus else ("CPU", 1.0)
    room = sum(int(node.get(resource, 0) // each) for node in nodes)
    if gpus and not room:
        raise DecabenchError(
            f"Each copy of the model requires {gpus:g} {'GPU' if gpus == 1 else 'GPUs'}, but no machine in "
            "the cluster has enough. Use --device cpu, or start Ray on machines with GPUs."
        )
    if workers and workers > room:
        raise DecabenchError(
            f"--workers {workers} is more than the cluster's {resource}s allow. Use at most {room}."
        )
    chosen = workers or (room if gpus else len(nodes))
    return chosen, -(-chosen // max(1, len(nodes)))


_HOME = Path(decabench.__file__).parent.parent
"""The folder to start Ray in. Ray searches it for modules, so it must not contain checkpoints."""


def _connect(ray: Any, address: str | None, workers: int | None) -> None:
    is_own = address in (None, "local")
    own = {
        "num_cpus": max(workers or 1, os.cpu_count() or 1),
        "object_store_memory": _store_bytes(),
        "include_dashboard": False,
    }
    try:
        with chdir(_HOME):
            ray.init(
                "local" if is_own else address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                **(own if is_own else {}),
            )
    except Exception as error:  # Ray raises many classes of errors
        if is_own:
            raise DecabenchError(
                f"Ray can't start on this machine ({_summarize(error)}). Run again with --debug for the traceback, or "
                "with --engine local."
            ) from error
        raise DecabenchError(
            f"Can't connect to a Ray cluster at {address} ({_summarize(error)}). Run ray status on the "
            "head node to see whether the cluster is up. Ray and Python must have the same versions on both "
            "sides, and a cluster that asks for a token requires RAY_AUTH_MODE=token here too."
        ) from error


def _store_bytes() -> int:
    """Return the size of the object store, using at most half of the shared memory."""
    try:
        free = shutil.disk_usage("/dev/shm").free
    except OSError:
        return _STORE_BYTES
    return max(_LEAST_STORE_BYTES, min(_STORE_BYTES, free // 2))


def _summarize(error: BaseException) -> str:
    cause = getattr(error, "cause", None)
    if isinstance(cause, BaseException):
        return _summarize(cause)
    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
    return f"{type(error).__name__}: {lines[0].strip()}"
