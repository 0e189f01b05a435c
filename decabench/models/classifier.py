"""A BiLSTM for tasks with labels or tags, as an example of a family in one file.

For labels, the BiLSTM reads the context and question as one sequence, and its states are max-pooled
over the tokens before a softmax (Conneau et al. 2017). For tags, a CRF tags the tokens of the
context, split at whitespace, based on their BiLSTM states (Huang et al. 2015). Each task has its
own softmax or CRF; everything else is shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from torch import Tensor, nn

from decabench.models.batches import ColumnBatch, Item, TextReader
from decabench.models.family import Count, EvenWidth, Family, Rate
from decabench.models.heads import (
    ClassifierHead,
    CrfHead,
    Head,
    HeadedNetwork,
    SoftmaxHead,
    TaskHeads,
    with_target,
)
from decabench.models.layers import BiLSTM, WordEmbedding, max_over_time
from decabench.tasks import Label, Question, Tags, Task
from decabench.vectors import WordTable


@dataclass(frozen=True)
class ClassifierConfig:
    """Configuration of a classifier."""

    name: str = "classifier"
    """The model's name, always `classifier`."""
    dimension: EvenWidth = 200
    """The width of the BiLSTM's states, an even number split between the two directions."""
    crf: bool = True
    """Whether a CRF chooses the whole sequence of tags. Otherwise a softmax chooses each tag
    independently."""
    dropout: Rate = 0.2
    """The dropout rate."""
    vocabulary: Count = 50_000
    """The maximum size of the vocabulary, which contains the most frequent words of the training data."""
    train_embeddings: bool = False
    """Whether to train the word vectors as well."""


def encode(question: Question, answer: str | None, task: Task, reader: TextReader) -> Item:
    """Encode the context and question as one sequence of words. For tags, encode only the context's tokens."""
    if isinstance(task.output, Tags):
        text = reader.tokens(question.context)
    else:
        text = np.concatenate([reader.context(question.context), reader.text(question.question)])
    return with_target({"text": text}, answer, task, reader, len(text))


class Classifier(HeadedNetwork):
    """An embedding, a BiLSTM, and a softmax or CRF for each task."""

    def __init__(
        self, config: ClassifierConfig, outputs: Mapping[str, Label | Tags], words: WordTable
    ) -> None:
        super().__init__()
        self.embed = WordEmbedding(words, config.train_embeddings)
        self.encoder = BiLSTM(words.dimension, config.dimension, config.dropout)
        self.dropout = nn.Dropout(config.dropout)
        tags = CrfHead if config.crf else SoftmaxHead

        def make(output: Label | Tags) -> Head:
            kind = ClassifierHead if isinstance(output, Label) else tags
            return kind(config.dimension, cast(Any, output))

        self.heads = TaskHeads(outputs, make)

    def head_input(self, batch: ColumnBatch) -> tuple[Tensor, Tensor]:
        lengths = batch.lengths["text"]
        states, _, _ = self.encoder(self.embed(batch, "text"), lengths)
        by_token = self.heads[batch.task].by_token
        return self.dropout(states if by_token else max_over_time(states, lengths)), lengths


FAMILY = Family(
    config=ClassifierConfig,
    columns={"text": "words", "label": "labels", "tags": "labels"},
    outputs=(Label, Tags),
    encode=encode,
    build=Classifier,
    losses=("label", "tags"),
)
