"""Recurrent encoders for several tasks, with different kinds of sharing, and two ways to send messages between
tasks.

An encoder reads words (B, T, d) for one task and returns that task's states (B, T, h). Every task has its own
LSTMs. The encoder receives the LSTMs of all tasks, in order, and holds the shared parts:

- `SeparateLSTMs`: nothing is shared (NS-MTL of Xu et al. 2021).
- `CrossStitch`: after each layer, a task's states become a mixture of all tasks' states (Misra et al. 2016).
- `Sluice`: the same for each half of the states, and a task reads a mixture of its layers (Ruder et al. 2019).
- `GIRNet`: the primary task has no LSTM; it steps through those of the auxiliary tasks, interleaved by gates that read
  the words (Gupta et al. 2019).

`DirectMessages` and `SharedMessages` let the tasks of any encoder communicate (DC-MTL and IC-MTL, after Liu et
al. 2019, recalled from memory: the weighting of messages is a guess).

All read from first word to last, and padding is at the end, so it changes no token's state. B examples, T
tokens, d the width of the words, h that of the states, K tasks, A auxiliary tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from decabench.models.layers import BiLSTM, in_full
from decabench.models.recurrent_cells import LSTM

TaskLSTMs = Sequence[Sequence[LSTM]]
"""The LSTMs of each task, from the first layer to the last."""


class TaskEncoder(nn.Module):
    """Base class of the encoders."""

    def forward(self, x: Tensor, task: int, networks: TaskLSTMs, lengths: Tensor) -> Tensor:
        """Read words for a task: (B, T, d) -> (B, T, h)."""
        raise NotImplementedError


class SeparateLSTMs(TaskEncoder):
    """Each task's own LSTM."""

    def forward(self, x: Tensor, task: int, networks: TaskLSTMs, lengths: Tensor) -> Tensor:
        return cast(Tensor, networks[task][0](x))


def _mixture(size: int, own: float) -> Tensor:
    """Weights (size, size): each row gives a share to itself and divides the rest evenly."""
    rest = (1 - own) / max(1, size - 1)
    return torch.full((size, size), rest).fill_diagonal_(own if size > 1 else 1.0)


class CrossStitch(TaskEncoder):
    """Cross-stitch units (Misra et al. 2016, Eq. 1) after each layer of LSTMs.

    Every task's LSTMs read the words of the current task; each layer reads the mixture from the layer below.
    """

    def __init__(self, tasks: int, layers: int, own: float) -> None:
        super().__init__()
        self.stitches = nn.Parameter(_mixture(tasks, own).repeat(layers, 1, 1))  # alpha: (to, from)

    def forward(self, x: Tensor, task: int, networks: TaskLSTMs, lengths: Tensor) -> Tensor:
        columns = [x] * len(networks)
        for layer, alpha in enumerate(self.stitches):
            read = [own[layer](column) for own, column in zip(networks, columns, strict=True)]
            columns = list(torch.einsum("kj,jbth->kbth", alpha, torch.stack(read)).unbind())
        return columns[task]


class Sluice(TaskEncoder):
    """A sluice network (Ruder et al. 2019): cross-stitch units between halves of states, and mixtures of layers.

    The paper's penalty that keeps the two halves apart is left out, as by default in the authors' code.
    """

    def __init__(self, tasks: int, layers: int, own: float) -> None:
        super().__init__()
        self.stitches = nn.Parameter(_mixture(2 * tasks, own).repeat(layers, 1, 1))  # alpha
        self.mixtures = nn.Parameter(torch.full((tasks, layers), 1 / layers))  # beta

    def forward(self, x: Tensor, task: int, networks: TaskLSTMs, lengths: Tensor) -> Tensor:
        columns, mixed = [x] * len(networks), x.new_zeros(())
        for layer, alpha in enumerate(self.stitches):
            read = [own[layer](column) for own, column in zip(networks, columns, strict=True)]
            halves = torch.stack([half for states in read for half in states.chunk(2, 2)])  # (2K, B, T, h/2)
            stitched = torch.einsum("kj,jbth->kbth", alpha, halves).unbind()
            columns = [torch.cat(pair, 2) for pair in zip(stitched[::2], stitched[1::2], strict=True)]
            mixed = mixed + self.mixtures[task, layer] * columns[task]
        return mixed


class GIRNet(TaskEncoder):
    """A gated interleaved network (Gupta et al. 2019), with the gates of its authors' code.

    An auxiliary task reads with its own LSTM. The primary task keeps one composite state: at each word all
    auxiliary cells take a step from it, and its next h and c are the mean of the old state and the results,
    weighted by a softmax over keeping the state and the A cells.
    """

    def __init__(self, d: int, auxiliaries: int, gate_size: int) -> None:
        super().__init__()
        self.reader = BiLSTM(d, 2 * gate_size, 0.0)
        self.gates = nn.Linear(2 * gate_size, 1 + auxiliaries)

    def forward(self, x: Tensor, task: int, networks: TaskLSTMs, lengths: Tensor) -> Tensor:
        if networks[task]:
            return cast(Tensor, networks[task][0](x))
        cells = [own[0] for own in networks if own]
        d = x.shape[2]
        weight = torch.cat([cell.weight for cell in cells])  # (4Ah, d + h)
        bias = torch.cat([cell.bias for cell in cells])
        states, _, _ = self.reader(x, lengths)
        gates = self.gates(states).softmax(2)
        given = nn.functional.linear(x, weight[:, :d], bias).transpose(0, 1)
        tensors = [given, weight[:, d:], gates.transpose(0, 1)]
        # Too small to gain from half precision, which would also lose accuracy in the sums passed from step to step.
        with torch.autocast(x.device.type, enabled=False):
            made: Tensor = InterleavedRecurrence.apply(*map(in_full, tensors))  # type: ignore[no-untyped-call]
        return made.transpose(0, 1)


