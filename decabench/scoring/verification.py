"""Scores a submission again and says what of its results file is not so."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decabench.errors import MissingDataError
from decabench.scoring.evaluator import evaluate
from decabench.scoring.results import read_results_file

__all__ = ["Discrepancy", "results_files", "verify"]


@dataclass(frozen=True)
class Discrepancy:
    """One thing in a results file that scoring again does not give."""

    where: str
    """`squad: predictions`, `decascore`, ..."""
    meaning: str
    """What has changed: the answers, the labels, the metric, or the file."""
    stated: str
    """What the file says."""
    found: str
    """What scoring again gives."""

    def __str__(self) -> str:
        return f"{self.where}: {self.meaning}: the file says {self.stated}, scoring gives {self.found}"


_MEANINGS = {
    "predictions": "the answers have changed since",
    "fingerprint": "the data or its labels are not the same",
    "signature": "the metric is another version",
    "signatures": "a metric is another version",
    "score": "the score was edited, or rests on what has changed",
    "scores": "a score was edited, or rests on what has changed",
    "interval": "the interval was edited, or rests on what has changed",
    "decascore": "the decaScore was edited, or rests on what has changed",
    "total": "the sum was edited, or rests on what has changed",
    "submission": "submission.toml has changed since",
    "answers": "what the lines say of their answers has changed since",
    "ceiling": "what the lines say of cut contexts has changed since",
    "partial": "submission.toml has changed since",
    "variants": "the answers to other wordings have changed since",
    "decabench": "another version of decabench scored",
}


_SUMS = ("decascore", "interval", "total")


def results_files(submission: Path) -> list[Path]:
    """The results files of a submission's folder, or those beside an archive. Raises MissingDataError."""
    folder = (
        submission / "results" if submission.is_dir() else submission.parent / f"{submission.name}.results"
    )
    found = sorted(folder.glob("*/results.json"))
    if not found:
        raise MissingDataError(f"There is no results.json in {folder}: run decabench evaluate first.")
    return found


def verify(
    submission: Path,
    results: Path,
    home: Path | None = None,
    jobs: int = 1,
    include: Sequence[Path] = (),
) -> list[Discrepancy]:
    """What differs between a results file and scoring again; nothing where the bytes are the same.

    Raises DataError where the file cannot be read, MissingDataError where data is not prepared.
    """
    stated = read_results_file(results)
    again = evaluate(submission, stated.split, list(stated.tasks), home, jobs, include, stated.answers)
    text = results.read_text(encoding="utf-8")
    if text == again.to_json():
        return []
    missing = sorted(set(stated.tasks) - set(again.tasks))
    old, new = json.loads(text), json.loads(again.to_json())
    for name in missing:  # what rests on them cannot be verified, and is no edit
        del old["tasks"][name]
    if missing:
        old, new = ({**each, **dict.fromkeys(_SUMS)} for each in (old, new))
    differences = [
        Discrepancy(name, "it cannot be verified", "a score", "no answers here") for name in missing
    ]
    differences += _differences(old, new)
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
        meaning = _MEANINGS[names[0]] if names else "the file was edited, or rests on what has changed"
        inner = ".".join(path[2:] if task else path)
        yield Discrepancy(f"{task}: {inner}" if task else inner, meaning, _shown(stated), _shown(found))


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
    return text if len(text) <= 90 else f"{text[:89]}…"
