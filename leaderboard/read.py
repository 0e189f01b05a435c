"""Finds results files below a folder and shows what the board needs of them. What cannot be read is reported."""

from __future__ import annotations

import math
import os
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from decabench.metrics import METRICS, DecabenchError
from decabench.scoring import InvalidResultsError, Results, TaskResult, read_bounded

__all__ = [
    "SPLITS",
    "Entry",
    "Found",
    "LeaderboardError",
    "Limited",
    "Refused",
    "TaskEntry",
    "Wordings",
    "entry_from_results",
    "home_of",
    "read_submissions",
]

SPLITS = ("validation", "test")
"""Splits that have a board, in the order of the page."""

_DIRECTION_MARKS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True)
class Limited:
    """What a limited run has: no score that could be summed, ranked or compared."""

    score: float
    """The headline over what it answered, 0-100."""
    answered: int
    """Examples that it answered."""
    of: int
    """Examples of the split."""
    chosen: str = ""
    """Which they were, in the submission's words."""


@dataclass(frozen=True)
class Wordings:
    """The headline under other wordings of the questions."""

    scores: Mapping[int, float]
    """By number; 0 is the dataset's own wording."""
    mean: float
    """Of all of them."""
    worst: float
    """The lowest."""
    spread: float
    """The highest less the lowest."""


@dataclass(frozen=True)
class TaskEntry:
    """One task of one results file."""

    status: str
    """`scored`, `partial` (a limited run) or `failed`; a task that is not in the file has no entry."""
    score: float | None = None
    """The headline score, 0-100; None where the task failed or is of a limited run."""
    limited: Limited | None = None
    """Set where it is of a limited run."""
    reason: str = ""
    """Why it failed."""
    signature: str = ""
    """The headline metric's: scores of two signatures are not compared."""
    n: int | None = None
    """Examples scored."""
    fingerprint: str = ""
    """Of the data: scores on two fingerprints are not compared."""
    origin: str = ""
    """`upstream`, `mirror`, `sample` or `user`."""
    verified: bool = False
    """Whether the data matched a published checksum."""
    published_count: int | None = None
    """Examples that the dataset's paper counts in this split."""
    note: str = ""
    """What the data's preparation has to say about it."""
    metric: str = ""
    """The headline metric's name."""
    headline: str = ""
    """Which of the scores is the headline."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """All scores by name."""
    signatures: Mapping[str, str] = field(default_factory=dict)
    """By metric name."""
    interval: tuple[float, float] | None = None
    """95 % interval of the headline, where the file has one."""
    empty: int | None = None
    """Answers that were empty."""
    told: Mapping[str, int] = field(default_factory=dict)
    """How many were `unparseable`, `truncated`, `refused`, or had their `context_cut`."""
    found: float | None = None
    """Where contexts were cut: of how many examples the gold answer was still there, 0-100."""
    wordings: Wordings | None = None
    """Where the questions were asked in other words too."""
    predictions: str = ""
    """Digest of the answers that were scored."""


@dataclass(frozen=True)
class Entry:
    """One results file: a submission on a split. All text is clean, single-line and short."""

    path: str
    """Where it was found, relative to the submissions folder."""
    name: str
    """What the submission calls itself."""
    split: str
    """`validation` or `test`."""
    decascore: float | None
    """The sum of the ten; None unless all of them are scored."""
    tasks: Mapping[str, TaskEntry]
    """By task name."""
    authors: tuple[str, ...] = ()
    """Who submitted it."""
    description: str = ""
    """In the submission's words."""
    url: str = ""
    """An http or https address, or empty."""
    model_size: int | None = None
    """Parameters."""
    training_data: str = ""
    """In the submission's words."""
    date: str = ""
    """As given."""
    predictor: str = ""
    """The name of the predictor that wrote the answers, where the file names one."""
    interval: tuple[float, float] | None = None
    """95 % interval of the decaScore, where the file has one."""
    open_weights: bool | None = None
    """Whether the weights can be had; None where the submission does not say."""
    version: str = ""
    """Of decabench, which scored it."""
    wording: int = 0
    """Which variant of the questions was asked in place of the dataset's own; 0 for none."""
    is_raw: bool = False
    """Whether all that the model said was scored, and not the answer that was extracted from it."""
    suite: str = "decathlon"
    """The name of the suite that it was scored for."""

    @property
    def year(self) -> str:
        """`2026`; empty where the date does not start with a year."""
        return self.date[:4] if len(self.date) >= 4 and self.date[:4].isdecimal() else ""


