"""Training data: encoded examples, cached on disk, and batches of examples of similar length."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from decabench.errors import DataError, MissingDataError
from decabench.files import atomic_file
from decabench.models import (
    SPECIALS,
    Family,
    Item,
    Lexicon,
    TextReader,
    TooLongError,
    find_family,
    label_names,
    with_label_names,
)
from decabench.tasks import Output, Question, Store, Task
from decabench.training.config import TrainConfig

__all__ = ["BatchStream", "Ragged", "TaskData", "TrainingData", "cut_batches", "encode_tasks", "fingerprints"]

Integers = npt.NDArray[np.int64]
_POOL = 64  # how many batches' worth of examples to sort by length together


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


def encode_tasks(
    store: Store, config: TrainConfig, tasks: Mapping[str, Task], cache: Path | None = None
) -> TrainingData:
    """Encode the training examples of the tasks for the model's family.

    Tokenizing ten tasks takes minutes, so the result is cached in the folder `cache` and reused as long as the data and
    the settings are the same. Raises MissingDataError, DataError.
    """
    key = _cache_key(store, config)
    if cache is not None and (known := _read_cache(cache, key, config, tasks)):
        return known
    family, lexicon = find_family(config.model.name), Lexicon()
    outputs: dict[str, Output] = {}
    found: dict[str, TaskData] = {}
    for name in config.tasks:
        found[name], outputs[name] = _read_task(store, tasks[name], config, family, lexicon)
    made = _number_by_frequency(TrainingData(lexicon, outputs, found), family, config.model.vocabulary)
    if cache is not None:
        _write_cache(cache, key, made)
    return made


def _read_task(
    store: Store, task: Task, config: TrainConfig, family: Family, lexicon: Lexicon
) -> tuple[TaskData, Output]:
    """Encode a task's examples; return them and the task's output with the labels found, in alphabetical order."""
    skip = config.skip_context.get(task.name)
    reader = TextReader(task, lexicon, config.cut_context.get(task.name), skip)
    items: list[Item] = []
    rows = store.read(task.name, "train", ("id", "question", "context", "answers"))
    for row in islice(rows, config.train_examples or None):
        question = Question(row["id"], row["question"], row["context"])
        try:
            items.append(family.encode(question, row["answers"][0], task, reader))
        except TooLongError:
            continue
        except DataError as error:
            raise DataError(f"{task.name}, train, {row['id']}: {error}") from error
    if not items:
        raise MissingDataError(
            f"{task.name} has no training example with a context of {skip} tokens or fewer."
        )
    columns = {name: Ragged.of([item[name] for item in items]) for name in items[0]}
    learned = reader.learned_labels
    if not learned:
        return TaskData(task.name, columns), task.output
    order = sorted(range(len(learned)), key=learned.__getitem__)
    numbers = np.argsort(order).astype(np.int32)
    for name, column in columns.items():
        if family.columns[name] == "labels":
            columns[name] = Ragged(numbers[column.values], column.ends)
    return TaskData(task.name, columns), with_label_names(task.output, tuple(sorted(learned)))


def _number_by_frequency(data: TrainingData, family: Family, limit: int) -> TrainingData:
    """Renumber the words by descending frequency; the first `limit` become the vocabulary."""
    counts = np.zeros(len(data.lexicon), dtype=np.int64)
    for task in data.tasks.values():
        for name, column in task.columns.items():
            if family.columns[name] == "words":
                counts += np.bincount(column.values, minlength=len(counts))
    words, first = data.lexicon.words, len(SPECIALS)
    order = sorted(range(first, len(words)), key=lambda number: (-counts[number], words[number]))
    lexicon = Lexicon([words[number] for number in order[:limit]])
    lexicon.number(words[number] for number in order[limit:])
    numbers = np.arange(len(words), dtype=np.int32)
    numbers[order] = np.arange(first, len(words), dtype=np.int32)
    tasks = {
        task.name: TaskData(
            task.name,
            {
                name: Ragged(numbers[column.values], column.ends)
                if family.columns[name] == "words"
                else column
                for name, column in task.columns.items()
            },
        )
        for task in data.tasks.values()
    }
    return TrainingData(lexicon, data.outputs, tasks)


def fingerprints(store: Store, tasks: Iterable[str], split: str) -> Mapping[str, str]:
    """Return the fingerprint of each task's data."""
    return {f"{task}.{split}": store.record(task, split).fingerprint for task in tasks}


def _cache_key(store: Store, config: TrainConfig) -> str:
    """Describe everything that the encoding depends on, beginning with the version of tokenizer and file format."""
    return json.dumps(
        [
            "2",
            dict(fingerprints(store, config.tasks, "train")),
            [config.model.name, config.model.vocabulary],
            config.train_examples,
            dict(config.skip_context),
            dict(config.cut_context),
        ]
    )


