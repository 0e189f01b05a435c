"""Statistics on disk: a parquet file with a row for each example, from which scores, intervals and tests follow."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decabench.errors import DataError, MissingDataError
from decabench.files import atomic_file, is_within, read_errors, remove_file
from decabench.metrics import Metric, score_rows
from decabench.scoring.ledger import ScoredTask
from decabench.scoring.metric_scores import find_metric
from decabench.scoring.results import TaskResult
from decabench.scoring.significance import Sample
from decabench.tasks import number_units

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = [
    "STATISTICS",
    "TOLERANCE",
    "numbers_agree",
    "read_rows",
    "read_sample",
    "statistics_path",
    "stored_metric",
    "write_rows",
    "write_statistics",
]

STATISTICS = "statistics"
"""The folder of statistics next to `results.json`."""

TOLERANCE = 1e-6
"""How far, relative to the score, statistics may be off: libraries add in different orders."""


def statistics_path(folder: Path, task: str) -> Path:
    """Return where a task's statistics are in a folder of results."""
    return folder / STATISTICS / f"{task}.parquet"


def numbers_agree(one: float | None, reference: float) -> bool:
    """Return whether a number is there and equals another up to the rounding of sums."""
    return one is not None and abs(one - reference) <= TOLERANCE * max(1.0, abs(reference))


def write_statistics(folder: Path, scored: Mapping[str, ScoredTask]) -> None:
    """Write `statistics/<task>.parquet` for every task that was scored as a whole, and remove those of all others.

    Limited runs are compared with nothing. Hidden labels have no such file: a row shows whether an answer is right, and
    may contain the gold number itself. Raises StorageError.
    """
    for task, found in scored.items():
        path = statistics_path(folder, task)
        if found.sample is None or found.result.status != "scored" or found.hidden:
            remove_file(path)
            continue
        columns = {name: found.rows[:, at] for at, name in enumerate(found.sample.metric.columns)}
        write_rows(path, found.result.metric, found.result.signature, columns, found.units)


def read_sample(root: Path, folder: Path, task: str, result: TaskResult) -> Sample:
    """Read the statistics behind a result in a folder of results.

    The metric must be known to be the task's own. Raises DataError if they are missing, damaged or give another score.
    """
    path = statistics_path(folder, task)
    if not path.is_file() or not is_within(root, path):
        raise MissingDataError("its statistics are missing")
    metric = stored_metric(find_metric(result.metric), path)
    units, rows = read_rows(path, metric.columns)
    sample = Sample.of_levels(metric, rows, units, task)
    if sample.examples != result.n:
        raise DataError(f"its statistics have {sample.examples:,} examples, results.json has {result.n:,}")
    try:
        found = score_rows(metric, rows.tolist())
    except (ArithmeticError, ValueError) as error:  # of numbers near the largest that there are
        raise DataError(f"its statistics give no score: {error}") from error
    if not all(map(math.isfinite, found.details.values())):
        raise DataError("its statistics give no score that is a finite number")
    pairs = [("the score", result.score, sample.score)]
    pairs += [(name, result.scores.get(name, value), value) for name, value in found.details.items()]
    for name, stated, value in pairs:
        if not numbers_agree(stated, value):
            shown = "none" if stated is None else f"{stated:.4f}"
            raise DataError(f"its statistics give {name} {value:.4f}, results.json has {shown}")
    return sample


def write_rows(
    path: Path, metric: str, signature: str, rows: Mapping[str, Any], units: Sequence[Sequence[str]] | Array
) -> None:
    """Write a parquet file with a row for each example: its units, or their numbers, and the columns of `rows`.

    `unit_1` numbers the outermost units, `unit_2` those within, and so on.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbered: Array = units if isinstance(units, np.ndarray) else number_units(units)
    levels = enumerate(numbered.T.astype("int32"), start=1)
    columns = {f"unit_{level}": numbers for level, numbers in levels} | dict(rows)
    table = pa.table({name: _to_arrow(values) for name, values in columns.items()}).replace_schema_metadata(
        {"metric": metric, "signature": signature}
    )
    with atomic_file(path) as file:
        pq.write_table(table, file, compression="zstd")


# pyarrow's own ways from and to numpy import pandas first, which takes longer than all files of a submission.


def _to_arrow(values: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    array = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), len(array), [None, pa.py_buffer(array)])


def _to_numpy(column: Any) -> Array:
    """Return a column of numbers as an array. Raises ArrowException or TypeError for other columns."""
    import numpy as np

    return np.concatenate([np.from_dlpack(chunk) for chunk in column.chunks])


_MOST_COLUMNS = 4_000
"""More than 1,000 classes, the most that metrics count, take in a row, with units."""


def open_statistics(source: Path | bytes) -> pq.ParquetFile:
    """Open a file of statistics, or what was read of it. Raises errors of pyarrow, OSError and ValueError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if isinstance(source, bytes):
        return pq.ParquetFile(pa.BufferReader(source))
    with read_errors(source):  # as bytes, since pyarrow opens no path that is not UTF-8
        return pq.ParquetFile(pa.memory_map(os.fsencode(source)))


def _name_of(source: Path | bytes) -> str:
    return "A file of statistics" if isinstance(source, bytes) else str(source)


def stored_metric(metric: Metric, source: Path | bytes) -> Metric:
    """Return the metric with the columns that a file, or what was read of it, has for the classes of its data.

    Most metrics have none. Raises DataError if the file is damaged or has too many columns.
    """
    import pyarrow as pa

    if metric.find_classes is None:
        return metric
    name = _name_of(source)
    try:
        names = open_statistics(source).schema_arrow.names
    except (pa.ArrowException, ValueError, OSError) as error:
        raise DataError(f"{name} is damaged ({type(error).__name__}: {error}): evaluate again.") from error
    if len(names) > _MOST_COLUMNS:
        raise DataError(f"{name} has {len(names):,} columns, which is too many to read: evaluate again.")
    return metric.for_columns(names)


def read_rows(source: Path | bytes, columns: Sequence[str]) -> tuple[Array, Array]:
    """Return the numbers of each example's units, (examples, levels), and its row, (examples, columns).

    The source is a file, or what was read of it. Levels are outermost first; files of earlier versions have one,
    `group`. Raises DataError if the file is damaged, empty or has other columns.
    """
    import numpy as np
    import pyarrow as pa

    try:
        file = open_statistics(source)
        levels = [f"unit_{level}" for level in range(1, len(file.schema_arrow.names) + 1)]
        levels = [name for name in levels if name in file.schema_arrow.names] or ["group"]
        table = file.read([*levels, *columns], use_threads=False)
        units = np.stack([_to_numpy(table.column(name)) for name in levels], axis=1)
        rows = np.stack(
            [_to_numpy(table.column(name)).astype(float) for name in columns]
        ).T  # whole columns are read
        if not len(rows) or units.dtype.kind not in "iu" or not np.isfinite(rows).all():
            raise ValueError("no finite rows and numbered units")
    except (pa.ArrowException, KeyError, TypeError, ValueError, OSError) as error:
        raise DataError(
            f"{_name_of(source)} is damaged ({type(error).__name__}: {error}): evaluate again."
        ) from error
    return units, rows
