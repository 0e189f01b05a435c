"""Device selection, and control of the memory that torch uses.

Device names can be checked without torch, which is imported inside the functions.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, cast

from decabench.errors import DecabenchError

if TYPE_CHECKING:
    import torch

_NAME = re.compile(r"auto|cpu|mps|cuda(:\d+)?")


def check_name(device: str) -> None:
    """Raise DecabenchError if a device name is invalid."""
    if not _NAME.fullmatch(device):
        raise DecabenchError(f"Unknown device {device!r}. Choose auto, cpu, mps, cuda or cuda:N.")


def first_device() -> str:
    """Return the first available device out of cuda, mps and cpu."""
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def require_device(device: str) -> None:
    """Raise DecabenchError if a device is not available on this machine."""
    import torch

    kind, _, number = device.partition(":")
    count = {"cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}.get(kind, 1)
    if int(number or 0) >= count:
        raise DecabenchError(
            f"torch found no {device} device on this machine. Use --device cpu, which is slower but works everywhere."
        )


def pick_device(name: str) -> torch.device:
    """Return the device with this name.

    `auto` selects the first accelerator, or the CPU if there is no accelerator. Raises DecabenchError if the name is
    invalid or the device is not available.
    """
    import torch

    check_name(name)
    if name == "auto":
        return torch.device(first_device())
    require_device(name)
    return torch.device(name)


@contextmanager
def flush_denormals() -> Iterator[None]:
    """Treat numbers below 1e-38 as zero on the CPU, in this thread.

    CPUs are a hundred times slower with such denormal numbers, and a gradient that halves at every step of an
    LSTM becomes denormal after 126 steps. These numbers are too small to affect the results: they are below
    the rounding error of any number that matters.
    """
    import torch

    was_set = bool(torch.tensor(1e-39) * 1 == 0)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(was_set)


def release_memory() -> None:
    """Return freed memory to the system, if the C library is glibc.

    Batches of varying sizes leave gaps between tensors that are still in use. glibc keeps these gaps, which
    amount to as much as a megabyte per step when training on SQuAD.
    """
    trim = _c_function("malloc_trim", ctypes.c_size_t)
    if trim is not None:
        trim(0)


_MMAP_MAX, _TRIM_THRESHOLD = -4, -1
"""Parameters of mallopt(3). Their defaults are 65,536 mappings and 128 KiB."""


@contextmanager
def reuse_memory() -> Iterator[None]:
    """Keep freed memory for later tensors until `release_memory` is called, if the C library is glibc.

    Without this, glibc maps new memory for each large tensor and the system clears it, which takes 7 to 16% of
    the time of a training step on a CPU.
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
