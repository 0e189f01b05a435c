"""Shared memory and the models that its paper compares it with (Liu et al. 2016, "Deep Multi-Task ... Shared Memory").

A family in one file; the recurrence with its memories is in `memory_cells.py`. Equation numbers are the paper's. Tasks
share the embeddings, each has an output layer (Eq. 20), and MODELS lists the rest:

| model | shared | each task's own |
|---|---|---|
| arc-i | the memory and its writer | LSTM, fusion |
| arc-ii | the global memory and its writer | LSTM, fusion, local memory and its writer |
| me-lstm | | LSTM, fusion, memory: ARC-I without sharing |
| mt-cnn | half of each word's vector | the other half, a convolution |
| mt-dnn | a hidden layer | a hidden layer on top of it |
| nbow | | only the output layer |

The paper's plain LSTM is `lstm` of `meta_lstm.py`. A text is represented by its last state; with `bidirectional`,
by the last states of both directions. G tasks, B texts, T tokens, m the width of the words, d that of the states, K
segments of a memory, M their width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from decabench.errors import DecabenchError
from decabench.models.batches import ColumnBatch, Split
from decabench.models.family import Amount, Count, Family, Losses, Rate
from decabench.models.heads import ClassifierHead, HeadedNetwork, LayeredHead, TaskHeads, part_name
from decabench.models.layers import (
    WordEmbedding,
    add_l2,
    in_full,
    max_over_time,
    non_embeddings,
    token_mask,
)
from decabench.models.memory_cells import AlignWeights, MemoryReads, MemoryWeights, unroll, unroll_additive
from decabench.models.meta_lstm import encode, last_states, reverse
from decabench.tasks import Label, Output
from decabench.vectors import WordTable

MODELS = ("arc-i", "arc-ii", "me-lstm", "mt-cnn", "mt-dnn", "nbow")


@dataclass(frozen=True)
class SharedMemoryConfig:
    """Configuration of the shared-memory models and their competitors.

    *Paper*: stated in its text or Table 2. *Guess*: not stated.
    """

    name: str = "arc-ii"
    """`arc-ii`, `arc-i` or `me-lstm`, or a model that the paper compares with: `mt-cnn`, `mt-dnn`, `nbow`. The
    paper's LSTM is the model `lstm` with `model.initial = 0.1`."""
    hidden: Count = 100
    """d: the width of the states (paper); for mt-cnn, the number of filters (guess)."""
    segments: Count = 50
    """K: the number of segments of a memory (paper)."""
    segment_width: Count = 20
    """M: the width of a segment (paper)."""
    bidirectional: bool = False
    """Whether a second network with memories of its own reads the text backwards (paper: for its case study only)."""
    reads: MemoryReads = "both"
    """The reads of `arc-ii`'s memories that enter a state: `both`, the local read of the previous word and the
    global read of this word (guess); `global`, only the global read; `late`, both reads of the previous word."""
    align: Literal["cosine", "additive"] = "cosine"
    """How a memory's segments are compared with the key (Eq. 8): by their `cosine` (paper), or `additive`, by
    v tanh(W_a [x; y]) with trained weights, which takes three times as long."""
    fusion: Literal["own", "shared"] = "own"
    """Whether each task has its own W_f, W_r and W_c or all share them (the paper can be read either way)."""
    shared_layer: Count = 300
    """The width of mt-dnn's shared layer (Liu et al. 2015)."""
    own_layer: Count = 128
    """The width of each task's own layer in mt-dnn (Liu et al. 2015)."""
    window: Count = 3
    """The number of words that a filter of mt-cnn spans (guess)."""
    initial: Amount = 0.1
    """All weights but the embeddings are drawn from [-initial, initial] (paper)."""
    l2: Amount = 1e-5
    """L2 penalty on everything but the embeddings, added to the gradient (paper: 1e-5 for products and 0 for films;
    the choice of weights: guess)."""
    dropout: Rate = 0.0
    """The dropout rate on words and on representations (guess: the paper mentions none)."""
    split: Split = "spaces"
    """How texts with a label are split into words: at `spaces`, like the papers' data, or into `tokens` like
    MQAN's, with punctuation apart. Tagged texts are always split at spaces."""
    vocabulary: Count = 50_000
    """The size of the vocabulary: the most frequent words of the training data."""
    train_embeddings: bool = True
    """Whether to train the word vectors too (paper)."""
    sparse_gradients: bool = False
    """Whether gradients of embeddings are sparse, for the optimizers sgd and adagrad: the weights are the same, and a
    step over a large vocabulary takes less time."""
    unseen_vectors: bool = True
    """Whether words outside the vocabulary keep the vectors of the files (guess); otherwise they are unknown words."""

    @property
    def directions(self) -> int:
        """1, or 2 if the network is bidirectional."""
        return 1 + self.bidirectional


