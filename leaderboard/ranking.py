"""Rank the entries of a suite.

The rules:

1. A table contains the results of one suite on one split, with the same data and the same metric for each task.
2. A result is complete if every task of the suite with public labels on that split is scored. If the labels of some
   tasks are hidden, the total is the sum or mean over the public tasks, and is called `Total` instead of, for example,
   `decaScore`.
3. Complete results are ranked by their total. Results that do not differ significantly share a rank (1, 1, 3). Results
   that can't be tested, because they have no statistics on the same units, also share a rank.
4. Only verified scores are ranked, unless `rank_reported` is set. Even then, results with reported scores on hidden
   labels are not ranked. Unranked reported results, and results on other data or for other wordings of the questions,
   are listed separately at the end of their table.
5. Incomplete results are not ranked. Partial results follow the complete results, sorted by the number of scored tasks
   and then by their partial total. After them come results with a failed task, in the same order, and then results
   without any score. The score of a limited run is shown with the number of examples answered and is not part of any
   total.
6. A predictor that sees the answers (`oracle`) is a ceiling, and a simple rule (`majority`, ...) is a floor. Both are
   listed separately, without a rank.
7. A suite without a total has no ranks. Its complete results are sorted by name.
8. Runs of one system that differ only in their seeds share one row with their mean scores. The row is ranked and tested
   as one system. The runs are listed below it and have no ranks.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decabench.leaderboard.entries import (
    RANKED_SPLITS,
    Board,
    Cell,
    Column,
    DataLine,
    Entry,
    Place,
    Row,
    Standings,
    State,
    Tests,
    names_by_reason,
    runs_of,
)
from decabench.metrics import METRICS, Metric
from decabench.scoring import PairTests, TaskResult, compare_pairs, flip_signs, show_units
from decabench.tasks import DECATHLON, Suite, Task

Array = NDArray[Any]

BASELINES = frozenset({"majority", "most-frequent-tag", "first-choice", "copy-context", "lead-3", "random"})
"""Predictors listed as floors."""

CEILINGS = frozenset({"oracle"})
"""Predictors that see the answers, listed as ceilings."""


def suite_columns(
    suite: Suite, tasks: Mapping[str, Task], metrics: Mapping[str, Metric], entries: Sequence[Entry]
) -> tuple[Column, ...]:
    """Return the columns of a suite. For an unknown task, the metric is taken from the results."""
    columns = []
    for name in suite.tasks:
        task = tasks.get(name)
        scored = (entry.tasks[name].metric for entry in entries if name in entry.tasks)
        metric_name = task.metric if task else next(scored, "")
        metric = metrics.get(metric_name)
        ends = metric.range if metric else (-math.inf, math.inf)
        title, hidden = (task.title, task.hidden) if task else (name, ())
        columns.append(Column(name, title, metric_name, hidden, *ends, not metric or metric.higher_is_better))
    return tuple(columns)


def rank_suite(
    suite: Suite,
    entries: Sequence[Entry],
    tasks: Mapping[str, Task],
    metrics: Mapping[str, Metric] = METRICS,
    intervals: bool = True,
) -> Board:
    """Rank the entries of a suite. If `intervals` is false, pairs have neither intervals nor unadjusted p-values."""
    own = [entry for entry in entries if entry.suite == suite]
    board = Board(suite, suite_columns(suite, tasks, metrics, own))
    by_split = {split: [entry for entry in own if entry.split == split] for split in RANKED_SPLITS}

    def count_scored(split: str) -> int:
        return sum(any(entry.score(task) is not None for entry in by_split[split]) for task in suite.tasks)

    splits = sorted(filter(by_split.get, RANKED_SPLITS), key=count_scored, reverse=True)
    return replace(board, tables=tuple(_rank(board, by_split[split], split, intervals) for split in splits))


def _rank(board: Board, entries: Sequence[Entry], split: str, intervals: bool) -> Standings:
    names = board.public(split)
    single = [run for entry in entries for run in entry.runs or (entry,)]
    ground = _find_ground(single, names)
    keyed = []
    for entry in entries:
        if entry.runs and _is_on(entry, ground):
            key, row = _make_row(board, entry, names)
            keyed.append((key, _with_runs(board, row, names)))
            continue
        for run in entry.runs or (entry,):
            if not run.apart and not _is_on(run, ground):
                run = replace(run, apart="other data", remarks=(*run.remarks, _OTHER_DATA))
            keyed.append(_make_row(board, run, names))
    by_mark: dict[str, list[Row]] = {"": [], "baseline": [], "ceiling": [], "apart": []}
    for _, row in sorted(keyed, key=lambda each: each[0]):
        by_mark["apart" if row.entry.apart else row.mark].append(row)
    tests = _test_rows(board, by_mark, names, intervals)
    if board.suite.total != "none":
        by_mark[""] = list(_with_ranks(by_mark[""], tests.total))
    suite, is_whole = board.suite, len(names) == len(board.columns)
    lines = tuple(_describe_data(name, ground[name], single) for name in names if name in ground)
    digits = hashlib.sha256(
        "".join("\t".join((name, *map(str, ground[name]))) + "\n" for name in sorted(ground)).encode()
    ).hexdigest()[:8]
    return Standings(
        id=f"{split}-{digits}" if suite == DECATHLON else f"{suite.name}-{split}-{digits}",
        split=split,
        heading=_heading(lines),
        counted=len(names),
        is_whole=is_whole,
        total_name="" if suite.total == "none" else suite.total_name if is_whole else "Total",
        total_unit=board.unit(len(names)),
        rows=tuple(by_mark[""]),
        floors=tuple(by_mark["baseline"]),
        ceilings=tuple(by_mark["ceiling"]),
        apart=tuple(by_mark["apart"]),
        data=lines,
        tests=tests,
    )


# The data and metrics of a table

Ground = tuple[str, str, int]
"""(data fingerprint, metric signature, number of examples). Scores are comparable if these are equal."""

_ORIGINS = {
    "upstream": "upstream files",
    "mirror": "mirror",
    "user": "the submitter's own data",
    "sample": "bundled sample",
}

_MATCH, _NO_CHECKSUMS = "published checksums match", "no published checksums"
_OTHER_DATA = "not ranked: scored on different data or with a different metric"


def _ground(result: TaskResult) -> Ground:
    return result.data.fingerprint, result.signatures.get(result.metric, result.signature), result.data.rows


def _find_ground(entries: Sequence[Entry], names: Sequence[str]) -> dict[str, Ground]:
    # Prefer data with verified results, then data with results that are not listed separately, then the most
    # common data.
    found = {}
    for name in names:
        results = [entry for entry in entries if name in entry.tasks and entry.tasks[name].data.fingerprint]
        grounds = Counter(
            (entry.evidence[name].kind == "verified", not entry.apart, _ground(entry.tasks[name]))
            for entry in results
        )
        if grounds:
            found[name] = max(grounds, key=lambda each: (*each[:2], grounds[each], each[2]))[2]
    return found


def _is_on(entry: Entry, ground: Mapping[str, Ground]) -> bool:
    return all(
        _ground(task) == ground[name]
        for name, task in entry.tasks.items()
        if name in ground and task.data.fingerprint
    )


def _describe_data(name: str, ground: Ground, entries: Sequence[Entry]) -> DataLine:
    on_it = [entry for entry in entries if name in entry.tasks and _ground(entry.tasks[name]) == ground]
    entry = next((each for each in on_it if each.evidence[name].kind == "verified"), on_it[0])
    data, is_here = entry.tasks[name].data, entry.evidence[name].kind == "verified"
    published = data.published_count or 0
    known = "" if data.origin == "sample" else _MATCH if data.verified else _NO_CHECKSUMS
    return DataLine(
        task=name,
        origin=_ORIGINS.get(data.origin, "unknown origin"),
        known=known if is_here else "as stated by the submitters",
        count=f"{data.rows:,} of {published:,}" if published else f"{data.rows:,}",
        is_subset=data.rows < published,
        fingerprint=ground[0],
        signature=ground[1],
        note=data.note if is_here else "",
    )


def _heading(lines: Sequence[DataLine]) -> str:
    """Say where a board's data came from, for example `Mirror; published checksums match for 4 of 10 tasks`."""
    origins = Counter(line.origin for line in lines).most_common()
    known = Counter(line.known for line in lines if line.known)
    if known[_MATCH]:
        del known[_NO_CHECKSUMS]  # follows from the other count
    text = " and ".join(f"{origin} ({count})" if len(origins) > 1 else origin for origin, count in origins)
    said = [
        note if count == len(lines) else f"{note} for {count} of {len(lines)} tasks"
        for note, count in known.most_common()
    ]
    text = "; ".join(filter(None, [text or "no data", " and ".join(said)]))
    return f"{text[0].upper()}{text[1:]}"


