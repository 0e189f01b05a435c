"""The parts of a board: columns, cells, rows and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from decabench.leaderboard.entries import Entry
from decabench.scoring import PairTests
from decabench.tasks import Suite

__all__ = [
    "BASELINES",
    "CEILINGS",
    "Board",
    "Cell",
    "Column",
    "DataLine",
    "Place",
    "Row",
    "Standings",
    "State",
    "Tests",
]

BASELINES = frozenset({"majority", "most-frequent-tag", "first-choice", "copy-context", "lead-3", "random"})
"""Predictors that count as a floor."""

CEILINGS = frozenset({"oracle"})
"""Predictors that see the answers."""


@dataclass(frozen=True)
class Column:
    """A task as shown on the board, with the scale of its headline metric."""

    name: str
    """The task's name: `squad`."""
    title: str
    """The task's title: `Question answering`."""
    metric: str
    """The headline metric's name: `nf1`; empty if unknown."""
    hidden: tuple[str, ...] = ()
    """Splits whose labels are not public."""
    low: float = 0.0
    """The lowest possible score."""
    high: float = 100.0
    """The highest possible score."""
    higher_is_better: bool = True
    """Whether higher scores are better."""

    @property
    def span(self) -> float:
        """The length of the scale; infinite if it is unbounded."""
        return self.high - self.low

    @property
    def is_percentage(self) -> bool:
        """Whether scores run from 0 to 100."""
        return (self.low, self.high) == (0, 100)

    @property
    def digits(self) -> int:
        """The number of decimals shown: 1 for long scales, 3 for short and unbounded ones."""
        return 1 if 20 <= self.span < math.inf else 3

    @property
    def scale(self) -> str:
        """A description of the scale: `0 to 100`, `0 and up, lower is better`."""
        if math.isfinite(self.span):
            text = f"{self.low:g} to {self.high:g}".replace("-", "−")  # noqa: RUF001
        else:
            text = f"{self.low:g} and up" if math.isfinite(self.low) else "any number"
        return text if self.higher_is_better else f"{text}, lower is better"

    def show(self, score: float) -> str:
        """Format a score."""
        return f"{score:.{self.digits}f}"

    def show_interval(self, interval: tuple[float, float]) -> str:
        """Format an interval: `48.1–51.9`, or with `to` if an end may be negative."""
        low, high = map(self.show, interval)
        return f"{low}–{high}" if self.low >= 0 else f"{low} to {high}"

    def goodness(self, score: float) -> float:
        """Return a number that increases as the score gets better."""
        return score if self.higher_is_better else -score


class State(IntEnum):
    """How complete a result is; rows are listed in this order."""

    COMPLETE = 0
    PARTIAL = 1
    FAILED = 2
    """Some tasks are scored, and at least one failed."""
    NOTHING = 3
    """No task is scored."""


@dataclass(frozen=True)
class Cell:
    """A score, or the reason for its absence."""

    task: str
    """The task's name."""
    status: str
    """`scored`, `limited`, `missing`, `failed` or `hidden`."""
    text: str
    """The formatted score; empty if there is none."""
    label: str
    """The text to show instead of a score, or next to the score of a limited run."""
    interval: str = ""
    """`48.1–51.9`; empty if unknown."""
    value: float | None = None
    """The score; None for a limited run, which is not compared."""
    units: str = ""
    """The units behind the interval: `48 articles (41.2 effective)`; empty if unknown."""


@dataclass(frozen=True)
class Place:
    """The place of a system in a ranking."""

    rank: int
    """The rank, shared by its group: 1, 1, 3."""
    group: int
    """The number of its rank group, from 1."""
    best: int
    """The best possible rank."""
    worst: int
    """The worst possible rank: all ranks are possible except those of systems that differ from it
    significantly."""
    versus: str = ""
    """The comparison that decided its group, in words; empty for the first system."""

    @property
    def span(self) -> str:
        """The possible ranks, `4–7`; empty if there is only one."""
        return f"{self.best}–{self.worst}" if self.best != self.worst else ""


@dataclass(frozen=True)
class Row:
    """A line of a table."""

    entry: Entry
    """The submission and its results."""
    state: State
    """How complete they are."""
    total: str
    """The formatted total; empty unless complete."""
    cells: tuple[Cell, ...]
    """One cell for each task."""
    remarks: tuple[str, ...]
    """Why it is not ranked, and other remarks."""
    mark: str
    """`baseline`, `ceiling` or empty."""
    value: float | None = None
    """The total; None unless complete."""
    interval: tuple[float, float] | None = None
    """The interval of the total."""
    interval_text: str = ""
    """The formatted interval of the total."""
    place: Place | None = None
    """Its place in the ranking; None if it is not ranked."""

    @property
    def rank(self) -> int | None:
        """The rank; None if not ranked."""
        return self.place.rank if self.place else None


