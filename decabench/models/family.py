"""Model families, which define how a model reads examples, what it learns and how it answers.

A family is a `Family` with a configuration class, `encode`, `build` and optionally `collate`, which replaces
the default batch. The trainer, checkpoints, `decabench export`, `decabench analyze` and the predictor
`trained:CHECKPOINT` work with any family. See docs/how-to/own-network.md for a complete family to start from, and
`classifier.py` for another example.

    Example ──encode──▶ item ──collate──▶ batch ──losses──▶ {name: (sum, count)}
                                              └──answers──▶ one ModelReply for each example

**Items** map column names to one-dimensional arrays. During prediction there is no answer, so items contain
only the columns that the network reads. After all data has been read, words are renumbered by frequency, and
the first `config.vocabulary` words become the vocabulary. The trainer caches items on disk, so `encode` runs
once for each example.

**Heads** depend on the tasks' outputs. `build` receives the output of every task, including its labels, and
`heads.py` has a head for each kind of output. A family that answers in free text has one decoder for all
tasks.

**Losses** have names. Each loss is a column of the training log and can be weighted in the configuration
(`loss_weights`). Training minimizes the weighted total of sum / count. Adversarial and regularization terms
are losses too.
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
"""Maps each loss to its sum over a batch and the count to divide by: tokens, sentences, or 1 for a
penalty."""


Count = Annotated[int, msgspec.Meta(ge=1)]
"""A setting of at least 1."""
Depth = Annotated[int, msgspec.Meta(ge=1, le=1_000)]
"""A setting from 1 to 1,000, such as a number of layers. Larger networks would take minutes to build, even without
allocating memory.
"""
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e300)]
"""A finite setting of at least 0."""
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
"""A setting from 0 to 1."""
EvenWidth = Annotated[int, msgspec.Meta(ge=2, multiple_of=2)]
"""An even setting of at least 2, such as a width that is split between the two directions of a BiLSTM."""
Rate = Annotated[float, msgspec.Meta(ge=0, lt=1)]
"""A setting of at least 0 and below 1, such as a dropout rate."""


class ModelConfig(Protocol):
    """The `[model]` table of a family: a frozen dataclass that has defaults and validates its values.

    Optional fields:

    - `train_embeddings` (bool): Whether word vectors are trained. If the field is missing, they are fixed.
    - `unseen_vectors` (bool): Whether words that have no trained vector keep their vectors from files.
    - `sparse_gradients` (bool): Whether embeddings get sparse gradients, which only some optimizers support.
    - `split` (str): How TextReader splits texts into words.
    """

    @property
    def name(self) -> str:
        """The model's name, either a key of FAMILIES or `package.module:object`."""

    @property
    def vocabulary(self) -> int:
        """The maximum size of the vocabulary, which contains the most frequent words of the training data."""


def split_of(config: ModelConfig) -> Split:
    """Return how TextReader splits a model's texts, by default at spaces."""
    return cast(Split, getattr(config, "split", "spaces"))


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A model's answer to one question."""

    text: str
    """The answer."""
    finished: bool
    """Whether the answer ended within the token limit."""
    read: int
    """The number of tokens in the context and question."""
    said: int
    """The number of tokens in the answer, including <eos>, or the number of tags or labels."""
    context_kept: int | None = None
    """The number of context characters the model saw, or None if it saw the whole context."""


class Batch(Protocol):
    """Several examples of one task, as tensors."""

    def __len__(self) -> int: ...

    def to(self, device: torch.device) -> Self:
        """Return a copy of the batch on a device."""


