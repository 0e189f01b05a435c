"""Weights from untrusted files: complete, finite, and with the shapes that the checkpoint's record implies.

A record can imply a network of any size, so the shapes are compared before anything is allocated.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.modules import module as registry

from decabench.errors import DataError, DecabenchError

_Network = TypeVar("_Network", bound=nn.Module)

MODEL = "model.safetensors"

Shapes = Mapping[str, tuple[int, ...]]
"""Name to shape of each tensor."""

_ADVICE = "use an unchanged copy of the checkpoint"
_FAULTS = (OSError, SafetensorError, RuntimeError, KeyError, ValueError, TypeError)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Load the tensors of a safetensors file; lower precisions become single precision.

    Raises DataError, also for NaN and infinity.
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


def stored_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Read the shapes of the tensors in a safetensors file without loading them. Raises DataError."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}
    except _FAULTS as error:
        raise DataError(f"{path} cannot be read ({error}): {_ADVICE}.") from error


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
    """Stop building a network as soon as it registers far more tensors or values than the file stores."""

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
"""A limit that no network's number of parameters reaches: MQAN has 40 per layer."""


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