# Rows


def _test_rows(
    board: Board, by_mark: Mapping[str, Sequence[Row]], names: Sequence[str], intervals: bool
) -> Tests:
    systems = by_mark[""]
    rows = [*systems, *by_mark["baseline"], *by_mark["ceiling"]]
    rows += runs_of(rows)
    nothing = flip_signs([None] * len(rows))
    untested = compare_pairs([nothing], family=[])  # shared, because every PairTests has arrays of all pairs
    samples = {name: [row.entry.sample(name) for row in rows] for name in names}
    flipped = {name: flip_signs(found) if any(found) else nothing for name, found in samples.items()}
    complete = [index for index, row in enumerate(systems) if row.value is not None]
    total = None
    if names and board.suite.total != "none":
        total = compare_pairs([flipped[name] for name in names], board.suite.total, complete, intervals)
    tests = {}
    for name in names:
        family = [index for index, row in enumerate(systems) if row.entry.score(name) is not None]
        task = flipped.pop(name)  # frees its resamples, which take most of the memory of a large board
        tests[name] = untested if task is nothing else compare_pairs([task], "sum", family, intervals)
    return Tests(total, tests)


def _make_row(board: Board, entry: Entry, names: Sequence[str]) -> tuple[tuple[Any, ...], Row]:
    """Return an entry's sort key and its row. `names` are the tasks with public labels."""
    scores = [score for name in names if (score := entry.score(name)) is not None]
    statuses = {entry.tasks[name].status for name in names if name in entry.tasks}
    if not scores:
        state = State.PARTIAL if "partial" in statuses else State.NOTHING
    elif len(scores) == len(names):
        state = State.COMPLETE
    else:
        state = State.FAILED if "failed" in statuses else State.PARTIAL
    is_whole, total = len(names) == len(board.columns), None
    if board.suite.total != "none" and state is State.COMPLETE:
        total = entry.total if is_whole else board.combine(scores)
    interval = entry.interval if total is not None and is_whole else None
    predictor = entry.predictor.rpartition(":")[2].casefold()  # also for `package.module:oracle`
    row = Row(
        entry=entry,
        state=state,
        total="" if total is None else board.show(total),
        cells=tuple(_make_cell(entry, column) for column in board.columns),
        remarks=tuple(_remarks(board, entry, names, scores, total)),
        mark="ceiling" if predictor in CEILINGS else "baseline" if predictor in BASELINES else "",
        value=total,
        interval=interval,
        interval_text=board.show_interval(interval) if interval else "",
    )
    sum_ = board.combine(scores) if total is None else total
    return (state, -len(scores), -sum_ if board.higher_is_better else sum_, entry.name, entry.path), row


