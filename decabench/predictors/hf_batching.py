"""How many prompts go through a model at once."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BatchSize"]

START = 8
"""The first batch of `auto`."""

GAIN = 1.1
"""A batch twice as large must be so many times as fast, or growing ends."""

WINDOW = 2048
"""The most questions that are read ahead, to be sorted by length, unless one batch has more."""


@dataclass
class BatchSize:
    """Grows while that is faster and fits, halves where it does not fit, and remembers what did not."""

    fixed: int | None
    """The number that was asked for; None is `auto`."""
    most: int
    """The largest batch of `auto`."""

    def __post_init__(self) -> None:
        self._too_large: int | None = None
        self.begin()

    def begin(self) -> None:
        """A new task: its prompts are of another length, but the memory is the same."""
        self._rows = self.fixed or START
        self._grows = self.fixed is None
        self._best: tuple[float, int] = (0.0, self._rows)

    @property
    def window(self) -> int:
        """How many questions to read ahead."""
        return max(self._rows, min(32 * self._rows, WINDOW))

    def rows(self, positions: int, left: int) -> int:
        """The next batch's size, for prompts and answers of at most so many positions, of those that are left."""
        rows = min(self._rows, left)
        while rows > 1 and self._too_large is not None and rows * positions >= self._too_large:
            rows //= 2
        return rows

    def fitted(self, rows: int, positions: int, seconds: float) -> None:
        """A batch went through."""
        if not self._grows or rows < self._rows:
            return
        speed = rows * positions / max(seconds, 1e-9)
        if speed < GAIN * self._best[0]:
            self._grows, self._rows = False, self._best[1]
            return
        self._best = (speed, rows)
        self._rows = min(2 * rows, self.most)
        self._grows = self._rows > rows

    def overflowed(self, rows: int, positions: int) -> None:
        """A batch did not fit."""
        self._too_large = min(rows * positions, self._too_large or rows * positions)
        self._grows = False
        self._rows = max(1, rows // 2)
