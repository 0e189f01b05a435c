"""Process pools whose workers ignore Ctrl-C and exit with their parent."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import active_children, get_context, parent_process
from threading import Thread, main_thread
from types import FrameType
from typing import Any, TypeVar

Result = TypeVar("Result")

_TERMINATED = 128 + signal.SIGTERM


@contextmanager
def process_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Provide a pool of `jobs` processes.

    The workers are terminated if the block fails, or if this process is interrupted or killed. They
    still run their `finally` clauses, and print nothing.
    """
    others = active_children()
    with ExitStack() as stack:
        with _own_code_only():
            pool = stack.enter_context(_Pool(jobs, get_context("spawn"), _end_when_told))
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children():
                if child not in others:
                    child.terminate()
            raise


class _Pool(ProcessPoolExecutor):
    """A pool whose workers ignore Ctrl-C from the moment they start."""

    # Any call to `submit` may start a worker. A spawned process inherits the signal mask, but a handler that the worker
    # sets itself would come too late.
    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        with _sigint_blocked(), _own_code_only():
            return super().submit(_run, fn, *args, **kwargs)


_in_function = False
"""Whether this worker is running a function that may need to clean up."""


def _run(function: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
    global _in_function
    try:
        _in_function = True
        return function(*args, **kwargs)
    except SystemExit:
        # The function has cleaned up. Exit here, because the pool would report the SystemExit as a result and hand out
        # more work.
        os._exit(_TERMINATED)
    finally:
        _in_function = False


def _end_when_told() -> None:
    """Make this worker exit on SIGTERM, or shortly after its parent has been killed."""

    def exit_once(signum: int, frame: FrameType | None) -> None:
        if (
            not _in_function
        ):  # don't raise here, because the pool would treat the exception as a result and continue
            os._exit(_TERMINATED)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # nothing may interrupt the cleanup
        sys.exit(_TERMINATED)

    signal.signal(signal.SIGTERM, exit_once)
    Thread(target=_end_after_parent, daemon=True).start()


_CLEANING_SECONDS = 5.0


def _end_after_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        if main := main_thread().ident:  # interrupt the main thread, which may be waiting in a system call
            signal.pthread_kill(main, signal.SIGTERM)
        time.sleep(_CLEANING_SECONDS)
        os._exit(_TERMINATED)


@contextmanager
def _own_code_only() -> Iterator[None]:
    """Keep the current folder off the module path of processes started in the block.

    The folder may be an untrusted submission, and workers are started with `python -c`, which would search it first
    even for standard modules.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


_SAFE_PATH = "PYTHONSAFEPATH"


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
