"""Examples as numbers: the reader that `encode` receives, and the default batch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from decabench.errors import DataError
from decabench.tasks import Label, Output, Tags, Task, Tree
from decabench.vectors import PAD, Ids, Lexicon, WordTable, detokenize, split_words, tokenize

Integers = npt.NDArray[np.int64]
Item = Mapping[str, npt.NDArray[Any]]
"""An example as encoded by a family: column name to one-dimensional array."""

Split = Literal["spaces", "tokens"]
"""How `first_tokens` and `words` split texts: at spaces, or like MQAN, with punctuation apart."""
_WORD = re.compile(r"\S+")


class TooLongError(Exception):
    """Raised by `encode` for a context longer than `skip_context`; the trainer skips the example."""


class TextReader:
    """Encodes texts and labels of one task as numbers; caches the last few texts, because contexts often repeat."""

    def __init__(
        self,
        task: Task,
        lexicon: Lexicon,
        cut: int | None = None,
        skip: int | None = None,
        split: Split = "spaces",
    ) -> None:
        """Truncate contexts to `cut` tokens; raise TooLongError for contexts of more than `skip`."""
        self.lexicon, self._apart = lexicon, split == "tokens"
        self._task, self._cut, self._skip = task, cut, skip
        self._encode = lru_cache(16)(lexicon.encode)
        self._labels = {name: number for number, name in enumerate(label_names(task.output))}
        self._is_open = not self._labels
        self._first_question: str | None = None
        self._cut_end: Callable[[str, int], int | None] | None = None

    def context(self, text: str) -> Ids:
        """Number the tokens of a context, truncated to the run's `cut_context`, between <init> and <eos>."""
        self._cut_end = _end_of_tokens
        if self._skip is not None and self._cut is not None:  # check the length before truncation
            self._check_length(len(tokenize(text)))
        found = self._encode(text, self._cut)
        self._check_length(len(found) - 2)
        return found

    def text(self, text: str) -> Ids:
        """Number the tokens of a question or answer, between <init> and <eos>."""
        return self._encode(text)

    def tokens(self, text: str, lower: bool = True) -> Ids:
        """Number all whitespace tokens of a context, for models that answer each token."""
        return self._whole([(text.lower() if lower else text).split()])[0]

    def all_words(self, texts: Sequence[str]) -> list[Ids]:
        """Number all words of a context's parts, keeping capitals and splitting off punctuation."""
        return self._whole([split_words(text) for text in texts])

    def first_tokens(self, text: str) -> Ids:
        """Number the lower-cased words of a context, truncated to the run's `cut_context`."""
        self._cut_end = _end_of_parts if self._apart else _end_of_words
        words = self._words(text)
        self._check_length(len(words))
        return self._number(words[: self._cut])

    def words(self, text: str) -> Ids:
        """Number the lower-cased words of any other text."""
        return self._number(self._words(text))

    def _words(self, text: str) -> list[str]:
        return split_words(text.lower()) if self._apart else text.lower().split()

    def _whole(self, parts: Sequence[Sequence[str]]) -> list[Ids]:
        self._check_length(sum(map(len, parts)))
        return [self._number(words) for words in parts]

    def _number(self, words: Iterable[str]) -> Ids:
        return np.array(self.lexicon.number(f" {word} " for word in words), dtype=np.int32)

    def _check_length(self, tokens: int) -> None:
        if self._skip is not None and tokens > self._skip:
            raise TooLongError

    def count_kept(self, text: str) -> int | None:
        """Return how many characters of the context were read; None if it was not truncated."""
        if self._cut is None or self._cut_end is None:
            return None
        return self._cut_end(text, self._cut)

    def check_question(self, text: str) -> None:
        """Check that all examples have the same question if the model does not read it. Raises DataError."""
        if self._first_question is None:
            self._first_question = text
        if text != self._first_question:
            raise DataError(
                f"The question {text!r:.200} differs from the question of earlier examples, and this "
                "model reads only contexts: set question_varies=True in the task, or choose another "
                "model, such as classifier."
            )

    def labels(self, names: Iterable[str]) -> Ids:
        """Number labels; add new labels if the task lists none. Raises DataError for labels not in a task's list."""
        found = []
        for name in names:
            if name not in self._labels:
                if not self._is_open:
                    raise DataError(
                        f"{self._task.name} has the answer {name!r}, but its labels are "
                        f"{', '.join(self._labels)}."
                    )
                self._labels[name] = len(self._labels)
            found.append(self._labels[name])
        return np.array(found, dtype=np.int32)

    @property
    def learned_labels(self) -> tuple[str, ...]:
        """The labels that have occurred, in order of their numbers; () if the task lists its labels."""
        return tuple(self._labels) if self._is_open else ()


