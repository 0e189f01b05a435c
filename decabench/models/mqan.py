"""The multitask question answering network (MQAN) of the decathlon paper, and its ablations.

Equation numbers refer to "The Natural Language Decathlon" (McCann et al. 2018); 1-13 are in section
3, 14-27 in Appendix E. In shapes, B is the number of examples, l of context tokens, m of question
tokens, n of answer tokens, v of words that can be generated, o of other words in the batch and U of
distinct words; d is the width and demb the length of a word vector.

The code follows the order of the equations: first `Encoder` and `Decoder`, then `MQAN` with its
methods `losses` and `answers`. See `mqan_batch.py` for the configuration and batches, `decoding.py`
for greedy decoding and beam search, and `analyses.py` for analyses of pointers and attention.

Each ablation removes one more part (Table 2). `catt` has no question pointer,
so no layer after coattention reads the question. `satt` also has no coattention, and reads the
context and question as one sequence. `s2s` also has no self-attention.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from decabench.models.decoding import GeneratedWords, beam_search, greedy
from decabench.models.family import Family, Losses, ModelReply, MultitaskNetwork
from decabench.models.layers import (
    BiLSTM,
    Dropout,
    FeedForward,
    KeysValues,
    LoopMatrix,
    MultiHead,
    SelfAttention,
    positions,
    token_mask,
)
from decabench.models.mqan_batch import (
    MQANBatch,
    MQANConfig,
    batch_order,
    batch_size,
    collate,
    encode,
    padded_length,
)
from decabench.tasks import Label, Number, Output, Tags, Text, Tree
from decabench.vectors import EOS, PAD, WordTable


class DecoderState(NamedTuple):
    """The state passed from one step of the decoder to the next."""

    h: Tensor
    """The LSTM's hidden state h_t, (B, d)."""
    c: Tensor
    """The LSTM's cell state, (B, d)."""
    context: Tensor
    """The recurrent context state c~_t, (B, d)."""


@dataclass(frozen=True)
class Encoding:
    """The encoder's output."""

    context: Tensor
    """The final encoding of the context, C_fin, of shape (B, l, d)."""
    context_mask: Tensor
    """A boolean mask of shape (B, l), True at the context's tokens and False at padding."""
    question: Tensor | None
    """The final encoding of the question, Q_fin, of shape (B, m, d); None if the model has no question
    pointer.
    """
    question_mask: Tensor
    """A boolean mask of shape (B, m), True at the question's tokens and False at padding."""
    state: DecoderState
    """The decoder's first state: the last states of the context's final BiLSTM, and zeros for the context state."""
    layers: tuple[Tensor, ...] = ()
    """The encoder states that each layer of the decoder attends to, as tensors of shape (B, l, d)."""


@dataclass(frozen=True)
class Decoded:
    """The decoder's output for all steps."""

    context: Tensor
    """The context states c~, of shape (B, n, d), which are the input of the softmax over the vocabulary."""
    context_attention: Tensor
    """The attention over the context, alpha^C, of shape (B, n, l)."""
    question_attention: Tensor | None
    """The attention over the question, alpha^Q, of shape (B, n, m); None if the model has no question
    pointer.
    """
    vocabulary_gate: Tensor
    """The logits of the switch gamma, the weight of the vocabulary, of shape (B, n)."""
    context_gate: Tensor | None
    """The logits of the switch lambda, the weight of the context pointer, of shape (B, n); None if the
    model has no question pointer.
    """

    @property
    def pointers(self) -> tuple[Tensor, Tensor]:
        """The weights of the context pointer and the question pointer.

        These are lambda and 1 - lambda, each of shape (B, n).
        """
        if self.context_gate is None:
            return torch.ones_like(self.vocabulary_gate), torch.zeros_like(self.vocabulary_gate)
        return self.context_gate.sigmoid(), (-self.context_gate).sigmoid()


