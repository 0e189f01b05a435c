"""The network of the authors' code of 2018 as a model of `decabench train`, to compare how it learns with MQAN here.

    git clone https://github.com/salesforce/decaNLP && git -C decaNLP checkout 9a4493b
    PYTHONPATH=benchmarks decabench train --model authors_network:FAMILY --set model.clone=decaNLP --output runs/theirs

Data, words, vectors, batches and optimizer are those of decabench; the network, its initial weights and its dropout are
theirs. The clone's two files of the network are imported by path, and run: they are not part of this project. What they
import besides (CoVe, ELMo) is replaced by empty modules, because this configuration uses neither.

Their greedy decoding multiplies the decoder's input by the root of d, which their training does not, so answers are
decoded here: the answer so far is read as in training, and the most probable word is added.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from decabench.errors import MissingDataError
from decabench.models.decoding import greedy
from decabench.models.family import Item, Losses, ModelReply, MultitaskNetwork
from decabench.models.mqan import FAMILY as MQAN_FAMILY
from decabench.models.mqan_batch import MQANBatch, MQANConfig, collate
from decabench.vectors.tokenizer import EOS, INIT, PAD, UNKNOWN
from decabench.vectors.word_vectors import WordTable

_NETWORK = "multitask_question_answering_network"
_MISSING = {
    "util": ("get_trainable_params",),
    "cove": ("MTLSTM",),
    "allennlp": (),
    "allennlp.modules": (),
    "allennlp.modules.elmo": ("Elmo", "batch_to_ids"),
}


@dataclass(frozen=True)
class AuthorsConfig:
    """The settings of their network that runs here vary; the names are those of MQAN's."""

    name: str = "authors_network:FAMILY"
    clone: str = "decaNLP"
    """The folder of the clone."""
    dimension: int = 200
    hidden: int = 150
    heads: int = 3
    layers: int = 2
    dropout: float = 0.2
    """Of attention, sums of sublayers, the inputs of stacks of self-attention and of the decoder's LSTM, and c~; their
    code fixes all other rates (0.2 and 0.3)."""
    vocabulary: int = 50_000
    max_answer_tokens: int = 100


def import_code(clone: str) -> ModuleType:
    """Import the clone's network. Raises MissingDataError if it is not there."""
    folder = Path(clone) / "models"
    if not (folder / f"{_NETWORK}.py").is_file():
        raise MissingDataError(
            f"{folder} has no {_NETWORK}.py: name a clone of github.com/salesforce/decaNLP, model.clone=FOLDER."
        )
    for name, contents in _MISSING.items():
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(dict.fromkeys(contents))
    package = ModuleType("decanlp_models")
    package.__path__ = [str(folder)]
    sys.modules[package.__name__] = package
    return importlib.import_module(f"decanlp_models.{_NETWORK}")


