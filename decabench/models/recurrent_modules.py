"""Multi-task recurrent modular networks (Xu et al. 2021), based on four multi-task encoders.

Equation numbers refer to the paper. The model's name selects the encoder, which reads words (B, T, d) for one
task and returns that task's states (B, T, h). Every task has its own LSTMs, and the encoder contains the
shared parts:

 - `ns-mtl`: nothing is shared.
 - `cross-stitch`: after each layer, a task's states become a mixture of all tasks' states (Misra et al. 2016).
 - `sluice`: the same for each half of the states, and a task reads a mixture of its layers (Ruder et al. 2019).
 - `girnet`: the primary task has no LSTM. At each word, gates mix the results of the auxiliary tasks' LSTMs
   (Gupta et al. 2019).

The setting `extension` adds a second network to the encoder:

 - `rmn`: the paper's network. It has a shared encoder of independent LSTMs and layers of small networks
   (sub-encoders), and a decoder for each task. Policy networks decide at each word which parts are connected.
 - `rrn`: the same with a single layer of sub-encoders that is applied repeatedly (the paper's rrn-RMN).
 - `direct`, `shared`: tasks send each other messages (DC-MTL and IC-MTL of Liu et al. 2019, recalled from memory;
   the weighting of messages is a guess).

A text is represented by its last state, and a token by its own state. The output of the extension is concatenated
with these states. It is computed only where it is needed: at each token for tags, and at the last token for labels.
To train a new task with a frozen encoder of other tasks, as in the paper (RMN_tr), use `--init RUN --freeze shared`.

All networks read from the first word to the last. Padding is at the end, so it does not affect the states of
tokens. In shapes, B counts examples, T tokens, N the tokens at which an output is computed, K tasks, A auxiliary
tasks and n sub-networks in a layer; d is the width of the word vectors, h of the states, r of sub-networks and p of
policy networks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import torch
from msgspec import Meta
from torch import Tensor, nn

from decabench.errors import DecabenchError
from decabench.models.batches import ColumnBatch, Split
from decabench.models.family import Amount, Count, Depth, Family, Losses, Rate, Share
from decabench.models.heads import ClassifierHead, Head, HeadedNetwork, LayeredHead, SoftmaxHead, TaskHeads
from decabench.models.layers import BiLSTM, WordEmbedding, add_l2, token_mask
from decabench.models.meta_lstm import encode
from decabench.models.recurrent_cells import LSTM
from decabench.tasks import Label, Output, Tags
from decabench.vectors import WordTable


@dataclass(frozen=True)
class RecurrentModulesConfig:
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
    """The number c of recurrent independent cells (paper: 3, out of 2 to 4)."""
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
    """The share of connections in the encoder that can be open without a penalty, gamma_1 (paper)."""
    decoder_open: Share = 0.75
    """The share of connections to a decoder that can be open without a penalty, gamma_2 (paper)."""
    mean_penalty: bool = True
    """Whether penalties are divided by the number of possible connections (guess; otherwise, all connections
    soon close)."""
    temperature: Annotated[float, Meta(gt=0, le=1e300)] = 100.0
    """The routers' temperature tau in the first epoch. It is halved in every later epoch (paper)."""
    least_temperature: Annotated[float, Meta(gt=0, le=1e300)] = 0.5
    """The minimum temperature (guess; the paper states no limit)."""
    open_bias: float = 1.0
    """The initial score for opening a connection minus the initial score for closing it (guess)."""
    l2: Amount = 0.0
    """The strength of the L2 penalty on all weights except embeddings. It adds `l2` times the weight to each
    gradient."""
    dropout: Rate = 0.0
    """The dropout rate for words and representations (guess; neither the paper nor the code has dropout)."""
    split: Split = "spaces"
    """How texts with a label are split into words: `spaces` splits only at spaces, as in the papers' data;
    `tokens` also splits off punctuation, as in MQAN. Tagged texts are always split at spaces."""
    vocabulary: Count = 50_000
    """The maximum size of the vocabulary, which contains the most frequent words of the training data."""
    train_embeddings: bool = True
    """Whether to train the word vectors as well (code)."""
    sparse_gradients: bool = False
    """Whether embeddings have sparse gradients, which require the optimizer sgd or adagrad."""
    unseen_vectors: bool = True
    """Whether words outside the vocabulary keep their vectors from files, instead of becoming unknown
    words."""
    word_range: Amount = 0.0
    """If above 0, all word vectors, including that of the unknown word, are drawn from [-word_range, word_range]
    instead of read from files (code: 0.05, the default in Keras)."""

    def __post_init__(self) -> None:
        if self.name == "sluice" and self.hidden % 2:
            raise DecabenchError(f"model.hidden is {self.hidden}, but must be even for sluice.")
        if self.word_range and not self.train_embeddings:
            raise DecabenchError(
                f"model.word_range is {self.word_range}, but random vectors have to be trained. Set "
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
    """Base class of the encoders."""

    def forward(self, x: Tensor, task: int, networks: TaskLSTMs, lengths: Tensor) -> Tensor:
        """Return a task's states, (B, T, d) -> (B, T, h)."""
        raise NotImplementedError


class SeparateLSTMs(TaskEncoder):
    """An encoder in which each task has its own LSTM."""

    def forward(self, x: Tensor, task: int, networks: TaskLSTMs, lengths: Tensor) -> Tensor:
        return cast(Tensor, networks[task][0](x))


def _mixture(size: int, own: float) -> Tensor:
    rest = (1 - own) / max(1, size - 1)
    return torch.full((size, size), rest).fill_diagonal_(own if size > 1 else 1.0)


class CrossStitch(TaskEncoder):
    """Cross-stitch units after each layer of LSTMs (Misra et al. 2016, Eq. 1).

    The LSTMs of all tasks read the words of the current task. Each layer reads the mixture computed by the layer
    below.
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
    """A sluice network, with cross-stitch units between halves of states (Ruder et al. 2019).

    A task reads a mixture of its layers. The paper's penalty that keeps the two halves different is left out, as
    it is by default in the authors' code.
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
            return cast(Tensor, networks[task][0](x))
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
    """The composite states of GIRNet with an explicit gradient, returning h (T, B, h).

    Autograd would add to the gradient of the weights at every step. Here, the backward loop computes only the
    gradient of the composite state. The gradients of the weights and gates are computed after the loop, for all
    steps at once.

    The arguments are `given` (T, B, 4Ah), the words' part of all cells' gates, in the order o, i, f, g for
    each cell; `recurrent` (4Ah, h), the cells' matrices for the state; and `weights` (T, B, 1 + A), for the
    old state and each cell.
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
        # For all steps, the derivatives of h by gate o and of c by gates i, f and g, all before their activations.
        before = state[:-1, :, None, :h]
        slopes = torch.stack([tanh * o * (1 - o), g * i * (1 - i), before * f * (1 - f), i * (1 - g * g)], 3)
        by_c = o * (1 - tanh.square())  # the derivative of h by c
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
        """Return the messages to N states, (N, h).

        `states` is (N, h), and `sent` contains the states of the other tasks, (N, K - 1, h).
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
        """Return the gated states, (N, h), (N, h) -> (N, h)."""
        return cast(Tensor, self.gate(torch.cat([states, shared], 1)).sigmoid() * shared)


# Routers (Eq. 8 and 9) ------------------------------------------------------------------------------------------------


def straight_through(soft: Tensor) -> Tensor:
    """Round probabilities to 0 or 1 (0.5 becomes 0), keeping the gradient of the probabilities."""
    return (soft > 0.5).to(soft) + (soft - soft.detach())


class Router(nn.Module):
    """Decides whether connections are closed (0) or open (1).

    A decision depends on the scores of both options, (..., 2) -> (...).
    """

    def __init__(self, first: float, least: float) -> None:
        super().__init__()
        self.first, self.least = first, least
        self.register_buffer("temperature", torch.tensor(first))

    def cool(self, epoch: int) -> None:
        """Set the temperature for an epoch, counted from 1."""
        cast(Tensor, self.temperature).fill_(max(self.least, self.first * 0.5 ** (epoch - 1)))

    def draw(self, shares: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Decide which connections are open at N = `count` tokens, given their fixed probabilities, (...) -> (N, ...).

        In training, the decisions are drawn at random. Returns the decisions to use and the more likely decisions.
        """
        likely = (shares > 0.5).to(shares).expand(count, *shares.shape)
        return (torch.bernoulli(shares.expand_as(likely)) if self.training else likely), likely

    def forward(self, scores: Tensor) -> Tensor:
        """Choose the option with the higher score (Eq. 9).

        In training, Gumbel noise is added to the scores, and gradients are computed as for a softmax.
        """
        if not self.training:
            return (scores[..., 1] > scores[..., 0]).to(scores)
        tiny = torch.finfo(scores.dtype).tiny
        noise = (
            -torch.empty_like(scores).exponential_().clamp_min(tiny).log()
        )  # -log(x) has a Gumbel distribution if x has an exponential distribution
        noisy = (scores + noise) / cast(Tensor, self.temperature)
        return straight_through((noisy[..., 1] - noisy[..., 0]).sigmoid())


def _glorot(*shape: int) -> nn.Parameter:
    """Return matrices, (..., from, to), with uniform random values from +-sqrt(6 / (from + to))."""
    bound = math.sqrt(6 / (shape[-2] + shape[-1]))
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))


class Networks(nn.Module):
    """Several networks of the same size, each with its own input and one hidden layer.

    Each network computes W2 relu(W1 x + b1) + b2.
    """

    def __init__(self, count: int, size: int) -> None:
        super().__init__()
        self.first, self.second = _glorot(count, size, size), _glorot(count, size, size)
        self.first_bias = nn.Parameter(torch.zeros(count, 1, size))
        self.second_bias = nn.Parameter(torch.zeros(count, 1, size))

    def forward(self, x: Tensor) -> Tensor:
        """Apply each network to its input, (N, n, r) -> (N, n, r)."""
        inner = torch.baddbmm(self.first_bias, x.transpose(0, 1), self.first).relu()
        return torch.baddbmm(self.second_bias, inner, self.second).transpose(0, 1)


class Policies(nn.Module):
    """Policy networks with one hidden layer. Each network scores all possible inputs of one reader, which is a
    sub-encoder or sub-decoder."""

    def __init__(self, readers: int, size: int, hidden: int, open_bias: float) -> None:
        super().__init__()
        self.readers, self.hidden = readers, hidden
        self.first = _glorot(readers, size, hidden)
        self.first_bias = nn.Parameter(torch.zeros(readers, hidden))
        self.second = _glorot(readers, hidden, 2)
        self.second_bias = nn.Parameter(torch.tensor([0.0, open_bias]).repeat(readers, 1))

    def forward(self, u: Tensor, more: Tensor | None = None) -> Tensor:
        """Return the scores of connections from inputs, (N, n, r), to readers, (N, n, readers, 2).

        `more`, (N, q), is appended to each input u as [u; more].
        """
        first = self.first.transpose(0, 1).flatten(1)  # (r + q, readers p)
        width = u.shape[2]
        inner = u @ first[:width] + self.first_bias.flatten()
        if more is not None:
            inner = inner + (more @ first[width:])[:, None]
        inner = inner.relu().view(*u.shape[:2], self.readers, self.hidden)
        return torch.einsum("nijp,jpc->nijc", inner, self.second) + self.second_bias


@dataclass(frozen=True)
class Routes:
    """Decisions about connections at N tokens, each 0 (closed) or 1 (open)."""

    chosen: Tensor
    """The decisions that were used, (N, connections)."""
    likely: Tensor
    """The decisions that would have been made without noise, (N, connections)."""


def _decide(
    router: Router, scores: Tensor | None, fixed: Tensor | None, like: Tensor
) -> tuple[Tensor, Routes]:
    if scores is None:
        taken, likely = router.draw(cast(Tensor, fixed).to(like), len(like))
        return taken, Routes(taken.flatten(1), likely.flatten(1))
    taken = router(scores)
    return taken, Routes(taken.flatten(1), (scores[..., 1] > scores[..., 0]).to(like).flatten(1))


def _average(taken: Tensor, u: Tensor) -> Tensor:
    """Return the mean of each reader's connected inputs (Eq. 4), (N, readers, r).

    `taken` is (N, n, readers) and `u` is (N, n, r). Readers without a connection get zeros.
    """
    shares = taken / taken.sum(1, keepdim=True).clamp_min(1)
    return shares.transpose(1, 2) @ u


def _fixed_gates(config: RecurrentModulesConfig, share: float, read: int, readers: int) -> Tensor | None:
    """Return the fixed probability that each connection is open, (read, readers), or None if gates are learned.

    With `random`, each probability is 0 or 1. If all connections of a reader were drawn as closed, one is opened,
    because otherwise the reader would never read anything.
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
        """Return the outputs, (N, n below, r) -> (N, n, r), and the decisions about connections."""
        scores = None if self.policies is None else self.policies(u)
        fixed = cast("Tensor | None", self.fixed)
        taken, routes = _decide(router, scores, None if fixed is None else fixed[: u.shape[1]], u)
        return self.networks(_average(taken, u)), routes


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

    def read(self, x: Tensor) -> list[Tensor]:
        """Return the states of all c cells, each (B, T, d) -> (B, T, r)."""
        return [cell(x) for cell in self.cells]

    def forward(self, u: Tensor) -> tuple[list[Tensor], Routes]:
        """Return each sub-encoder layer's outputs, (N, n, r) each, from the cells' states, (N, c, r)."""
        outputs, routes = [], list[Routes]()
        for time in range(self.times):
            u, own = self.layers[min(time, len(self.layers) - 1)](u, self.router)
            outputs.append(u)
            routes.append(own)
        return outputs, Routes(
            torch.cat([own.chosen for own in routes], 1), torch.cat([own.likely for own in routes], 1)
        )


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
        """Return the sub-decoders' outputs, (N, (m - 1) r), from all layers' outputs, each (N, n, r).

        Also returns the decisions about connections. `states`, (N, h), are the task's states.
        """
        stacked = torch.stack(outputs, 1)  # (N, m - 1, n, r)
        scores = self._score(stacked, states)
        taken, routes = _decide(router, scores, cast("Tensor | None", self.fixed), states)
        shares = taken / taken.sum(2, keepdim=True).clamp_min(1)
        read = (shares[:, :, None] @ stacked).squeeze(2)
        return self.networks(read).flatten(1), routes

    def _score(self, stacked: Tensor, states: Tensor) -> Tensor | None:
        """Return the scores of Eq. 6 and 7 from [u; W h], (N, m - 1, n, 2).

        The concatenation is a guess, because the operator is missing in the paper.
        """
        if self.policy is None or self.transform is None:
            return None
        scores: Tensor = self.policy(stacked.flatten(1, 2), self.transform(states))
        return scores.view(len(states), self.layers, self.modules_per_layer, 2)


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
    """The representation of a batch, with its routing."""

    x: Tensor
    """The representation, (B, width) for labels or (B, T, width) for tags."""
    encoder: Routes | None
    """The connections in the shared encoder at each of N tokens, or None without a modular network."""
    decoder: Routes | None
    """The connections to the task's decoder, layer by layer, or None without a modular network."""


class RecurrentModules(HeadedNetwork):
    """Embeddings, the encoder, the shared part of its extension, and each task's own part."""

    def __init__(
        self, config: RecurrentModulesConfig, outputs: Mapping[str, Output], words: WordTable
    ) -> None:
        super().__init__()
        self.config, self.tasks = config, list(outputs)
        self._check_tasks()
        self.embed = WordEmbedding(words, config.train_embeddings, config.sparse_gradients, zero_unknown=True)
        if config.word_range:
            self.embed.draw(config.word_range)
        self.dropout = nn.Dropout(config.dropout)
        d, h = words.dimension, config.hidden
        self.encoder = self._make_encoder(d)
        self.shared: nn.Module | None = None
        if config.is_modular:
            self.shared = ModularEncoder(config, d)
        elif config.extension == "shared":
            self.shared = LSTM(d, h)
        stacked = config.name in ("cross-stitch", "sluice")
        self.heads = TaskHeads({}, lambda output: Head())
        for task, output in outputs.items():
            lstms = config.layers if stacked else int(config.name != "girnet" or task != config.primary)
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
                f"model.primary is {config.primary!r}, but the tasks are {given}. Set it to one of these tasks."
            )
        if config.extension == "direct" and len(self.tasks) < 2:
            raise DecabenchError(
                f"With model.extension=direct, tasks read messages from other tasks, but {given} is the only task. "
                "Train on several tasks, or choose another extension."
            )

    def _make_encoder(self, d: int) -> TaskEncoder:
        config, count = self.config, len(self.tasks)
        match config.name:
            case "cross-stitch":
                return CrossStitch(count, config.layers, config.stitch)
            case "sluice":
                return Sluice(count, config.layers, config.stitch)
            case "girnet":
                return GIRNet(d, count - 1, config.gate_size)
            case _:
                return SeparateLSTMs()

    def _parts(self) -> Iterator[TaskPart]:
        for task in self.tasks:
            yield cast(TaskPart, self.heads[task])

    def represent(self, batch: ColumnBatch) -> Represented:
        """Return the representation of a batch's texts for their task."""
        part, lengths = cast(TaskPart, self.heads[batch.task]), batch.lengths["text"]
        x = self.dropout(self.embed(batch, "text"))
        networks = [list(cast(Any, own.lstms)) for own in self._parts()]
        states = self.encoder(x, self.tasks.index(batch.task), networks, lengths)
        where = _Places(part.by_token, x, lengths)
        h = where(states)
        encoder = decoder = None
        match part.extension:
            case TaskDecoder() as own:
                modules = cast(ModularEncoder, self.shared)
                outputs, encoder = modules(torch.stack([where(u) for u in modules.read(x)], 1))
                more, decoder = own(outputs, h, modules.router)
                h = torch.cat([more, h], 1)
            case DirectMessages() as own:
                others = [at for at, task in enumerate(self.tasks) if task != batch.task]
                sent = [where(self.encoder(x, at, networks, lengths)) for at in others]
                h = torch.cat([own(h, torch.stack(sent, 1)), h], 1)
            case SharedMessages() as own:
                h = torch.cat([own(h, where(cast(LSTM, self.shared)(x))), h], 1)
            case _:
                pass
        h = self.dropout(h)
        if part.by_token:
            full = h.new_zeros(*x.shape[:2], h.shape[1])
            full[token_mask(lengths, x)] = h
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
                over = (routes.chosen.sum(1) - share * possible).relu()  # Eq. 10 and 11, at each token
                tokens = len(over)
                made[f"{side}_sparsity"] = (weight * over.sum(), tokens)
                made[f"{side}_open"] = (routes.chosen.detach().mean(1).sum(), tokens)
                made[f"{side}_likely"] = (routes.likely.mean(1).sum(), tokens)
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

    def adjust_gradients(self) -> None:
        add_l2(self, self.config.l2)


class _Places:
    """Selects the states from which an output is computed, (B, T, k) -> (N, k).

    These are either the states of all tokens, or the last state of each text. Empty texts get zeros.
    """

    def __init__(self, every: bool, x: Tensor, lengths: Tensor) -> None:
        self.mask = token_mask(lengths, x) if every else None
        self.rows = torch.arange(len(x), device=x.device)
        self.ends = (lengths - 1).clamp_min(0).to(x.device)
        self.has_any = (lengths > 0).to(x.device)[:, None]

    def __call__(self, states: Tensor) -> Tensor:
        return states[self.mask] if self.mask is not None else states[self.rows, self.ends] * self.has_any


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