def _end_of_tokens(text: str, limit: int) -> int | None:
    tokens = tokenize(text)
    return None if len(tokens) <= limit else len(detokenize(tokens[:limit]))


def _end_of_parts(text: str, limit: int) -> int | None:
    kept, tokens = 0, tokenize(text)
    for at, token in enumerate(tokens):
        kept += bool(token.strip())
        if kept > limit:
            return len(detokenize(tokens[:at]).rstrip())
    return None


def _end_of_words(text: str, limit: int) -> int | None:
    words = list(islice(_WORD.finditer(text), limit + 1))
    return None if len(words) <= limit else words[limit - 1].end()


def label_names(output: Output) -> tuple[str, ...]:
    """Return the labels, tags or relations that an output lists; () if it has no list."""
    match output:
        case Label(names=names) | Tags(names=names) | Tree(relations=names):
            return names
        case _:
            return ()


def with_label_names(output: Output, names: tuple[str, ...]) -> Output:
    """Return a copy of an output with these labels, tags or relations."""
    match output:
        case Label() | Tags():
            return replace(output, names=names)
        case Tree():
            return replace(output, relations=names)
        case _:
            return output


def pad(arrays: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], Integers]:
    """Pad arrays with zeros (PAD) at the end and stack them, (B, longest); also return their lengths."""
    lengths = np.array([len(array) for array in arrays], dtype=np.int64)
    kind = np.int64 if arrays[0].dtype.kind == "i" else np.float32
    made = np.full((len(arrays), max(1, int(lengths.max()))), PAD, dtype=kind)
    made[np.arange(made.shape[1]) < lengths[:, None]] = np.concatenate(arrays)
    return made, lengths


def number_distinct(arrays: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], list[Integers]]:
    """Return the distinct words of a batch's arrays, PAD first, and each array as its rows in that list."""
    flat = np.concatenate([[PAD], *(array.ravel() for array in arrays)])
    distinct, rows = np.unique(flat, return_inverse=True)
    parts = np.split(rows, np.cumsum([1, *(array.size for array in arrays)]))[1:-1]
    return distinct, [part.reshape(array.shape) for part, array in zip(parts, arrays, strict=True)]


@dataclass(frozen=True)
class ColumnBatch:
    """The default batch: every column padded. B examples, T the longest row of a column, U distinct words."""

    task: str
    """The task's name, which selects the head."""
    words: Tensor
    """(U,) lexicon numbers of the batch's distinct words; row 0 is padding."""
    vectors: Tensor | None
    """(U, demb) the vectors of those words; None if the network has its own table."""
    columns: Mapping[str, Tensor]
    """Each column's values, (B, T): indexes into `words` for columns of words; 0 is padding."""
    lengths: Mapping[str, Tensor]
    """Each column's lengths, (B,). Stays on the CPU, where packing needs it."""

    @classmethod
    def of(
        cls, task: str, items: Sequence[Item], words: WordTable, kinds: Mapping[str, str], vectors: bool
    ) -> ColumnBatch:
        """Make a batch by padding items, in order. With `vectors`, look up the vectors of the distinct words."""
        padded = {name: pad([item[name] for item in items]) for name in items[0]}
        texts = [name for name in padded if kinds[name] == "words"]
        distinct, rows = number_distinct([padded[name][0] for name in texts])
        own = dict(zip(texts, rows, strict=True))
        return cls(
            task,
            torch.from_numpy(distinct),
            torch.from_numpy(words[distinct]) if vectors else None,
            {name: torch.from_numpy(own.get(name, values)) for name, (values, _) in padded.items()},
            {name: torch.from_numpy(lengths) for name, (_, lengths) in padded.items()},
        )

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def word_numbers(self, column: str) -> Tensor:
        """Return a column of words as lexicon numbers, (B, T)."""
        return self.words[self.columns[column]]

    def to(self, device: torch.device) -> ColumnBatch:
        """Copy the batch, except the lengths, to a device."""
        return replace(
            self,
            words=self.words.to(device),
            vectors=None if self.vectors is None else self.vectors.to(device),
            columns={name: column.to(device) for name, column in self.columns.items()},
        )
