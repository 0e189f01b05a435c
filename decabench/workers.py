"""Pools of worker processes that leave Ctrl-C to their parent: one process reports it, the others only clean up."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from types import FrameType
from typing import Any, TypeVar

__all__ = ["process_pool"]

Result = TypeVar("Result")

_TERMINATED = 128 + signal.SIGTERM


@contextmanager
def process_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Start a pool of `jobs` spawned processes; terminate them if the block fails or is interrupted.

    A terminated worker runs its `finally` clauses and prints nothing.
    """
    others = active_children()
    with _Pool(jobs, get_context("spawn"), _exit_on_sigterm) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children():
                if child not in others:
                    child.terminate()
            raise


class _Pool(ProcessPoolExecutor):
    """A pool whose workers never see a Ctrl-C, from their first instruction."""

    # A spawned process inherits the signal mask; a handler of its own would come too late. Each call may
    # start a process.
    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        with _sigint_blocked():
            return super().submit(_run, fn, *args, **kwargs)


def _run(function: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
    try:
        return function(*args, **kwargs)
    except SystemExit:
        # The function has cleaned up. The pool would report the exit as its result and hand out more work.
        os._exit(_TERMINATED)


def _exit_on_sigterm() -> None:
    def exit_once(signum: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # nothing may interrupt the cleaning up
        sys.exit(_TERMINATED)

    signal.signal(signal.SIGTERM, exit_once)


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
