"""The ranking: checked results in, tables of rows out. Pure; nothing here reads, writes or formats a page.

The rules:

1. A table holds one split and one ground: the same data and the same metrics on every shared task (`groups`).
2. A result is complete when every task whose labels are public on that split is scored. On validation
   these are all ten and the total is the decaScore, as the results file has it. On test two tasks are
   hidden, so no decaScore exists: the total is the sum over the eight public tasks, and is called that.
3. Complete results are ranked by their total as displayed, one decimal. Those that do not differ significantly share a
   rank group, as do equals: 1, 1, 3 (`ranks`). Without a test only equals do.
4. Nothing else is ranked. Below the complete ones stand the partial ones, by the number of tasks scored,
   then by their sum; then those with a failed task, ordered alike; then those without any score. The score of a
   limited run on a task is shown with its count; it is in no sum.
5. A predictor that sees the answers (`oracle`) is a ceiling: it stands apart, last and unranked.
   A predictor that reads nothing much (`majority`, ...) is a floor: it stands apart likewise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from decabench.leaderboard.evidence import TaskEvidence
from decabench.leaderboard.groups import DataLine, Group, groups
from decabench.leaderboard.read import SPLITS, Entry, Limited
from decabench.scoring import holm, p_value, seeded_generator, swapped_differences

__all__ = [
    "BASELINES",
    "CEILINGS",
    "LEVEL",
    "Cell",
    "Place",
    "Row",
    "State",
    "Table",
    "TaskColumn",
    "Tested",
    "Versus",
    "board",
    "places",
]

# ---- ranks

LEVEL = 0.05
"""Of significance, two-sided."""

_WALKS = 20


@dataclass(frozen=True)
class Versus:
    """A system against the first of the group that it was compared with."""

    head: int
    """Which system that is, by place in the order."""
    p: float | None
    """Corrected; None where it could not be tested."""


@dataclass(frozen=True)
class Place:
    """Where a system stands."""

    rank: int
    """1, 1, 3: of the group's first system."""
    group: int
    """From 1."""
    versus: Versus | None
    """None for the first of all, and for equals as displayed."""


Compare = Callable[[int, int], float | None]
"""(first, second) -> uncorrected p of the difference of their totals."""


def places(totals: Sequence[str], compare: Compare) -> list[Place]:
    """The places of systems in order of their displayed totals."""
    known: dict[tuple[int, int], float | None] = {}

    def once(head: int, other: int) -> float | None:
        if (head, other) not in known:
            known[head, other] = compare(head, other)
        return known[head, other]

    strict = max(1, len(totals) - 1)
    first = _walk(totals, lambda head, other: _times(once(head, other), strict))
    walked = first
    for _ in range(_WALKS):
        made = _comparisons(walked, once)
        corrected = holm({f"{head} {other}": p for (head, other), p in made.items() if p is not None})
        again = _walk(totals, lambda head, other: _corrected(head, other, corrected, once, strict))  # noqa: B023
        if _comparisons(again, once).keys() == made.keys() and _groups(again) == _groups(walked):
            return again
        walked = again
    return first


def _walk(totals: Sequence[str], p_value: Compare) -> list[Place]:
    placed: list[Place] = []
    head = 0
    for index, total in enumerate(totals):
        if index == 0:
            placed.append(Place(1, 1, None))
            continue
        if total == totals[head]:
            placed.append(Place(head + 1, placed[-1].group, None))
            continue
        p = p_value(head, index)
        versus, is_new = Versus(head, p), p is None or p < LEVEL
        if is_new and total == totals[index - 1]:
            placed.append(Place(placed[-1].rank, placed[-1].group, versus))
            continue
        head = index if is_new else head
        placed.append(Place(head + 1, placed[-1].group + is_new, versus))
    return placed


