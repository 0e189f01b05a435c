"""Train character n-gram vectors on the tasks' own text, using skip-gram with negative sampling."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from decabench.errors import DataError, DecabenchError, MissingDataError
from decabench.tasks import Store
from decabench.vectors.tokenizer import SPECIALS, Ids, Lexicon
from decabench.vectors.word_vectors import NgramVectors, ngrams


@dataclass(frozen=True)
class Corpus:
    """Texts encoded as word ids."""

    lexicon: Lexicon
    """The words of the texts."""
    text: Ids
    """The word ids of all texts, concatenated in order, with each text between <init> and <eos>."""

    @property
    def size(self) -> int:
        """The number of tokens, not counting special words."""
        return int((self.text >= len(SPECIALS)).sum())

    @property
    def distinct(self) -> int:
        """The number of distinct tokens, not counting special words."""
        return len(self.lexicon) - len(SPECIALS)


def read_texts(
    store: Store, task: str, examples: int | None = None, with_answers: bool = True, split: str = "train"
) -> Iterator[str]:
    """Yield the contexts, questions and answers of a split, or of its first `examples` examples.

    A context or question that is the same as in the previous example is not repeated.
    """
    before: dict[str, object] = {}
    for row in islice(store.read(task, split, ("context", "question", "answers")), examples):
        for column in ("context", "question"):
            if row[column] != before.get(column):
                yield row[column]
        if with_answers:
            yield from dict.fromkeys(row["answers"])
        before = row


def read_corpus(
    store: Store,
    tasks: Sequence[str],
    examples: int | None = None,
    report: Callable[[str], None] = lambda task: None,
    not_texts: Collection[str] = (),
) -> Corpus:
    """Read the lower-cased tokens of the tasks' training text.

    `report` is called with each task's name before the task is read. The answers of tasks in `not_texts`, such as
    tags or trees, are left out.

    Raises MissingDataError if a task is not prepared, or if no task contains any text.
    """
    lexicon = Lexicon()
    texts: list[Ids] = []
    for task in tasks:
        report(task)
        texts += map(lexicon.encode, read_texts(store, task, examples, task not in not_texts))
    corpus = Corpus(lexicon, np.concatenate(texts) if texts else np.zeros(0, dtype=np.int32))
    if not corpus.size:
        raise MissingDataError(f"There is no training text in {', '.join(tasks)}. Choose other tasks.")
    return corpus


@dataclass(frozen=True)
class NgramTraining:
    """Settings for training n-gram vectors."""

    dimension: int = 100
    """The length of a vector."""
    steps: int = 2_000
    """The number of batches to train on."""
    batch: int = 2_048
    """The number of pairs of neighboring words in a batch."""
    window: int = 5
    """The maximum distance between neighboring words, in tokens."""
    negatives: int = 5
    """The number of random words drawn as negative examples for each pair."""
    frequent: float = 1e-4
    """The proportion of the text above which a word counts as frequent.

    Occurrences of frequent words are skipped at random, because punctuation and articles would
    dominate otherwise. The more frequent a word is, the more often it is skipped. Use 0 to keep all
    words, for example for texts with few distinct words.
    """
    minimum: int = 2
    """The minimum number of distinct words in which an n-gram must occur to get a vector."""
    learning_rate: float = 0.01
    """Adam's learning rate."""
    seed: int = 0
    """The random seed. The same seed produces the same bytes."""

    def __post_init__(self) -> None:
        if not 0 < self.learning_rate < math.inf:
            raise DecabenchError(
                f"'learning_rate' is {self.learning_rate}, but must be a finite number greater than 0."
            )
        if not 0 <= self.seed < 2**63:
            raise DecabenchError(f"'seed' is {self.seed}, but must be between 0 and {2**63 - 1}.")


