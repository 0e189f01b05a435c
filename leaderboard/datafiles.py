"""The data behind the pages: scripts that pages load on demand, and each board as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from decabench.leaderboard.entries import Refusal
from decabench.leaderboard.excerpts import Excerpts
from decabench.leaderboard.ranking import find_verdicts
from decabench.leaderboard.standings import Board, Column, Row, Standings
from decabench.scoring import PairTests, hidden_decimals, show_units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = [
    "board_csv",
    "board_json",
    "compare_data",
    "count_scores",
    "excerpt_data",
    "make_script",
    "score_edges",
    "task_data",
]

FORMAT = "decabench.board/2"

Hides = Callable[[str, str], bool]
"""(task, split) -> whether its labels are hidden and here, so that nothing about an example may be published."""

_BINS = 10
"""The number of bins of a distribution of scores."""


def make_script(name: str, value: object) -> bytes:
    """Return a script that registers a value under a name, because browsers do not fetch JSON from `file://`."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return f"decabench.put({_literal(name)},{_literal(text)});\n".encode("ascii")


def _literal(text: str) -> str:
    """Quote a text as a JavaScript string literal."""
    return json.dumps(text, ensure_ascii=True).replace("<", "\\u003c").replace(">", "\\u003e")


def excerpt_data(excerpts: Mapping[str, Excerpts]) -> dict[str, Any]:
    """Return the examples of a submission, by task."""
    return {task: {"examples": list(found.shown), "why": found.why} for task, found in excerpts.items()}


# The comparison of two submissions


def compare_data(boards: Sequence[Board], pages: Mapping[str, str], hides: Hides) -> dict[str, Any]:
    """Return every table of every suite, with its rows and the tests of all differences."""
    return {"tables": [_compared(board, table, pages, hides) for board in boards for table in board.tables]}


def _compared(board: Board, table: Standings, pages: Mapping[str, str], hides: Hides) -> dict[str, Any]:
    rows = table.compared_rows
    hidden = {
        column.name: (column.low, column.high) for column in board.columns if hides(column.name, table.split)
    }
    values = {
        column.name: [row.cells[at].value or 0.0 for row in rows] for at, column in enumerate(board.columns)
    }
    totals = [row.value or 0.0 for row in rows]
    return {
        "id": table.id,
        "suite": board.suite.title,
        "split": table.split,
        "heading": table.heading,
        "total": {
            "name": table.total_name,
            "unit": table.total_unit,
            "isMean": board.suite.total == "mean",
            "higherIsBetter": board.higher_is_better,
            "digits": board.digits,
        },
        "tasks": [
            {
                "name": column.name,
                "title": column.title,
                "metric": column.metric,
                "higherIsBetter": column.higher_is_better,
                "digits": column.digits,
                "inPoints": _is_in_points(column),
            }
            for column in board.columns
        ],
        "rows": [_compared_row(row, pages) for row in rows],
        "tests": {
            "total": _describe_tests(table.tests.total, totals, list(hidden.values())),
            "tasks": {
                name: _describe_tests(tests, values[name], [hidden[name]] if name in hidden else [])
                for name, tests in table.tests.tasks.items()
            },
        },
    }


def _is_in_points(column: Column) -> bool:
    """Return whether a score can be plotted next to others: whether it is a percentage or a correlation."""
    return column.span < math.inf and column.high == 100


def _compared_row(row: Row, pages: Mapping[str, str]) -> dict[str, Any]:
    results = [row.entry.tasks.get(cell.task) for cell in row.cells]
    return {
        "page": pages[row.entry.path],
        "name": row.entry.name,
        "mark": row.mark,
        "total": row.value,
        "interval": row.interval,
        "scores": [cell.value for cell in row.cells],
        "intervals": [result.interval if result else None for result in results],
        "units": [show_units(result.units) if result else "" for result in results],
    }


def _describe_tests(
    tests: PairTests | None, scores: Sequence[float], hidden: Sequence[tuple[float, float]]
) -> dict[str, list[Any]] | None:
    """Return the differences of the pairs (0,1), (0,2), (1,2), (0,3), ...: the later row minus the earlier one.

    `low` and `high` are the interval of the difference, `p` is the pair's own and `adjusted` is corrected for all
    pairs; `verdict` is 1 if the later row's score is significantly higher, -1 if it is lower, 0 if neither; `same`
    pairs have no interval, since nothing differs. `hidden` are the scales of scores on hidden labels: intervals are
    rounded like these scores.
    """
    if tests is None:
        return None
    import numpy as np

    count = len(scores)
    later, earlier = np.tril_indices(count, -1)
    pairs = earlier, later
    tested = tests.tested[pairs]
    if not tested.any():
        return None
    low, high = (end[pairs].tolist() for end in tests.ends)
    p, adjusted = (
        [
            round(value, 4) if known else None
            for value, known in zip(found[pairs].tolist(), tested, strict=True)
        ]
        for found in (tests.p, tests.adjusted)
    )
    verdicts = find_verdicts(tests)

    def cut(ends: Sequence[float]) -> list[float | None]:
        decimals = (
            min((hidden_decimals(span, scores[a], scores[b], least=1) for span in hidden), default=None)
            for a, b in zip(earlier.tolist(), later.tolist(), strict=True)
        )
        return [
            None if math.isnan(end) else _round_end(end) if places is None else round(end, places)
            for end, places in zip(ends, decimals, strict=True)
        ]

    return {
        "low": cut(low),
        "high": cut(high),
        "p": p,
        "same": (tested & (tests.sizes[pairs] == 0)).tolist(),
        "adjusted": adjusted,
        "verdict": [verdicts[a][b] for b in range(count) for a in range(b)],
    }


