"""Data parallelism: how many processes there are, and what they must agree on. Alone, everything is a no-op."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from decabench.models import pick_device

__all__ = ["Processes", "processes"]

Value = TypeVar("Value")


@dataclass(frozen=True)
class Processes:
    """This process among those of a run."""

    rank: int
    """Which it is, from 0."""
    size: int
    """How many there are."""
    device: torch.device
    """Where this one computes."""

    @property
    def is_first(self) -> bool:
        """Whether it is the one that validates, writes and reports."""
        return self.rank == 0

    def total(self, values: Tensor) -> Tensor:
        """The sum over processes."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def first_alone(self, call: Callable[[], Value]) -> Value:
        """The value of a call that leaves something on the disk: the first process makes it, then the others read."""
        if self.size == 1:
            return call()
        if self.is_first:
            value = call()
            dist.barrier()
            return value
        dist.barrier()
        return call()

    def agree(self, value: float) -> float:
        """The first process's value, in every process."""
        if self.size == 1:
            return value
        tensor = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.broadcast(tensor, 0)
        return float(tensor.item())


@contextmanager
def processes(device: str) -> Iterator[Processes]:
    """Joins the processes that `torchrun` started (nccl on GPUs, gloo elsewhere); one alone where it did not."""
    size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    place = pick_device(device)
    if size == 1:
        yield Processes(0, 1, place)
        return
    if place.type == "cuda":
        place = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(place)
    # The others wait while the first validates, or reads the data: that may take longer than the ten minutes' default.
    dist.init_process_group("nccl" if place.type == "cuda" else "gloo", timeout=timedelta(hours=12))
    try:
        yield Processes(rank, size, place)
    finally:
        dist.destroy_process_group()
