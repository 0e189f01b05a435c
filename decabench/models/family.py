"""Model families: one value in one file says how a model reads examples, what it learns and how it answers.

A family is a `Family`: a configuration, `encode`, `build` and, where the usual batch does not do, `collate`. Trainer,
checkpoints, schedules, `decabench export`, `decabench analyze` and the predictor `trained:CHECKPOINT` work with any
family. docs/training.md has a whole family to start from; `models/classifier.py` and `models/tagger.py` are two more.

How a value flows:

    Example ──encode──▶ item ──collate──▶ batch ──losses──▶ {name: (sum, count)}
                                              └──answers──▶ one ModelReply for each example

**Items** are mappings from a column's name to a one-dimensional array of any length; a question without an answer, as
at prediction, has only the columns that the network reads. `Family.columns` says what each column holds: "words"
(numbers of the lexicon; once all data is read they are numbered again by frequency, the first `config.vocabulary` of
which the network knows), "labels" (numbers of the task's labels, tags or relations) or "numbers" (anything else: heads
of a tree, ratings). The trainer keeps them on disk, so `encode` runs once for each example.

**Tokens** come from the tokenizer (`reader.context`, `reader.text`) or from the task (`reader.tokens`): the answer to a
tagging or parsing task has one part for each whitespace token of the context.

**Heads** follow from the tasks' outputs: `build` gets the output of every task with its labels known, and `heads.py`
has a head for each kind; a family that answers in free text has one decoder for all tasks. A family lists the kinds it
can answer in `Family.outputs`; training refuses other tasks.

**Word vectors** are fixed (a batch brings the vectors of its words) or, with `train_embeddings` in the configuration,
the first values of a table in the network; `layers.WordEmbedding` does both.

**Losses** have names: each is a column of the training log and can be weighted in the configuration (`loss_weights`;
a weight of 0 only logs). What is trained is the sum of sum / count. Adversarial and regularising terms are losses too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from decabench.errors import DataError, DecabenchError, UnknownNameError, require_name
from decabench.models.word_vectors import WordTable
from decabench.models.words import PAD, Ids, Lexicon
from decabench.plugins import load_object
from decabench.tasks import Label, Output, Question, Tags, Task, Tree

__all__ = [
    "FAMILIES",
    "Batch",
    "ColumnBatch",
    "Family",
    "Item",
    "Losses",
    "ModelConfig",
    "ModelReply",
    "MultitaskNetwork",
    "TextReader",
    "TooLongError",
    "find_family",
    "label_names",
    "pad",
    "read_model_config",
    "with_label_names",
]

FAMILIES: dict[str, str] = {
    "mqan": "decabench.models.mqan:FAMILY",
    "catt": "decabench.models.mqan:FAMILY",
    "satt": "decabench.models.mqan:FAMILY",
    "s2s": "decabench.models.mqan:FAMILY",
    "classifier": "decabench.models.classifier:FAMILY",
    "tagger": "decabench.models.tagger:FAMILY",
}
"""Model name to `module:object`, loaded on request. Any other family is named by its own `package.module:object`."""

Integers = npt.NDArray[np.int64]
Item = Mapping[str, npt.NDArray[Any]]
"""An example as a family reads it: column name to a one-dimensional array."""
Losses = dict[str, tuple[Tensor, "Tensor | int"]]
"""Loss name to its sum over a batch and the count that divides it: tokens, sentences, or 1 for a penalty."""


class ModelConfig(Protocol):
    """The `[model]` table of a family: a frozen dataclass with defaults, which checks its values when it is made.

    It may also have `train_embeddings: bool`; without it word vectors are fixed.
    """

    @property
    def name(self) -> str:
        """The model's name: a key of FAMILIES, or `package.module:object`."""

    @property
    def vocabulary(self) -> int:
        """How many words the network has a place for, the most frequent of the training data."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A model's answer to one question."""

    text: str
    """The answer."""
    finished: bool
    """Whether it ended by itself, within the limit of tokens."""
    read: int
    """Tokens of context and question."""
    said: int
    """Tokens of the answer, its <eos> included; tags or labels where it is made of those."""
    context_kept: int | None = None
    """How many characters of the context the model was shown, where they were not all."""


