"""What scoring needs of a split: ids, answers, units and meta, in columns, without questions and contexts.

They stand in `<split>.references.parquet` beside the split's own file. `prepare` leaves them for the splits that are
scored; for others, and for data prepared by earlier versions, they are made on first use. Beside them,
`<split>.references.json` has their digest, that of the file they were made from, and the fingerprint: what was checked
once, row by row, is trusted as long as these hold. Splits that are not scored have this note without references, so
that `prepare` knows altered data by their digest.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from decabench.errors import DataError, DecabenchError, StorageError
from decabench.files import atomic_file, file_digest, file_digests, read_errors
from decabench.metrics import METRICS, Item, MetricError, Reference
from decabench.tasks.store import (
    SplitRecord,
    Store,
    fingerprint_line,
    include_option,
    prepare_again,
    units_line,
)
from decabench.tasks.task import Task
from decabench.untrusted import open_parquet, read_json

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Array = NDArray[Any]

_Gold = TypeVar("_Gold", bound=Reference)

__all__ = [
    "SCORED_SPLITS",
    "References",
    "check_classes",
    "has_noted_digest",
    "has_recorded_rows",
    "keep_references",
    "nest_units",
    "number_units",
    "read_references",
    "require_classes",
    "require_content",
    "require_current",
]

FORMAT = "decabench.references/1"
SCORED_SPLITS = ("validation", "test")
"""The splits whose references `prepare` keeps."""
_COLUMNS = ["id", "answers", "units", "meta"]
_BATCH = 10_000
_LARGEST_NOTE = 10_000
_LONG_TO_READ = 4 << 20
_FEW = 50_000
"""Up to so many examples, making items again takes longer than keeping them takes memory."""


def read_references(store: Store, task: str, split: str) -> References:
    """Return the gold answers of a prepared split, in its order.

    Raises MissingDataError if it is not prepared, DataError if it is damaged or is not the data of its record.
    """
    record = store.record(task, split)
    try:
        with read_errors(store.path(task, split)):
            facts = _facts(store, task, split, record)
    except OSError as error:
        raise DataError(f"The prepared data of {task}, {split}, cannot be read ({error}).") from error
    found = _read_kept(store, task, split, facts)
    if found is not None:
        return found
    require_content(store, task, split)
    try:
        _write(store, task, split, facts)
    except StorageError:  # a home that this user may only read
        return References(_read_columns(store.path(task, split)))
    return References(_read_columns(_path(store, task, split)))


def keep_references(store: Store, task: str, split: str, record: SplitRecord) -> None:
    """Keep the references of a split that was just written, or only its digest. Raises StorageError."""
    facts = _facts(store, task, split, record)
    if split in SCORED_SPLITS:
        _write(store, task, split, facts)
    else:
        _write_note(store, task, split, facts)


def has_noted_digest(store: Store, task: str, split: str) -> bool:
    """Tell whether the file of a prepared split has the digest that was noted of it.

    This guards against accidents. Whoever alters data on purpose can alter the note; readers of all rows see it.
    """
    try:
        facts = _facts(store, task, split, store.record(task, split))
    except (DecabenchError, OSError):
        return False
    return facts.items() <= _read_note(store, task, split).items()


def has_recorded_rows(store: Store, task: str, split: str, say_reading: Callable[[], None]) -> bool:
    """Tell whether a prepared split is the data of its record, row by row; if so, note the digest of its file.

    Of a home that this user may only read, nothing can be noted. `say_reading` is called before what takes long.
    """
    try:
        facts = _facts(store, task, split, store.record(task, split))
        if store.path(task, split).stat().st_size > _LONG_TO_READ:
            say_reading()
        require_content(store, task, split)
    except (DecabenchError, OSError):
        return False
    with suppress(StorageError):
        _write_note(store, task, split, facts)
    return True


def _path(store: Store, task: str, split: str) -> Path:
    return store.folder(task) / f"{split}.references.parquet"


def _note_path(store: Store, task: str, split: str) -> Path:
    return _path(store, task, split).with_suffix(".json")


def _read_note(store: Store, task: str, split: str) -> dict[str, str]:
    """Read the digests that were noted of a split; empty if there are none."""
    try:
        return read_json(_note_path(store, task, split), _LARGEST_NOTE)
    except (OSError, ValueError):
        return {}


def _write_note(store: Store, task: str, split: str, note: dict[str, str]) -> None:
    with atomic_file(_note_path(store, task, split)) as file:
        file.write((json.dumps(note, indent=1, sort_keys=True) + "\n").encode())


def _facts(store: Store, task: str, split: str, record: SplitRecord) -> dict[str, str]:
    """Return everything that decides the references."""
    return {
        "format": FORMAT,
        "examples": file_digest(store.path(task, split)),
        "fingerprint": record.fingerprint,
        "units_digest": record.units_digest,
    }


def require_content(store: Store, task: str, split: str) -> None:
    """Check that the examples of a prepared split are those of its record. Raises MissingDataError, DataError."""
    record = store.record(task, split)
    digest, units_digest = hashlib.sha256(record.salt.encode()), hashlib.sha256()
    for example in store.examples(task, split):
        digest.update(fingerprint_line(example))
        units_digest.update(units_line(example.units))
    found = (f"sha256:{digest.hexdigest()}", f"sha256:{units_digest.hexdigest()}")
    if found != (record.fingerprint, record.units_digest):
        raise DataError(
            f"The prepared data of {task}, {split}, does not match its record: {prepare_again(task, record)}."
        )


def require_current(task: Task, store: Store, split: str) -> None:
    """Raise DataError if a task's own files are not those that it was prepared from, nor copies of them.

    Nothing is known of files that are not there any more, nor of tasks that are prepared from elsewhere.
    """
    record = store.records(task.name).get(split)
    if task.folder is None or record is None or record.origin != "user":
        return
    for file in record.files:
        name = str(file["name"])
        path = task.folder / name
        if path.is_file() and (
            path.stat().st_size != file["size"] or file_digests(path)["sha256"] != file["sha256"]
        ):
            raise DataError(
                f"{name} was changed since {task.name} was prepared from it: run decabench prepare "
                f"{task.name}{include_option(task)} again."
            )


def _write(store: Store, task: str, split: str, facts: dict[str, str]) -> None:
    """Copy the columns in batches, so memory does not grow with the split. Raises StorageError."""
    import pyarrow.parquet as pq

    path = _path(store, task, split)
    with open_parquet(store.path(task, split)) as source, atomic_file(path) as file:
        schema = source.schema_arrow
        kept = schema.empty_table().select(_COLUMNS).schema.with_metadata(facts)
        with pq.ParquetWriter(file, kept, compression="zstd", write_page_checksum=True) as writer:
            for batch in source.iter_batches(_BATCH, columns=_COLUMNS, use_threads=False):
                writer.write_batch(batch.select(_COLUMNS).replace_schema_metadata(facts))
    _write_note(store, task, split, {**facts, "references": file_digest(path)})


def _read_kept(store: Store, task: str, split: str, facts: dict[str, str]) -> References | None:
    """Return the references kept of a split; None if they are missing, damaged, were written to since, or of others."""
    import pyarrow as pa

    path = _path(store, task, split)
    try:
        if _read_note(store, task, split) != {**facts, "references": file_digest(path)}:
            return None
        return References(_read_columns(path))
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return None


def _read_columns(path: Path) -> pa.Table:
    import pyarrow as pa

    with open_parquet(path, page_checksum_verification=True) as file:
        table = file.read(_COLUMNS, use_threads=False)
    pa.default_memory_pool().release_unused()  # what reading took beyond the columns
    return table


class References(Sequence[Item]):
    """The gold answers of a split, in its order.

    They stay in columns, which take a quarter of the memory of items, and items are made each time they are asked for;
    those of a small split are kept once they were made.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._kept: list[Item] | None = None

    @property
    def ids(self) -> list[str]:
        """The ids of all examples."""
        found: list[str] = self._table.column("id").to_pylist()
        return found

    def unit_numbers(self) -> Array:
        """Return the numbers of the units of each example, (examples, levels), as `number_units` gives them."""
        import numpy as np
        import pyarrow as pa

        units = self._table.column("units")
        codes = pa.chunked_array([chunk.flatten() for chunk in units.chunks], pa.string()).dictionary_encode()
        labels = np.concatenate([np.from_dlpack(chunk.indices) for chunk in codes.chunks])
        del codes
        pa.default_memory_pool().release_unused()
        labels = labels.reshape(len(self), -1)
        if labels.shape[1] == 1:
            return labels  # numbered in the order of their first examples
        return np.stack([level.astype(np.int32) for level in nest_units(labels)], axis=1)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[Item]:
        if self._kept is None and len(self) > _FEW:
            return _make_items(self._table)
        return iter(self._all())

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: Any) -> Any:
        if self._kept is not None or len(self) <= _FEW:
            return self._all()[index]
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return list(_make_items(self._table.slice(start, max(stop - start, 0))))
            return [self[at] for at in range(start, stop, step)]
        at = range(len(self))[index]
        return next(_make_items(self._table.slice(at, 1)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def _all(self) -> list[Item]:
        if self._kept is None:
            self._kept = list(_make_items(self._table))
        return self._kept


def _make_items(table: pa.Table) -> Iterator[Item]:
    for batch in table.to_batches(_BATCH):
        ids, metas = (batch.column(name).to_pylist() for name in ("id", "meta"))
        answers, units = (_tuples(batch.column(name)) for name in ("answers", "units"))
        # Most examples have no meta; it was validated when it was written.
        read = ({} if meta == "{}" else json.loads(meta) for meta in metas)
        yield from map(Item, answers, ids, units, read)


def _tuples(column: pa.ListArray) -> list[tuple[str, ...]]:
    """Return a column of lists as tuples: all texts at once, and then cut, as pyarrow is slow with single lists."""
    texts: list[str] = column.flatten().to_pylist()
    ends: list[int] = column.offsets.to_pylist()
    first = ends[0] if ends else 0
    return [tuple(texts[start - first : end - first]) for start, end in pairwise(ends)]


# Numbers of units: what intervals vary, without the labels


def number_units(units: Sequence[Sequence[str]]) -> Array:
    """Number the units of each level from 0, in order of their first example: (examples, levels).

    Inner units are told apart by outer ones. Rows without units are each a unit of their own.
    """
    import numpy as np

    if not units[0]:
        return np.arange(len(units))[:, None]
    labels = []
    for level in range(len(units[0])):
        numbers: dict[str, int] = {}
        labels.append([numbers.setdefault(names[level], len(numbers)) for names in units])
    return np.stack(list(nest_units(np.array(labels).T)), axis=1)


def nest_units(labels: Array) -> Iterator[Array]:
    """Yield the numbers of the units of each level, outermost first, as `number_units` gives them: (examples,).

    `labels` are integers, (examples, levels): those of an inner level need to be distinct only within an outer unit.
    """
    import numpy as np

    outer = np.zeros(len(labels), dtype=np.int64)
    for column in labels.T:
        _, inner = np.unique(column, return_inverse=True)  # from 0, so that no two pairs share a product
        pairs = outer * (int(inner.max(initial=0)) + 1) + inner
        _, first, unit = np.unique(pairs, return_index=True, return_inverse=True)
        outer = np.argsort(np.argsort(first))[unit]
        yield outer


def require_classes(task: Task, split: str, references: Iterable[Reference]) -> None:
    """Raise DataError if gold answers have more classes than the task's metrics can score.

    `prepare` refuses such data; earlier versions did not.
    """
    if _class_finders(task):  # otherwise the references need not be read
        deque(check_classes(task, split, references), maxlen=0)


def check_classes(task: Task, split: str, examples: Iterable[_Gold]) -> Iterator[_Gold]:
    """Yield examples. Raises DataError if they have more classes than a metric can score, before any prediction."""
    finders = _class_finders(task)
    firsts: list[dict[str, _Gold]] = [{} for _ in finders]
    for example in examples:
        if example.answers:
            for find, first in zip(finders, firsts, strict=True):
                for name in find([example]):
                    first.setdefault(name, example)
        yield example
    for find, first in zip(finders, firsts, strict=True):
        try:
            find(list(first.values()))
        except MetricError as error:
            raise DataError(f"{task.name}, {split}: {error}") from error


def _class_finders(task: Task) -> list[Callable[[Sequence[Reference]], Sequence[str]]]:
    found = (METRICS[name].find_classes for name in (task.metric, *task.secondary) if name in METRICS)
    return [find for find in found if find is not None]
