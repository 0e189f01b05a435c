"""Weights from untrusted files: complete, finite, and with the shapes that the checkpoint's record implies.

A record can imply a network of any size, so the shapes are compared before anything is allocated.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

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
    build: Callable[[], _Network], shapes: Shapes, place: str, optional: tuple[str, ...] = ()
) -> _Network:
    """Build a network whose tensors have these shapes. Raises DataError, which names `place`.

    It is built without memory first. Tensors whose names begin with one of `optional` need not be stored.
    """
    try:
        with torch.device("meta"):
            implied = {name: tuple(value.shape) for name, value in build().state_dict().items()}
    except DecabenchError:
        raise
    except Exception:  # the network of a custom family that needs values while it is built
        implied = {}
    for name, shape in implied.items():
        stored = shapes.get(name)
        if stored is None and not name.startswith(optional):
            raise DataError(f"The weights next to {place} lack {name!r}: {_ADVICE}.")
        if stored not in (None, shape):
            given, expected = (" x ".join(f"{size:,}" for size in sizes) for sizes in (stored or (), shape))
            raise DataError(
                f"The weights next to {place} do not fit it: {name!r} is {given}, and should be {expected}; {_ADVICE}."
            )
    try:
        return build()
    except DecabenchError:
        raise
    except Exception as error:
        raise DataError(
            f"{place} describes a network that cannot be built ({type(error).__name__}: {error}): {_ADVICE}."
        ) from error


def check_size(build: Callable[[], _Network]) -> _Network | None:
    """Build a network without memory, and refuse one that this machine cannot train. Raises DecabenchError.

    Training takes at least eight bytes for each weight: four for its value and four for its gradient.

    Returns the network, whose weights have no values; None if it cannot be built in this way, and is not checked.
    """
    fault = ""
    try:
        with torch.device("meta"), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about tables of an empty vocabulary
            network = build()
    except Exception as error:
        if not re.search("alloc|[Oo]verflow|negative dimension|storage size", str(error)):
            return None
        fault = str(error).splitlines()[0][:200]  # of numbers beyond any memory
    else:
        size = sum(value.numel() for value in network.state_dict().values())
        if 8 * size <= _memory():
            return network
        fault = f"{size:,} weights"
    raise DecabenchError(
        f"The network of these settings is too large for this machine ({fault}): give smaller sizes, such as "
        "model.dimension or model.layers."
    )


def _memory() -> int:
    """Return the machine's memory in bytes; a very large number if it is unknown, as on Windows."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 60
