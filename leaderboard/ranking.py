"""The ranking of a suite: turns entries into tables of rows, without reading files or writing pages.

The rules:

1. A table covers one suite and one split, with the same data and the same metrics in every shared task
   (`comparability`).
2. A result is complete if every task of the suite whose labels are public on that split is scored. Its total is
   that of its scores, as they were recomputed. If the labels of some tasks are hidden, it is the sum or mean over the
   public ones, and does not use the suite's name for it.
3. Complete results are ranked by their total. Those that do not differ significantly share a rank group: 1, 1, 3
   (`places`); so do those that cannot be tested, for want of statistics of the same units.
4. Only scores that were verified or recomputed here are ranked (`audit`). Results that are self-reported, that answer
   other wordings of the questions or whose whole output was scored stand apart, at the end of their table.
5. Nothing else is ranked. Below the complete results come the partial ones, by the number of tasks scored and then by
   their total so far; then those with a failed task, in the same order; then those without any score. The score of a
   limited run is shown with its count and enters no total.
6. A predictor that sees the answers (`oracle`) is a ceiling, and one that hardly reads them (`majority`, ...) a floor:
   both are listed separately, without a rank.
7. A suite without a total has no ranks: complete results are sorted by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from decabench.leaderboard.comparability import DataLine, Pool, pool_entries
from decabench.leaderboard.entries import RANKED_SPLITS, Entry, is_same_suite
from decabench.leaderboard.places import Place, assign_places, show_ranks
from decabench.metrics import METRICS, Metric
from decabench.scoring import PairTests, Sample, compare_pairs, flip_signs
from decabench.tasks import DECATHLON, Suite, Task

__all__ = [
    "BASELINES",
    "CEILINGS",
    "Board",
    "Cell",
    "Column",
    "FindSample",
    "Row",
    "Standings",
    "State",
    "Tests",
    "describe_place",
    "rank_suite",
    "suite_columns",
]

BASELINES = frozenset({"majority", "most-frequent-tag", "first-choice", "copy-context", "lead-3", "random"})
"""Predictors that serve as a floor."""

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
        """The length of the scale; infinite if scores are unbounded."""
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
        """Return a number that is higher for better scores."""
        return score if self.higher_is_better else -score

    def heat(self, score: float, worst: float, best: float) -> int | None:
        """Place a score between the worst and the best of its column: 0 to 8; None if outside or if all are equal.

        The full tint covers at least a tenth of the scale, so that a tenth of a point does not look like much.
        """
        low, value, high = map(self.goodness, (worst, score, best))
        if high - low < 0.5 * 10**-self.digits or not low <= value <= high:
            return None
        least = self.span / 10 if math.isfinite(self.span) else 0.0
        return round(8 * (value - low) / max(high - low, least))


class State(IntEnum):
    """How complete a result is; rows are in this order."""

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
    """The text to show instead of a score, or beside that of a limited run."""
    interval: str = ""
    """`48.1–51.9`; empty if unknown."""
    value: float | None = None
    """The score; None for a limited run, which is not compared."""
    units: str = ""
    """What the interval rests on: `48 articles (41.2 effective)`; empty if unknown."""
    heat: int | None = None
    """0 to 8, from the worst to the best of the column; None for ceilings, or if all are equal."""


@dataclass(frozen=True)
class Row:
    """A line of a table."""

    rank: int | None
    """The rank; None if not ranked."""
    entry: Entry
    """The submission's results."""
    state: State
    """How complete they are."""
    total: str
    """The formatted total; empty unless complete."""
    cells: tuple[Cell, ...]
    """A cell for each task."""
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
    group: int | None = None
    """Its rank group, from 1."""
    ranks: tuple[int, int] | None = None
    """The ranks it may have, from the best to the worst; None if it is not ranked."""
    versus: str = ""
    """The comparison that decided its rank group, in words."""

    @property
    def ranks_text(self) -> str:
        """The ranks it may have, `4–7`; empty if there is only one, or if it is not ranked."""
        return show_ranks(self.ranks)


