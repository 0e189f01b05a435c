"""Weights from untrusted files: complete, finite, and with the shapes that their record implies.

A record can imply a network of any size, so the shapes are compared before anything is allocated.

Weights are one file, `model.safetensors`, or shards with an index, as other libraries write them:

    model-00001-of-00002.safetensors, ...   the tensors
    model.safetensors.index.json            {"metadata": {...}, "weight_map": {tensor: shard}}

A tensor larger than a shard is stored in slices along its first dimension, as `NAME/1`, `NAME/2`, ...; the index's
metadata counts them: `"slices": {NAME: 2}`.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn
from torch.nn.modules import module as registry

from decabench.errors import DataError, DecabenchError
from decabench.files import atomic_file
from decabench.untrusted import read_json

__all__ = [
    "INDEX",
    "LEAST_SHARD",
    "MODEL",
    "Shapes",
    "StoredWeights",
    "build_to_fit",
    "check_size",
    "limited",
    "load_tensors",
    "write_shards",
]

_Network = TypeVar("_Network", bound=nn.Module)
_Value = TypeVar("_Value")

MODEL, INDEX = "model.safetensors", "model.safetensors.index.json"

Shapes = Mapping[str, tuple[int, ...]]
"""Name to shape of each tensor."""

LEAST_SHARD = 100_000
"""The smallest size of a shard in bytes, including its header."""
_SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
_ADVICE = "use an unchanged copy of the checkpoint"
_FAULTS = (OSError, SafetensorError, RuntimeError, KeyError, ValueError, TypeError)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Load the tensors of a safetensors file; lower precisions become single precision.

    Raises DataError for NaN and infinity too.
    """
    try:
        found = {
            name: value.float() if value.is_floating_point() and value.dtype != torch.float64 else value
            for name, value in load_file(path).items()
        }
    except _FAULTS as error:
        raise DataError(f"{path} cannot be read ({error}): {_ADVICE}.") from error
    for name, value in found.items():
        if value.is_floating_point() and not value.isfinite().all():
            raise DataError(f"{path} has a value in {name!r} that is not a finite number: {_ADVICE}.")
    return found


def _file_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Read the shapes of the tensors in a safetensors file without loading them. Raises DataError."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}
    except _FAULTS as error:
        raise DataError(f"{path} cannot be read ({error}): {_ADVICE}.") from error


