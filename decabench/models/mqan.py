"""The multitask question answering network of the decathlon paper, and its ablations, equation by equation.

Equations are those of "The Natural Language Decathlon" (McCann et al. 2018): 1-13 in section 3, 14-27 in Appendix E.
Shapes: B examples, l context tokens, m question tokens, n answer tokens, d the width, v words that can be generated,
o words of the batch beyond them. Read `MQAN.forward` first, then `Encoder`, then `Decoder`.

The ablations leave parts out (Table 2): `catt` has no question pointer, so the question's side ends with coattention;
`satt` reads context and question as one sequence, without coattention; `s2s` also lacks self-attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from decabench.errors import DecabenchError, require_name
from decabench.models.batches import Batch
from decabench.models.layers import BiLSTM, FeedForward, KeysValues, MultiHead, SelfAttention, positions
from decabench.models.recurrence import Moved, Recurrence, Steps, Weights

__all__ = [
    "MODELS",
    "MQAN",
    "Coattention",
    "Decoded",
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "Encoding",
    "ModelConfig",
    "Parts",
    "State",
]

# ---- config


@dataclass(frozen=True)
class Parts:
    """Which parts of MQAN a model has: the columns of the paper's Table 2."""

    self_attention: bool
    """Self-attentive encoder and decoder layers (+SAtt)."""
    coattention: bool
    """Context and question as two inputs, coattended (+CAtt); one sequence of both otherwise."""
    question_pointer: bool
    """A second pointer, over the question (+QPtr)."""


MODELS: dict[str, Parts] = {
    "s2s": Parts(self_attention=False, coattention=False, question_pointer=False),
    "satt": Parts(self_attention=True, coattention=False, question_pointer=False),
    "catt": Parts(self_attention=True, coattention=True, question_pointer=False),
    "mqan": Parts(self_attention=True, coattention=True, question_pointer=True),
}
"""Each adds one part to the one before it."""


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of a model. The defaults are those of Appendix D."""

    name: str = "mqan"
    """`mqan`, or one of its ablations: `s2s`, `satt`, `catt`."""
    dimension: int = 200
    """d: the width of every representation; even, as BiLSTMs give half of it a direction."""
    hidden: int = 150
    """f: the inner width of feed-forward networks."""
    heads: int = 3
    """p: attention heads, each of the whole width d (Eq. 23)."""
    layers: int = 2
    """Self-attentive layers, in the encoder and in the decoder alike."""
    dropout: float = 0.2
    """The share of activations that training drops."""
    vocabulary: int = 50_000
    """v: how many words the model can generate without pointing at them; fewer where training has fewer."""
    max_answer_tokens: int = 100
    """Where decoding stops if the model does not."""

    def __post_init__(self) -> None:
        require_name(self.name, MODELS, "model")
        for key in ("dimension", "hidden", "heads", "layers", "vocabulary", "max_answer_tokens"):
            if getattr(self, key) < 1:
                raise DecabenchError(f"The model's {key} is {getattr(self, key)}: give 1 or more.")
        if self.dimension % 2:
            raise DecabenchError(
                f"The model's dimension is {self.dimension}: give an even number, half for each direction."
            )
        if not 0 <= self.dropout < 1:
            raise DecabenchError(f"The model's dropout is {self.dropout}: give at least 0 and less than 1.")

    @property
    def parts(self) -> Parts:
        """Which parts the model has."""
        return MODELS[self.name]


# ---- mqan

_LITTLE = 1e-30  # stands for a pointer's zero under a logarithm


@dataclass(frozen=True)
class Encoding:
    """What the encoder hands to the decoder."""

    context: Tensor
    """C_fin, (B, l, d)"""
    context_mask: Tensor
    """(B, l), True at tokens"""
    question: Tensor | None
    """Q_fin, (B, m, d); None where the model has no question pointer"""
    question_mask: Tensor
    """(B, m), True at tokens"""
    h: Tensor
    """(B, d), the last states of the context's final BiLSTM: where the decoder's LSTM begins"""
    c: Tensor
    """(B, d)"""


class State(NamedTuple):
    """What one step of the decoder's recurrence hands to the next."""

    h: Tensor
    """h_t, (B, d)"""
    c: Tensor
    """the LSTM's cell, (B, d)"""
    context: Tensor
    """the recurrent context state, c~_t, (B, d)"""


