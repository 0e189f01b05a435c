"""Devices: their names, which ones this machine has, and mixed precision.

Checking a name needs no torch, so torch is imported inside the functions.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import TYPE_CHECKING, cast

from decabench.errors import DecabenchError

if TYPE_CHECKING:
    import torch

_NAME = re.compile(r"auto|cpu|mps|cuda(:\d+)?")


def check_name(device: str) -> None:
    """Check that a device name is valid. Raises DecabenchError if it is not."""
    if not _NAME.fullmatch(device):
        raise DecabenchError(f"Unknown device {device!r}: give auto, cpu, mps, cuda or cuda:N as --device.")


def first_device() -> str:
    """Return the first of cuda, mps and cpu that this machine has."""
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
    """Compute in the precision that `pick_precision` returned."""
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

    CPUs are a hundred times slower on such numbers, and a gradient that halves at every step of an LSTM reaches
    them after 126 steps. They are smaller than the rounding error of any number that matters.
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

    Batches of varying sizes leave gaps between tensors that are still in use, and glibc keeps these gaps: up to
    a megabyte per step when training on SQuAD.
    """
    trim = _c_function("malloc_trim", ctypes.c_size_t)
    if trim is not None:
        trim(0)


_MMAP_MAX, _TRIM_THRESHOLD = -4, -1
"""Parameters of mallopt(3). Their defaults are 65,536 mappings and 128 KiB."""


@contextmanager
def reuse_memory() -> Iterator[None]:
    """Keep freed memory for the next tensors until `release_memory`, where the C library can (glibc).

    Otherwise glibc maps each large tensor again and the system clears its pages: 7 to 16 % of a training step on a CPU.
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
    try:
        found = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # on Windows, and in libraries other than glibc
        return None
    found.argtypes, found.restype = arguments, ctypes.c_int
    return cast("Callable[..., int]", found)
