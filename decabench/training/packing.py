"""Encoded examples of a task as a file: the smallest integers that hold them, compressed; read strictly."""

from __future__ import annotations

import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from decabench.files import atomic_file
from decabench.training.data import Ragged, TaskData
from decabench.untrusted import read_xz

__all__ = ["QUICK_SCALE", "pack", "unpack"]

_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 24, "lc": 3, "lp": 1, "pb": 1}]
"""For numbers of two bytes; contexts that repeat nearby, as SQuAD's do, are stored once."""


_QUICK = [{**_FILTERS[0], "preset": 1}]
QUICK_SCALE = 0.85
"""The size of a file, as a part of its size if packed quickly: 0.84 for SQuAD and 0.81 for WikiSQL."""


def pack(folder: Path, data: TaskData, quick: bool = False) -> None:
    """Write a task's examples: the values of each column and the lengths of its rows.

    `quick` takes a quarter of the time, and a fifth more space.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, column in data.columns.items():
        arrays[f"{name}/values"] = _narrow(column.values)
        arrays[f"{name}/lengths"] = _narrow(column.lengths)
    with atomic_file(folder / f"{data.name}.safetensors.xz") as file:
        file.write(lzma.compress(save(arrays), filters=_QUICK if quick else _FILTERS))


def _narrow(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert integers to the smallest type that holds them."""
    if values.dtype.kind not in "iu":
        return values
    least, most = (int(values.min()), int(values.max())) if values.size else (0, 0)
    for kind in (np.uint16, np.int32, np.int64):
        if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
            return np.ascontiguousarray(values.astype(kind))
    return values


def unpack(folder: Path, task: str, limits: Mapping[str, int]) -> TaskData:
    """Read what `pack` wrote: these columns, whose numbers must be below their limits. Raises ValueError, OSError."""
    name = f"{task}.safetensors.xz"
    try:
        arrays = load(read_xz(folder / name))
    except (SafetensorError, KeyError, TypeError) as error:  # the latter two for unusual types of number
        raise ValueError(f"{folder.name}/{name} does not hold tensors: {error}") from None
    expected = {f"{column}/{part}" for column in limits for part in ("values", "lengths")}
    if arrays.keys() != expected:
        given, wanted = (", ".join(sorted(keys))[:200] for keys in (arrays.keys(), expected))
        raise ValueError(f"{folder.name}/{name} holds {given or 'nothing'}, not {wanted}")
    columns = {}
    for column, limit in limits.items():
        try:
            columns[column] = _read_column(arrays[f"{column}/values"], arrays[f"{column}/lengths"], limit)
        except ValueError as error:
            raise ValueError(f"{folder.name}/{name}, column {column}: {error}") from None
    if len({len(column) for column in columns.values()}) != 1:
        raise ValueError(f"{folder.name}/{name} has columns of different lengths")
    return TaskData(task, columns)


def _read_column(values: npt.NDArray[Any], lengths: npt.NDArray[Any], limit: int) -> Ragged:
    if any(array.ndim != 1 or array.dtype.kind not in "iu" or not array.size for array in (values, lengths)):
        raise ValueError("its values and lengths are not lists of whole numbers")
    if int(values.min()) < 0 or int(values.max()) >= limit:
        raise ValueError(
            f"it has numbers from {values.min():,} to {values.max():,}, not from 0 to {limit - 1:,}"
        )
    if int(lengths.min()) < 0 or int(lengths.max()) > len(values):
        raise ValueError(
            f"it has lengths from {lengths.min():,} to {lengths.max():,} for {len(values):,} values"
        )
    ends = np.cumsum(lengths, dtype=np.int64)
    if ends[-1] != len(values):
        raise ValueError(f"its lengths add up to {ends[-1]:,}, not to its {len(values):,} values")
    return Ragged(values.astype(np.int32), ends)