def _write_cache(cache: Path, key: str, data: TrainingData) -> None:
    arrays = {
        f"{task}/{column}/{name}": np.ascontiguousarray(getattr(ragged, name))
        for task, own in data.tasks.items()
        for column, ragged in own.columns.items()
        for name in ("values", "ends")
    }
    content = {
        "key": key,
        "size": data.lexicon.size,
        "words": data.lexicon.words[len(SPECIALS) :],
        "labels": {task: label_names(output) for task, output in data.outputs.items()},
    }
    with atomic_file(cache / "numbers.safetensors") as file:
        file.write(save(arrays, {"key": key}))
    with atomic_file(cache / "words.json") as file:  # last: without it there is no cache
        file.write(json.dumps(content).encode() + b"\n")


def _read_cache(cache: Path, key: str, config: TrainConfig, tasks: Mapping[str, Task]) -> TrainingData | None:
    """Read what `_write_cache` wrote. None if it is missing, damaged or for other data: it can be rebuilt."""
    try:
        content = json.loads((cache / "words.json").read_text(encoding="utf-8"))
        with safe_open(cache / "numbers.safetensors", "numpy") as file:
            if (file.metadata() or {}).get("key") != key or content["key"] != key:
                return None
            columns: dict[str, dict[str, Ragged]] = {task: {} for task in config.tasks}
            for name in file.keys():
                if name.endswith("/values"):
                    task, column, _ = name.rsplit("/", 2)
                    ends = file.get_tensor(f"{task}/{column}/ends")
                    columns[task][column] = Ragged(file.get_tensor(name), ends)
        size = content["size"] - len(SPECIALS)
        lexicon = Lexicon(content["words"][:size])
        lexicon.number(content["words"][size:])
        outputs = {
            task: with_label_names(tasks[task].output, tuple(content["labels"][task]))
            for task in config.tasks
        }
        return TrainingData(lexicon, outputs, {task: TaskData(task, own) for task, own in columns.items()})
    except (OSError, ValueError, KeyError, TypeError, SafetensorError):
        return None


def cut_batches(
    data: TaskData, family: Family, budget: int, by_examples: bool, seed: int, epoch: int
) -> list[Integers]:
    """Split one pass over a task into batches of rows. The same arguments always give the same batches.

    Each batch holds as many examples as fit into `budget` (tokens as the family counts them, or examples), but at least
    one. Examples of similar length are grouped within a pool of 64 batches' worth.
    """
    random = np.random.default_rng([seed, zlib.crc32(data.name.encode()), epoch])
    order = random.permutation(len(data))
    lengths = data.lengths
    sizes = np.ones(len(data), dtype=np.int64) if by_examples else family.sizes(lengths)
    keys = family.sort_keys(lengths)
    pool = max(1, int(_POOL * budget / sizes.mean()))
    made: list[Integers] = []
    for start in range(0, len(order), pool):
        rows = order[start : start + pool]
        rows = rows[np.lexsort([key[rows] for key in keys])]
        total = np.cumsum(sizes[rows])
        at = 0
        while at < len(rows):
            end = int(np.searchsorted(total, budget + (total[at - 1] if at else 0), "right"))
            made.append(rows[at : max(end, at + 1)])
            at = max(end, at + 1)
    return [made[number] for number in random.permutation(len(made))]


class BatchStream:
    """An endless stream of a task's batches. Its position is two numbers, so a run can resume from it."""

    def __init__(
        self,
        data: TaskData,
        config: TrainConfig,
        processes: int = 1,
        position: Sequence[int] = (0, 0),
    ) -> None:
        """Start at `position`, (pass, batch), with each batch large enough for all processes."""
        self.data = data
        self._family, self._seed = find_family(config.model.name), config.seed
        examples = config.batch_sizes.get(data.name, config.batch_examples)
        self._by_examples = examples > 0
        self._budget = (examples or config.batch_tokens) * processes
        self.epoch, self.batch = position
        self._batches = self._cut(self.epoch)

    def _cut(self, epoch: int) -> list[Integers]:
        return cut_batches(self.data, self._family, self._budget, self._by_examples, self._seed, epoch)

    def count(self, epoch: int) -> int:
        """Count the batches of a pass; passes are numbered from 0."""
        return len(self._batches if epoch == self.epoch else self._cut(epoch))

    @property
    def position(self) -> tuple[int, int]:
        """(pass, batch) of the next batch."""
        return self.epoch, self.batch

    @property
    def begins_pass(self) -> int:
        """The number, from 1, of the pass that the next batch begins; 0 if it does not begin one."""
        return (
            self.epoch + 1 if self.batch == 0 else self.epoch + 2 if self.batch == len(self._batches) else 0
        )

    def __next__(self) -> Integers:
        if self.batch == len(self._batches):
            self.epoch, self.batch = self.epoch + 1, 0
            self._batches = self._cut(self.epoch)
        self.batch += 1
        return self._batches[self.batch - 1]
