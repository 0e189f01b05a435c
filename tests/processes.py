"""Waiting for other processes, and for what they do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait up to a minute."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(process: int) -> bool:
    """Tell whether a process is there and has not ended, though nobody may have asked how."""
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
