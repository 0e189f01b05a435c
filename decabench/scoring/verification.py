"""Verify a results file: score the submission again and report every difference."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decabench.errors import MissingDataError
from decabench.scoring.evaluator import evaluate
from decabench.scoring.results import InvalidResultsError, parse_record, read_bounded, read_suite

__all__ = ["Discrepancy", "results_files", "verify"]


@dataclass(frozen=True)
class Discrepancy:
    """A value in a results file that scoring again does not reproduce."""

    where: str
    """`squad: predictions`, `decascore`, ..."""
    meaning: str
    """What has changed: the answers, the labels, the metric, or the file."""
    stated: str
    """The value in the file."""
    found: str
    """The value from scoring again."""

    def __str__(self) -> str:
        return f"{self.where}: {self.meaning}: the file says {self.stated}, scoring gives {self.found}"


_MEANINGS = {
    "predictions": "the answers have changed",
    "fingerprint": "the data or its labels are not the same",
    "signature": "the metric is another version",
    "signatures": "a metric is another version",
    "score": "the score was edited, or depends on something that has changed",
    "scores": "a score was edited, or depends on something that has changed",
    "interval": "the interval was edited, or depends on something that has changed",
    "decascore": "the decaScore was edited, or depends on something that has changed",
    "total": "the total was edited, or depends on something that has changed",
    "suite": "the suite was edited",
    "submission": "submission.toml has changed",
    "answers": "the rule, finish or context_kept of some lines has changed",
    "ceiling": "the context_kept of some lines has changed",
    "partial": "submission.toml has changed",
    "variants": "the answers to other wordings have changed",
    "decabench": "scored by another version of decabench",
}
"""Map from a key to the meaning of a difference under it; the outermost key counts."""

_TOTALS = ("decascore", "interval", "total")


def results_files(submission: Path) -> list[Path]:
    """Find the results files in a submission's folder, or beside an archive. Raises MissingDataError."""
    folder = (
        submission / "results" if submission.is_dir() else submission.parent / f"{submission.name}.results"
    )
    found = sorted(folder.glob("*/results.json"))
    if not found:
        raise MissingDataError(f"There is no results.json in {folder}: run decabench evaluate first.")
    return found


def verify(
    submission: str | Path,
    results: str | Path | None = None,
    home: str | Path | None = None,
    jobs: int = 1,
    include: Sequence[str | Path] = (),
) -> list[Discrepancy]:
    """Score a submission again and return every difference from a results file; none if the bytes are the same.

    Without `results`, every results file in the submission's folder is verified.

    Raises InvalidResultsError if the file cannot be read, and the errors of `evaluate`.
    """
    if results is None:
        files = results_files(Path(submission))
        return [found for file in files for found in verify(submission, file, home, jobs, include)]
    text = read_bounded(Path(results))
    stated = parse_record(text, str(results))
    try:
        suite = read_suite(stated)
    except ValueError as error:
        raise InvalidResultsError(str(results), str(error)) from error
    answers = stated.get("answers", "extracted")
    again = evaluate(submission, stated["split"], list(stated["tasks"]), home, jobs, include, answers, suite)
    if Path(results).read_bytes() == again.to_json().encode():
        return []
    found = json.loads(again.to_json())
    missing = sorted(set(stated["tasks"]) - set(again.tasks))
    for name in missing:  # neither it nor its totals can be verified, but nothing was edited
        del stated["tasks"][name]
    if missing:
        stated, found = ({**each, **dict.fromkeys(_TOTALS)} for each in (stated, found))
    differences = [
        Discrepancy(name, "it cannot be verified", "a score", "no answers here") for name in missing
    ]
    differences += _differences(stated, found)
    return differences or [
        Discrepancy("results.json", "its bytes were rewritten", "the same values", "other bytes")
    ]


def _differences(stated: Any, found: Any, path: tuple[str, ...] = ()) -> Iterator[Discrepancy]:
    if isinstance(stated, Mapping) and isinstance(found, Mapping):
        for key in sorted({*stated, *found}):
            yield from _differences(stated.get(key, "nothing"), found.get(key, "nothing"), (*path, key))
    elif stated != found:
        task = path[1] if path[0] == "tasks" and len(path) > 1 else ""
        names = [name for name in path if name in _MEANINGS]
        meaning = (
            _MEANINGS[names[0]] if names else "the file was edited, or depends on something that has changed"
        )
        inner = ".".join(path[2:] if task else path)
        yield Discrepancy(f"{task}: {inner}" if task else inner, meaning, _shown(stated), _shown(found))


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
    return text if len(text) <= 90 else f"{text[:89]}…"
