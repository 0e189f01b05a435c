"""Data behind the pages: scripts that pages load on demand, and each board as CSV and JSON."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from json.encoder import encode_basestring_ascii
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decabench.leaderboard.entries import Board, Entry, Refusal, Row, Standings
from decabench.scoring import PairTests, Sample, hidden_decimals, show_units, sign_state
from decabench.tasks import PublishedRow, Task

Array = NDArray[Any]

FORMAT = "decabench.board/2"

Hides = Callable[[str, str], bool]
"""A function (task, split) that returns whether the split's labels are available but hidden.

No data about single examples may be published for such a split.
"""


write_json = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode
"""Return a value as compact JSON."""


def make_script(name: str, value: object = None, json_text: str = "") -> bytes:
    """Return a script that registers a value under a name. A value that is already JSON can be passed as `json_text`.

    Pages load scripts instead of JSON, because browsers don't load JSON from `file://`.
    """
    literals = (encode_basestring_ascii(text) for text in (name, json_text or write_json(value)))
    script = f"decabench.put({','.join(literals)});\n"
    return script.replace("<", "\\u003c").replace(">", "\\u003e").encode("ascii")


# The rows of a board


def rows_of(board: Board, table: Standings) -> list[tuple[str, Row | PublishedRow]]:
    """Return (kind, row) for each row of a table, in the order of the page.

    The runs of a system follow its row. Rows from papers are included only in the board's first table.
    """
    kinds: list[tuple[str, Sequence[Row | PublishedRow]]] = [
        ("system", table.rows),
        ("floor", table.floors),
        ("ceiling", table.ceilings),
    ]
    kinds.append(("apart", table.apart))
    if not board.tables or table is board.tables[0]:
        sign = 1 if board.higher_is_better else -1
        kinds.append(("paper", sorted(board.suite.published, key=lambda row: -sign * (row.total or 0.0))))
    found: list[tuple[str, Row | PublishedRow]] = []
    for kind, rows in kinds:
        for row in rows:
            found.append((kind, row))
            found += [("run", run) for run in row.runs] if isinstance(row, Row) else []
    return found


def overview_data(
    board: Board,
    tables: Sequence[Standings],
    pages: Mapping[str, str],
    task_pages: Mapping[str, str],
    known: Mapping[str, Task],
    hides: Hides,
) -> dict[str, Any]:
    """Return the numbers in a suite's tables, with the rows in the order of the page.

    `pages` and `task_pages` contain page names, by entry path and by task. `known` contains the known tasks, by name.
    """
    return {
        "tasks": [
            {
                "name": column.name,
                "title": column.title,
                "metric": column.metric,
                "higherIsBetter": column.higher_is_better,
                "digits": column.digits,
                "low": column.low if math.isfinite(column.low) else None,
                "high": column.high if math.isfinite(column.high) else None,
                "output": type(known[column.name].output).__name__ if column.name in known else "",
                "languages": list(known[column.name].languages) if column.name in known else [],
                "page": task_pages[column.name],
            }
            for column in board.columns
        ],
        "more": [{"name": name, "title": title, "digits": digits} for name, title, digits in _MORE],
        "isMean": board.suite.total == "mean",
        "higherIsBetter": board.higher_is_better,
        "digits": board.digits,
        "tables": [
            {
                "id": table.id,
                "split": table.split,
                "counted": board.public(table.split),
                "total": {"name": table.total_name, "unit": table.total_unit} if table.total_name else None,
                "rows": [
                    _paper(row, board) if isinstance(row, PublishedRow) else _row(kind, row, pages, hides)
                    for kind, row in rows_of(board, table)
                ],
            }
            for table in tables
        ],
    }


_MORE = (
    ("form", "Wrong form, %: answers that could not be parsed, and refusals", 1),
    ("outside", "Not in context, %: answers to extractive tasks that do not occur in the context", 1),
    (
        "calibration",
        "Calibration error, %: expected calibration error over ten bins, for label probabilities",
        1,
    ),
    ("wording", "Wordings: best score minus worst score across wordings of the questions", 1),
    ("samples", "Samples: standard deviation of the score across several samples", 2),
    ("tokens", "Tokens, in thousands: prompts and answers", 0),
    ("time", "Seconds per thousand answers, on the machine that produced them", 1),
    ("cost", "Cost, at the prices that the submitter stated", 2),
)
"""(name, description, decimal places) of each optional column.

