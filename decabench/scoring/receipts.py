"""Receipts of what this machine scored itself, by which `compare` and boards use statistics instead of scoring again.

A receipt holds the result of a task and the digest of its statistics. It is named after a digest of everything that
decides them: the bytes of the answers, the data, the metrics' signatures and the code. Receipts are kept beside the
prepared data, never in a submission, whose author could have written them: statistics without one count for nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, overload
from urllib.parse import quote_from_bytes, unquote_to_bytes

import decabench
from decabench.errors import DecabenchError
from decabench.files import atomic_file, canonical_json, file_digest
from decabench.metrics import METRICS
from decabench.scoring.results import TaskResult, parse_task, statistics_path, task_record
from decabench.scoring.significance import Sample, read_rows, stored_metric
from decabench.submission import RESULTS, AnswerKind
from decabench.tasks import TASKS, Store, Task
from decabench.untrusted import read_json

__all__ = ["Deferred", "Receipt", "ScoredFile", "code_digest", "find_receipt", "write_receipt"]

FORMAT = "decabench.receipt/2"

_FOLDER = "receipts"
_LARGEST = 1 << 20
_OLD_SECONDS = 7 * 24 * 3600
_ROOMS = ("metrics", "prompts", "scoring", "submission", "tasks")
"""The rooms whose code decides a result, beside the files above the rooms."""

Value = TypeVar("Value")


class Deferred(Sequence[Value]):
    """A sequence that is read when something of it is first needed."""

    def __init__(self, read: Callable[[], Sequence[Value]]) -> None:
        self._read = read
        self._known: Sequence[Value] | None = None

    @property
    def values(self) -> Sequence[Value]:
        """What was read."""
        if self._known is None:
            self._known = self._read()
        return self._known

    @overload
    def __getitem__(self, index: int) -> Value: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Value]: ...
    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Value]:
        return iter(self.values)


@dataclass(frozen=True)
class ScoredFile:
    """What was scored, and by what: everything that decides a result, besides the code."""

    task: Task
    """The task."""
    split: str
    """The split."""
    files: Mapping[str, str]
    """The files of its answers: path in the submission to sha256."""
    answers: AnswerKind
    """Which text of a line was scored."""

    def receipt_path(self, store: Store) -> Path | None:
        """Return where the receipt is; None if there can be none.

        There is none for tasks and metrics of others, whose code nothing here stands for, nor for several wordings.
        """
        names = (self.task.metric, *self.task.secondary)
        if (
            TASKS.get(self.task.name) is not self.task
            or len(self.files) != 1
            or not METRICS.keys() >= {*names}
        ):
            return None
        code = code_digest()
        content = [
            FORMAT,
            code,
            sys.version,
            self.task.name,
            self.split,
            dict(self.files),
            self.answers,
            asdict(store.record(self.task.name, self.split)),
            {name: METRICS[name].full_signature for name in names},
        ]
        key = hashlib.sha256(canonical_json(content).encode("utf-8", "surrogatepass")).hexdigest()
        return store.home / _FOLDER / code[:16] / f"{key[:40]}.json"


@dataclass(frozen=True)
class Receipt:
    """A result of this machine, with the statistics behind it."""

    result: TaskResult
    """The result, without its interval."""
    sample: Sample
    """The statistics by unit."""
    rows: Any
    """(examples, columns): the statistics of each example."""
    units: Any
    """(examples, levels): the number of each example's unit."""
    statistics: str
    """sha256 of the file of statistics."""


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Compute a digest of the code and tables that decide a result, so that no receipt outlives a change to them."""
    digest = hashlib.sha256()
    for path in sorted(_code_files(Path(decabench.__file__).parent)):
        digest.update(f"{path.name}\n{file_digest(path)}\n".encode())
    return digest.hexdigest()


def _code_files(package: Path) -> Iterator[Path]:
    yield from package.glob("*.py")
    for room in _ROOMS:
        for path in (package / room).resolve().rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and "sample" not in path.parts:
                yield path


def write_receipt(store: Store, scored: ScoredFile, result: TaskResult, statistics: Path) -> None:
    """Keep a receipt for a task that was scored as a whole. Where none can be written, there is none, and no error.

    It has no scores of a part of the examples (`--without`), which other options would want of another part.
    """
    if result.status != "scored" or result.variants:
        return
    with suppress(DecabenchError, OSError, ValueError):  # a receipt saves time, and is worth no result
        path = scored.receipt_path(store)
        if (
            path is None
            or result.data.fingerprint != store.record(scored.task.name, scored.split).fingerprint
        ):
            return
        content = {
            "format": FORMAT,
            "result": task_record(replace(result, without=None)),
            "statistics": file_digest(statistics),
            "path": quote_from_bytes(os.fsencode(statistics.absolute()), safe="/ "),
        }
        with atomic_file(path) as file:
            file.write((json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode())
        _sweep(path.parent)


@lru_cache(maxsize=16)  # once for each home
def _sweep(ours: Path) -> None:
    """Remove the receipts of other code that has written none for days; a second version may share the home."""
    with suppress(OSError):
        for other in ours.parent.iterdir():
            if other == ours or other.is_symlink() or time.time() - other.stat().st_mtime < _OLD_SECONDS:
                continue
            if other.is_dir():
                shutil.rmtree(other, ignore_errors=True)
            elif other.suffix == ".json":  # of earlier versions, which had one folder for all code
                other.unlink(missing_ok=True)


def find_receipt(store: Store, scored: ScoredFile, submission: Path) -> Receipt | None:
    """Return what this machine found before, if the statistics are still there, byte for byte; else None."""
    path = scored.receipt_path(store)
    if path is None or not path.is_file():
        return None
    name = scored.task.name
    try:
        content = read_json(path, _LARGEST)
        if content["result"]["data"]["fingerprint"] != store.record(name, scored.split).fingerprint:
            return None
        places = (
            Path(os.fsdecode(unquote_to_bytes(content["path"]))),
            statistics_path(submission / RESULTS / scored.split, name),
        )
        for place in places:
            # Read once, as it may be replaced meanwhile.
            statistics = place.read_bytes() if place.is_file() else b""
            if f"sha256:{hashlib.sha256(statistics).hexdigest()}" == content["statistics"]:
                result = parse_task(name, content["result"])
                metric = stored_metric(METRICS[scored.task.metric], statistics)
                units, rows = read_rows(statistics, metric.columns)
                sample = Sample.of_levels(metric, rows, units, name)
                return Receipt(result, sample, rows, units, content["statistics"])
    except (DecabenchError, OSError, ValueError, KeyError, TypeError):
        return None
    return None