def _comparisons(placed: Sequence[Place], once: Compare) -> dict[tuple[int, int], float | None]:
    pairs = [(place.versus.head, index) for index, place in enumerate(placed) if place.versus is not None]
    return {pair: once(*pair) for pair in pairs}


def _corrected(
    head: int, other: int, corrected: dict[str, float], once: Compare, strict: int
) -> float | None:
    known = corrected.get(f"{head} {other}")
    return known if known is not None else _times(once(head, other), strict)


def _times(p: float | None, count: int) -> float | None:
    return None if p is None else min(1.0, p * count)


def _groups(placed: Sequence[Place]) -> list[int]:
    return [place.group for place in placed]


# ---- shuffles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["SHUFFLES", "Shuffles"]

SHUFFLES = 2_000
"""Of the test between two totals."""

CLEAR, NEAR = 6.0, 1.0
"""Standard errors beyond which, and below which, the normal answer stands without a shuffle."""

_TIE = 1e-4
"""Points that sums in single precision may miss: what is as near as this to the observed difference equals it."""

_CELLS = 4_000_000
"""Coins that are numbers at one time; they take four bytes each."""


class Shuffles:
    """Tests pairs of systems; equal input gives equal p."""

    def __init__(self, shuffles: int = SHUFFLES, seed: int = 0) -> None:
        self._shuffles = shuffles
        self._seed = seed
        self._coins: dict[tuple[str, int], Array] = {}

    def p_of_total(
        self, first: Sequence[TaskEvidence | None], second: Sequence[TaskEvidence | None]
    ) -> float | None:
        """Two-sided p of the difference of two totals; None where a task has no statistics for both."""
        import numpy as np

        pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
        if not pairs or len(pairs) < len(first) or not all(_are_paired(a, b) for a, b in pairs):
            return None
        difference = sum(b.sample.score - a.sample.score for a, b in pairs)
        error = _error(pairs)
        if error:
            distance = abs(difference) / error
            if distance > CLEAR:
                return 1 / (self._shuffles + 1)  # the lowest that shuffles could give
            if distance < NEAR:
                return 2 * NormalDist().cdf(-distance)
        samples = [(a.sample, b.sample) for a, b in pairs]
        shuffled: Array = np.sum(
            [swapped_differences(a, b, self._coins_of(a.name, len(a.rows))) for a, b in samples], axis=0
        )
        return p_value(shuffled, difference, _TIE)

    def _coins_of(self, name: str, groups: int) -> Iterator[Array]:
        """Blocks of (shuffles, groups) zeros and ones, the same for all pairs."""
        import numpy as np

        if (name, groups) not in self._coins:
            shape = (self._shuffles, (groups + 7) // 8)
            self._coins[name, groups] = seeded_generator(self._seed, name).integers(0, 256, shape, np.uint8)
        coins = self._coins[name, groups]
        step = max(1, _CELLS // groups)
        for start in range(0, self._shuffles, step):
            yield np.unpackbits(coins[start : start + step], axis=1)[:, :groups].astype(np.float32)


def _are_paired(a: TaskEvidence, b: TaskEvidence) -> bool:
    return a.sample.metric.name == b.sample.metric.name and a.sample.rows.shape == b.sample.rows.shape


def _error(pairs: Sequence[tuple[TaskEvidence, TaskEvidence]]) -> float | None:
    """The standard error of the difference of totals; None where a task has too few groups for one."""
    if not all(a.has_errors for a, _ in pairs):
        return None
    return math.sqrt(sum(float(((b.influence - a.influence) ** 2).sum()) for a, b in pairs))


# ---- board

BASELINES = frozenset({"majority", "first-choice", "copy-context", "lead-3", "random"})
"""Predictors that mark the floor."""

_LEAST_SPAN = 10.0
"""Points that the whole tint stands for at least: a tenth of a point must not look like a world."""

CEILINGS = frozenset({"oracle"})
"""Predictors that see the answers."""


@dataclass(frozen=True)
class TaskColumn:
    """A task as the board shows it."""

    name: str
    """`squad`."""
    title: str
    """`Question answering`."""
    metric: str
    """Its headline metric: `nf1`."""
    hidden: tuple[str, ...] = ()
    """Splits whose labels are not public."""


class State(IntEnum):
    """How much of a result there is; the order of the rows."""

    COMPLETE = 0
    PARTIAL = 1
    FAILED = 2
    """Some tasks are scored, and at least one failed."""
    NOTHING = 3
    """No task is scored."""


@dataclass(frozen=True)
class Cell:
    """A score, or the reason why there is none."""

    task: str
    """The column."""
    status: str
    """`scored`, `limited`, `missing`, `failed` or `hidden`."""
    text: str
    """The score with one decimal; empty where there is none."""
    label: str
    """What to say where there is no score, and of a limited run with its score."""
    interval: str = ""
    """`48.1–51.9`; empty where none is known."""
    value: float | None = None
    """The score; None for that of a limited run, which is compared with nothing."""
    heat: int | None = None
    """0-8: where the score stands between the lowest and the highest of the table; None beyond, or without spread."""


@dataclass(frozen=True)
class Row:
    """A line of a table."""

    rank: int | None
    """None: not ranked."""
    entry: Entry
    """The submission."""
    state: State
    """Decides where it stands."""
    total: str
    """The displayed total; empty unless complete."""
    cells: tuple[Cell, ...]
    """One a task."""
    why: tuple[str, ...]
    """What keeps it from a rank, and what else must be said."""
    mark: str
    """`baseline`, `ceiling` or nothing."""
    value: float | None = None
    """The total; None unless complete."""
    interval: tuple[float, float] | None = None
    """Of the total."""
    group: int | None = None
    """Its rank group, from 1."""
    versus: str = ""
    """How it compares with the first of the group before."""


@dataclass(frozen=True)
class Table:
    """Rows that may be compared."""

    id: str
    """Names the split, data and metrics."""
    split: str
    """`validation` or `test`."""
    heading: str
    """What data this is."""
    counted: int
    """Tasks that make a complete result."""
    has_decascore: bool
    """Whether the total is a decaScore."""
    rows: tuple[Row, ...]
    """The systems."""
    floors: tuple[Row, ...]
    """Baselines: apart, unranked."""
    ceilings: tuple[Row, ...]
    """Apart, unranked."""
    data: tuple[DataLine, ...]
    """What the scores stand on."""
    notes: tuple[tuple[str, tuple[str, ...]], ...]
    """(what there is to say about the data, the tasks it is said of)."""


Tested = Callable[[Entry, Entry, Sequence[str]], float | None]
"""(first, second, tasks) -> p of the difference of their totals over the tasks, or None where it cannot be tested."""


def _untested(first: Entry, second: Entry, names: Sequence[str]) -> float | None:
    return None


def board(
    entries: Sequence[Entry], tasks: Sequence[TaskColumn], tested: Tested = _untested
) -> tuple[Table, ...]:
    """The tables, in the order of the page."""
    tables: list[Table] = []
    for split in SPLITS:
        names = [task.name for task in tasks if split not in task.hidden]
        of_split = [entry for entry in entries if entry.split == split]
        tables += (_table(group, split, tasks, tested) for group in groups(of_split, names))
    return tuple(tables)


def _table(group: Group, split: str, tasks: Sequence[TaskColumn], tested: Tested) -> Table:
    entries = sorted(group.entries, key=lambda entry: _order(entry, group.names))
    by_mark: dict[str, list[Entry]] = {"": [], "baseline": [], "ceiling": []}
    for entry in entries:
        by_mark[_mark(entry.predictor)].append(entry)
    heats = Heats.of([*by_mark[""], *by_mark["baseline"]], group.names)
    ranked = _placed(by_mark[""], group.names, tested)

    def rows(mark: str) -> tuple[Row, ...]:
        return tuple(_row(entry, split, tasks, heats) for entry in by_mark[mark])

    return Table(
        id=f"{split}-{group.id}",
        split=split,
        heading=group.heading,
        counted=len(group.names),
        has_decascore=len(group.names) == len(tasks),
        rows=tuple(replace(row, **ranked.get(row.entry.path, {})) for row in rows("")),
        floors=rows("baseline"),
        ceilings=rows("ceiling"),
        data=group.lines,
        notes=group.notes,
    )


def _placed(systems: Sequence[Entry], names: Sequence[str], tested: Tested) -> dict[str, dict[str, Any]]:
    """What rows of complete systems say about their place, by path."""
    complete = [entry for entry in systems if _total(entry, names) is not None]
    totals = [_displayed_total(entry, names) for entry in complete]
    found = places(totals, lambda head, other: tested(complete[head], complete[other], names))
    return {
        entry.path: {"rank": place.rank, "group": place.group, "versus": _versus(place, complete)}
        for entry, place in zip(complete, found, strict=True)
    }


def _versus(place: Place, systems: Sequence[Entry]) -> str:
    if place.versus is None:
        return ""
    name, p = systems[place.versus.head].name, place.versus.p
    if p is None:
        return f"not tested against {name}: no statistics beside the results"
    given = "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
    return f"{'differs' if p < LEVEL else 'no significant difference'} from {name} ({given})"


@dataclass(frozen=True)
class Heats:
    """The span of every column."""

    spans: Mapping[str, tuple[float, float]]
    """Task to its lowest and highest score."""

    @classmethod
    def of(cls, entries: Sequence[Entry], names: Sequence[str]) -> Heats:
        """Over systems and floors; a ceiling would make every system look cold."""
        spans = {}
        for name in names:
            scores = [entry.tasks[name].score for entry in entries if name in entry.tasks]
            found = [score for score in scores if score is not None]
            if found:
                spans[name] = (min(found), max(found))
        return cls(spans)

    def heat(self, task: str, score: float) -> int | None:
        """0 for the lowest, 8 for the highest."""
        low, high = self.spans.get(task, (0.0, 0.0))
        if high - low < 0.05 or not low <= score <= high:
            return None
        return round(8 * (score - low) / max(high - low, _LEAST_SPAN))


def _order(entry: Entry, names: Sequence[str]) -> tuple[State, int, float, str, str]:
    state, scores = _state(entry, names), _scores(entry, names)
    # Equals as displayed stand by name: digits that nobody sees decide nothing.
    total = float(_displayed_total(entry, names)) if state is State.COMPLETE else math.fsum(scores)
    return state, -len(scores), -total, entry.name, entry.path


def _state(entry: Entry, names: Sequence[str]) -> State:
    scores = _scores(entry, names)
    if not scores:
        return State.PARTIAL if _limited(entry, names) else State.NOTHING
    if len(scores) == len(names):
        return State.COMPLETE if _total(entry, names) is not None else State.PARTIAL
    failed = any(name in entry.tasks and entry.tasks[name].status == "failed" for name in names)
    return State.FAILED if failed else State.PARTIAL


def _limited(entry: Entry, names: Sequence[str]) -> dict[str, Limited]:
    """The tasks of limited runs."""
    found = {name: entry.tasks[name].limited for name in names if name in entry.tasks}
    return {name: limited for name, limited in found.items() if limited is not None}


def _total(entry: Entry, names: Sequence[str]) -> float | None:
    """What a complete result is ranked by: on validation the decaScore that its file claims, if it does. Scores of raw
    texts are no second entry of the same submission."""
    scores = _scores(entry, names)
    if len(scores) != len(names) or entry.is_raw:
        return None
    return entry.decascore if entry.split == "validation" else math.fsum(scores)


def _displayed_total(entry: Entry, names: Sequence[str]) -> str:
    total = _total(entry, names)
    return "" if total is None else f"{total:.1f}"


def _scores(entry: Entry, names: Sequence[str]) -> list[float]:
    found = (entry.tasks[name].score for name in names if name in entry.tasks)
    return [score for score in found if score is not None]


def _row(entry: Entry, split: str, tasks: Sequence[TaskColumn], heats: Heats) -> Row:
    names = [task.name for task in tasks if split not in task.hidden]
    total = _total(entry, names)
    return Row(
        rank=None,
        entry=entry,
        state=_state(entry, names),
        total=_displayed_total(entry, names),
        cells=tuple(_cell(entry, task, heats) for task in tasks),
        why=_why(entry, names),
        mark=_mark(entry.predictor),
        value=total,
        interval=entry.interval if split == "validation" and total is not None else None,
    )


def _cell(entry: Entry, task: TaskColumn, heats: Heats) -> Cell:
    if entry.split in task.hidden:
        return Cell(task.name, "hidden", "", "labels not public")
    result = entry.tasks.get(task.name)
    if result is None:
        return Cell(task.name, "missing", "", "missing")
    interval = f"{result.interval[0]:.1f}–{result.interval[1]:.1f}" if result.interval else ""
    if limited := result.limited:
        label = f"partial, {limited.answered:,} of {limited.of:,}"
        return Cell(task.name, "limited", f"{limited.score:.1f}", label, interval)
    if result.score is None:
        return Cell(task.name, "failed", "", f"failed: {result.reason}")
    heat = heats.heat(task.name, result.score)
    return Cell(task.name, "scored", f"{result.score:.1f}", "", interval, result.score, heat)


def _why(entry: Entry, names: Sequence[str]) -> tuple[str, ...]:
    """The sentences under a name."""
    scores = _scores(entry, names)
    public = "tasks" if entry.split == "validation" else "public tasks"
    lines = []
    if not scores:
        lines.append(f"0 of {len(names)} {public}")
    elif _total(entry, names) is None:
        lines.append(
            f"{math.fsum(scores):.1f} of {100 * len(scores)} ({len(scores)} of {len(names)} {public})"
        )
    elif entry.split != "validation":
        lines.append(f"{len(names)} of {len(names)} {public}")
    if len(scores) == len(names) and _total(entry, names) is None and not entry.is_raw:
        lines.append("its results file claims no decaScore")
    there = [name for name in names if name in entry.tasks]
    if 0 < len(there) < len(names) / 2:  # a row says in few words what it is of
        lines.append(f"only {', '.join(there)}")
    elif len(there) < len(names):
        lines.append(f"missing: {', '.join(name for name in names if name not in there)}")
    if limited := _limited(entry, names):
        lines.append(f"of a limited run, in no sum: {', '.join(limited)}")
    if entry.wording:
        lines.append(f"asked in other words: variant {entry.wording} of the questions")
    if entry.is_raw:
        lines.append("scored as the model said it, with no answer extracted: not ranked")
    lines += (f"failed: {', '.join(failed)} — {reason}" for reason, failed in _failures(entry, names).items())
    others = sorted(set(entry.tasks) - set(names))
    beyond = [
        f"{name} {entry.tasks[name].score:.1f}" for name in others if entry.tasks[name].score is not None
    ]
    if beyond:
        lines.append(f"not counted here: {', '.join(beyond)}")
    return tuple(lines)


def _failures(entry: Entry, names: Sequence[str]) -> dict[str, list[str]]:
    """The failed tasks by reason."""
    by_reason: dict[str, list[str]] = {}
    for name in names:
        if name in entry.tasks and entry.tasks[name].status == "failed":
            by_reason.setdefault(entry.tasks[name].reason, []).append(name)
    return by_reason


def _mark(predictor: str) -> str:
    """`package.module:oracle` is the oracle too."""
    name = predictor.rpartition(":")[2].casefold()
    if name in CEILINGS:
        return "ceiling"
    return "baseline" if name in BASELINES else ""
