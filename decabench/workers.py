"""Other processes: pools that leave Ctrl-C to their parent, and a supervisor for third-party code."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import active_children, get_context, parent_process
from threading import Thread, active_count, main_thread
from types import FrameType
from typing import Any, NoReturn, TypeVar

from decabench.errors import ModelError

Result = TypeVar("Result")

_TERMINATED = 128 + signal.SIGTERM


@contextmanager
def process_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Start a pool of `jobs` spawned processes; terminate them if the block fails, is interrupted or is killed.

    A terminated worker runs its `finally` clauses and prints nothing.
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
    """A pool whose workers ignore Ctrl-C from their first instruction."""

    # A spawned process inherits the signal mask; a handler of its own would come too late. Each call may
    # start a process.
    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        with _sigint_blocked(), _own_code_only():
            return super().submit(_run, fn, *args, **kwargs)


_in_function = False
"""Whether this worker is inside a function that may have to clean up."""


def _run(function: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
    global _in_function
    try:
        _in_function = True
        return function(*args, **kwargs)
    except SystemExit:
        # The function has cleaned up. The pool would report the exit as its result and hand out more work.
        os._exit(_TERMINATED)
    finally:
        _in_function = False


def _end_when_told() -> None:
    """Make this worker end on SIGTERM, and soon after its parent if that is killed."""

    def exit_once(signum: int, frame: FrameType | None) -> None:
        if not _in_function:  # the pool would treat an exception as a result and continue
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
        if main := main_thread().ident:  # to interrupt its wait rather than this thread's
            signal.pthread_kill(main, signal.SIGTERM)
        time.sleep(_CLEANING_SECONDS)
        os._exit(_TERMINATED)


@contextmanager
def _own_code_only() -> Iterator[None]:
    """Keep the current folder, which may be an untrusted submission, off the module path of processes started here.

    They are started as `python -c`, which would otherwise search it first, even for Python's own modules.
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
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_PASSED_ON = (signal.SIGINT, signal.SIGTERM)
_CRASHES = {
    "SIGSEGV": "a fault in compiled code",
    "SIGBUS": "a fault in compiled code",
    "SIGILL": "an instruction that this processor does not have",
    "SIGFPE": "a fault in compiled code",
    "SIGABRT": "a library gave up",
    "SIGKILL": "perhaps for lack of memory",
}


@contextmanager
def watched_process() -> Iterator[None]:
    """Continue in a child process while this one waits, so that even a crash is reported in a sentence: if a
    predictor crashes or calls `os._exit`, its own process can't report anything. The parent never enters the
    block: it exits as the child does, or raises ModelError if the child did not leave the block. Only on Linux,
    and only before threads are started; elsewhere the block runs in this process.
    """
    if not hasattr(signal, "sigwaitinfo") or active_count() > 1:
        yield
        return
    life, end = os.pipe(), os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
    child = os.fork()
    if child:
        os.close(end[1])
        _wait_for(child, end[0])
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.close(life[1])
    os.close(end[0])
    signal.signal(signal.SIGINT, _interrupt_once())
    Thread(target=_end_with_parent, args=(life[0],), daemon=True).start()
    try:
        yield
    finally:
        os.write(end[1], b".")


def _interrupt_once() -> Callable[[int, FrameType | None], None]:
    """Make a handler that counts a Ctrl-C only once if both the terminal and the parent send it."""
    last = float("-inf")

    def interrupt(signum: int, frame: FrameType | None) -> None:
        nonlocal last
        if time.monotonic() - last > 1:
            last = time.monotonic()
            raise KeyboardInterrupt

    return interrupt


def _end_with_parent(life: int) -> None:
    """Kill this process once its parent, which never writes to this pipe, is gone."""
    os.read(life, 1)
    os.kill(os.getpid(), signal.SIGKILL)


def _wait_for(child: int, end: int) -> NoReturn:
    """Wait for the child and exit with its status. Raises ModelError for a crash."""
    while True:
        got = signal.sigwaitinfo({*_PASSED_ON, signal.SIGCHLD})
        if got.si_signo in _PASSED_ON:
            if got.si_code <= 0:  # from another process; the child gets signals from the terminal itself
                os.kill(child, got.si_signo)
            continue
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
    code = os.waitstatus_to_exitcode(status)
    if -code in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
        os.kill(os.getpid(), -code)
    if os.read(end, 1):
        raise SystemExit(code if code >= 0 else 128 - code)
    if sys.stderr.isatty():
        sys.stderr.write("\x1b[?25h\n")  # the progress bar hides the cursor
    raise ModelError(_explain_sudden_end(code))


def _explain_sudden_end(code: int) -> str:
    if code >= 0:
        how = f"The predictor, or a library that it uses, ended the whole process with exit code {code}"
    else:
        name = next((each.name for each in signal.Signals if each == -code), f"signal {-code}")
        reason = f", {_CRASHES[name]}" if name in _CRASHES else ""
        how = f"The process that ran the predictor was ended by {name}{reason}"
    return f"{how}: fix it and run the same command again to continue; the answers so far are kept."