def _round_end(end: float) -> float:
    """Round to three decimals, or below 0.1 to three digits, so that intervals on short scales do not become 0."""
    return round(end, 3) if abs(end) >= 0.1 else float(f"{end:.3g}")


# The distribution of the scores of single examples


def task_data(boards: Sequence[Board], task: str, pages: Mapping[str, str], hides: Hides) -> dict[str, Any]:
    """Return, by table, the bins of a task's scores and each system's number of examples in them."""
    found: dict[str, Any] = {}
    for board in boards:
        for column in (column for column in board.columns if column.name == task):
            found |= {table.id: _distribution(column, table, pages, hides) for table in board.tables}
    return found


def _distribution(column: Column, table: Standings, pages: Mapping[str, str], hides: Hides) -> dict[str, Any]:
    hidden = hides(column.name, table.split)  # their single examples are not public
    rows = () if hidden else table.compared_rows
    known = [
        (row, row.entry.evidence[column.name].scores)
        for row in rows
        if row.entry.score(column.name) is not None
    ]
    systems = [(row, scores) for row, scores in known if scores is not None and _finite(scores).size]
    edges = score_edges(column, [scores for _, scores in systems])
    return {
        "labels": [_show_bin(low, high) for low, high in pairwise(edges)],
        "systems": [
            {"page": pages[row.entry.path], "name": row.entry.name, **count_scores(scores, edges)}
            for row, scores in systems
        ],
    }


def _finite(scores: Sequence[float] | Array) -> Array:
    import numpy as np

    given = np.asarray(scores, dtype=float)
    found: Array = given[np.isfinite(given)]
    return found


def score_edges(column: Column, scores: Sequence[Sequence[float] | Array]) -> list[float]:
    """Return the edges of ten equal bins, over the metric's range or, if that is unbounded, over the scores."""
    finite = [_finite(one) for one in scores]
    low = (
        column.low
        if math.isfinite(column.low)
        else min((float(one.min()) for one in finite if one.size), default=0.0)
    )
    high = column.high
    if not math.isfinite(high):
        high = max((float(one.max()) for one in finite if one.size), default=low)
        high = low + (_round_up(high - low) or 1.0)
    return [low + (high - low) * index / _BINS for index in range(_BINS + 1)]


