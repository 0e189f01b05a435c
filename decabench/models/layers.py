"""Layers shared by several models.

Equation numbers refer to "The Natural Language Decathlon". As in the authors' code from 2018,
linear maps have biases, although the equations omit them; only the maps inside attention (Eq. 8
and 23) have none. In shapes, B is the number of examples, T of tokens, U of distinct words and p
of heads; d is the width and f the inner width.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from decabench.models.batches import ColumnBatch
from decabench.vectors import PAD, UNKNOWN, WordTable

_SHUT = 1e4  # a logit whose sigmoid is exactly 1; the sigmoid of -1e4 is exactly 0

KeysValues = tuple[Tensor, Tensor]
"""The keys and values of all heads, each of shape (B, p, T, d)."""


class WordEmbedding(nn.Module):
    """Word embeddings: either the fixed vectors in a batch, or a trainable table initialized with such vectors.

    Words outside the vocabulary have no row in the table. They keep their fixed vectors if the batch contains
    vectors. Otherwise, or if the fixed vector is zero, they share the row of <unk>.
    """

    def __init__(
        self,
        words: WordTable,
        trainable: bool,
        sparse: bool = False,
        part: slice = slice(None),
        *,
        zero_unknown: bool = False,
    ) -> None:
        """Create an embedding for the words of a table.

        If `sparse` is true, the table's gradient contains only the rows of a batch, which only some
        optimizers support. `part` selects the columns of the vectors to return and train. If `zero_unknown`
        is true, the row of <unk> starts at zero, like a word without a vector. Otherwise it starts with
        large random values, which rarely change in training.
        """
        super().__init__()
        self.part = part
        self.dimension = len(range(*part.indices(words.dimension)))
        if trainable:
            first = torch.from_numpy(words.vocabulary())[:, part].contiguous()
            self.table = nn.Embedding(
                len(first), self.dimension, padding_idx=PAD, sparse=sparse, _weight=first
            )
            if zero_unknown:
                self.table.weight.data[UNKNOWN] = 0
        if sparse:  # the checks are off by default, but PyTorch warns about Adagrad unless this is explicit
            torch.sparse.check_sparse_tensor_invariants.disable()  # type: ignore[no-untyped-call]

    def draw(self, reach: float) -> None:
        """Reinitialize the trainable table, including the row of <unk>, uniformly from [-reach, reach]."""
        nn.init.uniform_(self.table.weight, -reach, reach)
        self.table.weight.data[PAD] = 0

    def forward(self, batch: ColumnBatch, column: str) -> Tensor:
        """Return the embeddings of a column of words, of shape (B, T, demb)."""
        return F.embedding(batch.columns[column], self._look_up(batch))

    def _look_up(self, batch: ColumnBatch) -> Tensor:
        fixed = None if batch.vectors is None else batch.vectors[:, self.part]
        if fixed is not None and not hasattr(self, "table"):
            return fixed
        has_row = batch.words < self.table.num_embeddings
        vectors: Tensor = self.table(batch.words.where(has_row, UNKNOWN))
        if fixed is None:
            return vectors
        return vectors.where((has_row | (fixed == 0).all(1))[:, None], fixed)


def token_mask(lengths: Tensor, like: Tensor) -> Tensor:
    """Return a mask of shape (B, T) that is True at tokens and False at padding.

    T and the device are taken from `like`, of shape (B, T, ...).
    """
    return (
        torch.arange(like.shape[1], device=like.device) < lengths.to(like.device, non_blocking=True)[:, None]
    )


def max_over_time(x: Tensor, lengths: Tensor) -> Tensor:
    """Return the maximum over each example's tokens, or zeros if it has no tokens.

    `x` has the shape (B, T, d), and the result has the shape (B, d).
    """
    largest = x.masked_fill(~token_mask(lengths, x)[..., None], -torch.inf).amax(1)
    return largest.masked_fill(largest.isinf(), 0.0)


def positions(length: int, dimension: int) -> Tensor:
    """Return the encodings PE of the first `length` positions, as defined before Eq. 3.

    The result has the shape (length, d). PE[t, k] is sin(t / 10000^(k/2d)) for even k and
    cos(t / 10000^((k-1)/2d)) for odd k.
    """
    k = torch.arange(dimension)
    even = (k - k % 2).to(torch.float64)
    t = torch.arange(length, dtype=torch.float64)[:, None]
    angle = t / 10_000 ** (even / (2 * dimension))
    return torch.where(k % 2 == 0, angle.sin(), angle.cos()).float()


class Dropout(nn.Module):
    """Dropout during training; see `drop`."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        return drop(x, self.rate) if self.training else x