class InterleavedRecurrence(torch.autograd.Function):
    """The composite states of GIRNet, with an explicit gradient: h (T, B, h).

    Autograd would add to the gradient of the weights at every step. Here the backward loop only carries the gradient of
    the composite state; weights and gates get their gradients afterwards, for all steps at once.

    Arguments: given (T, B, 4Ah), the words' part of the gates of all cells, in the order o, i, f, g of each; recurrent
    (4Ah, h), the cells' matrices of the state; weights (T, B, 1 + A), of the old state and of each cell.
    """

    @staticmethod
    def forward(ctx: Any, given: Tensor, recurrent: Tensor, weights: Tensor) -> Tensor:
        (length, rows, _), h, cells = given.shape, recurrent.shape[1], weights.shape[2] - 1
        state = given.new_zeros(length + 1, rows, 2 * h)  # [c; h]
        gates = given.new_empty(length, rows, cells, 4, h)
        made = given.new_empty(length, rows, cells, 2 * h)  # [c; h] of each cell
        turned = recurrent.t().contiguous()
        views = [part.unbind() for part in (given, gates, made, weights[..., :1], weights[..., None, 1:])]
        for t, (now, gate, cell, keep, shares) in enumerate(zip(*views, strict=True)):
            raw = torch.addmm(now, state[t, :, h:], turned).view(rows, cells, 4, h)
            torch.sigmoid(raw, out=gate)
            o, i, f, g = gate.unbind(2)
            torch.tanh(raw[:, :, 3], out=g)
            c = torch.addcmul(f * state[t, :, None, :h], i, g, out=cell[..., :h])
            torch.mul(o, c.tanh(), out=cell[..., h:])
            torch.add(torch.bmm(shares, cell).squeeze(1), keep * state[t], out=state[t + 1])
        ctx.save_for_backward(recurrent, weights, state, gates, made)
        return state[1:, :, h:]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        recurrent, weights, state, gates, made = ctx.saved_tensors
        length, rows, _, _, h = gates.shape
        o, i, f, g = gates.unbind(3)
        tanh = made[..., :h].tanh()
        # Derivatives of h by gate o and of c by gates i, f, g, before their activations, for all steps at once.
        before = state[:-1, :, None, :h]
        slopes = torch.stack([tanh * o * (1 - o), g * i * (1 - i), before * f * (1 - f), i * (1 - g * g)], 3)
        by_c = o * (1 - tanh.square())  # of h by c
        d_state = state.new_zeros(length + 1, rows, 2 * h)
        d_state[1:, :, h:] = grads[0]
        d_given = torch.empty_like(gates)
        flat = d_given.view(length, rows, -1)
        keep, shares = weights[..., :1], weights[..., 1:, None]
        for t in reversed(range(length)):
            d_now = d_state[t + 1]
            d_c, d_h = (shares[t] * d_now[:, None]).chunk(2, 2)  # of each cell
            d_c = torch.addcmul(d_c, d_h, by_c[t])
            torch.mul(slopes[t], d_c[:, :, None], out=d_given[t])
            torch.mul(slopes[t, :, :, 0], d_h, out=d_given[t, :, :, 0])
            d_before = d_state[t]
            d_before.addcmul_(keep[t], d_now)
            d_before[:, :h] += (d_c * f[t]).sum(1)
            d_before[:, h:].addmm_(flat[t], recurrent)
        d_recurrent = flat.flatten(0, 1).t() @ state[:-1, :, h:].flatten(0, 1)
        d_keep = (d_state[1:] * state[:-1]).sum(2, keepdim=True)
        d_shares = (made @ d_state[1:, :, :, None]).squeeze(3)
        return flat, d_recurrent, torch.cat([d_keep, d_shares], 2)


class DirectMessages(nn.Module):
    """Messages from the other tasks: the mean of their states, weighted by attention (DC-MTL).

    The other tasks read the same words with their own LSTMs; the score of a sender is v' tanh(W [h; s] + b) for
    the reader's state h and the sender's s, at the same word.
    """

    def __init__(self, h: int) -> None:
        super().__init__()
        self.query = nn.Linear(2 * h, h)
        self.score = nn.Linear(h, 1, bias=False)

    def forward(self, states: Tensor, sent: Tensor) -> Tensor:
        """(N, h), and the others' states, (N, K - 1, h) -> (N, h)"""
        pairs = torch.cat([states[:, None].expand_as(sent), sent], 2)
        shares = self.score(self.query(pairs).tanh()).softmax(1)
        return cast(Tensor, (shares * sent).sum(1))


class SharedMessages(nn.Module):
    """Messages from one LSTM that all tasks share: its states, gated (IC-MTL).

    The gate is sigmoid(W [h; s] + b) for the reader's state h and the shared one s, at the same word.
    """

    def __init__(self, h: int) -> None:
        super().__init__()
        self.gate = nn.Linear(2 * h, h)

    def forward(self, states: Tensor, shared: Tensor) -> Tensor:
        """(N, h), (N, h) -> (N, h)"""
        return cast(Tensor, self.gate(torch.cat([states, shared], 1)).sigmoid() * shared)
