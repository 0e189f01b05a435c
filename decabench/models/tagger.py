"""A BiLSTM-CRF tagger that assigns a tag to each whitespace token of the context (Huang et al. 2015).

Each task has its own CRF; everything else is shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from decabench.models.batches import ColumnBatch, Item, TextReader
from decabench.models.family import Count, EvenWidth, Family, Rate
from decabench.models.heads import CrfHead, HeadedNetwork, SoftmaxHead, TaskHeads, with_target
from decabench.models.layers import BiLSTM, WordEmbedding
from decabench.tasks import Question, Tags, Task
from decabench.vectors import WordTable


@dataclass(frozen=True)
class TaggerConfig:
    """Configuration of a tagger."""

    name: str = "tagger"
    """Always `tagger`."""
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
    """Encode the tokens of the context. The question is ignored, because it is the same for all examples."""
    tokens = reader.tokens(question.context)
    return with_target({"tokens": tokens}, answer, task, reader, len(tokens))


class Tagger(HeadedNetwork):
    """An embedding, a BiLSTM, and a CRF or a softmax for each task."""

    def __init__(self, config: TaggerConfig, outputs: Mapping[str, Tags], words: WordTable) -> None:
        super().__init__()
        self.embed = WordEmbedding(words, config.train_embeddings)
        self.encoder = BiLSTM(words.dimension, config.dimension, config.dropout)
        self.dropout = nn.Dropout(config.dropout)
        kind = CrfHead if config.crf else SoftmaxHead
        self.heads = TaskHeads(outputs, lambda output: kind(config.dimension, output))

    def head_input(self, batch: ColumnBatch) -> tuple[Tensor, Tensor]:
        lengths = batch.lengths["tokens"]
        states, _, _ = self.encoder(self.embed(batch, "tokens"), lengths)
        return self.dropout(states), lengths


FAMILY = Family(
    config=TaggerConfig,
    columns={"tokens": "words", "tags": "labels"},
    outputs=(Tags,),
    encode=encode,
    build=Tagger,
    losses=("tags",),
)
