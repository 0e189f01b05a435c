"""Shared-memory models (Liu et al. 2016) and the paper's baselines.

Equation numbers refer to the paper, "Deep Multi-Task Learning with Shared Memory". Tasks share
the embeddings, and each task has an output layer (Eq. 20). The models differ in everything else:

 | model | shared | each task's own |
 |---|---|---|
 | arc-i | the memory and its writer | LSTM, fusion |
 | arc-ii | the global memory and its writer | LSTM, fusion, local memory and its writer |
 | me-lstm | | LSTM, fusion, memory (ARC-I without sharing) |
 | mt-cnn | half of each word's vector | the other half, a convolution |
 | mt-dnn | a hidden layer | a hidden layer on top of the shared one |
 | nbow | | only the output layer |

The paper's plain LSTM is the model `lstm` in `meta_lstm.py`. A text is represented by its last
state, or with `bidirectional` by the last states of both directions. In shapes, G is the number of
tasks, B of texts per task, T of tokens and K of segments in a memory; N = G B is the number of
rows; m is the width of the word vectors, d of the states and M of a segment; R is the total width
of the reads. Gates are in the order o, i, f, g, and a memory's emitted vectors in the order key,
add, erase. Padding is at the end, so it does not affect the states of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from decabench.errors import DecabenchError
from decabench.models.batches import ColumnBatch
from decabench.models.family import Amount, Count, Family, Losses
from decabench.models.heads import ClassifierHead, LayeredHead, TaskHeads, part_name
from decabench.models.layers import WordEmbedding, max_over_time, token_mask
from decabench.models.text_network import TextConfig, TextNetwork, encode, last_states, reverse
from decabench.tasks import Label, Output
from decabench.vectors import WordTable


@dataclass(frozen=True)
class SharedMemoryConfig(TextConfig):
    """Configuration of the shared-memory models and the paper's baselines.

    Values marked *paper* are stated in the paper's text or its Table 2. *Guess* means that the paper does not
    state the value.
    """

    name: str = "arc-ii"
    """`arc-ii`, `arc-i` or `me-lstm`, or one of the baselines `mt-cnn`, `mt-dnn` and `nbow`. The paper's LSTM
    is the model `lstm` with `model.initial = 0.1`."""
    hidden: Count = 100
    """The width d of the states (paper); for mt-cnn, the number of filters (guess)."""
    segments: Count = 50
    """The number K of segments in a memory (paper)."""
    segment_width: Count = 20
    """The width M of a segment (paper)."""
    bidirectional: bool = False
    """Whether a second network, with its own memories, reads the text backwards (paper: only for its case
    study)."""
    reads: MemoryReads = "both"
    """The memory reads of `arc-ii` that enter a state. `both` uses the local read at the previous word and the global
    read at the current word (guess), `global` uses only the global read at the current word, and `late` uses both reads
    at the previous word.
    """
    align: Literal["cosine", "additive"] = "cosine"
    """How a memory's segments are compared with the key (Eq. 8): by their `cosine` similarity (paper), or by the
    `additive` score v tanh(W_a [x; y]) with trained weights, which takes three times as long."""
    fusion: Literal["own", "shared"] = "own"
    """Whether each task has its own W_f, W_r and W_c (`own`) or all tasks share them (`shared`). The paper
    can be read either way."""
    shared_layer: Count = 300
    """The width of mt-dnn's shared layer (Liu et al. 2015)."""
    own_layer: Count = 128
    """The width of each task's own layer in mt-dnn (Liu et al. 2015)."""
    window: Count = 3
    """The number of words that a filter of mt-cnn spans (guess)."""
    initial: Amount = 0.1
    """The range of the initial weights: all weights except embeddings are drawn uniformly from [-initial, initial]
    (paper)."""

    @property
    def directions(self) -> int:
        """The number of directions in which the text is read, 1 or 2."""
        return 1 + self.bidirectional


# The recurrence ----------------------------------------------------------------------------------------------------

# Autograd would update the gradients of the weights at every step, which is slower. Here, the backward loop computes
# only the gradients of states and memories. The gradients of the weights are computed after the loop, in one product
# for all steps.


MemoryReads = Literal["both", "global", "late"]
"""The values of the setting `reads`. The paper leaves open which reads of ARC-II's memories enter h_t."""
_SOURCES: Mapping[str, tuple[tuple[int, int], ...]] = {
    "both": ((0, 0), (1, 0)),
    "global": ((1, 0),),
    "late": ((0, 0), (1, 1)),
}
"""For each value of `reads`, pairs of a memory (0 is local, 1 is global) and the read's age (0 is the latest read)."""