class Batch(Protocol):
    """Some examples of one task, as tensors."""

    def __len__(self) -> int: ...

    def to(self, device: torch.device) -> Self:
        """Copy the batch to a device."""


class MultitaskNetwork(nn.Module):
    """What a family's `build` returns: a module with `losses` and `answers`, and hooks for those that need them.

    A hook runs just before the step that it precedes. What it changes must be kept in buffers (`register_buffer`): so
    it is part of the checkpoint, and a resumed run has it.
    """

    vocabulary_rows: ClassVar[tuple[str, ...]] = ()
    """Names (or beginnings of names) of parameters with one row for each word of the vocabulary: `--init` copies the
    rows of the words that both vocabularies have."""

    def losses(self, batch: Any) -> Losses:
        """Compute the losses of a batch."""
        raise NotImplementedError

    def answers(self, batch: Any, limit: int | None = None, beam: int = 1) -> list[ModelReply]:
        """Answer a batch, in its order. Only families with these abilities get a `limit` of tokens or a `beam`."""
        raise NotImplementedError

    def forward(self, *batches: Any) -> list[Losses]:
        """Compute the losses of each batch: one of each task that a step trains together.

        A network that can do better than one after the other, such as one unrolling for all, overrides this.
        """
        return [self.losses(batch) for batch in batches]

    def begin_phase(self, phase: int) -> None:
        """Hook: a phase of the schedule begins, counted from 1."""

    def begin_epoch(self, epoch: int) -> None:
        """Hook: an epoch begins, counted from 1 over the run, in phases that are counted in epochs."""

    def begin_pass(self, task: str, number: int) -> None:
        """Hook: a pass over a task's training data begins, counted from 1."""

    def adjust_gradients(self) -> None:
        """Hook: the gradients are computed and not yet clipped; a penalty may be added to them in place."""

    def compile_step(self) -> None:
        """Have torch.compile fuse what it can; only where `Family.abilities` has "compile"."""
        raise NotImplementedError


class TooLongError(Exception):
    """Raised inside `encode` by a context that training leaves out; the trainer goes on with the next example."""


class TextReader:
    """Numbers the texts and labels of one task, and remembers the last few texts, as contexts often repeat."""

    def __init__(self, task: Task, lexicon: Lexicon, cut: int | None = None, skip: int | None = None) -> None:
        """`cut` contexts to so many tokens; raise TooLongError for contexts of more than `skip` tokens."""
        self.lexicon = lexicon
        self._task, self._cut, self._skip = task, cut, skip
        self._encode = lru_cache(16)(lexicon.encode)
        self._labels = {name: number for number, name in enumerate(label_names(task.output))}
        self._is_open = not self._labels
        self.cuts_contexts = False

    def context(self, text: str) -> Ids:
        """Number a context as the tokenizer splits it, cut where the run cuts it, between <init> and <eos>."""
        self.cuts_contexts = self._cut is not None
        found = self._encode(text, self._cut)
        self._check_length(len(found) - 2)
        return found

    def text(self, text: str) -> Ids:
        """Number any other text as the tokenizer splits it, between <init> and <eos>."""
        return self._encode(text)

    def tokens(self, text: str) -> Ids:
        """Number the lower-cased whitespace tokens of a context, all of them: each needs a part of the answer."""
        tokens = text.lower().split()
        self._check_length(len(tokens))
        return np.frombuffer(self.lexicon.number(f" {token} " for token in tokens), dtype=np.int32)

    def labels(self, names: Iterable[str]) -> Ids:
        """Number labels; where the task does not list them, learn new ones. Raises DataError for others."""
        found = []
        for name in names:
            if name not in self._labels:
                if not self._is_open:
                    raise DataError(
                        f"{self._task.name} has an answer {name!r}, which is none of its labels: "
                        f"{', '.join(self._labels)}."
                    )
                self._labels[name] = len(self._labels)
            found.append(self._labels[name])
        return np.array(found, dtype=np.int32)

    @property
    def learned_labels(self) -> tuple[str, ...]:
        """The labels met so far, by number, in tasks that do not list theirs; else ()."""
        return tuple(self._labels) if self._is_open else ()

    def _check_length(self, tokens: int) -> None:
        if self._skip is not None and tokens > self._skip:
            raise TooLongError