def drop(x: Tensor, rate: float) -> Tensor:
    """Zero values with probability `rate`, and scale the others so that the expected value is unchanged.

    On a CPU, dropout spends most of its time drawing random numbers. This function draws 64 bits for
    every four values, which takes a quarter of the time of `torch.nn.functional.dropout`. The
    probability is accurate to 1 / 65,536.
    """
    if not rate:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, rate)
    least = min(round(rate * 65_536), 65_535)
    draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    kept = draws.view(torch.int16)[: x.numel()].view(x.shape) >= least - 32_768
    return x * kept.to(x.dtype).mul_(65_536 / (65_536 - least))


class LoopMatrix:
    """A matrix that is multiplied at every step of a loop, and whose gradient is computed after the loop.

    Autograd would update the gradient of the whole matrix at every step, which is slower. Here, the inputs and
    gradients of all steps are multiplied in a single product, which gives the same sum.
    """

    def __init__(self, matrix: Tensor) -> None:
        """Prepare a matrix of shape (..., p, q) for the steps of one loop."""
        # The input of each step, and the gradient of its result.
        self._steps: list[tuple[Tensor, Tensor]] = []
        self._matrix = _AfterLoop.apply(matrix, self._steps)  # type: ignore[no-untyped-call]

    def __call__(self, x: Tensor) -> Tensor:
        """Return the product of x and the matrix, (..., n, p) -> (..., n, q)."""
        return cast(Tensor, _InLoop.apply(x, self._matrix, self._steps))  # type: ignore[no-untyped-call]


class _AfterLoop(torch.autograd.Function):
    """Returns the matrix unchanged in the forward pass.

    The backward pass runs after the backward passes of all steps, and computes the gradient of the matrix.
    """

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, steps: list[tuple[Tensor, Tensor]]) -> Tensor:
        ctx.steps = steps
        ctx.set_materialize_grads(False)  # no step returns a gradient of the matrix
        return matrix.view_as(matrix)

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor, None]:
        inputs, gradients = (torch.cat(parts, -2) for parts in zip(*ctx.steps, strict=True))
        ctx.steps.clear()
        return inputs.transpose(-1, -2) @ gradients, None


class _InLoop(torch.autograd.Function):
    """Computes the product of one step. Its backward pass leaves the gradient of the matrix to `_AfterLoop`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, steps: list[tuple[Tensor, Tensor]]) -> Tensor:
        ctx.save_for_backward(x, matrix)
        ctx.steps = steps
        return x @ matrix

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor, None, None]:
        x, matrix = ctx.saved_tensors
        ctx.steps.append((x, given[0]))
        return given[0] @ matrix.transpose(-1, -2), None, None


def _copy_early(rows: Tensor, device: torch.device) -> Tensor:
    return rows.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else rows.to(device)


def run_lstm(
    x: Tensor, weights: list[Tensor], training: bool, bidirectional: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Run a single-layer LSTM over an input of shape (B, T, d), starting from zero states.

    `weights` lists W_ih, W_hh, b_ih and b_hh of each direction, with the gates in PyTorch's order. Returns the
    states, of shape (B, T, h), or (B, T, 2h) for two directions, and the last hidden and cell states, each of
    shape (directions, B, h).
    """
    zero = x.new_zeros(1 + bidirectional, len(x), weights[1].shape[1])
    return torch.lstm(x, (zero, zero), weights, True, 1, 0.0, training, bidirectional, True)


