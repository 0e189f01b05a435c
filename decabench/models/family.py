"""Model families: a value that defines how a model reads examples, what it learns and how it answers.

A family is a `Family`: a configuration, `encode`, `build` and, if the default batch does not suit it, `collate`. The
trainer, checkpoints, schedules, `decabench export`, `decabench analyze` and the predictor `trained:CHECKPOINT` work
with any family. docs/training.md has a complete family to start from; `models/classifier.py` and `models/tagger.py`
are two more.

How data flows:

    Example ──encode──▶ item ──collate──▶ batch ──losses──▶ {name: (sum, count)}
                                              └──answers──▶ one ModelReply for each example

**Items** map column names to one-dimensional arrays of any length. A question without an answer, as in prediction, has
only the columns that the network reads. `Family.columns` defines what each column holds: "words" (numbers in the
lexicon; once all data is read, words are renumbered by frequency, and the network knows the first `config.vocabulary`),
"labels" (numbers of the task's labels, tags or relations) or "numbers" (anything else: heads of a tree, ratings). The
trainer caches items on disk, so `encode` runs once for each example, for all runs with the same data and settings.

**Tokens** come from the tokenizer (`reader.context`, `reader.text`) or from the task (`reader.tokens`): answers to
tagging and parsing tasks have one part for each whitespace token of the context. `reader.first_tokens` truncates those.

**Heads** follow from the tasks' outputs: `build` gets the output of every task, including its labels, and `heads.py`
has a head for each kind of output. A family that answers in free text has one decoder for all tasks.
`Family.outputs` lists the kinds of output that a family can produce; training refuses other tasks.

**Word vectors** are fixed (a batch contains the vectors of its words) or, with `train_embeddings` in the configuration,
the initial values of a table in the network; `layers.WordEmbedding` does both.

**Losses** have names: each is a column of the training log and can be weighted in the configuration (`loss_weights`;
a weight of 0 only logs). Training minimizes the weighted total of sum / count. Adversarial and regularizing terms are
losses too. What `Family.measures` lists is logged in the same way, but is no part of the total.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from importlib import import_module
from itertools import islice
from typing import Any, Literal, Protocol, Self

import msgspec
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from decabench.errors import DataError, DecabenchError, UnknownNameError, require_name
from decabench.plugins import load_named, load_object
from decabench.tasks import Label, Output, Question, Tags, Task, Tree
from decabench.vectors import PAD, Ids, Lexicon, WordTable, detokenize, split_words, tokenize

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
    "number_distinct",
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
    "meta-lstm": "decabench.models.meta_lstm:FAMILY",
    "lstm": "decabench.models.meta_lstm:FAMILY",
    "hyper-lstm": "decabench.models.meta_lstm:FAMILY",
    "shared-lstm": "decabench.models.meta_lstm:FAMILY",
    "psp-mtl": "decabench.models.meta_lstm:FAMILY",
    "ssp-mtl": "decabench.models.meta_lstm:FAMILY",
    "asp-mtl": "decabench.models.meta_lstm:FAMILY",
    "jmt": "decabench.models.joint_many_task:FAMILY",
    "arc-i": "decabench.models.shared_memory:FAMILY",
    "arc-ii": "decabench.models.shared_memory:FAMILY",
    "me-lstm": "decabench.models.shared_memory:FAMILY",
    "mt-cnn": "decabench.models.shared_memory:FAMILY",
    "mt-dnn": "decabench.models.shared_memory:FAMILY",
    "nbow": "decabench.models.shared_memory:FAMILY",
    "ns-mtl": "decabench.models.recurrent_modules:FAMILY",
    "cross-stitch": "decabench.models.recurrent_modules:FAMILY",
    "sluice": "decabench.models.recurrent_modules:FAMILY",
    "girnet": "decabench.models.recurrent_modules:FAMILY",
}
"""Models by name, as `module:object` to load on request. Any other family is named by its `package.module:object`."""

_WORD = re.compile(r"\S+")

Integers = npt.NDArray[np.int64]
Item = Mapping[str, npt.NDArray[Any]]
"""An example as encoded by a family: column name to one-dimensional array."""
Losses = dict[str, tuple[Tensor, "Tensor | int"]]
"""Loss name to its sum over a batch and the count to divide it by: tokens, sentences, or 1 for a penalty."""


class ModelConfig(Protocol):
    """The `[model]` table of a family: a frozen dataclass with defaults that validates its values on creation.

    It may also have `train_embeddings: bool` (without it, word vectors are fixed) and `sparse_gradients: bool` (whether
    embeddings get sparse gradients, which not every optimizer can use). With `unseen_vectors`, words outside a trained
    table keep their fixed vectors.
    """

    @property
    def name(self) -> str:
        """The model's name: a key of FAMILIES, or `package.module:object`."""

    @property
    def vocabulary(self) -> int:
        """The size of the vocabulary: the most frequent words of the training data."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A model's answer to one question."""

    text: str
    """The answer."""
    finished: bool
    """Whether the answer ended by itself, within the limit of tokens."""
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

    A hook runs just before the step that it concerns. Keep what it changes in buffers (`register_buffer`), so that it
    becomes part of the checkpoint and survives a resume.
    """

    vocabulary_rows: tuple[str, ...] = ()
    """Names (or prefixes of names) of parameters with one row for each word of the vocabulary: `--init` copies the rows
    of words in both vocabularies."""

    def table_rows(self, lexicon: Lexicon) -> Mapping[str, Mapping[str, int]]:
        """Return, for a vocabulary, the rows of parameters and buffers that are no rows of its words: their names, and
        the row of each key, such as an n-gram. `--init` copies the rows of keys in both vocabularies."""
        return {}

    def losses(self, batch: Any) -> Losses:
        """Compute the losses of a batch."""
        raise NotImplementedError

    def answers(self, batch: Any, limit: int | None = None, beam: int = 1) -> list[ModelReply]:
        """Answer a batch, in order. Only families with these abilities get a `limit` of tokens or a `beam`."""
        raise NotImplementedError

    def forward(self, *batches: Any) -> list[Losses]:
        """Compute the losses of several batches, one for each task that a step trains together.

        Override this if the network can do better than one batch after another, such as by unrolling once for all.
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

    def compile_step(self) -> None:
        """Apply torch.compile where it pays; called only if `Family.abilities` contains "compile"."""
        raise NotImplementedError

    def record_loops(self) -> None:
        """Record loops over time as CUDA graphs; called only if `Family.abilities` contains "graphs"."""
        raise NotImplementedError


