"""Times and hardware of an evaluation: kept apart from the results, whose bytes must not depend on them."""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import decabench
from decabench.files import atomic_file

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Clock", "console", "count", "peak_memory", "score", "started", "write_run_file"]

# ---- console


def console(stderr: bool = False) -> Console:
    """A console whose tables fit the terminal, or 140 columns of a pipe or a file; a sentence stays one line."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 140
    return Console(stderr=stderr, width=width, highlight=False, markup=False, emoji=False, soft_wrap=True)


def count(value: int | None) -> str:
    """`87,599`, or a dash for what is not known."""
    return "–" if value is None else f"{value:,}"


def score(value: float | None) -> str:
    """`75.31`, or a dash for what was not scored."""
    return "–" if value is None else f"{value:.2f}"


# ---- runlog

_PACKAGES = ("numpy", "pyarrow", "sacrebleu", "rouge-score", "datasets", "torch", "transformers", "ray")


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


def write_run_file(folder: Path, clock: Clock, more: Mapping[str, Any] | None = None) -> Path:
    """Writes `run.json` beside `results.json`, or beside the answers; `more` is what the run itself counted."""
    content = {
        "format": "decabench.run/1",
        "started": clock.at,
        "seconds": round(time.monotonic() - clock.seconds, 3),
        "peak_memory_mb": peak_memory(),
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "decabench": decabench.__version__,
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
        **(more or {}),
    }
    path = folder / "run.json"
    with atomic_file(path) as file:
        file.write(json.dumps(content, indent=1, sort_keys=True).encode() + b"\n")
    return path


_KB_PER_MB = 1024 * 1024 if sys.platform == "darwin" else 1024  # macOS counts bytes


def peak_memory() -> float:
    """MB of the largest single process: this one, or a worker that has ended."""
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return round(max(resource.getrusage(who).ru_maxrss for who in whose) / _KB_PER_MB, 1)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
