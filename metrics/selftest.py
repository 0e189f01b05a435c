"""A short check that an installation reproduces official scores, using rows that come with the package."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

from . import METRICS
from .base import Item, MetricError, evaluate

FOLDER = Path(__file__).parent / "data" / "selftest"
FORMAT = 1


@dataclass(frozen=True)
class CaseResult:
    """One expected score, and the score that this installation computes."""

    name: str
    """The case, e.g. `squad`."""
    scorer: str
    """The scorer that produced the expected score, and the rows it scored."""
    score: str
    """The score's name, e.g. `nf1`."""
    expected: float
    """The scorer's value."""
    got: float
    """This installation's value."""
    tolerance: float
    """The largest difference that passes."""

    @property
    def passed(self) -> bool:
        """Whether the two values agree."""
        return abs(self.got - self.expected) <= self.tolerance


def run_selftest(folder: Path = FOLDER) -> list[CaseResult]:
    """Score the bundled cases, offline, in a second or two; returns one result for each expected score.

    Raises MetricError if the files are missing or have another format, or a scorer is not installed.
    """
    files = sorted(folder.glob("*.jsonl.gz"))
    if not files:
        raise MetricError(
            f"There are no self-test cases in {folder}: the installation is incomplete; reinstall decabench."
        )
    return [result for file in files for result in _run_case(file)]


def _run_case(file: Path) -> list[CaseResult]:
    """Score one file: a line with the expected scores, then one line per row."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        head, *rows = map(json.loads, lines)
    if head["format"] != FORMAT:
        raise MetricError(
            f"{file} has format {head['format']!r}, but this version reads {FORMAT}: reinstall decabench."
        )
    predictions = [row["prediction"] for row in rows]
    references = [Item(row["answers"], id=row["id"], meta=row.get("meta", {})) for row in rows]
    got: dict[str, float] = {}
    for name in head["metrics"]:
        got |= evaluate(METRICS[name], predictions, references).details
    case = file.name.removesuffix(".jsonl.gz")
    return [
        CaseResult(case, head["scorer"], name, value, got[name], head["tolerance"])
        for name, value in head["expected"].items()
    ]
