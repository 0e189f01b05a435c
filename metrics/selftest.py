"""A short proof that an installation scores as the official scorers do, on rows that travel with the package."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import METRICS
from .base import Item, MetricError, evaluate

__all__ = ["CaseResult", "run_selftest"]

FOLDER = Path(__file__).parent / "data" / "selftest"
FORMAT = 1


@dataclass(frozen=True)
class CaseResult:
    """One expected score and what this installation makes of it."""

    name: str
    """The case, e.g. `squad`."""
    scorer: str
    """Which scorer the expected score is from, and on what rows."""
    score: str
    """The score's name, e.g. `nf1`."""
    expected: float
    """What that scorer gives."""
    got: float
    """What ours gives."""
    tolerance: float
    """How far they may differ."""

    @property
    def passed(self) -> bool:
        """Whether they agree."""
        return abs(self.got - self.expected) <= self.tolerance


def run_selftest(folder: Path = FOLDER) -> list[CaseResult]:
    """Scores the bundled cases: one result for each expected score, in the order of the files' names.

    Offline, a second or two. Raises MetricError where the files are missing or of another format, and where
    sacrebleu is not installed.
    """
    files = sorted(folder.glob("*.jsonl.gz"))
    if not files:
        raise MetricError(
            f"No self-test cases in {folder}: the installation is incomplete; install it again."
        )
    return [result for file in files for result in run_case(file)]


def run_case(file: Path) -> list[CaseResult]:
    """The results of one file: a line that says what is expected, then one line a row."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        head, *rows = map(json.loads, lines)
    if head["format"] != FORMAT:
        raise MetricError(f"{file} has format {head['format']!r}; this version reads {FORMAT}.")
    got: dict[str, float] = {}
    for name in head["metrics"]:
        got |= evaluate(
            METRICS[name], [row["prediction"] for row in rows], [to_item(row) for row in rows]
        ).details
    case = file.name.removesuffix(".jsonl.gz")
    return [
        CaseResult(case, head["scorer"], name, value, got[name], head["tolerance"])
        for name, value in head["expected"].items()
    ]


def to_item(row: dict[str, Any]) -> Item:
    return Item(row["answers"], id=row["id"], meta=row.get("meta", {}))
