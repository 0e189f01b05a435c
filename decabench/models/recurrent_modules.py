"""Multi-task recurrent modular networks (Xu et al. 2021), which extend a multi-task encoder.

Equation numbers refer to the paper. The model's name selects the encoder, which reads words (B, T, d) for one task and
returns that task's states (B, T, h). Every task has its own LSTMs, and the encoder contains the shared parts:

 - `ns-mtl`: nothing is shared.
 - `cross-stitch`: after each layer, a task's states become a mixture of all tasks' states (Misra et al. 2016).
 - `sluice`: as in `cross-stitch`, but each half of the states is mixed separately, and a task reads a mixture of its
   layers (Ruder et al. 2019).
 - `girnet`: the primary task has no LSTM. At each word, gates mix the results of the auxiliary tasks' LSTMs (Gupta et
   al. 2019).

The setting `extension` adds a second network to the encoder:

 - `rmn`: the paper's network. It has a shared encoder of independent LSTMs and layers of small networks (sub-encoders),
   and a decoder for each task. Policy networks decide at each word which parts are connected.
 - `rrn`: as in `rmn`, but with a single layer of sub-encoders that is applied repeatedly (the paper's rrn-RMN).
 - `direct`, `shared`: tasks send each other messages (DC-MTL and IC-MTL of Liu et al. 2019, recalled from memory; the
   weighting of messages is a guess).

A text is represented by its last state, and a token by its own state. The output of the extension is concatenated with
these states. It is computed only where it is needed: at each token for tags, and at the last token for labels. To train
a new task with a frozen encoder of other tasks, as in the paper (RMN_tr), use `--init RUN --freeze shared`.

All networks read from the first word to the last. Padding is at the end, so it does not affect the states of tokens. In
shapes, B is the number of examples, T of tokens, N of tokens at which an output is computed, K of tasks, A of auxiliary
tasks and n of sub-networks in a layer; d is the width of the word vectors, h of the states, r of sub-networks and p of
policy networks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import torch
from msgspec import Meta
from torch import Tensor, nn

from decabench.errors import DecabenchError
from decabench.models.batches import ColumnBatch
from decabench.models.family import Amount, Count, Depth, Family, Losses, Share
from decabench.models.heads import ClassifierHead, Head, LayeredHead, SoftmaxHead, TaskHeads
from decabench.models.layers import BiLSTM, token_mask
from decabench.models.recurrent_cells import LSTM, derivatives, glorot
from decabench.models.text_network import TextConfig, TextNetwork, encode, last_states
from decabench.tasks import Label, Output, Tags
from decabench.vectors import WordTable


@dataclass(frozen=True)
class RecurrentModulesConfig(TextConfig):
    """Configuration of a multi-task encoder and its extension.

    Values marked *paper* are stated in the paper's text. *Code* refers to GIRNet's public code. *Guess* means
    that neither the paper nor the code states the value.
    """

    name: Literal["ns-mtl", "cross-stitch", "sluice", "girnet"] = "ns-mtl"
    """The encoder: `ns-mtl`, `cross-stitch`, `sluice` or `girnet`."""
    extension: Literal["none", "rmn", "rrn", "direct", "shared"] = "none"
    """The extension: `none`, `rmn` (recurrent modules), `rrn` (rrn-RMN), `direct` (DC-MTL) or `shared` (IC-MTL)."""
    primary: str = ""
    """The primary task, which is required for `girnet`; all other tasks are auxiliary. If the
    run's length is set in steps, each pass over this task counts as an epoch for the temperature. If there is no
    primary task, passes over the first task are counted instead."""
    hidden: Count = 100
    """The width h of the states (code); an even number for `sluice`."""
    layers: Depth = 1
    """The number of layers in `cross-stitch` and `sluice` (code: 1 or 2)."""
    stitch: Share = 0.9
    """The initial weight of a task's own states in a cross-stitch unit (code of Ruder et al. 2019)."""
    gate_size: Count = 32
    """The width, in each direction, of the BiLSTM states that `girnet`'s gates read (code)."""
    cells: Depth = 3
    """The number c of recurrent independent cells (paper: 3, chosen from 2 to 4)."""
    modules: Count = 3
    """The number n of sub-encoders in a layer (as in the paper's figures)."""
    depth: Annotated[int, Meta(ge=2, le=1_000)] = 3
    """The number m of layers in the encoder, including the layer of cells (as in the paper's figures)."""
    module_size: Count = 100
    """The width r of cells, sub-encoders and sub-decoders, and of their hidden layers (guess)."""
    policy_size: Count = 32
    """The width p of the policy networks' hidden layer (guess)."""
    gates: Literal["learned", "open", "random", "noise"] = "learned"
    """How open connections are chosen. `learned` uses policy networks. The other values are controls: with `open`, all
    connections are open; with `random` and `noise`, each connection is open with the probability `encoder_open` or
    `decoder_open`. `random` chooses the open connections once at the start and gives every reader at least one input.
    `noise` chooses them again at every word in training, and uses the more likely choice for answers."""
    encoder_sparsity: Amount = 1.0
    """The weight lambda_1 of the penalty on open connections in the encoder, Eq. 10 (paper)."""
    decoder_sparsity: Amount = 1.0
    """The weight lambda_2 of the penalty on open connections to the decoders, Eq. 11 (paper)."""
    encoder_open: Share = 0.75
    """The proportion gamma_1 of connections in the encoder that can be open without a penalty (paper)."""
    decoder_open: Share = 0.75
    """The proportion gamma_2 of connections to a decoder that can be open without a penalty (paper)."""
    mean_penalty: bool = True
    """Whether penalties are divided by the number of possible connections (guess; otherwise, all connections
    soon close)."""
    temperature: Annotated[float, Meta(gt=0, le=1e300)] = 100.0
    """The routers' temperature tau in the first epoch. It is halved after each epoch (paper)."""
    least_temperature: Annotated[float, Meta(gt=0, le=1e300)] = 0.5
    """The minimum temperature (guess; the paper states no limit)."""
    open_bias: float = 1.0
    """The initial score for opening a connection minus the initial score for closing it (guess)."""
    l2: Amount = 0.0
    """The strength of the L2 penalty on all weights except embeddings. It adds `l2` times the weight to each
    gradient."""
    word_range: Amount = 0.0
    """If above 0, all word vectors, including that of the unknown word, are drawn from [-word_range, word_range]
    instead of read from files (code: 0.05, the default in Keras)."""

    def __post_init__(self) -> None:
        if self.name == "sluice" and self.hidden % 2:
            raise DecabenchError(f"model.hidden is {self.hidden}, but must be even for sluice.")
        if self.word_range and not self.train_embeddings:
            raise DecabenchError(
                f"model.word_range is {self.word_range}, so word vectors are drawn at random and must be trained. Set "
                "model.train_embeddings=true, or leave out model.word_range."
            )

    @property
    def is_modular(self) -> bool:
        """Whether the extension is a modular network."""
        return self.extension in ("rmn", "rrn")


