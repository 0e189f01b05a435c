"""A BiLSTM classifier for tasks with labels: a whole model family in one file.

Context and question are read as one sequence, and the maximum of each feature over its tokens goes into the task's own
softmax (Conneau et al. 2017). Tasks share everything but that softmax.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from torch import Tensor, nn

from decabench.models.family import (
    ColumnBatch,
    Family,
    Item,
    Losses,
    ModelReply,
    MultitaskNetwork,
    TextReader,
)
from decabench.models.heads import ClassifierHead, TaskHeads, encode_target
from decabench.models.layers import BiLSTM, WordEmbedding, check_sizes, max_over_time
from decabench.tasks import Label, Question, Task
from decabench.vectors import WordTable

__all__ = ["FAMILY", "Classifier", "ClassifierConfig"]


@dataclass(frozen=True)
class ClassifierConfig:
    """Configuration of a classifier."""

    name: str = "classifier"
    """`classifier`."""
    dimension: int = 200
    """The width of the BiLSTM's states: an even number, half for each direction."""
    dropout: float = 0.2
    """The dropout rate."""
    vocabulary: int = 50_000
    """The size of the vocabulary: the most frequent words of the training data."""
    train_embeddings: bool = False
    """Whether to train the word vectors too."""

    def __post_init__(self) -> None:
        check_sizes("classifier", self.dimension, self.dropout)


def encode(question: Question, answer: str | None, task: Task, reader: TextReader) -> Item:
    """Encode context and question as one sequence of words."""
    text = np.concatenate([reader.context(question.context), reader.text(question.question)])
    return (
        {"text": text} if answer is None else {"text": text, **encode_target(answer, task.output, reader, 0)}
    )


class Classifier(MultitaskNetwork):
    """Embedding, BiLSTM, maximum over time, and a softmax for each task."""

    vocabulary_rows = ("embed.table",)

    def __init__(self, config: ClassifierConfig, outputs: Mapping[str, Label], words: WordTable) -> None:
        super().__init__()
        self.embed = WordEmbedding(words, config.train_embeddings)
        self.encoder = BiLSTM(words.dimension, config.dimension, config.dropout)
        self.dropout = nn.Dropout(config.dropout)
        self.heads = TaskHeads(outputs, lambda output: ClassifierHead(config.dimension, output))

    def represent(self, batch: ColumnBatch) -> Tensor:
        """(B, d)"""
        states, _, _ = self.encoder(self.embed(batch, "text"), batch.lengths["text"])
        return cast(Tensor, self.dropout(max_over_time(states, batch.lengths["text"])))

    def losses(self, batch: ColumnBatch) -> Losses:
        return self.heads[batch.task].losses(self.represent(batch), batch.columns, batch.lengths["text"])

    def answers(self, batch: ColumnBatch, limit: int | None = None, beam: int = 1) -> list[ModelReply]:
        texts = self.heads[batch.task].answers(self.represent(batch), batch.lengths["text"])
        return [
            ModelReply(text, True, n, 1)
            for text, n in zip(texts, batch.lengths["text"].tolist(), strict=True)
        ]


FAMILY = Family(
    config=ClassifierConfig,
    columns={"text": "words", "label": "labels"},
    outputs=(Label,),
    encode=encode,
    build=Classifier,
    losses=("label",),
)