class AuthorsNetwork(MultitaskNetwork):
    """Their network, given batches of MQAN here."""

    vocabulary_rows = ("code.out",)

    def __init__(self, config: AuthorsConfig, words: WordTable) -> None:
        super().__init__()
        self.config, self.lexicon = config, words.lexicon
        vectors = torch.from_numpy(words.vocabulary())
        self.register_buffer("vocabulary", vectors, persistent=False)
        module = import_code(config.clone)
        self.seen: list[Tensor] = []
        mask = module.mask

        def show(targets: Tensor, out: Tensor, *rest: Any, **named: Any) -> Any:
            self.seen[:] = [out]
            return mask(targets, out, *rest, **named)

        module.mask = show  # type: ignore[attr-defined]  # the one place where its training has the probabilities

        class Words:
            def __init__(self) -> None:
                self.stoi = {"<pad>": PAD, "<init>": INIT}
                self.vectors = vectors

            def __len__(self) -> int:
                return len(vectors)

        self.code = module.MultitaskQuestionAnsweringNetwork(
            SimpleNamespace(vocab=Words(), pad_token="<pad>", decoder_stoi={"<pad>": PAD, "<eos>": EOS}),
            SimpleNamespace(
                dimension=config.dimension,
                dropout_ratio=config.dropout,
                rnn_layers=1,
                transformer_heads=config.heads,
                transformer_hidden=config.hidden,
                transformer_layers=config.layers,
                max_generative_vocab=len(vectors),
                glove_and_char=True,
                cove=False,
                intermediate_cove=False,
                elmo=[-1],
            ),
        )

    def losses(self, batch: MQANBatch) -> Losses:
        """Compute their loss, the mean negative log-likelihood of a token, as a sum."""
        answer = F.pad(batch.answer, (0, 1))  # they give the decoder all words but the last
        limited = torch.cat([batch.answer[:, :1], batch.target], 1)
        count = (batch.target != PAD).sum()
        mean = self.run(batch.vectors, batch.context, batch.question, answer, limited, batch)
        return {"loss": (mean * count, count)}

    def answers(self, batch: MQANBatch, limit: int | None = None, beam: int = 1) -> list[ModelReply]:
        """Answer greedily."""
        self.eval()
        self.code.training = True  # of the outermost module alone: nothing is dropped, and the answer is read
        table = torch.cat([self.vocabulary, batch.vectors[batch.others]])  # type: ignore[list-item]
        steps = limit or self.config.max_answer_tokens
        found = greedy(_Past(self, table, batch), len(batch), steps, table.device, keep_rows=True)
        self.seen.clear()
        words = torch.cat([torch.arange(len(self.vocabulary)), batch.other_words])  # type: ignore[arg-type]
        read = (batch.context_lengths + batch.question_lengths).tolist()
        return [
            ModelReply(self.lexicon.decode(own), end, tokens, own.index(EOS) + 1 if end else len(own))
            for own, end, tokens in zip(words[found.outputs].tolist(), found.finished, read, strict=True)
        ]

    def run(
        self,
        table: Tensor,
        context: Tensor,
        question: Tensor,
        answer: Tensor,
        answer_limited: Tensor,
        batch: MQANBatch,
    ) -> Tensor:
        """Run their network on rows of a table of vectors, and return their loss."""
        for embedding in (self.code.encoder_embeddings, self.code.decoder_embeddings):
            embedding.set_embeddings(table)
        given = SimpleNamespace(
            context=context,
            question=question,
            answer=answer,
            context_lengths=batch.context_lengths.tolist(),
            question_lengths=batch.question_lengths.tolist(),
            answer_lengths=None,
            context_elmo=None,
            question_elmo=None,
            answer_elmo=None,
            context_limited=batch.context_output,
            question_limited=batch.question_output,
            answer_limited=answer_limited,
            oov_to_limited_idx=[0] * len(batch.others),
            limited_idx_to_full_idx={},
        )
        loss: Tensor = self.code(given)[0]
        return loss


class _Past:
    """The answers so far, which are read anew for each word, as in training."""

    def __init__(self, network: AuthorsNetwork, table: Tensor, batch: MQANBatch) -> None:
        self.network, self.table, self.batch = network, table, batch
        self.said = torch.empty((len(batch), 0), dtype=torch.long)

    def step(self, last: Tensor) -> Tensor:
        """Add a word to each answer, and return the probabilities of the next one."""
        self.said = torch.cat([self.said, last.where(last != PAD, UNKNOWN)[:, None]], 1)
        given = F.pad(self.said, (0, 1), value=UNKNOWN)  # the word to say, which is not read
        batch = self.batch
        self.network.run(self.table, batch.context_output, batch.question_output, given, given, batch)
        return self.network.seen[0][:, -1]

    def select(self, rows: Tensor, same_examples: bool = False) -> None:
        """Nothing is left out: all rows are kept."""
        raise NotImplementedError


def _collate(task: str, items: Sequence[Item], words: WordTable, config: AuthorsConfig) -> MQANBatch:
    return collate(task, items, words, MQANConfig())


def _build(config: AuthorsConfig, outputs: object, words: WordTable) -> AuthorsNetwork:
    return AuthorsNetwork(config, words)


FAMILY = replace(
    MQAN_FAMILY,
    config=AuthorsConfig,
    collate=_collate,
    build=_build,
    abilities=frozenset({"max_new_tokens"}),
    analyses={},
)
