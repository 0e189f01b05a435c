"""The predictor on a Ray cluster: Ray Data carries the questions, a pool of actors that outlives the task answers.

Ray Data's own pool of actors is made for one dataset and gone with it: every task of a run, and every wording, would
load the model again (and pay some seconds for the pool itself), an example that kills its worker would be tried for
ever or end the run, and outcomes could not be told to be of it. So the actors are ours: they live from the first
question to the last, and the datasets' map tasks, which Ray Data schedules, streams and repeats, hand their batches to
them. docs/cluster.md has the figures.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, Self

from decabench.engines.engine import EngineOptions
from decabench.engines.ray_cluster import Layout, connected, in_short, lay_out, require_ray
from decabench.engines.ray_workers import Desk, Place, Reply, Worker, error_of
from decabench.errors import DecabenchError
from decabench.predictor import Outcome, Question, Setting

__all__ = ["RayEngine"]

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
