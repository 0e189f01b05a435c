"""A Ray cluster: one started here for the run, one that is told by its address, or the caller's own."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from decabench.errors import DecabenchError

__all__ = ["Layout", "connected", "in_short", "lay_out", "require_ray"]

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
