"""Names of devices, and whether this machine has them."""

from __future__ import annotations

import re

from decabench.errors import DecabenchError

__all__ = ["check_name", "first_device", "require_device"]

_NAME = re.compile(r"auto|cpu|mps|cuda(:\d+)?")


def check_name(device: str) -> None:
    """Raises DecabenchError for what names no device. Needs no torch."""
    if not _NAME.fullmatch(device):
        raise DecabenchError(f"--device is auto, cpu, mps, cuda or cuda:N, and {device} was given.")


def first_device() -> str:
    """The first of cuda, mps and cpu that is here."""
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def require_device(device: str) -> None:
    """Raises DecabenchError where this machine has it not."""
    import torch

    kind, _, number = device.partition(":")
    count = {"cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}.get(kind, 1)
    if int(number or 0) >= count:
        raise DecabenchError(
            f"torch finds no {device} on this machine: --device cpu is slower and needs none."
        )
