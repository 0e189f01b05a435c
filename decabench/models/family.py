"""Model families: a value that defines how a model reads examples, what it learns and how it answers.

A family is a `Family`: a configuration, `encode`, `build` and, if the default batch does not suit it, `collate`. The
trainer, checkpoints, `decabench export`, `decabench analyze` and the predictor `trained:CHECKPOINT` work with any
family. docs/training.md has a complete family to start from; `classifier.py` and `tagger.py` are two more.

    Example ──encode──▶ item ──collate──▶ batch ──losses──▶ {name: (sum, count)}
                                              └──answers──▶ one ModelReply for each example

**Items** map column names to one-dimensional arrays. A question without an answer, as in prediction, has only the
columns that the network reads. Once all data is read, words are renumbered by frequency, and the network knows the
first `config.vocabulary`. The trainer caches items on disk, so `encode` runs once for each example.

**Heads** follow from the tasks' outputs: `build` gets the output of every task, including its labels, and `heads.py`
has a head for each kind of output. A family that answers in free text has one decoder for all tasks.

**Losses** have names: each is a column of the training log and can be weighted in the configuration (`loss_weights`).
Training minimizes the weighted total of sum / count. Adversarial and regularizing terms are losses too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import Annotated, Any, Literal, Protocol, Self, cast

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from decabench.errors import DecabenchError, UnknownNameError, require_name
from decabench.models.batches import ColumnBatch, Integers, Item, Split, TextReader
from decabench.models.families import FAMILIES
from decabench.plugins import load_named, load_object
from decabench.tasks import Label, Question, Task
from decabench.vectors import Lexicon, WordTable

Losses = dict[str, tuple[Tensor, "Tensor | int"]]
"""The sum of each loss over a batch, with the count to divide it by: tokens, sentences, or 1 for a penalty."""


Count = Annotated[int, msgspec.Meta(ge=1)]
"""A setting of 1 or more."""
Depth = Annotated[int, msgspec.Meta(ge=1, le=1_000)]
"""A number of layers or parts, limited because building many takes minutes even if none needs memory."""
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e300)]
"""A setting of 0 or more, and finite."""
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
"""A setting from 0 to 1."""
EvenWidth = Annotated[int, msgspec.Meta(ge=2, multiple_of=2)]
"""A width that the two directions of a BiLSTM share."""
Rate = Annotated[float, msgspec.Meta(ge=0, lt=1)]
"""A setting of at least 0 and below 1, such as a dropout rate."""


class ModelConfig(Protocol):
    """The `[model]` table of a family: a frozen dataclass with defaults that validates its values on creation.

    It may also have `train_embeddings: bool` (without it, word vectors are fixed), `unseen_vectors: bool` (words
    outside a trained table keep their fixed vectors), `sparse_gradients: bool` (embeddings get sparse gradients, which
    not every optimizer can use) and `split`, for TextReader.
    """

    @property
    def name(self) -> str:
        """The model's name: a key of FAMILIES, or `package.module:object`."""

    @property
    def vocabulary(self) -> int:
        """The size of the vocabulary: the most frequent words of the training data."""


def split_of(config: ModelConfig) -> Split:
    """Return how TextReader splits a model's texts; by default, at spaces."""
    return cast(Split, getattr(config, "split", "spaces"))


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A model's answer to one question."""

    text: str
    """The answer."""
    finished: bool
    """Whether the answer ended within the limit of tokens."""
    read: int
    """Number of tokens in context and question."""
    said: int
    """Number of tokens in the answer, including <eos>; or of tags or labels, if it consists of those."""
    context_kept: int | None = None
    """Number of characters of the context that the model saw; None if it saw all of them."""


class Batch(Protocol):
    """Several examples of one task, as tensors."""

    def __len__(self) -> int: ...

    def to(self, device: torch.device) -> Self:
        """Copy the batch to a device."""