def train_ngrams(
    words: Sequence[str], text: Ids, settings: NgramTraining | None = None, show_bar: bool = False
) -> NgramVectors:
    """Train n-gram vectors with skip-gram, so that the mean vector of a word's n-grams predicts nearby words.

    `text` contains the ids of the text's words, as indexes into `words`. `show_bar` shows progress on standard error.
    Raises DataError if the text is too short, and DecabenchError if the vectors overflow.
    """
    how = settings or NgramTraining()
    random = np.random.default_rng(how.seed)
    torch.manual_seed(how.seed)
    text = text[text >= len(SPECIALS)]
    frequency = np.bincount(text, minlength=len(words))
    text = _thin(text, frequency, how.frequent, random)
    index, members, starts = _list_members(words, how.minimum)
    if len(text) <= 2 * how.window or not index:
        raise DataError(
            f"Only {len(text)} tokens and {len(index)} n-grams are left to train on. Use more text, a smaller 'window' "
            "or 'minimum', or set 'frequent' to 0."
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
    for _ in tqdm(range(how.steps), disable=None if show_bar else True, unit="step"):
        inside, outside = _draw_pairs(text, cumulative, how, random)
        scores = (outer(outside) @ _average(inside, inner, members, starts)[:, :, None]).squeeze(2)
        optimizer.zero_grad()
        (-F.logsigmoid(scores * signs).sum(1).mean()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()  # type: ignore[no-untyped-call]
    if not inner.weight.isfinite().all():
        raise DecabenchError(
            f"After {how.steps:,} steps, the vectors are no longer finite. Use a learning rate below "
            f"{how.learning_rate:g}."
        )
    return NgramVectors(inner.weight.detach()[:-1].numpy().copy(), index, "trained")


def _thin(text: Ids, frequency: npt.NDArray[np.int64], frequent: float, random: np.random.Generator) -> Ids:
    """Keep each occurrence of a word with probability sqrt(frequent / p), where p is the word's share of the text."""
    if not frequent:
        return text
    stays = np.sqrt(frequent * len(text) / np.maximum(frequency, 1)).astype(np.float32)
    return text[random.random(len(text), dtype=np.float32) < stays[text]]


def _draw_pairs(
    text: Ids, cumulative: npt.NDArray[np.float64], how: NgramTraining, random: np.random.Generator
) -> tuple[Ids, Tensor]:
    """Draw a batch of words, each with a nearby word and random words as negative examples.

    Returns word ids of shape (batch,), and the ids of the words to compare them with, of shape
    (batch, 1 + negatives). The nearby words are in the first column.
    """
    at = random.integers(how.window, len(text) - how.window, how.batch)
    apart = random.integers(1, how.window + 1, how.batch) * random.choice([-1, 1], how.batch)
    noise = np.searchsorted(cumulative, random.random((how.batch, how.negatives)))
    return text[at], torch.from_numpy(np.concatenate([text[at + apart][:, None], noise], 1))


def _list_members(words: Sequence[str], minimum: int) -> tuple[dict[str, int], Tensor, Tensor]:
    """Assign a row to each n-gram that occurs in at least `minimum` words.

    Returns three values: the row of each n-gram, the rows of all words' n-grams concatenated, and the offset at which
    each word's rows start (followed by the total). Words without any of these n-grams get a padding row.
    """
    grams = [list(ngrams(word.strip())) if word not in SPECIALS else [] for word in words]
    counts: dict[str, int] = {}
    for own in grams:
        for gram in set(own):
            counts[gram] = counts.get(gram, 0) + 1
    index = {gram: row for row, gram in enumerate(sorted(gram for gram, n in counts.items() if n >= minimum))}
    rows = [[index[gram] for gram in own if gram in index] or [len(index)] for own in grams]
    starts = torch.tensor([0, *map(len, rows)]).cumsum(0)
    return index, torch.tensor([row for own in rows for row in own]), starts


def _average(words: Ids, inner: nn.Embedding, members: Tensor, starts: Tensor) -> Tensor:
    numbers = torch.from_numpy(words.astype(np.int64))
    counts = starts[numbers + 1] - starts[numbers]
    offsets = counts.cumsum(0) - counts
    at = torch.arange(int(counts.sum())) - offsets.repeat_interleave(counts)
    rows = members[starts[numbers].repeat_interleave(counts) + at]
    total = F.embedding_bag(
        rows, inner.weight, offsets, mode="sum", sparse=True, padding_idx=inner.padding_idx
    )
    return total / counts[:, None]
