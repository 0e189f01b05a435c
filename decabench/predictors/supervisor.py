"""Run one program, and end it together with everything it started.

A standalone script without decabench imports.

    python -I -S supervisor.py LIFE REPORT GRACE PROGRAM ARGUMENT …

LIFE is the end of a pipe that decabench never writes to. When it closes, decabench is finished or has been
killed. The program then gets SIGTERM, and SIGKILL after GRACE seconds. On Linux, orphaned children of the
program become children of this process, which ends them in any group or session; elsewhere, only processes in
the program's group are found. If this process itself is killed, Linux ends the program. If the program cannot
be started, the error number goes to REPORT.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress

__all__ = ["main"]

_SET_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36
"""Constants of Linux's prctl."""

_PATIENCE = 10.0
"""How many seconds to wait for killed processes to disappear."""


def main() -> None:
    """Run the program of the command line, and exit with its status."""
    life, report = int(sys.argv[1]), int(sys.argv[2])
    for pipe in (life, report):
        os.set_inheritable(pipe, False)
    _prctl(_SET_SUBREAPER, 1)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    child = _start(sys.argv[4:], report)
    os.close(report)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # so that only the program keeps them open
        os.dup2(nowhere, stream)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wanted, killed_at = True, float("inf")
    while (status := _reap(child)) is None:
        timeout = None if wanted or killed_at < 0 else max(0.0, killed_at - time.monotonic())
        ready = select.select([woken, life] if wanted else [woken], [], [], timeout)[0]
        if woken in ready:
            os.read(woken, 512)
        elif life in ready:
            _signal(child, signal.SIGTERM)
            wanted, killed_at = False, time.monotonic() + float(sys.argv[3])
        elif not ready:
            _signal(child, signal.SIGKILL)
            killed_at = -1.0
    _signal(child, signal.SIGKILL)
    _end_descendants()
    _end_as(status)


def _prctl(option: int, value: int) -> None:
    """Call prctl on Linux; do nothing elsewhere."""
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _start(arguments: list[str], report: int) -> int:
    """Start the program in its own process group, which ends with this process. Returns its id."""
    own = os.getpid()
    child = os.fork()
    if child:
        with suppress(OSError):  # the child does the same, and either may be first
            os.setpgid(child, child)
        return child
    try:
        os.setpgid(0, 0)
        for name in ("SIGCHLD", "SIGPIPE", "SIGXFSZ", "SIGXFZ"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.SIG_DFL)
        _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() == own:  # or the parent was killed before that
            os.execvp(arguments[0], arguments)
    except OSError as error:
        os.write(report, str(error.errno).encode())
    os._exit(127)


def _reap(child: int) -> int | None:
    """Collect processes that have ended, and return the child's status once the child has ended."""
    found = None
    with suppress(ChildProcessError):
        while True:
            ended, status = os.waitpid(-1, os.WNOHANG)
            if not ended:
                break
            if ended == child:
                found = status
    return found


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _end_descendants() -> None:
    """Kill all children of this process, then theirs, until none are left."""
    ends_at = time.monotonic() + _PATIENCE
    while (children := _children()) and time.monotonic() < ends_at:
        for child in children:
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
        time.sleep(0.005)
        _reap(0)


def _children() -> list[int]:
    """List the children of this process if /proc is available."""
    own, found = str(os.getpid()), []
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if name.isdigit():
            with suppress(OSError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
                if parent == own.encode() and state != b"Z":
                    found.append(int(name))
    return found


def _end_as(status: int) -> None:
    """End with the program's exit code or signal."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError, ValueError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
