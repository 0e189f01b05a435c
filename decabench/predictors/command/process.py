"""A program that is fed lines and gives lines, without threads and without deadlocks."""

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
"""Bytes of a line that a program writes."""

STDERR_KEPT = 2048
"""Bytes of a program's last messages, for the sentence that says how it ended."""

GRACE = 5.0
"""Seconds that a program has to end after its last answer, or after it was told to."""

TICK = 0.2
"""Seconds after which to look at the clock, and whether a program has ended whose children keep its output open."""


class StalledError(Exception):
    """A program read nothing and wrote nothing for longer than it may."""


class Process:
    """A program in a process group of its own, so that it ends with its children; leaving `with` ends it."""

    def __init__(self, arguments: tuple[str, ...], environment: Mapping[str, str]) -> None:
        try:
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env={**os.environ, **environment},
                process_group=0,  # not a session, which the scheduler of a busy Linux gives less of the CPU
            )
        except OSError as error:
            raise DecabenchError(f"{arguments[0]} cannot be started: {error.strerror or error}.") from None
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
        """The lines that it writes, while it is fed those of `next_line` until that gives None.

        Ends with the program's output, or some seconds after all is answered. Raises StalledError, and DecabenchError
        for a line without end.
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
                moved = (
                    time.monotonic()
                )  # only now: the time that the caller took for the lines is not the program's
            elif self._is_over(time.monotonic() - moved, all_answered(), timeout):
                break
        if rest:
            yield rest

    def status(self) -> int | None:
        """How it ended, below 0 for a signal; None if it goes on though its output has ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        self._read_messages()
        return self._process.returncode

    @property
    def messages(self) -> str:
        """The last of what it wrote to stderr."""
        return self._messages.decode("utf-8", "replace")

    @property
    def _pipes(self) -> list[IO[bytes]]:
        process = self._process
        return [pipe for pipe in (process.stdin, process.stdout, process.stderr) if pipe and not pipe.closed]

    def _is_over(self, idle: float, all_answered: bool, timeout: float | None) -> bool:
        """Whether nothing more is to come, after nothing has for so many seconds."""
        had_ended, self._has_ended = self._has_ended, self._process.poll() is not None
        if had_ended:  # before the last look, so that nothing which it wrote is still unread
            return True
        stdin = self._process.stdin
        if all_answered and stdin and stdin.closed:
            return idle > GRACE
        if timeout is not None and idle > timeout:
            raise StalledError
        return False

    def _feed(self, next_line: Callable[[], bytes | None]) -> None:
        """Writes what the pipe takes of one line; closes the pipe after the last, or when the program has closed it."""
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
        """Ends the program and its children, kindly first."""
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
    """What is there; empty at the end, None for nothing yet."""
    assert pipe is not None
    try:
        return os.read(pipe.fileno(), CHUNK)
    except BlockingIOError:
        return None
