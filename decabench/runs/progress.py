"""How far a run is: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from decabench.runs.ask import Tally

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

__all__ = ["Bar", "Lines", "reporter", "speed"]

_LINE_SECONDS = 60.0
"""How often a log hears of a task that goes on."""

_DELAY_SECONDS = 0.1
"""How often a bar is told: a fast predictor must not wait for it."""


def reporter() -> Bar | Lines:
    """What fits where standard error goes. To be entered."""
    return Bar() if sys.stderr.isatty() else Lines()


def speed(tally: Tally) -> str:
    """`12.3 examples/s, 456 tokens/s`, of this run's own answers."""
    if not tally.seconds or not tally.answered:
        return ""
    tokens = tally.prompt_tokens + tally.completion_tokens
    of_tokens = f", {tokens / tally.seconds:,.0f} tokens/s" if tokens else ""
    return f"{tally.answered / tally.seconds:,.1f} examples/s{of_tokens}"


def _state(tally: Tally) -> str:
    failed = f", {tally.failed:,} failed" if tally.failed else ""
    return f"{speed(tally)}{failed}"


class Lines:
    """A line a task, and one a minute while it goes on, to standard error."""

    def __init__(self) -> None:
        self._next = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def begin(self, tally: Tally) -> None:
        """Says what is resumed; a task of a moment says nothing until it is done."""
        self._next = time.monotonic() + _LINE_SECONDS
        if tally.resumed:
            _say(f"{tally.task}: {tally.resumed:,} of {tally.total:,} answers are in the journal")

    def update(self, tally: Tally) -> None:
        """One line a minute, with the time that is left."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _LINE_SECONDS
            _say(f"{tally.task}: {tally.done:,} of {tally.total:,}, {_state(tally)}, {_left(tally)} left")

    def end(self, tally: Tally) -> None:
        """The task's line."""
        if tally.answered or tally.failed:
            _say(f"{tally.task}: {tally.done:,} of {tally.total:,}, {_state(tally)}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _left(tally: Tally) -> str:
    asked = tally.answered + tally.failed
    seconds = tally.seconds / asked * (tally.total - tally.done) if asked else 0.0
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"


class Bar:
    """A bar for each task on a terminal: examples, their speed, tokens, the time left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        self._bars: Bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[state]}"),
            console=Console(stderr=True),
        )
        self._id: TaskID | None = None
        self._next = 0.0

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def begin(self, tally: Tally) -> None:
        """A bar that starts where the journal ends."""
        self._id = self._bars.add_task(tally.task, total=tally.total, completed=tally.done, state="")

    def update(self, tally: Tally) -> None:
        """Moves the bar, a few times a second."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _DELAY_SECONDS
            self._show(tally)

    def end(self, tally: Tally) -> None:
        """The bar's last state stays."""
        self._show(tally)

    def _show(self, tally: Tally) -> None:
        if self._id is not None:
            self._bars.update(self._id, completed=tally.done, state=_state(tally))
