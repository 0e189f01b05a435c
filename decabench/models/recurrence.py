"""The decoder's loop over time (Eq. 7-9), with an explicit gradient: the one part that must run step by step.

Autograd would add to the gradients of the weights and of the whole context at every step. Here the backward loop only
carries the gradient of the state; weights and context get their gradients afterwards, in one product for all steps.
B examples, l context tokens, n steps, d the width.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor


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
    C_fin (B, l, d); `closed` (B, l, 1): 0 at tokens, -inf at padding.
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


class Recurrence(torch.autograd.Function):
    """All steps of training: h (B, n, d), c~ (B, n, d) and alpha^C (B, n, l).

    Arguments: given (B, n, 4d), what the answer adds to the gates; the initial h and c (B, d), while c~ starts at 0;
    memory C_fin (B, l, d); closed (B, l, 1); kept (n, B, d), which scales c~ before a step reads it (dropout); the
    four StepWeights. All tensors must have the same precision; autocast is off.
    """

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (given, h, c, memory, closed, kept), matrices = tensors[:6], tensors[6:]
        weights, context = StepWeights(*matrices), torch.zeros_like(h)
        cells, states, steps = [c], [], list[DecoderStep]()
        for now, keep in zip(given.unbind(1), kept, strict=True):
            state = torch.cat([context * keep, h], 1)
            moved = advance(now, state, c, memory, closed, weights)
            h, c, context = moved.h, moved.c, moved.context
            states.append(state)
            cells.append(c)
            steps.append(moved)
        made = DecoderStep(*(torch.stack(parts) for parts in zip(*steps, strict=True)))  # (n, ...) each
        ctx.save_for_backward(torch.stack(cells), torch.stack(states), memory, kept, *matrices, *made)
        return made.h.transpose(0, 1), made.context.transpose(0, 1), made.attention.squeeze(3).transpose(0, 1)

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
        cells, states, memory, kept, *rest = ctx.saved_tensors
        weights, made = StepWeights(*rest[:4]), DecoderStep(*rest[4:])
        d_h, d_context, d_attention = (gradient.transpose(0, 1) for gradient in given)
        n, _, d = made.h.shape
        d_c, turned = torch.zeros_like(cells[0]), weights.recurrent.t()
        d_state = cells.new_zeros(cells.shape[1], 2 * d)
        inner: list[tuple[Tensor, ...]] = []
        for t in reversed(range(n)):  # d_state is of [c~; h], as the step after it read them
            from_next = d_state[:, :d] * kept[t + 1] if t + 1 < n else 0.0
            gates, d_c, *others = retreat(
                d_h[t] + d_state[:, d:],
                d_c,
                d_context[t] + from_next,
                d_attention[t][..., None],
                DecoderStep(*(part[t] for part in made)),
                cells[t],
                memory,
                weights,
            )
            d_state = gates @ turned
            inner.append((gates, *others))
        d_gates, d_query, d_scores, d_summed, d_inner = (
            torch.stack(parts[::-1]) for parts in zip(*inner, strict=True)
        )
        # C_fin occurs in Eq. 8 and Eq. 9: its gradient is one product over the steps of both.
        d_memory = torch.cat([made.attention, d_scores], 0).squeeze(3).permute(1, 2, 0) @ (
            torch.cat([d_summed, made.query], 0).transpose(0, 1)
        )
        return (
            d_gates.transpose(0, 1),
            d_state[:, d:],
            d_c,
            d_memory,
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