@dataclass(frozen=True)
class Decoded:
    """What the decoder makes of every step."""

    context: Tensor
    """c~, (B, n, d): what the vocabulary's softmax reads"""
    context_attention: Tensor
    """alpha^C, (B, n, l)"""
    question_attention: Tensor | None
    """alpha^Q, (B, n, m); None where the model has no question pointer"""
    vocabulary_gate: Tensor
    """the logit of gamma, (B, n)"""
    context_gate: Tensor | None
    """the logit of lambda, (B, n)"""

    @property
    def pointers(self) -> tuple[Tensor, Tensor]:
        """What the context's and the question's attention weigh once the model points, (B, n) each: lambda, 1 - it."""
        if self.context_gate is None:
            return torch.ones_like(self.vocabulary_gate), torch.zeros_like(self.vocabulary_gate)
        return self.context_gate.sigmoid(), (-self.context_gate).sigmoid()


class Coattention(nn.Module):
    """Alignment and dual coattention of two sequences (Eq. 17-19)."""

    def __init__(self, d: int, dropout: float) -> None:
        super().__init__()
        self.context_dummy = nn.Parameter(torch.randn(d) / d**0.5)
        self.question_dummy = nn.Parameter(torch.randn(d) / d**0.5)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, c: Tensor, q: Tensor, c_mask: Tensor, q_mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """C_ind (B, l, d), Q_ind (B, m, d) -> C_sum (B, m, d), Q_sum (B, l, d), C_coa (B, l, d), Q_coa (B, m, d)."""
        # A dummy at position 0, so that no token is forced to align with another.
        c, q = (
            _with_dummy(c, self.context_dummy),
            _with_dummy(q, self.question_dummy),
        )  # (B, l+1, d), (B, m+1, d)
        similarity = c @ q.transpose(1, 2)  # (B, l+1, m+1)
        no_c, no_q = _dummy_open(~c_mask)[:, :, None], _dummy_open(~q_mask)[:, None, :]
        # Eq. 17: each column sums to 1; S_cq over the context, S_qc (kept transposed) over the question.
        s_cq = similarity.masked_fill(no_c, -torch.inf).softmax(1)  # (B, l+1, m+1)
        s_qc = similarity.masked_fill(no_q, -torch.inf).softmax(2)  # (B, l+1, m+1), = S_qc^T
        c_sum = s_cq.transpose(1, 2) @ c  # Eq. 18: (B, m+1, d)
        q_sum = s_qc @ q  # Eq. 18: (B, l+1, d)
        c_coa = s_qc @ c_sum  # Eq. 19: (B, l+1, d)
        q_coa = s_cq.transpose(1, 2) @ q_sum  # Eq. 19: (B, m+1, d)
        c_sum, q_sum, c_coa, q_coa = (self.dropout(x[:, 1:]) for x in (c_sum, q_sum, c_coa, q_coa))
        return c_sum, q_sum, c_coa, q_coa


def _with_dummy(x: Tensor, dummy: Tensor) -> Tensor:
    return torch.cat([dummy.to(x.dtype).expand(len(x), 1, -1), x], 1)


def _dummy_open(mask: Tensor) -> Tensor:
    return F.pad(mask, (1, 0), value=False)


class Encoder(nn.Module):
    """Appendix E: independent encoding, coattention, compression, self-attention, final encoding."""

    def __init__(self, config: ModelConfig, d_emb: int) -> None:
        super().__init__()
        d, rate, self.parts = config.dimension, config.dropout, config.parts
        self.project = nn.Linear(d_emb, d)  # W_1
        self.dropout = nn.Dropout(rate)
        self.independent = BiLSTM(d, d, rate)
        sides = ("context", "question") if self.parts.question_pointer else ("context",)

        def stack() -> nn.ModuleList:
            return nn.ModuleList(
                SelfAttention(d, config.hidden, config.heads, rate) for _ in range(config.layers)
            )

        if self.parts.coattention:
            self.coattention = Coattention(d, rate)
            self.compress = nn.ModuleDict({side: BiLSTM(4 * d, d, rate) for side in sides})
        if self.parts.self_attention:
            self.attend = nn.ModuleDict({side: stack() for side in sides})
            self.final = nn.ModuleDict({side: BiLSTM(d, d, rate) for side in sides})

    def forward(self, batch: Batch) -> Encoding:
        """C_fin and Q_fin, (B, l, d) and (B, m, d)."""
        lengths = {"context": batch.context_lengths, "question": batch.question_lengths}
        masks = {
            "context": _token_mask(batch.context_lengths, batch.context),
            "question": _token_mask(batch.question_lengths, batch.question),
        }
        projected = self.project(batch.vectors)  # Eq. 15, of each distinct word once: (U, d)
        proj_c = self.dropout(F.embedding(batch.context, projected))  # C_proj, (B, l, d)
        x, h, c = self.independent(proj_c, batch.context_lengths)  # Eq. 16: C_ind, (B, l, d)
        inputs = {"context": x}
        if self.parts.coattention:
            proj_q = self.dropout(F.embedding(batch.question, projected))  # Q_proj, (B, m, d)
            ind_q, _, _ = self.independent(proj_q, batch.question_lengths)  # Eq. 16: Q_ind, (B, m, d)
            c_sum, q_sum, c_coa, q_coa = self.coattention(x, ind_q, masks["context"], masks["question"])
            inputs = {
                "context": torch.cat([proj_c, x, q_sum, c_coa], -1),  # (B, l, 4d)
                "question": torch.cat([proj_q, ind_q, c_sum, q_coa], -1),  # (B, m, 4d)
            }
            # Eq. 20 and 21: C_com (B, l, d), Q_com (B, m, d)
            inputs = {side: net(inputs[side], lengths[side])[0] for side, net in self.compress.items()}
        if self.parts.self_attention:
            for side, layers in self.attend.items():
                for layer in cast(nn.ModuleList, layers):  # Eq. 24 and 26: C_self, Q_self
                    inputs[side] = layer(inputs[side], masks[side][:, None, None, :])
            final = {side: net(inputs[side], lengths[side]) for side, net in self.final.items()}  # Eq. 27
            x, h, c = final["context"]
            inputs = {side: made[0] for side, made in final.items()}
        return Encoding(x, masks["context"], inputs.get("question"), masks["question"], h, c)