_TINY = 1e-8  # the minimum of a norm, so that the cosine of a zero vector is 0


class MemoryWeights(NamedTuple):
    """The weights of a memory, and of the layer that emits its key, add and erase vectors, for each task (Eq. 5)."""

    initial: Tensor
    """The content before the first word, (G, K, M)."""
    weight: Tensor
    """The matrix W_m, (G, n, 3M). It is multiplied by a vector of width n: the LSTM's state, or a read of the local
    memory."""
    bias: Tensor
    """The bias b_m, (G, 1, 3M)."""
    align: Tensor | None = None
    """The matrix W_a of an additive alignment (the first form of Eq. 8), (G, 2M, M); None for the cosine."""
    vector: Tensor | None = None
    """The vector v of an additive alignment, (G, M, 1)."""


class _Memory:
    """The values of a memory at all steps, with a column for each segment.

    Steps are counted from 0, and index t holds the values before step t. `key`, `add` and `erase` are the
    vectors that the state emits, each of shape (N, 1, M). Like `content` and `attention`, they are tuples
    of views, created with `unbind` for all steps at once, because indexing a tensor at each step takes a
    third longer.
    """

    def __init__(self, weights: MemoryWeights, length: int, texts: int) -> None:
        tasks, segments, width = weights.initial.shape
        rows, new = tasks * texts, weights.initial.new_empty
        self.weights, self.width = weights, width
        content, attention = new(length + 1, rows, width, segments), new(length + 1, rows, 1, segments)
        content[0] = weights.initial.transpose(1, 2)[:, None].expand(-1, texts, -1, -1).flatten(0, 1)
        attention[:2] = 1 / segments  # uniform, because the first key is zero, so all cosines are zero
        self.content, self.attention = content.unbind(), attention.unbind()
        self.turned = content.transpose(2, 3).unbind()  # reading by rows takes half as long
        self.cosine, self.norm = new(2, length, rows, 1, segments).unbind()
        self.cosines, self.norms = self.cosine.unbind(), self.norm.unbind()
        self.key_norm = new(length, rows, 1, 1).unbind()
        self.emitted = new(length + 1, tasks, texts, 3 * width)
        self.emissions, self.vectors = self.emitted.unbind(), _vectors(self.emitted, width)
        self.key, self.add, self.erase = (part.unbind() for part in self.vectors)

    def attend(self, t: int) -> None:
        """Compute the attention of step t (Eq. 7, with the cosine of Eq. 8)."""
        if t:
            content, key = self.content[t], self.key[t]
            # vector_norm takes ten times as long along this axis.
            norm = torch.sum(content * content, 1, keepdim=True, out=self.norms[t]).sqrt_().clamp_min_(_TINY)
            key_norm = torch.sum(key * key, 2, keepdim=True, out=self.key_norm[t]).sqrt_().clamp_min_(_TINY)
            cosine = torch.div(torch.bmm(key, content), norm * key_norm, out=self.cosines[t])
            torch.softmax(cosine, 2, out=self.attention[t + 1])

    def read(self, t: int, at: int, out: Tensor) -> None:
        """Compute a read vector, (N, 1, M), and store it in `out` (Eq. 6, 16 and 18).

        `t` is the index of the attention, and `at` is the index of the content.
        """
        torch.bmm(self.attention[t], self.turned[at], out=out)

    def write(self, t: int, state: Tensor) -> None:
        """Emit vectors from a state and write them to the memory at step t (Eq. 5 and 9).

        `state` has shape (G, B, n).
        """
        torch.baddbmm(self.weights.bias, state, self.weights.weight, out=self.emissions[t + 1])
        self.key[t + 1].tanh_()
        self.add[t + 1].tanh_()
        self.erase[t + 1].sigmoid_()
        content, attention = self.content[t], self.attention[t + 1]
        erased = torch.bmm(self.erase[t + 1].transpose(1, 2), attention)
        kept = torch.addcmul(content, content, erased, value=-1)
        torch.baddbmm(kept, self.add[t + 1].transpose(1, 2), attention, out=self.content[t + 1])


def _vectors(emitted: Tensor, width: int) -> tuple[Tensor, ...]:
    """Return views of the emitted keys, add vectors and erase vectors, each of shape (T, N, 1, M).

    `emitted` contains all three, as a tensor of shape (T, G, B, 3M).
    """
    return torch.split(emitted.flatten(1, 2).unsqueeze(2), width, 3)


