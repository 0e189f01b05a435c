"""The ledger, a cache of results and their statistics, so that the same answers are not scored twice.

`$DECABENCH_HOME/ledger/<code>/<key>` contains the result of one task. The key is a digest of everything that affects
the result: the answers, the data, the metrics, the options and the code. Leaderboards also cache the examples for
their pages here. The ledger can be deleted at any time, is read only by this module, and is never part of a
submission. Damaged or misnamed entries are ignored.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import decabench
from decabench.errors import DecabenchError
from decabench.files import atomic_file, canonical_json, file_digest, import_zstd
from decabench.metrics import METRICS, Item, Metric
from decabench.scoring.results import TaskResult
from decabench.scoring.significance import Layout, Sample, Spread
from decabench.submission import AlignedAnswers, AnswerKind, Marks
from decabench.tasks import SplitRecord, Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

FORMAT = "decabench.ledger/1"

_FOLDER = "ledger"
_OLD_SECONDS = 7 * 24 * 3600
_ROOMS = ("metrics", "prompts", "scoring", "submission", "tasks")
"""Packages whose code affects results, in addition to the top-level modules."""


Value = TypeVar("Value")


class Deferred(Sequence[Value]):
    """A sequence that is loaded on first use."""

    def __init__(self, read: Callable[[], Sequence[Value]]) -> None:
        self._read = read
        self._known: Sequence[Value] | None = None

    @property
    def values(self) -> Sequence[Value]:
        """The values, which are loaded on first use."""
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
class TaskInputs:
    """The inputs that determine a task's result, apart from the code."""

    task: Task
    """The task."""
    data: SplitRecord
    """The record of the prepared split."""
    split: str
    """The split."""
    files: Mapping[str, str]
    """The SHA-256 of each file of answers, by path in the submission."""
    marks: Sequence[Marks]
    """The entries about each file in submission.toml."""
    answers: AnswerKind
    """Which text of a line to score."""

    @property
    def hidden(self) -> bool:
        """Whether the labels are hidden."""
        return bool(self.data.salt)

    @property
    def key(self) -> str:
        """The name of the entry; empty if the result depends on third-party code, whose version is unknown."""
        task, data = self.task, self.data
        metrics = (task.metric, *task.secondary)
        if not METRICS.keys() >= {*metrics} or not type(task.output).__module__.startswith("decabench."):
            return ""
        content = [
            *(FORMAT, code_digest(), sys.version, task.name, self.split, self.answers),
            *(sorted(self.files.items()), [[marks.partial, marks.incomplete] for marks in self.marks]),
            *(
                data.fingerprint,
                data.units_digest,
                data.salt,
                data.origin,
                data.verified,
                data.rows,
                data.note,
            ),
            {name: METRICS[name].full_signature for name in metrics},
            *(list(metrics), repr(task.output), list(task.unit_names), task.counts.get(self.split)),
            *(task.extractive, len(task.variants), sorted(task.retired_variants), _own_code(task)),
        ]
        return hashlib.sha256(canonical_json(content).encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _own_code(task: Task) -> list[str]:
    modules = {getattr(source.read, "__module__", "") for source in task.sources}
    own = [sys.modules.get(name) for name in sorted(modules) if not name.startswith("decabench.")]
    return [file_digest(Path(module.__file__)) for module in own if module and module.__file__]


@dataclass(frozen=True)
class ScoredTask:
    """A scored task of a submission, with the data behind its score."""

    result: TaskResult
    """The task's entry in the results."""
    references: Sequence[Item]
    """The scored examples, in the order of the data."""
    predictions: Sequence[str] = ()
    """The answer to each example; empty if the task failed."""
    sample: Sample | None = None
    """The statistics by group; None if the task failed."""
    rows: Any = ()
    """(examples, columns): the statistics of each example."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of each file of answers, including other wordings, by path in the submission."""
    variant_rows: Mapping[int, Any] = field(default_factory=dict)
    """The statistics of each example for other wordings, by wording number."""
    aligned: Callable[[], Mapping[int, AlignedAnswers]] = dict
    """Returns the answers to each wording as they were read."""
    units: Any = None
    """(examples, levels): the number of each example's unit; None if the task failed."""
    hidden: bool = False
    """Whether the labels are hidden, so that nothing about single examples can be written or shown."""
    key: str = ""
    """The name of the entry in the ledger; empty if there is no entry."""


@dataclass(frozen=True)
class _Packed:
    """An array stored as bytes, column by column, in the smallest type that represents each number exactly."""

    kind: str
    stored: str
    shape: tuple[int, int]
    content: bytes

    @classmethod
    def of(cls, array: Array) -> _Packed:
        import numpy as np

        columns = np.ascontiguousarray(array.T)
        stored = columns
        with np.errstate(all="ignore"):
            for kind in ("uint8", "int32", "float32"):
                smaller = columns.astype(kind)
                if smaller.astype(columns.dtype).tobytes() == columns.tobytes():
                    stored = smaller
                    break
        content = import_zstd().compress(stored.tobytes(), _LEVEL)
        return cls(columns.dtype.str, stored.dtype.str, (array.shape[0], array.shape[1]), content)

    def unpack(self) -> Array:
        import numpy as np

        found: Array = np.frombuffer(import_zstd().decompress(self.content), self.stored)
        rows, columns = self.shape
        # row by row again, so that sums round in the same order
        return np.ascontiguousarray(found.reshape(columns, rows).T.astype(self.kind))


_LEVEL = 1


@dataclass(frozen=True)
class _Stored:
    key: str
    result: TaskResult
    columns: tuple[str, ...]
    rows: _Packed
    steps: _Packed
    """Units, stored as differences from the previous example's unit, because these compress well."""
    variant_rows: dict[int, _Packed]
    score: float
    spread: tuple[float, float] | None


class Ledger:
    """The ledger in a home folder, limited to entries from this version of the code."""

    def __init__(self, home: Path) -> None:
        self._folder = home / _FOLDER / code_digest()[:16]

    def find(self, inputs: TaskInputs) -> ScoredTask | None:
        """Return the stored result, without texts, or None if there is no valid entry."""
        import msgspec

        if not (key := inputs.key) or (content := self.read(key)) is None:
            return None
        try:
            stored = _decoder().decode(content)
            return _unpack(stored, inputs) if stored.key == key else None
        except (ValueError, msgspec.MsgspecError, import_zstd().ZstdError):
            return None

    def has(self, inputs: TaskInputs) -> bool:
        """Whether there is an entry, which may turn out to be damaged."""
        return (self._folder / inputs.key).is_file()

    def read(self, key: str) -> bytes | None:
        """Return the content of an entry, or None if it is missing or damaged."""
        try:
            content = (self._folder / key).read_bytes()
        except OSError:
            return None
        return content[32:] if hashlib.sha256(content[32:]).digest() == content[:32] else None

    def write(self, key: str, content: bytes) -> None:
        """Write an entry. Does nothing if the folder can't be written."""
        with suppress(DecabenchError, OSError):
            with atomic_file(self._folder / key) as file:
                file.write(hashlib.sha256(content).digest() + content)
            _sweep(self._folder)

    def keep(self, inputs: TaskInputs, found: ScoredTask) -> None:
        """Store a result. Does nothing if the task failed or has no key."""
        import msgspec

        sample = found.sample
        if sample is None or not (key := inputs.key):
            return
        stored = _Stored(
            key,
            replace(found.result, interval=None),
            sample.metric.columns,
            _Packed.of(found.rows),
            _Packed.of(_steps(found.units)),
            {number: _Packed.of(rows) for number, rows in found.variant_rows.items()},
            sample.score,
            (sample.spread.variance, sample.spread.freedom) if len(sample.sizes) > 1 else None,
        )
        self.write(key, msgspec.msgpack.encode(stored))


def _steps(units: Array) -> Array:
    import numpy as np

    return np.diff(units, axis=0, prepend=units.dtype.type(0))


@lru_cache(maxsize=1)
def _decoder() -> Any:
    import msgspec

    return msgspec.msgpack.Decoder(_Stored)


def _unpack(stored: _Stored, inputs: TaskInputs) -> ScoredTask:
    task = inputs.task
    metric: Metric = METRICS[task.metric].for_columns(stored.columns)
    units, layout = _lay_out(stored.steps)
    rows = stored.rows.unpack()
    sample = Sample.of_layout(metric, rows, layout, task.name)
    vars(sample).update(score=stored.score)
    if stored.spread is not None:
        vars(sample).update(spread=Spread(*stored.spread))
    return ScoredTask(
        stored.result,
        references=(),
        sample=sample,
        rows=rows,
        files=inputs.files,
        variant_rows={number: packed.unpack() for number, packed in stored.variant_rows.items()},
        units=units,
        hidden=inputs.hidden,
        key=stored.key,
    )


@lru_cache(maxsize=64)
def _lay_out(steps: _Packed) -> tuple[Array, Layout]:
    import numpy as np

    units = steps.unpack()
    units = np.cumsum(units, axis=0, dtype=units.dtype)
    return units, Layout.of(units)


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Return a digest of all code that affects results. Any change to the code invalidates the ledger."""
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


@lru_cache(maxsize=16)  # once per home
def _sweep(ours: Path) -> None:
    """Remove the entries of code versions that have not written for a week. Other versions may still be in use."""
    with suppress(OSError):
        for other in ours.parent.iterdir():
            if (
                other != ours
                and not other.is_symlink()
                and time.time() - other.stat().st_mtime > _OLD_SECONDS
            ):
                shutil.rmtree(other, ignore_errors=True)
