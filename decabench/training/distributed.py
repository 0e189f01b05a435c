"""Data parallelism across the processes of a run.

With a single process, this module has no effect.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from decabench.models import pick_device

Value = TypeVar("Value")


@dataclass(frozen=True)
class Processes:
    """The processes of a run, as seen by one of them."""

    rank: int
    """The number of this process, counted from 0."""
    size: int
    """The number of processes."""
    device: torch.device
    """The device used by this process."""

    @property
    def is_first(self) -> bool:
        """Whether this process validates, writes files and reports progress."""
        return self.rank == 0

    def wrap(self, network: nn.Module) -> nn.Module:
        """Return the network in a wrapper that averages gradients over all processes."""
        if self.size == 1:
            return network
        places = [self.device.index] if self.device.type == "cuda" else None
        # A step does not use the heads of other tasks or the parts that are frozen in its phase.
        # Buffers contain fixed vectors, or values that every process changes in the same way.
        return DistributedDataParallel(network, places, find_unused_parameters=True, broadcast_buffers=False)

    def total(self, values: Tensor) -> Tensor:
        """Sum a tensor over the processes, in place."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def wait(self) -> None:
        """Wait for all processes, for example until the first process has written a file."""
        if self.size > 1:
            dist.barrier()

    def first_alone(self, call: Callable[[], Value]) -> Value:
        """Call a function that caches its result on disk, first in the first process and then in all others.

        The first process computes the result, and the others read it from the cache.
        """
        if self.size == 1:
            return call()
        if self.is_first:
            value = call()
            dist.barrier()
            return value
        dist.barrier()
        return call()

    def agree(self, value: float) -> float:
        """Return the first process's value in every process."""
        if self.size == 1:
            return value
        tensor = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.broadcast(tensor, 0)
        return float(tensor.item())


@contextmanager
def join_processes(device: str) -> Iterator[Processes]:
    """Join the processes started by `torchrun`, with nccl on GPUs and gloo on other devices.

    Without `torchrun`, the run has a single process.
    """
    size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    place = pick_device(device)
    if size == 1:
        yield Processes(0, 1, place)
        return
    if place.type == "cuda":
        place = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(place)
    # Processes wait while the first one validates or reads data, which can exceed the default of 10 minutes.
    dist.init_process_group("nccl" if place.type == "cuda" else "gloo", timeout=timedelta(hours=12))
    try:
        yield Processes(rank, size, place)
    finally:
        dist.destroy_process_group()