# Encoders of several tasks -----------------------------------------------------------------------------------------


TaskLSTMs = Sequence[Sequence[LSTM]]
"""The LSTMs of each task, from the first layer to the last."""


class TaskEncoder(nn.Module):
    """An encoder in which each task has its own LSTM, and the base class of all other encoders."""

    def forward(self, x: Tensor, task: int, networks: TaskLSTMs, lengths: Tensor) -> Tensor:
        """Return a task's states, (B, T, d) -> (B, T, h)."""
        return cast(Tensor, networks[task][0](x))


def _mixture(size: int, own: float) -> Tensor:
    rest = (1 - own) / max(1, size - 1)
    return torch.full((size, size), rest).fill_diagonal_(own if size > 1 else 1.0)


class CrossStitch(TaskEncoder):
    """Cross-stitch units after each layer of LSTMs (Misra et al. 2016, Eq. 1), or a sluice network.

    The LSTMs of all tasks read the words of the current task. Each layer reads the mixture computed by the layer
    below. In a sluice network (Ruder et al. 2019), the two halves of a state are mixed separately, and a task reads a
    mixture of its layers. The paper's penalty that keeps the halves different is left out, as it is by default in
    the authors' code.
    """

    def __init__(self, tasks: int, layers: int, own: float, is_sluice: bool) -> None:
        super().__init__()
        self.parts = 1 + is_sluice
        alpha = _mixture(self.parts * tasks, own)  # (to, from)
        self.stitches = nn.Parameter(alpha.repeat(layers, 1, 1))
        self.mixtures = nn.Parameter(torch.full((tasks, layers), 1 / layers)) if is_sluice else None  # beta

    def forward(self, x: Tensor, task: int, networks: TaskLSTMs, lengths: Tensor) -> Tensor:
        columns, mixed = [x] * len(networks), x.new_zeros(())
        for layer, alpha in enumerate(self.stitches):
            read = [own[layer](column) for own, column in zip(networks, columns, strict=True)]
            parts = torch.stack([part for states in read for part in states.chunk(self.parts, 2)])
            stitched = torch.einsum("kj,jbth->kbth", alpha, parts)  # (K, B, T, h), or (2K, B, T, h/2)
            by_task = stitched.reshape(-1, self.parts, *stitched.shape[1:])
            columns = [torch.cat(own.unbind(), 2) for own in by_task]
            if self.mixtures is not None:
                mixed = mixed + self.mixtures[task, layer] * columns[task]
        return columns[task] if self.mixtures is None else mixed