@dataclass(frozen=True)
class Tests:
    """The tests between all rows of a table; indexes are those of `Standings.compared_rows`."""

    total: PairTests | None = None
    """Of the totals; adjusted for all pairs of ranked systems."""
    tasks: Mapping[str, PairTests] = field(default_factory=dict)
    """Of each task; adjusted for all pairs of systems that have a place on it."""


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
    """Whether these are all tasks of the suite."""
    total_name: str
    """What the total is called: `decaScore`; `Total` over public tasks only; empty if there is none."""
    total_unit: str
    """What the total is out of: `of 1000`, `mean of 16`; empty if scales differ or there is no total."""
    rows: tuple[Row, ...]
    """The systems."""
    floors: tuple[Row, ...]
    """The baselines, listed separately and unranked."""
    ceilings: tuple[Row, ...]
    """The ceilings, listed separately and unranked."""
    apart: tuple[Row, ...]
    """Results that nothing here confirms, or that answer something else; they are compared with nothing."""
    data: tuple[DataLine, ...]
    """The data and metric of each task."""
    notes: tuple[tuple[str, tuple[str, ...]], ...]
    """Notes on the data, each with the tasks that it applies to."""
    tests: Tests = field(default_factory=Tests)
    """The tests between the rows."""

    @property
    def all_rows(self) -> tuple[Row, ...]:
        """All rows that have a page."""
        return self.compared_rows + self.apart

    @property
    def compared_rows(self) -> tuple[Row, ...]:
        """Systems, baselines and ceilings: what may be compared and drawn together."""
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
    others: tuple[Entry, ...] = ()
    """Results that have no task of the suite, and so no place in a table."""

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
        """Return what a total over some tasks is out of: `of 1000`, `mean of 16`."""
        if len(self.columns) == 1 and not self.columns[0].is_percentage:
            return ""
        if self.suite.total == "mean":
            return f"mean of {tasks}" if len(self.columns) > 1 else "of 100"
        is_sum_of_points = self.suite.total == "sum" and all(column.is_percentage for column in self.columns)
        return f"of {100 * tasks}" if is_sum_of_points else ""


def suite_columns(
    suite: Suite, tasks: Mapping[str, Task], metrics: Mapping[str, Metric], entries: Sequence[Entry]
) -> tuple[Column, ...]:
    """Return the columns of a suite. For an unknown task, the metric is the one named in the results."""
    columns = []
    for name in suite.tasks:
        task = tasks.get(name)
        scored = (entry.tasks[name].metric for entry in entries if name in entry.tasks)
        metric_name = task.metric if task else next(filter(None, scored), "")
        column = Column(name, task.title if task else name, metric_name, task.hidden if task else ())
        metric = metrics.get(metric_name)
        low, high = metric.range if metric else (-math.inf, math.inf)
        columns.append(
            replace(column, low=low, high=high, higher_is_better=not metric or metric.higher_is_better)
        )
    return tuple(columns)


FindSample = Callable[[Entry, str], Sample | None]
"""(entry, task) -> the statistics of an entry on a task, or None if there are no usable ones."""


def _find_nothing(entry: Entry, task: str) -> Sample | None:
    return None


def rank_suite(
    suite: Suite,
    entries: Sequence[Entry],
    tasks: Mapping[str, Task],
    metrics: Mapping[str, Metric] = METRICS,
    find_sample: FindSample = _find_nothing,
) -> Board:
    """Rank the entries that were scored for a suite."""
    scored = [entry for entry in entries if is_same_suite(entry.suite, suite)]
    others = tuple(entry for entry in scored if entry.tasks and entry.tasks.keys().isdisjoint(suite.tasks))
    own = [entry for entry in scored if entry not in others]
    board = Board(suite, suite_columns(suite, tasks, metrics, own), others=others)
    tables: list[Standings] = []
    for split in sorted(RANKED_SPLITS, key=lambda split: -_count_scored(own, split, suite)):
        pools = pool_entries([entry for entry in own if entry.split == split], board.public(split))
        tables += (_rank_pool(board, pool, split, find_sample) for pool in pools)
    return replace(board, tables=tuple(tables))


def _count_scored(entries: Sequence[Entry], split: str, suite: Suite) -> int:
    """Return how many tasks of a suite have a score on a split: the split with the most comes first."""
    results = [entry.tasks for entry in entries if entry.split == split]
    return sum(
        any(task in result and result[task].score is not None for result in results) for task in suite.tasks
    )


def _rank_pool(board: Board, pool: Pool, split: str, find_sample: FindSample) -> Standings:
    by_mark: dict[str, list[Row]] = {"": [], "baseline": [], "ceiling": [], "apart": []}
    for entry in sorted(pool.entries, key=lambda entry: _sort_key(board, entry)):
        row = _make_row(board, entry)
        by_mark["apart" if entry.apart else row.mark].append(row)
    tests = _test_rows(board, by_mark, pool.names, find_sample)
    if board.suite.total != "none":
        by_mark[""] = list(_with_ranks(by_mark[""], tests.total))
    heated = _with_heat(by_mark, board.columns)  # ceilings excluded: they would make every system look cold
    suite, is_whole = board.suite, len(pool.names) == len(board.columns)
    return Standings(
        id=f"{split}-{pool.id}" if suite == DECATHLON else f"{suite.name}-{split}-{pool.id}",
        split=split,
        heading=pool.heading,
        counted=len(pool.names),
        is_whole=is_whole,
        total_name="" if suite.total == "none" else suite.total_name if is_whole else "Total",
        total_unit=board.unit(len(pool.names)),
        rows=heated[""],
        floors=heated["baseline"],
        ceilings=heated["ceiling"],
        apart=tuple(by_mark["apart"]),
        data=pool.lines,
        notes=pool.notes,
        tests=tests,
    )