@dataclass(frozen=True)
class DataLine:
    """The data and metric behind one task's scores."""

    task: str
    """The task's name."""
    origin: str
    """`mirror`, `upstream files`, `bundled sample`, …"""
    known: str
    """How the origin is known."""
    count: str
    """The number of examples, such as `1,000 of 10,570`, as far as known."""
    is_subset: bool
    """Whether fewer examples were scored than the dataset's paper reports."""
    fingerprint: str
    """The data's fingerprint."""
    signature: str
    """The metric's signature."""
    note: str
    """A note on the data, written when it was prepared."""


@dataclass(frozen=True)
class Tests:
    """The tests between all rows of a table; indexes are those of `Standings.compared_rows`."""

    total: PairTests | None = None
    """Tests of the totals, adjusted for all pairs of ranked systems."""
    tasks: Mapping[str, PairTests] = field(default_factory=dict)
    """Tests of each task, adjusted for all pairs of systems that have a place on it."""


@dataclass(frozen=True)
class Standings:
    """A table: comparable rows of one suite and split."""

    id: str
    """Identifies the suite, split, data and metrics."""
    split: str
    """`validation` or `test`."""
    heading: str
    """A short description of the data."""
    counted: int
    """The number of tasks in a complete result."""
    is_whole: bool
    """Whether this includes all tasks of the suite."""
    total_name: str
    """The name of the total: `decaScore`; `Total` over public tasks only; empty if there is none."""
    total_unit: str
    """The unit of the total: `of 1000`, `mean of 16`; empty if scales differ or there is no total."""
    rows: tuple[Row, ...]
    """The systems."""
    floors: tuple[Row, ...]
    """The baselines, listed separately and unranked."""
    ceilings: tuple[Row, ...]
    """The ceilings, listed separately and unranked."""
    apart: tuple[Row, ...]
    """Results that nothing here confirms, or that answer other questions; they are compared with nothing."""
    data: tuple[DataLine, ...]
    """The data and metric of each task."""
    tests: Tests = field(default_factory=Tests)
    """The tests between the rows."""

    @property
    def notes(self) -> dict[str, list[str]]:
        """Notes on the data, each with the tasks that it applies to."""
        notes: dict[str, list[str]] = {}
        for line in self.data:
            if line.note:
                notes.setdefault(line.note, []).append(line.task)
        return notes

    @property
    def all_rows(self) -> tuple[Row, ...]:
        """All rows that have a page."""
        return self.compared_rows + self.apart

    @property
    def compared_rows(self) -> tuple[Row, ...]:
        """Systems, baselines and ceilings: all rows that may be compared and drawn together."""
        return self.rows + self.floors + self.ceilings


@dataclass(frozen=True)
class Board:
    """A suite with its columns and tables."""

    suite: Suite
    """The suite."""
    columns: tuple[Column, ...]
    """Its tasks."""
    tables: tuple[Standings, ...] = ()
    """Its tables, in the order of the page."""

    @property
    def higher_is_better(self) -> bool:
        """Whether a higher total is better; a suite's metrics all have the same direction."""
        known = [column.higher_is_better for column in self.columns if column.metric]
        return any(known) or not known

    @property
    def digits(self) -> int:
        """The number of decimals of a total."""
        return max(column.digits for column in self.columns)

    def show(self, total: float) -> str:
        """Format a total."""
        return f"{total:.{self.digits}f}"

    def show_interval(self, interval: tuple[float, float]) -> str:
        """Format the interval of a total."""
        between = " to " if any(column.low < 0 for column in self.columns) else "–"
        return between.join(map(self.show, interval))

    def public(self, split: str) -> list[str]:
        """Return the names of the tasks whose labels are public on a split."""
        return [column.name for column in self.columns if split not in column.hidden]

    def combine(self, scores: Sequence[float]) -> float:
        """Combine scores as the suite does; 0 if there are none or the suite has no total."""
        if not scores or self.suite.total == "none":
            return 0.0
        return math.fsum(scores) / (len(scores) if self.suite.total == "mean" else 1)

    def unit(self, tasks: int) -> str:
        """Return the unit of a total over some tasks: `of 1000`, `mean of 16`."""
        if len(self.columns) == 1 and not self.columns[0].is_percentage:
            return ""
        if self.suite.total == "mean":
            return f"mean of {tasks}" if len(self.columns) > 1 else "of 100"
        is_sum_of_points = self.suite.total == "sum" and all(column.is_percentage for column in self.columns)
        return f"of {100 * tasks}" if is_sum_of_points else ""
