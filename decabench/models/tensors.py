"""Weights that a stranger may have stored: complete, finite, and of the shapes that their record implies.

A record can imply a network of any size, so the shapes are compared before anything is allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.modules import module as registry

from decabench.errors import DataError, DecabenchError

__all__ = ["Shapes", "build_to_fit", "load_tensors", "stored_shapes"]

Shapes = Mapping[str, tuple[int, ...]]
"""Name to shape of each tensor."""

_ADVICE = "use an unchanged copy of the checkpoint"


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Load the tensors of a safetensors file, in full precision. Raises DataError for NaN and infinity too."""
    try:
        found = {
            name: value.float() if value.is_floating_point() else value
            for name, value in load_file(path).items()
        }
    except (OSError, SafetensorError, RuntimeError, KeyError, ValueError, TypeError) as error:
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
    except (OSError, SafetensorError, RuntimeError, KeyError, ValueError, TypeError) as error:
        raise DataError(f"{path} cannot be read ({error}): {_ADVICE}.") from error


def build_to_fit(build: Callable[[], nn.Module], shapes: Shapes, place: str, vectors: int = 0) -> Any:
    """Build a network whose tensors have these shapes. Raises DataError, which names `place`.

    It is built without memory first, and never with many more or larger tensors than are stored; `vectors` is the
    number of values in its word vectors, which are stored elsewhere.
    """
    with _bounded(shapes, place, vectors):
        try:
            with torch.device("meta"):
                sketch = build()
            _compare({name: tuple(value.shape) for name, value in sketch.state_dict().items()}, shapes, place)
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
def _bounded(shapes: Shapes, place: str, vectors: int) -> Iterator[None]:
    """Stop a network that registers far more tensors or values than are stored, as soon as it does."""
    most_values = max(2 * sum(map(prod, shapes.values())) + 10_000, vectors)
    most_tensors = 4 * len(shapes) + 1_000
    tensors = 0

    def count(module: nn.Module, name: str, value: Any) -> None:
        nonlocal tensors
        tensors += 1
        if tensors > most_tensors or (isinstance(value, Tensor) and value.numel() > most_values):
            raise DataError(f"{place} describes a network far larger than the weights beside it: {_ADVICE}.")

    hooks = [
        registry.register_module_parameter_registration_hook(count),
        registry.register_module_buffer_registration_hook(count),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
