"""Measure time and memory of the harness: every command in a process of its own, in one run.

    python benchmarks/harness.py MIRROR

Prints a Markdown table: wall time (the best of the runs) and the peak memory of the largest single process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = (sys.executable, "-m", "decabench.cli")
Figures = tuple[float, float]
"""Seconds and megabytes."""


def measured(arguments: tuple[str, ...], runs: int = 1) -> Figures:
    """Return the best wall time of some runs, and the peak memory of all of them."""
    best, peak = float("inf"), 0.0
    for _ in range(runs):
        begun = time.perf_counter()
        child = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        if status:
            raise SystemExit(f"{' '.join(arguments)} ended with {os.waitstatus_to_exitcode(status)}")
        best = min(best, time.perf_counter() - begun)
        peak = max(peak, usage.ru_maxrss / 1024)
    return best, peak  # which includes the workers that a process waited for


def steps(mirror: str, folder: Path) -> list[tuple[str, tuple[str, ...], int]]:
    """Return a name, a command and a number of runs for each step."""
    home, lead, majority = (str(folder / name) for name in ("home", "lead-3", "majority"))
    data = ("--home", home)
    return [
        ("import decabench.metrics", (sys.executable, "-c", "import decabench.metrics"), 5),
        ("decabench --help", (*COMMAND, "--help"), 5),
        ("decabench tasks", (*COMMAND, "tasks", *data), 5),
        ("decabench metrics selftest", (*COMMAND, "metrics", "selftest"), 3),
        ("prepare, all ten, mirror", (*COMMAND, "prepare", "--mirror", mirror, *data), 1),
        ("prepare again", (*COMMAND, "prepare", "--mirror", mirror, *data), 3),
        (
            "predict majority, validation",
            (*COMMAND, "predict", "--predictor", "majority", "--output", majority, *data),
            1,
        ),
        (
            "predict lead-3, validation",
            (*COMMAND, "predict", "--predictor", "lead-3", "--output", lead, *data),
            1,
        ),
        ("check lead-3", (*COMMAND, "check", "--submission", lead, *data), 3),
        ("evaluate lead-3, all cores", (*COMMAND, "evaluate", "--submission", lead, *data), 3),
        ("evaluate lead-3, --jobs 1", (*COMMAND, "evaluate", "--submission", lead, "--jobs", "1", *data), 3),
        ("verify lead-3", (*COMMAND, "verify", "--submission", lead, *data), 1),
        ("compare majority lead-3", (*COMMAND, "compare", majority, lead, *data), 1),
    ]


def main(mirror: str) -> None:
    print("| what | seconds | peak MB |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for what, arguments, runs in steps(mirror, Path(folder)):
            seconds, megabytes = measured(arguments, runs)
            print(f"| {what} | {seconds:.2f} | {megabytes:,.0f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
