"""The predictor on a Ray cluster: Ray Data carries the questions, a pool of actors that outlives the task answers.

Ray Data's own pool of actors is made for one dataset and gone with it: every task of a run, and every wording, would
load the model again (and pay some seconds for the pool itself), an example that kills its worker would be tried for
ever or end the run, and outcomes could not be told to be of it. So the actors are ours: they live from the first
question to the last, and the datasets' map tasks, which Ray Data schedules, streams and repeats, hand their batches to
them. docs/cluster.md has the figures.
"""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, Self

from decabench.errors import DecabenchError
from decabench.predictors import Outcome, Setting
from decabench.runs.engine import EngineOptions
from decabench.runs.ray_workers import Desk, Place, Reply, Worker, error_of
from decabench.tasks import Question

__all__ = ["Layout", "RayEngine", "connected", "in_short", "lay_out", "require_ray"]

# ---- ray_cluster

_STORE_BYTES = 512 * 2**20
"""The object store of a cluster started here: only what is in flight is in it."""

_LEAST_STORE_BYTES = 100 * 2**20
"""Ray takes no less than 75 MB."""


class Layout:
    """How many copies of the model there are, and what each may use."""

    def __init__(self, workers: int, gpus: float, share: int) -> None:
        self.workers = workers
        """Copies of the model."""
        self.gpus = gpus
        """GPUs of each."""
        self.share = share
        """Copies a machine, at most."""


def require_ray() -> Any:
    """Ray. Raises DecabenchError where it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read on import: an evaluation calls nobody
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of Ray's own settings, when it reads them
            import ray
            import ray.data

            ray.data.DataContext.get_current()
    except ImportError as error:
        raise DecabenchError("--engine ray needs Ray: pip install 'decabench[ray]'.") from error
    return ray


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[None]:
    """A cluster to work on. What was started here is ended; a session that the caller began is used and left alone.

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
            f"{address} is for Ray Client, which Ray Data does not work through: run decabench on a machine of the "
            "cluster with --address auto, or send it there with ray job submit."
        )
    with _quiet(), _own_sigterm():
        try:
            _start(ray, workers) if address in (None, "local") else _connect(ray, str(address))
            yield
        finally:
            ray.shutdown()


