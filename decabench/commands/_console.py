"""Output of the commands: text, JSON, tables, progress and `run.json`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import click
from click.core import ParameterSource

from decabench.commands._options import EXISTING
from decabench.text import fold, terminal_safe

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.status import Status
    from rich.text import Text

    from decabench.runs import Tally
    from decabench.scoring import DataUsed, TaskResult
    from decabench.tasks import SplitRecord


def submission_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Accept the submission as an argument or as `--submission`. Both set the parameter `submission`."""
    text = "The submission (a folder, a .zip or a .tar.gz), if it isn't given as an argument."
    option = click.option("--submission", type=EXISTING, metavar="PATH", help=text)
    argument = click.argument("place", metavar="[SUBMISSION]", type=EXISTING, required=False)

    @wraps(command)
    def run(*arguments: Any, place: Path | None, submission: Path | None, **settings: Any) -> Any:
        source = click.get_current_context().get_parameter_source("submission")
        if place is not None and submission is not None and source == ParameterSource.COMMANDLINE:
            raise click.UsageError(
                "The submission was specified twice. Use either the argument or --submission."
            )
        if place is None and submission is None:
            raise click.UsageError("The submission is missing. Specify a folder, a .zip or a .tar.gz.")
        return command(*arguments, submission=place or submission, **settings)

    return argument(option(run))


# Text and JSON


def is_set(option: str) -> bool:
    """Return whether a shared option, such as `json` or `quiet`, was given."""
    return bool(_setting(option))


def _setting(name: str) -> Any:
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(f"decabench.{name}")


def terminal_width(stream: IO[str]) -> int | None:
    """Return the number of columns of a stream's terminal, or None if the stream is not a terminal."""
    import shutil

    return shutil.get_terminal_size().columns if stream.isatty() else None


def echo(
    text: str, indent: int = 0, nl: bool = True, err: bool = False, bold: bool = False, wrap: bool = True
) -> None:
    """Print text, escaping terminal control characters. With `--json`, print it to standard error instead.

    On a terminal, long lines are wrapped, and continuation lines are indented by `indent` spaces. With
    `wrap=False`, lines are kept whole so that they can be copied.
    """
    stderr = err or is_set("json")
    safe = terminal_safe(_folded(text, indent, stderr) if wrap else text)
    click.secho(safe, nl=nl, err=stderr, color=_setting("color"), bold=bold or None, reset=bold)


def changed_since(
    tasks: Iterable[str], split: str, home: Path | None, include: Sequence[Path]
) -> Iterator[str]:
    """Yield a warning for each task whose files have changed since they were prepared."""
    from decabench.errors import DataError
    from decabench.tasks import Store, known_tasks

    known, store = known_tasks(include), Store(home)
    for name in tasks:
        try:
            store.require_current(known[name], split)
        except DataError as error:
            yield f"{name}: scored on the data that was prepared earlier. {error}"


def _folded(text: str, indent: int, stderr: bool) -> str:
    width = terminal_width(sys.stderr if stderr else sys.stdout)
    return text if width is None else fold(text, width, rest=" " * indent)


def note(text: str) -> None:
    """Print progress or advice to standard error, unless `--quiet` was given."""
    if not is_set("quiet"):
        echo(text, err=True)


def is_chatty() -> bool:
    """Return whether to show progress bars, which need a terminal and are turned off by `--quiet`."""
    return sys.stderr.isatty() and not is_set("quiet")


def print_json(content: object) -> None:
    """Print a `--json` document."""
    import json

    import msgspec

    plain = msgspec.to_builtins(content)
    write_json(json.dumps(plain, ensure_ascii=False, indent=1, allow_nan=False))


def report(*lines: str) -> None:
    """Print a command's result as lines of text or, with `--json`, as one document."""
    if is_set("json"):
        from decabench.commands._documents import LinesDocument

        print_json(LinesDocument(lines=lines))
    else:
        echo("\n".join(lines))


