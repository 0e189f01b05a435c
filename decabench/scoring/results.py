"""The result of evaluating one submission on one split, and its JSON form: the same inputs give the same bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import decabench
from decabench.errors import DataError
from decabench.files import atomic_file, parse_json
from decabench.submission import Answers
from decabench.tasks import DECATHLON
from decabench.text import printable

__all__ = [
    "FORMAT",
    "DataUsed",
    "Results",
    "TaskResult",
    "Total",
    "ordered",
    "partial_text",
    "read_results_file",
    "write_results_file",
]

FORMAT = "decabench.results/1"


@dataclass(frozen=True)
class DataUsed:
    """What data a task was scored on."""

    fingerprint: str
    """`sha256:` over the examples of the split."""
    origin: str
    """`upstream`, `mirror`, `sample` or `user`."""
    verified: bool
    """Whether every file had its published checksum."""
    rows: int
    """Examples in the prepared split."""
    published_count: int | None
    """Examples in the split as published, where that is known."""
    note: str = ""
    """What a reader of the score must know, e.g. that a sample is a stand-in."""


@dataclass(frozen=True)
class TaskResult:
    """One task: scored, or failed with the reason. A failed task has no score, not even 0."""

    status: str
    """`scored`, `failed`, or `partial`: a limited run, scored on what it answered and never summed."""
    metric: str
    """The metric's name."""
    headline: str
    """Which of the scores is the task's."""
    data: DataUsed
    """What it was scored on."""
    n: int = 0
    """Examples scored."""
    score: float | None = None
    """The headline, 0-100."""
    interval: tuple[float, float] | None = None
    """The headline's 95 % interval: 1,000 bootstrap resamples of groups, percentiles."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """All scores by name, 0-100."""
    signature: str = ""
    """The headline metric's signature: every setting that decides a digit."""
    signatures: Mapping[str, str] = field(default_factory=dict)
    """Metric name to signature, for all metrics that were computed."""
    empty: int = 0
    """Answers that were empty."""
    predictions: str = ""
    """`sha256:` over the answers, whatever their order and compression."""
    reason: str = ""
    """Why it failed."""
    faults: int = 0
    """How many faults its file has."""
    answers: Mapping[str, int] = field(default_factory=dict)
    """How many were `unparseable`, `truncated`, `refused`, or had their `context_cut`: those that are not 0."""
    ceiling: float | None = None
    """Where contexts were cut: of how many examples the gold answer was still there to be found, 0-100."""
    partial: Mapping[str, Any] = field(default_factory=dict)
    """`answered`, `of` and `chosen` of a limited run."""
    variants: Mapping[str, Any] = field(default_factory=dict)
    """Other wordings of the questions: `scores` by number, `mean`, `worst`, `spread`, `predictions`, `failed`."""


@dataclass(frozen=True)
class Total:
    """The sum of what was scored, said so that it cannot be taken for a decaScore."""

    score: float
    """The sum of the headlines of the scored decathlon tasks."""
    of: int
    """The most it could be: 100 for each of them."""
    tasks: int
    """How many of the ten are scored."""
    complete: bool
    """Whether all ten are."""
    text: str
    """`412.3 of 700 (7 of 10 tasks)`, or the decaScore."""
    missing: tuple[str, ...]
    """Decathlon tasks without a file."""
    failed: tuple[str, ...]
    """Decathlon tasks whose file has faults."""
    partial: tuple[str, ...] = ()
    """Decathlon tasks of a limited run, which are not summed."""


