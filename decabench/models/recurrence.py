"""The decoder's loop over time (Eq. 7-9), with an explicit gradient: the one part that must run step by step.

Autograd would add to the gradients of the weights and of the whole context at every step. Here the backward loop only
carries the gradient of the state; weights and context get their gradients afterwards, in one product for all steps.
B examples, l context tokens, n steps, d the width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

# A loop recorded as a CUDA graph: its hundreds of small kernels are launched at once. A graph has fixed sizes, so
# tensors are padded to the next of a few sizes. Without a GPU the padded tensors are computed normally, which is no
# faster but allows tests of the padding anywhere.

Loop = Callable[..., tuple[Tensor, ...]]
"""A function of tensors only: the same shapes run the same kernels, and no value is read from the device."""

MOST_GRAPHS = 512
"""The maximum number of graphs; other sizes run without one. Each graph holds its inputs and outputs."""


def round_up(size: int, least: int = 4) -> int:
    """Return the next size to pad to: a multiple of `least` up to 4 x `least`, then four sizes for each power of two.

    There, padding adds less than a quarter of `size`.
    """
    step = max(least, 1 << max(0, (size - 1).bit_length() - 3))
    return -(-size // step) * step


def pad_axes(tensor: Tensor, sizes: Mapping[int, int], value: float = 0.0) -> Tensor:
    """Return a contiguous tensor with some axes (axis to size) padded at their ends."""
    shape = [sizes.get(axis, size) for axis, size in enumerate(tensor.shape)]
    if shape == list(tensor.shape):
        return tensor.contiguous()  # so that the computation does not depend on which batch came first
    padded = tensor.new_full(shape, value)
    padded[tuple(slice(size) for size in tensor.shape)] = tensor
    return padded


class LoopGraphs:
    """Runs loops from their recorded graphs, by name and shapes."""

    def __init__(self) -> None:
        self.recorded: dict[tuple[object, ...], Loop] = {}
        self._pools: dict[torch.device, Any] = {}

    def run(self, name: str, loop: Loop, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Run a loop on tensors, whose shapes should recur: a graph is recorded for each combination of shapes."""
        if not tensors[0].is_cuda:
            return loop(*tensors)
        device = tensors[0].device
        key = (name, device, *((tensor.shape, tensor.dtype) for tensor in tensors))
        with torch.cuda.device(device):  # may differ from the current device
            if key not in self.recorded:
                if len(self.recorded) >= MOST_GRAPHS:
                    return loop(*tensors)
                # Graphs run one after another and their results are copied immediately, so they can share memory.
                if device not in self._pools:
                    self._pools[device] = torch.cuda.graph_pool_handle()
                self.recorded[key] = _record(loop, tensors, self._pools[device])
            return self.recorded[key](*tensors)


def _record(loop: Loop, tensors: Sequence[Tensor], pool: Any) -> Loop:
    """Record a loop; return a function that copies tensors into the graph's inputs, and results from its outputs."""
    inputs = [tensor.detach().clone() for tensor in tensors]
    # Libraries create handles and workspaces on first use, which cannot be recorded.
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


# The loop


class StepWeights(NamedTuple):
    """The loop's matrices, joined so that a step multiplies by each only once."""

    recurrent: Tensor
    """(2d, 4d), from [c~; h] to the LSTM's gates (Eq. 7)"""
    from_h: Tensor
    """(d, 2d), from h to the query of Eq. 8 (W_2) and to Eq. 9 (W_4's part for h)"""
    sum_part: Tensor
    """(d, d), W_4's part for C_fin^T alpha"""
    bias: Tensor
    """(d,), of W_4"""


class DecoderStep(NamedTuple):
    """The results of a step."""

    h: Tensor
    """(B, d)"""
    c: Tensor
    """(B, d), the LSTM's cell"""
    context: Tensor
    """c~, (B, d)"""
    attention: Tensor
    """alpha^C, (B, l, 1)"""
    gates: Tensor
    """(B, 4d): input gate, forget gate, candidate and output gate, after their activations"""
    query: Tensor
    """W_2 h, (B, d)"""
    summed: Tensor
    """C_fin^T alpha, (B, d)"""


