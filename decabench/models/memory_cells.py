"""The memory-enhanced LSTM of the shared-memory paper: all steps of one text after another, with an explicit gradient.

Equation numbers are those of Liu et al. 2016, "Deep Multi-Task Learning with Shared Memory". `MemoryRecurrence` unrolls
texts of several tasks at once, each task with weights of its own; what tasks share comes in once for each. Autograd
would add to the gradients of the weights at every step; here the backward loop only carries the gradients of states and
memories, and the weights get theirs afterwards, in one product for all steps.

G tasks, B texts of each, N = G B, T tokens, d the width of the states, K segments of a memory, M their width, R that of
what is read in all. Gates are in the order o, i, f, g; what is emitted to a memory in the order key, add, erase. Words
(G, B, T, m) are read from the first to the last; padding is at the end and changes no state of a token.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["MEMORY_READS", "MemoryRecurrence", "MemoryWeights", "unroll"]

MEMORY_READS = ("both", "global", "late")
"""What of an ARC-II's memories enters h_t, which the paper leaves open: the local read of t - 1 and the global read of
t; the latter alone; or both of t - 1."""

_TINY = 1e-12  # the cosine of a key of zeros, as before the first word, is 0


class MemoryWeights(NamedTuple):
    """A memory and what emits its keys and the vectors to erase and to add (Eq. 5), one for each task."""

    initial: Tensor
    """(G, K, M), the content before the first word"""
    weight: Tensor
    """(G, n, 3M), W_m, from the state of width n that writes: the LSTM's, or a read of the local memory"""
    bias: Tensor
    """(G, 1, 3M), b_m"""


class _Memory:
    """A memory over all steps. Index t of `content` and `attention` is before the step t, counted from 0."""

    def __init__(self, weights: MemoryWeights, length: int, texts: int) -> None:
        self.weights = weights
        tasks, segments, width = weights.initial.shape
        rows, new = tasks * texts, weights.initial.new_empty
        self.content = new(length + 1, rows, segments, width)
        self.content[0] = weights.initial[:, None].expand(-1, texts, -1, -1).flatten(0, 1)
        self.attention = new(length + 1, rows, 1, segments)
        self.attention[0] = 1 / segments  # as for a key of zeros
        self.cosines, self.norms = new(length, rows, segments).unbind(), new(length, rows, segments).unbind()
        self.key_norms = new(length, rows, 1).unbind()
        self.emitted = new(length + 1, tasks, texts, 3 * width)
        self.emitted[0] = 0
        # Views of all steps at once: slicing step by step would take as long as computing.
        self.contents, self.attentions = self.content.unbind(), self.attention.unbind()
        self.emissions, self.keys = self.emitted.unbind(), self.emitted[..., :width].flatten(1, 2).unbind()
        self.adds = self.emitted[..., width : 2 * width].flatten(1, 2).unsqueeze(2).unbind()
        self.erases = self.emitted[..., 2 * width :].flatten(1, 2).unsqueeze(2).unbind()
        self.width = width

    def attend(self, t: int) -> None:
        """Compute the attention of step t (Eq. 7, and the cosine of Eq. 8)."""
        content, key = self.contents[t], self.keys[t]
        norm = torch.sqrt(content.square().sum(2).add_(_TINY), out=self.norms[t])
        key_norm = torch.sqrt(key.square().sum(1, keepdim=True).add_(_TINY), out=self.key_norms[t])
        products = torch.bmm(content, key.unsqueeze(2)).squeeze(2)
        cosines = torch.div(products, norm * key_norm, out=self.cosines[t])
        torch.softmax(cosines, 1, out=self.attentions[t + 1].squeeze(1))

    def read(self, t: int, at: int, out: Tensor) -> None:
        """Read the content at `at` with the attention of index t, (N, 1, M) (Eq. 6, 16 and 18)."""
        torch.bmm(self.attentions[t], self.contents[at], out=out)

    def write(self, t: int, state: Tensor) -> None:
        """Emit from a state, (G, B, n), and write at step t (Eq. 5 and 9)."""
        emitted = torch.baddbmm(self.weights.bias, state, self.weights.weight, out=self.emissions[t + 1])
        emitted[..., : 2 * self.width].tanh_()
        emitted[..., 2 * self.width :].sigmoid_()
        content = self.contents[t]
        change = torch.addcmul(self.adds[t + 1], content, self.erases[t + 1], value=-1)
        torch.addcmul(content, self.attentions[t + 1].transpose(1, 2), change, out=self.contents[t + 1])