@dataclass(frozen=True)
class Family:
    """A model family."""

    config: type[Any]
    """The `[model]` table: a dataclass as ModelConfig describes it."""
    columns: Mapping[str, Literal["words", "labels", "numbers"]]
    """What each column of an item holds."""
    outputs: tuple[type[Any], ...]
    """The kinds of output that it can answer: of Text, Label, Tags, Tree, Number."""
    encode: Callable[[Question, str | None, Task, TextReader], Item]
    """(question, answer, task, reader) -> item; the answer is None at prediction. May raise DataError."""
    build: Callable[[Any, Mapping[str, Any], WordTable], MultitaskNetwork]
    """(config, task name to output, words) -> a new network."""
    collate: Callable[[str, Sequence[Item], WordTable, Any], Batch] | None = None
    """(task name, items, words, config) -> batch; a ColumnBatch where None."""
    losses: tuple[str, ...] = ("loss",)
    """The names of the losses; a single one is the log's column `loss` alone."""
    size: Callable[[Mapping[str, Integers]], Integers] | None = None
    """(column name to lengths) -> how much of a batch each example takes; its words where None."""
    order: Callable[[Mapping[str, Integers]], Sequence[Integers]] | None = None
    """(column name to lengths) -> sort keys, the last first, by which like examples are batched; `size` where None."""
    abilities: frozenset[str] = frozenset()
    """What else it can do: "beam" and "max_new_tokens" (options of `decabench predict`), "compile"."""
    analyses: Mapping[str, str] = field(default_factory=dict)
    """What `decabench analyze` offers for it: name to `module:object`, an `Analysis`."""

    def make_batch(self, task: str, items: Sequence[Item], words: WordTable, config: Any) -> Batch:
        """Make a batch of some items of a task, in their order."""
        if self.collate is not None:
            return self.collate(task, items, words, config)
        return ColumnBatch.of(task, items, words, self.columns, vectors=self.has_fixed_vectors(config))

    def sizes(self, lengths: Mapping[str, Integers]) -> Integers:
        """How much of a batch each example takes."""
        if self.size is not None:
            return self.size(lengths)
        words = [lengths[name] for name in lengths if self.columns[name] == "words"]
        total: Integers = np.sum(words, axis=0, dtype=np.int64)
        return total

    def sort_keys(self, lengths: Mapping[str, Integers]) -> Sequence[Integers]:
        """By what examples are sorted before they are cut into batches, for `np.lexsort`."""
        return self.order(lengths) if self.order is not None else (self.sizes(lengths),)

    @property
    def has_heads(self) -> bool:
        """Whether the network has a head of its own for each task, and so answers those alone."""
        return set(self.columns.values()) != {"words"}

    @staticmethod
    def has_fixed_vectors(config: Any) -> bool:
        """Whether the network reads word vectors from files, rather than learning its own table."""
        return not getattr(config, "train_embeddings", False)

    def check_tasks(self, name: str, tasks: Iterable[Task]) -> None:
        """Check that a model `name` of this family can answer the tasks. Raises DecabenchError."""
        can = ", ".join(kind.__name__ for kind in self.outputs)
        wrong = [task for task in tasks if not isinstance(task.output, self.outputs)]
        if wrong:
            which = ", ".join(f"{task.name} ({type(task.output).__name__})" for task in wrong)
            raise DecabenchError(
                f"The model {name} answers tasks whose output is {can}, and not {which}: leave them out, or choose "
                "another model."
            )
        if self.has_heads:
            for task in tasks:
                if isinstance(task.output, Label) and not task.output.names:
                    raise DecabenchError(
                        f"The model {name} chooses among the labels of a task, and each question of {task.name} names "
                        "its own: leave it out, list the labels in the task's output, or choose another model."
                    )


