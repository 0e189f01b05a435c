from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[models]'")

from decabench.models.batches import Item, TextReader
from decabench.models.checkpoint import TrainedModel
from decabench.models.mqan import FAMILY, MQAN
from decabench.models.mqan_batch import MQANBatch, MQANConfig, collate, encode
from decabench.tasks import TASKS, Question
from decabench.vectors.tokenizer import Lexicon
from decabench.vectors.word_vectors import JoinedVectors, NoVectors, WordTable
from tests.training.conftest import make_run  # noqa: F401

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
"""(question, context, answer). Some words can only be copied, and some are nowhere (`unheard`)."""

VOCABULARY = "a an is it or good bad the in . , ? said paid film words one".split()


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


class Kit:
    """A lexicon, its vectors, and a model that uses both."""

    def __init__(self, name: str, **sizes: Any) -> None:
        words = [f" {word} " if word.isalpha() else word for word in VOCABULARY]
        self.lexicon = Lexicon(words)
        self.table = WordTable(self.lexicon, JoinedVectors((NoVectors(12),)))
        settings = {"dimension": 10, "hidden": 6, "heads": 3, "layers": 2, "dropout": 0.0, **sizes}
        self.config = MQANConfig(name=name, **settings)
        torch.manual_seed(1)
        self.model = MQAN(self.config, self.table)
        # Weights of this size give distributions that are far from flat, so that a wrong term shows.
        for parameter in self.model.parameters():
            torch.nn.init.normal_(parameter, std=0.4)

    def items(self, texts: Any = TEXTS) -> list[Item]:
        task = TASKS["squad"]
        reader = TextReader(task, self.lexicon)
        return [
            encode(Question("", question, context), answer, task, reader)
            for question, context, answer in texts
        ]

    def batch(self, texts: Any = TEXTS) -> MQANBatch:
        return collate("squad", self.items(texts), self.table, self.config)

    def apart(self, text: Any) -> MQANBatch:
        """Return one example with separate inputs, as the transcription needs it."""
        name = self.config.name if self.config.parts.coattention else "mqan"
        return collate("squad", self.items([text]), self.table, replace(self.config, name=name))

    def trained(self) -> TrainedModel:
        """Return the model, ready to answer."""
        return TrainedModel(FAMILY, self.config, self.model, self.table, {}, {}, torch.device("cpu"))


@pytest.fixture
def kit() -> Callable[..., Kit]:
    return Kit
