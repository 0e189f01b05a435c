"""Encoding of examples as numbers, and the default batch.

A family's `encode` gets a `TextReader`. Families without a `collate` function use `ColumnBatch`.
"""

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
"""An encoded example: column names mapped to one-dimensional arrays."""

Split = Literal["spaces", "tokens"]
"""How `first_tokens` and `words` split text.

`spaces` splits only at spaces; `tokens` also splits off punctuation, as in MQAN.
"""
_WORD = re.compile(r"\S+")


class TooLongError(Exception):
    """Raised by `encode` if a context is longer than `skip_context`. The trainer then skips the example."""


class TextReader:
    """Encodes the texts and labels of one task as numbers.

    The results for recent texts are cached, because contexts often repeat.
    """

    def __init__(
        self,
        task: Task,
        lexicon: Lexicon,
        cut: int | None = None,
        skip: int | None = None,
        split: Split = "spaces",
    ) -> None:
        """Create a reader that truncates contexts to `cut` tokens.

        Contexts longer than `skip` tokens raise TooLongError.
        """
        self.lexicon, self._apart = lexicon, split == "tokens"
        self._task, self._cut, self._skip = task, cut, skip
        self._encode = lru_cache(16)(lexicon.encode)
        self._labels = {name: number for number, name in enumerate(label_names(task.output))}
        self._is_open = not self._labels
        self._first_question: str | None = None
        self._cut_end: Callable[[str, int], int | None] | None = None

    def context(self, text: str) -> Ids:
        """Encode a context between <init> and <eos>, truncated to the run's `cut_context`."""
        self._cut_end = _end_of_tokens
        if self._skip is not None and self._cut is not None:  # check the length before truncation
            self._check_length(len(tokenize(text)))
        found = self._encode(text, self._cut)
        self._check_length(len(found) - 2)
        return found

    def text(self, text: str) -> Ids:
        """Encode a question or an answer between <init> and <eos>."""
        return self._encode(text)

    def tokens(self, text: str, lower: bool = True) -> Ids:
        """Encode every token of a context, split at whitespace, for models that label each token."""
        return self._whole([(text.lower() if lower else text).split()])[0]

    def all_words(self, texts: Sequence[str]) -> list[Ids]:
        """Encode the words of several texts, such as two sentences to compare.

        Capital letters are kept, and punctuation is split off.
        """
        return self._whole([split_words(text) for text in texts])

    def first_tokens(self, text: str) -> Ids:
        """Encode the lower-cased words of a context, truncated to the run's `cut_context`."""
        self._cut_end = _end_of_parts if self._apart else _end_of_words
        words = self._words(text)
        self._check_length(len(words))
        return self._number(words[: self._cut])

    def words(self, text: str) -> Ids:
        """Encode the lower-cased words of a question or an answer."""
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
        """Return the number of context characters that were read, or None if the whole context was read."""
        if self._cut is None or self._cut_end is None:
            return None
        return self._cut_end(text, self._cut)

    def check_question(self, text: str) -> None:
        """Raise DataError if a question differs from earlier questions, for models that don't read questions."""
        if self._first_question is None:
            self._first_question = text
        if text != self._first_question:
            raise DataError(
                f"The question {text!r:.200} differs from the question of earlier examples, and this "
                "model reads only contexts. Set question_varies=True in the task, or choose another "
                "model, such as classifier."
            )

    def labels(self, names: Iterable[str]) -> Ids:
        """Encode labels as integer ids.

        If the task lists no labels, new labels are added. Otherwise an unlisted label raises DataError.
        """
        found = []
        for name in names:
            if name not in self._labels:
                if not self._is_open:
                    raise DataError(
                        f"{self._task.name} has the answer {name!r}, but its labels are "
                        f"{', '.join(self._labels)}. Correct the answer, or add the label to the task."
                    )
                self._labels[name] = len(self._labels)
            found.append(self._labels[name])
        return np.array(found, dtype=np.int32)

    @property
    def learned_labels(self) -> tuple[str, ...]:
        """The labels of the encoded answers, in the order of their ids; empty if the task lists its labels."""
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
    """Return the labels, tags or relations listed by an output, or () if it lists none."""
    match output:
        case Label(names=names) | Tags(names=names) | Tree(relations=names):
            return names
        case _:
            return ()


def with_label_names(output: Output, names: tuple[str, ...]) -> Output:
    """Return a copy of an output that lists `names` as its labels, tags or relations."""
    match output:
        case Label() | Tags():
            return replace(output, names=names)
        case Tree():
            return replace(output, relations=names)
        case _:
            return output


def pad(arrays: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], Integers]:
    """Pad arrays at the end with zeros (PAD) and stack them.

    Returns the stacked array, of shape (B, T), and the length of each array, of shape (B,). T is the
    length of the longest array, but at least 1.
    """
    lengths = np.array([len(array) for array in arrays], dtype=np.int64)
    kind = np.int64 if arrays[0].dtype.kind == "i" else np.float32
    made = np.full((len(arrays), max(1, int(lengths.max()))), PAD, dtype=kind)
    made[np.arange(made.shape[1]) < lengths[:, None]] = np.concatenate(arrays)
    return made, lengths


def number_distinct(arrays: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], list[Integers]]:
    """Return a batch's distinct word ids, starting with PAD, and the arrays as indexes into these ids."""
    flat = np.concatenate([[PAD], *(array.ravel() for array in arrays)])
    distinct, rows = np.unique(flat, return_inverse=True)
    parts = np.split(rows, np.cumsum([1, *(array.size for array in arrays)]))[1:-1]
    return distinct, [part.reshape(array.shape) for part, array in zip(parts, arrays, strict=True)]


@dataclass(frozen=True)
class ColumnBatch:
    """The default batch, in which every column is padded.

    B is the number of examples, T the length of a column's longest row, and U the number of distinct words.
    """

    task: str
    """The task's name, which selects the head."""
    words: Tensor
    """The lexicon ids of the batch's distinct words, of shape (U,). Row 0 is padding."""
    vectors: Tensor | None
    """The vectors of `words`, of shape (U, demb), or None if the network has its own embedding table."""
    columns: Mapping[str, Tensor]
    """The values of each column, of shape (B, T). Columns with words contain indexes into `words`, and 0
    is padding.
    """
    lengths: Mapping[str, Tensor]
    """The lengths of each column's rows, of shape (B,). Kept on the CPU, where packing needs them."""

    @classmethod
    def of(
        cls, task: str, items: Sequence[Item], words: WordTable, kinds: Mapping[str, str], vectors: bool
    ) -> ColumnBatch:
        """Create a batch from items, in order, padding each column.

        If `vectors` is true, the vectors of the distinct words are looked up too.
        """
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

    def to(self, device: torch.device) -> ColumnBatch:
        """Return a copy of the batch on a device; the lengths stay on the CPU."""
        return replace(
            self,
            words=self.words.to(device),
            vectors=None if self.vectors is None else self.vectors.to(device),
            columns={name: column.to(device) for name, column in self.columns.items()},
        )