@dataclass(frozen=True)
class Results:
    """What `results.json` holds."""

    submission: Mapping[str, Any]
    """The submission's own description."""
    split: str
    """`validation` or `test`."""
    tasks: Mapping[str, TaskResult]
    """By name, in the order of the decathlon."""
    interval: tuple[float, float] | None = None
    """The decaScore's 95 % interval, resampled within each task; None unless all ten are scored."""
    decabench: str = decabench.__version__
    """The version that scored."""
    answers: Answers = "extracted"
    """Which texts were scored: the extracted answers, or all that the model said."""
    format: str = FORMAT
    """The format of the JSON."""

    @property
    def decascore(self) -> float | None:
        """0-1000: the sum of the ten headlines; None unless all ten are scored."""
        total = self.total
        return total.score if total.complete else None

    @property
    def total(self) -> Total:
        """The sum of what there is."""
        tasks = {name: self.tasks[name] for name in DECATHLON.tasks if name in self.tasks}
        scored = [task for task in tasks.values() if task.status == "scored"]
        scores = [task.score for task in scored if task.score is not None]
        score, count = math.fsum(scores), len(scores)
        complete = count == len(DECATHLON.tasks)
        partial = tuple(name for name, task in tasks.items() if task.status == "partial")
        more = f"; {len(partial)} partial, not summed" if partial else ""
        text = (
            f"{score:.1f}"
            if complete
            else f"{score:.1f} of {100 * count} ({count} of {len(DECATHLON.tasks)} tasks{more})"
        )
        failed = tuple(name for name, task in tasks.items() if task.status == "failed")
        missing = tuple(name for name in DECATHLON.tasks if name not in tasks)
        return Total(score, 100 * count, count, complete, text, missing, failed, partial)

    @property
    def ok(self) -> bool:
        """Whether no task failed: a limited run is no fault."""
        return all(task.status != "failed" for task in self.tasks.values())

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, shortest floats that read back the same, one newline at the end."""
        content = {**asdict(self), "decascore": self.decascore, "total": asdict(self.total)}
        content["tasks"] = {name: _without_defaults(task) for name, task in content["tasks"].items()}
        content["total"] = _without_defaults(content["total"])
        if self.answers == "extracted":
            del content["answers"]
        return json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, name: str = "results.json") -> Results:
        """Reads what `to_json` wrote. Raises DataError."""
        try:
            content = parse_json(text)
            if content.get("format") != FORMAT:
                raise DataError(
                    f"{name} has format {content.get('format')!r}, not {FORMAT!r}: evaluate again."
                )
            tasks = {task: _task_result(value) for task, value in content["tasks"].items()}
            results = cls(
                content["submission"],
                content["split"],
                ordered(tasks),
                _pair(content["interval"]),
                content["decabench"],
                content.get("answers", "extracted"),
                content["format"],
            )
            if results.answers not in ("extracted", "raw"):
                raise ValueError(f"its answers are {results.answers!r}, not extracted or raw")
            if not isinstance(results.submission["name"], str) or not math.isfinite(results.total.score):
                raise ValueError("its submission has no name, or a score is no number")
            return results
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{name} is not a results file ({type(error).__name__}: {error}).") from error


_LATER = ("answers", "ceiling", "partial", "variants")
"""Fields that came after the first files were written: left out where they have nothing to say."""


def _without_defaults(content: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in content.items() if key not in _LATER or value not in (None, {}, (), [])
    }


def ordered(tasks: Mapping[str, TaskResult]) -> dict[str, TaskResult]:
    """The decathlon's tasks in its order, then the others by name."""
    names: Sequence[str] = [*DECATHLON.tasks, *sorted(set(tasks) - set(DECATHLON.tasks))]
    return {name: tasks[name] for name in names if name in tasks}


def partial_text(task: TaskResult) -> str:
    """What a limited run answered: `100 of 872 examples, limit 100`."""
    answered, whole, chosen = (task.partial.get(key) for key in ("answered", "of", "chosen"))
    return f"{answered:,} of {whole:,} examples" + (f", {printable(chosen)}" if chosen else "")


def _task_result(value: Mapping[str, Any]) -> TaskResult:
    return TaskResult(**{**value, "data": DataUsed(**value["data"]), "interval": _pair(value["interval"])})


def _pair(value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    low, high = value
    return float(low), float(high)


def write_results_file(folder: Path, results: Results) -> Path:
    """Writes `results.json` into a folder. Raises StorageError."""
    path = folder / "results.json"
    with atomic_file(path) as file:
        file.write(results.to_json().encode("utf-8"))
    return path


def read_results_file(path: Path) -> Results:
    """Reads a `results.json`. Raises DataError."""
    try:
        return Results.from_json(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a results file: it is not UTF-8.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}).") from error