def advance(
    now: Tensor, state: Tensor, c: Tensor, memory: Tensor, closed: Tensor, weights: StepWeights
) -> DecoderStep:
    """Take one step of Eq. 7-9.

    `now` (B, 4d): the answer's part of the gates; `state` (B, 2d): [c~; h] from the previous step; `memory`
    C_fin (B, l, d); `closed` (B, l, 1): 0 at tokens, -inf at padding. A function of tensors only, so that it can be
    compiled separately.
    """
    i, f, g, o = torch.addmm(now, state, weights.recurrent).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    c = f * c + i * g
    h = o * c.tanh()  # Eq. 7
    query, h_part = (h @ weights.from_h).chunk(2, 1)
    attention = torch.baddbmm(closed, memory, query[:, :, None]).softmax(1)  # Eq. 8: (B, l, 1)
    summed = torch.bmm(attention.transpose(1, 2), memory).squeeze(1)
    context = (torch.addmm(weights.bias, summed, weights.sum_part.t()) + h_part).tanh()  # Eq. 9
    return DecoderStep(h, c, context, attention, torch.cat([i, f, g, o], 1), query, summed)


def retreat(
    d_h: Tensor,
    d_c: Tensor,
    d_context: Tensor,
    d_attention: Tensor,
    made: DecoderStep,
    c_before: Tensor,
    memory: Tensor,
    weights: StepWeights,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Compute the gradient of one step with respect to its gates (B, 4d), the c before it, and its inner values.

    The inner values are query (B, d), scores (B, l, 1), C_fin^T alpha (B, d), and Eq. 9 before its tanh (B, d).
    """
    d_inner = d_context * (1 - made.context**2)
    d_summed = d_inner @ weights.sum_part
    d_alpha = d_attention + torch.bmm(memory, d_summed[:, :, None])
    weighed = made.attention * d_alpha
    d_scores = weighed - made.attention * weighed.sum(1, keepdim=True)
    d_query = torch.bmm(d_scores.transpose(1, 2), memory).squeeze(1)
    d_h = torch.addmm(d_h, torch.cat([d_query, d_inner], 1), weights.from_h.t())
    i, f, g, o = made.gates.chunk(4, 1)
    tanh = made.c.tanh()
    d_c = d_c + d_h * o * (1 - tanh**2)
    d_gates = [
        d_c * g * i * (1 - i),
        d_c * c_before * f * (1 - f),
        d_c * i * (1 - g**2),
        d_h * tanh * o * (1 - o),
    ]
    return torch.cat(d_gates, 1), d_c * f, d_query, d_scores, d_summed, d_inner


class StepFunctions(NamedTuple):
    """The functions for a step forward and a step backward, plain or compiled, and the loops over them."""

    advance: Callable[..., DecoderStep] = advance
    """`advance`"""
    retreat: Callable[..., tuple[Tensor, ...]] = retreat
    """`retreat`"""
    graphs: LoopGraphs | None = None
    """The graphs of both loops; if None, steps are launched one by one."""

    def compiled(self) -> StepFunctions:
        """Return compiled versions, each fused into one kernel where torch.compile can."""
        return self._replace(
            advance=torch.compile(self.advance, dynamic=True),
            retreat=torch.compile(self.retreat, dynamic=True),
        )

    def recorded(self) -> StepFunctions:
        """Return functions whose loops are padded to a few sizes, and recorded as CUDA graphs on a GPU."""
        return self._replace(graphs=LoopGraphs())

    def run_forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Run all steps on the tensors that `Recurrence` receives.

        Returns cells (n + 1, B, d), states (n, B, 2d), and the values of DecoderStep for all steps (n, ...).
        """
        return self.graphs.run("forward", self._forward, tensors) if self.graphs else self._forward(*tensors)

    def run_backward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Run all steps back, given the gradients of h, c~ and alpha (n, ...), memory, kept, cells, weights and steps.

        Returns the gradients of the first state and c (B, ...), and those of gates, query, scores, C_fin^T alpha and
        Eq. 9's inner value for all steps (n, ...).
        """
        return (
            self.graphs.run("backward", self._backward, tensors) if self.graphs else self._backward(*tensors)
        )

    def _forward(
        self,
        given: Tensor,
        h: Tensor,
        c: Tensor,
        memory: Tensor,
        closed: Tensor,
        kept: Tensor,
        *matrices: Tensor,
    ) -> tuple[Tensor, ...]:
        weights = StepWeights(*matrices)
        context = torch.zeros_like(h)
        cells, states, steps = [c], [], list[DecoderStep]()
        for now, keep in zip(given.unbind(1), kept, strict=True):
            state = torch.cat([context * keep, h], 1)
            moved = self.advance(now, state, c, memory, closed, weights)
            h, c, context = moved.h, moved.c, moved.context
            states.append(state)
            cells.append(c)
            steps.append(moved)
        made = (torch.stack(parts) for parts in zip(*steps, strict=True))
        return (torch.stack(cells), torch.stack(states), *made)

    def _backward(
        self,
        d_h: Tensor,
        d_context: Tensor,
        d_attention: Tensor,
        memory: Tensor,
        kept: Tensor,
        cells: Tensor,
        *rest: Tensor,
    ) -> tuple[Tensor, ...]:
        weights, made = StepWeights(*rest[:4]), DecoderStep(*rest[4:])
        n, _, d = made.h.shape
        d_c = torch.zeros_like(cells[0])
        d_state = cells.new_zeros(cells.shape[1], 2 * d)
        inner: list[tuple[Tensor, ...]] = []
        turned = weights.recurrent.t()
        for t in reversed(range(n)):  # d_state is of [c~; h], as the step after it read them
            from_next = d_state[:, :d] * kept[t + 1] if t + 1 < n else 0.0
            gates, d_c, *others = self.retreat(
                d_h[t] + d_state[:, d:],
                d_c,
                d_context[t] + from_next,
                d_attention[t],
                DecoderStep(*(part[t] for part in made)),
                cells[t],
                memory,
                weights,
            )
            d_state = gates @ turned
            inner.append((gates, *others))
        return (d_state, d_c, *(torch.stack(parts[::-1]) for parts in zip(*inner, strict=True)))


class Recurrence(torch.autograd.Function):
    """All steps of training: h (B, n, d), c~ (B, n, d) and alpha^C (B, n, l).

    Arguments: the StepFunctions; given (B, n, 4d), the answer's part of the gates; the initial h and c (B, d), while
    c~ starts at 0; memory C_fin (B, l, d); closed (B, l, 1); kept (n, B, d), which scales c~ before a step reads it
    (dropout); the four StepWeights. All must have the same precision, without autocast.
    """

    @staticmethod
    def forward(ctx: Any, how: StepFunctions, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (given, h, c, memory, closed, kept), matrices = tensors[:6], tensors[6:]
        ctx.how = how
        ctx.sizes = B, n, length = *given.shape[:2], memory.shape[1]
        if how.graphs is not None:
            # Steps, examples and tokens beyond the end have no effect on the others, and gradients of zero.
            ctx.padded = examples, steps, tokens = round_up(B), round_up(n), round_up(length, 16)
            given = pad_axes(given, {0: examples, 1: steps})
            h, c = (pad_axes(state, {0: examples}) for state in (h, c))
            memory = pad_axes(memory, {0: examples, 1: tokens})
            closed = pad_axes(pad_axes(closed, {1: tokens}, -torch.inf), {0: examples})
            kept = pad_axes(kept, {0: steps, 1: examples})
        cells, states, *steps_made = how.run_forward(given, h, c, memory, closed, kept, *matrices)
        made = DecoderStep(*steps_made)  # (n, ...) each
        ctx.save_for_backward(cells, states, memory, kept, *matrices, *made)
        outputs = made.h, made.context, made.attention.squeeze(3)
        h, context, attention = (output[:n, :B].transpose(0, 1) for output in outputs)
        return h, context, attention[:, :, :length]

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
        cells, states, memory, kept, *rest = ctx.saved_tensors
        matrices, made = rest[:4], DecoderStep(*rest[4:])
        B, n, length = ctx.sizes
        d_h, d_context, d_attention = (gradient.transpose(0, 1) for gradient in given)
        if ctx.how.graphs is not None:
            examples, steps, tokens = ctx.padded
            d_h, d_context = (pad_axes(each, {0: steps, 1: examples}) for each in (d_h, d_context))
            d_attention = pad_axes(d_attention, {0: steps, 1: examples, 2: tokens})
        d_state, d_c, d_gates, d_query, d_scores, d_summed, d_inner = ctx.how.run_backward(
            d_h, d_context, d_attention[..., None], memory, kept, cells, *matrices, *made
        )
        # C_fin occurs in Eq. 8 and Eq. 9: its gradient is one product over the steps of both.
        d_memory = torch.cat([made.attention, d_scores], 0).squeeze(3).permute(1, 2, 0) @ (
            torch.cat([d_summed, made.query], 0).transpose(0, 1)
        )
        d = made.h.shape[2]
        return (
            None,
            d_gates[:n, :B].transpose(0, 1),
            d_state[:B, d:],
            d_c[:B],
            d_memory[:B, :length],
            None,
            None,
            _products(states, d_gates),
            _products(made.h, torch.cat([d_query, d_inner], 2)),
            _products(d_inner, made.summed),
            d_inner.sum((0, 1)),
        )


def _products(x: Tensor, y: Tensor) -> Tensor:
    """(n, B, p), (n, B, q) -> (p, q), summed over steps and examples."""
    return x.flatten(0, 1).t() @ y.flatten(0, 1)