class MultitaskNetwork(nn.Module):
    """The network that a family's `build` returns: a module with `losses`, `answers` and optional hooks.

    A hook runs just before its step. Keep its state in buffers (`register_buffer`), so that checkpoints include it and
    a resumed run restores it.
    """

    vocabulary_rows: tuple[str, ...] = ()
    """Names (or prefixes of names) of parameters with one row for each word of the vocabulary: `--init` copies the rows
    of words in both vocabularies."""

    def table_rows(self, lexicon: Lexicon) -> Mapping[str, Mapping[str, int]]:
        """Return other tables, parameter to key to row; `--init` copies the rows that both networks have."""
        return {}

    def losses(self, batch: Any) -> Losses:
        """Compute the losses of a batch."""
        raise NotImplementedError

    def answers(self, batch: Any, limit: int | None = None, beam: int = 1) -> list[ModelReply]:
        """Answer a batch, in order.

        `limit` (in tokens) and `beam` are passed only to families that have these abilities.
        """
        raise NotImplementedError

    def forward(self, *batches: Any) -> list[Losses]:
        """Compute the losses of several batches, one for each task that a step trains together.

        Override this if the network can read several batches at once, for example by unrolling once for all of them.
        """
        return [self.losses(batch) for batch in batches]

    def begin_phase(self, phase: int) -> None:
        """Hook: a phase of the schedule begins, counted from 1."""

    def begin_epoch(self, epoch: int) -> None:
        """Hook: an epoch begins, counted from 1 over the whole run; only in phases counted in epochs."""

    def begin_pass(self, task: str, number: int) -> None:
        """Hook: a pass over a task's training data begins, counted from 1."""

    def adjust_gradients(self) -> None:
        """Hook: gradients are computed but not yet clipped; it may change them in place, such as to add a penalty."""

    def before_step(self, rate: float) -> None:
        """Hook: gradients are clipped, and the optimizer is about to use them at this learning rate; it may change
        parameters in place, such as by a decay that clipping must not scale."""


Lengths = Mapping[str, Integers]
"""The length of each example's row, by column name."""