class _MemoryGradient:
    """The gradients of a memory, computed from the last step to the first."""

    def __init__(self, memory: _Memory) -> None:
        self.memory = memory
        self.d_content, self.d_key = torch.zeros_like(memory.content[0]), torch.zeros_like(memory.key[0])
        self.d_attention = self.no_attention = torch.zeros_like(memory.attention[0])
        self.d_emitted = torch.empty_like(memory.emitted[1:])  # before the activations
        self.emissions = self.d_emitted.unbind()
        self.d_vectors = [part.unbind() for part in _vectors(self.d_emitted, memory.width)]
        key, add, erase = (part[1:] for part in memory.vectors)
        # The last slope is negated, because the erase vectors are subtracted.
        slopes = 1 - key.square(), 1 - add.square(), erase * (erase - 1)
        self.slopes = [slope.unbind() for slope in slopes]
        self.scale, self.shrink = (1 / memory.norm).unbind(), (memory.cosine / memory.norm).unbind()

    def read(self, t: int, at: int, d_read: Tensor) -> None:
        memory = self.memory
        self.d_attention = torch.baddbmm(self.d_attention, d_read, memory.content[at])
        self.d_content.baddbmm_(d_read.transpose(1, 2), memory.attention[t])

    def write(self, t: int) -> Tensor:
        """Return the gradient with respect to the vectors emitted at step t, (G, B, 3M)."""
        memory, d_content = self.memory, self.d_content
        attention, add, erase = memory.attention[t + 1], memory.add[t + 1], memory.erase[t + 1]
        kept = d_content * memory.content[t]
        d_attention = torch.baddbmm(self.d_attention, add, d_content)
        self.d_attention = d_attention.baddbmm_(erase, kept, alpha=-1)
        of_add = torch.bmm(attention, d_content.transpose(1, 2))
        found = self.d_key, of_add, torch.bmm(attention, kept.transpose(1, 2))
        for own, slope, into in zip(found, self.slopes, self.d_vectors, strict=True):
            torch.mul(own, slope[t], out=into[t])
        d_content.addcmul_(d_content, torch.bmm(erase.transpose(1, 2), attention), value=-1)
        return self.emissions[t]

    def attend(self, t: int) -> None:
        if t:
            memory, attention = self.memory, self.memory.attention[t + 1]
            key = memory.key[t] / memory.key_norm[t]
            weighted = attention * self.d_attention
            d_cosine = weighted.addcmul_(attention, weighted.sum(2, keepdim=True), value=-1)
            scaled = d_cosine * self.scale[t]
            along = (d_cosine * memory.cosines[t]).sum(2, keepdim=True)
            d_key = torch.bmm(scaled, memory.turned[t])
            self.d_key = d_key.addcmul_(along, key, value=-1).div_(memory.key_norm[t])
            self.d_content.baddbmm_(key.transpose(1, 2), scaled)
            self.d_content.addcmul_(scaled * self.shrink[t], memory.content[t], value=-1)
        self.d_attention = self.no_attention

    def weights(self, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of the memory's initial content, W_m and b_m.

        `states` contains the states that wrote to the memory, of shape (T, G, B, n).
        """
        tasks = states.shape[1]
        initial = self.d_content.view(tasks, -1, *self.d_content.shape[1:]).sum(1).transpose(1, 2)
        return initial, _products(states, self.d_emitted), self.d_emitted.sum((0, 2))[:, None]


def _products(inputs: Tensor, gradients: Tensor) -> Tensor:
    """Return each task's outer products of inputs and gradients, summed over steps and texts.

    The inputs have shape (T, G, B, n), the gradients (T, G, B, k) and the result (G, n, k).
    """
    return torch.bmm(
        inputs.transpose(0, 1).flatten(1, 2).transpose(1, 2), gradients.transpose(0, 1).flatten(1, 2)
    )


class MemoryRecurrence(torch.autograd.Function):
    """Runs all steps of ME-LSTM and ARC-I (Eq. 13) or ARC-II (Eq. 16-19), with an explicit gradient.

    Returns the states h and the fusion gates g, each of shape (T, G, B, d). The gates are returned only for
    inspection and have no gradient. ME-LSTM and ARC-I have one memory, and ARC-II has two. The arguments are:

    - `given`, (T, G, B, 4d): the product of W_p with the word vectors, plus b_p
    - `recurrent`, (G, d, 4d): the columns of W_p for h, transposed
    - `fuse`, (G, R, 2d): W_f and W_r, transposed
    - `from_cell`, (G, d, d): W_c, transposed
    - `reads`: the reads that enter h_t in ARC-II
    - `weights`: the fields `initial`, `weight` and `bias` of MemoryWeights, for each memory
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
        memories = [
            _Memory(MemoryWeights(*weights[at : at + 3]), length, texts) for at in range(0, len(weights), 3)
        ]
        local, width, is_hybrid = memories[0], memories[0].width, len(memories) == 2
        sources, new = _SOURCES[reads] if is_hybrid else (), given.new_empty
        # Index t is the read after step t - 1. Only used with two memories; a single memory is read into `inputs`.
        read = new(len(memories), length + 1, tasks * texts, 1, width)
        inputs = new(length, tasks, texts, fuse.shape[1])
        of_memories = torch.split(inputs.flatten(1, 2).unsqueeze(2), width, 3)
        states, cells = given.new_zeros(2, length + 1, tasks, texts, d)
        gates, fusion = torch.empty_like(given), new(length, tasks, texts, 2 * d)
        squashed = new(length, tasks, texts, d)
        whole = given, states, cells, gates, inputs, fusion, squashed
        now, state, cell, gate, into, fused, tanh = (part.unbind() for part in whole)
        parts, found = ([part.unbind() for part in several] for several in (of_memories, read))
        for memory, own in zip(memories, found, strict=True) if is_hybrid else ():
            memory.read(0, 0, own[0])
        for t in range(length):
            for memory in memories:
                memory.attend(t)
            if not is_hybrid:
                local.read(t + 1, t, parts[0][t])
            for part, (which, late) in zip(parts, sources, strict=False):
                part[t].copy_(found[which][max(t - late, 0)])
            raw = torch.baddbmm(now[t], state[t], recurrent)
            torch.sigmoid(raw, out=gate[t])
            o, i, f, candidate = gate[t].chunk(4, 2)
            torch.tanh(raw[..., 3 * d :], out=candidate)
            c = torch.addcmul(f * cell[t], i, candidate, out=cell[t + 1])
            added, g = torch.bmm(into[t], fuse, out=fused[t]).chunk(2, 2)
            g.add_(torch.bmm(c, from_cell)).sigmoid_()  # Eq. 12
            torch.tanh(torch.addcmul(c, g, added), out=tanh[t])
            h = torch.mul(o, tanh[t], out=state[t + 1])  # Eq. 11
            local.write(t, h)
            if is_hybrid:
                local.read(t + 1, t + 1, found[0][t + 1])  # Eq. 16
                memories[1].write(t, found[0][t + 1].view(tasks, texts, width))  # Eq. 19
                memories[1].read(t + 1, t + 1, found[1][t + 1])  # Eq. 18 for the next step
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
        (length, tasks, texts, d), width = squashed.shape, memories[0].width
        d_gates, d_fusion = torch.empty_like(gates), torch.empty_like(fusion)
        # Compute everything that does not depend on later steps in advance.
        o, i, f, candidate = gates.chunk(4, 3)
        added, g = fusion.chunk(2, 3)
        slopes = [candidate * i * (1 - i), cells[:-1] * f * (1 - f), i * (1 - candidate.square())]
        ahead = squashed * o * (1 - o), o * (1 - squashed.square()), torch.stack(slopes, 3), f, grads[0]
        by_h, by_sum, by_c, keep, given = (part.unbind() for part in ahead)
        by_fusion = torch.stack([g, added * g * (1 - g)], 3).unbind()
        d_rest = d_gates.view(length, tasks, texts, 4, d)[..., 1:, :].unbind()
        pairs, d_gs = d_fusion.view(length, tasks, texts, 2, d).unbind(), d_fusion[..., d:].unbind()
        d_os, d_gate, d_fused = (part.unbind() for part in (d_gates[..., :d], d_gates, d_fusion))
        gradients = [_MemoryGradient(memory) for memory in memories]
        d_read = [part.unbind() for part in torch.zeros_like(read)]  # for two memories
        turned = [weight.transpose(1, 2).contiguous() for weight in (recurrent, fuse, from_cell)]
        emit = [memory.weights.weight.transpose(1, 2).contiguous() for memory in memories]
        d_h = d_c = squashed.new_zeros(tasks, texts, d)
        for t in reversed(range(length)):
            if sources:
                gradients[1].read(t + 1, t + 1, d_read[1][t + 1])
                d_local = torch.bmm(gradients[1].write(t), emit[1])
                gradients[1].attend(t)
                gradients[0].read(t + 1, t + 1, d_read[0][t + 1].add_(d_local.view(-1, 1, width)))
            d_state = torch.baddbmm(given[t] + d_h, gradients[0].write(t), emit[0])
            d_sum = d_state * by_sum[t]
            torch.mul(d_sum.unsqueeze(2), by_fusion[t], out=pairs[t])
            d_c = torch.baddbmm(d_c + d_sum, d_gs[t], turned[2])
            d_into = torch.bmm(d_fused[t], turned[1])
            if sources:
                for (which, late), part in zip(sources, torch.split(d_into, width, 2), strict=True):
                    d_read[which][max(t - late, 0)].add_(part.reshape(-1, 1, width))
            else:
                gradients[0].read(t + 1, t, d_into.view(-1, 1, width))
            gradients[0].attend(t)
            torch.mul(d_c.unsqueeze(2), by_c[t], out=d_rest[t])
            torch.mul(d_state, by_h[t], out=d_os[t])
            d_c = d_c * keep[t]
            d_h = torch.bmm(d_gate[t], turned[0])
        for which, gradient in enumerate(gradients) if sources else ():
            gradient.read(0, 0, d_read[which][0])
        writers = [states[1:], read[0, 1:].view(length, tasks, texts, width)]
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


def unroll(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    fuse: Tensor,
    from_cell: Tensor,
    memories: tuple[MemoryWeights, ...],
    reads: MemoryReads = "both",
) -> tuple[Tensor, Tensor]:
    """Return the states and fusion gates of the words of G tasks, each of shape (G, B, T, d).

    The arguments are:

    - `x`, (G, B, T, m): the word vectors
    - `weight`, (G, 4d, m + d), and `bias`, (G, 4d): W_p and b_p
    - `fuse`, (G, 2d, R): W_f above W_r
    - `from_cell`, (G, d, d): W_c
    - `memories`: the weights of one or two memories
    - `reads`: the reads that enter h_t in ARC-II
    """
    tasks, texts, length, m = x.shape
    weight = weight.transpose(1, 2)
    given = torch.baddbmm(bias[:, None], x.transpose(1, 2).reshape(tasks, length * texts, m), weight[:, :m])
    given = given.view(tasks, length, texts, -1).transpose(0, 1).contiguous()
    tensors = (given, weight[:, m:], fuse.transpose(1, 2), from_cell.transpose(1, 2))
    flat = [part for memory in memories for part in memory[:3]]
    states, gates = MemoryRecurrence.apply(*tensors, reads, *flat)  # type: ignore[no-untyped-call]
    return states.permute(1, 2, 0, 3), gates.permute(1, 2, 0, 3)


def unroll_additive(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    fuse: Tensor,
    from_cell: Tensor,
    memories: tuple[MemoryWeights, ...],
    reads: MemoryReads = "both",
) -> tuple[Tensor, Tensor]:
    """Return the states and fusion gates as in `unroll`, using the additive alignment of Eq. 8.

    Gradients come from autograd, step by step, so this takes three times as long.
    """
    tasks, texts, length, m = x.shape
    is_hybrid = len(memories) == 2
    given = torch.einsum("gbtm,gnm->tgbn", x, weight[..., :m]) + bias[:, None]
    contents = [memory.initial[:, None].expand(-1, texts, -1, -1) for memory in memories]
    keys = [content.new_zeros(tasks, texts, 1, content.shape[3]) for content in contents]

    def attend() -> list[Tensor]:
        """Return the attention of each memory, (G, B, 1, K) (Eq. 7)."""
        found = []
        for memory, content, key in zip(memories, contents, keys, strict=True):
            of_content, of_key = cast(Tensor, memory.align)[:, None].chunk(2, 2)
            hidden = (content @ of_content + key @ of_key).tanh()
            found.append((hidden @ cast(Tensor, memory.vector)[:, None]).softmax(2).transpose(2, 3))
        return found

    def write(which: int, state: Tensor, attention: Tensor) -> Tensor:
        """Write to a memory and return a read with the same attention, (G, B, M) (Eq. 5, 9 and 16)."""
        emitted = state @ memories[which].weight + memories[which].bias
        key, add, erase = emitted.unsqueeze(2).chunk(3, 3)
        turned = attention.transpose(2, 3)
        contents[which] = contents[which] * (1 - turned @ erase.sigmoid()) + turned @ add.tanh()
        keys[which] = key.tanh()
        return (attention @ contents[which]).squeeze(2)

    first = [attention @ content for attention, content in zip(attend(), contents, strict=True)]
    read = [[own.squeeze(2)] for own in first]  # at index t, the read after step t - 1
    state = cell = x.new_zeros(tasks, texts, from_cell.shape[1])
    states, opened = [], []
    for t in range(length):
        attention = attend()
        if is_hybrid:
            seen = torch.cat([read[which][max(t - late, 0)] for which, late in _SOURCES[reads]], 2)
        else:
            seen = (attention[0] @ contents[0]).squeeze(2)  # Eq. 6
        o, i, f, g = (given[t] + state @ weight[..., m:].transpose(1, 2)).chunk(4, 2)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        added, gate = (seen @ fuse.transpose(1, 2)).chunk(2, 2)
        gate = (gate + cell @ from_cell.transpose(1, 2)).sigmoid()  # Eq. 12
        state = o.sigmoid() * (cell + gate * added).tanh()  # Eq. 11
        read[0].append(write(0, state, attention[0]))
        if is_hybrid:
            read[1].append(write(1, read[0][-1], attention[1]))  # Eq. 18 and 19
        states.append(state)
        opened.append(gate)
    return torch.stack(states, 2), torch.stack(opened, 2).detach()


class TaskLayers(LayeredHead):
    """A task's own layers, including the output layer (Eq. 20)."""

    def __init__(self, width: int, output: Label, **layers: nn.Module) -> None:
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)
        self.output = ClassifierHead(width, output)


