"""Prepared data as a `datasets.Dataset`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from decabench.errors import DataError, require_name
from decabench.files import atomic_file
from decabench.tasks.example import SPLITS
from decabench.tasks.registry import known_tasks
from decabench.tasks.store import Store, home_folder

if TYPE_CHECKING:
    import datasets

__all__ = ["load"]


def load(task: str, split: str = "validation", home: str | Path | None = None) -> datasets.Dataset:
    """Load a prepared split as a memory-mapped `datasets.Dataset`.

    Columns: id, question, context, answers (a list), group, meta (JSON text). Raises MissingDataError if the split is
    not prepared, UnknownNameError if the task is neither known nor prepared, DataError for damaged data.
    """
    import datasets

    store = Store(home_folder(home))
    require_name(split, SPLITS, "split")
    if not store.records(task):
        require_name(task, known_tasks(), "task")
    # Named after the fingerprint, so that an old file is never used for data that was prepared again.
    fingerprint = store.record(task, split).fingerprint.removeprefix("sha256:")
    path = store.home / "arrow" / f"{task}.{split}.{fingerprint[:16]}.arrow"
    if not path.exists():
        _write_arrow(store.path(task, split), path)
    return datasets.Dataset.from_file(str(path))


def _write_arrow(source: Path, target: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(source) as file, atomic_file(target) as sink:
            with pa.ipc.new_stream(sink, file.schema_arrow) as writer:
                for batch in file.iter_batches(1_000):
                    writer.write_batch(batch)
    except pa.ArrowException as error:
        raise DataError(f"{source} is damaged ({error}): run decabench prepare with --force.") from error