class _MemoryGradient:
    """The gradients of a memory, from the last step to the first."""

    def __init__(self, memory: _Memory) -> None:
        self.memory, content = memory, memory.content
        self.d_content, self.d_attention = torch.zeros_like(content[0]), torch.zeros_like(memory.cosines[0])
        self.d_key = content.new_zeros(len(content[0]), memory.width)
        emitted, width = memory.emitted[1:], memory.width
        self.d_emitted = torch.empty_like(emitted)  # before the activations
        self.d_emissions = self.d_emitted.unbind()
        tanh, sigmoid = emitted[..., : 2 * width], emitted[..., 2 * width :]
        self.slopes = torch.cat([1 - tanh.square(), sigmoid * (1 - sigmoid)], 3).unbind()

    def read(self, t: int, at: int, d_read: Tensor) -> None:
        """Go back through a read, whose gradient is (N, 1, M)."""
        self.d_attention += torch.bmm(self.memory.contents[at], d_read.transpose(1, 2)).squeeze(2)
        self.d_content.baddbmm_(self.memory.attentions[t].transpose(1, 2), d_read)

    def write(self, t: int) -> Tensor:
        """Go back through the write of step t; return the gradient of what was emitted, (G, B, 3M)."""
        memory, d_content = self.memory, self.d_content
        attention, add, erase = memory.attentions[t + 1], memory.adds[t + 1], memory.erases[t + 1]
        kept = d_content * memory.contents[t]
        d_attention = torch.bmm(d_content, add.transpose(1, 2)).baddbmm_(
            kept, erase.transpose(1, 2), alpha=-1
        )
        self.d_attention += d_attention.squeeze(2)
        d_add = torch.bmm(attention, d_content).squeeze(1)
        d_erase = torch.bmm(attention, kept).squeeze(1).neg_()
        d_content.addcmul_(d_content, attention.transpose(1, 2) * erase, value=-1)
        joined = torch.cat([self.d_key, d_add, d_erase], 1)
        return torch.mul(joined.view_as(self.slopes[t]), self.slopes[t], out=self.d_emissions[t])

    def attend(self, t: int) -> None:
        """Go back through the attention of step t, to the content and the key before it."""
        memory = self.memory
        attention, cosines = memory.attentions[t + 1].squeeze(1), memory.cosines[t]
        d_attention = self.d_attention
        weighted = attention * d_attention
        d_cosines = torch.addcmul(weighted, attention, weighted.sum(1, keepdim=True), value=-1)
        scaled = (d_cosines / memory.norms[t]).unsqueeze(2)
        content, key_norm = memory.contents[t], memory.key_norms[t]
        key = memory.keys[t] / key_norm
        turned = d_cosines * cosines
        d_key = torch.bmm(scaled.transpose(1, 2), content).squeeze(1)
        self.d_key = d_key.addcmul_(turned.sum(1, keepdim=True), key, value=-1).div_(key_norm)
        shrunk = (turned / memory.norms[t].square()).unsqueeze(2)
        self.d_content.baddbmm_(scaled, key.unsqueeze(1)).addcmul_(shrunk, content, value=-1)
        d_attention.zero_()

    def weights(self, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of MemoryWeights, from the states that wrote, (T, G, B, n)."""
        tasks = states.shape[1]
        initial = self.d_content.view(tasks, -1, *self.d_content.shape[1:]).sum(1)
        return initial, _products(states, self.d_emitted), self.d_emitted.sum((0, 2))[:, None]


def _products(inputs: Tensor, gradients: Tensor) -> Tensor:
    """The gradient, (G, n, k), of matrices from inputs, (T, G, B, n), and from that of products, (T, G, B, k)."""
    return torch.bmm(
        inputs.transpose(0, 1).flatten(1, 2).transpose(1, 2), gradients.transpose(0, 1).flatten(1, 2)
    )


class MemoryRecurrence(torch.autograd.Function):
    """All steps of ME-LSTM and ARC-I (one memory, Eq. 13) or of ARC-II (two, Eq. 16-19): h and g, (T, G, B, d) each.

    g, the fusion gate, is for looking at: it has no gradient.

    Arguments: given (T, G, B, 4d), the words' part of W_p [...] + b_p; recurrent (G, d, 4d), W_p for h; fuse
    (G, R, 2d), W_f and W_r; from_cell (G, d, d), W_c; which reads enter h_t in ARC-II; weights of one or two memories.
    """

    @staticmethod
    def forward(
        ctx: Any,
        given: Tensor,
        recurrent: Tensor,
        fuse: Tensor,
        from_cell: Tensor,
        reads: str,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor]:
        length, tasks, texts, d = *given.shape[:3], recurrent.shape[1]
        rows = tasks * texts
        memories = [
            _Memory(MemoryWeights(*weights[at : at + 3]), length, texts) for at in range(0, len(weights), 3)
        ]
        local, width = memories[0], memories[0].width
        # What was read, by index: of one memory what step t reads; of two what is read after step t - 1.
        read = given.new_empty(length + 1, len(memories), rows, 1, width)
        if len(memories) == 2:
            for memory, first in zip(memories, read[0], strict=True):
                memory.read(0, 0, first)
        inputs = given.new_empty(length, tasks, texts, fuse.shape[1])
        parts = [part.flatten(1, 2).unsqueeze(2).unbind() for part in torch.split(inputs, width, 3)]
        states, cells = (
            given.new_zeros(length + 1, tasks, texts, d),
            given.new_zeros(length + 1, tasks, texts, d),
        )
        gates, fusion = torch.empty_like(given), given.new_empty(length, tasks, texts, 2 * d)
        squashed = given.new_empty(length, tasks, texts, d)
        now, state, cell, gate = (part.unbind() for part in (given, states, cells, gates))
        fused, tanh, into = fusion.unbind(), squashed.unbind(), inputs.unbind()
        found = [part.unbind() for part in read.unbind(1)]
        sources = _sources(reads) if len(memories) == 2 else ()
        for t in range(length):
            for memory in memories:
                memory.attend(t)
            if not sources:
                local.read(t + 1, t, parts[0][t])
            for part, (which, late) in zip(parts, sources, strict=False):
                part[t].copy_(found[which][max(t - late, 0)])
            raw = torch.baddbmm(now[t], state[t], recurrent, out=gate[t])
            sigmoids, candidate = raw[..., : 3 * d].sigmoid_(), raw[..., 3 * d :].tanh_()
            o, i, f = sigmoids.chunk(3, 2)
            c = torch.addcmul(f * cell[t], i, candidate, out=cell[t + 1])
            added, g = torch.bmm(into[t], fuse, out=fused[t]).chunk(2, 2)
            g.baddbmm_(c, from_cell).sigmoid_()  # Eq. 12
            torch.tanh(torch.addcmul(c, g, added), out=tanh[t])
            h = torch.mul(o, tanh[t], out=state[t + 1])  # Eq. 11
            local.write(t, h)
            if sources:
                local.read(t + 1, t + 1, found[0][t + 1])  # Eq. 16
                memories[1].write(t, found[0][t + 1].view(tasks, texts, width))  # Eq. 19
                memories[1].read(t + 1, t + 1, found[1][t + 1])  # Eq. 18, of the step after this
        ctx.memories, ctx.sources = memories, sources
        ctx.save_for_backward(
            recurrent, fuse, from_cell, read, inputs, states, cells, gates, fusion, squashed
        )
        gate_of_fusion = fusion[..., d:].clone()
        ctx.mark_non_differentiable(gate_of_fusion)
        return states[1:], gate_of_fusion

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        recurrent, fuse, from_cell, read, inputs, states, cells, gates, fusion, squashed = ctx.saved_tensors
        memories, sources = ctx.memories, ctx.sources
        length, tasks, texts, d = squashed.shape
        width = memories[0].width
        d_gates, d_fusion = torch.empty_like(gates), torch.empty_like(fusion)
        # What does not depend on later steps, for all steps at once.
        o, i, f, candidate = gates.chunk(4, 3)
        added, g = fusion.chunk(2, 3)
        slopes = torch.cat(
            [
                squashed * o * (1 - o),
                candidate * i * (1 - i),
                cells[:-1] * f * (1 - f),
                i * (1 - candidate.square()),
            ],
            3,
        ).unbind()
        by_sum = (o * (1 - squashed.square())).unbind()
        by_fusion = torch.cat([g, added * g * (1 - g)], 3).unbind()
        keep, given, d_gate, d_fused = f.unbind(), grads[0].unbind(), d_gates.unbind(), d_fusion.unbind()
        gradients = [_MemoryGradient(memory) for memory in memories]
        d_reads = torch.zeros_like(read)  # of two memories
        d_read = [part.unbind() for part in d_reads.unbind(1)]
        turned = [weight.transpose(1, 2) for weight in (recurrent, fuse, from_cell)]
        emit = [memory.weights.weight.transpose(1, 2) for memory in memories]
        d_h = d_c = squashed.new_zeros(tasks, texts, d)
        for t in reversed(range(length)):
            if sources:
                gradients[1].read(t + 1, t + 1, d_read[1][t + 1])
                d_local = torch.bmm(gradients[1].write(t), emit[1])
                d_read[0][t + 1].add_(d_local.view(-1, 1, width))
                gradients[1].attend(t)
                gradients[0].read(t + 1, t + 1, d_read[0][t + 1])
            d_state = torch.baddbmm(given[t] + d_h, gradients[0].write(t), emit[0])
            d_sum = d_state * by_sum[t]
            torch.mul(d_sum.repeat(1, 1, 2), by_fusion[t], out=d_fused[t])
            d_c = torch.baddbmm(d_c + d_sum, d_fused[t][..., d:], turned[2])
            d_into = torch.bmm(d_fused[t], turned[1])
            if sources:
                for (which, late), part in zip(sources, torch.split(d_into, width, 2), strict=True):
                    d_read[which][max(t - late, 0)].add_(part.reshape(-1, 1, width))
            else:
                gradients[0].read(t + 1, t, d_into.view(-1, 1, width))
            gradients[0].attend(t)
            torch.mul(d_c.repeat(1, 1, 4), slopes[t], out=d_gate[t])
            torch.mul(d_state, slopes[t][..., :d], out=d_gate[t][..., :d])
            d_c = d_c * keep[t]
            d_h = torch.bmm(d_gate[t], turned[0])
        if sources:
            for which, gradient in enumerate(gradients):
                gradient.read(0, 0, d_read[which][0])
        writers = [states[1:], read[1:, 0].view(length, tasks, texts, width)]
        of_memories = [
            part for gradient, own in zip(gradients, writers, strict=False) for part in gradient.weights(own)
        ]
        return (
            d_gates,
            _products(states[:-1], d_gates),
            _products(inputs, d_fusion),
            _products(cells[1:], d_fusion[..., d:]),
            None,
            *of_memories,
        )


def _sources(reads: str) -> tuple[tuple[int, int], ...]:
    """What enters h_t in ARC-II: which memory (0: local), and by how many steps its read is late."""
    return {"both": ((0, 0), (1, 0)), "global": ((1, 0),), "late": ((0, 0), (1, 1))}[reads]


def unroll(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    fuse: Tensor,
    from_cell: Tensor,
    memories: tuple[MemoryWeights, ...],
    reads: str = "both",
) -> tuple[Tensor, Tensor]:
    """Read the words of G tasks, (G, B, T, m): states and fusion gates, (G, B, T, d) each.

    `weight` (G, 4d, m + d) is W_p and `bias` (G, 4d) b_p; `fuse` (G, 2d, R) is W_f above W_r; `from_cell` (G, d, d)
    is W_c. W_p x is one product for all words.
    """
    tasks, texts, length, m = x.shape
    weight = weight.transpose(1, 2)
    given = torch.baddbmm(bias[:, None], x.transpose(1, 2).reshape(tasks, length * texts, m), weight[:, :m])
    given = given.view(tasks, length, texts, -1).transpose(0, 1).contiguous()
    tensors = (given, weight[:, m:], fuse.transpose(1, 2), from_cell.transpose(1, 2))
    # Too small to gain from half precision, which would also lose accuracy in the sums passed from step to step.
    with torch.autocast(x.device.type, enabled=False):
        flat = [_full(part) for memory in memories for part in memory]
        states, gates = MemoryRecurrence.apply(*map(_full, tensors), reads, *flat)  # type: ignore[no-untyped-call]
    return states.permute(1, 2, 0, 3), gates.permute(1, 2, 0, 3)


def _full(x: Tensor) -> Tensor:
    """Return x in single precision, unless it has more."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