class TextClassifier(TextNetwork):
    """Base class of the models in this module.

    A model computes a vector for each text and classifies it with the task's head.
    """

    config: SharedMemoryConfig

    def represent(self, batches: Sequence[ColumnBatch]) -> list[Tensor]:
        """Return the representations of the texts in each batch, (B, width)."""
        raise NotImplementedError

    def head_input(self, batch: ColumnBatch) -> tuple[Tensor, Tensor]:
        (x,) = self.represent([batch])
        return self.dropout(x), batch.lengths["text"]

    def forward(self, *batches: ColumnBatch) -> list[Losses]:
        """Return the losses of one batch per task. The batches are read together (Eq. 21)."""
        return [
            self.heads[batch.task].losses(self.dropout(x), batch.columns, batch.lengths["text"])
            for x, batch in zip(self.represent(batches), batches, strict=True)
        ]


def _empty(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(*shape))


class MemoryCell(nn.Module):
    """The LSTM of ME-LSTM, with 4d (m + d) + 4d parameters (Eq. 1)."""

    def __init__(self, m: int, d: int) -> None:
        super().__init__()
        self.weight = _empty(4 * d, m + d)  # W_p, gates in the order o, i, f, g
        self.bias = _empty(4 * d)  # b_p


class DeepFusion(nn.Module):
    """The weights of deep fusion, which adds reads of the memories to the LSTM's state (Eq. 11 and 12).

    There are 2dR + d^2 weights for reads of total width R.
    """

    def __init__(self, d: int, reads: int) -> None:
        super().__init__()
        self.read = _empty(2 * d, reads)  # W_f above W_r
        self.cell = _empty(d, d)  # W_c