class TooLongError(Exception):
    """Raised inside `encode` for a context longer than `skip_context`; the trainer skips the example."""


SPLITS = ("spaces", "tokens")
"""How texts of the recurrent families are split into words: at spaces, or as MQAN's are, with punctuation apart."""


def split_of(config: ModelConfig) -> str:
    """Return how a model's texts are split, one of SPLITS; families without the setting do not ask."""
    split: str = getattr(config, "split", "spaces")
    return split


class TextReader:
    """Encodes texts and labels of one task as numbers. Caches the last few texts, because contexts often repeat."""

    def __init__(
        self,
        task: Task,
        lexicon: Lexicon,
        cut: int | None = None,
        skip: int | None = None,
        split: str = "spaces",
    ) -> None:
        """Truncate contexts to `cut` tokens; raise TooLongError for contexts of more than `skip` tokens.

        `split`, one of SPLITS, says what words are in `first_tokens` and `words`.
        """
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
        if self._skip is not None and self._cut is not None:  # what is too long is so before it is truncated
            self._check_length(len(tokenize(text)))
        found = self._encode(text, self._cut)
        self._check_length(len(found) - 2)
        return found

    def text(self, text: str) -> Ids:
        """Number the tokens of any other text, between <init> and <eos>."""
        return self._encode(text)

    def tokens(self, text: str, lower: bool = True) -> Ids:
        """Number all whitespace tokens of a context, lower-cased or not, because each needs its part of the answer."""
        tokens = (text.lower() if lower else text).split()
        self._check_length(len(tokens))
        return np.frombuffer(self.lexicon.number(f" {token} " for token in tokens), dtype=np.int32)

    def all_words(self, texts: Sequence[str]) -> list[Ids]:
        """Number all words of the parts of a context, with their capitals and without what is no part of them."""
        found = [split_words(text) for text in texts]
        self._check_length(sum(map(len, found)))
        return [
            np.array(self.lexicon.number(f" {word} " for word in words), dtype=np.int32) for words in found
        ]

    def first_tokens(self, text: str) -> Ids:
        """Number the lower-cased words of a context, truncated to the run's `cut_context`."""
        self._cut_end = _end_of_parts if self._apart else _end_of_words
        tokens = self._words(text)
        self._check_length(len(tokens))
        return np.array(self.lexicon.number(f" {token} " for token in tokens[: self._cut]), dtype=np.int32)

    def words(self, text: str) -> Ids:
        """Number the lower-cased words of any other text."""
        return np.array(self.lexicon.number(f" {token} " for token in self._words(text)), dtype=np.int32)

    def _words(self, text: str) -> list[str]:
        """Split a text at spaces; and off its words what is no part of them, if `split` says so."""
        return split_words(text.lower()) if self._apart else text.lower().split()

    def count_kept(self, text: str) -> int | None:
        """Return how many characters of a context were read; None if it was not truncated."""
        if self._cut is None or self._cut_end is None:
            return None
        return self._cut_end(text, self._cut)

    def check_question(self, text: str) -> None:
        """Check that all examples have the same question, as their task says, if it is not read. Raises DataError."""
        if self._first_question is None:
            self._first_question = text
        if text != self._first_question:
            raise DataError(
                f"The question {text!r:.200} is not that of the examples before it, and this model would read only "
                "contexts: say question_varies=True in the task, or choose another model, such as classifier."
            )

    def labels(self, names: Iterable[str]) -> Ids:
        """Number labels, learning new ones if the task lists none. Raises DataError for labels not in a task's list."""
        found = []
        for name in names:
            if name not in self._labels:
                if not self._is_open:
                    raise DataError(
                        f"{self._task.name} has the answer {name!r}, which is not one of its labels: "
                        f"{', '.join(self._labels)}."
                    )
                self._labels[name] = len(self._labels)
            found.append(self._labels[name])
        return np.array(found, dtype=np.int32)

    @property
    def learned_labels(self) -> tuple[str, ...]:
        """The labels seen so far, in order of their numbers; () if the task lists its labels."""
        return tuple(self._labels) if self._is_open else ()

    def _check_length(self, tokens: int) -> None:
        if self._skip is not None and tokens > self._skip:
            raise TooLongError


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


