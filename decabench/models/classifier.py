"""A BiLSTM classifier for tasks with labels: a whole model family in one file.

Context and question are read as one sequence. The maximum of each feature over its tokens feeds the task's own
softmax (Conneau et al. 2017). Tasks share everything but that softmax.
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
    """`classifier`."""
    dimension: EvenWidth = 200
    """The width of the BiLSTM's states: an even number, half for each direction."""
    dropout: Rate = 0.2
    """The dropout rate."""
    vocabulary: Count = 50_000
    """The size of the vocabulary: the most frequent words of the training data."""
    train_embeddings: bool = False
    """Whether to train the word vectors too."""


def encode(question: Question, answer: str | None, task: Task, reader: TextReader) -> Item:
    """Encode context and question as one sequence of words."""
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