def write_json(text: str) -> None:
    """Print JSON text as the result of a `--json` command, escaping control characters."""
    stream = _setting("stdout") or sys.stdout
    stream.write(terminal_safe(text.rstrip("\n")) + "\n")
    stream.flush()


def console(stderr: bool = False, piped_width: int = 140) -> Console:
    """Return a Rich console that escapes terminal control characters in all text.

    Tables are at most as wide as the terminal. In a pipe or file, the limit is $COLUMNS or, if that
    isn't set, `piped_width`. Strings are wrapped as in `echo`, unless `soft_wrap=True` is passed to
    `print`.
    """
    from rich.console import Console

    given = os.environ.get("COLUMNS", "")
    columns = int(given) if given.isdecimal() else 0

    is_error = stderr or is_set("json")

    class SafeConsole(Console):
        def print(self, *objects: Any, **settings: Any) -> None:
            if objects and isinstance(objects[0], str) and not settings.get("soft_wrap"):
                objects = (_folded(objects[0], 0, is_error), *objects[1:])
            super().print(*objects, **settings)

        def render_str(self, text: str, **settings: Any) -> Text:
            return super().render_str(terminal_safe(text), **settings)

        def on_broken_pipe(self) -> None:
            raise  # rich would exit with 1, which means that faults were found

    return SafeConsole(
        stderr=is_error,
        width=terminal_width(sys.stderr if stderr else sys.stdout) or columns or piped_width,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
        **styles(),
    )


def styles() -> dict[str, Any]:
    """Return the keyword arguments for a Rich `Console` that turn colors and other styles on or off."""
    color = _setting("color")
    return {"force_terminal": color or None, "color_system": None if color is False else "auto"}


# Tables

_LEAST_TEXT = 14
"""The minimum width of a text column, in characters. If there is less space, some columns are left
out.
"""


@dataclass(frozen=True)
class TableColumn:
    """A column of a table."""

    heading: str
    """The heading."""
    right: bool = False
    """Whether the column contains numbers, which are right-aligned."""
    rank: int = 0
    """The order in which columns are left out if a table is too wide, highest first. Columns of rank 0 always stay.
    """
    is_text: bool = False
    """Whether cells can wrap onto further lines."""


def print_table(
    out: Console,
    columns: Sequence[TableColumn],
    rows: Sequence[Sequence[str]],
    totals: int = 0,
    more: str = "widen the window, or use --json",
) -> bool:
    """Print a table, leaving out columns that don't fit, and return whether all columns were printed.

    A note below the table lists the missing columns, with `more` as advice on how to see them. The last `totals`
    rows are bold. If even the columns of rank 0 don't fit, each row is printed as a list.
    """
    from rich.cells import cell_len
    from rich.table import Table

    needed = {}  # column widths, including a space on each side of a cell
    for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
        longest = max(map(cell_len, (column.heading, *map(terminal_safe, cells))))
        needed[column] = 2 + (min(longest, _LEAST_TEXT) if column.is_text else longest)
    shown = list(columns)
    while sum(map(needed.__getitem__, shown)) > out.width:
        if not (most := max(column.rank for column in shown)):
            _print_lists(out, columns, rows, totals)
            return True
        shown = [column for column in shown if column.rank < most]
    left_out = [column.heading for column in columns if column not in shown]
    table = Table(box=None, pad_edge=True, header_style="bold")
    for column in shown:
        justify: Literal["left", "right"] = "right" if column.right else "left"
        table.add_column(column.heading, justify=justify, no_wrap=not column.is_text, overflow="fold")
    for number, row in enumerate(rows):
        style = "bold" if number >= len(rows) - totals else None
        table.add_row(*(row[columns.index(column)] for column in shown), style=style)
    out.print(table)
    if left_out and more and not is_set("quiet"):
        names = ", ".join(left_out[:-1]) + (" and " if left_out[1:] else "") + left_out[-1]
        out.print(f"Not shown: {names} ({more}).", style="dim")
    return not left_out


