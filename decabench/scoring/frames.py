"""Data and results as other libraries' tables: a `datasets.Dataset`, a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decabench.errors import DataError, MissingDataError, require_name
from decabench.files import atomic_file
from decabench.scoring.results import Results, read_results_file
from decabench.tasks import SPLITS, Store, home_folder, known_tasks

if TYPE_CHECKING:
    import datasets
    import pandas

__all__ = ["load", "read_results"]


def load(task: str, split: str = "validation", home: str | Path | None = None) -> datasets.Dataset:
    """A prepared split as a memory-mapped `datasets.Dataset`.

    Columns: id, question, context, answers (a list), group, meta (JSON text). Raises MissingDataError, and
    UnknownNameError for a task that neither is known nor was prepared.
    """
    import datasets

    store = Store(home_folder(home))
    require_name(split, SPLITS, "split")
    if not store.records(task):
        require_name(task, known_tasks(), "task")
    # Named by the fingerprint, so that data that was prepared anew is never served from an old file.
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


def read_results(folder: str | Path) -> pandas.DataFrame:
    """Every `results.json` below a folder, one row a submission, split and task, best decaScore first.

    A failed task has a row with status `failed` and no score; a missing task of the decathlon has one with
    status `missing`; one of a limited run has status `partial` and is in no sum.
    Raises MissingDataError where there is no results file, DataError where one is damaged.
    """
    import pandas

    paths = sorted(Path(folder).glob("**/results.json"))
    if not paths:
        raise MissingDataError(f"There is no results.json below {folder}: run decabench evaluate first.")
    rows = [row for path in paths for row in _rows(path, read_results_file(path))]
    return pandas.DataFrame(rows).sort_values(
        ["decascore", "submission"], ascending=[False, True], kind="stable", ignore_index=True
    )


def _rows(path: Path, results: Results) -> Iterator[dict[str, Any]]:
    common = {
        "submission": results.submission["name"],
        "split": results.split,
        "decascore": results.decascore,
        "complete": results.total.complete,
        "total": results.total.score,
        "path": str(path),
    }
    for name, task in results.tasks.items():
        yield {
            **common,
            "task": name,
            "status": task.status,
            "metric": task.headline,
            "score": task.score,
            "n": task.n,
            "empty": task.empty,
            "origin": task.data.origin,
            "verified": task.data.verified,
            "fingerprint": task.data.fingerprint,
            "predictions": task.predictions,
            "scores": dict(task.scores),
            "answers": results.answers,
        }
    for name in results.total.missing:
        yield {**common, "task": name, "status": "missing"}
