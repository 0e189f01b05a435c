"""MQAN with six more differences of its authors' code as settings, to find out which of them learns better.

    PYTHONPATH=benchmarks decabench train --model departures:FAMILY --set model.free_pointers=true --output pointers

Five others are settings of MQAN itself: `split_heads`, `norm_sublayers`, `tanh_coattention`, `layer_by_layer` and
`lstm_dropout`. These are here, as none has been shown to learn better. docs/mqan-experiments.md has the results,
and `departures_effects.py` beside this file the runs. With all of them the untrained network is that of
`authors_network.py` but for positions, layer normalization and a bias, which `departures_check.py` makes the same
before it compares them.

`departures:INTERLEAVED` is MQAN itself, with batches sorted as in the authors' code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from decabench.models.family import Integers
from decabench.models.layers import Dropout, FeedForward
from decabench.models.mqan import FAMILY as MQAN_FAMILY
from decabench.models.mqan import MQAN, Coattention, Decoded, Decoder, DecoderState, Encoding
from decabench.models.mqan_batch import MODELS, MQANConfig, Parts
from decabench.tasks import Output
from decabench.vectors.word_vectors import WordTable


@dataclass(frozen=True)
class _AllParts(MQANConfig):
    """Settings of all parts of MQAN under another name."""

    def __post_init__(self) -> None:
        MQANConfig(
            **{f.name: getattr(self, f.name) for f in fields(MQANConfig) if f.name != "name"}
        )  # checks them

    @property
    def parts(self) -> Parts:
        """All parts of MQAN."""
        return MODELS["mqan"]


@dataclass(frozen=True)
class DeparturesConfig(_AllParts):
    """MQAN's settings, and the differences that are not among them."""

    name: str = "departures:FAMILY"
    free_pointers: bool = False
    """Whether the pointers are without W_2 and W_3 (Eq. 8), as in the authors' code."""
    switches_read_input: bool = False
    """Whether the switches (Eq. 12) read all that the decoder's LSTM reads, c~ of the step before included, and their
    input is dropped."""
    drop_words: bool = False
    """Whether vectors of words are dropped before their projection (Eq. 2 and 15), not after it."""
    drop_coattention_input: bool = False
    """Whether coattention drops the context that it reads, by 0.3, and none of its results."""
    usual_init: bool = False
    """Whether weights begin as torch has them, and coattention's dummies as N(0, 1)."""
    more_dropout: bool = False
    """Whether the inputs of self-attention are dropped, in the decoder after positions are added, those of feed-forward
    networks in place of what is inside these, and c~ three times on its way to the next step."""