def _print_lists(
    out: Console, columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], totals: int
) -> None:
    label = max(len(column.heading) for column in columns[1:])
    for number, row in enumerate(rows):
        out.print(row[0], style="bold" if number >= len(rows) - totals else None)
        for column, cell in zip(columns[1:], row[1:], strict=True):
            if cell:
                out.print(f"  {column.heading:<{label}}  {cell}", soft_wrap=True)


# Progress

_LINE_SECONDS = 60.0
"""Seconds between progress lines for the same task."""


def show_progress() -> Bars | Lines:
    """Return a progress display: bars on a terminal, lines elsewhere. With `--quiet`, it prints nothing."""
    return Bars() if is_chatty() else Lines()


class Lines:
    """Prints progress to standard error: a line for each step and task, and a line per minute while a task runs."""

    def __init__(self) -> None:
        self._next = 0.0
        self._before: Tally | None = None

    def say(self, step: str) -> None:
        """Announce the next step."""
        note(step)

    def close(self) -> None:
        """Do nothing, because there is no bar to remove."""

    @contextmanager
    def show(self, predictor: str) -> Iterator[None]:
        """Do nothing, because there is no bar to draw."""
        yield

    def begin(self, tally: Tally) -> None:
        """Report how many answers are already in the journal."""
        self._next = time.monotonic() + _LINE_SECONDS
        self._before = None
        if tally.resumed:
            verb = "is" if tally.resumed == 1 else "are"
            note(f"{tally.task}: {tally.resumed:,} of {tally.total:,} answers {verb} already in the journal")

    def update(self, tally: Tally) -> None:
        """Print a progress line once a minute, with the time left.

        The line leaves out the newest outcome. When outcomes arrive in batches, the first outcome of a batch usually
        triggers the line. Counting it without the rest of its batch would make the run seem much slower than it is.
        """
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _LINE_SECONDS
            if before := self._before:
                pace = before.seconds / (before.answered + before.failed)
                note(f"{_line(before)}, {clock_time(pace * (before.total - before.done))} left")
        self._before = copy(tally)

    def end(self, tally: Tally) -> None:
        """Print the task's final progress line."""
        if tally.answered or tally.failed:
            note(_line(tally))


class Bars:
    """Shows the current step or a progress bar in a terminal, and removes it before anything else is printed."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, **styles())
        self._live: Status | Progress | None = None
        self._bars: Progress | None = None
        self._predictor = ""
        self._next = 0.0

    def say(self, step: str) -> None:
        """Show the next step."""
        from rich.text import Text

        self.close()
        self._live = self._console.status(Text(terminal_safe(step)))
        self._live.start()

    def close(self) -> None:
        """Remove the display."""
        if self._live is not None:
            self._live.stop()
            self._live = self._bars = None

    @contextmanager
    def show(self, predictor: str) -> Iterator[None]:
        """Show a progress bar during a run.

        The bar shows the model, task, number of examples, time left and, in a wide window, the speed.
        """
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Column

        self.close()
        self._predictor = terminal_safe(predictor)
        columns = [
            TextColumn(
                "{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")
            ),
            BarColumn(20),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
        ]
        if self._console.width >= 100:
            columns.append(TextColumn("{task.fields[state]}", markup=False))
        self._live = self._bars = Progress(*columns, console=self._console, transient=True)
        self._bars.start()
        try:
            yield
        finally:
            self.close()

    def begin(self, tally: Tally) -> None:
        """Start a bar for a task. Answers that are already in the journal count as completed."""
        if self._bars is not None:
            for old in self._bars.task_ids:
                self._bars.remove_task(old)
            name = f"{self._predictor}: {tally.task}"
            self._bars.add_task(name, total=tally.total, completed=tally.done, state="")

    def update(self, tally: Tally) -> None:
        """Update the bar, at most a few times a second."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + 0.1  # so that drawing doesn't slow down a fast predictor
            self.end(tally)

    def end(self, tally: Tally) -> None:
        """Draw the bar's final state."""
        if self._bars is not None:
            self._bars.update(self._bars.task_ids[-1], completed=tally.done, state=_state(tally))