def find_family(name: str) -> Family:
    """Find the family of a model by its name, or by `package.module:object`. Raises UnknownNameError."""
    if ":" in name:
        found = load_object(name)
    else:
        module, _, attribute = FAMILIES[require_name(name, FAMILIES, "model")].partition(":")
        found = getattr(import_module(module), attribute)
    if not isinstance(found, Family):
        raise UnknownNameError(f"{name!r} is {found!r:.100}, and not a decabench.models.Family.")
    return found


def read_model_config(table: Mapping[str, Any]) -> Any:
    """Make the configuration that a `[model]` table of JSON values describes. Raises TypeError, DecabenchError."""
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in table.items()
    }
    return find_family(values["name"]).config(**values)


def label_names(output: Output) -> tuple[str, ...]:
    """The labels, tags or relations that an output lists; () where it lists none."""
    match output:
        case Label(names=names) | Tags(names=names) | Tree(relations=names):
            return names
        case _:
            return ()


def with_label_names(output: Output, names: tuple[str, ...]) -> Output:
    """The same output with these labels, tags or relations."""
    match output:
        case Label() | Tags():
            return replace(output, names=names)
        case Tree():
            return replace(output, relations=names)
        case _:
            return output


def pad(arrays: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], Integers]:
    """Set arrays of any lengths below each other, (B, longest) with zeros (PAD) at their ends, and their lengths."""
    lengths = np.array([len(array) for array in arrays], dtype=np.int64)
    kind = np.int64 if arrays[0].dtype.kind == "i" else np.float32
    made = np.full((len(arrays), max(1, int(lengths.max()))), PAD, dtype=kind)
    made[np.arange(made.shape[1]) < lengths[:, None]] = np.concatenate(arrays)
    return made, lengths


@dataclass(frozen=True)
class ColumnBatch:
    """The usual batch: every column padded. B examples, T the longest of a column, U distinct words."""

    task: str
    """The task's name, which decides the head."""
    words: Tensor
    """(U,) numbers of the batch's distinct words in the lexicon; row 0 is padding."""
    vectors: Tensor | None
    """(U, demb) their vectors; None where the network has a table of its own."""
    columns: Mapping[str, Tensor]
    """Column name to (B, T): rows of `words` for columns of words, else the values; 0 is padding."""
    lengths: Mapping[str, Tensor]
    """Column name to (B,); stays on the CPU, where packing wants it."""

    @classmethod
    def of(
        cls, task: str, items: Sequence[Item], words: WordTable, kinds: Mapping[str, str], vectors: bool
    ) -> ColumnBatch:
        """Pad items, in their order; with `vectors` look up those of the distinct words."""
        padded = {name: pad([item[name] for item in items]) for name in items[0]}
        texts = [name for name in padded if kinds[name] == "words"]
        numbers = np.concatenate([[PAD], *(padded[name][0].ravel() for name in texts)])
        distinct, rows = np.unique(numbers, return_inverse=True)
        ends = np.cumsum([1, *(padded[name][0].size for name in texts)])
        own = dict(zip(texts, np.split(rows, ends)[1:-1], strict=True))
        return cls(
            task,
            torch.from_numpy(distinct),
            torch.from_numpy(words[distinct]) if vectors else None,
            {
                name: torch.from_numpy(own[name].reshape(values.shape) if name in own else values)
                for name, (values, _) in padded.items()
            },
            {name: torch.from_numpy(lengths) for name, (_, lengths) in padded.items()},
        )

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def word_numbers(self, column: str) -> Tensor:
        """A column of words as numbers of the lexicon, (B, T)."""
        return self.words[self.columns[column]]

    def to(self, device: torch.device) -> ColumnBatch:
        """Copy the batch to a device, all but the lengths."""
        return replace(
            self,
            words=self.words.to(device),
            vectors=None if self.vectors is None else self.vectors.to(device),
            columns={name: column.to(device) for name, column in self.columns.items()},
        )
