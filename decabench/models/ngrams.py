"""Trains character n-gram vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from decabench.errors import DataError, MissingDataError
from decabench.models.vectors import Ngrams, ngrams
from decabench.models.words import SPECIALS, Ids, Lexicon
from decabench.tasks import Store

__all__ = ["Corpus", "NgramTraining", "read_corpus", "train_ngrams", "training_texts"]

# ---- corpus


@dataclass(frozen=True)
class Corpus:
    """Text as numbers."""

    lexicon: Lexicon
    """Its words."""
    text: Ids
    """Every text in order, between <init> and <eos>."""

    @property
    def size(self) -> int:
        """How many tokens it has."""
        return int((self.text >= len(SPECIALS)).sum())

    @property
    def distinct(self) -> int:
        """How many different tokens it has."""
        return len(self.lexicon) - len(SPECIALS)


def training_texts(store: Store, task: str, examples: int | None = None) -> Iterator[str]:
    """Contexts, questions and answers of the first `examples`, or all. What stands in a row of examples comes once."""
    before: dict[str, object] = {}
    for row in islice(store.read(task, "train", ("context", "question", "answers")), examples):
        for column in ("context", "question"):
            if row[column] != before.get(column):
                yield row[column]
        yield from dict.fromkeys(row["answers"])
        before = row


def read_corpus(
    store: Store,
    tasks: Sequence[str],
    examples: int | None = None,
    report: Callable[[str], None] = lambda task: None,
) -> Corpus:
    """The lower-cased tokens of the tasks' training text; `report` hears of each task before it is read.

    Raises MissingDataError where a task is not prepared or has no text.
    """
    lexicon = Lexicon()
    texts: list[Ids] = []
    for task in tasks:
        report(task)
        texts += map(lexicon.encode, training_texts(store, task, examples))
    corpus = Corpus(lexicon, np.concatenate(texts) if texts else np.zeros(0, dtype=np.int32))
    if not corpus.size:
        raise MissingDataError(f"There is no training text in {', '.join(tasks)}: name other tasks.")
    return corpus


# ---- ngram_training


@dataclass(frozen=True)
class NgramTraining:
    """How n-gram vectors are trained."""

    dimension: int = 100
    """Of the vectors."""
    steps: int = 2_000
    """Batches."""
    batch: int = 2_048
    """Pairs of neighbours in a batch."""
    window: int = 5
    """How far apart neighbours may be."""
    negatives: int = 5
    """Random words for each pair."""
    frequent: float = 1e-4
    """Words that are a larger share of the text are passed over the more often the more frequent they are, so that
    signs and articles are not most of what is learnt; 0 for never. A text of few words needs 0."""
    minimum: int = 2
    """n-grams that are in fewer distinct words get no vector."""
    learning_rate: float = 0.01
    """Adam's."""
    seed: int = 0
    """Of everything that is drawn."""


def train_ngrams(
    words: Sequence[str], text: Ids, how: NgramTraining | None = None, shown: bool = False
) -> Ngrams:
    """Skip-gram over a text of word numbers: the mean of a word's n-grams predicts the words around it.

    `shown` is whether a bar counts the steps on standard error. Raises DataError for a text that is too short.
    """
    how = how or NgramTraining()
    random = np.random.default_rng(how.seed)
    torch.manual_seed(how.seed)
    text = text[text >= len(SPECIALS)]
    frequency = np.bincount(text, minlength=len(words))
    text = _thinned(text, frequency, how.frequent, random)
    index, members, starts = _members(words, how.minimum)
    if len(text) <= 2 * how.window or not index:
        raise DataError(
            f"A text of which {len(text)} tokens and {len(index)} n-grams are left trains nothing: give a longer one, "
            "a smaller window or minimum, or pass no frequent words over."
        )
    inner = nn.Embedding(len(index) + 1, how.dimension, padding_idx=len(index), sparse=True)
    outer = nn.Embedding(len(words), how.dimension, sparse=True)
    nn.init.uniform_(inner.weight, -0.5 / how.dimension, 0.5 / how.dimension)
    nn.init.zeros_(outer.weight)
    optimizer = torch.optim.SparseAdam([inner.weight, outer.weight], lr=how.learning_rate)
    cumulative = np.cumsum(frequency**0.75)
    cumulative /= cumulative[-1]
    signs = torch.ones(1 + how.negatives)
    signs[1:] = -1
    for _ in tqdm(range(how.steps), disable=None if shown else True, unit="step"):
        inside, outside = _drawn(text, cumulative, how, random)
        scores = (outer(outside) @ _means(inside, inner, members, starts)[:, :, None]).squeeze(2)
        optimizer.zero_grad()
        (-F.logsigmoid(scores * signs).sum(1).mean()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()  # type: ignore[no-untyped-call]
    return Ngrams(inner.weight.detach()[:-1].numpy().copy(), index, "trained")


def _thinned(
    text: Ids, frequency: npt.NDArray[np.int64], frequent: float, random: np.random.Generator
) -> Ids:
    """A text without some of its frequent words: each stays with probability sqrt(frequent / its share)."""
    if not frequent:
        return text
    stays = np.sqrt(frequent * len(text) / np.maximum(frequency, 1)).astype(np.float32)
    return text[random.random(len(text), dtype=np.float32) < stays[text]]


def _drawn(
    text: Ids, cumulative: npt.NDArray[np.float64], how: NgramTraining, random: np.random.Generator
) -> tuple[Ids, Tensor]:
    """Words, (batch,), and for each a neighbour and then random words, (batch, 1 + negatives)."""
    at = random.integers(how.window, len(text) - how.window, how.batch)
    apart = random.integers(1, how.window + 1, how.batch) * random.choice([-1, 1], how.batch)
    noise = np.searchsorted(cumulative, random.random((how.batch, how.negatives)))
    return text[at], torch.from_numpy(np.concatenate([text[at + apart][:, None], noise], 1))


def _members(words: Sequence[str], minimum: int) -> tuple[dict[str, int], Tensor, Tensor]:
    """The n-grams by row, every word's rows one after the other, and where each word's begin."""
    grams = [list(ngrams(word.strip())) if word not in SPECIALS else [] for word in words]
    counts: dict[str, int] = {}
    for own in grams:
        for gram in set(own):
            counts[gram] = counts.get(gram, 0) + 1
    index = {gram: row for row, gram in enumerate(sorted(gram for gram, n in counts.items() if n >= minimum))}
    rows = [[index[gram] for gram in own if gram in index] or [len(index)] for own in grams]
    starts = torch.tensor([0, *map(len, rows)]).cumsum(0)
    return index, torch.tensor([row for own in rows for row in own]), starts


def _means(words: Ids, inner: nn.Embedding, members: Tensor, starts: Tensor) -> Tensor:
    """(words, dimension)"""
    numbers = torch.from_numpy(words.astype(np.int64))
    counts = starts[numbers + 1] - starts[numbers]
    offsets = counts.cumsum(0) - counts
    at = torch.arange(int(counts.sum())) - offsets.repeat_interleave(counts)
    rows = members[starts[numbers].repeat_interleave(counts) + at]
    return (
        F.embedding_bag(rows, inner.weight, offsets, mode="sum", sparse=True, padding_idx=inner.padding_idx)
        / counts[:, None]
    )
