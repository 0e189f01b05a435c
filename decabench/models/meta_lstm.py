"""Meta-LSTM and the models that its paper compares it with (Chen et al. 2018, "Meta Multi-Task Learning").

A family in one file; the recurrent networks themselves are in `recurrent_cells.py`. Equation numbers are the
paper's. Every task has its own network (`heads.TASK`: recurrent network and output layer), the embeddings are
shared, and MODELS lists everything else that is shared:

| model | shared | each task's own |
|---|---|---|
| lstm | | LSTM |
| hyper-lstm | | HyperLSTM |
| meta-lstm | the meta-network | basic LSTM; with several tasks this is Meta-MTL |
| shared-lstm | LSTM | nothing but the output layer |
| psp-mtl | LSTM | LSTM next to it |
| ssp-mtl | LSTM | LSTM on top of it |
| asp-mtl | LSTM | LSTM next to it, with losses that keep the two apart |

A text is represented by its last state, and a token by its own state; with `bidirectional`, by the states of
both directions. B examples, T tokens, d the width of the words, h that of the states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from decabench.errors import DataError
from decabench.models.batches import ColumnBatch, Item, Split, TextReader
from decabench.models.family import Amount, Count, Family, Losses, Rate
from decabench.models.heads import (
    ClassifierHead,
    CrfHead,
    Head,
    HeadedNetwork,
    LayeredHead,
    SoftmaxHead,
    TaskHeads,
    with_target,
)
from decabench.models.layers import WordEmbedding, add_l2, non_embeddings
from decabench.models.recurrent_cells import LSTM, BasicLSTM, HyperLSTM, MetaNetwork
from decabench.tasks import Label, Output, Question, Tags, Task
from decabench.vectors import WordTable


@dataclass(frozen=True)
class Sharing:
    """The shared and the private networks of a model."""

    shared: Literal["lstm", "meta"] | None
    """The network that all tasks share."""
    private: Literal["lstm", "hyper", "basic"] | None
    """Each task's own network."""
    stacked: bool = False
    """Whether a task's network reads the shared network's states, instead of running parallel to it."""
    adversarial: bool = False
    """Whether additional losses make shared states independent of the task and different from its private
    states."""

    @property
    def is_parallel(self) -> bool:
        """Whether a task reads the states of both the shared network and its own network."""
        return self.shared == "lstm" and self.private is not None and not self.stacked


MODELS = {
    "lstm": Sharing(None, "lstm"),
    "hyper-lstm": Sharing(None, "hyper"),
    "meta-lstm": Sharing("meta", "basic"),
    "shared-lstm": Sharing("lstm", None),
    "psp-mtl": Sharing("lstm", "lstm"),
    "ssp-mtl": Sharing("lstm", "lstm", stacked=True),
    "asp-mtl": Sharing("lstm", "lstm", adversarial=True),
}


@dataclass(frozen=True)
class MetaLSTMConfig:
    """Configuration of Meta-LSTM and its competitors.

    *Paper*: stated in its text. *Recalled*: from memory of its Table 2. *Guess*: not stated.
    """

    name: str = "meta-lstm"
    """`meta-lstm`, or a model that the paper compares with: `lstm`, `hyper-lstm`, `shared-lstm`, `psp-mtl`, `ssp-mtl`,
    `asp-mtl`."""
    hidden: Count = 100
    """h: the width of the states of LSTMs and basic LSTMs (recalled; 100 in the paper's example)."""
    meta: Count = 40
    """m: the width of the meta-network's states (recalled; 30 for tagging, paper)."""
    rank: Count = 40
    """z: the rank of the matrices that the meta-network generates (recalled; the paper tried 20 to 60)."""
    hyper: Count = 100
    """The width of HyperLSTM's second LSTM (guess, from 321K parameters, recalled)."""
    hyper_embedding: Count = 16
    """The size of HyperLSTM's embeddings (guess, from the same number)."""
    bidirectional: bool = False
    """Whether a second network reads the text backwards (paper: for tagging only)."""
    reads_words: bool = True
    """Whether the upper LSTM of `ssp-mtl` reads the words and the lower states (paper, Eq. 13; but the 1411K
    parameters of its table, recalled, are those of 16 LSTMs that do not)."""
    adversarial: Amount = 0.05
    """Weight of `asp-mtl`'s adversarial loss (Liu et al. 2017)."""
    orthogonality: Amount = 0.01
    """Weight of `asp-mtl`'s orthogonality penalty (Liu et al. 2017)."""
    initial: Amount = 0.0
    """Draw all weights but the embeddings from [-initial, initial], as the shared-memory paper does for its LSTM (0.1);
    0 for each network's own initial values."""
    crf: bool = True
    """Whether a CRF chooses the whole sequence of tags (paper); otherwise a softmax chooses each tag independently."""
    l2: Amount = 1e-5
    """L2 penalty on everything but the embeddings, added to the gradient (recalled; the choice of weights:
    guess). The run's `weight_decay` also covers the embeddings, and rules out `sparse_gradients`."""
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
    """Whether words outside the vocabulary keep the vectors of the files (guess: in a table of all words in the
    data, words that occur only in test texts would keep theirs); otherwise they are unknown words."""

    @property
    def sharing(self) -> Sharing:
        """The networks that tasks share."""
        return MODELS[self.name]

    @property
    def directions(self) -> int:
        """1, or 2 if the network is bidirectional."""
        return 1 + self.bidirectional