class GIRNet(TaskEncoder):
    """A gated interleaved network (Gupta et al. 2019), with gates as in the authors' code.

    Auxiliary tasks have their own LSTMs. The primary task has a single composite state. At each word, all auxiliary
    cells take a step from this state. The next h and c are means of the old state and the results of the A cells,
    weighted by a softmax.
    """

    def __init__(self, d: int, auxiliaries: int, gate_size: int) -> None:
        super().__init__()
        self.reader = BiLSTM(d, 2 * gate_size, 0.0)
        self.gates = nn.Linear(2 * gate_size, 1 + auxiliaries)

    def forward(self, x: Tensor, task: int, networks: TaskLSTMs, lengths: Tensor) -> Tensor:
        if networks[task]:
            return super().forward(x, task, networks, lengths)
        cells = [own[0] for own in networks if own]
        d = x.shape[2]
        weight = torch.cat([cell.weight for cell in cells])  # (4Ah, d + h)
        bias = torch.cat([cell.bias for cell in cells])
        states, _, _ = self.reader(x, lengths)
        gates = self.gates(states).softmax(2)
        given = nn.functional.linear(x, weight[:, :d], bias).transpose(0, 1)
        tensors = (given, weight[:, d:], gates.transpose(0, 1))
        made: Tensor = InterleavedRecurrence.apply(*tensors)  # type: ignore[no-untyped-call]
        return made.transpose(0, 1)


class InterleavedRecurrence(torch.autograd.Function):
    """Computes GIRNet's composite states, with an explicit gradient. Returns h, of shape (T, B, h).

    Autograd would update the gradient of the weights at every step, which is slower. Here, the backward
    loop computes only the gradient of the composite state. The gradients of the weights and gates are
    computed after the loop, for all steps at once.

    The arguments are:

    - `given`, (T, B, 4Ah): the gates o, i, f and g of each cell, computed from the words alone
    - `recurrent`, (4Ah, h): the matrices by which the cells multiply the state
    - `weights`, (T, B, 1 + A): the weights of the old state and of each cell's result
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
        f = gates[:, :, :, 2]
        slopes, by_c, _ = derivatives(gates, state[:-1, :, None, :h], made[..., :h], 3)
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

    The LSTMs of the other tasks read the same words. A sender's score is v' tanh(W [h; s] + b), where h is the
    state of the reader and s the state of the sender at the same word.
    """

    def __init__(self, h: int) -> None:
        super().__init__()
        self.query = nn.Linear(2 * h, h)
        self.score = nn.Linear(h, 1, bias=False)

    def forward(self, states: Tensor, sent: Tensor) -> Tensor:
        """Return the messages to N states, of shape (N, h).

        `states` has shape (N, h), and `sent` contains the states of the other tasks, of shape (N, K - 1,
        h).
        """
        pairs = torch.cat([states[:, None].expand_as(sent), sent], 2)
        shares = self.score(self.query(pairs).tanh()).softmax(1)
        return cast(Tensor, (shares * sent).sum(1))


class SharedMessages(nn.Module):
    """Messages from an LSTM shared by all tasks: its states, multiplied by a gate (IC-MTL).

    The gate is sigmoid(W [h; s] + b), where h is the reader's state and s the shared state at the same word.
    """

    def __init__(self, h: int) -> None:
        super().__init__()
        self.gate = nn.Linear(2 * h, h)

    def forward(self, states: Tensor, shared: Tensor) -> Tensor:
        """Return the shared states multiplied by the gate, (N, h). Both inputs are (N, h)."""
        return cast(Tensor, self.gate(torch.cat([states, shared], 1)).sigmoid() * shared)


