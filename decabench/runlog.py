"""Times and hardware of an evaluation: kept apart from the results, whose bytes must not depend on them."""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import decabench
from decabench.tasks.home import atomic_file

__all__ = ["Clock", "started", "write_run_file"]

_PACKAGES = ("numpy", "pyarrow", "sacrebleu", "rouge-score", "datasets")


@dataclass(frozen=True)
class Clock:
    """When something began."""

    at: str
    """ISO time, UTC."""
    seconds: float
    """On the monotonic clock."""


def started() -> Clock:
    """Now."""
    return Clock(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), time.monotonic())


def write_run_file(folder: Path, clock: Clock) -> Path:
    """Writes `run.json` beside `results.json`."""
    content = {
        "format": "decabench.run/1",
        "started": clock.at,
        "seconds": round(time.monotonic() - clock.seconds, 3),
        "peak_memory_mb": round(_peak_memory() / _KB_PER_MB, 1),
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "decabench": decabench.__version__,
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
    }
    path = folder / "run.json"
    with atomic_file(path) as file:
        file.write(json.dumps(content, indent=1, sort_keys=True).encode() + b"\n")
    return path


_KB_PER_MB = 1024 * 1024 if sys.platform == "darwin" else 1024  # macOS counts bytes


def _peak_memory() -> int:
    """Of the largest single process: this one, or a worker that has ended."""
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(who).ru_maxrss for who in whose)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