@dataclass(frozen=True)
class Family:
    """A model family: how its models are configured, fed, built and asked."""

    config: type[Any]
    """The class of the `[model]` table: a dataclass that follows ModelConfig."""
    columns: Mapping[str, Literal["words", "labels", "numbers"]]
    """What each column of an item holds."""
    outputs: tuple[type[Any], ...]
    """The kinds of output that it can produce, out of Text, Label, Tags, Tree and Number."""
    encode: Callable[[Question, str | None, Task, TextReader], Item]
    """(question, answer, task, reader) -> item. The answer is None in prediction. May raise DataError."""
    build: Callable[[Any, Mapping[str, Any], WordTable], MultitaskNetwork]
    """(config, task name to output, words) -> a new network."""
    collate: Callable[[str, Sequence[Item], WordTable, Any], Batch] | None = None
    """(task name, items, words, config) -> batch. If None, batches are ColumnBatch."""
    losses: tuple[str, ...] = ("loss",)
    """The names of the losses. A single loss appears in the log only as `loss`."""
    measures: tuple[str, ...] = ()
    """Those among the losses that are only logged, such as the share of open gates; they are not part of the total."""
    marks: int = 0
    """How many marks, such as <init> and <eos>, `encode` puts around each text. They do not fill up a batch."""
    size: Callable[[Mapping[str, Integers]], Integers] | None = None
    """(column name to lengths) -> how much of a batch each example takes up. If None, its number of words."""
    padded: Callable[[Mapping[str, Integers]], Integers] | None = None
    """(column name to lengths) -> the length that `batch_rule = "padded"` counts. If None, its size."""
    order: Callable[[Mapping[str, Integers]], Sequence[Integers]] | None = None
    """(column name to lengths) -> sort keys, primary one last, to group similar examples. If None, `size`."""
    answer_order: Callable[[Mapping[str, Integers]], Sequence[Integers]] | None = None
    """The same for `grouping = "answers"`. If None, `order`."""
    pool_share: float = 1.0
    """The most of a pass over a task that `grouping = "lengths"` sorts together, so that its batches vary."""
    abilities: frozenset[str] = frozenset()
    """Optional features: "beam" and "max_new_tokens" (options of `decabench predict`); "compile" and "graphs" (in
    training); "contextual" (vectors of words in their text, which `collate` asks for)."""
    training_only: tuple[str, ...] = ()
    """Prefixes of the names of buffers that training sets, before it reads them, and answering does not read: `--init`
    and exports leave them out."""
    analyses: Mapping[str, str] = field(default_factory=dict)
    """Analyses for `decabench analyze`, by name, each the `module:object` of an `Analysis`."""

    def make_batch(self, task: str, items: Sequence[Item], words: WordTable, config: Any) -> Batch:
        """Collate items of a task into a batch, in order."""
        if self.collate is not None:
            return self.collate(task, items, words, config)
        return ColumnBatch.of(task, items, words, self.columns, vectors=self.has_fixed_vectors(config))

    def sizes(self, lengths: Mapping[str, Integers]) -> Integers:
        """Return how much of a batch each example takes up."""
        if self.size is not None:
            return self.size(lengths)
        words = [lengths[name] for name in lengths if self.columns[name] == "words"]
        total: Integers = np.sum(words, axis=0, dtype=np.int64)
        return total

    def padded_lengths(self, lengths: Mapping[str, Integers]) -> Integers:
        """Return the length of each example that `batch_rule = "padded"` counts."""
        return self.padded(lengths) if self.padded is not None else self.sizes(lengths)

    def sort_keys(self, lengths: Mapping[str, Integers], by_answer: bool = False) -> Sequence[Integers]:
        """Return the keys by which `np.lexsort` orders examples before they are split into batches."""
        order = (self.answer_order if by_answer else None) or self.order
        return order(lengths) if order is not None else (self.sizes(lengths),)

    @property
    def has_heads(self) -> bool:
        """Whether the network has a separate head for each task, so that it answers only those tasks."""
        return set(self.columns.values()) != {"words"}

    @staticmethod
    def has_fixed_vectors(config: Any) -> bool:
        """Whether the network reads word vectors from files, if only for words that its own table lacks."""
        return not getattr(config, "train_embeddings", False) or getattr(config, "unseen_vectors", False)

    def check_tasks(self, name: str, tasks: Iterable[Task]) -> None:
        """Check that a model `name` of this family can answer the tasks. Raises DecabenchError."""
        can = ", ".join(kind.__name__ for kind in self.outputs)
        wrong = [task for task in tasks if not isinstance(task.output, self.outputs)]
        if wrong:
            which = ", ".join(f"{task.name} ({type(task.output).__name__})" for task in wrong)
            raise DecabenchError(
                f"The model {name} answers tasks whose output is {can}, not {which}: leave those out, or choose "
                "another model."
            )
        if self.has_heads:
            for task in tasks:
                if isinstance(task.output, Label) and not task.output.names:
                    raise DecabenchError(
                        f"The model {name} chooses among the labels of a task, but each question of {task.name} has "
                        "its own: leave it out, list the labels in the task's output, or choose another model."
                    )


def find_family(name: str, said_by: str = "") -> Family:
    """Find a family by a model's name or by `package.module:object`.

    If a file gave the name, `said_by` says which; the user must have named it too, see `load_named`.
    Raises UnknownNameError, DecabenchError.
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
    kind = find_family(name).config
    if unknown := table.keys() - {entry.name for entry in fields(kind)}:
        raise ValueError(f"the model {name} has no setting {min(unknown)[:60]!r}")
    return msgspec.convert(table, kind)


def label_names(output: Output) -> tuple[str, ...]:
    """Return the labels, tags or relations that an output lists; () if it lists none."""
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
    """Return the distinct words of a batch's arrays, PAD first, and each array as rows of them."""
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
    """Column name to (B, T): indexes into `words` for columns of words, otherwise the values; 0 is padding."""
    lengths: Mapping[str, Tensor]
    """Column name to (B,). Stays on the CPU, where packing needs it."""

    @classmethod
    def of(
        cls, task: str, items: Sequence[Item], words: WordTable, kinds: Mapping[str, str], vectors: bool
    ) -> ColumnBatch:
        """Pad items, in order. With `vectors`, look up the vectors of the distinct words."""
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
