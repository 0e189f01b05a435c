"""Statistics on disk beside the results: what intervals and tests need, without predictions or data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from decabench.errors import DataError
from decabench.files import atomic_file
from decabench.scoring.evaluator import Scored
from decabench.scoring.rows import find_metric
from decabench.scoring.significance import Sample

__all__ = ["FOLDER", "read_sample", "write_statistics"]

FOLDER = "statistics"
"""Where they lie, beside `results.json`."""


def write_statistics(folder: Path, scored: Mapping[str, Scored]) -> None:
    """Writes `statistics/<task>.parquet`: one row an example in the data's order.

    Columns: `group` (a number for each group) and those of the task's metric.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    for task, found in scored.items():
        if found.sample is None or found.result.status != "scored":
            continue  # a limited run is compared with nothing
        numbers: dict[str, int] = {}
        groups = [numbers.setdefault(item.group, len(numbers)) for item in found.references]
        values = np.asarray(found.rows, dtype=float)
        columns = {"group": pa.array(groups, pa.int32())}
        columns |= {name: pa.array(values[:, at]) for at, name in enumerate(found.sample.metric.columns)}
        metadata = {"metric": found.result.metric, "signature": found.result.signature}
        table = pa.table(columns).replace_schema_metadata(metadata)
        with atomic_file(folder / FOLDER / f"{task}.parquet") as file:
            pq.write_table(table, file, compression="zstd")


def read_sample(folder: Path, task: str) -> Sample | None:
    """The statistics of a task, summed by group; None where there are none. Raises DataError."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / FOLDER / f"{task}.parquet"
    if not path.exists():
        return None
    try:
        table = pq.read_table(path)
        metric = find_metric(table.schema.metadata[b"metric"].decode())
        groups = table["group"].to_numpy()
        rows = np.stack([table[name].to_numpy() for name in metric.columns], axis=1)
        sums = np.zeros((int(groups.max()) + 1, rows.shape[1]))
        np.add.at(sums, groups, rows)
    except (pa.ArrowException, KeyError, TypeError, ValueError, OSError) as error:
        raise DataError(f"{path} is damaged ({type(error).__name__}: {error}): evaluate again.") from error
    return Sample(metric, sums, len(rows), task)
