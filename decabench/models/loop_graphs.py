"""A loop over time recorded as a CUDA graph, so that its hundreds of small kernels are launched at once.

A graph is of fixed sizes: tensors are padded up to the next of a few, and one graph is recorded for each combination
that occurs. Elsewhere than on a GPU the padded tensors are computed with as they are, which is no faster, but lets the
padding be tested anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["LoopGraphs", "pad_axes", "round_up"]

Loop = Callable[..., tuple[Tensor, ...]]
"""A function of tensors alone: the same kernels for the same shapes, and no value read from the device."""

MOST_GRAPHS = 512
"""How many graphs are recorded; other sizes are then computed without one. Each holds what it reads and writes."""


def round_up(size: int, least: int = 4) -> int:
    """Return the next of the sizes to pad to: multiples of `least`, and above 4 x `least` four for each power of two.

    There, less than a quarter of `size` is added.
    """
    step = max(least, 1 << max(0, (size - 1).bit_length() - 3))
    return -(-size // step) * step


def pad_axes(tensor: Tensor, sizes: Mapping[int, int], value: float = 0.0) -> Tensor:
    """Return a tensor with some axes (axis to size) padded at their ends, contiguous in any case."""
    shape = [sizes.get(axis, size) for axis, size in enumerate(tensor.shape)]
    if shape == list(tensor.shape):
        return tensor.contiguous()  # so that what is computed with does not depend on which batch came first
    padded = tensor.new_full(shape, value)
    padded[tuple(slice(size) for size in tensor.shape)] = tensor
    return padded


class LoopGraphs:
    """Runs loops from the graphs that it has recorded of them, by name and shapes."""

    def __init__(self) -> None:
        self.recorded: dict[tuple[object, ...], Loop] = {}
        self._pools: dict[torch.device, Any] = {}

    def run(self, name: str, loop: Loop, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Run a loop on tensors, whose shapes should recur: a graph is recorded for each combination of shapes."""
        if not tensors[0].is_cuda:
            return loop(*tensors)
        device = tensors[0].device
        key = (name, device, *((tensor.shape, tensor.dtype) for tensor in tensors))
        with torch.cuda.device(device):  # which need not be the current one
            if key not in self.recorded:
                if len(self.recorded) >= MOST_GRAPHS:
                    return loop(*tensors)
                # Graphs run one after another, and results are copied at once: they can share the memory in between.
                if device not in self._pools:
                    self._pools[device] = torch.cuda.graph_pool_handle()
                self.recorded[key] = _record(loop, tensors, self._pools[device])
            return self.recorded[key](*tensors)


def _record(loop: Loop, tensors: Sequence[Tensor], pool: Any) -> Loop:
    """Record a loop; what is returned copies tensors to where its graph reads, and results from where it writes."""
    inputs = [tensor.detach().clone() for tensor in tensors]
    # Handles and workspaces of libraries are made on first use, which cannot be recorded.
    beside, here = torch.cuda.Stream(), torch.cuda.current_stream()  # type: ignore[no-untyped-call]
    beside.wait_stream(here)
    with torch.cuda.stream(beside):
        for _ in range(2):
            loop(*inputs)
    here.wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    # Meanwhile another thread may collate the next batch into pinned memory: only this one's calls are recorded.
    with torch.cuda.graph(graph, pool=pool, stream=beside, capture_error_mode="thread_local"):
        outputs = loop(*inputs)

    def replay(*given: Tensor) -> tuple[Tensor, ...]:
        for own, tensor in zip(inputs, given, strict=True):
            own.copy_(tensor)
        graph.replay()
        return tuple(output.clone() for output in outputs)

    return replay