class MultitaskNetwork(nn.Module):
    """The network returned by a family's `build`, with `losses`, `answers` and optional hooks.

    The trainer calls the hooks at the times given in their docstrings. Keep a hook's state in buffers
    (`register_buffer`), so that checkpoints include it and a resumed run restores it.
    """

    vocabulary_rows: tuple[str, ...] = ()
    """The names, or name prefixes, of parameters that have a row for each word of the vocabulary.

    With `--init`, the rows of words that are in both vocabularies are copied.
    """

    def table_rows(self, lexicon: Lexicon) -> Mapping[str, Mapping[str, int]]:
        """Return the row index of each key in tables other than the vocabulary's, such as a table of n-grams.

        The result maps each table's parameter name to a mapping from keys to row indexes. With `--init`, the rows
        whose keys are in both networks are copied.
        """
        return {}

    def losses(self, batch: Any) -> Losses:
        """Return the losses of a batch."""
        raise NotImplementedError

    def answers(self, batch: Any, limit: int | None = None, beam: int = 1) -> list[ModelReply]:
        """Return the answers to a batch, in order.

        `limit` (in tokens) is passed only if the family has the ability "max_new_tokens", and `beam` only if it has
        the ability "beam".
        """
        raise NotImplementedError

    def forward(self, *batches: Any) -> list[Losses]:
        """Return the losses of several batches, which belong to different tasks trained in the same step.

        Override this method if the network can process several batches together, for example in a single recurrent
        loop.
        """
        return [self.losses(batch) for batch in batches]

    def begin_epoch(self, epoch: int) -> None:
        """Prepare for an epoch, counted from 1.

        The trainer calls this at the start of each epoch, unless the run's length is set in steps.
        """

    def begin_pass(self, task: str, number: int) -> None:
        """Prepare for a pass over a task's training data, which the trainer is about to start.

        `number` counts the task's passes from 1.
        """

    def adjust_gradients(self) -> None:
        """Change the gradients in place, for example by adding a penalty.

        The trainer calls this before clipping the gradients.
        """

    def before_step(self, rate: float) -> None:
        """Change the parameters in place, for example to apply a weight decay that clipping must not scale.

        The trainer calls this after clipping the gradients and before the optimizer's step. `rate` is the learning rate
        of the step.
        """


Lengths = Mapping[str, Integers]
"""Maps each column's name to the length of every example's row."""


