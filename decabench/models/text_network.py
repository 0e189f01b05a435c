"""Settings, encoding and the base network shared by model families for labels and tags.

In shapes, B is the number of examples and T of tokens; d is the width of the word vectors, and h the width of the
states.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from decabench.errors import DataError
from decabench.models.batches import Item, Split, TextReader
from decabench.models.family import Amount, Count, Rate
from decabench.models.heads import HeadedNetwork, with_target
from decabench.models.layers import WordEmbedding
from decabench.tasks import Question, Tags, Task
from decabench.vectors import WordTable


@dataclass(frozen=True)
class TextConfig:
    """Settings of every family that builds on TextNetwork.

    Values marked *paper* are stated in the family's paper. *Recalled* values are quoted from memory of that paper.
    *Code* refers to the authors' public code. *Guess* means that none of these sources states the value.
    """

    name: str = ""
    """The model's name."""
    l2: Amount = 1e-5
    """The strength of the L2 penalty on all weights except embeddings. It adds `l2` times the weight to
    each gradient. The shared-memory paper uses 1e-5 for its product reviews and 0 for its movie
    reviews. The Meta-LSTM paper uses 1e-5 (recalled; which weights it covers is a guess). The run's
    `weight_decay` also covers the embeddings and can't be combined with `sparse_gradients`.
    """
    dropout: Rate = 0.0
    """The dropout rate for words and representations (guess; none of the papers mentions dropout)."""
    split: Split = "spaces"
    """How texts with a label are split into words: `spaces` splits only at spaces, as in the papers' data;
    `tokens` also splits off punctuation, as in MQAN. Tagged texts are always split at spaces."""
    vocabulary: Count = 50_000
    """The maximum size of the vocabulary, which contains the most frequent words of the training data."""
    train_embeddings: bool = True
    """Whether to train the word vectors as well (paper)."""
    sparse_gradients: bool = False
    """Whether embeddings have sparse gradients, which require the optimizer sgd or adagrad. The resulting weights
    are the same, and steps are faster if the vocabulary is large."""
    unseen_vectors: bool = True
    """Whether words outside the vocabulary keep their vectors from files, instead of becoming unknown words
    (guess; a vocabulary of all words in the data, including test texts, would have the same effect)."""


class TextNetwork(HeadedNetwork):
    """A network with embeddings of the words in the column `text`, and a head for each task."""

    def __init__(self, config: TextConfig, words: WordTable, part: slice = slice(None)) -> None:
        """Create the embeddings and their dropout. `part` selects the columns of the word vectors to read."""
        super().__init__()
        self.config = config
        self.embed = self.make_embedding(words, part)
        self.dropout = nn.Dropout(config.dropout)

    def make_embedding(self, words: WordTable, part: slice = slice(None)) -> WordEmbedding:
        """Create embeddings with the configuration's settings.

        `part` selects the columns of the word vectors.
        """
        config = self.config
        return WordEmbedding(words, config.train_embeddings, config.sparse_gradients, part, zero_unknown=True)

    def draw_weights(self, reach: float) -> None:
        """Draw all weights except embeddings uniformly from [-reach, reach]."""
        for parameter in self._non_embeddings():
            nn.init.uniform_(parameter, -reach, reach)

    def adjust_gradients(self) -> None:
        """Add the gradient of the L2 penalty."""
        for parameter in self._non_embeddings() if self.config.l2 else ():
            if parameter.grad is not None:
                parameter.grad.add_(parameter.detach(), alpha=self.config.l2)

    def _non_embeddings(self) -> Iterator[nn.Parameter]:
        of_words = (module for module in self.modules() if isinstance(module, WordEmbedding))
        embeddings = {id(parameter) for module in of_words for parameter in module.parameters()}
        return (parameter for parameter in self.parameters() if id(parameter) not in embeddings)


def encode(question: Question, answer: str | None, task: Task, reader: TextReader) -> Item:
    """Encode the words of the context, followed by the words of the question if questions vary.

    Raises DataError for tags if questions vary."""
    is_tagging = isinstance(task.output, Tags)
    if task.question_varies and is_tagging:
        raise DataError(
            f"The questions in {task.name} vary, but this model doesn't read questions when it tags words. Choose "
            "another model, such as mqan."
        )
    text = reader.tokens(question.context) if is_tagging else reader.first_tokens(question.context)
    if task.question_varies:
        text = np.concatenate([text, reader.words(question.question)])
    elif answer is not None:
        reader.check_question(question.question)
    return with_target({"text": text}, answer, task, reader, len(text))


def reverse(x: Tensor, lengths: Tensor) -> Tensor:
    """Reverse the order of each example's tokens, leaving padding at the end.

    `x` has shape (B, T, d). `lengths` must be on the CPU.
    """
    at = torch.arange(x.shape[1])
    rows = torch.where(at < lengths[:, None], lengths[:, None] - 1 - at, at).to(x.device)
    return x.gather(1, rows[..., None].expand_as(x))


def last_states(states: Tensor, lengths: Tensor, directions: int = 1) -> Tensor:
    """Return the state of each direction after the last word it reads, or zeros for empty texts.

    `states` has shape (B, T, h), and the result has shape (B, h). With two directions, the first half
    of each state is from the forward direction.
    """
    rows = torch.arange(len(states), device=states.device)
    ends = (lengths - 1).clamp_min(0).to(states.device)
    there, *back = states.chunk(directions, 2)
    last = torch.cat([there[rows, ends], *(part[:, 0] for part in back)], 1)
    return last * (lengths > 0).to(states.device)[:, None]