@dataclass(frozen=True)
class StoredWeights:
    """The weights of a checkpoint on disk: one file, or shards."""

    files: tuple[Path, ...]
    """The safetensors files, in order."""
    slices: Mapping[str, int]
    """The number of slices of each tensor that is stored in slices."""

    @classmethod
    def find(cls, folder: Path) -> StoredWeights:
        """Find the weights in a checkpoint's folder. Raises DataError if the index is damaged or a shard is missing."""
        index = folder / INDEX
        if (folder / MODEL).is_file() or not index.is_file():
            return cls((folder / MODEL,), {})
        try:
            content = read_json(index, 1 << 24)
            homes, slices = content["weight_map"], content["metadata"].get("slices", {})
            names = sorted({str(name) for name in homes.values()})
            if not names or not all(map(_SHARD.fullmatch, names)):
                raise ValueError("it names other files than shards of a model")
            if not all(type(count) is int and 1 < count <= len(homes) for count in slices.values()):
                raise ValueError("its slices are not counted in whole numbers")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{index} is not an index of weights ({error}): {_ADVICE}.") from error
        if missing := [name for name in names if not (folder / name).is_file()]:
            raise DataError(
                f"{folder} lacks {', '.join(missing)}, of the {len(names)} shards of its weights: copy all of them."
            )
        return cls(tuple(folder / name for name in names), slices)

    def load(self) -> dict[str, Tensor]:
        """Load the tensors, in full precision. Raises DataError."""
        return self._joined(load_tensors, torch.cat)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Read the shapes of the tensors without loading them. Raises DataError."""

        def join(parts: list[tuple[int, ...]]) -> tuple[int, ...]:
            if len({part[1:] for part in parts}) > 1 or not all(parts):
                raise ValueError
            return (sum(part[0] for part in parts), *parts[0][1:])

        return self._joined(_file_shapes, join)

    def _joined(
        self, read: Callable[[Path], dict[str, _Value]], join: Callable[[list[_Value]], _Value]
    ) -> dict[str, _Value]:
        """Read all files, and join tensors that are stored in slices."""
        found: dict[str, _Value] = {}
        for path in self.files:
            found |= read(path)
        for name, count in self.slices.items():
            try:
                found[name] = join([found.pop(f"{name}/{part}") for part in range(1, count + 1)])
            except (KeyError, ValueError, RuntimeError) as error:
                raise DataError(
                    f"The slices of {name!r} in {self.files[0].parent} do not fit each other: {_ADVICE}."
                ) from error
        return found


def write_shards(folder: Path, weights: Mapping[str, Tensor], limit: int) -> list[Path]:
    """Write weights as safetensors files of at most `limit` bytes with an index; return all paths, the index last.

    Raises DecabenchError for a limit below LEAST_SHARD.
    """
    if limit < LEAST_SHARD:
        raise DecabenchError(f"A shard of {limit:,} bytes is too small: give {LEAST_SHARD:,} or more.")
    room = limit - 2_000  # the rest is for the header, which _fill_shards counts
    pieces: dict[str, Tensor] = {}
    slices: dict[str, int] = {}
    for name, value in sorted(weights.items()):
        if value.nbytes <= room:
            pieces[name] = value
            continue
        rows = room // value[:1].nbytes
        if not rows:
            raise DecabenchError(
                f"A row of {name!r} alone is larger than {limit:,} bytes: give a larger shard."
            )
        parts = [value[start : start + rows] for start in range(0, len(value), rows)]
        slices[name] = len(parts)
        pieces |= {f"{name}/{part}": own for part, own in enumerate(parts, 1)}
    shards = _fill_shards(pieces, limit - 1_000)
    homes: dict[str, str] = {}
    paths: list[Path] = []
    for number, names in enumerate(shards, 1):
        paths.append(folder / f"model-{number:05}-of-{len(shards):05}.safetensors")
        homes |= dict.fromkeys(names, paths[-1].name)
        with atomic_file(paths[-1]) as file:
            file.write(save({name: pieces[name].contiguous().clone() for name in names}))
    metadata: dict[str, Any] = {"total_size": sum(value.nbytes for value in pieces.values())}
    if slices:
        metadata["slices"] = slices
    with atomic_file(folder / INDEX) as file:
        content = {"metadata": metadata, "weight_map": dict(sorted(homes.items()))}
        file.write(json.dumps(content, indent=1).encode() + b"\n")
    return [*paths, folder / INDEX]


def _fill_shards(pieces: Mapping[str, Tensor], room: int) -> list[list[str]]:
    """Distribute tensors over few shards: the largest first, each into the first that has room.

    A tensor takes its bytes, and its name and 150 bytes in the header.
    """
    shards: list[list[str]] = []
    left: list[int] = []
    for name in sorted(pieces, key=lambda name: -pieces[name].nbytes):
        size = pieces[name].nbytes + len(name.encode()) + 150
        at = next((at for at, own in enumerate(left) if own >= size), len(shards))
        if at == len(shards):
            shards.append([])
            left.append(room)
        shards[at].append(name)
        left[at] -= size
    return shards


def build_to_fit(
    build: Callable[[], nn.Module],
    shapes: Shapes,
    place: str,
    vectors: int = 0,
    optional: tuple[str, ...] = (),
) -> Any:
    """Build a network whose tensors have these shapes. Raises DataError, which names `place`.

    It is built without memory first, and never much larger than what is stored; `vectors` is the number of values in
    its word vectors, which are stored elsewhere. Tensors whose names begin with one of `optional` need not be stored.
    """
    with limited(shapes, place, vectors):
        try:
            with torch.device("meta"):
                sketch = build()
            for name, value in sketch.state_dict().items():
                if name in shapes or not name.startswith(optional):
                    _compare(name, tuple(value.shape), shapes.get(name), place)
        except DecabenchError:
            raise
        except Exception:  # the network needs values while it is built: limit it too
            pass
        try:
            return build()
        except DecabenchError:
            raise
        except Exception as error:
            raise DataError(
                f"{place} describes a network that cannot be built ({type(error).__name__}: {error}): {_ADVICE}."
            ) from error


def _compare(name: str, implied: tuple[int, ...], stored: tuple[int, ...] | None, place: str) -> None:
    if stored is None:
        raise DataError(f"The weights next to {place} lack {name!r}: {_ADVICE}.")
    if stored != implied:
        given, expected = (" x ".join(f"{size:,}" for size in sizes) for sizes in (stored, implied))
        raise DataError(
            f"The weights next to {place} do not fit it: {name!r} is {given}, and should be {expected}; {_ADVICE}."
        )


@contextmanager
def limited(shapes: Shapes, place: str, vectors: int) -> Iterator[None]:
    """Stop building a network as soon as it registers far more tensors or values than are stored."""

    def refuse(size: str) -> DataError:
        return DataError(f"{place} describes a network far larger than the weights next to it: {_ADVICE}.")

    values = 4 * (sum(map(prod, shapes.values())) + vectors) + 100_000
    with _counted(values, 4 * len(shapes) + 1_000, refuse):
        yield


@contextmanager
def _counted(most_values: int, most_tensors: int, refuse: Callable[[str], DecabenchError]) -> Iterator[None]:
    """Raise an error as soon as networks register more tensors, or more values in them, than these limits."""
    tensors = values = 0

    def count(module: nn.Module, name: str, value: object) -> None:
        nonlocal tensors, values
        tensors += 1
        values += value.numel() if isinstance(value, Tensor) else 0
        if tensors > most_tensors or values > most_values:
            raise refuse(f"{values:,} weights in {tensors:,} tensors, or more")

    hooks = [
        registry.register_module_parameter_registration_hook(count),
        registry.register_module_buffer_registration_hook(count),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


_MOST_TENSORS = 20_000
"""A limit above the number of parameters of any network: MQAN has 40 per layer."""


class _TooLargeError(DecabenchError):
    """The network of some settings is larger than this machine can hold."""


def check_size(build: Callable[[], _Network]) -> _Network | None:
    """Build a network without memory, and refuse one that this machine cannot train. Raises DecabenchError.

    Training takes at least eight bytes for each weight: four for its value and four for its gradient.

    Returns the network, whose weights have no values; None if it cannot be built in this way, and is not checked.
    """

    def refuse(size: str) -> _TooLargeError:
        return _TooLargeError(
            f"The network of these settings is too large for this machine ({size}): give smaller sizes, such as "
            "model.dimension or model.layers."
        )

    try:
        with (
            torch.device("meta"),
            torch.random.fork_rng(devices=[]),
            warnings.catch_warnings(),
            _counted(_memory() // 8, _MOST_TENSORS, refuse),
        ):
            warnings.simplefilter("ignore")  # warnings about tables of an empty vocabulary
            return build()
    except _TooLargeError:
        raise
    except Exception as error:
        if re.search(
            "alloc|[Oo]verflow|negative dimension|storage size", str(error)
        ):  # numbers beyond any memory
            raise refuse(str(error).splitlines()[0][:200]) from error
        return None


def _memory() -> int:
    """Return the machine's memory in bytes; a very large number if it is unknown, as on Windows."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 60
