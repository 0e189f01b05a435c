"""What scoring needs of a split: ids, answers, units and meta, in columns, without questions and contexts.

They stand in `<split>.references.parquet` beside the split's own file. `prepare` leaves them for the splits that are
scored; for others, and for data prepared by earlier versions, they are made on first use. The file names the digest of
the one it was made from, and the fingerprint: what was checked once, row by row, is trusted as long as these hold.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decabench.errors import DataError, StorageError
from decabench.files import atomic_file, file_digest
from decabench.metrics import Item
from decabench.tasks.store import SplitRecord, Store, fingerprint_line, units_line

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SCORED_SPLITS", "keep_references", "read_references"]

FORMAT = "decabench.references/1"
SCORED_SPLITS = ("validation", "test")
"""The splits whose references `prepare` keeps."""
_COLUMNS = ["id", "answers", "units", "meta"]
_BATCH = 10_000


def read_references(store: Store, task: str, split: str) -> list[Item]:
    """Return the gold answers of a prepared split, in its order.

    Raises MissingDataError if it is not prepared, DataError if it is damaged or is not the data of its record.
    """
    record = store.record(task, split)
    try:
        facts = _facts(store, task, split, record)
    except OSError as error:
        raise DataError(f"The prepared data of {task}, {split}, cannot be read ({error}).") from error
    found = _read_kept(_path(store, task, split), facts)
    if found is not None:
        return found
    _require_content(store, task, split, record)
    try:
        _write(store, task, split, facts)
    except StorageError:  # a home that this user may only read
        return _items(_read_columns(store.path(task, split)))
    return _items(_read_columns(_path(store, task, split)))


def keep_references(store: Store, task: str, split: str, record: SplitRecord) -> None:
    """Keep the references of a split that was just written. Raises StorageError."""
    if split in SCORED_SPLITS:
        _write(store, task, split, _facts(store, task, split, record))


def _path(store: Store, task: str, split: str) -> Path:
    return store.folder(task) / f"{split}.references.parquet"


def _facts(store: Store, task: str, split: str, record: SplitRecord) -> dict[str, str]:
    """Return everything that decides the references."""
    return {
        "format": FORMAT,
        "examples": file_digest(store.path(task, split)),
        "fingerprint": record.fingerprint,
        "units_digest": record.units_digest,
    }


def _require_content(store: Store, task: str, split: str, record: SplitRecord) -> None:
    """Raise DataError if the examples are not those of the record."""
    digest, units_digest = hashlib.sha256(), hashlib.sha256()
    for example in store.examples(task, split):
        digest.update(fingerprint_line(example))
        units_digest.update(units_line(example.units))
    found = (f"sha256:{digest.hexdigest()}", f"sha256:{units_digest.hexdigest()}")
    if found != (record.fingerprint, record.units_digest):
        raise DataError(
            f"The prepared data of {task}, {split}, does not match its record: run decabench prepare {task} --force."
        )


def _write(store: Store, task: str, split: str, facts: dict[str, str]) -> None:
    """Copy the columns in batches, so memory does not grow with the split. Raises StorageError."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(store.path(task, split)) as source, atomic_file(_path(store, task, split)) as file:
        schema = source.schema_arrow
        kept = schema.empty_table().select(_COLUMNS).schema.with_metadata(facts)
        with pq.ParquetWriter(file, kept, compression="zstd", write_page_checksum=True) as writer:
            for batch in source.iter_batches(_BATCH, columns=_COLUMNS, use_threads=False):
                writer.write_batch(batch.select(_COLUMNS).replace_schema_metadata(facts))


def _read_kept(path: Path, facts: dict[str, str]) -> list[Item] | None:
    """Return the references of a file; None if it is missing, damaged, or of other data."""
    import pyarrow as pa

    try:
        table = _read_columns(path)
        kept = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
        return _items(table) if facts.items() <= kept.items() else None
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return None


def _read_columns(path: Path) -> pa.Table:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        return file.read(_COLUMNS, use_threads=False)


def _items(table: pa.Table) -> list[Item]:
    ids, metas = (table.column(name).to_pylist() for name in ("id", "meta"))
    answers, units = (_tuples(table.column(name)) for name in ("answers", "units"))
    # Most examples have no meta; it was validated when it was written.
    read = ({} if meta == "{}" else json.loads(meta) for meta in metas)
    return [Item(*each) for each in zip(answers, ids, units, read, strict=True)]


def _tuples(column: pa.ChunkedArray) -> Sequence[tuple[str, ...]]:
    """Return a column of lists as tuples: all texts at once, and then cut, as pyarrow is slow with single lists."""
    rows: list[tuple[str, ...]] = []
    for chunk in column.chunks:
        texts: list[Any] = chunk.flatten().to_pylist()
        ends = chunk.offsets.to_pylist()
        first = ends[0] if ends else 0
        rows += [tuple(texts[start - first : end - first]) for start, end in pairwise(ends)]
    return rows