def lay_out(workers: int | None, gpus: float) -> Layout:
    """How the connected cluster is used: one worker a GPU, or a machine, unless told. Raises DecabenchError."""
    ray = require_ray()
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    resource, each = ("GPU", gpus) if gpus else ("CPU", 1.0)
    room = sum(int(node.get(resource, 0) // each) for node in nodes)
    if gpus and not room:
        raise DecabenchError(
            f"The model wants {gpus:g} GPU and no machine of the cluster has as many: give --device cpu, or start Ray "
            "on machines with GPUs."
        )
    if workers and workers > room:
        raise DecabenchError(
            f"--workers {workers} are more than the cluster has {resource}s for: it has room for {room}."
        )
    chosen = workers or (room if gpus else len(nodes))
    return Layout(chosen, gpus, -(-chosen // max(1, len(nodes))))


def _start(ray: Any, workers: int | None) -> None:
    cpus = max(workers or 1, os.cpu_count() or 1)
    try:
        ray.init(
            "local",
            num_cpus=cpus,
            object_store_memory=_store_bytes(),
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except Exception as error:  # Ray raises what it likes: no port, no memory, no /tmp
        raise DecabenchError(f"Ray cannot start on this machine ({in_short(error)}).") from error


def _connect(ray: Any, address: str) -> None:
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # no such host, no such cluster, another version of Ray or Python, no token
        raise DecabenchError(
            f"There is no Ray cluster to be had at {address} ({in_short(error)}): ray status on its head says "
            "whether it runs; Ray and Python must have the same versions here and there, and a cluster that wants a "
            "token needs RAY_AUTH_MODE=token here too."
        ) from error


def _store_bytes() -> int:
    """Half of what shared memory has, where that is little, as in a container."""
    try:
        free = shutil.disk_usage("/dev/shm").free
    except OSError:
        return _STORE_BYTES
    return max(_LEAST_STORE_BYTES, min(_STORE_BYTES, free // 2))


def in_short(error: BaseException) -> str:
    """What an error is, without Ray's traceback of another process."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, BaseException):
        return in_short(cause)
    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
    return f"{type(error).__name__}: {lines[0].strip()}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Ray Data tells of every execution; the run has its own progress."""
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
    """Ray puts in a handler of its own and leaves it there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


# ---- ray

_WINDOW = 16_384
"""Questions in one dataset, which bounds what the driver and the object store hold of a task."""

_GPU_BATCH = 256
"""Questions that a worker with a GPU gets at once, at least: it makes its own batches of them."""

_AHEAD = 2
"""Batches that wait for a worker, so that none waits for a batch."""

_CLOSE_SECONDS = 30.0
"""What workers get to leave the model in order when the run is over."""

_ABORT_SECONDS = 3.0
"""The same when it was broken off: they may be in the middle of a batch."""

_BY_VALUE = "decabench_include_"
"""Modules that no worker can import: they were made of a file that --include names."""


class RayEngine:
    """Connects and loads at the first question, once for all tasks. Raises DecabenchError where Ray is missing."""

    def __init__(self, options: EngineOptions) -> None:
        require_ray()
        self._options = options
        self._stack = ExitStack()
        self._desk: Any = None
        self._workers: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            self._dismiss(_CLOSE_SECONDS if kind is None else _ABORT_SECONDS)

    def outcomes(self, setting: Setting, questions: Iterable[Question]) -> Iterator[tuple[str, Outcome]]:
        """As `Engine.outcomes`; a batch's outcomes come when the batch is done."""
        ray = require_ray()
        packed = _packed(setting)
        if self._desk is None:
            self._hire()
        ask = partial(_ask, self._desk, ray.put(packed), self._options.batch_size)
        remaining = iter(questions)
        while window := list(_batches(remaining, self._batch)):
            for row in self._rows(ask, window):
                reply: Reply = pickle.loads(row["reply"])
                yield from reply.outcomes
                if reply.error is not None:
                    raise error_of(reply.error)

    @property
    def _batch(self) -> int:
        """Questions that a worker gets at once."""
        size = self._options.batch_size
        return max(size, _GPU_BATCH) if _gpus(self._options) else size

    def _rows(self, ask: Any, window: Sequence[Sequence[Question]]) -> Iterator[Mapping[str, Any]]:
        """The replies as they come: one row, and one block, a batch."""
        ray = require_ray()
        items = [{"questions": pickle.dumps(batch)} for batch in window]
        dataset = ray.data.from_items(items, override_num_blocks=len(items))
        size = min(len(self._workers) + _AHEAD, len(items))
        replies = dataset.map(ask, compute=ray.data.TaskPoolStrategy(size=size), num_cpus=0)
        replies.context.enable_progress_bars = False
        replies.context.execution_no_progress_timeout_s = -1  # a large model may well take its time
        try:
            yield from replies.iter_rows()
        except Exception as error:  # the workers' own errors come in replies: this is Ray's
            raise DecabenchError(
                f"The Ray cluster failed ({in_short(error)}): what was answered is kept, and the same command goes "
                "on from there."
            ) from error

    def _hire(self) -> None:
        """Starts the workers; they load the model at once, all of them."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        ray = require_ray()
        self._stack.enter_context(connected(self._options.address, self._options.workers))
        layout = lay_out(self._options.workers, _gpus(self._options))
        backend = ray.cloudpickle.dumps(self._options.backend)
        hired = ray.remote(Worker).options(
            num_cpus=1, num_gpus=layout.gpus, max_restarts=-1, scheduling_strategy="SPREAD"
        )
        self._workers = [hired.remote(backend, _place(layout)) for _ in range(layout.workers)]
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        desk = ray.remote(Desk).options(
            num_cpus=0, max_concurrency=layout.workers + 2 * _AHEAD, scheduling_strategy=here
        )
        self._desk = desk.remote(self._workers)

    def _dismiss(self, seconds: float) -> None:
        ray = require_ray()
        if self._desk is None:
            return
        with suppress(ray.exceptions.RayError):  # what does not answer is ended as it is
            ray.wait([self._desk.close.remote()], timeout=seconds)
        for actor in (self._desk, *self._workers):
            ray.kill(actor)
        self._desk, self._workers = None, []


def _ask(desk: Any, setting: Any, batch_size: int, row: Mapping[str, Any]) -> dict[str, bytes]:
    """Runs on the cluster, in a task of Ray Data: hands a batch to the desk and waits."""
    ray = require_ray()
    reply = ray.get(desk.ask.remote(setting, pickle.loads(row["questions"]), batch_size))
    return {"reply": pickle.dumps(reply)}


def _batches(questions: Iterator[Question], size: int) -> Iterator[list[Question]]:
    """Batches of at most a window's questions together."""
    for _ in range(max(1, _WINDOW // size)):
        if not (batch := list(islice(questions, size))):
            return
        yield batch


def _gpus(options: EngineOptions) -> float:
    """GPUs that one copy of the model uses; most backends use none and do not say so."""
    return float(getattr(options.backend, "gpus", 0))


def _place(layout: Layout) -> Place:
    share = 0 if "OMP_NUM_THREADS" in os.environ else layout.share
    return Place(os.getcwd(), tuple(sys.path), share)


def _packed(setting: Setting) -> bytes:
    """The setting as bytes, with the code of tasks that only the driver has. Raises DecabenchError."""
    ray = require_ray()
    included = [module for name, module in sys.modules.items() if name.startswith(_BY_VALUE)]
    for module in included:
        ray.cloudpickle.register_pickle_by_value(module)
    try:
        packed: bytes = ray.cloudpickle.dumps(setting)
        return packed
    except Exception as error:  # whatever a file of somebody's holds
        raise DecabenchError(
            f"The task {setting.task.name} cannot be sent to the workers ({type(error).__name__}: {error}): its file "
            "must hold nothing that cannot be pickled, such as an open file, in what the task refers to."
        ) from error
    finally:
        for module in included:
            ray.cloudpickle.unregister_pickle_by_value(module)