def encode(question: Question, answer: str | None, task: Task, reader: TextReader) -> Item:
    """Encode the words of the context, followed by those of the question if the task's questions vary."""
    is_tagging = isinstance(task.output, Tags)
    if task.question_varies and is_tagging:
        raise DataError(
            f"{task.name} has varying questions for tags, which models of this family do not read: "
            "choose another model, such as mqan."
        )
    text = reader.tokens(question.context) if is_tagging else reader.first_tokens(question.context)
    if task.question_varies:
        text = np.concatenate([text, reader.words(question.question)])
    elif answer is not None:
        reader.check_question(question.question)
    return with_target({"text": text}, answer, task, reader, len(text))


def reverse(x: Tensor, lengths: Tensor) -> Tensor:
    """Reverse the order of each example's tokens, (B, T, d); padding stays at the end. `lengths` is on the CPU."""
    at = torch.arange(x.shape[1])
    rows = torch.where(at < lengths[:, None], lengths[:, None] - 1 - at, at).to(x.device)
    return x.gather(1, rows[..., None].expand_as(x))


def read(networks: Sequence[Callable[[Tensor], Tensor]], x: Tensor, lengths: Tensor) -> Tensor:
    """Read words with one network, or with two, the second of which reads backwards: (B, T, d) -> (B, T, h or
    2h)."""
    states = networks[0](x)
    if len(networks) == 1:
        return states
    back = reverse(networks[1](reverse(x, lengths)), lengths)
    return torch.cat([states, back], 2)


def last_states(states: Tensor, lengths: Tensor, directions: int) -> Tensor:
    """Return the state after the last word that each direction reads, (B, h or 2h); zeros for an empty text."""
    rows = torch.arange(len(states), device=states.device)
    ends = (lengths - 1).clamp_min(0).to(states.device)
    there, *back = states.chunk(directions, 2)
    last = torch.cat([there[rows, ends], *(part[:, 0] for part in back)], 1)
    return last * (lengths > 0).to(states.device)[:, None]


class TaskNetwork(LayeredHead):
    """A task's own part: recurrent networks, one for each direction, and the output layer (Eq. 16, or a CRF)."""

    def __init__(self, config: MetaLSTMConfig, d: int, output: Label | Tags) -> None:
        super().__init__()
        sharing, h = config.sharing, config.hidden
        width = h * config.directions
        if sharing.stacked:
            d = width + (d if config.reads_words else 0)
        make: Mapping[str, Callable[[], nn.Module]] = {
            "lstm": lambda: LSTM(d, h),
            "hyper": lambda: HyperLSTM(d, h, config.hyper, config.hyper_embedding),
            "basic": lambda: BasicLSTM(d, h, config.rank),
        }
        count = config.directions if sharing.private else 0
        self.networks = nn.ModuleList(make[cast(str, sharing.private)]() for _ in range(count))
        tags = CrfHead if config.crf else SoftmaxHead
        kind = ClassifierHead if isinstance(output, Label) else tags
        self.output: Head = kind(2 * width if sharing.is_parallel else width, cast(Any, output))


