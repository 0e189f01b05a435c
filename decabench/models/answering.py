"""A model with all that it needs to answer text with text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch

from decabench.models.batches import NO_ANSWER, Collator, Encoded
from decabench.models.decoding import Answers, beam_search, greedy, word_numbers
from decabench.models.devices import check_name, first_device, require_device
from decabench.models.mqan import MQAN
from decabench.models.words import EOS, detokenize, tokenize

__all__ = ["Answerer", "Reply", "autocast", "by_length", "kept_characters", "pick_device"]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model said to one question."""

    text: str
    """The answer, lower-case as the model speaks."""
    finished: bool
    """Whether it ended of itself, within the limit."""
    read: int
    """Tokens of context and question."""
    said: int
    """Tokens of the answer, its <eos> included."""


def pick_device(name: str) -> torch.device:
    """`auto` is the first accelerator that there is, else the CPU. Raises DecabenchError for one that is not here."""
    check_name(name)
    if name == "auto":
        return torch.device(first_device())
    require_device(name)
    return torch.device(name)


def autocast(device: torch.device, precision: str) -> AbstractContextManager[None]:
    """Half precision where `precision` says so; `auto` is bfloat16 on GPUs that have it, full precision elsewhere."""
    if precision == "auto":
        precision = "bfloat16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "float32"
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    return torch.autocast(device.type, dtype, enabled=precision == "bfloat16")


@dataclass(frozen=True)
class Answerer:
    """A model, its words and where it runs."""

    model: MQAN
    """On `device`."""
    collate: Collator
    """Makes its batches."""
    device: torch.device
    """Where the model is."""
    precision: str = "auto"
    """`float32`, `bfloat16`, or `auto`."""

    def answer(
        self,
        pairs: Sequence[tuple[str, str]],
        context_limit: int | None = None,
        limit: int | None = None,
        batch_tokens: int = 20_000,
        beam: int = 1,
    ) -> list[Reply]:
        """Replies to (context, question) pairs, in their order, whatever order they were worked on in.

        Greedily, or with a `beam` above 1, of which every hypothesis counts as a row of the batch.
        """
        lexicon = self.collate.table.lexicon
        examples = [
            Encoded(lexicon.encode(context, context_limit), lexicon.encode(question), NO_ANSWER)
            for context, question in pairs
        ]
        replies: dict[int, Reply] = {}
        for rows in by_length(examples, batch_tokens // beam):
            replies |= zip(rows, self._replies([examples[row] for row in rows], limit, beam), strict=True)
        return [replies[row] for row in range(len(pairs))]

    def _replies(self, examples: Sequence[Encoded], limit: int | None, beam: int) -> Iterator[Reply]:
        batch = self.collate(examples).to(self.device)
        with autocast(self.device, self.precision):
            said: Answers = (
                beam_search(self.model, batch, beam, limit) if beam > 1 else greedy(self.model, batch, limit)
            )
        lexicon = self.collate.table.lexicon
        for example, numbers, finished in zip(
            examples, word_numbers(self.model, said, batch), said.finished, strict=True
        ):
            count = numbers.index(EOS) + 1 if finished else len(numbers)
            read = len(example.context) + len(example.question)
            yield Reply(lexicon.decode(numbers), finished, read, count)


def by_length(examples: Sequence[Encoded], batch_tokens: int) -> Iterator[list[int]]:
    """Rows of examples of like length, as many as `batch_tokens` padded tokens hold; the longest first.

    So what does not fit into memory fails at once.
    """
    lengths = np.array([len(example.context) + len(example.question) for example in examples])
    batch: list[int] = []
    for row in np.argsort(-lengths, kind="stable").tolist():
        if batch and (len(batch) + 1) * int(lengths[batch[0]]) > batch_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def kept_characters(context: str, limit: int) -> int | None:
    """How many characters of a context its first `limit` tokens are; None where that is all of it."""
    tokens = tokenize(context)
    return None if len(tokens) <= limit else len(detokenize(tokens[:limit]))
