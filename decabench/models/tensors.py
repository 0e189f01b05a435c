"""Weights that a stranger may have stored: complete, finite, and of the shapes that their record implies.

A record can imply a network of any size, so the shapes are compared before anything is allocated.

Weights are one file, `model.safetensors`, or shards with the index that other libraries write too:

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
from contextlib import contextmanager, suppress
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

_Network = TypeVar("_Network", bound=nn.Module)

__all__ = [
    "INDEX",
    "LEAST_SHARD",
    "MODEL",
    "Shapes",
    "StoredWeights",
    "bounded",
    "build_to_fit",
    "load_tensors",
    "write_shards",
]

MODEL, INDEX = "model.safetensors", "model.safetensors.index.json"

Shapes = Mapping[str, tuple[int, ...]]
"""Name to shape of each tensor."""

_ADVICE = "use an unchanged copy of the checkpoint"


LEAST_SHARD = 100_000
"""The smallest size of a shard in bytes: its header takes some of it."""
_SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
_FAULTS = (OSError, SafetensorError, RuntimeError, KeyError, ValueError, TypeError)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Load the tensors of a safetensors file, those of less than single precision in that.

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
    homes: Mapping[str, str]
    """The file of each tensor or slice, according to the index; empty without an index."""

    @classmethod
    def find(cls, folder: Path) -> StoredWeights:
        """Find the weights in a checkpoint's folder. Raises DataError if the index is damaged or a shard is missing."""
        index = folder / INDEX
        if (folder / MODEL).is_file() or not index.is_file():
            return cls((folder / MODEL,), {}, {})
        try:
            content = read_json(index, 1 << 24)
            homes, slices = content["weight_map"], content["metadata"].get("slices", {})
            names = {str(name) for name in homes.values()}
            if not names or not all(map(_SHARD.fullmatch, names)):
                raise ValueError("it names other files than shards of a model")
            if not all(type(count) is int and 1 < count <= len(homes) for count in slices.values()):
                raise ValueError("its slices are not counted in whole numbers")
            for name, count in slices.items():
                if any(f"{name}/{part}" not in homes for part in range(1, count + 1)):
                    raise ValueError(f"it lacks a slice of {name!r}")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{index} is not an index of weights ({error}): {_ADVICE}.") from error
        if missing := [name for name in sorted(names) if not (folder / name).is_file()]:
            raise DataError(
                f"{folder} lacks {', '.join(missing)}, of the {len(names)} shards of its weights: copy all of them."
            )
        return cls(tuple(folder / name for name in sorted(names)), slices, homes)

    def load(self) -> dict[str, Tensor]:
        """Load the tensors, in full precision. Raises DataError."""
        found: dict[str, Tensor] = {}
        expected = self._contents()
        for path in self.files:
            own = load_tensors(path)
            _check(path, own, expected)
            found |= own
        for name, count in self.slices.items():
            parts = [found.pop(f"{name}/{part}") for part in range(1, count + 1)]
            try:
                found[name] = torch.cat(parts)
            except RuntimeError as error:
                raise self._unlike(name) from error
        return found

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Read the shapes of the tensors without loading them. Raises DataError."""
        found: dict[str, tuple[int, ...]] = {}
        expected = self._contents()
        for path in self.files:
            own = _file_shapes(path)
            _check(path, own, expected)
            found |= own
        for name, count in self.slices.items():
            parts = [found.pop(f"{name}/{part}") for part in range(1, count + 1)]
            if len({part[1:] for part in parts}) > 1 or not all(parts):
                raise self._unlike(name)
            found[name] = (sum(part[0] for part in parts), *parts[0][1:])
        return found

    def _contents(self) -> dict[str, set[str]]:
        """Return the tensors and slices of each shard, according to the index."""
        contents: dict[str, set[str]] = {}
        for name, home in self.homes.items():
            contents.setdefault(home, set()).add(name)
        return contents

    def _unlike(self, name: str) -> DataError:
        return DataError(
            f"The slices of {name!r} in {self.files[0].parent} do not fit each other: {_ADVICE}."
        )


def _check(path: Path, own: Mapping[str, Any], contents: Mapping[str, set[str]]) -> None:
    """Check that a shard holds what the index says, no more and no less; without an index, anything."""
    expected = contents.get(path.name, set())
    if contents and expected != own.keys():
        name = min(expected ^ own.keys())
        fault = "lacks" if name in expected else "should not have"
        raise DataError(f"{path} {fault} {name!r}, according to {INDEX}: {_ADVICE}.")


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

    It is built without memory first, and never with many more or larger tensors than are stored; `vectors` is the
    number of values in its word vectors, which are stored elsewhere. Tensors whose names begin with one of `optional`
    need not be stored.
    """
    with bounded(shapes, place, vectors):
        try:
            with torch.device("meta"):
                sketch = build()
            implied = {name: tuple(value.shape) for name, value in sketch.state_dict().items()}
            left_out = {name for name in implied.keys() - shapes.keys() if name.startswith(optional)}
            _compare({name: implied[name] for name in implied if name not in left_out}, shapes, place)
        except DecabenchError:
            raise
        except Exception:  # a network that needs values to be built: bounded all the same
            pass
        try:
            return build()
        except DecabenchError:
            raise
        except Exception as error:
            raise DataError(
                f"{place} describes a network that cannot be built ({type(error).__name__}: {error}): {_ADVICE}."
            ) from error


