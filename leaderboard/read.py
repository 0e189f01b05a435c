"""Finds results files under a folder. What cannot be read is reported, never dropped."""

from __future__ import annotations

import json
import math
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from decabench.metrics import DecabenchError

__all__ = [
    "FORMAT",
    "SPLITS",
    "Entry",
    "Found",
    "LeaderboardError",
    "Limited",
    "Refused",
    "TaskEntry",
    "Unreadable",
    "Wordings",
    "entry_from_json",
    "home_of",
    "read",
]

# ---- result

FORMAT = "decabench.results/1"
"""The only format version this board reads."""

SPLITS = ("validation", "test")
"""Splits that have a board, in the order of the page."""

_HUNDRED = 100 + 1e-6
"""A perfect BLEU ends at 100.00000000000004."""

_ROUNDING = 0.06
"""A file may store ten scores rounded to two decimals; their sum is then off by at most this."""

_DIRECTION_MARKS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Unreadable(ValueError):
    """A results file cannot stand on the board; the message says why."""


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
    """As the file has it; checked against the task scores."""
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

    @property
    def year(self) -> str:
        """`2026`; empty where the date does not start with a year."""
        return self.date[:4] if len(self.date) >= 4 and self.date[:4].isdecimal() else ""


def entry_from_json(data: object, path: str, names: Sequence[str]) -> Entry:
    """Check parsed JSON; `names` are the tasks that a decaScore sums. Raises Unreadable."""
    if not isinstance(data, dict):
        raise Unreadable("not a results file: its JSON is not an object")
    if data.get("format") != FORMAT:
        raise Unreadable(f"its format is {_quoted(data.get('format'))}; this board reads {_quoted(FORMAT)}")
    if data.get("split") not in SPLITS:
        raise Unreadable(f"its split is {_quoted(data.get('split'))}; boards are for {' and '.join(SPLITS)}")
    tasks = data.get("tasks")
    if not isinstance(tasks, dict):
        raise Unreadable("it has no tasks")
    about = data.get("submission")
    if not isinstance(about, dict) or not _text(about.get("name")):
        raise Unreadable("its submission has no name")
    entries = {_text(name): _task(name, task) for name, task in tasks.items() if not _is_missing(task)}
    return Entry(
        path=_text(path, 300),
        name=_text(about["name"], 120),
        split=data["split"],
        decascore=_decascore(data.get("decascore"), entries, names),
        tasks=entries,
        authors=_authors(about.get("authors")),
        description=_text(about.get("description"), 500),
        url=_web_address(about.get("url")),
        model_size=_count(about.get("model_size")),
        training_data=_text(about.get("training_data"), 500),
        date=_text(about.get("date"), 40),
        predictor=_predictor(about.get("predictor")),
        interval=_interval(data.get("interval"), 1000.0),
        open_weights=_open_weights(about.get("predictor")),
        version=_text(data.get("decabench"), 40),
        wording=_wording(about.get("predictor")),
        is_raw=data.get("answers") == "raw",
    )


def _is_missing(task: object) -> bool:
    return isinstance(task, dict) and task.get("status") == "missing"


def _task(name: str, task: object) -> TaskEntry:
    status = task.get("status") if isinstance(task, dict) else None
    if not isinstance(task, dict) or status not in ("scored", "partial", "failed"):
        raise Unreadable(f"{_text(name)}: its status is {_quoted(status)}, not scored, partial or failed")
    given = task.get("data")
    data: dict[str, Any] = given if isinstance(given, dict) else {}
    entry = TaskEntry(
        status=status,
        score=_score(name, task.get("score")) if status == "scored" else None,
        limited=_limited(name, task) if status == "partial" else None,
        reason=_text(task.get("reason")) or ("no reason given" if status == "failed" else ""),
        signature=_signature(task),
        n=_count(task.get("n")),
        fingerprint=_text(data.get("fingerprint")),
        origin=_text(data.get("origin"), 40),
        verified=data.get("verified") is True,
        published_count=_count(data.get("published_count")),
        note=_text(data.get("note"), 500),
        metric=_text(task.get("metric"), 80),
        headline=_text(task.get("headline"), 80),
        scores=_scores(task.get("scores")),
        signatures=_signatures(task.get("signatures")),
        interval=_interval(task.get("interval"), 100.0),
        empty=_count(task.get("empty")),
        predictions=_text(task.get("predictions"), 100),
        told=_told(task.get("answers")),
        found=_percentage(task.get("ceiling")),
        wordings=_wordings(task.get("variants")),
    )
    if status != "failed" and not entry.fingerprint:
        raise Unreadable(f"{_text(name)}: scored, but without the fingerprint of its data")
    return entry