def _with_runs(board: Board, row: Row, names: Sequence[str]) -> Row:
    runs = tuple(_make_row(board, run, names)[1] for run in row.entry.runs)
    cells = tuple(
        replace(cell, deviation=_deviation(each))
        for cell, *each in zip(row.cells, *(run.cells for run in runs), strict=True)
    )
    return replace(row, runs=runs, cells=cells, deviation=_deviation(runs))


def _deviation(found: Sequence[Row | Cell]) -> float | None:
    values = [each.value for each in found if each.value is not None]
    return stdev(values) if len(values) == len(found) else None


def _make_cell(entry: Entry, column: Column) -> Cell:
    if entry.split in column.hidden:
        return Cell(column.name, "hidden", "", "labels not public")
    result = entry.tasks.get(column.name)
    if result is None:
        return Cell(column.name, "missing", "", "missing")
    if result.score is None:
        return Cell(column.name, "failed", "", f"failed: {result.reason or 'no reason given'}")
    shown = column.show(result.score)
    interval = column.show_interval(result.interval) if result.interval else ""
    units = show_units(result.units)
    if run := result.partial:
        label = f"partial, {run.answered:,} of {run.of:,}"
        if entry.evidence[column.name].kind == "reported":
            label = f"reported, {label}"
        return Cell(column.name, "limited", shown, label, interval, units=units)
    return Cell(column.name, "scored", shown, "", interval, result.score, units)