@dataclass(frozen=True)
class Family:
    """A model family: its configuration, encoding, network and abilities."""

    config: type[Any]
    """The class of the `[model]` table, a dataclass that follows ModelConfig."""
    columns: Mapping[str, Literal["words", "labels", "numbers"]]
    """The content of each column: lexicon ids (`words`), ids of the task's labels (`labels`), or `numbers`."""
    outputs: tuple[type[Any], ...]
    """The supported kinds of output, out of Text, Label, Tags, Tree and Number."""
    encode: Callable[[Question, str | None, Task, TextReader], Item]
    """Encodes an example: (question, answer, task, reader) -> item. The answer is None during prediction. Can raise
    DataError."""
    build: Callable[[Any, Mapping[str, Any], WordTable], MultitaskNetwork]
    """Builds a new network: (configuration, outputs by task name, words) -> network."""
    collate: Callable[[str, Sequence[Item], WordTable, Any], Batch] | None = None
    """Combines items into a batch: (task name, items, words, configuration) -> batch. If None, batches are ColumnBatch
    objects."""
    losses: tuple[str, ...] = ("loss",)
    """The names of the losses. If there is only one, it is logged as `loss`."""
    measures: tuple[str, ...] = ()
    """The names of losses that are logged but not added to the total, such as the proportion of open
    gates.
    """
    marks: int = 0
    """The number of special tokens, such as <init> and <eos>, that `encode` adds to each text. They don't
    count toward a batch's size unless `count_marks` is set.
    """
    size: Callable[[Lengths], Integers] | None = None
    """Returns how much of a batch's capacity each example uses. If None, an example's size is its number of words."""
    padded: Callable[[Lengths], Integers] | None = None
    """Returns the length used by `batch_rule = "padded"`. If None, `size` is used."""
    order: Callable[[Lengths, bool], Sequence[Integers]] | None = None
    """Returns sort keys for grouping similar examples, primary key last. The second argument is True if the setting
    `grouping` is `answers`. If `order` is None, `size` is used."""
    pool_share: float = 1.0
    """The largest proportion of a pass's examples that `grouping = "lengths"` sorts together. With
    smaller values, batches vary more between passes.
    """
    abilities: frozenset[str] = frozenset()
    """Optional features: "beam" and "max_new_tokens" (options of `decabench predict`), and "contextual"
    (vectors that depend on the whole text, which `collate` looks up)."""
    training_only: tuple[str, ...] = ()
    """Name prefixes of buffers that only training uses, and always sets before use. `--init` and exports leave them
    out."""
    analyses: Mapping[str, str] = field(default_factory=dict)
    """The analyses for `decabench analyze`: each name maps to the `module:object` of an `Analysis`."""

    def make_batch(self, task: str, items: Sequence[Item], words: WordTable, config: Any) -> Batch:
        """Return a batch with a task's items, in order."""
        if self.collate is not None:
            return self.collate(task, items, words, config)
        return ColumnBatch.of(task, items, words, self.columns, vectors=self.has_fixed_vectors(config))

    def sizes(self, lengths: Lengths) -> Integers:
        """Return how much of a batch's capacity each example uses."""
        if self.size is not None:
            return self.size(lengths)
        words = [lengths[name] for name in lengths if self.columns[name] == "words"]
        total: Integers = np.sum(words, axis=0, dtype=np.int64)
        return total

    def padded_lengths(self, lengths: Lengths) -> Integers:
        """Return the length by which `batch_rule = "padded"` measures each example."""
        return self.padded(lengths) if self.padded is not None else self.sizes(lengths)

    def sort_keys(self, lengths: Lengths, by_answer: bool = False) -> Sequence[Integers]:
        """Return the keys used by `np.lexsort` to order examples before splitting them into batches."""
        return (self.sizes(lengths),) if self.order is None else self.order(lengths, by_answer)

    @property
    def has_heads(self) -> bool:
        """Whether the network has a head for each task, and can answer only tasks it was trained on."""
        return set(self.columns.values()) != {"words"}

    @staticmethod
    def has_fixed_vectors(config: Any) -> bool:
        """Return whether the network reads word vectors from files, even if only for words outside its table."""
        return not getattr(config, "train_embeddings", False) or getattr(config, "unseen_vectors", False)

    def check_tasks(self, name: str, tasks: Iterable[Task]) -> None:
        """Raise DecabenchError if the model `name` of this family can't answer one of the tasks."""
        tasks = list(tasks)
        if wrong := [task for task in tasks if not isinstance(task.output, self.outputs)]:
            can = " or ".join(kind.__name__ for kind in self.outputs)
            which = ", ".join(f"{task.name} ({type(task.output).__name__})" for task in wrong)
            raise DecabenchError(
                f"The model {name} supports only outputs of type {can}, so it can't answer {which}. Choose other "
                "tasks, or another model."
            )
        for task in tasks:
            if self.has_heads and isinstance(task.output, Label) and not task.output.names:
                raise DecabenchError(
                    f"The model {name} chooses from one list of labels per task, but each question of "
                    f"{task.name} has its own labels. Choose another task or model, or list the labels in the "
                    "task's output."
                )


def find_family(name: str, said_by: str = "") -> Family:
    """Return the family of a model, given its name or `package.module:object`.

    If the name comes from a file, `said_by` must name that file. A custom family is then loaded only if the
    user has allowed it; see `load_named`. Raises DecabenchError if the user has not allowed it, and UnknownNameError
    if there is no such family.
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
    """Create a configuration from a `[model]` table of JSON values.

    Raises ValueError if the table is invalid, and DecabenchError if the model's family can't be loaded.
    """
    name = table.get("name")
    if not isinstance(name, str):
        raise ValueError("its model has no name")
    kind = find_family(name).config
    if unknown := table.keys() - {entry.name for entry in fields(kind)}:
        raise ValueError(f"the model {name} has no setting {min(unknown)[:60]!r}")
    return msgspec.convert(table, kind)