def _line(tally: Tally) -> str:
    return _join(f"{tally.task}: {tally.done:,} of {tally.total:,}", _state(tally))


def _state(tally: Tally) -> str:
    return _join(format_speed(tally), f"{tally.failed:,} failed" if tally.failed else "")


def _join(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def format_speed(tally: Tally) -> str:
    """Return the run's speed, such as `12.3 examples/s, 456 tokens/s`, or an empty string before the first answer."""
    if not tally.seconds or not tally.answered:
        return ""
    tokens = tally.prompt_tokens + tally.completion_tokens
    of_tokens = f", {tokens / tally.seconds:,.0f} tokens/s" if tokens else ""
    return f"{tally.answered / tally.seconds:,.1f} examples/s{of_tokens}"


def clock_time(seconds: float) -> str:
    """Format a duration as `1:23:45`."""
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"


# Texts and numbers


def print_field(out: Console, label: str, text: str) -> None:
    """Print text next to its label. On a terminal, long lines are wrapped and indented."""
    for number, line in enumerate(text.split("\n")):
        head = f"{'' if number else label:<10} "
        if out.is_terminal:
            line = fold(line, out.width, head, " " * len(head))
            head = "" if line else head
        out.print(f"{head}{line}", soft_wrap=True)


def shortened(text: str, limit: int) -> str:
    """Cut off a text after `limit` characters and append its full length. Shorter texts are returned unchanged."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def describe_valid(valid: int, total: int) -> str:
    """Return a phrase such as `only 3 of 20 answers are valid labels`."""
    if valid == 0:
        subject = f"none of the {total:,} answers is" if total > 1 else "the only answer is not"
        return f"{subject} a valid label"
    labels = "is a valid label" if valid == 1 else "are valid labels"
    return f"only {valid:,} of {total:,} answers {labels}"


def describe_origin(data: DataUsed | SplitRecord) -> str:
    """Describe where data comes from, for example as `mirror, checksums verified`."""
    if data.origin in ("sample", "user"):
        return data.origin
    return f"{data.origin}, {'checksums verified' if data.verified else 'checksums not verified'}"


def headline_name(task: TaskResult) -> str:
    """Return the name of a task's headline score, for example `em`, or `mse ↓` if lower is better."""
    from decabench.scoring import find_metric

    return task.headline if find_metric(task.metric).higher_is_better else f"{task.headline} ↓"


def format_count(value: int | None) -> str:
    """Format a count as `87,599`, or as a dash if it is unknown."""
    return "–" if value is None else f"{value:,}"


def format_score(value: float | None, digits: int = 2) -> str:
    """Format a score as `75.31`, or as a dash if there is no score."""
    return "–" if value is None else f"{value:.{digits}f}"


_PACKAGES = ("numpy", "pyarrow", "sacrebleu", "rouge-score", "datasets", "torch", "transformers", "ray")


def write_run_file(folder: Path, started: float, more: Mapping[str, Any] | None = None) -> Path:
    """Write `run.json`, which records the time, memory, machine and package versions of a run.

    `started` is the value of `time.monotonic()` at the start of the run, and `more` contains additional keys. The
    file is separate from the results and answers, which must be the same on all machines. Raises StorageError if the
    file can't be written.
    """
    import json
    import platform

    import decabench
    from decabench.files import write_file

    seconds = time.monotonic() - started
    content = {
        "format": "decabench.run/1",
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds)),
        "seconds": round(seconds, 3),
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
    write_file(path, json.dumps(content, indent=1, sort_keys=True) + "\n")
    return path


def peak_memory() -> float:
    """Return the peak memory in MB of this process or its largest exited worker, whichever is higher."""
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