def entry_from_results(results: Results, path: str) -> Entry:
    """Show results as the board does: text cleaned and cut, extras that are not what they should be left out."""
    about = results.submission
    predictor = about.get("predictor")
    settings: Mapping[str, Any] = predictor if isinstance(predictor, dict) else {}
    open_weights = settings.get("open_weights")
    authors = about.get("authors")
    return Entry(
        path=_text(path, 300),
        name=_text(about["name"], 120),
        split=results.split,
        decascore=results.decascore,
        tasks={_text(name): _task_entry(task) for name, task in results.tasks.items()},
        authors=tuple(
            name
            for author in (authors[:20] if isinstance(authors, list) else [authors])
            if (name := _text(author, 80))
        ),
        description=_text(about.get("description"), 500),
        url=_web_address(about.get("url")),
        model_size=_count(about.get("model_size")),
        training_data=_text(about.get("training_data"), 500),
        date=_text(about.get("date"), 40),
        predictor=_text(settings.get("name") if settings else predictor, 80),
        interval=results.interval,
        open_weights=open_weights if isinstance(open_weights, bool) else None,
        version=_text(results.decabench, 40),
        wording=_count(settings.get("variant")) or 0,
        is_raw=results.answers == "raw",
        suite=_text(results.suite.name, 80),
    )


def _task_entry(task: TaskResult) -> TaskEntry:
    metric = METRICS.get(task.metric)
    score = task.score
    if score is not None and (metric is None or metric.range[1] == 100):
        score = min(score, 100.0)  # a perfect BLEU is 100.00000000000004
    limited = None
    if task.status == "partial" and score is not None:
        chosen = _text(task.partial.get("chosen"))
        limited = Limited(score, task.partial["answered"], task.partial["of"], chosen)
    counts = {key: task.answers.get(key, 0) for key in ("unparseable", "refused", "truncated", "context_cut")}
    return TaskEntry(
        status=task.status,
        score=score if task.status == "scored" else None,
        limited=limited,
        reason=_text(task.reason) or ("no reason given" if task.status == "failed" else ""),
        signature=_text(task.signatures.get(task.metric, task.signature), 300),
        n=task.n,
        fingerprint=_text(task.data.fingerprint),
        origin=_text(task.data.origin, 40),
        verified=task.data.verified,
        published_count=task.data.published_count,
        note=_text(task.data.note, 500),
        metric=_text(task.metric, 80),
        headline=_text(task.headline, 80),
        scores={_text(name, 80): value for name, value in sorted(task.scores.items())[:60]},
        signatures={
            _text(name, 80): _text(value, 300) for name, value in sorted(task.signatures.items())[:20]
        },
        interval=task.interval,
        empty=task.empty,
        told={key: count for key, count in counts.items() if count},
        found=task.ceiling,
        wordings=_wordings(task, metric is None or metric.higher_is_better),
        predictions=_text(task.predictions, 100),
    )


def _wordings(task: TaskResult, higher_is_better: bool) -> Wordings | None:
    """Sum up the variants' scores here, whatever the file says."""
    given = task.variants.get("scores", {})
    scores = {int(number): float(score) for number, score in given.items()}
    if len(scores) < 2:
        return None
    values = list(scores.values())
    best, worst = max(values), min(values)
    if not higher_is_better:
        best, worst = worst, best
    mean = math.fsum(values) / len(values)
    return Wordings(dict(sorted(scores.items())), mean, worst, abs(best - worst))


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _web_address(value: object) -> str:
    """Return an address if it is plain http or https, else nothing: `javascript:` must never become a link."""
    if not isinstance(value, str) or len(value) > 500 or not value.isprintable() or " " in value:
        return ""
    try:
        parts = urlsplit(value)
        safe = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return ""
    return value if safe else ""