class Coattention(nn.Module):
    """Alignment and dual coattention of two sequences (Eq. 17-19)."""

    def __init__(self, d: int, dropout: float, tanh: bool = False) -> None:
        super().__init__()
        self.project = nn.Linear(d, d) if tanh else None
        self.context_dummy = nn.Parameter(torch.randn(d) / d**0.5)
        self.question_dummy = nn.Parameter(torch.randn(d) / d**0.5)
        self.dropout = Dropout(dropout)

    def forward(
        self, c: Tensor, q: Tensor, c_mask: Tensor, q_mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the summaries C_sum and Q_sum and the coattention contexts C_coa and Q_coa, in that order.

        C_sum and Q_coa have shape (B, m, d), and Q_sum and C_coa have shape (B, l, d). `c` and `q` are the
        independent encodings of the context and question: C_ind, of shape (B, l, d), and Q_ind, of shape
        (B, m, d).
        """
        # A token without a counterpart can align with the dummy at position 0.
        c, q = _prepend(c, self.context_dummy), _prepend(q, self.question_dummy)  # (B, l+1, d), (B, m+1, d)
        if self.project is not None:
            q = self.project(q).tanh()
        similarity = c @ q.transpose(1, 2)  # (B, l+1, m+1)
        no_c, no_q = F.pad(~c_mask, (1, 0))[:, :, None], F.pad(~q_mask, (1, 0))[:, None, :]
        # Eq. 17: columns sum to 1, over the context in S_cq and the question in S_qc (kept transposed).
        s_cq = similarity.masked_fill(no_c, -torch.inf).softmax(1)  # (B, l+1, m+1)
        s_qc = similarity.masked_fill(no_q, -torch.inf).softmax(2)  # (B, l+1, m+1), = S_qc^T
        c_sum = s_cq.transpose(1, 2) @ c  # Eq. 18: (B, m+1, d)
        q_sum = s_qc @ q  # Eq. 18: (B, l+1, d)
        c_coa = s_qc @ c_sum  # Eq. 19: (B, l+1, d)
        q_coa = s_cq.transpose(1, 2) @ q_sum  # Eq. 19: (B, m+1, d)
        c_sum, q_sum, c_coa, q_coa = (self.dropout(x[:, 1:]) for x in (c_sum, q_sum, c_coa, q_coa))
        return c_sum, q_sum, c_coa, q_coa


def _prepend(x: Tensor, dummy: Tensor) -> Tensor:
    return torch.cat([dummy.to(x.dtype).expand(len(x), 1, -1), x], 1)


class Encoder(nn.Module):
    """The encoder of Appendix E.

    It applies independent encoding, coattention, compression, self-attention and a final encoding.
    """

    def __init__(self, config: MQANConfig, d_emb: int, d_contextual: int = 0) -> None:
        super().__init__()
        d, rate, self.parts = config.dimension, config.dropout, config.parts
        self.layer_by_layer = config.layer_by_layer
        on_inputs = rate if config.lstm_dropout == -1 else config.lstm_dropout
        self.project = nn.Linear(d_emb, d)  # W_1
        # Additional columns of W_1 for contextual vectors, which the paper's model does not have.
        self.project_contextual = nn.Linear(d_contextual, d, bias=False) if d_contextual else None
        self.dropout = Dropout(rate)
        self.independent = BiLSTM(d, d, on_inputs)
        sides = ("context", "question") if self.parts.question_pointer else ("context",)

        def stack() -> nn.ModuleList:
            sizes = (d, config.hidden, config.heads, rate, config.split_heads)
            return nn.ModuleList(SelfAttention(*sizes) for _ in range(config.layers))

        if self.parts.coattention:
            self.coattention = Coattention(d, rate, config.tanh_coattention)
            self.compress = nn.ModuleDict({side: BiLSTM(4 * d, d, on_inputs) for side in sides})
        if self.parts.self_attention:
            self.attend = nn.ModuleDict({side: stack() for side in sides})
            self.final = nn.ModuleDict({side: BiLSTM(d, d, on_inputs) for side in sides})

    def forward(self, batch: MQANBatch) -> Encoding:
        """Encode the context and question as C_fin, (B, l, d), and Q_fin, (B, m, d)."""
        lengths = {"context": batch.context_lengths, "question": batch.question_lengths}
        masks = {
            "context": token_mask(batch.context_lengths, batch.context),
            "question": token_mask(batch.question_lengths, batch.question),
        }
        projected = self.project(batch.vectors)  # Eq. 15, once for each distinct word: (U, d)
        proj_c = self._input(batch.context, projected, batch.context_vectors)  # C_proj, (B, l, d)
        x, h, c = self.independent(proj_c, batch.context_lengths)  # Eq. 16: C_ind, (B, l, d)
        inputs = {"context": x}
        if self.parts.coattention:
            proj_q = self._input(batch.question, projected, batch.question_vectors)  # Q_proj, (B, m, d)
            ind_q, _, _ = self.independent(proj_q, batch.question_lengths)  # Eq. 16: Q_ind, (B, m, d)
            c_sum, q_sum, c_coa, q_coa = self.coattention(x, ind_q, masks["context"], masks["question"])
            inputs = {
                "context": torch.cat([proj_c, x, q_sum, c_coa], -1),  # (B, l, 4d)
                "question": torch.cat([proj_q, ind_q, c_sum, q_coa], -1),  # (B, m, 4d)
            }
            # Eq. 20 and 21: C_com (B, l, d), Q_com (B, m, d)
            inputs = {side: net(inputs[side], lengths[side])[0] for side, net in self.compress.items()}
        read: list[Tensor] = []
        if self.parts.self_attention:
            for side, layers in self.attend.items():
                for layer in cast(nn.ModuleList, layers):  # Eq. 24 and 26: C_self, Q_self
                    inputs[side] = layer(inputs[side], masks[side][:, None, None, :])
                    if side == "context":
                        read.append(inputs[side])
            final = {side: net(inputs[side], lengths[side]) for side, net in self.final.items()}  # Eq. 27
            x, h, c = final["context"]
            inputs = {side: made[0] for side, made in final.items()}
        memories = tuple(read) if self.layer_by_layer else (x,) * len(read)
        state = DecoderState(h, c, torch.zeros_like(h))
        return Encoding(x, masks["context"], inputs.get("question"), masks["question"], state, memories)

    def _input(self, words: Tensor, projected: Tensor, contextual: Tensor | None) -> Tensor:
        x = F.embedding(words, projected)
        if self.project_contextual is not None:
            x = x + self.project_contextual(contextual)
        return cast(Tensor, self.dropout(x))


class DecoderLayer(nn.Module):
    """Attention over the partial answer and the context (Eq. 4-6)."""

    def __init__(self, config: MQANConfig) -> None:
        super().__init__()
        d, rate = config.dimension, config.dropout
        self.over_answer = MultiHead(d, config.heads, rate, config.split_heads)
        self.norm = nn.LayerNorm(d) if config.norm_sublayers else None
        self.over_context = MultiHead(d, config.heads, rate, config.split_heads)
        self.feed_forward = FeedForward(d, config.hidden, rate)

    def forward(
        self, x: Tensor, said: KeysValues, context: KeysValues, context_mask: Tensor, causal: bool
    ) -> Tensor:
        """Apply the layer, (B, n, d) -> (B, n, d).

        If `causal` is true, position t attends only to positions up to t (footnote 3).
        """
        mha = self.over_answer.attend(x, said, causal=causal)  # Eq. 4
        if self.norm is not None:
            x = self.norm(mha + x)
            ac = self.over_context.attend(x, context, context_mask)
            return cast(Tensor, self.feed_forward(ac + x))
        ac = self.over_context.attend(mha + x, context, context_mask)  # Eq. 5
        return cast(Tensor, self.feed_forward(ac + mha + x))  # Eq. 6


class Decoder(nn.Module):
    """The decoder of section 3, with its recurrent context state, pointers and switches."""

    def __init__(self, config: MQANConfig, d_emb: int) -> None:
        super().__init__()
        d, rate, self.parts = config.dimension, config.dropout, config.parts
        self.project = nn.Linear(d_emb, d)  # W_2 of Eq. 2
        self.dropout = Dropout(rate)
        depth = config.layers if self.parts.self_attention else 0
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(depth))
        self.lstm = nn.LSTMCell(2 * d, d)  # Eq. 7
        self.context_query = nn.Linear(d, d, bias=False)  # W_2 of Eq. 8
        self.context_state = nn.Linear(2 * d, d)  # W_4
        self.vocabulary_switch = nn.Linear(3 * d, 1)  # W_pv
        if self.parts.question_pointer:
            self.question_query = nn.Linear(d, d, bias=False)  # W_3
            self.question_state = nn.Linear(2 * d, d)  # W_5
            self.context_switch = nn.Linear(3 * d, 1)  # W_cq
        table = positions(512, d)
        self.register_buffer("positions", table, persistent=False)

    def represent(self, vectors: Tensor, start: int = 0) -> Tensor:
        """Return the input of the decoder's layers, A_ppr, of shape (B, n, d).

        `vectors` contains the word vectors of the answer, of shape (B, n, demb). A model with
        self-attention adds position encodings to the projected vectors. `start` is the position of the
        first vector in the answer.
        """
        x = cast(Tensor, self.dropout(self.project(vectors)))  # Eq. 2: A_proj
        if not self.parts.self_attention:
            return x
        table = cast(Tensor, self.positions)
        end = start + vectors.shape[1]
        if end > len(table):
            table = positions(end, table.shape[1]).to(table.device)
        return x + table[start:end]  # Eq. 3

    def self_attend(self, x: Tensor, encoded: Encoding) -> Tensor:
        """Return the output A_self of the decoder's layers for all steps, (B, n, d) (Eq. 4-6)."""
        mask = encoded.context_mask[:, None, None, :]
        for layer, memory in zip(self.layers, encoded.layers, strict=True):
            layer = cast(DecoderLayer, layer)
            context = layer.over_context.keys_values(memory)
            x = layer(x, layer.over_answer.keys_values(x), context, mask, causal=True)
        return x

    def recur(
        self, a_self: Tensor, encoded: Encoding, state: DecoderState | None = None
    ) -> tuple[Tensor, Tensor, Tensor, DecoderState]:
        """Run the decoder's loop over n tokens of the answer (Eq. 7-9).

        The loop starts from `state`, or from the first state if it is None. `a_self` has shape (B, n, d).

        Returns the hidden states h, of shape (B, n, d); the context states c~, of shape (B, n, d); the
        attention over the context alpha^C, of shape (B, n, l); and the state after the last token.
        """
        h, c, context = state or encoded.state
        answer_part, context_part = self.lstm.weight_ih.chunk(2, 1)
        sum_part, state_part = self.context_state.weight.chunk(2, 1)  # W_4 = [for C_fin^T alpha; for h]
        recurrent = LoopMatrix(torch.cat([context_part, self.lstm.weight_hh], 1).t())
        from_h = LoopMatrix(torch.cat([self.context_query.weight, state_part]).t())
        from_sum, keys = LoopMatrix(sum_part.t()), LoopMatrix(encoded.context.transpose(1, 2))
        values = LoopMatrix(encoded.context)
        given = F.linear(self.dropout(a_self), answer_part, self.lstm.bias_ih + self.lstm.bias_hh)
        kept = self.dropout(torch.ones_like(a_self.transpose(0, 1)))  # dropout of c~ between steps, (n, B, d)
        no_token = ~encoded.context_mask[:, None]
        hs, contexts, attentions = [], [], []
        for now, keep in zip(given.unbind(1), kept.unbind(), strict=True):
            i, f, g, o = (now + recurrent(torch.cat([context * keep, h], 1))).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()  # Eq. 7
            query, h_part = from_h(h).chunk(2, 1)
            attention = keys(query[:, None]).masked_fill(no_token, -torch.inf).softmax(2)  # Eq. 8: (B, 1, l)
            summed = values(attention).squeeze(1)
            context = (from_sum(summed) + self.context_state.bias + h_part).tanh()  # Eq. 9
            hs.append(h)
            contexts.append(context)
            attentions.append(attention)
        made = torch.stack(hs, 1), torch.stack(contexts, 1), torch.cat(attentions, 1)
        return *made, DecoderState(h, c, context)

    def point(
        self, a_self: Tensor, h: Tensor, context: Tensor, attention: Tensor, encoded: Encoding
    ) -> Decoded:
        """Return the decoder's output for all steps: attention and switches (Eq. 8, 9 and 12).

        The arguments are the results of `self_attend` and `recur`, and the encoder's output.
        """
        context = self.dropout(context)
        gamma = self.vocabulary_switch(torch.cat([context, h, a_self], -1)).squeeze(-1)  # Eq. 12
        if encoded.question is None:
            return Decoded(context, attention, None, gamma, None)
        scores = self.question_query(h) @ encoded.question.transpose(1, 2)  # Eq. 8: (B, n, m)
        alpha = scores.masked_fill(~encoded.question_mask[:, None, :], -torch.inf).softmax(-1)
        # Eq. 9: q~, (B, n, d).
        asked = self.question_state(torch.cat([alpha @ encoded.question, h], -1)).tanh()
        switch = self.context_switch(torch.cat([self.dropout(asked), h, a_self], -1)).squeeze(-1)  # Eq. 12
        return Decoded(context, attention, alpha, gamma, switch)


_LITTLE = 1e-30  # replaces zero pointer weights in logarithms


class MQAN(MultitaskNetwork):
    """The MQAN network. It reads words as fixed vectors, without an embedding table of its own."""

    vocabulary_rows = ("generate",)

    def __init__(self, config: MQANConfig, words: WordTable) -> None:
        super().__init__()
        self.config, self.lexicon = config, words.lexicon
        vocabulary = torch.from_numpy(words.vocabulary())
        self.encoder = Encoder(config, vocabulary.shape[1], words.contextual_dimension)
        self.decoder = Decoder(config, vocabulary.shape[1])
        self.generate = nn.Linear(config.dimension, len(vocabulary))  # W_v
        # Not stored in checkpoints, because it is fixed (Appendix D) and read from the vector files.
        self.register_buffer("vocabulary", vocabulary, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize matrices from Glorot's uniform distribution and biases to 0.

        The biases of LSTM forget gates are initialized to 1.
        """
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter)
            elif "bias" in name:
                nn.init.zeros_(parameter)
                if "lstm" in name and "bias_ih" in name:
                    nn.init.ones_(parameter.data.chunk(4)[1])

    def losses(self, batch: MQANBatch) -> Losses:
        """Return the negative log-likelihood of the answers, summed over tokens."""
        return {"loss": (-self.log_likelihood(batch).sum(), (batch.target != PAD).sum())}

    def log_likelihood(self, batch: MQANBatch) -> Tensor:
        """Return the log-probabilities of the target tokens, (B, n); zero at padding."""
        encoded = self.encoder(batch)
        a_self = self.decoder.self_attend(
            self.decoder.represent(F.embedding(batch.answer, batch.vectors)), encoded
        )
        h, context, attention, _ = self.decoder.recur(a_self, encoded)
        decoded = self.decoder.point(a_self, h, context, attention, encoded)
        return self.log_probability(decoded, batch)

    def log_probability(self, decoded: Decoded, batch: MQANBatch) -> Tensor:
        """Return the log-probabilities of the target tokens, (B, n), given the decoder's output (Eq. 10-13).

        No distribution over all v + o words is computed, and padding is skipped.
        """
        rows, steps = batch.target_at  # T tokens
        target = batch.target[rows, steps]
        in_vocabulary = target < self.generate.out_features
        logits = self.generate(decoded.context[rows, steps])  # Eq. 11, for each target token: (T, v)
        generated = -F.cross_entropy(logits, target.where(in_vocabulary, 0), reduction="none")
        generated = generated.masked_fill(~in_vocabulary, -1e9)
        # Eq. 10: the total attention to occurrences of the target
        hits = batch.context_output[rows] == target[:, None]  # (T, l)
        to_context, to_question = (weight[rows, steps] for weight in decoded.pointers)
        pointed = to_context * (decoded.context_attention[rows, steps] * hits).sum(1)
        if decoded.question_attention is not None:
            hits = batch.question_output[rows] == target[:, None]  # (T, m)
            pointed = pointed + to_question * (decoded.question_attention[rows, steps] * hits).sum(1)
        gate = decoded.vocabulary_gate[rows, steps]
        # Eq. 13, in logarithms: gamma p_v + (1 - gamma) [lambda p_c + (1 - lambda) p_q]
        log_p = torch.logaddexp(
            F.logsigmoid(gate) + generated, F.logsigmoid(-gate) + pointed.clamp_min(_LITTLE).log()
        )
        return log_p.new_zeros(batch.target.shape).index_put((rows, steps), log_p)

    def distribution(self, decoded: Decoded, batch: MQANBatch) -> Tensor:
        """Return the probabilities of all v + o words at every step, (B, n, v + o) (Eq. 10-13)."""
        gamma = decoded.vocabulary_gate.sigmoid()[..., None]
        generated = gamma * self.generate(decoded.context).softmax(-1)  # Eq. 11
        p = F.pad(generated, (0, len(batch.others)))
        lam, rest = (weight[..., None] for weight in decoded.pointers)
        p = _add(p, batch.context_output, (1 - gamma) * lam * decoded.context_attention)
        if decoded.question_attention is not None:
            p = _add(p, batch.question_output, (1 - gamma) * rest * decoded.question_attention)
        return p

    def words(self, outputs: Tensor, batch: MQANBatch) -> Tensor:
        """Return the vectors of generated words, which are the decoder's next input.

        `outputs` contains the output ids of the words, in any shape. The result has the same shape with an
        additional last dimension of size demb.
        """
        table = cast(Tensor, self.vocabulary)
        if not len(batch.others):
            return F.embedding(outputs, table)
        other = F.embedding((outputs - len(table)).clamp_min(0), batch.vectors[batch.others])
        known = F.embedding(outputs.clamp_max(len(table) - 1), table)
        return torch.where((outputs < len(table))[..., None], known, other)

    def decode(self, batch: MQANBatch, limit: int | None = None, beam: int = 1) -> GeneratedWords:
        """Generate answers greedily, or with beam search if `beam` is above 1."""
        self.eval()
        steps = limit or self.config.max_answer_tokens
        with torch.inference_mode():
            past = DecoderPast(self, batch, steps)
            device = past.encoded.context.device
            if beam > 1:
                return beam_search(past, len(batch), beam, steps, device)
            return greedy(past, len(batch), steps, device)

    def word_numbers(self, found: GeneratedWords, batch: MQANBatch) -> list[list[int]]:
        """Return each answer as a list of lexicon ids."""
        table = torch.cat([torch.arange(self.generate.out_features), batch.other_words])
        return cast("list[list[int]]", table[found.outputs].tolist())

    def answers(self, batch: MQANBatch, limit: int | None = None, beam: int = 1) -> list[ModelReply]:
        """Return the answers in lower case, decoded greedily, or with beam search if `beam` is above 1."""
        found = self.decode(batch, limit, beam)
        read = batch.context_lengths
        if self.config.parts.coattention:  # without coattention, the context already includes the question
            read = read + batch.question_lengths
        return [
            ModelReply(
                self.lexicon.decode(own), finished, tokens, own.index(EOS) + 1 if finished else len(own)
            )
            for own, finished, tokens in zip(
                self.word_numbers(found, batch), found.finished, read.tolist(), strict=True
            )
        ]


def _add(p: Tensor, numbers: Tensor, weights: Tensor) -> Tensor:
    """Return the probabilities of words, `p`, with pointer weights added (Eq. 10).

    `weights` has shape (B, n, T) and contains the weight of each of a text's T tokens at each step. `numbers` has
    shape (B, T) and contains the tokens' output ids.
    """
    return p.scatter_add(2, numbers[:, None, :].expand_as(weights), weights)


class DecoderPast:
    """The decoder's cache for partially generated answers; see `decoding.Past`."""

    def __init__(self, model: MQAN, batch: MQANBatch, steps: int) -> None:
        self.model, self.batch = model, batch
        self.encoded = model.encoder(batch)
        self.layers = [cast(DecoderLayer, layer) for layer in model.decoder.layers]
        # The keys and values of each layer, (B, p, l, d) for the context and (B, p, steps, d) for the answer.
        self.context = [
            layer.over_context.keys_values(memory)
            for layer, memory in zip(self.layers, self.encoded.layers, strict=True)
        ]
        self.said: list[KeysValues] = []
        for key, _ in self.context:
            room = key.new_zeros(*key.shape[:2], steps, key.shape[3])
            self.said.append((room, room.clone()))
        self.state = self.encoded.state
        self.length = 0  # the number of steps stored in `said`

    def step(self, last: Tensor) -> Tensor:
        """Return the probabilities of the next words, of shape (B, v + o).

        `last` contains the output ids of the previous words, of shape (B,). Words that can't occur in an
        answer have probability zero.
        """
        decoder, at = self.model.decoder, self.length
        x = decoder.represent(self.model.words(last[:, None], self.batch), at)  # (B, 1, d)
        mask = self.encoded.context_mask[:, None, None, :]
        for layer, context, (keys, values) in zip(self.layers, self.context, self.said, strict=True):
            key, value = layer.over_answer.keys_values(x)
            keys[:, :, at], values[:, :, at] = key[:, :, 0], value[:, :, 0]
            said = keys[:, :, : at + 1], values[:, :, : at + 1]
            x = layer(x, said, context, mask, causal=False)  # the whole answer so far
        h, context_state, attention, self.state = decoder.recur(x, self.encoded, self.state)
        self.length += 1
        decoded = decoder.point(x, h, context_state, attention, self.encoded)
        p = self.model.distribution(decoded, self.batch)[:, 0]
        p[:, :EOS] = 0  # <pad>, <unk> and <init>; indexing with a list would make a GPU wait
        return p

    def select(self, rows: Tensor, same_examples: bool = False) -> None:
        """Keep the given rows, in the given order.

        If `same_examples` is true, every row still belongs to the same example as before.
        """
        self.said = [(keys[rows], values[rows]) for keys, values in self.said]
        self.state = DecoderState(*(part[rows] for part in self.state))
        if same_examples:
            return
        self.context = [(keys[rows], values[rows]) for keys, values in self.context]
        old = self.encoded
        self.encoded = replace(
            old,
            context=old.context[rows],
            context_mask=old.context_mask[rows],
            question=None if old.question is None else old.question[rows],
            question_mask=old.question_mask[rows],
            layers=(),  # only needed for the keys and values above
        )
        self.batch = replace(
            self.batch,
            context_output=self.batch.context_output[rows],
            question_output=self.batch.question_output[rows],
        )


def build(config: MQANConfig, outputs: Mapping[str, Output], words: WordTable) -> MQAN:
    """Build a network. The outputs are ignored, because MQAN treats every answer as text."""
    return MQAN(config, words)


FAMILY = Family(
    config=MQANConfig,
    columns={"context": "words", "question": "words", "answer": "words"},
    outputs=(Text, Label, Tags, Tree, Number),
    encode=encode,
    collate=collate,
    build=build,
    marks=2,
    size=batch_size,
    padded=padded_length,
    order=batch_order,
    pool_share=1 / 8,
    abilities=frozenset({"beam", "max_new_tokens", "contextual"}),
    analyses={
        "pointers": "decabench.models.analyses:POINTERS",
        "attention": "decabench.models.analyses:ATTENTION",
    },
)
