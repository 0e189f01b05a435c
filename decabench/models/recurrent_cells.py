"""The recurrent networks of the Meta-LSTM paper: LSTM, HyperLSTM, and an LSTM with generated weights.

Equation numbers refer to Chen et al. 2018, "Meta Multi-Task Learning for Sequence Modeling". Each
network reads words (B, T, d) from first to last and returns its states (B, T, h). All states start
at zero. Padding is at the end, so it does not affect the states of tokens. In shapes, B is the
number of examples and T of tokens; d is the width of the word vectors, h of the states and m of the
meta-network's states; z is the rank of the generated matrices. Gates are in the order o, i, f, g,
so that the three gates with a sigmoid are adjacent, and so are the three gates that affect the cell
state.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from decabench.models.layers import run_lstm


def _uniform(*shape: int, bound: float) -> nn.Parameter:
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))


def glorot(*shape: int) -> nn.Parameter:
    """Return random matrices (..., rows, columns) in [-r, r], r = sqrt(6 / (rows + columns)), as in TensorFlow."""
    return _uniform(*shape, bound=(6 / (shape[-2] + shape[-1])) ** 0.5)


def _forget_bias(size: int) -> nn.Parameter:
    bias = torch.zeros(4, size)
    bias[2] = 1  # TensorFlow's default
    return nn.Parameter(bias.flatten())


class LSTM(nn.Module):
    """The standard LSTM with a single bias (Eq. 9). It has 4h (d + h) + 4h parameters."""

    def __init__(self, d: int, h: int) -> None:
        super().__init__()
        self.weight = glorot(4 * h, d + h)  # W
        self.bias = _forget_bias(h)  # b
        self.size = h

    def forward(self, x: Tensor) -> Tensor:
        """Return the states of all tokens, (B, T, d) -> (B, T, h)."""
        o, i, f, g = self.weight.chunk(4)
        weight = torch.cat([i, f, g, o])  # PyTorch's order
        o, i, f, g = self.bias.chunk(4)
        bias = torch.cat([i, f, g, o])
        from_x, from_h = torch.split(weight, [x.shape[2], self.size], 1)
        weights = [from_x.contiguous(), from_h.contiguous(), bias, torch.zeros_like(bias)]
        return run_lstm(x, weights, self.training, bidirectional=False)[0]


class HyperLSTM(nn.Module):
    """An LSTM whose weights are scaled by a second LSTM (Ha et al. 2017, appendix A.2).

    Each gate is LN(d_h * W_h h + d_x * W_x x + b), where LN is layer normalization. The vectors d_h and d_x, which
    scale the rows of the weights, and the bias b are computed from embeddings of size e. The embeddings are linear maps
    of the second LSTM's state of size n. Chen et al. use a HyperLSTM as a baseline but do not describe it.
    """

    def __init__(self, d: int, h: int, n: int, e: int) -> None:
        super().__init__()
        self.size, self.inner, self.embedding = h, n, e
        self.hyper_weight = glorot(4 * n, d + h + n)
        self.hyper_bias = _forget_bias(n)
        self.weight = glorot(4 * h, d + h)
        # Initial values as in Ha et al. 2017, which scale every row by 0.1 and set b to 0.
        self.embed_weight = nn.Parameter(torch.zeros(12 * e, n))  # for d_h, d_x and b of the four gates
        nn.init.normal_(self.embed_weight.data[8 * e :], std=0.01)
        self.embed_bias = nn.Parameter(torch.ones(8 * e))  # the embedding of b has no bias
        self.scale = nn.Parameter(torch.full((8, e, h), 0.1 / e))
        self.shift = nn.Parameter(torch.zeros(4, e, h))
        self.norm_weight = nn.Parameter(torch.ones(5, h))  # for the gates, then for c
        self.norm_bias = nn.Parameter(_forget_bias(h).data.view(4, h))  # for the gates, including b_0
        self.cell_bias = nn.Parameter(torch.zeros(h))

    def forward(self, x: Tensor) -> Tensor:
        """Return the states of all tokens, (B, T, d) -> (B, T, h)."""
        rows, h, n, e = len(x), self.size, self.inner, self.embedding
        d = x.shape[2]
        x = x.transpose(0, 1)
        hyper_x, hyper_h, hyper_own = torch.split(self.hyper_weight, [d, h, n], 1)
        from_x, from_h = torch.split(self.weight, [d, h], 1)
        hyper_given = F.linear(x, hyper_x, self.hyper_bias)
        given = F.linear(x, from_x).view(-1, rows, 4, h).transpose(1, 2)  # (T, 4, B, h)
        hyper_state = torch.cat([hyper_h, hyper_own], 1).t()
        from_h, embed_weight = from_h.t(), self.embed_weight.t()
        embed_bias = F.pad(self.embed_bias, (0, 4 * e))
        generate = torch.cat([self.scale, self.shift])  # (12, e, h)
        gain, bias = self.norm_weight[:4, None], self.norm_bias[:, None]
        state, c, hyper_c = x.new_zeros(rows, h), x.new_zeros(rows, h), x.new_zeros(rows, n)
        hyper = x.new_zeros(rows, n)
        states = []
        for hyper_now, now in zip(hyper_given.unbind(), given.unbind(), strict=True):
            gates = torch.addmm(hyper_now, torch.cat([state, hyper], 1), hyper_state)
            o, i, f = gates[:, : 3 * n].sigmoid().chunk(3, 1)
            hyper_c = torch.addcmul(f * hyper_c, i, gates[:, 3 * n :].tanh())
            hyper = o * hyper_c.tanh()
            embedded = torch.addmm(embed_bias, hyper, embed_weight).view(rows, 12, e).transpose(0, 1)
            scale_h, scale_x, shift = torch.bmm(embedded, generate).chunk(3)  # (4, B, h) each
            moved = (state @ from_h).view(rows, 4, h).transpose(0, 1)
            raw = torch.addcmul(shift, scale_h, moved).addcmul(scale_x, now)
            pre = torch.addcmul(bias, F.layer_norm(raw, (h,)), gain)
            (o, i, f), g = pre[:3].sigmoid().unbind(), pre[3].tanh()
            c = torch.addcmul(f * c, i, g)
            # The weight and bias are applied here, because the gradients of layer_norm's own weight and bias depend on
            # the number of threads.
            state = o * torch.addcmul(self.cell_bias, F.layer_norm(c, (h,)), self.norm_weight[4]).tanh()
            states.append(state)
        return torch.stack(states, 1)


class MetaNetwork(nn.Module):
    """The parameters of the meta-network, which all tasks share (Eq. 30).

    There are 4m (d + h + m + 1) + mz parameters.
    """

    def __init__(self, d: int, h: int, m: int, z: int) -> None:
        super().__init__()
        self.sizes = d, h, m
        self.weight = glorot(4 * m, d + h + m)  # W_m, for [x; h; h of the meta-network]
        self.bias = _forget_bias(m)  # b_m
        self.project = glorot(z, m)  # W_z


class BasicLSTM(nn.Module):
    """A task's LSTM, whose parameters the meta-network generates at each token (Eq. 27 and 28).

    In the paper, Q is z x d, which can't be multiplied by [x; h]. Here it is z x (d + h), as in the authors'
    code, so there are 12hz + 4dz parameters instead of 8hz + 4dz. Gates have no bias (code), so an untrained
    cell keeps half of its state from word to word. The other LSTMs in this file have a forget bias of 1.
    """

    def __init__(self, d: int, h: int, z: int) -> None:
        super().__init__()
        bound = (3 / z) ** 0.5
        self.P = _uniform(4, h, z, bound=bound)
        self.Q = _uniform(4, z, d + h, bound=bound)
        self.B = _uniform(4, h, z, bound=(6 / (4 * h + z)) ** 0.5)  # as a linear map in TensorFlow

    def forward(self, x: Tensor, meta: MetaNetwork) -> Tensor:
        """Return the states of all tokens, (B, T, d) -> (B, T, h) (Eq. 31 and 33).

        W(z) is never computed, because W(z) [x; h] equals P (z * Q [x; h]). Q x and W_m x are computed for all
        tokens in a single product.
        """
        d, h, m = meta.sizes
        meta_x, meta_h, meta_own = torch.split(meta.weight, [d, h, m], 1)
        query_x, query_h = torch.split(self.Q.flatten(0, 1), [d, h], 1)
        given = F.linear(
            x.transpose(0, 1).contiguous(), torch.cat([meta_x, query_x]), F.pad(meta.bias, (0, len(query_x)))
        )
        recurrent = torch.cat([meta_h, query_h]), F.pad(meta_own, (0, 0, 0, len(query_h)))
        generate = torch.cat([self.P, self.B], 2)
        tensors = (given, torch.cat(recurrent, 1), meta.project, generate)
        states: Tensor = MetaRecurrence.apply(*tensors)  # type: ignore[no-untyped-call]
        return states.transpose(0, 1)


class MetaRecurrence(torch.autograd.Function):
    """Runs all steps of Eq. 31, with an explicit gradient. Returns the states h, of shape (T, B, h).

    Autograd would update the gradients of the weights at every step, which is slower. Here, the backward
    loop computes only the gradient of the states. The gradients of the weights are computed after the
    loop, in one product for all steps.

    The arguments are:

    - `given`, (T, B, 4m + 4z): the products of W_m and Q with the word vectors, plus b_m
    - `recurrent`, (4m + 4z, h + m): the columns of W_m and Q for h and for the state of the
      meta-network
    - `project`, (z, m): the matrix W_z
    - `generate`, (4, h, 2z): the matrices P and B of each gate, side by side
    """

    @staticmethod
    def forward(ctx: Any, given: Tensor, recurrent: Tensor, project: Tensor, generate: Tensor) -> Tensor:
        (length, rows, _), h, (z, m) = given.shape, generate.shape[1], project.shape
        state = given.new_zeros(length + 1, rows, h + m)
        cells, meta_cells = given.new_zeros(length + 1, rows, h), given.new_zeros(length + 1, rows, m)
        made = torch.empty_like(given)
        gates, meta_gates = given.new_empty(length, 4, rows, h), given.new_empty(length, rows, 4, m)
        # [z * Q [x; h]; z], so that P and B need only one product.
        combined = given.new_empty(length, 4, rows, 2 * z)
        turned, turned_z, turned_pb = recurrent.t(), project.t(), generate.transpose(1, 2)
        # Create the views of all steps at once. Slicing at each step would take as long as the computation itself.
        now, states, products, both = given.unbind(), state.unbind(), made.unbind(), combined.unbind()
        meta_raw, query = (part.unbind() for part in _split(made, m, z))
        cs, meta_cs, gate, meta_gate = (part.unbind() for part in (cells, meta_cells, gates, meta_gates))
        for t in range(length):
            torch.addmm(now[t], states[t], turned, out=products[t])
            torch.sigmoid(meta_raw[t], out=meta_gate[t])
            o, i, f, g = meta_gate[t].unbind(1)
            torch.tanh(meta_raw[t][:, 3], out=g)
            meta_c = torch.addcmul(f * meta_cs[t], i, g, out=meta_cs[t + 1])
            basic_h, meta_h = states[t + 1].tensor_split((h,), 1)
            vector = torch.mul(o, meta_c.tanh(), out=meta_h) @ turned_z  # z_t
            scaled, alone = both[t].chunk(2, 2)
            torch.mul(query[t], vector, out=scaled)
            alone.copy_(vector)
            raw = torch.bmm(both[t], turned_pb)
            torch.sigmoid(raw, out=gate[t])
            o, i, f, g = gate[t].unbind()
            torch.tanh(raw[3], out=g)
            c = torch.addcmul(f * cs[t], i, g, out=cs[t + 1])
            torch.mul(o, c.tanh(), out=basic_h)
        ctx.save_for_backward(
            recurrent, project, generate, state, cells, meta_cells, made, gates, meta_gates, combined
        )
        return state[1:, :, :h]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        recurrent, project, generate, state, cells, meta_cells, made, gates, meta_gates, combined = (
            ctx.saved_tensors
        )
        (length, _, rows, h), (z, m) = gates.shape, project.shape
        d_gates, d_made = torch.empty_like(gates), torch.empty_like(made)
        d_vectors = made.new_empty(length, rows, z)
        # Compute everything that does not depend on later steps in advance, and create views as in `forward`.
        slope, by_c, keep = (part.unbind() for part in derivatives(gates, cells[:-1], cells[1:], 1))
        of_meta = derivatives(meta_gates, meta_cells[:-1], meta_cells[1:], 2)
        meta_slope, meta_by_c, meta_keep = (part.unbind() for part in of_meta)
        query, vector = _split(made, m, z)[1].unbind(), combined[:, 0, :, z:].unbind()
        d_raw, d_query = (part.unbind() for part in _split(d_made, m, z))
        given, d_gate, d_products, d_vector = (
            part.unbind() for part in (grads[0], d_gates, d_made, d_vectors)
        )
        d_state = made.new_zeros(rows, h + m)
        d_c, d_meta_c = made.new_zeros(rows, h), made.new_zeros(rows, m)
        for t in reversed(range(length)):
            from_basic, from_meta = d_state.tensor_split((h,), 1)
            d_h = given[t] + from_basic
            d_c = torch.addcmul(d_c, d_h, by_c[t])
            torch.mul(d_c, slope[t], out=d_gate[t])
            torch.mul(d_h, slope[t][0], out=d_gate[t][0])
            d_c = d_c * keep[t]
            d_scaled, d_alone = torch.bmm(d_gate[t], generate).chunk(2, 2)
            torch.sum(torch.addcmul(d_alone, d_scaled, query[t]), 0, out=d_vector[t])
            torch.mul(d_scaled, vector[t], out=d_query[t])
            d_meta_h = torch.addmm(from_meta, d_vector[t], project)
            d_meta_c = torch.addcmul(d_meta_c, d_meta_h, meta_by_c[t])
            torch.mul(d_meta_c[:, None], meta_slope[t], out=d_raw[t])
            torch.mul(d_meta_h, meta_slope[t][:, 0], out=d_raw[t][:, 0])
            d_meta_c = d_meta_c * meta_keep[t]
            d_state = d_products[t] @ recurrent
        d_recurrent = d_made.flatten(0, 1).t() @ state[:-1].flatten(0, 1)
        d_project = d_vectors.flatten(0, 1).t() @ state[1:, :, h:].flatten(0, 1)
        d_generate = torch.einsum("tgbh,tgbz->ghz", d_gates, combined)
        return d_made, d_recurrent, d_project, d_generate


def _split(made: Tensor, m: int, z: int) -> tuple[Tensor, Tensor]:
    """Return views of `made`: the meta-network's gates, (T, B, 4, m), and Q [x; h], (T, 4, B, z)."""
    gates, query = made.tensor_split((4 * m,), 2)
    return gates.view(*gates.shape[:2], 4, m), query.view(*query.shape[:2], 4, z).transpose(1, 2)


def derivatives(gates: Tensor, before: Tensor, after: Tensor, axis: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the derivatives of all steps of an LSTM.

    The derivatives are, in this order:

    - of h with respect to gate o, and of c with respect to gates i, f and g, all before their activations
    - of h with respect to c
    - of c with respect to the previous c, which is the gate f

    `gates` contains the gates o, i, f and g along `axis`, after their activations. `before` and `after` contain c
    before and after each step.
    """
    o, i, f, g = gates.unbind(axis)
    tanh = after.tanh()
    slopes = [tanh * o * (1 - o), g * i * (1 - i), before * f * (1 - f), i * (1 - g.square())]
    return torch.stack(slopes, axis), o * (1 - tanh.square()), f
