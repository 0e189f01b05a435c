"""Devices: their names, which of them this machine has, mixed precision on them, and whether a network fits memory.

Checking a name needs no torch, so torch is imported inside the functions.
"""

from __future__ import annotations

import ctypes
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import TYPE_CHECKING, TypeVar, cast

from decabench.errors import DecabenchError

if TYPE_CHECKING:
    import torch
    from torch import nn

__all__ = [
    "autocast",
    "build_network",
    "check_name",
    "check_size",
    "first_device",
    "flush_denormals",
    "pick_device",
    "pick_precision",
    "release_memory",
    "require_device",
    "reuse_memory",
]

_Network = TypeVar("_Network", bound="nn.Module")

_NAME = re.compile(r"auto|cpu|mps|cuda(:\d+)?")


def check_name(device: str) -> None:
    """Check that a device name is valid. Raises DecabenchError if it is not."""
    if not _NAME.fullmatch(device):
        raise DecabenchError(f"Unknown device {device!r}: give auto, cpu, mps, cuda or cuda:N as --device.")


def first_device() -> str:
    """Name the first of cuda, mps and cpu that this machine has."""
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def require_device(device: str) -> None:
    """Check that this machine has a device. Raises DecabenchError."""
    import torch

    kind, _, number = device.partition(":")
    count = {"cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}.get(kind, 1)
    if int(number or 0) >= count:
        raise DecabenchError(
            f"torch finds no {device} on this machine: use --device cpu, which is slower but works everywhere."
        )


def pick_device(name: str) -> torch.device:
    """Return the device with this name; `auto` is the first accelerator, or else the CPU. Raises DecabenchError."""
    import torch

    check_name(name)
    if name == "auto":
        return torch.device(first_device())
    require_device(name)
    return torch.device(name)


def autocast(device: torch.device, precision: str) -> AbstractContextManager[None]:
    """Compute in a precision, as `pick_precision` has it."""
    import torch

    is_half = pick_precision(precision) == "bfloat16"
    return torch.autocast(device.type, torch.bfloat16 if is_half else torch.float32, enabled=is_half)


def pick_precision(precision: str) -> str:
    """Return `float32` or `bfloat16`; `auto` is float32, also on GPUs.

    On an H200, MQAN's kernels are small, and many of its first steps took a second or more in bfloat16
    (docs/training.md).
    """
    return "float32" if precision == "auto" else precision


@contextmanager
def flush_denormals() -> Iterator[None]:
    """Treat numbers too small for full precision (below 1e-38) as zero in this thread's work on a CPU.

    CPUs take a hundred times as long over them, and a gradient that halves at every step of an LSTM consists of them
    after 126 steps. Beside any number that matters they are less than its rounding error.
    """
    import torch

    was_set = bool(torch.tensor(1e-39) * 1 == 0)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(was_set)


def release_memory() -> None:
    """Return freed memory to the system, where the C library can (glibc); elsewhere do nothing.

    Batches of ever other sizes leave gaps between the tensors that live on, and glibc keeps these: up to a megabyte a
    step in a training of SQuAD.
    """
    trim = _c_function("malloc_trim", ctypes.c_size_t)
    if trim is not None:
        trim(0)


_MMAP_MAX, _TRIM_THRESHOLD = -4, -1
"""Parameters of mallopt(3). Their defaults are 65,536 mappings and 128 KiB."""


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


def check_size(build: Callable[[], nn.Module]) -> None:
    """Build a network without memory, to refuse one that this machine cannot hold at once. Raises DecabenchError.

    What cannot be built in this way is not checked: it tells its own faults when it is built.
    """
    import torch
    from torch.nn.modules import module as registry

    tensors = weights = 0
    memory = _memory()

    def count(_: nn.Module, __: str, parameter: object) -> None:
        nonlocal tensors, weights
        tensors += 1
        weights += parameter.numel() if isinstance(parameter, torch.Tensor) else 0
        require_room()  # before anything is done with it, which takes time even without memory
        if tensors > _MOST_TENSORS:
            raise _TooLargeError(
                f"The network of these settings would have more than {_MOST_TENSORS:,} matrices and vectors of "
                "weights: give smaller sizes, such as model.layers."
            )

    def require_room() -> None:
        if memory is not None and 4 * weights > memory:
            raise _TooLargeError(
                f"The network of these settings would have {weights:,} weights or more, {_gigabytes(4 * weights)} in "
                f"single precision, which is too large for this machine: it has {_gigabytes(memory)} of memory. Give "
                "smaller sizes, such as model.dimension."
            )

    hook = registry.register_module_parameter_registration_hook(count)
    try:
        with torch.device("meta"), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about tables of an empty vocabulary
            build_network(build)
    except _TooLargeError:
        raise
    except Exception:
        return
    finally:
        hook.remove()


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.0f} GB" if size >= 1e11 else f"{size / 1e9:.3g} GB"


def _memory() -> int | None:
    """Return the machine's memory in bytes; None where the system does not say, as on Windows."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


@contextmanager
def reuse_memory() -> Iterator[None]:
    """Keep freed memory for the next tensors until `release_memory`, where the C library can (glibc).

    Otherwise glibc maps each large tensor anew and the system clears its pages: 7 to 16 % of a training step on a CPU.
    """
    set_option = _c_function("mallopt", ctypes.c_int, ctypes.c_int)
    if set_option is None:
        yield
        return
    set_option(_MMAP_MAX, 0)
    set_option(_TRIM_THRESHOLD, -1)
    try:
        yield
    finally:
        set_option(_MMAP_MAX, 65_536)
        set_option(_TRIM_THRESHOLD, 128 * 1024)
        release_memory()


@cache
def _c_function(name: str, *arguments: type) -> Callable[..., int] | None:
    """Find a function of the C library; None in another library than glibc, and on Windows."""
    try:
        found = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # Windows has no handle to the process
        return None
    found.argtypes, found.restype = arguments, ctypes.c_int
    return cast("Callable[..., int]", found)
