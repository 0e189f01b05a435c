"""Small models and batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[models]'")

from decabench.models.batches import Batch, Collator, Encoded, VectorTable
from decabench.models.mqan import MODELS, MQAN, ModelConfig
from decabench.models.vectors import Joined, NoVectors
from decabench.models.words import Lexicon

TEXTS = [
    ("is it good or bad?", "a good film, oddly framed", "good"),
    ("who paid the bill, ann or bob?", "ann said that bob had paid for zebras", "bob"),
    (
        "what is the summary?",
        "it rained in ulm . it rained in bonn . nobody went out in quito",
        "it rained in quito",
    ),
    ("translate", "one", "unheard words"),
]
"""(question, context, answer): of the words, some can be pointed at only, some nowhere (`unheard`)."""

VOCABULARY = "a an is it or good bad the in . , ? said paid film words one".split()


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Small tensors are slower on many threads, and sums must not depend on how many."""
    torch.set_num_threads(1)


class Kit:
    """A lexicon, its vectors, and what is made of both for one model."""

    def __init__(self, name: str, **sizes: Any) -> None:
        words = [f" {word} " if word.isalpha() else word for word in VOCABULARY]
        self.lexicon = Lexicon(words)
        self.table = VectorTable(self.lexicon, Joined((NoVectors(12),)))
        parts = MODELS[name]
        self.collate = Collator(self.table, parts.coattention, parts.question_pointer)
        settings = {"dimension": 10, "hidden": 6, "heads": 3, "layers": 2, "dropout": 0.0, **sizes}
        torch.manual_seed(1)
        self.model = MQAN(ModelConfig(name=name, **settings), self.table.vocabulary())
        # Weights of this size give distributions that are far from flat, so that a wrong term shows.
        for parameter in self.model.parameters():
            torch.nn.init.normal_(parameter, std=0.4)

    def encoded(self, texts: Any = TEXTS) -> list[Encoded]:
        encode = self.lexicon.encode
        return [
            Encoded(encode(context), encode(question), encode(answer)) for question, context, answer in texts
        ]

    def batch(self, texts: Any = TEXTS) -> Batch:
        return self.collate(self.encoded(texts))

    def apart(self, text: Any) -> Batch:
        """One example with its two inputs apart, as the transcription wants it."""
        return Collator(self.table, True, self.collate.question_pointer or not self.collate.split_input)(
            self.encoded([text])
        )


@pytest.fixture
def kit() -> Callable[..., Kit]:
    """Makes a kit for a model's name."""
    return Kit