def _remarks(
    board: Board, entry: Entry, names: Sequence[str], scores: Sequence[float], total: float | None
) -> Iterator[str]:
    is_whole, is_complete = len(names) == len(board.columns), len(scores) == len(names)
    tasks = f"{len(scores)} of {len(names)} {'tasks' if is_whole else 'public tasks'}"
    if not scores or (is_complete and not is_whole):
        yield tasks
    elif board.suite.total == "none":
        if not is_complete:
            yield tasks
    elif total is None:
        shown = board.show(board.combine(scores))
        yield (
            f"{shown} (mean of {tasks})"
            if board.suite.total == "mean"
            else f"{f'{shown} {board.unit(len(scores))}'.strip()} ({tasks})"
        )
    there = [name for name in names if name in entry.tasks]
    if 0 < len(there) < len(names) / 2:
        yield f"only {', '.join(there)}"
    elif len(there) < len(names):
        yield f"missing: {', '.join(name for name in names if name not in there)}"
    if limited := [name for name in there if entry.tasks[name].status == "partial"]:
        yield f"limited run, not in the total: {', '.join(limited)}"
    if entry.kind == "reported":
        stated = (
            (name, entry.evidence[name].why) for name in there if entry.evidence[name].kind == "reported"
        )
        for reason, reported in names_by_reason(stated).items():
            listed = "" if len(reported) == len(names) else f"{', '.join(reported)}: "
            yield f"reported: {listed}{reason}"
    if entry.wording:
        yield f"not ranked: answers to a different wording (variant {entry.wording})"
    if entry.apart == "whole output":
        yield "not ranked: the whole output was scored, without extracting the answer"
    failures = ((name, entry.tasks[name].reason) for name in there if entry.tasks[name].status == "failed")
    for reason, failed in names_by_reason(failures).items():
        yield f"failed: {', '.join(failed)} — {reason or 'no reason given'}"
    yield from entry.remarks


def _with_ranks(rows: Sequence[Row], tests: PairTests | None) -> Iterator[Row]:
    complete = [row for row in rows if row.value is not None]
    indexes = [index for index, row in enumerate(rows) if row.value is not None]
    names = [row.entry.name for row in complete]
    places = assign_places([row.total for row in complete], names, tests, indexes)
    yield from (replace(row, place=place) for row, place in zip(complete, places, strict=True))
    yield from (row for row in rows if row.value is None)


# Places


def assign_places(
    shown: Sequence[str], names: Sequence[str], tests: PairTests | None, indexes: Sequence[int] = ()
) -> list[Place]:
    """Return the places of systems, which must be sorted by score, best first.

    From the top down, a system starts a new group if it differs significantly from any system in the
    current group. Two systems in the same group never differ significantly. Systems that can't be tested
    are treated as not different.

    Args:
        shown: The formatted scores.
        names: The names of the systems.
        tests: The tests of all pairs. Without tests, all systems share a rank.
        indexes: The index of each system in `tests`, by default its position.
    """
    count = len(shown)
    number = np.ix_(*2 * [list(indexes) or list(range(count))])
    differ = np.zeros((count, count), dtype=bool)
    p = np.full((count, count), math.nan)
    if tests is not None and count:
        differ, p = tests.significant[number] & tests.tested[number], tests.adjusted[number]
    better, worse = np.triu(differ).sum(axis=0).tolist(), np.triu(differ).sum(axis=1).tolist()

    placed: list[Place] = []
    head, group = 0, 1
    for start, end in _runs(shown, differ):
        above = start  # the first system of the group above, if this run starts a new group
        if differ[head:start, start:end].any():
            above, head, group = head, start, group + 1
        for index in range(start, end):
            deciding = (above + np.flatnonzero(differ[above:start, index])).tolist()
            if not deciding and index > head:
                deciding = [head]
            one = min(
                deciding, key=lambda one: 2.0 if math.isnan(p[one, index]) else p[one, index], default=None
            )
            versus = "" if one is None else _describe_test(names[one], p[one, index], differ[one, index])
            placed.append(Place(head + 1, group, 1 + better[index], count - worse[index], versus))
    return placed


def _describe_test(name: str, p: float, differs: bool) -> str:
    if math.isnan(p):
        return f"not tested against {name}: there are no statistics on the same units"
    given = "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
    verdict = "differs" if differs else "no significant difference"
    return f"{verdict} from {name} (adjusted for all pairs, {given})"


def _runs(shown: Sequence[str], differ: Array) -> list[tuple[int, int]]:
    # Return (start, end) of each run of systems with equal formatted scores and no significant difference.
    runs: list[tuple[int, int]] = []
    for index, score in enumerate(shown):
        start = runs[-1][0] if runs else 0
        if runs and score == shown[start] and not differ[start:index, index].any():
            runs[-1] = (start, index + 1)
        else:
            runs.append((index, index + 1))
    return runs