def _round_up(number: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten."""
    if number <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(number))
    return power * next(step for step in (1, 2, 5, 10) if number <= step * power * (1 + 1e-9))


def _show_bin(low: float, high: float) -> str:
    return f"{low:.4g}–{high:.4g}" if low >= 0 else f"{low:.4g} to {high:.4g}"


def count_scores(scores: Sequence[float] | Array, edges: Sequence[float]) -> dict[str, Any]:
    """Count scores by bin, with the highest score in the last bin; also count NaNs."""
    import numpy as np

    finite = _finite(scores)
    width = (edges[-1] - edges[0]) / (len(edges) - 1)
    places = np.clip(((finite - edges[0]) / width + 1e-6).astype(int), 0, len(edges) - 2)
    bins = np.bincount(places, minlength=len(edges) - 1).tolist()
    return {"bins": bins, "n": len(scores), "unscored": len(scores) - len(finite)}


# The board for other programs

_ABOUT = (
    "suite", "board", "split", "kind", "rank", "rank_best", "rank_worst", "rank_group", "state", "evidence", "reason",
    "name", "total", "total_low", "total_high", "model_size", "date", "open_weights", "page",
)  # fmt: skip


def board_csv(board: Board, pages: Mapping[str, str], refused: Sequence[Refusal] = ()) -> str:
    """Return a board as CSV, with a line for each submission, and for each refused file with its path as name.

    Each task's score is followed by the ends of its interval and its units. Text that a spreadsheet
    would take for a formula gets an apostrophe in front.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    tasks = board.suite.tasks
    writer.writerow([*_ABOUT, *(name for task in tasks for name in _score_columns(task))])
    for table, kind, row in _all_rows(board):
        about = _describe_row(board, table, kind, row, pages)
        scores = [value for task in tasks for value in _score_with_interval(row, task)]
        writer.writerow(
            [_csv_value(about[name]) for name in _ABOUT] + [_csv_value(value) for value in scores]
        )
    for refusal in refused:
        about = {**dict.fromkeys(_ABOUT), "kind": "refused", "name": refusal.path, "reason": refusal.reason}
        writer.writerow([_csv_value(about[name]) for name in _ABOUT] + [""] * (4 * len(tasks)))
    return file.getvalue()


def _score_columns(task: str) -> tuple[str, str, str, str]:
    return task, f"{task}_low", f"{task}_high", f"{task}_units"


def board_json(board: Board, pages: Mapping[str, str], refused: Sequence[Refusal] = ()) -> str:
    """Return a board as JSON: the suite, every submission with its scores, and the published rows separately."""
    suite = board.suite
    content = {
        "format": FORMAT,
        "suite": {
            "name": suite.name,
            "title": suite.title,
            "total": suite.total,
            "total_name": suite.total_name,
            "tasks": {column.name: _describe_column(column) for column in board.columns},
        },
        "submissions": [
            {
                **_describe_row(board, table, kind, row, pages),
                "authors": list(row.entry.authors),
                "url": row.entry.url,
                "submission": row.entry.submission,
                "tasks": {task: _describe_score(row, task) for task in suite.tasks},
            }
            for table, kind, row in _all_rows(board)
        ],
        "refused": [{"submission": refusal.path, "reason": refusal.reason} for refusal in refused],
        "reported_not_verified": {
            "source": suite.source,
            "rows": [
                {
                    "name": row.name,
                    "training": row.training,
                    suite.total_name.lower(): row.total,
                    "scores": dict(row.scores),
                    **({"source": row.source} if row.source else {}),
                }
                for row in suite.published
            ],
        },
    }
    return json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True, allow_nan=False) + "\n"


def _all_rows(board: Board) -> list[tuple[Standings, str, Row]]:
    kinds = [
        (table, kind, rows)
        for table in board.tables
        for kind, rows in (
            ("system", table.rows),
            ("floor", table.floors),
            ("ceiling", table.ceilings),
            ("apart", table.apart),
        )
    ]
    return [(table, kind, row) for table, kind, rows in kinds for row in rows]


def _describe_column(column: Column) -> dict[str, Any]:
    ends = [end if math.isfinite(end) else None for end in (column.low, column.high)]
    return {
        "title": column.title,
        "metric": column.metric,
        "range": ends,
        "higher_is_better": column.higher_is_better,
    }


def _describe_row(
    board: Board, table: Standings, kind: str, row: Row, pages: Mapping[str, str]
) -> dict[str, Any]:
    low, high = row.interval or (None, None)
    return {
        "suite": board.suite.name,
        "board": table.id,
        "split": table.split,
        "kind": kind,
        "rank": row.rank,
        "rank_best": row.place.best if row.place else None,
        "rank_worst": row.place.worst if row.place else None,
        "rank_group": row.place.group if row.place else None,
        "state": row.state.name.lower(),
        "evidence": row.entry.kind,
        "reason": row.entry.apart,
        "name": row.entry.name,
        "total": row.value,
        "total_low": low,
        "total_high": high,
        "model_size": row.entry.model_size,
        "date": row.entry.date,
        "open_weights": row.entry.open_weights,
        "page": f"submissions/{pages[row.entry.path]}.html",
    }


def _score_with_interval(row: Row, task: str) -> tuple[float | str | None, ...]:
    if row.entry.score(task) is None:
        return None, None, None, None
    result = row.entry.tasks[task]
    return result.score, *(result.interval or (None, None)), show_units(result.units)


def _describe_score(row: Row, task: str) -> dict[str, Any]:
    result = row.entry.tasks.get(task)
    if result is None:
        return {"status": "missing"}
    if result.score is None:
        return {"status": "failed", "reason": result.reason}
    evidence = row.entry.evidence[task]
    found: dict[str, Any] = {"status": result.status, "score": result.score, "evidence": evidence.kind}
    if evidence.why:
        found["reason"] = evidence.why
    if result.partial is not None:
        return {**found, **asdict(result.partial)}
    if result.units:
        found["units"] = show_units(result.units)
    signature = result.signatures.get(result.metric, result.signature)
    more = {"interval": result.interval, "n": result.n, "fingerprint": result.data.fingerprint}
    return {**found, **more, "signature": signature}


_FORMULAS = ("=", "+", "-", "@")
"""Characters that begin a formula in a spreadsheet; some programs accept their full-width forms too."""


def _csv_value(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, str) and unicodedata.normalize("NFKC", value).lstrip().startswith(_FORMULAS):
        return f"'{value}"
    return value