# Routers (Eq. 8 and 9) ------------------------------------------------------------------------------------------------


def straight_through(soft: Tensor) -> Tensor:
    """Round probabilities to 0 or 1 (0.5 becomes 0), keeping the gradient of the probabilities."""
    return (soft > 0.5).to(soft) + (soft - soft.detach())


@dataclass(frozen=True)
class Routes:
    """Decisions about connections, each 0 (closed) or 1 (open)."""

    chosen: Tensor
    """The decisions that are used, of shape (N, ...) for N tokens."""
    likely: Tensor
    """The decisions that would have been made without noise, of the same shape."""


class Router(nn.Module):
    """Decides which connections are open, given scores or fixed probabilities."""

    def __init__(self, first: float, least: float) -> None:
        super().__init__()
        self.first, self.least = first, least
        self.register_buffer("temperature", torch.tensor(first))

    def cool(self, epoch: int) -> None:
        """Set the temperature for an epoch, counted from 1."""
        cast(Tensor, self.temperature).fill_(max(self.least, self.first * 0.5 ** (epoch - 1)))

    def forward(self, scores: Tensor) -> Routes:
        """Open each connection if its score for opening is higher than its score for closing (Eq. 9).

        `scores` has shape (..., 2), with the score for closing before the score for opening. In training,
        Gumbel noise is added to the scores, and gradients are computed as for a softmax.
        """
        likely = (scores[..., 1] > scores[..., 0]).to(scores)
        if not self.training:
            return Routes(likely, likely)
        tiny = torch.finfo(scores.dtype).tiny
        # -log(x) has a Gumbel distribution if x has an exponential distribution.
        noise = -torch.empty_like(scores).exponential_().clamp_min(tiny).log()
        noisy = (scores + noise) / cast(Tensor, self.temperature)
        return Routes(straight_through((noisy[..., 1] - noisy[..., 0]).sigmoid()), likely)

    def draw(self, shares: Tensor, count: int) -> Routes:
        """Decide which connections are open at each of `count` tokens.

        `shares` contains the fixed probability that each connection is open. The decisions have the shape (count,
        *shares.shape). In training, they are drawn at random. Otherwise, each decision takes its more likely value.
        """
        likely = (shares > 0.5).to(shares).expand(count, *shares.shape)
        return Routes(torch.bernoulli(shares.expand_as(likely)) if self.training else likely, likely)


class Networks(nn.Module):
    """Several networks of the same size, each with its own input and one hidden layer.

    Each network computes W2 relu(W1 x + b1) + b2.
    """

    def __init__(self, count: int, size: int) -> None:
        super().__init__()
        self.first, self.second = glorot(count, size, size), glorot(count, size, size)
        self.first_bias = nn.Parameter(torch.zeros(count, 1, size))
        self.second_bias = nn.Parameter(torch.zeros(count, 1, size))

    def forward(self, x: Tensor) -> Tensor:
        """Apply each network to its input, (N, n, r) -> (N, n, r)."""
        inner = torch.baddbmm(self.first_bias, x.transpose(0, 1), self.first).relu()
        return torch.baddbmm(self.second_bias, inner, self.second).transpose(0, 1)


class Policies(nn.Module):
    """Policy networks with one hidden layer, one for each reader.

    A reader is a sub-encoder or a sub-decoder. Its network scores the connections from all possible
    inputs to the reader.
    """

    def __init__(self, readers: int, size: int, hidden: int, open_bias: float) -> None:
        super().__init__()
        self.readers, self.hidden = readers, hidden
        self.first = glorot(readers, size, hidden)
        self.first_bias = nn.Parameter(torch.zeros(readers, hidden))
        self.second = glorot(readers, hidden, 2)
        self.second_bias = nn.Parameter(torch.tensor([0.0, open_bias]).repeat(readers, 1))

    def forward(self, u: Tensor, more: Tensor | None = None) -> Tensor:
        """Return the scores for closing and opening the connection from each input to each reader.

        The inputs `u` have shape (N, n, r), and the scores have shape (N, n, readers, 2). `more`, of shape
        (N, q), is appended to each input.
        """
        first = self.first.transpose(0, 1).flatten(1)  # (r + q, readers p)
        width = u.shape[2]
        inner = u @ first[:width] + self.first_bias.flatten()
        if more is not None:
            inner = inner + (more @ first[width:])[:, None]
        inner = inner.relu().view(*u.shape[:2], self.readers, self.hidden)
        return torch.einsum("nijp,jpc->nijc", inner, self.second) + self.second_bias


