"""Show the progress of a run, as lines in a log or as bars on a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING

from decabench.commands._console import is_chatty, note, styles
from decabench.text import terminal_safe

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.status import Status

    from decabench.runs import Tally

_LINE_SECONDS = 60.0
"""Seconds between progress lines for the same task."""

_DELAY_SECONDS = 0.1
"""Minimum seconds between updates of a bar, so that drawing doesn't slow down a fast predictor."""


def show_progress() -> Bars | Lines:
    """Return a progress display: bars on a terminal, lines elsewhere, and nothing with `--quiet`."""
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
            note(f"{tally.task}: {tally.resumed:,} of {tally.total:,} answers are already in the journal")

    def update(self, tally: Tally) -> None:
        """Print a line once a minute, with the time left.

        The line describes the progress before this outcome. If outcomes arrive in batches, it then counts only whole
        batches. The first outcome of a slow batch would make the run seem much slower than it is.
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
        """Draw a bar during a run: model, task, examples, time left and, in a wide window, the speed."""
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
        if self._console.width >= _WIDE:
            columns.append(TextColumn("{task.fields[state]}", markup=False))
        self._live = self._bars = Progress(*columns, console=self._console, transient=True)
        self._bars.start()
        try:
            yield
        finally:
            self.close()

    def begin(self, tally: Tally) -> None:
        """Start a bar for this task. Answers that are already in the journal count as completed."""
        if self._bars is not None:
            for old in self._bars.task_ids:
                self._bars.remove_task(old)
            name = f"{self._predictor}: {tally.task}"
            self._bars.add_task(name, total=tally.total, completed=tally.done, state="")

    def update(self, tally: Tally) -> None:
        """Update the bar, at most a few times a second."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _DELAY_SECONDS
            self.end(tally)

    def end(self, tally: Tally) -> None:
        """Draw the bar's final state."""
        if self._bars is not None:
            self._bars.update(self._bars.task_ids[-1], completed=tally.done, state=_state(tally))


_WIDE = 100
"""The minimum terminal width, in columns, at which a bar shows the speed."""


def _line(tally: Tally) -> str:
    return _join(f"{tally.task}: {tally.done:,} of {tally.total:,}", _state(tally))


def _state(tally: Tally) -> str:
    return _join(format_speed(tally), f"{tally.failed:,} failed" if tally.failed else "")


def _join(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def format_speed(tally: Tally) -> str:
    """Return the speed of this run, such as `12.3 examples/s, 456 tokens/s`; empty before the first answer."""
    if not tally.seconds or not tally.answered:
        return ""
    tokens = tally.prompt_tokens + tally.completion_tokens
    of_tokens = f", {tokens / tally.seconds:,.0f} tokens/s" if tokens else ""
    return f"{tally.answered / tally.seconds:,.1f} examples/s{of_tokens}"


def clock_time(seconds: float) -> str:
    """Format a duration as `1:23:45`."""
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"