def _test_rows(
    board: Board, by_mark: Mapping[str, Sequence[Row]], names: Sequence[str], find_sample: FindSample
) -> Tests:
    """Test all pairs of rows, on each task and in total, from the same resamples."""
    systems = by_mark[""]
    rows = [*systems, *by_mark["baseline"], *by_mark["ceiling"]]
    flipped = {
        name: flip_signs([find_sample(row.entry, name) if _is_scored(row, name) else None for row in rows])
        for name in names
    }
    complete = [index for index, row in enumerate(systems) if row.value is not None]
    return Tests(
        total=compare_pairs([flipped[name] for name in names], board.suite.total, complete)
        if names and board.suite.total != "none"
        else None,
        tasks={
            name: compare_pairs(
                [flipped[name]], family=[index for index, row in enumerate(systems) if _is_scored(row, name)]
            )
            for name in names
        },
    )


def _is_scored(row: Row, task: str) -> bool:
    return any(cell.task == task and cell.value is not None for cell in row.cells)


def _sort_key(board: Board, entry: Entry) -> tuple[State, int, float, str, str]:
    names = board.public(entry.split)
    state, scores = _state(entry, names), _scores(entry, names)
    total = board.combine(scores)
    if state is State.COMPLETE:
        total = _total(board, entry) or 0.0
    return state, -len(scores), -total if board.higher_is_better else total, entry.name, entry.path


def _state(entry: Entry, names: Sequence[str]) -> State:
    scores = _scores(entry, names)
    if not scores:
        return State.PARTIAL if _limited(entry, names) else State.NOTHING
    if len(scores) == len(names):
        return State.COMPLETE
    failed = any(name in entry.tasks and entry.tasks[name].status == "failed" for name in names)
    return State.FAILED if failed else State.PARTIAL


def _scores(entry: Entry, names: Sequence[str]) -> list[float]:
    found = (entry.tasks[name].score for name in names if name in entry.tasks)
    return [score for score in found if score is not None]


def _limited(entry: Entry, names: Sequence[str]) -> list[str]:
    """Return the tasks of limited runs."""
    return [name for name in names if name in entry.tasks and entry.tasks[name].limited]


def _total(board: Board, entry: Entry) -> float | None:
    """Return the total of a complete result, or that of the public tasks if some are hidden."""
    names = board.public(entry.split)
    if board.suite.total == "none" or _state(entry, names) is not State.COMPLETE:
        return None
    return entry.total if len(names) == len(board.columns) else board.combine(_scores(entry, names))


def _make_row(board: Board, entry: Entry) -> Row:
    total, names = _total(board, entry), board.public(entry.split)
    interval = entry.interval if total is not None and len(names) == len(board.columns) else None
    predictor = entry.predictor.rpartition(":")[
        2
    ].casefold()  # `package.module:oracle` counts as the oracle too
    return Row(
        rank=None,
        entry=entry,
        state=_state(entry, names),
        total="" if total is None else board.show(total),
        cells=tuple(_make_cell(entry, column) for column in board.columns),
        remarks=tuple(_remarks(board, entry)),
        mark="ceiling" if predictor in CEILINGS else "baseline" if predictor in BASELINES else "",
        value=total,
        interval=interval,
        interval_text=board.show_interval(interval) if interval else "",
    )


def _make_cell(entry: Entry, column: Column) -> Cell:
    if entry.split in column.hidden:
        return Cell(column.name, "hidden", "", "labels not public")
    result = entry.tasks.get(column.name)
    if result is None:
        return Cell(column.name, "missing", "", "missing")
    interval = column.show_interval(result.interval) if result.interval else ""
    if result.any_score is None:
        return Cell(column.name, "failed", "", f"failed: {result.reason}")
    shown = column.show(result.any_score)
    if limited := result.limited:
        label = f"partial, {limited.answered:,} of {limited.of:,}"
        if result.check.kind != "verified":
            label = f"self-reported, {label}"
        return Cell(column.name, "limited", shown, label, interval, units=result.units)
    return Cell(column.name, "scored", shown, "", interval, result.score, result.units)