def _average(opened: Tensor, u: Tensor) -> Tensor:
    """Return the mean of each reader's connected inputs (Eq. 4), or zeros if no input is connected.

    `opened` contains the decisions, of shape (..., readers, n), and `u` the inputs, of shape (..., n,
    r). The result has shape (..., readers, r).
    """
    return (opened / opened.sum(-1, keepdim=True).clamp_min(1)) @ u


def _fixed_gates(config: RecurrentModulesConfig, share: float, read: int, readers: int) -> Tensor | None:
    """Return the probability that each connection is open, (read, readers), or None if gates are learned.

    With `random`, each is 0 or 1, and every reader has an open connection unless `share` is 0.
    """
    if config.gates == "learned":
        return None
    if config.gates != "random":
        return torch.full((read, readers), 1.0 if config.gates == "open" else share)
    if not share:
        return torch.zeros(read, readers)
    drawn, order = (torch.rand(read, readers) < share).float(), torch.rand(read, readers)
    return torch.where(drawn.any(0), drawn, (order == order.max(0).values).float())


# The shared encoder and the decoders of tasks -------------------------------------------------------------------------


class SubEncoders(nn.Module):
    """A layer of sub-encoders, each connected to the layer below by a policy network (Eq. 2 to 5)."""

    def __init__(self, config: RecurrentModulesConfig, below: int) -> None:
        super().__init__()
        n, r = config.modules, config.module_size
        self.networks = Networks(n, r)
        self.policies = (
            Policies(n, r, config.policy_size, config.open_bias) if config.gates == "learned" else None
        )
        self.register_buffer("fixed", _fixed_gates(config, config.encoder_open, below, n))

    def forward(self, u: Tensor, router: Router) -> tuple[Tensor, Routes]:
        """Return the sub-encoders' outputs, of shape (N, n, r), and the decisions about their connections.

        `u` contains the outputs of the layer below, of shape (N, inputs, r).
        """
        if self.policies is not None:
            routes = router(self.policies(u))
        else:
            routes = router.draw(cast(Tensor, self.fixed)[: u.shape[1]], len(u))
        return self.networks(_average(routes.chosen.transpose(1, 2), u)), routes


class ModularEncoder(nn.Module):
    """The shared encoder, with recurrent independent cells (Eq. 1) below layers of sub-encoders."""

    def __init__(self, config: RecurrentModulesConfig, d: int) -> None:
        super().__init__()
        n, c = config.modules, config.cells
        self.cells = nn.ModuleList(LSTM(d, config.module_size) for _ in range(c))
        widths = [c, *[n] * (config.depth - 2)]
        if config.extension == "rrn":  # a single layer, which reads the cells first and then its own output
            self.layers = nn.ModuleList([SubEncoders(config, max(c, n))])
        else:
            self.layers = nn.ModuleList(SubEncoders(config, width) for width in widths)
        self.router = Router(config.temperature, config.least_temperature)
        self.times = config.depth - 1
        self.possible = sum(width * n for width in widths)  # C_1

    def forward(self, u: Tensor) -> tuple[list[Tensor], Routes]:
        """Return the outputs of each layer of sub-encoders and the decisions about connections.

        The outputs of each layer have shape (N, n, r). `u` contains the states of the cells, of shape (N,
        c, r).
        """
        outputs, routes = [], list[Routes]()
        for time in range(self.times):
            u, own = self.layers[min(time, len(self.layers) - 1)](u, self.router)
            outputs.append(u)
            routes.append(own)
        chosen, likely = ([getattr(own, kind).flatten(1) for own in routes] for kind in ("chosen", "likely"))
        return outputs, Routes(torch.cat(chosen, 1), torch.cat(likely, 1))