def _text(value: object, limit: int = 200) -> str:
    """Return one short line of well-formed text; anything but a string is empty."""
    if not isinstance(value, str):
        return ""
    whole = value[: 4 * limit].encode("utf-8", "replace").decode("utf-8")
    kept = (
        " " if unicodedata.category(character) in ("Cc", "Zl", "Zp") else character
        for character in whole
        if character not in _DIRECTION_MARKS
    )
    line = " ".join("".join(kept).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


_DEPTH = 4
"""Folders below the submissions folder that are looked into: `<group>/<submission>/results/<split>`."""


class LeaderboardError(DecabenchError, ValueError):
    """The board cannot be built: there is no such folder."""


@dataclass(frozen=True)
class Refused:
    """Something that is not on the board, and why."""

    path: str
    """Relative to the submissions folder."""
    reason: str
    """For a person."""


@dataclass(frozen=True)
class Found:
    """Everything under a submissions folder, in the order of paths."""

    entries: tuple[Entry, ...] = ()
    """Results files that can stand on the board."""
    unreadable: tuple[Refused, ...] = ()
    """Files that look like results and are not."""
    not_evaluated: tuple[str, ...] = ()
    """Folders with a `submission.toml` and no results file."""


def read_submissions(submissions: Path) -> Found:
    """Read every results file: `results*.json`, `*.results.json`, and any `*.json` in a folder `results`.

    Raises LeaderboardError if there is no such folder.
    """
    if not submissions.is_dir():
        raise LeaderboardError(f"There is no folder {submissions}; give the one that holds the submissions.")
    entries: list[Entry] = []
    unreadable: list[Refused] = []
    evaluated: set[str] = set()
    seen: set[tuple[str, str]] = set()
    for path, shown in _candidates(submissions, unreadable):
        home = home_of(shown)
        try:
            text = read_bounded(path)
            results = Results.from_json(text, shown)
            if results.split not in SPLITS:
                reason = f"its split is {results.split}; boards are for {' and '.join(SPLITS)}"
                raise InvalidResultsError(shown, reason)
        except InvalidResultsError as error:
            if not error.kind.startswith("decabench.") or error.kind.startswith("decabench.results/"):
                evaluated.add(home)
                unreadable.append(Refused(_printable(shown), _text(error.reason, 300)))
            continue
        evaluated.add(home)
        if (home, text) not in seen:
            seen.add((home, text))
            entries.append(entry_from_results(results, shown))
    waiting = (folder for folder in _submission_folders(submissions) if folder not in evaluated)
    return Found(
        tuple(entries),
        tuple(sorted(unreadable, key=lambda refused: refused.path)),
        tuple(_printable(folder) for folder in waiting),
    )


def _candidates(submissions: Path, unreadable: list[Refused]) -> list[tuple[Path, str]]:
    """(file, path to show), each file once however many links lead to it."""
    found: dict[str, tuple[Path, str]] = {}
    for path, shown in sorted(_walk(submissions, unreadable), key=lambda pair: (pair[1].count("/"), pair[1])):
        if _is_results_name(path):
            found.setdefault(os.path.realpath(path), (path, shown))
    return sorted(found.values(), key=lambda pair: pair[1])


def _submission_folders(submissions: Path) -> list[str]:
    manifests = (shown for path, shown in _walk(submissions, []) if path.name == "submission.toml")
    return sorted(home_of(shown) for shown in manifests)


def _walk(submissions: Path, unreadable: list[Refused]) -> Iterator[tuple[Path, str]]:
    def refuse(error: OSError) -> None:
        folder = os.path.relpath(error.filename or submissions, submissions)
        unreadable.append(Refused(_printable(folder), error.strerror or "cannot be opened"))

    for folder, folders, files in os.walk(submissions, onerror=refuse, followlinks=True):
        here = Path(folder)
        depth = len(here.relative_to(submissions).parts)
        folders[:] = sorted(name for name in folders if depth < _DEPTH and not name.startswith("."))
        for name in sorted(files):
            yield here / name, (here / name).relative_to(submissions).as_posix()


def _is_results_name(path: Path) -> bool:
    name = path.name
    if name.startswith(".") or not name.endswith(".json"):
        return False
    return name.startswith("results") or name.endswith(".results.json") or path.parent.name == "results"


def home_of(shown: str) -> str:
    """The submission's folder that a file belongs to; `.` is the submissions folder itself."""
    parts = Path(shown).parent.parts
    return Path(*(parts[: parts.index("results")] if "results" in parts else parts)).as_posix()


def _printable(path: str) -> str:
    return "".join(
        c if c.isprintable() else "\ufffd" for c in path.encode("utf-8", "replace").decode("utf-8")
    )