def _compare(implied: Shapes, stored: Shapes, place: str) -> None:
    for name, shape in implied.items():
        if name not in stored:
            raise DataError(f"The weights beside {place} lack {name!r}: {_ADVICE}.")
        if stored[name] != shape:
            given, expected = (" x ".join(f"{size:,}" for size in sizes) for sizes in (stored[name], shape))
            raise DataError(
                f"The weights beside {place} do not fit it: {name!r} is {given}, and should be {expected}; {_ADVICE}."
            )


@contextmanager
def bounded(shapes: Shapes, place: str, vectors: int) -> Iterator[None]:
    """Stop a network that registers far more tensors or values than are stored, as soon as it does."""
    most_values = max(2 * sum(map(prod, shapes.values())) + 10_000, vectors)
    most_tensors = 4 * len(shapes) + 1_000
    tensors = 0

    def count(value: object) -> None:
        nonlocal tensors
        tensors += 1
        if tensors > most_tensors or (isinstance(value, Tensor) and value.numel() > most_values):
            raise DataError(f"{place} describes a network far larger than the weights beside it: {_ADVICE}.")

    with _watched(count, buffers=True):
        yield


@contextmanager
def _watched(see: Callable[[object], None], buffers: bool) -> Iterator[None]:
    """Show `see` each parameter that a network registers meanwhile, and each buffer too if `buffers`."""

    def show(module: nn.Module, name: str, value: object) -> None:
        see(value)

    hooks = [registry.register_module_parameter_registration_hook(show)]
    if buffers:
        hooks.append(registry.register_module_buffer_registration_hook(show))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


# Networks of one's own settings

_MOST_TENSORS = 20_000
"""More parameters than any network has: MQAN has 40 a layer."""


class _TooLargeError(DecabenchError):
    """A network of the settings is larger than this machine can hold, or than anybody could mean."""


def build_network(build: Callable[[], _Network]) -> _Network:
    """Build a network. Raises DecabenchError if it is larger than memory, or than numbers of sizes."""
    try:
        return build()
    except (MemoryError, RuntimeError, TypeError, OverflowError) as error:
        text = str(error)
        if isinstance(error, MemoryError) or re.search(
            "alloc|[Oo]verflow|negative dimension|storage size", text
        ):
            first = text.splitlines()[0][:200] if text else "out of memory"
            raise _TooLargeError(
                f"The network of these settings is too large for this machine ({first}): give smaller sizes, such as "
                "model.dimension."
            ) from error
        raise


def check_size(
    build: Callable[[], _Network], trained_bytes: Callable[[_Network], int] | None = None
) -> _Network | None:
    """Build a network without memory, to refuse one that this machine cannot hold at once. Raises DecabenchError.

    With `trained_bytes`, which counts what a network takes to train, one is refused that takes more than is available.
    Returns the network, whose weights have no values; None for what cannot be built in this way, and is not checked: it
    tells its own faults when it is built.
    """
    tensors = weights = 0
    memory = _memory()

    def count(value: object) -> None:
        nonlocal tensors, weights
        tensors += 1
        weights += value.numel() if isinstance(value, Tensor) else 0
        # Before anything is done with it, which takes time even without memory.
        if memory is not None and 4 * weights > memory:
            raise _TooLargeError(
                f"The network of these settings would have {weights:,} weights or more, {_gigabytes(4 * weights)} in "
                f"single precision, which is too large for this machine: it has {_gigabytes(memory)} of memory. Give "
                "smaller sizes, such as model.dimension."
            )
        if tensors > _MOST_TENSORS:
            raise _TooLargeError(
                f"The network of these settings would have more than {_MOST_TENSORS:,} matrices and vectors of "
                "weights: give smaller sizes, such as model.layers."
            )

    try:
        with torch.device("meta"), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about tables of an empty vocabulary
            with _watched(count, buffers=False):
                network = build_network(build)
    except _TooLargeError:
        raise
    except Exception:
        return None
    available = None if trained_bytes is None else _available()
    if trained_bytes is not None and available is not None and (needed := trained_bytes(network)) > available:
        raise _TooLargeError(
            f"The network of these settings would take {_gigabytes(needed)} of memory to train, with gradients and the "
            f"optimizer's state, and this machine has {_gigabytes(available)} available: give smaller sizes, such as "
            "model.dimension or model.hidden."
        )
    return network


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.0f} GB" if size >= 1e11 else f"{size / 1e9:.3g} GB"


def _memory() -> int | None:
    """Return the machine's memory in bytes; None where the system does not say, as on Windows."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _available() -> int | None:
    """Return how much memory this process can still get in bytes, also in a container; None if nobody says."""
    sizes = [_memory()]
    with suppress(OSError):
        free = re.search(r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
        sizes.append(1024 * int(free[1]) if free else None)
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):  # of cgroups, version 2 and 1; or `max`
        with suppress(OSError, ValueError):
            sizes.append(int((Path("/sys/fs/cgroup") / limit).read_text()))
    return min((size for size in sizes if size is not None), default=None)