class DepartingCoattention(Coattention):
    """Coattention that drops the context that it reads."""

    def __init__(self, d: int, tanh: bool) -> None:
        super().__init__(d, 0.0, tanh)
        self.drop_context = Dropout(0.3)

    def forward(
        self, c: Tensor, q: Tensor, c_mask: Tensor, q_mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """As Coattention's."""
        return super().forward(self.drop_context(c), q, c_mask, q_mask)


class NoWeights(nn.Module):
    """The identity in place of a linear layer. Its matrix is a buffer: training would unfreeze a parameter."""

    weight: Tensor

    def __init__(self, d: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.eye(d), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return x."""
        return x


class DepartingFeedForward(FeedForward):
    """A feed-forward network that drops its input."""

    def forward(self, x: Tensor) -> Tensor:
        """As FeedForward's."""
        x = self.norm_in(x)
        return cast(Tensor, self.norm_out(self.dropout(self.outer(self.inner(self.dropout(x)).relu())) + x))


class DepartingDecoder(Decoder):
    """A decoder with those differences of the configuration that are the decoder's."""

    def __init__(self, config: DeparturesConfig, d_emb: int) -> None:
        super().__init__(config, d_emb)
        self.departures = config
        self.drop_after_projection = Dropout(config.dropout)
        self.before: Tensor | None = None  # c~ of the steps before, (B, n, d), for the switches
        d = config.dimension
        if config.drop_words:
            self.drop_after_projection = Dropout(0.0)
            self.project = _drop_before(self.project, config.dropout)
        if config.switches_read_input:
            self.vocabulary_switch = nn.Linear(4 * d, 1)
            self.context_switch = nn.Linear(4 * d, 1)

    def embed(self, vectors: Tensor) -> Tensor:
        """As Decoder's."""
        return cast(Tensor, self.drop_after_projection(self.project(vectors)))

    def represent(self, vectors: Tensor, start: int = 0) -> Tensor:
        """As Decoder's."""
        x = super().represent(vectors, start)
        return cast(Tensor, self.dropout(x)) if self.departures.more_dropout else x

    def step(
        self, a_self: Tensor, encoded: Encoding, state: DecoderState
    ) -> tuple[Tensor, Tensor, Tensor, DecoderState]:
        """As Decoder's."""
        self.before = state.context[:, None]
        return super().step(a_self, encoded, state)

    def recur(self, a_self: Tensor, encoded: Encoding) -> tuple[Tensor, Tensor, Tensor]:
        """As Decoder's."""
        made = super().recur(a_self, encoded)
        self.before = F.pad(made[1], (0, 0, 1, 0))[:, :-1]
        return made

    def keep(self, context: Tensor) -> Tensor:
        """As Decoder's."""
        kept = super().keep(context)
        return cast(Tensor, self.dropout(self.dropout(kept))) if self.departures.more_dropout else kept

    def point(
        self, a_self: Tensor, h: Tensor, context: Tensor, attention: Tensor, encoded: Encoding
    ) -> Decoded:
        """As Decoder's."""
        if not self.departures.switches_read_input:
            return super().point(a_self, h, context, attention, encoded)
        assert encoded.question is not None and self.before is not None
        before = self.dropout(self.before)
        if self.departures.more_dropout:
            before = self.dropout(before)
        read = torch.cat([h, a_self, before], -1)
        gamma = self.vocabulary_switch(self.dropout(torch.cat([context, read], -1))).squeeze(-1)
        alpha, asked = self.ask(h, encoded.question, encoded.question_mask)
        switch = self.context_switch(self.dropout(torch.cat([asked, read], -1))).squeeze(-1)
        return Decoded(self.dropout(context), attention, alpha, gamma, switch)


class DepartingMQAN(MQAN):
    """MQAN with those differences that its configuration names."""

    def __init__(self, config: DeparturesConfig, words: WordTable) -> None:
        super().__init__(config, words)
        encoder, d_emb = self.encoder, words.dimension
        sizes = config.dimension, config.hidden, config.dropout
        if config.drop_words:
            # Each occurrence is dropped, and then projected, in place of each distinct word projected once.
            encoder.dropout = cast(Any, _drop_before(encoder.project, config.dropout))
            encoder.project = cast(Any, nn.Identity())
        if config.drop_coattention_input:
            encoder.coattention = DepartingCoattention(config.dimension, config.tanh_coattention)
        if config.more_dropout:
            for layers in encoder.attend.values():
                first = cast(nn.ModuleList, layers)[0]
                first.attention_dropout = Dropout(config.dropout)
                first.register_forward_pre_hook(_drop_first)
                for layer in cast(nn.ModuleList, layers):
                    layer.feed_forward = DepartingFeedForward(*sizes)
        self.decoder = DepartingDecoder(config, d_emb)
        if config.more_dropout:
            for layer in self.decoder.layers:
                layer.feed_forward = DepartingFeedForward(*sizes)
        self.reset_parameters()
        if config.usual_init:
            for module in self.modules():
                if isinstance(module, nn.Linear | nn.LSTM | nn.LSTMCell | nn.LayerNorm):
                    module.reset_parameters()
            for dummy in (encoder.coattention.context_dummy, encoder.coattention.question_dummy):
                nn.init.normal_(dummy)
        if config.free_pointers:
            self.decoder.context_query = cast(Any, NoWeights(config.dimension))
            self.decoder.question_query = cast(Any, NoWeights(config.dimension))


def _drop_before(linear: nn.Module, rate: float) -> Any:
    return nn.Sequential(Dropout(rate), linear)


def _drop_first(layer: Any, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (layer.attention_dropout(given[0]), *given[1:])


def _build(config: DeparturesConfig, outputs: Mapping[str, Output], words: WordTable) -> DepartingMQAN:
    return DepartingMQAN(config, words)


FAMILY = replace(
    MQAN_FAMILY,
    config=DeparturesConfig,
    build=_build,
    abilities=frozenset({"beam", "max_new_tokens"}),
    analyses={},
)


@dataclass(frozen=True)
class InterleavedConfig(_AllParts):
    """MQAN's settings."""

    name: str = "departures:INTERLEAVED"


def interleaved_order(lengths: Mapping[str, Integers]) -> Sequence[Integers]:
    """Return the sort key of the authors' code: the bits of the lengths of context and answer in turn, context first.

    Source: `interleave_keys` and `CQA.sort_key` of their copy of torchtext, which count 16 bits and no marks.
    """
    context, answer = (lengths[name] - MQAN_FAMILY.marks for name in ("context", "answer"))
    key = np.zeros_like(context)
    for bit in range(16):
        key |= (context >> bit & 1) << 2 * bit + 1 | (answer >> bit & 1) << 2 * bit
    return (key,)


INTERLEAVED = replace(
    MQAN_FAMILY,
    config=InterleavedConfig,
    order=interleaved_order,
    answer_order=None,
    pool_share=1.0,  # as the authors' code, up to 128 batches, where that has 100
    analyses={},
)
