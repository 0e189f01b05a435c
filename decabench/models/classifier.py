"""A BiLSTM classifier for tasks with labels, as an example of a family in one file.

The context and question are read as one sequence. The maximum of each feature over the tokens is the input to
a softmax (Conneau et al. 2017). Each task has its own softmax; everything else is shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from decabench.models.batches import ColumnBatch, Item, TextReader
from decabench.models.family import Count, EvenWidth, Family, Rate
from decabench.models.heads import ClassifierHead, HeadedNetwork, TaskHeads, with_target
from decabench.models.layers import BiLSTM, WordEmbedding, max_over_time
from decabench.tasks import Label, Question, Task
from decabench.vectors import WordTable


@dataclass(frozen=True)
class ClassifierConfig:
    """Configuration of a classifier."""

    name: str = "classifier"
    """Always `classifier`."""
    dimension: EvenWidth = 200
    """The width of the BiLSTM's states, an even number split between the two directions."""
    dropout: Rate = 0.2
    """The dropout rate."""
    vocabulary: Count = 50_000
    """The maximum size of the vocabulary, which contains the most frequent words of the training data."""
    train_embeddings: bool = False
    """Whether to train the word vectors as well."""


def encode(question: Question, answer: str | None, task: Task, reader: TextReader) -> Item:
    """Encode the context and question as one sequence of words."""
    text = np.concatenate([reader.context(question.context), reader.text(question.question)])
    return with_target({"text": text}, answer, task, reader)


class Classifier(HeadedNetwork):
    """Embedding, BiLSTM, max-pooling over time, and a softmax for each task."""

    def __init__(self, config: ClassifierConfig, outputs: Mapping[str, Label], words: WordTable) -> None:
        super().__init__()
        self.embed = WordEmbedding(words, config.train_embeddings)
        self.encoder = BiLSTM(words.dimension, config.dimension, config.dropout)
        self.dropout = nn.Dropout(config.dropout)
        self.heads = TaskHeads(outputs, lambda output: ClassifierHead(config.dimension, output))

    def head_input(self, batch: ColumnBatch) -> tuple[Tensor, Tensor]:
        lengths = batch.lengths["text"]
        states, _, _ = self.encoder(self.embed(batch, "text"), lengths)
        return self.dropout(max_over_time(states, lengths)), lengths


FAMILY = Family(
    config=ClassifierConfig,
    columns={"text": "words", "label": "labels"},
    outputs=(Label,),
    encode=encode,
    build=Classifier,
    losses=("label",),
)