class TaskLayers(LayeredHead):
    """A task's own layers, including the output layer (Eq. 20)."""

    def __init__(self, width: int, output: Label, **layers: nn.Module) -> None:
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)
        self.output = ClassifierHead(width, output)


class TextClassifier(HeadedNetwork):
    """Base of all models: embeddings, layers of each task, and one vector for each text."""

    def __init__(self, config: SharedMemoryConfig, words: WordTable, part: slice = slice(None)) -> None:
        super().__init__()
        self.config = config
        self.embed = self._make_embedding(words, part)
        self.dropout = nn.Dropout(config.dropout)

    def _make_embedding(self, words: WordTable, part: slice) -> WordEmbedding:
        config = self.config
        return WordEmbedding(words, config.train_embeddings, config.sparse_gradients, part, zero_unknown=True)

    def draw_weights(self) -> None:
        """Draw all weights but the embeddings, as the paper does."""
        for parameter in non_embeddings(self):
            nn.init.uniform_(parameter, -self.config.initial, self.config.initial)

    def represent(self, batches: Sequence[ColumnBatch]) -> list[Tensor]:
        """Represent the texts of each batch, (B, width)."""
        raise NotImplementedError

    def head_input(self, batch: ColumnBatch) -> tuple[Tensor, Tensor]:
        (x,) = self.represent([batch])
        return self.dropout(x), batch.lengths["text"]

    def forward(self, *batches: ColumnBatch) -> list[Losses]:
        """Compute the losses of batches of different tasks, read together (Eq. 21 for tasks that train
        together)."""
        return [
            self.heads[batch.task].losses(self.dropout(x), batch.columns, batch.lengths["text"])
            for x, batch in zip(self.represent(batches), batches, strict=True)
        ]

    def adjust_gradients(self) -> None:
        add_l2(self, self.config.l2)


def _empty(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(*shape))


class MemoryCell(nn.Module):
    """The LSTM of ME-LSTM (Eq. 1): 4d (m + d) + 4d parameters."""

    def __init__(self, m: int, d: int) -> None:
        super().__init__()
        self.weight = _empty(4 * d, m + d)  # W_p, gates in the order o, i, f, g
        self.bias = _empty(4 * d)  # b_p


class DeepFusion(nn.Module):
    """Deep fusion (Eq. 11 and 12): 2dR + d^2 parameters, for reads of total width R."""

    def __init__(self, d: int, reads: int) -> None:
        super().__init__()
        self.read = _empty(2 * d, reads)  # W_f above W_r
        self.cell = _empty(d, d)  # W_c


class ExternalMemory(nn.Module):
    """A memory and the layer that emits its keys and the vectors to erase and to add (Eq. 5): KM + 3M (n + 1)
    parameters, and M (2M + 1) of an additive alignment (Eq. 8).

    A text begins with learned content. Its segments start at different random values: equal segments would stay
    equal, and the cosine of Eq. 8 is undefined for zeros.
    """

    def __init__(self, segments: int, width: int, n: int, is_additive: bool) -> None:
        super().__init__()
        self.initial = _empty(segments, width)
        self.weight = _empty(3 * width, n)  # W_m, in the order key, add, erase
        self.bias = _empty(3 * width)  # b_m
        if is_additive:
            self.align = _empty(width, 2 * width)  # W_a, for [segment; key]
            self.vector = _empty(width)  # v