def _remarks(board: Board, entry: Entry) -> Iterator[str]:
    """Yield the sentences under a name."""
    names = board.public(entry.split)
    scores, whole = _scores(entry, names), len(names) == len(board.columns)
    tasks = f"{len(scores)} of {len(names)} {'tasks' if whole else 'public tasks'}"
    if not scores or (not whole and len(scores) == len(names)):
        yield tasks
    elif board.suite.total == "none":
        if len(scores) < len(names):
            yield tasks
    elif _total(board, entry) is None:
        total = board.show(board.combine(scores))
        unit = board.unit(len(scores))
        yield (
            f"{total} (mean of {tasks})"
            if board.suite.total == "mean"
            else f"{f'{total} {unit}'.strip()} ({tasks})"
        )
    there = [name for name in names if name in entry.tasks]
    if 0 < len(there) < len(names) / 2:
        yield f"only {', '.join(there)}"
    elif len(there) < len(names):
        yield f"missing: {', '.join(name for name in names if name not in there)}"
    if limited := _limited(entry, names):
        yield f"limited run, not in the total: {', '.join(limited)}"
    if entry.kind == "self-reported":
        by_detail: dict[str, list[str]] = {}
        for name in there:
            if entry.tasks[name].score is not None and entry.tasks[name].check.kind == "self-reported":
                by_detail.setdefault(entry.tasks[name].check.detail, []).append(name)
        for detail, unchecked in by_detail.items():
            tasks = "" if len(unchecked) == len(names) > 1 else f"{', '.join(unchecked)}: "
            yield f"self-reported: {tasks}{detail}"
    if entry.wording:
        yield f"not ranked: asked with other wording, variant {entry.wording} of the questions"
    if entry.is_raw:
        yield "not ranked: the whole output was scored, without extracting the answer"
    by_reason: dict[str, list[str]] = {}
    for name in there:
        if entry.tasks[name].status == "failed":
            by_reason.setdefault(entry.tasks[name].reason, []).append(name)
    yield from (f"failed: {', '.join(failed)} — {reason}" for reason, failed in by_reason.items())
    others = {name: entry.tasks[name] for name in sorted(entry.tasks.keys() - set(names))}
    beyond, unchecked = [], []
    for name, task in others.items():
        if task.score is not None and task.check.kind != "self-reported":
            weaker = f" ({task.check.kind})" if task.check.kind != entry.kind else ""
            beyond.append(f"{name} {task.score:.1f}{weaker}")
        elif task.score is not None:
            unchecked.append(name)
    if beyond:
        yield f"not counted here: {', '.join(beyond)}"
    if unchecked:  # a number that nobody checked has no place in a row that was checked
        yield f"not counted here, and not checked: {', '.join(unchecked)}"


def _with_ranks(rows: Sequence[Row], tests: PairTests | None) -> Iterator[Row]:
    """Yield the rows of systems, with rank and group for complete ones."""
    complete = [row for row in rows if row.value is not None]
    indexes = [index for index, row in enumerate(rows) if row.value is not None]
    places = assign_places([row.total for row in complete], tests, indexes)
    for row, place in zip(complete, places, strict=True):
        yield replace(
            row,
            rank=place.rank,
            group=place.group,
            ranks=place.ranks,
            versus=describe_place(place, [row.entry.name for row in complete]),
        )
    yield from (row for row in rows if row.value is None)


def describe_place(place: Place, names: Sequence[str]) -> str:
    """Return the comparison that decided a place, in words, given the names of all systems in order."""
    if place.versus is None:
        return ""
    name, p = names[place.versus.index], place.versus.p
    if p is None:
        return f"not tested against {name}: there are no statistics of the same units for both"
    given = "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
    verdict = "differs" if place.versus.differs else "no significant difference"
    return f"{verdict} from {name} (adjusted for all pairs, {given})"


def _with_heat(by_mark: Mapping[str, Sequence[Row]], columns: Sequence[Column]) -> dict[str, tuple[Row, ...]]:
    """Return rows whose cells are placed between the worst and the best of systems and floors."""
    ends: list[tuple[float, float] | None] = []
    for index, column in enumerate(columns):
        values = [row.cells[index].value for mark in ("", "baseline") for row in by_mark[mark]]
        found = sorted((value for value in values if value is not None), key=column.goodness)
        ends.append((found[0], found[-1]) if found else None)

    def heated(row: Row) -> Row:
        cells = []
        for cell, column, end in zip(row.cells, columns, ends, strict=True):
            known = cell.value is not None and end is not None
            cells.append(replace(cell, heat=column.heat(cell.value, *end)) if known else cell)  # type: ignore[arg-type, misc]
        return replace(row, cells=tuple(cells))

    return {mark: tuple(map(heated, rows)) for mark, rows in by_mark.items() if mark != "apart"}