class BiLSTM(nn.Module):
    """A bidirectional LSTM whose output of width d is split between the two directions (footnote 5)."""

    def __init__(self, d_in: int, d: int, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.lstm = nn.LSTM(d_in, d // 2, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the states of all tokens, the last hidden state, and the last cell state.

        The input `x` has the shape (B, T, d_in), and `lengths`, of shape (B,), is on the CPU. The states
        have the shape (B, T, d), with zeros at padding. The last states have the shape (B, d) each, with
        both directions concatenated.

        Padding does not change the state, so the backward direction starts at each example's last token.
        On GPUs this is done with packed sequences, which are three times slower on a CPU.
        """
        x = self.dropout(x)
        out, h, c = (self._padded if x.device.type == "cpu" else self._packed)(x, lengths)
        return out, h.transpose(0, 1).flatten(1), c.transpose(0, 1).flatten(1)

    def _packed(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # pack_padded_sequence can sort too, but then it copies the order to the GPU and waits for all earlier work.
        ordered, order = lengths.clamp_min(1).sort(descending=True, stable=True)
        there, back = (_copy_early(rows, x.device) for rows in (order, order.argsort()))
        out, (h, c) = self.lstm(pack_padded_sequence(x[there], ordered, batch_first=True))
        padded, _ = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])
        return padded[back] * token_mask(lengths, x)[..., None], h[:, back], c[:, back]

    def _padded(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # An extra input marks padding. Its weights close the input gate and open the forget gate.
        size, rows = self.lstm.hidden_size, len(x)
        is_token = torch.arange(x.shape[1]) < lengths[:, None]
        x = torch.cat([x, (~is_token).to(x.dtype)[..., None]], -1)
        gates = x.new_zeros(4 * size, 1)
        gates[:size], gates[size : 2 * size] = -_SHUT, _SHUT
        weights: list[Tensor] = []
        for inner, recurrent, *biases in self.lstm.all_weights:
            weights += [torch.cat([inner, gates], 1), recurrent, *biases]
        out, h, c = run_lstm(x, weights, self.training, bidirectional=True)
        out = out * is_token[..., None]
        last = out[torch.arange(rows), (lengths - 1).clamp_min(0), :size]  # padding preserves c, but not h
        return out, torch.stack([last, h[1]]), c


class MultiHead(nn.Module):
    """Multi-head scaled dot-product attention, in which every head has the full width d (Eq. 22-23).

    With `split`, as in the authors' code, the width d is split between the heads, scores are still divided by
    sqrt(d), and there is no output projection.
    """

    def __init__(self, d: int, heads: int, dropout: float, split: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.rate = dropout
        self.width = d if split else heads * d
        self.scale = d**-0.5 if split else None  # None means 1 / sqrt(the width of a head)
        self.query = nn.Linear(d, self.width, bias=False)  # W^X of all heads
        self.key = nn.Linear(d, self.width, bias=False)  # W^Y
        self.value = nn.Linear(d, self.width, bias=False)  # W^Z
        self.output = nn.Identity() if split else nn.Linear(heads * d, d, bias=False)  # W^o
        self.dropout = Dropout(dropout)

    def keys_values(self, y: Tensor) -> KeysValues:
        """Return the keys Y W^Y and the values Y W^Z of all heads, each of shape (B, p, T, d).

        `y` has the shape (B, T, d).
        """
        return self._split(self.key(y)), self._split(self.value(y))

    def attend(
        self, x: Tensor, known: KeysValues, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Return the results of attention for S queries, of shape (B, S, d).

        The queries are computed from `x`, of shape (B, S, d). `known` contains the keys and values of T
        tokens. `mask` is True where attention is allowed.
        """
        rate = self.rate if self.training else 0.0
        # softmax(X Y^T / sqrt(d)) Z, with dropout before Z (Eq. 22)
        query, (key, value) = self._split(self.query(x)), known
        if rate and x.device.type == "cpu":  # the same as PyTorch's function below, but with faster dropout
            scores = (query * (self.scale or query.shape[-1] ** -0.5)) @ key.transpose(2, 3)
            if causal:
                mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
            if mask is not None:
                scores = scores.masked_fill(~mask, -torch.inf)
            heads = drop(scores.softmax(-1), rate) @ value
        else:
            heads = F.scaled_dot_product_attention(
                query, key, value, attn_mask=mask, dropout_p=rate, is_causal=causal, scale=self.scale
            )
        joined = heads.transpose(1, 2).flatten(2)[..., : self.width]
        return cast(Tensor, self.dropout(self.output(joined)))

    def _split(self, x: Tensor) -> Tensor:
        if self.width % self.heads:  # pad with zeros, which don't affect the products of the last head
            x = F.pad(x, (0, -self.width % self.heads))
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)


class FeedForward(nn.Module):
    """A feed-forward layer, FFN(X) = max(0, X U) V + X, with normalized input and output (Eq. 25)."""

    def __init__(self, d: int, f: int, dropout: float) -> None:
        super().__init__()
        self.norm_in = nn.LayerNorm(d)
        self.inner = nn.Linear(d, f)  # U
        self.outer = nn.Linear(f, d)  # V
        self.norm_out = nn.LayerNorm(d)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer, (..., d) -> (..., d)."""
        x = self.norm_in(x)
        inner = self.dropout(self.inner(x).relu())
        return cast(Tensor, self.norm_out(self.dropout(self.outer(inner)) + x))


class SelfAttention(nn.Module):
    """One layer of a self-attentive encoder, FFN(X + MultiHead(X, X, X)) (Eq. 24 and 26)."""

    def __init__(self, d: int, f: int, heads: int, dropout: float, split: bool = False) -> None:
        super().__init__()
        self.attention = MultiHead(d, heads, dropout, split)
        self.feed_forward = FeedForward(d, f, dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Apply the layer, (B, T, d) -> (B, T, d).

        `mask`, of shape (B, 1, 1, T), is True at tokens.
        """
        attended = self.attention.attend(x, self.attention.keys_values(x), mask)
        return cast(Tensor, self.feed_forward(x + attended))