class ExternalMemory(nn.Module):
    """A memory, and the layer that emits its key, add and erase vectors (Eq. 5).

    It has KM + 3M (n + 1) parameters; an additive alignment (Eq. 8) adds M (2M + 1). The memory's content at the
    start of a text is learned. Segments are initialized with different random values, because equal segments would
    stay equal, and the cosine of Eq. 8 is undefined for zeros.
    """

    def __init__(self, segments: int, width: int, n: int, is_additive: bool) -> None:
        super().__init__()
        self.initial = _empty(segments, width)
        self.weight = _empty(3 * width, n)  # W_m, in the order key, add, erase
        self.bias = _empty(3 * width)  # b_m
        if is_additive:
            self.align = _empty(width, 2 * width)  # W_a, for [segment; key]
            self.vector = _empty(width)  # v


class MemoryNetwork(TextClassifier):
    """The network of ME-LSTM, ARC-I and ARC-II.

    Each task has an LSTM that uses its own memory (ME-LSTM), a shared memory (ARC-I) or both (ARC-II).
    """

    def __init__(self, config: SharedMemoryConfig, outputs: Mapping[str, Output], words: WordTable) -> None:
        super().__init__(config, words)
        d, segments, width = config.hidden, config.segments, config.segment_width
        has_global, is_additive = config.name == "arc-ii", config.align == "additive"
        reads = width * (2 if has_global and config.reads != "global" else 1)
        own: dict[str, Callable[[], nn.Module]] = {"cell": lambda: MemoryCell(words.dimension, d)}
        shared: dict[str, Callable[[], nn.Module]] = {}
        (own if config.fusion == "own" else shared)["fusion"] = lambda: DeepFusion(d, reads)
        local = shared if config.name == "arc-i" else own
        local["memory"] = lambda: ExternalMemory(segments, width, d, is_additive)
        if has_global:
            shared["global_memory"] = lambda: ExternalMemory(segments, width, width, is_additive)

        def layers(parts: Mapping[str, Callable[[], nn.Module]]) -> dict[str, nn.Module]:
            return {
                name: nn.ModuleList(make() for _ in range(config.directions)) for name, make in parts.items()
            }

        self.shared = nn.ModuleDict(layers(shared))
        self.heads = TaskHeads(
            outputs, lambda output: TaskLayers(d * config.directions, output, **layers(own))
        )
        self.draw_weights(config.initial)

    def _parts(self, name: str, way: int, tasks: Sequence[str]) -> list[nn.Module]:
        places = [self.shared if name in self.shared else self.heads[task]._modules for task in tasks]
        return [cast(nn.ModuleList, place[name])[way] for place in places]

    def _read(self, x: Tensor, way: int, tasks: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return the states and fusion gates of all tasks' words in one direction, each of shape (G, B, T, d).

        `x` has shape (G, B, T, m). `way` is 0 for the forward direction and 1 for the backward direction.
        """

        def join(name: str, weight: str) -> Tensor:
            parts = [cast(Tensor, getattr(part, weight)) for part in self._parts(name, way, tasks)]
            same = all(part is parts[0] for part in parts)
            return parts[0].expand(len(parts), *parts[0].shape) if same else torch.stack(parts)

        is_additive = self.config.align == "additive"
        memories = tuple(
            MemoryWeights(
                join(name, "initial"),
                join(name, "weight").transpose(1, 2),
                join(name, "bias")[:, None],
                join(name, "align").transpose(1, 2) if is_additive else None,
                join(name, "vector")[..., None] if is_additive else None,
            )
            for name in ("memory", "global_memory")
            if name == "memory" or name in self.shared
        )
        run = unroll_additive if is_additive else unroll
        weights = join("cell", "weight"), join("cell", "bias"), join("fusion", "read"), join("fusion", "cell")
        return run(x, *weights, memories, self.config.reads)

    def read(self, batches: Sequence[ColumnBatch]) -> list[tuple[Tensor, Tensor]]:
        """Return the states and fusion gates of one batch per task, each of shape (B, T, d) or (B, T, 2d)."""
        texts = [self.dropout(self.embed(batch, "text")) for batch in batches]
        rows, longest = max(map(len, texts)), max(x.shape[1] for x in texts)
        x = torch.stack([F.pad(x, (0, 0, 0, longest - x.shape[1], 0, rows - len(x))) for x in texts])
        lengths = torch.cat([F.pad(b.lengths["text"], (0, rows - len(b))) for b in batches])
        tasks = [batch.task for batch in batches]
        ways = [self._read(x, 0, tasks)]
        if self.config.bidirectional:
            back = reverse(x.flatten(0, 1), lengths).view_as(x)
            turned = (reverse(part.flatten(0, 1), lengths) for part in self._read(back, 1, tasks))
            there, gates = (part.view(*x.shape[:3], -1) for part in turned)
            ways.append((there, gates))
        states, gates = (torch.cat(parts, 3) for parts in zip(*ways, strict=True))
        return [
            (states[at, : x.shape[0], : x.shape[1]], gates[at, : x.shape[0], : x.shape[1]])
            for at, x in enumerate(texts)
        ]

    def trace(self, batch: ColumnBatch) -> tuple[Tensor, Tensor]:
        """Return the state and fusion gate of every word, each of shape (B, T, d) or (B, T, 2d)."""
        ((states, gates),) = self.read([batch])
        return states, gates

    def represent(self, batches: Sequence[ColumnBatch]) -> list[Tensor]:
        """Return the last states of each text, concatenated over the directions."""
        return [
            last_states(states, batch.lengths["text"], self.config.directions)
            for (states, _), batch in zip(self.read(batches), batches, strict=True)
        ]


class BagNetwork(TextClassifier):
    """NBOW, which uses the sum of a text's word vectors, and MT-DNN, which has two hidden layers on their mean.

    The first hidden layer of MT-DNN is shared. The mean is a guess: the sum over a review of 150 words would saturate
    the tanh of nearly all units.
    """

    def __init__(self, config: SharedMemoryConfig, outputs: Mapping[str, Output], words: WordTable) -> None:
        super().__init__(config, words)
        m, inner, outer = words.dimension, config.shared_layer, config.own_layer
        self.is_deep = config.name == "mt-dnn"
        if self.is_deep:
            self.shared = nn.Linear(m, inner)
            self.heads = TaskHeads(
                outputs, lambda output: TaskLayers(outer, output, layer=nn.Linear(inner, outer))
            )
        else:
            self.heads = TaskHeads(outputs, lambda output: TaskLayers(m, output))
        self.draw_weights(config.initial)

    def represent(self, batches: Sequence[ColumnBatch]) -> list[Tensor]:
        """Return the ReLU of the sum of each text's word vectors (NBOW), or the upper hidden layer (MT-DNN)."""
        found = []
        for batch in batches:
            lengths, x = batch.lengths["text"], self.dropout(self.embed(batch, "text"))
            mask = token_mask(lengths, x)
            bag = (x * mask[..., None]).sum(1)
            if self.is_deep:
                bag = bag / lengths.clamp_min(1).to(bag)[:, None]
                layer = cast(nn.Linear, self.heads[batch.task].layer)
                found.append(layer(self.shared(bag).tanh()).tanh())
            else:
                found.append(bag.relu())
        return found


class ConvolutionNetwork(TextClassifier):
    """MT-CNN, a convolution over half-shared word vectors, followed by max-pooling over the text and tanh.

    Half of each word vector is shared by all tasks; each task has its own other half.
    """

    def __init__(self, config: SharedMemoryConfig, outputs: Mapping[str, Output], words: WordTable) -> None:
        m = words.dimension
        if m < 2:
            raise DecabenchError(
                "mt-cnn splits each word vector into two parts, but the chosen vectors have only one dimension. Choose "
                "vectors with at least two dimensions."
            )
        super().__init__(config, words, slice(m // 2))
        self.heads = TaskHeads(
            outputs,
            lambda output: TaskLayers(
                config.hidden,
                output,
                embed=self.make_embedding(words, slice(m // 2, m)),
                filters=nn.Linear(config.window * m, config.hidden),
            ),
        )
        self.vocabulary_rows = ("embed.table", *(f"heads.{part_name(task)}.embed.table" for task in outputs))
        self.draw_weights(config.initial)

    def represent(self, batches: Sequence[ColumnBatch]) -> list[Tensor]:
        """Return the tanh of each filter's maximum over each text."""
        found = []
        for batch in batches:
            task, lengths = self.heads[batch.task], batch.lengths["text"]
            own = cast(WordEmbedding, task.embed)
            x = self.dropout(torch.cat([self.embed(batch, "text"), own(batch, "text")], 2))
            x = x * token_mask(lengths, x)[..., None]
            before = (self.config.window - 1) // 2  # pad, so that every word gets a window
            around = F.pad(x, (0, 0, before, self.config.window - 1 - before))
            # This is a matrix product, because the gradients of torch's convolution depend on the number of threads.
            windows = torch.cat([around[:, k : k + x.shape[1]] for k in range(self.config.window)], 2)
            filtered = cast(nn.Linear, task.filters)(windows)
            found.append(max_over_time(filtered, lengths).tanh())
        return found


def build(config: SharedMemoryConfig, outputs: Mapping[str, Output], words: WordTable) -> TextClassifier:
    """Build the network that a configuration describes."""
    match config.name:
        case "mt-cnn":
            return ConvolutionNetwork(config, outputs, words)
        case "mt-dnn" | "nbow":
            return BagNetwork(config, outputs, words)
        case _:
            return MemoryNetwork(config, outputs, words)


FAMILY = Family(
    config=SharedMemoryConfig,
    columns={"text": "words", "label": "labels"},
    outputs=(Label,),
    encode=encode,
    build=build,
    losses=("label",),
)
