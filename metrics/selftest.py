"""A quick check that an installation reproduces official scores, using bundled examples."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from . import METRICS
from .base import Item, MetricError, evaluate

FILE = Path(__file__).parent / "data" / "selftest.jsonl.gz"
FORMAT = 1


@dataclass(frozen=True)
class CaseResult:
    """An expected score and the score that this installation computes."""

    name: str
    """The name of the case, such as `squad`."""
    scorer: str
    """A description of the scorer that produced the expected score and of the rows that it scored."""
    score: str
    """The name of the score, such as `nf1`."""
    expected: float
    """The score that the scorer computed."""
    got: float
    """The score that this installation computed."""
    tolerance: float
    """The maximum difference between the two scores."""

    @property
    def passed(self) -> bool:
        """Whether the scores agree within the tolerance."""
        return abs(self.got - self.expected) <= self.tolerance


def run_selftest(file: Path = FILE) -> list[CaseResult]:
    """Score the bundled cases, and return a result for each expected score.

    This takes a second or two and needs no network. In the file, each case is a line with the expected scores, followed
    by one line per row. Raises MetricError if the file is missing or has an unknown format, or if a scorer is not
    installed.
    """
    if not file.exists():
        raise MetricError(f"{file} is missing, so the installation is incomplete. Reinstall decabench.")
    with gzip.open(file, "rt", encoding="utf-8") as text:
        lines = map(json.loads, text)
        return [
            result for head in lines for result in _run_case(head, list(islice(lines, head.get("rows", 0))))
        ]


def _run_case(head: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[CaseResult]:
    if head["format"] != FORMAT:
        raise MetricError(
            f"The self-test has format {head['format']!r}, but this version reads {FORMAT}. Reinstall decabench."
        )
    predictions = [row["prediction"] for row in rows]
    references = [Item(row["answers"], id=row["id"], meta=row.get("meta", {})) for row in rows]
    got: dict[str, float] = {}
    for name in head["metrics"]:
        got |= evaluate(METRICS[name], predictions, references).details
    return [
        CaseResult(head["case"], head["scorer"], name, value, got[name], head["tolerance"])
        for name, value in head["expected"].items()
    ]
