"""Training data: encoded examples, and batches of examples of similar length."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from decabench.models import Family, Item, find_family
from decabench.tasks import Output
from decabench.training.config import TrainConfig
from decabench.vectors import Lexicon

Integers = npt.NDArray[np.int64]
_POOL = 128  # the number of batches whose examples are sorted by length together
_LEAST_POOL = 8  # the minimum number, because the last batch of a pool is not full


@dataclass(frozen=True)
class Ragged:
    """Arrays of different lengths, stored as one."""

    values: npt.NDArray[Any]
    """The arrays, concatenated."""
    ends: Integers
    """The end of each array in `values`."""

    @classmethod
    def of(cls, arrays: Sequence[npt.NDArray[Any]]) -> Ragged:
        return cls(np.concatenate(arrays), np.cumsum([len(array) for array in arrays]))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, row: int) -> npt.NDArray[Any]:
        return self.values[(self.ends[row - 1] if row else 0) : self.ends[row]]

    @property
    def lengths(self) -> Integers:
        return np.diff(self.ends, prepend=0)


@dataclass(frozen=True)
class TaskData:
    """A task's training examples."""

    name: str
    """The task's name."""
    columns: Mapping[str, Ragged]
    """Columns by name, each with one row per example."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def item(self, row: int) -> Item:
        """Return one example, as the family encoded it."""
        return {name: column[row] for name, column in self.columns.items()}

    @property
    def lengths(self) -> Mapping[str, Integers]:
        """The lengths of each column's rows, by column name."""
        return {name: column.lengths for name, column in self.columns.items()}


@dataclass(frozen=True)
class TrainingData:
    """The data of a training run."""

    lexicon: Lexicon
    """All words. The most frequent ones, which form the vocabulary, come first (Appendix D)."""
    outputs: Mapping[str, Output]
    """Each task's output, including all labels found in the data."""
    tasks: Mapping[str, TaskData]
    """The training examples, by task."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """`TASK.SPLIT` to the fingerprint of the prepared data."""


def count_words(tasks: Iterable[TaskData], family: Family, words: int) -> Integers:
    """Count how often each word occurs in the training examples."""
    counts = np.zeros(words, dtype=np.int64)
    for task in tasks:
        for name, column in task.columns.items():
            if family.columns[name] == "words":
                counts += np.bincount(column.values, minlength=words)
    return counts


def renumber_words(
    tasks: Mapping[str, TaskData], family: Family, numbers: npt.NDArray[np.int32]
) -> dict[str, TaskData]:
    """Replace the number of each word by `numbers[number]`."""

    def renumber(name: str, column: Ragged) -> Ragged:
        return Ragged(numbers[column.values], column.ends) if family.columns[name] == "words" else column

    return {
        task: TaskData(task, {name: renumber(name, column) for name, column in data.columns.items()})
        for task, data in tasks.items()
    }


@dataclass(frozen=True)
class BatchRule:
    """Rules for the content of a batch."""

    budget: int
    """The capacity of a batch, which always holds at least one example."""
    counts: str = "sum"
    """The unit of the capacity: `examples`, their number; `sum`, the sum of their sizes; `padded`, their number
    times the largest padded length. The family defines sizes and padded lengths."""
    grouping: str = "lengths"
    """The setting `grouping`: in what way a batch's examples are similar."""
    count_marks: bool = False
    """Whether the marks around texts count."""

    @classmethod
    def of(cls, config: TrainConfig, task: str, processes: int = 1) -> BatchRule:
        """Return a run's rule for a task, with each batch large enough for all processes."""
        examples = config.batch_sizes.get(task, config.batch_examples)
        return cls(
            (examples or config.batch_tokens) * processes,
            "examples" if examples else config.batch_rule,
            config.grouping,
            config.count_marks,
        )


def cut_batches(data: TaskData, family: Family, rule: BatchRule, seed: int, epoch: int) -> list[Integers]:
    """Split one pass over a task into batches of rows. The same arguments always give the same batches.

    Unless the rule's grouping is `none`, examples of similar length are grouped within a pool of 128 batches. For
    `lengths` the pool is the family's share of a pass if that is smaller, but at least 8 batches.
    """
    random = np.random.default_rng([seed, zlib.crc32(data.name.encode()), epoch])
    order = random.permutation(len(data))
    lengths = data.lengths
    counted = lengths if rule.count_marks else {name: each - family.marks for name, each in lengths.items()}
    match rule.counts:
        case "examples":
            sizes = np.ones(len(data), dtype=np.int64)
        case "padded":
            sizes = family.padded_lengths(counted)
        case _:
            sizes = family.sizes(counted)
    keys = family.sort_keys(lengths, by_answer=rule.grouping == "answers")
    most, least = (max(1, int(batches * rule.budget / sizes.mean())) for batches in (_POOL, _LEAST_POOL))
    pool = most
    if rule.grouping == "lengths":
        pool = min(most, max(least, math.ceil(len(data) * family.pool_share)))
    made: list[Integers] = []
    for start in range(0, len(order), pool):
        rows = order[start : start + pool]
        if rule.grouping != "none":
            rows = rows[np.lexsort([key[rows] for key in keys])]
        at = 0
        while at < len(rows):
            # No batch has more examples than this, because none is smaller than the smallest.
            size = sizes[rows[at : at + rule.budget // max(1, int(sizes[rows].min())) + 1]]
            fills = np.cumsum(size)
            if rule.counts == "padded":
                fills = np.maximum.accumulate(size) * np.arange(1, len(size) + 1)
            end = at + max(1, int(np.searchsorted(fills, rule.budget, "right")))
            made.append(rows[at:end])
            at = end
    return [made[number] for number in random.permutation(len(made))]


class BatchStream:
    """An endless stream of a task's batches. Its position is two numbers, so a run can resume from it."""

    def __init__(
        self, data: TaskData, config: TrainConfig, processes: int = 1, position: Sequence[int] = (0, 0)
    ) -> None:
        """Start at `position`, (pass, batch). Batches are large enough for all processes."""
        self.data = data
        self._family, self._seed = find_family(config.model.name), config.seed
        self._rule = BatchRule.of(config, data.name, processes)
        self.epoch, self.batch = position
        self._batches = self._cut(self.epoch)

    def _cut(self, epoch: int) -> list[Integers]:
        return cut_batches(self.data, self._family, self._rule, self._seed, epoch)

    def count(self, epoch: int) -> int:
        """Count the batches of a pass; passes are numbered from 0."""
        return len(self._batches if epoch == self.epoch else self._cut(epoch))

    @property
    def position(self) -> tuple[int, int]:
        """(pass, batch) of the next batch."""
        return self.epoch, self.batch

    @property
    def begins_pass(self) -> int:
        """Return the number of the pass that starts with the next batch, counted from 1; 0 if none does."""
        return (
            self.epoch + 1 if self.batch == 0 else self.epoch + 2 if self.batch == len(self._batches) else 0
        )

    def begin(self, epoch: int) -> None:
        """Skip the rest of the current pass, and go to the beginning of another."""
        if epoch != self.epoch:
            self._batches = self._cut(epoch)
        self.epoch, self.batch = epoch, 0

    def __next__(self) -> Integers:
        if self.batch == len(self._batches):
            self.begin(self.epoch + 1)
        self.batch += 1
        return self._batches[self.batch - 1]