class MemoryNetwork(TextClassifier):
    """ME-LSTM, ARC-I and ARC-II: a recurrent network for each task, with its own memory, a shared one, or both."""

    def __init__(self, config: SharedMemoryConfig, outputs: Mapping[str, Output], words: WordTable) -> None:
        super().__init__(config, words)
        d, segments, width = config.hidden, config.segments, config.segment_width
        has_global, is_additive = config.name == "arc-ii", config.align == "additive"
        reads = width * (2 if has_global and config.reads != "global" else 1)
        own: dict[str, Callable[[], nn.Module]] = {"cell": lambda: MemoryCell(words.dimension, d)}
        shared: dict[str, Callable[[], nn.Module]] = {}
        (own if config.fusion == "own" else shared)["fusion"] = lambda: DeepFusion(d, reads)
        local = shared if config.name == "arc-i" else own
        local["memory"] = lambda: ExternalMemory(segments, width, d, is_additive)
        if has_global:
            shared["global_memory"] = lambda: ExternalMemory(segments, width, width, is_additive)

        def layers(parts: Mapping[str, Callable[[], nn.Module]]) -> dict[str, nn.Module]:
            return {
                name: nn.ModuleList(make() for _ in range(config.directions)) for name, make in parts.items()
            }

        self.shared = nn.ModuleDict(layers(shared))
        self.heads = TaskHeads(
            outputs, lambda output: TaskLayers(d * config.directions, output, **layers(own))
        )
        self.draw_weights()

    def _parts(self, name: str, way: int, tasks: Sequence[str]) -> list[nn.Module]:
        """Return the part `name` of one direction for each task."""
        places = [self.shared if name in self.shared else self.heads[task]._modules for task in tasks]
        return [cast(nn.ModuleList, place[name])[way] for place in places]

    def _read(self, x: Tensor, way: int, tasks: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Read the words of all tasks, (G, B, T, m), in one direction: states and fusion gates, (G, B, T, d) each."""

        def join(name: str, weight: str) -> Tensor:
            parts = [cast(Tensor, getattr(part, weight)) for part in self._parts(name, way, tasks)]
            same = all(part is parts[0] for part in parts)
            return parts[0].expand(len(parts), *parts[0].shape) if same else torch.stack(parts)

        names = [name for name in ("memory", "global_memory") if name == "memory" or name in self.shared]
        memories = tuple(
            MemoryWeights(
                join(name, "initial"), join(name, "weight").transpose(1, 2), join(name, "bias")[:, None]
            )
            for name in names
        )
        weight, bias = join("cell", "weight"), join("cell", "bias")
        fuse, cell, reads = join("fusion", "read"), join("fusion", "cell"), self.config.reads
        if self.config.align == "cosine":
            return unroll(x, weight, bias, fuse, cell, memories, reads)
        aligned = tuple(
            AlignWeights(join(name, "align").transpose(1, 2), join(name, "vector")[..., None])
            for name in names
        )
        with torch.autocast(x.device.type, enabled=False):  # too small to gain from half precision
            return unroll_additive(in_full(x), weight, bias, fuse, cell, memories, aligned, reads)

    def read(self, batches: Sequence[ColumnBatch]) -> list[tuple[Tensor, Tensor]]:
        """Read one batch of each task at once: its states and fusion gates, (B, T, d or 2d) each."""
        texts = [self.dropout(self.embed(batch, "text")) for batch in batches]
        rows, longest = max(map(len, texts)), max(x.shape[1] for x in texts)
        x = torch.stack([F.pad(x, (0, 0, 0, longest - x.shape[1], 0, rows - len(x))) for x in texts])
        lengths = torch.cat([F.pad(b.lengths["text"], (0, rows - len(b))) for b in batches])
        tasks = [batch.task for batch in batches]
        ways = [self._read(x, 0, tasks)]
        if self.config.bidirectional:
            back = reverse(x.flatten(0, 1), lengths).view_as(x)
            turned = (reverse(part.flatten(0, 1), lengths) for part in self._read(back, 1, tasks))
            there, gates = (part.view(*x.shape[:3], -1) for part in turned)
            ways.append((there, gates))
        states, gates = (torch.cat(parts, 3) for parts in zip(*ways, strict=True))
        return [
            (states[at, : x.shape[0], : x.shape[1]], gates[at, : x.shape[0], : x.shape[1]])
            for at, x in enumerate(texts)
        ]

    def trace(self, batch: ColumnBatch) -> tuple[Tensor, Tensor]:
        """Return the state and the fusion gate of every word, (B, T, d or 2d) each."""
        ((states, gates),) = self.read([batch])
        return states, gates

    def represent(self, batches: Sequence[ColumnBatch]) -> list[Tensor]:
        """Represent each text by its last state, or by those of both directions."""
        return [
            last_states(states, batch.lengths["text"], self.config.directions)
            for (states, _), batch in zip(self.read(batches), batches, strict=True)
        ]


class BagNetwork(TextClassifier):
    """NBOW, the sum of the vectors (paper), and MT-DNN, two hidden layers on their mean, of which the first is shared.

    The mean is a guess: the sum of a review of 150 words leaves nearly all units of MT-DNN's tanh saturated.
    """

    def __init__(self, config: SharedMemoryConfig, outputs: Mapping[str, Output], words: WordTable) -> None:
        super().__init__(config, words)
        m, inner, outer = words.dimension, config.shared_layer, config.own_layer
        self.is_deep = config.name == "mt-dnn"
        if self.is_deep:
            self.shared = nn.Linear(m, inner)
            self.heads = TaskHeads(
                outputs, lambda output: TaskLayers(outer, output, layer=nn.Linear(inner, outer))
            )
        else:
            self.heads = TaskHeads(outputs, lambda output: TaskLayers(m, output))
        self.draw_weights()

    def represent(self, batches: Sequence[ColumnBatch]) -> list[Tensor]:
        """Represent each text by the activation of its bag (NBOW) or by the upper hidden layer (MT-DNN)."""
        found = []
        for batch in batches:
            lengths, x = batch.lengths["text"], self.dropout(self.embed(batch, "text"))
            mask = token_mask(lengths, x)
            bag = (x * mask[..., None]).sum(1)
            if self.is_deep:
                bag = bag / lengths.clamp_min(1).to(bag)[:, None]
                layer = cast(nn.Linear, self.heads[batch.task].layer)
                found.append(layer(self.shared(bag).tanh()).tanh())
            else:
                found.append(bag.relu())
        return found


class ConvolutionNetwork(TextClassifier):
    """MT-CNN: word vectors of which tasks share one half, a convolution, the maximum over the text, and tanh."""

    def __init__(self, config: SharedMemoryConfig, outputs: Mapping[str, Output], words: WordTable) -> None:
        m = words.dimension
        if m < 2:
            raise DecabenchError(
                "mt-cnn splits word vectors in two, but these have only one dimension: choose longer vectors."
            )
        super().__init__(config, words, slice(m // 2))
        self.heads = TaskHeads(
            outputs,
            lambda output: TaskLayers(
                config.hidden,
                output,
                embed=self._make_embedding(words, slice(m // 2, m)),
                filters=nn.Linear(config.window * m, config.hidden),
            ),
        )
        self.vocabulary_rows = ("embed.table", *(f"heads.{part_name(task)}.embed.table" for task in outputs))
        self.draw_weights()

    def represent(self, batches: Sequence[ColumnBatch]) -> list[Tensor]:
        """Represent each text by the largest value of each filter."""
        found = []
        for batch in batches:
            task, lengths = self.heads[batch.task], batch.lengths["text"]
            own = cast(WordEmbedding, task.embed)
            x = self.dropout(torch.cat([self.embed(batch, "text"), own(batch, "text")], 2))
            x = x * token_mask(lengths, x)[..., None]
            before = (self.config.window - 1) // 2  # as many positions as words, with zeros around the text
            around = F.pad(x, (0, 0, before, self.config.window - 1 - before))
            # torch's own convolution has gradients that depend on the number of threads.
            windows = torch.cat([around[:, k : k + x.shape[1]] for k in range(self.config.window)], 2)
            filtered = cast(nn.Linear, task.filters)(windows)
            found.append(max_over_time(filtered, lengths).tanh())
        return found


def build(config: SharedMemoryConfig, outputs: Mapping[str, Output], words: WordTable) -> TextClassifier:
    """Build the network of a configuration."""
    match config.name:
        case "mt-cnn":
            return ConvolutionNetwork(config, outputs, words)
        case "mt-dnn" | "nbow":
            return BagNetwork(config, outputs, words)
        case _:
            return MemoryNetwork(config, outputs, words)


FAMILY = Family(
    config=SharedMemoryConfig,
    columns={"text": "words", "label": "labels"},
    outputs=(Label,),
    encode=encode,
    build=build,
    losses=("label",),
    retired={"bag": ""},
)
