"""A BiLSTM classifier for tasks with labels: a whole model family in one file.

Context and question are read as one sequence; the largest value of each feature over its tokens goes to the task's own
softmax (Conneau et al. 2017). Several tasks share all but that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from torch import Tensor, nn

from decabench.errors import DecabenchError
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
from decabench.models.layers import BiLSTM, WordEmbedding, max_over_time
from decabench.models.word_vectors import WordTable
from decabench.tasks import Label, Question, Task

__all__ = ["FAMILY", "Classifier", "ClassifierConfig"]


@dataclass(frozen=True)
class ClassifierConfig:
    """Sizes of a classifier."""

    name: str = "classifier"
    """`classifier`."""
    dimension: int = 200
    """The width of the BiLSTM's states; even, as each direction has half of it."""
    dropout: float = 0.2
    """The share of activations that training drops."""
    vocabulary: int = 50_000
    """How many words of the training data are known by number."""
    train_embeddings: bool = False
    """Whether word vectors are trained too."""

    def __post_init__(self) -> None:
        if self.dimension < 2 or self.dimension % 2 or not 0 <= self.dropout < 1:
            raise DecabenchError(
                f"The classifier's dimension is {self.dimension} and its dropout {self.dropout}: give an even number, "
                "and at least 0 and less than 1."
            )


def encode(question: Question, answer: str | None, task: Task, reader: TextReader) -> Item:
    """Read context and question as one sequence of words."""
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