def _token_mask(lengths: Tensor, like: Tensor) -> Tensor:
    """(B, T), True at tokens."""
    return (
        torch.arange(like.shape[1], device=like.device) < lengths.to(like.device, non_blocking=True)[:, None]
    )


class DecoderLayer(nn.Module):
    """Attention over what was said and over the context (Eq. 4-6)."""

    def __init__(self, d: int, f: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.over_answer = MultiHead(d, heads, dropout)
        self.over_context = MultiHead(d, heads, dropout)
        self.feed_forward = FeedForward(d, f, dropout)

    def forward(
        self, x: Tensor, said: KeysValues, context: KeysValues, context_mask: Tensor, said_mask: Tensor | None
    ) -> Tensor:
        """(B, n, d) -> (B, n, d); without `said_mask` position t sees positions up to t (footnote 3)."""
        mha = self.over_answer.attend(x, said, said_mask, causal=said_mask is None)  # Eq. 4
        ac = self.over_context.attend(mha + x, context, context_mask)  # Eq. 5
        return cast(Tensor, self.feed_forward(ac + mha + x))  # Eq. 6


class Decoder(nn.Module):
    """Section 3: answer representations, the recurrent context state, and the pointers with their switches."""

    def __init__(self, config: ModelConfig, d_emb: int) -> None:
        super().__init__()
        d, rate, self.parts = config.dimension, config.dropout, config.parts
        self.project = nn.Linear(d_emb, d)  # W_2 of Eq. 2
        self.dropout = nn.Dropout(rate)
        depth = config.layers if self.parts.self_attention else 0
        self.layers = nn.ModuleList(DecoderLayer(d, config.hidden, config.heads, rate) for _ in range(depth))
        self.lstm = nn.LSTMCell(2 * d, d)  # Eq. 7
        self.context_query = nn.Linear(d, d, bias=False)  # W_2 of Eq. 8
        self.context_state = nn.Linear(2 * d, d)  # W_4
        self.vocabulary_switch = nn.Linear(3 * d, 1)  # W_pv
        if self.parts.question_pointer:
            self.question_query = nn.Linear(d, d, bias=False)  # W_3
            self.question_state = nn.Linear(2 * d, d)  # W_5
            self.context_switch = nn.Linear(3 * d, 1)  # W_cq
        self.steps = Steps()  # `compile_step` puts compiled ones in their place
        table = positions(512, d)
        self.register_buffer("positions", table, persistent=False)

    def represent(self, vectors: Tensor, start: int = 0) -> Tensor:
        """A_ppr of answer vectors (B, n, demb), the first of them at position `start`: (B, n, d)."""
        x = self.dropout(self.project(vectors))  # Eq. 2
        if not self.parts.self_attention:
            return cast(Tensor, x)
        table = cast(Tensor, self.positions)
        end = start + vectors.shape[1]
        if end > len(table):
            table = positions(end, table.shape[1]).to(table.device)
        return cast(Tensor, x + table[start:end])  # Eq. 3

    def self_attend(self, x: Tensor, encoded: Encoding) -> Tensor:
        """A_self of all steps at once, (B, n, d) (Eq. 4-6)."""
        mask = encoded.context_mask[:, None, None, :]
        for layer in self.layers:
            layer = cast(DecoderLayer, layer)
            context = layer.over_context.keys_values(encoded.context)
            x = layer(x, layer.over_answer.keys_values(x), context, mask, None)
        return x

    def start(self, encoded: Encoding) -> State:
        """The state before the first step."""
        return State(encoded.h, encoded.c, torch.zeros_like(encoded.h))

    def recur(self, a_self: Tensor, encoded: Encoding, state: State) -> tuple[Tensor, Tensor, Tensor, State]:
        """h (B, n, d), c~ (B, n, d), alpha^C (B, n, l) of n steps, and the state after them (Eq. 7-9)."""
        given, closed, weights = self._prepared(a_self, encoded)
        h, c, context = state
        steps: list[Moved] = []
        for now in given.unbind(1):
            state_before = torch.cat([self.dropout(context), h], 1)
            steps.append(self.steps.advance(now, state_before, c, encoded.context, closed, weights))
            h, c, context = steps[-1][:3]
        hs, contexts = (torch.stack([step[at] for step in steps], 1) for at in (0, 2))
        attentions = torch.cat([step.attention for step in steps], 2).transpose(1, 2)
        return hs, contexts, attentions, State(h, c, context)

    def recur_from_start(self, a_self: Tensor, encoded: Encoding) -> tuple[Tensor, Tensor, Tensor]:
        """What `recur` makes from the first step on, with a gradient that takes less time."""
        given, closed, weights = self._prepared(a_self, encoded)
        kept = self.dropout(torch.ones_like(a_self.transpose(0, 1)))  # (n, B, d)
        tensors = (given, encoded.h, encoded.c, encoded.context, closed, kept, *weights)
        # Its operations are too small to gain by half precision, and it hands a sum from step to step.
        with torch.autocast(given.device.type, enabled=False):
            made = Recurrence.apply(self.steps, *map(_full, tensors))  # type: ignore[no-untyped-call]
        return cast("tuple[Tensor, Tensor, Tensor]", made)

    def _prepared(self, a_self: Tensor, encoded: Encoding) -> tuple[Tensor, Tensor, Weights]:
        """What does not hang on the loop: the answer's part of the gates (B, n, 4d), closed (B, l, 1), the weights."""
        answer_part, context_part = self.lstm.weight_ih.chunk(2, 1)
        given = F.linear(self.dropout(a_self), answer_part, self.lstm.bias_ih + self.lstm.bias_hh)
        sum_part, state_part = self.context_state.weight.chunk(2, 1)  # W_4 = [for C_fin^T alpha; for h]
        weights = Weights(
            torch.cat([context_part, self.lstm.weight_hh], 1).t(),
            torch.cat([self.context_query.weight, state_part]).t(),
            sum_part,
            self.context_state.bias,
        )
        closed = torch.zeros_like(encoded.context_mask, dtype=encoded.context.dtype)
        return given, closed.masked_fill(~encoded.context_mask, -torch.inf)[:, :, None], weights

    def point(
        self, a_self: Tensor, h: Tensor, context: Tensor, attention: Tensor, encoded: Encoding
    ) -> Decoded:
        """The question's attention and the two switches, of all steps at once (Eq. 8, 9, 12)."""
        context = self.dropout(context)
        gamma = self.vocabulary_switch(torch.cat([context, h, a_self], -1)).squeeze(-1)  # Eq. 12
        if encoded.question is None:
            return Decoded(context, attention, None, gamma, None)
        scores = self.question_query(h) @ encoded.question.transpose(1, 2)  # (B, n, m)
        alpha = scores.masked_fill(~encoded.question_mask[:, None, :], -torch.inf).softmax(-1)  # Eq. 8
        asked = self.question_state(torch.cat([alpha @ encoded.question, h], -1)).tanh()  # q~, Eq. 9
        switch = self.context_switch(torch.cat([self.dropout(asked), h, a_self], -1)).squeeze(-1)  # Eq. 12
        return Decoded(context, attention, alpha, gamma, switch)


class MQAN(nn.Module):
    """The network. Its words come in as vectors, so it has no table of embeddings of its own."""

    def __init__(self, config: ModelConfig, vocabulary: Tensor) -> None:
        """`vocabulary`: (v, demb), the vectors of the words that can be generated, special words included."""
        super().__init__()
        self.config = config
        self.encoder = Encoder(config, vocabulary.shape[1])
        self.decoder = Decoder(config, vocabulary.shape[1])
        self.generate = nn.Linear(config.dimension, len(vocabulary))  # W_v
        # Fixed (Appendix D), and made from the vectors' own files: no checkpoint holds it.
        self.register_buffer("vocabulary", vocabulary, persistent=False)
        self.reset_parameters()

    def compile_step(self) -> None:
        """Has torch.compile make one kernel of the small operations of a time step: worth it on GPUs.

        Only of the step: the whole model would be compiled anew for each length of answer.
        """
        self.decoder.steps = self.decoder.steps.compiled()

    def reset_parameters(self) -> None:
        """Glorot's uniform for every matrix, zero for biases, one for an LSTM's forget gate."""
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter)
            elif "bias" in name:
                nn.init.zeros_(parameter)
                if "lstm" in name and "bias_ih" in name:
                    nn.init.ones_(parameter.data.chunk(4)[1])

    def forward(self, batch: Batch) -> Tensor:
        """log p(a_t) of the target tokens, (B, n), zero at padding: the loss is minus their mean."""
        encoded = self.encoder(batch)
        a_self = self.decoder.self_attend(
            self.decoder.represent(F.embedding(batch.answer, batch.vectors)), encoded
        )
        h, context, attention = self.decoder.recur_from_start(a_self, encoded)
        decoded = self.decoder.point(a_self, h, context, attention, encoded)
        return self.log_probability(decoded, batch)

    def log_probability(self, decoded: Decoded, batch: Batch) -> Tensor:
        """log p(a_t), (B, n) (Eq. 10-13), without ever laying out a distribution over v + o words but in the softmax.

        Only tokens are looked at, no padding; the softmax over the vocabulary is done once for all of them.
        """
        rows, steps = (batch.target > 0).nonzero(as_tuple=True)  # T tokens
        target = batch.target[rows, steps]
        in_vocabulary = target < self.generate.out_features
        logits = _full(self.generate(decoded.context[rows, steps]))  # Eq. 11: (T, v)
        generated = -F.cross_entropy(logits, target.where(in_vocabulary, 0), reduction="none")
        generated = generated.masked_fill(~in_vocabulary, -1e9)
        # Eq. 10: what points at occurrences of the target.
        hits = batch.context_output[rows] == target[:, None]  # (T, l)
        to_context, to_question = (weight[rows, steps] for weight in decoded.pointers)
        pointed = to_context * (decoded.context_attention[rows, steps] * hits).sum(1)
        if decoded.question_attention is not None:
            hits = batch.question_output[rows] == target[:, None]  # (T, m)
            pointed = pointed + to_question * (decoded.question_attention[rows, steps] * hits).sum(1)
        gate = _full(decoded.vocabulary_gate[rows, steps])
        # Eq. 13, in logarithms: gamma p_v + (1 - gamma) [lambda p_c + (1 - lambda) p_q]
        log_p = torch.logaddexp(
            F.logsigmoid(gate) + generated, F.logsigmoid(-gate) + _full(pointed).clamp_min(_LITTLE).log()
        )
        return log_p.new_zeros(batch.target.shape).index_put((rows, steps), log_p)

    def distribution(self, decoded: Decoded, batch: Batch) -> Tensor:
        """p(w) over v + o words at every step, (B, n, v + o) (Eq. 10-13)."""
        gamma = _full(decoded.vocabulary_gate).sigmoid()[..., None]
        generated = gamma * _full(self.generate(decoded.context)).softmax(-1)  # Eq. 11
        p = F.pad(generated, (0, len(batch.others)))
        lam, rest = (_full(weight)[..., None] for weight in decoded.pointers)
        p = _add(p, batch.context_output, (1 - gamma) * lam * _full(decoded.context_attention))
        if decoded.question_attention is not None:
            p = _add(p, batch.question_output, (1 - gamma) * rest * _full(decoded.question_attention))
        return p

    def words(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The vectors of numbers below v + o, (...) -> (..., demb): what the decoder is fed next."""
        table = cast(Tensor, self.vocabulary)
        if not len(batch.others):
            return F.embedding(outputs, table)
        other = F.embedding((outputs - len(table)).clamp_min(0), batch.vectors[batch.others])
        known = F.embedding(outputs.clamp_max(len(table) - 1), table)
        return torch.where((outputs < len(table))[..., None], known, other)


def _add(p: Tensor, numbers: Tensor, weights: Tensor) -> Tensor:
    """Eq. 10: adds the weights (B, n, T) of T positions to the words (B, T) that stand there."""
    return p.scatter_add(2, numbers[:, None, :].expand_as(weights), weights)


def _full(x: Tensor) -> Tensor:
    """Out of half precision, in which probabilities of 50,000 words are not to be told apart."""
    return x if x.dtype == torch.float64 else x.float()