@dataclass(frozen=True)
class Family:
    """A model family: how its models are configured, fed, built and asked."""

    config: type[Any]
    """The class of the `[model]` table: a dataclass that follows ModelConfig."""
    columns: Mapping[str, Literal["words", "labels", "numbers"]]
    """What each column contains: numbers of words in the lexicon, of the task's labels, or anything else."""
    outputs: tuple[type[Any], ...]
    """The kinds of output that it can produce, from Text, Label, Tags, Tree and Number."""
    encode: Callable[[Question, str | None, Task, TextReader], Item]
    """(question, answer, task, reader) -> item. The answer is None in prediction. May raise DataError."""
    build: Callable[[Any, Mapping[str, Any], WordTable], MultitaskNetwork]
    """(config, task name to output, words) -> a new network."""
    collate: Callable[[str, Sequence[Item], WordTable, Any], Batch] | None = None
    """(task name, items, words, config) -> batch. If None, batches are ColumnBatch."""
    losses: tuple[str, ...] = ("loss",)
    """The names of the losses. If there is only one, the log calls it `loss`."""
    measures: tuple[str, ...] = ()
    """Losses that are only logged, such as the share of open gates; they are not part of the total."""
    marks: int = 0
    """How many marks, such as <init> and <eos>, `encode` puts around each text. They don't count towards a
    batch's size."""
    size: Callable[[Lengths], Integers] | None = None
    """How much of a batch each example takes up. If None, its number of words."""
    padded: Callable[[Lengths], Integers] | None = None
    """The length used by `batch_rule = "padded"`. If None, `size`."""
    order: Callable[[Lengths], Sequence[Integers]] | None = None
    """Sort keys for grouping similar examples, primary key last. If None, `size`."""
    answer_order: Callable[[Lengths], Sequence[Integers]] | None = None
    """Sort keys for `grouping = "answers"`. If None, `order`."""
    pool_share: float = 1.0
    """The largest share of a pass that `grouping = "lengths"` sorts together; smaller shares vary the batches
    between passes."""
    abilities: frozenset[str] = frozenset()
    """Optional features: "beam" and "max_new_tokens" (options of `decabench predict`), and "contextual" (vectors of
    words in their text, which `collate` asks for)."""
    training_only: tuple[str, ...] = ()
    """Prefixes of the names of buffers that only training uses, and sets before use; `--init` and exports leave
    them out."""
    retired: Mapping[str, Any] = field(default_factory=dict)
    """Settings of earlier versions, with the value that the network still implements."""
    analyses: Mapping[str, str] = field(default_factory=dict)
    """Analyses for `decabench analyze`: name to the `module:object` of an `Analysis`."""

    def make_batch(self, task: str, items: Sequence[Item], words: WordTable, config: Any) -> Batch:
        """Collate items of a task into a batch, in order."""
        if self.collate is not None:
            return self.collate(task, items, words, config)
        return ColumnBatch.of(task, items, words, self.columns, vectors=self.has_fixed_vectors(config))

    def sizes(self, lengths: Lengths) -> Integers:
        """Return how much of a batch each example takes up."""
        if self.size is not None:
            return self.size(lengths)
        words = [lengths[name] for name in lengths if self.columns[name] == "words"]
        total: Integers = np.sum(words, axis=0, dtype=np.int64)
        return total

    def padded_lengths(self, lengths: Lengths) -> Integers:
        """Return each example's length for `batch_rule = "padded"`."""
        return self.padded(lengths) if self.padded is not None else self.sizes(lengths)

    def sort_keys(self, lengths: Lengths, by_answer: bool = False) -> Sequence[Integers]:
        """Return the keys by which `np.lexsort` orders examples before they are split into batches."""
        order = (self.answer_order if by_answer else None) or self.order
        return order(lengths) if order is not None else (self.sizes(lengths),)

    @property
    def has_heads(self) -> bool:
        """Whether the network has a separate head for each task, and answers only the tasks that it has learned."""
        return set(self.columns.values()) != {"words"}

    @staticmethod
    def has_fixed_vectors(config: Any) -> bool:
        """Whether the network reads word vectors from files, even if only for words missing from its own table."""
        return not getattr(config, "train_embeddings", False) or getattr(config, "unseen_vectors", False)

    def check_tasks(self, name: str, tasks: Iterable[Task]) -> None:
        """Check that a model `name` of this family can answer the tasks. Raises DecabenchError."""
        tasks = list(tasks)
        if wrong := [task for task in tasks if not isinstance(task.output, self.outputs)]:
            can = ", ".join(kind.__name__ for kind in self.outputs)
            which = ", ".join(f"{task.name} ({type(task.output).__name__})" for task in wrong)
            raise DecabenchError(
                f"The model {name} supports outputs of type {can}, not {which}: leave these tasks out, "
                "or choose another model."
            )
        for task in tasks:
            if self.has_heads and isinstance(task.output, Label) and not task.output.names:
                raise DecabenchError(
                    f"The model {name} chooses among the labels of a task, but each question of "
                    f"{task.name} has its own: leave this task out, list the labels in its output, or "
                    "choose another model."
                )


def find_family(name: str, said_by: str = "") -> Family:
    """Find a family by a model's name or by `package.module:object`.

    If the name comes from a file, `said_by` is that file; the user must have named the family too, see
    `load_named`. Raises UnknownNameError, DecabenchError.
    """
    if ":" in name:
        found = load_named(name, said_by) if said_by else load_object(name)
    else:
        module, _, attribute = FAMILIES[require_name(name, FAMILIES, "model")].partition(":")
        found = getattr(import_module(module), attribute)
    if not isinstance(found, Family):
        raise UnknownNameError(f"{name!r} is {found!r:.100}, not a decabench.models.Family.")
    return found


def read_model_config(table: Mapping[str, Any]) -> Any:
    """Create a configuration from a `[model]` table of JSON values. Raises ValueError, DecabenchError."""
    name = table.get("name")
    if not isinstance(name, str):
        raise ValueError("its model has no name")
    family = find_family(name)
    kind, table = family.config, drop_retired(table, family.retired)
    if unknown := table.keys() - {entry.name for entry in fields(kind)}:
        raise ValueError(f"the model {name} has no setting {min(unknown)[:60]!r}")
    return msgspec.convert(table, kind)


def drop_retired(table: Mapping[str, Any], retired: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out settings of earlier versions, if they have the value that is still supported."""
    return {key: value for key, value in table.items() if key not in retired or value != retired[key]}
