"""Run a program that reads and writes lines, without threads or deadlocks."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import IO, Self

from decabench.errors import DecabenchError

__all__ = ["Process", "StalledError"]

CHUNK = 1 << 16
LONGEST_LINE = 64 << 20
"""The longest line accepted from a program, in bytes."""

STDERR_KEPT = 2048
"""Bytes kept of a program's last messages, for the error message that says how it ended."""

GRACE = 5.0
"""Seconds that a program gets to end by itself, after its last answer or after SIGTERM."""

TICK = 0.2
"""Seconds between checks of the clock, and of whether a program has ended while its children keep its output open."""


class StalledError(Exception):
    """A program neither read nor wrote anything within its time limit."""


class Process:
    """A program in a process group of its own, so that it ends with its children; leaving the block ends it."""

    def __init__(self, arguments: tuple[str, ...], environment: Mapping[str, str]) -> None:
        try:
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env={**os.environ, **environment},
                process_group=0,  # a session would get less of the CPU from the scheduler of a busy Linux
            )
        except OSError as error:
            raise DecabenchError(
                f"{arguments[0]} cannot be started ({error.strerror or error}): check the program and what runs it."
            ) from None
        self._passes_on = bool(os.environ.get("DECABENCH_DEBUG"))
        self._messages = b""
        self._unsent = b""
        self._has_ended = False
        self._selector = selectors.DefaultSelector()
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
            event = selectors.EVENT_WRITE if pipe is self._process.stdin else selectors.EVENT_READ
            self._selector.register(pipe, event)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def lines(
        self, next_line: Callable[[], bytes | None], all_answered: Callable[[], bool], timeout: float | None
    ) -> Iterator[bytes]:
        """Yield the lines that it writes, while feeding it lines from `next_line` until that returns None.

        Stops at the end of the program's output, or some seconds after everything is answered. Raises StalledError,
        and DecabenchError for a line that is too long.
        """
        rest = b""
        moved = time.monotonic()
        while True:
            ready = {key.fileobj for key, _ in self._selector.select(TICK)}
            if self._process.stderr in ready:
                self._read_messages()
            if self._process.stdin in ready:
                self._feed(next_line)
            if self._process.stdout in ready:
                chunk = _read(self._process.stdout)
                if not chunk:
                    break
                *whole, rest = (rest + chunk).split(b"\n")
                if len(rest) > LONGEST_LINE:
                    raise DecabenchError(f"The program wrote a line of more than {LONGEST_LINE >> 20} MiB.")
                yield from whole
            if ready & {self._process.stdin, self._process.stdout}:
                # Only now: the time the caller spent on the lines does not count against the program.
                moved = time.monotonic()
            elif self._is_over(time.monotonic() - moved, all_answered(), timeout):
                break
        if rest:
            yield rest

    def status(self) -> int | None:
        """Return its exit status, below 0 for a signal; None if it is still running although its output has ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        self._read_messages()
        return self._process.returncode

    @property
    def messages(self) -> str:
        """Return the end of what it wrote to stderr."""
        return self._messages.decode("utf-8", "replace")

    @property
    def _pipes(self) -> list[IO[bytes]]:
        process = self._process
        return [pipe for pipe in (process.stdin, process.stdout, process.stderr) if pipe and not pipe.closed]

    def _is_over(self, idle: float, all_answered: bool, timeout: float | None) -> bool:
        """Whether to stop waiting, after `idle` seconds without any progress. Raises StalledError."""
        had_ended, self._has_ended = self._has_ended, self._process.poll() is not None
        if had_ended:  # before the last check, so that nothing it wrote is left unread
            return True
        stdin = self._process.stdin
        if all_answered and stdin and stdin.closed:
            return idle > GRACE
        if timeout is not None and idle > timeout:
            raise StalledError
        return False

    def _feed(self, next_line: Callable[[], bytes | None]) -> None:
        """Write as much of a line as the pipe takes; close it after the last one, or once the program has closed it."""
        if not self._unsent:
            self._unsent = next_line() or b""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            sent = os.write(stdin.fileno(), self._unsent) if self._unsent else -1
        except BlockingIOError:
            return
        except BrokenPipeError:
            sent = -1
        if sent < 0:
            self._selector.unregister(stdin)
            stdin.close()
        else:
            self._unsent = self._unsent[sent:]

    def _read_messages(self) -> None:
        stderr = self._process.stderr
        if stderr is None or stderr.closed:
            return
        while chunk := _read(stderr):
            self._messages = (self._messages + chunk)[-STDERR_KEPT:]
            if self._passes_on:
                sys.stderr.write(chunk.decode("utf-8", "replace"))
        if chunk == b"":
            self._selector.unregister(stderr)
            stderr.close()

    def _end(self) -> None:
        """End the program and its children, gently first."""
        try:
            if self._process.poll() is None:
                self._signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(GRACE)
        finally:  # also after a second Ctrl-C
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._selector.close()
            for pipe in self._pipes:
                pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _read(pipe: IO[bytes] | None) -> bytes | None:
    """Read what is available: empty at the end of the output, None if nothing has arrived yet."""
    assert pipe is not None
    try:
        return os.read(pipe.fileno(), CHUNK)
    except BlockingIOError:
        return None
