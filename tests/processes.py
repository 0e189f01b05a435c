"""Helpers that wait for other processes and run them in a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tests.sources import ROOT


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait up to a minute."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(process: int) -> bool:
    """Return whether a process is running. Zombies are not."""
    if Path("/proc/self").exists():
        try:
            return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def in_terminal(command: Sequence[object], columns: int, folder: Path, **variables: str) -> tuple[int, bytes]:
    """Run a command in a pseudo-terminal of this width. Return its exit code and its output."""
    import fcntl
    import pty
    import struct
    import subprocess
    import termios

    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    own = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        list(map(str, command)),
        cwd=folder,
        env={**own, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), **variables},
        stdin=inside,
        stdout=inside,
        stderr=inside,
    )
    os.close(inside)
    written = b""
    with suppress(OSError):  # how Linux ends a terminal whose program has ended
        while block := os.read(terminal, 1 << 16):
            written += block
    os.close(terminal)
    return process.wait(), written


def with_decabench(folder: Path) -> dict[str, str]:
    """Return an environment with the tests' own `decabench`, `python` and `python3`."""
    (folder / "bin").mkdir()
    for name, module in (("python", ""), ("python3", ""), ("decabench", "-m decabench")):
        shim = folder / "bin" / name
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        shim.chmod(0o755)
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