class TaskDecoder(nn.Module):
    """A task's decoder, with a sub-decoder for each layer of sub-encoders.

    One policy network decides the connections of all the task's sub-decoders.
    """

    def __init__(self, config: RecurrentModulesConfig) -> None:
        super().__init__()
        self.layers, self.modules_per_layer = config.depth - 1, config.modules
        r = config.module_size
        self.networks = Networks(self.layers, r)
        self.transform: nn.Linear | None = None
        self.policy: Policies | None = None
        if config.gates == "learned":
            self.transform = nn.Linear(config.hidden, r, bias=False)  # W_k
            self.policy = Policies(1, 2 * r, config.policy_size, config.open_bias)
        fixed = _fixed_gates(config, config.decoder_open, self.modules_per_layer, self.layers)
        self.register_buffer("fixed", None if fixed is None else fixed.t().contiguous())
        self.possible = self.layers * self.modules_per_layer  # C_2
        self.width = self.layers * r

    def forward(self, outputs: list[Tensor], states: Tensor, router: Router) -> tuple[Tensor, Routes]:
        """Return the concatenated outputs of the sub-decoders and the decisions about connections.

        The concatenated outputs have shape (N, (m - 1) r). `outputs` contains a tensor of shape (N, n, r)
        for each layer of sub-encoders, and `states` contains the states of the task's encoder, of shape (N,
        h).
        """
        stacked = torch.stack(outputs, 1)  # (N, m - 1, n, r)
        if self.policy is None or self.transform is None:
            routes = router.draw(cast(Tensor, self.fixed), len(states))
        else:  # Eq. 6 and 7, from [u; W h]; the operator is missing in the paper, so the concatenation is a guess
            scores = self.policy(stacked.flatten(1, 2), self.transform(states))
            routes = router(scores.view(*stacked.shape[:3], 2))
        read = _average(routes.chosen[:, :, None], stacked).squeeze(2)
        return self.networks(read).flatten(1), routes


# The network ----------------------------------------------------------------------------------------------------------


class TaskPart(LayeredHead):
    """A task's LSTMs, its part of the extension, and its output layer."""

    def __init__(self, config: RecurrentModulesConfig, d: int, output: Label | Tags, lstms: int) -> None:
        super().__init__()
        h = config.hidden
        self.lstms = nn.ModuleList(LSTM(h if at else d, h) for at in range(lstms))
        self.extension: nn.Module | None = None
        width = h
        if config.is_modular:
            self.extension = TaskDecoder(config)
            width += self.extension.width
        elif config.extension != "none":
            self.extension = DirectMessages(h) if config.extension == "direct" else SharedMessages(h)
            width += h
        kind = SoftmaxHead if isinstance(output, Tags) else ClassifierHead
        self.output = kind(width, cast(Any, output))


@dataclass(frozen=True)
class Represented:
    """The representation of a batch, and the decisions about connections that led to it."""

    x: Tensor
    """The representation, (B, width) for labels or (B, T, width) for tags."""
    encoder: Routes | None
    """The decisions about connections in the shared encoder at N tokens, of shape (N, C_1), where C_1 is the
    number of possible connections; None without a modular network.
    """
    decoder: Routes | None
    """The decisions about connections to the task's decoder at N tokens, of shape (N, m - 1, n), or None
    without a modular network.
    """


