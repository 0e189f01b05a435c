"""A BiLSTM-CRF tagger (Huang et al. 2015): one tag for each whitespace token of the context.

Tasks share everything but their CRFs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

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
from decabench.models.heads import CrfHead, SoftmaxHead, TaskHeads, encode_target
from decabench.models.layers import BiLSTM, WordEmbedding, check_sizes
from decabench.tasks import Question, Tags, Task
from decabench.vectors import WordTable

__all__ = ["FAMILY", "Tagger", "TaggerConfig"]


@dataclass(frozen=True)
class TaggerConfig:
    """Configuration of a tagger."""

    name: str = "tagger"
    """`tagger`."""
    dimension: int = 200
    """The width of the BiLSTM's states: an even number, half for each direction."""
    crf: bool = True
    """Whether to choose the whole sequence of tags with a CRF; otherwise a softmax chooses each tag by itself."""
    dropout: float = 0.2
    """The dropout rate."""
    vocabulary: int = 50_000
    """The size of the vocabulary: the most frequent words of the training data."""
    train_embeddings: bool = False
    """Whether to train the word vectors too."""

    def __post_init__(self) -> None:
        check_sizes("tagger", self.dimension, self.dropout)


def encode(question: Question, answer: str | None, task: Task, reader: TextReader) -> Item:
    """Encode the tokens of the context; the question is the same for all examples and adds nothing."""
    tokens = reader.tokens(question.context)
    if answer is None:
        return {"tokens": tokens}
    return {"tokens": tokens, **encode_target(answer, task.output, reader, len(tokens))}


class Tagger(MultitaskNetwork):
    """Embedding, BiLSTM, and a CRF (or a softmax) for each task."""

    vocabulary_rows = ("embed.table",)

    def __init__(self, config: TaggerConfig, outputs: Mapping[str, Tags], words: WordTable) -> None:
        super().__init__()
        self.embed = WordEmbedding(words, config.train_embeddings)
        self.encoder = BiLSTM(words.dimension, config.dimension, config.dropout)
        self.dropout = nn.Dropout(config.dropout)
        kind = CrfHead if config.crf else SoftmaxHead
        self.heads = TaskHeads(outputs, lambda output: kind(config.dimension, output))

    def represent(self, batch: ColumnBatch) -> Tensor:
        """(B, T, d)"""
        states, _, _ = self.encoder(self.embed(batch, "tokens"), batch.lengths["tokens"])
        return cast(Tensor, self.dropout(states))

    def losses(self, batch: ColumnBatch) -> Losses:
        return self.heads[batch.task].losses(self.represent(batch), batch.columns, batch.lengths["tokens"])

    def answers(self, batch: ColumnBatch, limit: int | None = None, beam: int = 1) -> list[ModelReply]:
        texts = self.heads[batch.task].answers(self.represent(batch), batch.lengths["tokens"])
        return [
            ModelReply(text, True, n, n)
            for text, n in zip(texts, batch.lengths["tokens"].tolist(), strict=True)
        ]


FAMILY = Family(
    config=TaggerConfig,
    columns={"tokens": "words", "tags": "labels"},
    outputs=(Tags,),
    encode=encode,
    build=Tagger,
    losses=("tags",),
)