def _limited(name: str, task: Mapping[str, Any]) -> Limited:
    """A limited run must say of how many, so that it is never taken for a whole one."""
    given = task.get("partial")
    about: dict[str, Any] = given if isinstance(given, dict) else {}
    answered, whole = _count(about.get("answered")), _count(about.get("of"))
    if not answered or not whole or answered >= whole:
        raise Unreadable(
            f"{_text(name)}: partial, but it does not say how many examples it answered of how many"
        )
    return Limited(_score(name, task.get("score")), answered, whole, _text(about.get("chosen")))


def _told(value: object) -> dict[str, int]:
    """Those counts that are known and not 0."""
    given = value if isinstance(value, dict) else {}
    counts = {key: _count(given.get(key)) for key in ("unparseable", "refused", "truncated", "context_cut")}
    return {key: count for key, count in counts.items() if count}


def _percentage(value: object) -> float | None:
    number = _number(value)
    return number if number is not None and 0 <= number <= _HUNDRED else None


def _wordings(value: object) -> Wordings | None:
    """An extra: what cannot be is left out. The summary is made here, so it is that of the scores."""
    given = value.get("scores") if isinstance(value, dict) else None
    pairs = list(given.items())[:20] if isinstance(given, dict) else []
    numbers = {key: _percentage(score) for key, score in pairs if re.fullmatch("0|[1-9][0-9]{0,2}", str(key))}
    scores = {int(key): score for key, score in numbers.items() if score is not None}
    if len(scores) < 2 or 0 not in scores:
        return None
    values = list(scores.values())
    lowest, highest = min(values), max(values)
    mean = math.fsum(values) / len(values)
    return Wordings(dict(sorted(scores.items())), mean, lowest, highest - lowest)


def _signature(task: Mapping[str, Any]) -> str:
    """Of the headline metric: one string, or the entry of that metric in `signatures`."""
    by_metric = task.get("signatures")
    if isinstance(by_metric, dict):
        return _text(by_metric.get(task.get("metric")), 300)
    return _text(task.get("signature"), 300)


def _scores(value: object) -> dict[str, float]:
    """Those that are numbers."""
    given = value.items() if isinstance(value, dict) else ()
    numbers = {_text(name, 80): _number(score) for name, score in list(given)[:60]}
    return {name: number for name, number in sorted(numbers.items()) if name and number is not None}


def _signatures(value: object) -> dict[str, str]:
    given = value.items() if isinstance(value, dict) else ()
    texts = {_text(name, 80): _text(signature, 300) for name, signature in list(given)[:20]}
    return {name: text for name, text in sorted(texts.items()) if name and text}


def _interval(value: object, highest: float) -> tuple[float, float] | None:
    """An interval is an extra: one that cannot be is left out, and the score stands without it."""
    if not isinstance(value, list) or len(value) != 2:
        return None
    low, high = _number(value[0]), _number(value[1])
    if low is None or high is None or not -1e-6 <= low <= high <= highest + 1e-6:
        return None
    return low, high


def _score(name: str, value: object) -> float:
    number = _number(value)
    if number is None or not 0 <= number <= _HUNDRED:
        raise Unreadable(f"{_text(name)}: its score is {_quoted(value)}, not a number from 0 to 100")
    return min(number, 100.0)


