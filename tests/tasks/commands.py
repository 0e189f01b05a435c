"""Commands in a process of their own, with their time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "Run", "measure", "prepare_command"]

ROOT = Path(__file__).parents[2]
"""The project's folder."""

_MEASURE = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
done = subprocess.run([sys.executable, "-m", *sys.argv[1:]], capture_output=True, text=True)
kilobytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([done.returncode, time.perf_counter() - start, kilobytes / 1024, done.stdout + done.stderr]))
"""


@dataclass(frozen=True)
class Run:
    """A command that ended, and what it took."""

    code: int
    """Its exit code."""
    seconds: float
    """From start to end."""
    megabytes: float
    """The largest memory of any of its processes."""
    output: str
    """All that it printed."""


def measure(*arguments: str) -> Run:
    """Runs `python -m ARGUMENTS` below a small process, for a child inherits the peak of its parent."""
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return Run(*json.loads(done.stdout))


def prepare_command(home: Path, *options: str) -> Run:
    """`decabench prepare` in one process."""
    return measure("decabench", "prepare", "--home", str(home), "--jobs", "1", *options)