class MetaLSTM(HeadedNetwork):
    """Embeddings, the shared network, and a network for each task."""

    def __init__(self, config: MetaLSTMConfig, outputs: Mapping[str, Output], words: WordTable) -> None:
        super().__init__()
        self.config, self.sharing = config, config.sharing
        self.embed = WordEmbedding(words, config.train_embeddings, config.sparse_gradients, zero_unknown=True)
        self.dropout = nn.Dropout(config.dropout)
        d, h = words.dimension, config.hidden
        make: Mapping[str, Callable[[], nn.Module]] = {
            "lstm": lambda: LSTM(d, h),
            "meta": lambda: MetaNetwork(d, h, config.meta, config.rank),
        }
        count = config.directions if self.sharing.shared else 0
        self.shared = nn.ModuleList(make[cast(str, self.sharing.shared)]() for _ in range(count))
        self.heads = TaskHeads(outputs, lambda output: TaskNetwork(config, d, output))
        if self.sharing.adversarial:
            self.tasks = sorted(outputs)  # in the order of the discriminator's rows
            self.discriminator = nn.Linear(h * config.directions, len(outputs))
        for parameter in non_embeddings(self) if config.initial else ():
            nn.init.uniform_(parameter, -config.initial, config.initial)

    def _read(self, batch: ColumnBatch) -> list[Tensor]:
        """Return the states of tokens, (B, T, h or 2h): shared and private states if the networks are parallel."""
        task, lengths = cast(TaskNetwork, self.heads[batch.task]), batch.lengths["text"]
        x = self.dropout(self.embed(batch, "text"))
        shared, own = list(self.shared), list(task.networks)
        if self.sharing.shared is None:
            return [read(own, x, lengths)]
        if self.sharing.shared == "meta":  # Eq. 33
            pairs = zip(own, shared, strict=True)
            return [read([partial(basic, meta=meta) for basic, meta in pairs], x, lengths)]
        below = read(shared, x, lengths)
        if self.sharing.stacked:  # Eq. 13
            return [read(own, torch.cat([x, below], 2) if self.config.reads_words else below, lengths)]
        return [below, read(own, x, lengths)] if self.sharing.is_parallel else [below]

    def _last(self, states: Tensor, batch: ColumnBatch) -> Tensor:
        return last_states(states, batch.lengths["text"], self.config.directions)

    def _represent(self, states: list[Tensor], batch: ColumnBatch) -> Tensor:
        """Represent texts, (B, width), or tokens, (B, T, width), as the task needs."""
        if not self.heads[batch.task].by_token:
            states = [self._last(part, batch) for part in states]
        return cast(Tensor, self.dropout(torch.cat(states, -1)))

    def head_input(self, batch: ColumnBatch) -> tuple[Tensor, Tensor]:
        return self._represent(self._read(batch), batch), batch.lengths["text"]

    def trace(self, batch: ColumnBatch) -> tuple[Tensor, None]:
        """Represent every word of a batch in the way that texts are represented, (B, T, width); there is no
        fusion gate."""
        return torch.cat(self._read(batch), 2), None

    def losses(self, batch: ColumnBatch) -> Losses:
        if not self.sharing.adversarial:
            return super().losses(batch)
        states = self._read(batch)
        x = self._represent(states, batch)
        made = self.heads[batch.task].losses(x, batch.columns, batch.lengths["text"])
        return made | self._adversarial_losses(batch.task, *(self._last(part, batch) for part in states))

    def _adversarial_losses(self, task: str, shared: Tensor, own: Tensor) -> Losses:
        """The losses of Liu et al. 2017, sections 4.2 and 4.3, from the last states, (B, h).

        The discriminator learns to tell the task from the shared state, which gets the reverse of its gradient.
        The penalty is the squared norm of S'H, for the matrices of a batch's shared and own states. In that
        paper both are sums over the data. Here they are divided by B, like the task's loss.
        """
        guess = self.discriminator(reverse_gradient(shared))
        is_task = torch.full((len(shared),), self.tasks.index(task), device=shared.device)
        adversarial = F.cross_entropy(guess, is_task, reduction="sum") * self.config.adversarial
        orthogonality = (shared.t() @ own).square().sum() * self.config.orthogonality
        return {"adversarial": (adversarial, len(shared)), "orthogonality": (orthogonality, len(shared))}

    def adjust_gradients(self) -> None:
        add_l2(self, self.config.l2)


def reverse_gradient(x: Tensor) -> Tensor:
    """Return x unchanged; on the way back, its gradient is negated (Ganin and Lempitsky 2015)."""
    return 2 * x.detach() - x


FAMILY = Family(
    config=MetaLSTMConfig,
    columns={"text": "words", "label": "labels", "tags": "labels"},
    outputs=(Label, Tags),
    encode=encode,
    build=MetaLSTM,
    losses=("label", "tags", "adversarial", "orthogonality"),
    retired={"forget_bias": 0.0},
)