A value is a sum, mean or percentage over the entry's tasks.
"""


def _more(entry: Entry, hides: Hides) -> dict[str, float]:
    if entry.runs:
        runs = [_more(run, hides) for run in entry.runs]
        means = {name: math.fsum(run.get(name, math.nan) for run in runs) / len(runs) for name in runs[0]}
        return {
            name: round(means[name], digits)
            for name, _, digits in _MORE
            if math.isfinite(means.get(name, math.nan))
        }
    results = {name: result for name, result in entry.tasks.items() if not hides(name, entry.split)}
    counts: Counter[str] = Counter()
    for result in results.values():
        counts.update(result.answers)
    usage = [entry.usage.get(f"{name}.{entry.split}", {}) for name in entry.tasks]
    lists = {
        "calibration": [100 * one.calibration.error for one in results.values() if one.calibration],
        "wording": [one.variants.spread for one in results.values() if one.variants],
        "samples": [one.samples.between_samples for one in results.values() if one.samples],
    }
    found = {name: math.fsum(values) / len(values) for name, values in lists.items() if values}
    if counts:
        asked = sum(one.n for one in results.values()) or 1
        found["form"] = 100 * (counts["unparseable"] + counts["refused"]) / asked
        found["outside"] = 100 * counts["not_in_context"] / asked
    if tokens := sum(one.get("prompt_tokens", 0) + one.get("completion_tokens", 0) for one in usage):
        found["tokens"] = tokens / 1000
    times = [entry.times.get(f"{name}.{entry.split}", {}) for name in entry.tasks]
    timed = [one for one in times if len(one) == 2]
    if answers := math.fsum(one["answers"] for one in timed):
        found["time"] = 1000 * math.fsum(one["seconds"] for one in timed) / answers
    if any("cost" in one for one in usage):
        found["cost"] = math.fsum(one.get("cost", 0.0) for one in usage)
    return {name: round(found[name], digits) for name, _, digits in _MORE if name in found}


def _row(kind: str, row: Row, pages: Mapping[str, str], hides: Hides) -> dict[str, Any]:
    entry = row.entry
    results = [entry.tasks.get(cell.task) for cell in row.cells]
    each = (entry, *entry.runs)
    words = (
        word
        for one in each
        for word in (one.name, *one.authors, one.description, one.training_data, one.predictor, kind)
    )
    found = {
        "kind": kind,
        "name": entry.name,
        "page": pages[entry.path],
        "runs": [pages[run.path] for run in entry.runs] or None,
        "text": " ".join(dict.fromkeys(filter(None, words))).lower(),
        "evidence": entry.kind,
        "seed": (entry.seed if kind == "run" else "") or None,
        "size": entry.model_size,
        "date": entry.date if entry.year else None,
        "open": entry.open_weights or None,
        "place": [row.place.rank, row.place.group, row.place.best, row.place.worst] if row.place else None,
        "total": row.value,
        "interval": row.interval,
        "scores": [cell.value for cell in row.cells],
        "intervals": [result.interval if result else None for result in results],
        "more": _more(entry, hides) or None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _paper(row: PublishedRow, board: Board) -> dict[str, Any]:
    found = {
        "kind": "paper",
        "name": row.name,
        "text": f"{row.name} {row.training} {row.source} paper".lower(),
        "evidence": "paper",
        "date": next(iter(re.findall(r"\b(?:19|20)\d\d\b", row.source or board.suite.source)), None),
        "total": row.total,
        "scores": [row.scores.get(column.name) for column in board.columns],
    }
    return {key: value for key, value in found.items() if value is not None}


# Statistics for the tests


def tests_data(board: Board, table: Standings, pages: Mapping[str, str], hides: Hides) -> dict[str, Any]:
    """Return the data that browsers need, in addition to `units_data`, to compute totals, intervals, ranks and tests.

    The data consists of the units of each task, the variance of each score, and the highest test statistic of any
    pair in each resample. Tasks with hidden labels are left out.
    """
    names = [name for name in board.public(table.split) if not hides(name, table.split)]
    layouts: dict[str, Any] = {}
    spreads: dict[str, Any] = {}
    for row in table.compared_rows:
        found = spreads[pages[row.entry.path]] = {}
        for name in names:
            sample = row.entry.sample(name)
            interval = sample.interval if sample is not None else None
            if sample is not None and interval is not None:
                variance = sample.spread.variance if sample.varies else 0.0
                ends = (interval.low, interval.high)
                found[name] = [sample.score, variance, sample.spread.freedom, *ends]
            if sample is not None and _is_testable(sample):
                layouts.setdefault(_layout(sample), _describe_layout(sample))
    tests = {name: table.tests.tasks[name] for name in names}
    if table.tests.total is not None and len(names) == table.counted:
        tests[""] = table.tests.total
    highest = {name: _floats(test.highest) for name, test in tests.items() if test.highest is not None}
    return {"layouts": layouts, "spreads": spreads, "highest": highest}


def _is_testable(sample: Sample) -> bool:
    return len(sample.sizes) > 1 and bool(np.isfinite(sample.effects).all())


def _layout(sample: Sample) -> str:
    parts = (
        sample.name.encode(),
        sample.metric.name.encode(),
        sample.sizes.tobytes(),
        sample.strata.tobytes(),
    )
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def _describe_layout(sample: Sample) -> dict[str, Any]:
    span = sample.metric.range[1] - sample.metric.range[0]
    is_even = bool((sample.sizes == sample.sizes[0]).all())
    return {
        "count": len(sample.sizes),
        "sizes": None if is_even else sample.sizes.tolist(),
        "strata": sample.strata.tolist() if sample.strata.any() else None,
        "state": [half for word in sign_state(sample.name) for half in (word & 0xFFFFFFFF, word >> 32)],
        "span": span if math.isfinite(span) else None,
    }


def _floats(values: Array) -> str:
    return base64.b64encode(np.asarray(values, "<f4").tobytes()).decode("ascii")


def units_data(
    board: Board, table: Standings, index: int, pages: Mapping[str, str], hides: Hides
) -> dict[str, Any]:
    """Return the contribution of each unit to the scores of one row, `table.compared_rows[index]`.

    For tasks with hidden labels, the significance tests that compare this row with the others are returned instead.
    Contributions have up to 12 significant digits if a task has at most 256 different values, and single precision
    otherwise.
    """
    row, names = table.compared_rows[index], board.public(table.split)
    hidden = {
        column.name: (column.low, column.high) for column in board.columns if hides(column.name, table.split)
    }
    units = {}
    for name in names:
        sample = row.entry.sample(name)
        if name not in hidden and sample is not None and _is_testable(sample):
            units[name] = {"layout": _layout(sample), "score": sample.score, **_code(sample)}
    tests = {name: table.tests.tasks[name] for name in names if name in hidden}
    if hidden.keys() & set(names) and table.tests.total is not None:
        tests[""] = table.tests.total
    at = {column.name: place for place, column in enumerate(board.columns)}
    described = {}
    for name, test in tests.items():
        values = [(one.cells[at[name]].value if name else one.value) or 0.0 for one in table.compared_rows]
        scales = [hidden[name]] if name else list(hidden.values())
        described[name] = {
            pages[other.entry.path]: found
            for other, found in zip(
                table.compared_rows, _describe_tests(test, index, values, scales), strict=True
            )
            if found is not None and other is not row
        }
    return {"units": units, "tests": described}


def _code(sample: Sample) -> dict[str, Any]:
    parts = sample.effects + sample.shares * sample.score / (int(sample.strata.max()) + 1)
    digits = 11 - np.floor(np.log10(max(float(np.abs(parts).max()), 1e-290))).astype(int)
    values, codes = np.unique(np.round(parts, min(int(digits), 300)), return_inverse=True)
    if len(values) > 256:
        return {"parts": _floats(parts)}
    coded = base64.b64encode(codes.astype(np.uint8).tobytes()).decode("ascii")
    return {"values": values.tolist(), "parts": coded}


def _describe_tests(
    tests: PairTests, index: int, scores: Sequence[float], hidden: Sequence[tuple[float, float]]
) -> list[dict[str, Any] | None]:
    # Intervals are rounded like scores on hidden labels. `hidden` contains the ranges of the metrics.
    lows, highs = (end[index].tolist() for end in tests.ends)
    found: list[dict[str, Any] | None] = []
    for other, score in enumerate(scores):
        if not tests.is_tested(index, other):
            found.append(None)
            continue
        places = min(hidden_decimals(span, scores[index], score, least=1) for span in hidden)
        ends = [round(lows[other], places), round(highs[other], places)]
        sign = int(np.sign(tests.differences[index, other]))
        found.append(
            {
                "interval": None if math.isnan(lows[other]) else ends,
                "p": round(float(tests.p[index, other]), 4),
                "adjusted": round(float(tests.adjusted[index, other]), 4),
                "verdict": sign if tests.differ(index, other) else 0,
                "isSame": tests.is_same(index, other),
            }
        )
    return found


# Boards for other programs

_ABOUT = (
    "suite", "board", "split", "kind", "rank", "rank_best", "rank_worst", "rank_group", "state", "evidence", "reason",
    "name", "total", "total_low", "total_high", "model_size", "date", "open_weights", "page", "runs", "total_deviation",
    "run_of",
)  # fmt: skip


def describe_board(board: Board, pages: Mapping[str, str], refused: Sequence[Refusal] = ()) -> dict[str, Any]:
    """Return a board as a JSON value: the suite, all scores, the refused files, and the rows from papers."""
    suite = board.suite
    return {
        "format": FORMAT,
        "suite": {
            "name": suite.name,
            "title": suite.title,
            "total": suite.total,
            "total_name": suite.total_name,
            "tasks": {
                column.name: {
                    "title": column.title,
                    "metric": column.metric,
                    "range": [end if math.isfinite(end) else None for end in (column.low, column.high)],
                    "higher_is_better": column.higher_is_better,
                }
                for column in board.columns
            },
        },
        "submissions": [
            _describe_row(board, table, kind, row, pages)
            for table in board.tables
            for kind, row in rows_of(board, table)
            if not isinstance(row, PublishedRow)
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


def board_json(described: Mapping[str, Any]) -> str:
    """Return the result of `describe_board` as JSON."""
    return json.dumps(described, ensure_ascii=False, indent=1, sort_keys=True, allow_nan=False) + "\n"


def board_csv(described: Mapping[str, Any]) -> str:
    """Return the result of `describe_board` as CSV, with a line for each system, run and refused file.

    Each score is followed by its interval and its units. Rows from papers are left out. Refused files are named by
    their paths. Text that a spreadsheet would treat as a formula is prefixed with an apostrophe.
    """
    tasks = described["suite"]["tasks"]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*_ABOUT, *(f"{task}{end}" for task in tasks for end in ("", "_low", "_high", "_units"))])
    for row in described["submissions"]:
        scores = [value for task in tasks for value in _score_with_interval(row["tasks"][task])]
        writer.writerow([_csv_value(value) for value in (*(row[name] for name in _ABOUT), *scores)])
    for refusal in described["refused"]:
        about = {"kind": "refused", "name": refusal["submission"], "reason": refusal["reason"]}
        writer.writerow([_csv_value(about.get(name)) for name in _ABOUT] + [""] * (4 * len(tasks)))
    return file.getvalue()


def _describe_row(
    board: Board, table: Standings, kind: str, row: Row, pages: Mapping[str, str]
) -> dict[str, Any]:
    low, high = row.interval or (None, None)
    system = table.find_system(row)
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
        "reason": row.entry.failure or row.entry.apart,
        "name": row.entry.name,
        "total": row.value,
        "total_low": low,
        "total_high": high,
        "model_size": row.entry.model_size,
        "date": row.entry.date,
        "open_weights": row.entry.open_weights,
        "page": f"submissions/{pages[row.entry.path]}.html",
        "runs": len(row.runs) or None,
        "total_deviation": row.deviation,
        "run_of": f"submissions/{pages[system.entry.path]}.html" if system else None,
        "authors": list(row.entry.authors),
        "url": row.entry.url,
        "submission": row.entry.submission,
        "tasks": {task: _describe_score(row, task) for task in board.suite.tasks},
    }


def _describe_score(row: Row, task: str) -> dict[str, Any]:
    result = row.entry.tasks.get(task)
    if result is None:
        return {"status": "missing"}
    if result.score is None:
        return {"status": "failed", "reason": result.reason}
    evidence = row.entry.evidence[task]
    found: dict[str, Any] = {"status": result.status, "score": result.score, "evidence": evidence.kind}
    deviation = next(cell.deviation for cell in row.cells if cell.task == task)
    if deviation is not None:
        found["deviation"] = deviation
    if evidence.why:
        found["reason"] = evidence.why
    if result.partial is not None:
        return {**found, **asdict(result.partial)}
    if result.units:
        found["units"] = show_units(result.units)
    signature = result.signatures.get(result.metric, result.signature)
    more = {"interval": result.interval, "n": result.n, "fingerprint": result.data.fingerprint}
    return {**found, **more, "signature": signature}


def _score_with_interval(score: Mapping[str, Any]) -> tuple[float | str | None, ...]:
    if score["status"] != "scored":
        return None, None, None, None
    return score["score"], *(score["interval"] or (None, None)), score.get("units")


_FORMULAS = ("=", "+", "-", "@")
"""Characters that begin a formula in a spreadsheet. Some programs also accept their full-width forms."""


def _csv_value(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, str) and unicodedata.normalize("NFKC", value).lstrip().startswith(_FORMULAS):
        return f"'{value}"
    return value
