"""Check that MQAN with all departures begins as the network of its authors: the same loss, given the same weights.

    python benchmarks/departures_check.py decaNLP    # a clone of github.com/salesforce/decaNLP at 9a4493b

Three things that `departures.py` leaves out are made the same first: positions, layer normalization, the bias of Eq. 9.
Then the losses without dropout must be equal, and those with dropout alike in mean and variance.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[1]))

from authors_network import AuthorsConfig, AuthorsNetwork
from departures import DepartingMQAN, DeparturesConfig

from decabench.models.mqan_batch import collate
from decabench.vectors.tokenizer import EOS, INIT

SIZES = {"dimension": 16, "hidden": 20, "heads": 2, "layers": 2, "vocabulary": 30}
DRAWS = 3_000
ALL = (
    "split_heads norm_sublayers tanh_coattention layer_by_layer free_pointers switches_read_input drop_words "
    "drop_coattention_input usual_init more_dropout"
)


def give(theirs: nn.Module, ours: nn.Module, blocks: tuple[int, ...] = (0,)) -> None:
    """Copy our weights to theirs; `blocks` is the order in which theirs reads the parts of the input."""
    for (name, to), (_, own) in zip(theirs.named_parameters(), ours.named_parameters(), strict=True):
        if "weight" in name and "hh" not in name and own.ndim == 2:
            parts = own.data.chunk(len(blocks), 1)
            own = torch.cat([parts[i] for i in blocks], 1)
        to.data.copy_(own)


def give_layer(theirs: nn.Module, ours: nn.Module) -> None:
    """Copy a layer's two or three sublayers."""
    parts = [(theirs.selfattn, getattr(ours, "attention", None) or ours.over_answer)]
    norms = [theirs.selfattn.layernorm]
    if hasattr(theirs, "attention"):
        parts.append((theirs.attention, ours.over_context))
        give(norms.pop(), ours.norm)
        norms = [theirs.attention.layernorm]
    for to, own in parts:
        for theirs_name, name in zip(("wq", "wk", "wv"), ("query", "key", "value"), strict=True):
            give(getattr(to.layer, theirs_name), getattr(own, name))
    inner = ours.feed_forward
    give(norms[0], inner.norm_in)
    give(theirs.feedforward.layernorm, inner.norm_out)
    give(theirs.feedforward.layer.feedforward.linear, inner.inner)
    give(theirs.feedforward.layer.linear, inner.outer)


def give_all(theirs: nn.Module, ours: DepartingMQAN) -> None:
    """Copy all weights."""
    encoder, decoder = ours.encoder, ours.decoder
    give(theirs.encoder_embeddings.projection.linear, encoder.dropout[1])
    give(theirs.decoder_embeddings.projection.linear, decoder.project[1])
    give(theirs.bilstm_before_coattention.rnn, encoder.independent.lstm)
    give(theirs.coattention.proj.linear, encoder.coattention.project)
    dummies = encoder.coattention.context_dummy, encoder.coattention.question_dummy
    theirs.coattention.embed_sentinel.weight.data.copy_(torch.stack(dummies))
    for side in ("context", "question"):
        give(
            getattr(theirs, f"{side}_bilstm_after_coattention").rnn, encoder.compress[side].lstm, (3, 2, 1, 0)
        )
        give(getattr(theirs, f"bilstm_{side}").rnn, encoder.final[side].lstm)
        layers = getattr(theirs, f"self_attentive_encoder_{side}").layers
        for to, own in zip(layers, encoder.attend[side], strict=True):
            give_layer(to, own)
    for to, own in zip(theirs.self_attentive_decoder.layers, decoder.layers, strict=True):
        give_layer(to, own)
    last = theirs.dual_ptr_rnn_decoder
    give(last.rnn.layers[0], decoder.lstm)
    states = (last.context_attn, decoder.context_state), (last.question_attn, decoder.question_state)
    for attention, state in states:
        state.bias.data.zero_()
        summed, h = state.weight.data.chunk(2, 1)
        attention.linear_out.weight.data.copy_(torch.cat([h, summed], 1))
    give(last.vocab_pointer_switch[0].linear, decoder.vocabulary_switch, (1, 0, 2, 3))
    give(last.context_question_switch[0].linear, decoder.context_switch, (1, 0, 2, 3))
    give(theirs.out, ours.generate)


def main(clone: str) -> None:
    """Print both losses, and end with 1 if they differ."""
    torch.manual_seed(0)
    vectors = torch.randn(SIZES["vocabulary"], 12)
    vectors[0] = 0

    class Words:
        lexicon = SimpleNamespace(size=len(vectors))
        contextual_dimension = 0

        def vocabulary(self):
            return vectors

        def __getitem__(self, numbers):
            return vectors.numpy()[numbers]

    config = DeparturesConfig(**SIZES, lstm_dropout=0.0, **dict.fromkeys(ALL.split(), True))
    ours = DepartingMQAN(config, Words())
    theirs = AuthorsNetwork(AuthorsConfig(clone=clone, **SIZES), Words())
    common = sys.modules["decanlp_models.common"]
    ours.decoder.positions = common.positional_encodings_like(torch.zeros(1, 64, SIZES["dimension"]))
    common.LayerNorm.forward = lambda self, x: F.layer_norm(x, x.shape[-1:], self.gamma, self.beta, 1e-5)
    give_all(theirs.code, ours)

    random = np.random.default_rng(1)

    def words(count: int):
        drawn = random.integers(4, SIZES["vocabulary"], count)
        return np.array([INIT, *drawn, EOS], dtype=np.int32)

    lengths = ((9, 4, 2), (5, 6, 4), (7, 3, 1))
    columns = ("context", "question", "answer")
    items = [dict(zip(columns, map(words, counts), strict=True)) for counts in lengths]
    batch = collate("sst", items, Words(), config)

    def loss(network: nn.Module) -> float:
        total, count = network.losses(batch)["loss"]
        return float(total / count)

    ours.eval()
    theirs.eval()
    theirs.code.training = True  # of the outermost module alone: nothing is dropped
    with torch.no_grad():
        here, there = loss(ours), loss(theirs)
        print(f"loss {here:.6f} here, {there:.6f} of the authors' network")
        if abs(here - there) > 1e-5:
            sys.exit(1)
        drawn = [np.array([loss(network.train()) for _ in range(DRAWS)]) for network in (ours, theirs)]
    apart = []
    for name, of in (("mean", lambda x: x), ("variance", lambda x: (x - x.mean()) ** 2)):
        one, other = map(of, drawn)
        error = float(np.sqrt((one.var() + other.var()) / DRAWS))
        print(f"{name} with dropout {one.mean():.4f} and {other.mean():.4f}, standard error {error:.4f}")
        apart.append(abs(one.mean() - other.mean()) > 4 * error)
    sys.exit(any(apart))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
