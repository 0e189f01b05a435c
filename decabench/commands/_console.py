"""The console, number formats, and `run.json`: the times and hardware of a run."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from decabench.text import terminal_safe

if TYPE_CHECKING:
    from http.server import HTTPServer

    from rich.console import Console
    from rich.text import Text

    from decabench.scoring import TaskResult

__all__ = [
    "Clock",
    "console",
    "echo",
    "format_count",
    "format_score",
    "headline_name",
    "peak_memory",
    "print_field",
    "serve",
    "shortened",
    "start_clock",
    "write_run_file",
]


def echo(text: str, nl: bool = True, err: bool = False, bold: bool = False) -> None:
    """Print a text, of whatever origin: nothing in it acts on the terminal. JSON stays the same JSON."""
    click.secho(terminal_safe(text), nl=nl, err=err, bold=bold or None)


def console(stderr: bool = False) -> Console:
    """Make a console: tables fit the terminal, or 140 columns of a pipe or a file; a sentence stays on one line.

    Nothing that is printed acts on the terminal, whatever its origin; only styles do.
    """
    from rich.console import Console

    class SafeConsole(Console):
        def render_str(self, text: str, **settings: Any) -> Text:
            return super().render_str(terminal_safe(text), **settings)

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 140
    return SafeConsole(stderr=stderr, width=width, highlight=False, markup=False, emoji=False, soft_wrap=True)


def print_field(out: Console, label: str, text: str) -> None:
    """Print a text beside its label. On a terminal, long lines break between words and go on below the text."""
    for number, line in enumerate(text.split("\n")):
        head = f"{'' if number else label:<10} "
        if out.is_terminal:
            line = textwrap.fill(
                line,
                max(out.width, 40),
                initial_indent=head,
                subsequent_indent=" " * len(head),
                break_long_words=False,
                break_on_hyphens=False,
            )
            head = "" if line else head
        out.print(f"{head}{line}")


def shortened(text: str, limit: int) -> str:
    """Cut a long text, and say how long it is."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def serve(server: HTTPServer, ready: Callable[[str], object] = str) -> None:
    """Print a server's address, call `ready` with it, and serve until Ctrl-C."""
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    echo(f"Serving on {address} until Ctrl-C.")
    ready(address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        echo("Stopped.")


def headline_name(task: TaskResult) -> str:
    """Return the name of a task's headline score: `em`, or `mse ↓` if lower is better."""
    from decabench.scoring import find_metric

    return task.headline if find_metric(task.metric).higher_is_better else f"{task.headline} ↓"


def format_count(value: int | None) -> str:
    """Format a count as `87,599`, or as a dash if it is not known."""
    return "–" if value is None else f"{value:,}"


def format_score(value: float | None, digits: int = 2) -> str:
    """Format a score as `75.31`, or as a dash if there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


@dataclass(frozen=True)
class Clock:
    """When a run began."""

    at: str
    """ISO time, UTC."""
    seconds: float
    """On the monotonic clock."""


def start_clock() -> Clock:
    """Start a clock."""
    return Clock(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), time.monotonic())


_PACKAGES = ("numpy", "pyarrow", "sacrebleu", "rouge-score", "datasets", "torch", "transformers", "ray")


def write_run_file(folder: Path, clock: Clock, more: Mapping[str, Any] | None = None) -> Path:
    """Write `run.json`; `more` holds what the run itself counted. Raises StorageError.

    It is separate from results and answers, whose bytes must not depend on times and hardware.
    """
    import json
    import os
    import platform

    import decabench
    from decabench.files import atomic_file

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
        "packages": _installed_versions(),
        **(more or {}),
    }
    path = folder / "run.json"
    with atomic_file(path) as file:
        file.write(json.dumps(content, indent=1, sort_keys=True).encode() + b"\n")
    return path


def peak_memory() -> float:
    """Return the peak memory of the largest process in MB: this one, or a worker that has ended."""
    import resource

    processes = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    units_per_mb = 1024 * 1024 if sys.platform == "darwin" else 1024  # macOS counts bytes
    return round(max(resource.getrusage(each).ru_maxrss for each in processes) / units_per_mb, 1)


def _installed_versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
