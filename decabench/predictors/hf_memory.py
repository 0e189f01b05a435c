"""When memory runs out, and how it is given back."""

from __future__ import annotations

import gc
from contextlib import suppress

__all__ = ["free", "is_lost_device", "is_no_memory"]

_WORDS = ("can't allocate memory", "not enough memory", "out of memory", "Invalid buffer size")
"""What torch says where it has no class of error for it: on CPU and MPS."""


def is_no_memory(error: Exception) -> bool:
    """Whether it says that something did not fit, on any device."""
    import torch

    kind = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
    if isinstance(error, (MemoryError, kind)):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _WORDS)


def is_lost_device(error: Exception) -> bool:
    """Whether the GPU refuses all further work of this process, as it does after a failed assertion in a kernel."""
    words = ("CUDA error", "device-side assert", "HIP error")
    return not is_no_memory(error) and any(word in str(error) for word in words)


def free() -> None:
    """Gives back what nothing refers to any more."""
    import torch

    gc.collect()
    with suppress(RuntimeError):  # a device that is lost cannot be tidied, and its error has been told
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        elif torch.backends.mps.is_available():
            torch.mps.empty_cache()