def _decascore(value: object, tasks: Mapping[str, TaskEntry], names: Sequence[str]) -> float | None:
    """The file's decaScore, if it is the sum of the scores of all tasks."""
    if value is None:
        return None
    scores = [entry.score for name, entry in tasks.items() if name in names and entry.score is not None]
    stated = _number(value)
    if stated is None:
        raise Unreadable(f"its decaScore is {_quoted(value)}, not a number")
    if len(scores) != len(names):
        raise Unreadable(f"it claims a decaScore with {len(scores)} of {len(names)} tasks scored")
    if abs(math.fsum(scores) - stated) > _ROUNDING:
        raise Unreadable(f"its decaScore is {stated:.2f}, but its task scores sum to {math.fsum(scores):.2f}")
    return stated


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _count(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number >= 0 else None


def _authors(value: object) -> tuple[str, ...]:
    given = value if isinstance(value, list) else [value]
    return tuple(name for name in (_text(author, 80) for author in given[:20]) if name)


def _predictor(value: object) -> str:
    return _text(value.get("name") if isinstance(value, dict) else value, 80)


def _wording(predictor: object) -> int:
    return _count(predictor.get("variant")) or 0 if isinstance(predictor, dict) else 0


def _open_weights(predictor: object) -> bool | None:
    said = predictor.get("open_weights") if isinstance(predictor, dict) else None
    return said if isinstance(said, bool) else None


def _web_address(value: object) -> str:
    """The address if it is plain http or https, else nothing: `javascript:` must never become a link."""
    if not isinstance(value, str) or len(value) > 500 or not value.isprintable() or " " in value:
        return ""
    try:
        parts = urlsplit(value)
        safe = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return ""
    return value if safe else ""


def _text(value: object, limit: int = 200) -> str:
    """One short line of well-formed text; anything but a string is empty."""
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


def _quoted(value: object) -> str:
    """A given value, for a message."""
    return _text(f"“{value}”" if isinstance(value, str) else repr(value), 80)


# ---- read

_DEPTH = 4
"""Folders below the submissions folder that are looked into: `<group>/<submission>/results/<split>`."""

_LARGEST = 16 * 2**20
"""Bytes; a results file has a few thousand."""


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


def read(submissions: Path, names: Sequence[str]) -> Found:
    """Read every results file: `results*.json`, `*.results.json`, and any `*.json` in a folder `results`."""
    if not submissions.is_dir():
        raise LeaderboardError(f"There is no folder {submissions}; give the one that holds the submissions.")
    entries: list[Entry] = []
    unreadable: list[Refused] = []
    evaluated: set[str] = set()
    seen: set[tuple[str, bytes]] = set()
    for path, shown in _candidates(submissions, unreadable):
        try:
            content, data = _json(path)
            if _is_of_another_kind(data):
                continue
            evaluated.add(home_of(shown))
            if (home_of(shown), content) in seen:
                continue
            seen.add((home_of(shown), content))
            entries.append(entry_from_json(data, shown, names))
        except Unreadable as error:
            evaluated.add(home_of(shown))
            unreadable.append(Refused(_printable(shown), str(error)))
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


def _json(path: Path) -> tuple[bytes, Any]:
    """The bytes and their JSON. Raises Unreadable."""
    try:
        if not path.is_file():
            raise Unreadable("not a regular file")
        if path.stat().st_size > _LARGEST:
            raise Unreadable(f"larger than {_LARGEST // 2**20} MiB")
        content = path.read_bytes()
        return content, json.loads(
            content.decode("utf-8-sig"), object_pairs_hook=_object, parse_constant=_no_constant
        )
    except Unreadable:
        raise
    except OSError as error:
        raise Unreadable(error.strerror or "cannot be opened") from None
    except UnicodeDecodeError:
        raise Unreadable("not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise Unreadable(f"not JSON: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise Unreadable("not a results file: nested too deeply") from None
    except ValueError:
        raise Unreadable("not JSON: a number too long to read") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise Unreadable("not clear: a key stands twice in one object")
    return dict(pairs)


def _no_constant(name: str) -> NoReturn:
    raise Unreadable(f"not JSON: {name} is no number")


def _is_of_another_kind(data: object) -> bool:
    """Whether it is some other file of decabench's, such as the times kept beside the results."""
    kind = data.get("format") if isinstance(data, dict) else None
    return (
        isinstance(kind, str) and kind.startswith("decabench.") and kind.split("/")[0] != "decabench.results"
    )


def _printable(path: str) -> str:
    return "".join(
        c if c.isprintable() else "\ufffd" for c in path.encode("utf-8", "replace").decode("utf-8")
    )
