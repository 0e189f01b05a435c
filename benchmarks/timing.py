"""Time functions in turn, so that other load on the machine affects all of them equally."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Timed:
    """The CPU seconds of several runs."""

    seconds: tuple[float, ...]
    """The CPU seconds of each run."""

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def __str__(self) -> str:
        """Return the median and range, for example `0.123 (0.120-0.150)`."""
        return f"{self.median:.3f} ({min(self.seconds):.3f}-{max(self.seconds):.3f})"


def time_in_turn(sides: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, Timed]:
    """Return the CPU seconds of each function, over `repeats` runs."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, run in sides.items():
            begun = time.process_time()
            run()
            seconds[name].append(time.process_time() - begun)
    return {name: Timed(tuple(found)) for name, found in seconds.items()}


def peak_memory(run: Callable[[], object]) -> float:
    """Return the megabytes by which a run's peak memory exceeds the memory before it. Linux only."""
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")  # resets the peak
    before = _peak()
    run()
    return _peak() - before


def _peak() -> float:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


def describe_machine() -> str:
    """Return a description of the machine and its load."""
    with open("/proc/cpuinfo") as info:
        model = next(
            (line.split(":")[1].strip() for line in info if line.startswith("model name")), "unknown CPU"
        )
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return f"{model}, {os.cpu_count()} cores, load {load}; Python {sys.version.split()[0]}"