class RecurrentModules(TextNetwork):
    """Embeddings, the encoder, the shared part of its extension, and each task's own part."""

    config: RecurrentModulesConfig

    def __init__(
        self, config: RecurrentModulesConfig, outputs: Mapping[str, Output], words: WordTable
    ) -> None:
        super().__init__(config, words)
        self.tasks = list(outputs)
        self._check_tasks()
        if config.word_range:
            self.embed.draw(config.word_range)
        d, count = words.dimension, len(outputs)
        stacked, is_girnet = config.name in ("cross-stitch", "sluice"), config.name == "girnet"
        self.encoder = TaskEncoder()
        if stacked:
            self.encoder = CrossStitch(count, config.layers, config.stitch, config.name == "sluice")
        elif is_girnet:
            self.encoder = GIRNet(d, count - 1, config.gate_size)
        self.shared: nn.Module | None = None
        if config.is_modular:
            self.shared = ModularEncoder(config, d)
        elif config.extension == "shared":
            self.shared = LSTM(d, config.hidden)
        self.heads = TaskHeads({}, lambda output: Head())
        for task, output in outputs.items():
            lstms = config.layers if stacked else int(not is_girnet or task != config.primary)
            self.heads.add(task, TaskPart(config, d, cast(Any, output), lstms))
        self.register_buffer("counts_epochs", torch.tensor(0.0))

    def _check_tasks(self) -> None:
        config, given = self.config, ", ".join(self.tasks)
        if config.name == "girnet" and (config.primary not in self.tasks or len(self.tasks) < 2):
            raise DecabenchError(
                "girnet needs a primary task and at least one other task, but model.primary is "
                f"{config.primary!r} and the tasks are {given}. Set model.primary to one of the tasks, and train on "
                "at least two tasks."
            )
        if config.primary and config.primary not in self.tasks:
            raise DecabenchError(
                f"model.primary is {config.primary!r}, but the tasks are {given}. Set model.primary to one of them."
            )
        if config.extension == "direct" and len(self.tasks) < 2:
            raise DecabenchError(
                f"With model.extension=direct, tasks read messages from other tasks, but {given} is the only task. "
                "Train on several tasks, or choose another extension."
            )

    def represent(self, batch: ColumnBatch) -> Represented:
        """Return the representation of a batch's texts for their task."""
        part, lengths = cast(TaskPart, self.heads[batch.task]), batch.lengths["text"]
        x = self.dropout(self.embed(batch, "text"))
        networks = [list(cast(Any, self.heads[task]).lstms) for task in self.tasks]
        states = self.encoder(x, self.tasks.index(batch.task), networks, lengths)
        mask = token_mask(lengths, x)

        def select(states: Tensor) -> Tensor:
            """Return the states of all tokens for tags, or the last state of each text for labels."""
            return states[mask] if part.by_token else last_states(states, lengths)

        h = select(states)
        encoder = decoder = None
        match part.extension:
            case TaskDecoder() as own:
                modules = cast(ModularEncoder, self.shared)
                outputs, encoder = modules(torch.stack([select(cell(x)) for cell in modules.cells], 1))
                more, decoder = own(outputs, h, modules.router)
                h = torch.cat([more, h], 1)
            case DirectMessages() as own:
                others = [at for at, task in enumerate(self.tasks) if task != batch.task]
                sent = [select(self.encoder(x, at, networks, lengths)) for at in others]
                h = torch.cat([own(h, torch.stack(sent, 1)), h], 1)
            case SharedMessages() as own:
                h = torch.cat([own(h, select(cast(LSTM, self.shared)(x))), h], 1)
            case _:
                pass
        h = self.dropout(h)
        if part.by_token:
            full = h.new_zeros(*x.shape[:2], h.shape[1])
            full[mask] = h
            h = full
        return Represented(h, encoder, decoder)

    def head_input(self, batch: ColumnBatch) -> tuple[Tensor, Tensor]:
        return self.represent(batch).x, batch.lengths["text"]

    def losses(self, batch: ColumnBatch) -> Losses:
        found = self.represent(batch)
        part = cast(TaskPart, self.heads[batch.task])
        made = part.losses(found.x, batch.columns, batch.lengths["text"])
        if found.encoder is not None and found.decoder is not None:
            config = self.config
            sides = {
                "encoder": (found.encoder, cast(ModularEncoder, self.shared).possible, config.encoder_open),
                "decoder": (found.decoder, cast(TaskDecoder, part.extension).possible, config.decoder_open),
            }
            for side, (routes, possible, share) in sides.items():
                weight = getattr(config, f"{side}_sparsity") / (possible if config.mean_penalty else 1)
                # Eq. 10 and 11, at each token.
                over = (routes.chosen.flatten(1).sum(1) - share * possible).relu()
                tokens = len(over)
                made[f"{side}_sparsity"] = (weight * over.sum(), tokens)
                made[f"{side}_open"] = (routes.chosen.detach().flatten(1).mean(1).sum(), tokens)
                made[f"{side}_likely"] = (routes.likely.flatten(1).mean(1).sum(), tokens)
        return made

    def begin_epoch(self, epoch: int) -> None:
        cast(Tensor, self.counts_epochs).fill_(1.0)
        self._cool(epoch)

    def begin_pass(self, task: str, number: int) -> None:
        if not cast(Tensor, self.counts_epochs) and task == (self.config.primary or self.tasks[0]):
            self._cool(number)

    def _cool(self, epoch: int) -> None:
        if isinstance(self.shared, ModularEncoder):
            self.shared.router.cool(epoch)


FAMILY = Family(
    config=RecurrentModulesConfig,
    columns={"text": "words", "label": "labels", "tags": "labels"},
    outputs=(Label, Tags),
    encode=encode,
    build=RecurrentModules,
    losses=(
        *("label", "tags", "encoder_sparsity", "decoder_sparsity"),
        *("encoder_open", "decoder_open", "encoder_likely", "decoder_likely"),
    ),
    measures=("encoder_open", "decoder_open", "encoder_likely", "decoder_likely"),
    training_only=("counts_epochs",),
)
