"""Training data, encoded as integer ids and split into batches of similar length.

Encoded data is cached in the home folder and shared by all runs.
"""

from __future__ import annotations

import json
import math
import os
import time
import unicodedata
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from decabench.errors import DataError, DecabenchError, MissingDataError, StorageError, require_name
from decabench.files import file_digest, fingerprint, write_file
from decabench.models import (
    FAMILIES,
    Family,
    Item,
    TextReader,
    TooLongError,
    find_family,
    label_names,
    output_record,
    split_of,
    with_label_names,
)
from decabench.tasks import TASKS, Example, Output, Question, Store, Task, available_splits, describe_absent
from decabench.training.config import TrainConfig
from decabench.vectors import SPECIALS, Lexicon

Integers = npt.NDArray[np.int64]
CACHE = "encoded"
"""The cache's folder in the home folder."""
_UNUSED_DAYS = 30  # entries are removed after this time without use
_POOL = 128  # the number of batches that are sorted by length together
_LEAST_POOL = 8  # the minimum, because in each pool, the last batch is only partly filled


@dataclass(frozen=True)
class Ragged:
    """Arrays of different lengths, stored as a single array."""

    values: npt.NDArray[Any]
    """The arrays, concatenated."""
    ends: Integers
    """The position in `values` where each array ends."""

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
    """A task's encoded training examples."""

    name: str
    """The task's name."""
    columns: Mapping[str, Ragged]
    """Columns by name, each with one row per example."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def item(self, row: int) -> Item:
        """Return one example, as encoded by the family."""
        return {name: column[row] for name, column in self.columns.items()}

    @property
    def lengths(self) -> Mapping[str, Integers]:
        """The row lengths by column name, each of shape (examples,)."""
        return {name: column.lengths for name, column in self.columns.items()}


@dataclass(frozen=True)
class TrainingData:
    """The data of a training run."""

    lexicon: Lexicon
    """All words, beginning with the vocabulary, which contains the most frequent words (Appendix D)."""
    outputs: Mapping[str, Output]
    """The output of each task, including all labels found in the data."""
    tasks: Mapping[str, TaskData]
    """The training examples, by task."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Maps `TASK.SPLIT` to the fingerprint of the prepared data."""


def count_words(tasks: Iterable[TaskData], family: Family, words: int) -> Integers:
    """Return how often each word occurs in the training examples."""
    counts = np.zeros(words, dtype=np.int64)
    for task in tasks:
        for name, column in task.columns.items():
            if family.columns[name] == "words":
                counts += np.bincount(column.values, minlength=words)
    return counts


def encode_tasks(store: Store, config: TrainConfig, tasks: Mapping[str, Task]) -> TrainingData:
    """Encode the tasks' training examples for the model's family.

    Tokenizing ten tasks takes minutes, so the result is cached in the home folder under a digest of all inputs. Data
    for a custom family or target form is never cached, because its code could change.

    Raises MissingDataError if a task is not prepared or has no training examples, DataError if prepared data does not
    match its record or an example can't be encoded, and DecabenchError if a split to encode has hidden labels.
    """
    _refuse_hidden(store, config, tasks)
    prints = {**fingerprints(store, config.tasks, "train"), **fingerprints(store, config.tasks, "validation")}
    ours = config.model.name in FAMILIES and all(
        tasks[name] is TASKS.get(name) for name in config.target_forms
    )
    entry = store.home / CACHE / f"{_cache_key(store, config, tasks)}.safetensors" if ours else None
    if entry and (known := _read_cache(entry, config, tasks)):
        return replace(known, fingerprints=prints)
    family, lexicon = find_family(config.model.name), Lexicon()
    for name in config.tasks:
        for split in _splits_read(config):
            store.require_content(name, split)
    outputs: dict[str, Output] = {}
    found: dict[str, TaskData] = {}
    for name in config.tasks:
        found[name], outputs[name] = _read_task(store, tasks[name], config, family, lexicon)
    counts = count_words(found.values(), family, len(lexicon))
    if config.validation_words and not config.learn_validation:  # otherwise they are already counted
        for name in config.tasks:
            counts = _add_validation(store, tasks[name], config, family, lexicon, counts)
    # Words that occur only in skipped examples are in the lexicon, but must not be in the vocabulary.
    limit = min(config.model.vocabulary, int((counts[len(SPECIALS) :] >= config.minimum_count).sum()))
    made = _number_by_frequency(TrainingData(lexicon, outputs, found, prints), family, limit, counts)
    if entry:
        with suppress(StorageError):  # a run needs no cache; the home folder may be full or read-only
            _write_cache(entry, made)
    return made


def _refuse_hidden(store: Store, config: TrainConfig, tasks: Mapping[str, Task]) -> None:
    for name in config.tasks:
        for split in _splits_read(config):
            if store.hides(tasks[name], split):
                raise DecabenchError(
                    f"The {split} labels of {name} are hidden, but a checkpoint would contain words from them. Leave "
                    "out 'validation_words' and 'learn_validation'."
                )


def _splits_read(config: TrainConfig) -> tuple[str, ...]:
    return ("train", "validation") if config.validation_words or config.learn_validation else ("train",)


def _read_task(
    store: Store, task: Task, config: TrainConfig, family: Family, lexicon: Lexicon
) -> tuple[TaskData, Output]:
    """Return a task's encoded examples, and its output with all labels found, in alphabetical order."""
    skip = config.skip_context.get(task.name)
    reader = TextReader(task, lexicon, config.cut_context.get(task.name), skip, split_of(config.model))
    form = config.target_forms.get(task.name)
    items: list[Item] = []
    splits = {"train": config.train_examples or None}
    if config.learn_validation:
        splits["validation"] = None
    for split, limit in splits.items():
        known = _questions(store, task, split, form if split == "train" else None)
        for question, answer in islice(known, limit):
            try:
                item = family.encode(question, answer, task, reader)
            except TooLongError:
                continue
            except DataError as error:
                raise DataError(f"{task.name}, {split}, {question.id}: {error}") from error
            items.append(item)
    if not items:
        wanted = f" with a context of at most {skip} tokens (see 'skip_context')" if skip else ""
        raise MissingDataError(f"{task.name} has no training examples{wanted}.")
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


def _questions(
    store: Store, task: Task, split: str, form: str | None = None
) -> Iterator[tuple[Question, str]]:
    if form:
        for _, unit in groupby(store.examples(task.name, split), key=lambda example: example.units):
            earlier: list[Example] = []
            for example in unit:
                target = _target(task, split, form, example, earlier)
                yield Question(example.id, example.question, example.context), target
                earlier.append(example)
        return
    for row in store.read(task.name, split, ("id", "question", "context", "answers")):
        yield Question(row["id"], row["question"], row["context"]), row["answers"][0]


def _target(task: Task, split: str, form: str, example: Example, earlier: Sequence[Example]) -> str:
    place = f"{task.name}, {split}, {example.id}: the target form {form}"
    try:
        target: object = task.target_forms[form](example, earlier)
    except Exception as error:
        raise DataError(
            f"{place} failed ({type(error).__name__}: {error}). Fix the error in its code."
        ) from error
    if not isinstance(target, str) or not target.strip():
        raise DataError(f"{place} must return a non-empty string, but returned {target!r:.80}.")
    return target


def check_target_forms(config: TrainConfig, tasks: Mapping[str, Task]) -> None:
    """Raise DecabenchError if a form is set for a task without forms, or UnknownNameError if the form is unknown."""
    for name, form in config.target_forms.items():
        if not tasks[name].target_forms:
            raise DecabenchError(f"{name} has no target forms. Leave out target_forms.{name}.")
        require_name(form, tasks[name].target_forms, f"{name} target form")


def _add_validation(
    store: Store, task: Task, config: TrainConfig, family: Family, lexicon: Lexicon, counts: Integers
) -> Integers:
    cut, split = config.cut_context.get(task.name), split_of(config.model)
    reader = TextReader(task, lexicon, cut, split=split)
    found: list[npt.NDArray[Any]] = [np.zeros(0, np.int64)]
    for question, answer in _questions(store, task, "validation"):
        item = family.encode(question, answer, task, reader)
        found += [values for name, values in item.items() if family.columns[name] == "words"]
    more = np.bincount(np.concatenate(found), minlength=len(lexicon))
    more[: len(counts)] += counts
    return more


def _number_by_frequency(data: TrainingData, family: Family, limit: int, counts: Integers) -> TrainingData:
    """Reassign word ids by descending frequency. The first `limit` words become the vocabulary."""
    words, first = data.lexicon.words, len(SPECIALS)
    order = sorted(range(first, len(words)), key=lambda number: (-counts[number], words[number]))
    lexicon = Lexicon([words[number] for number in order[:limit]])
    lexicon.number(words[number] for number in order[limit:])
    numbers = np.arange(len(words), dtype=np.int32)
    numbers[order] = np.arange(first, len(words), dtype=np.int32)
    tasks = dict[str, TaskData]()
    for task, own in data.tasks.items():
        columns = dict(own.columns)
        for name, column in columns.items():
            if family.columns[name] == "words":
                columns[name] = Ragged(numbers[column.values], column.ends)
        tasks[task] = TaskData(task, columns)
    return replace(data, lexicon=lexicon, tasks=tasks)


def require_splits(store: Store, tasks: Collection[Task]) -> None:
    """Raise MissingDataError if the training or validation data of a task is missing."""
    for split in ("train", "validation"):
        for task in tasks:
            if split not in available_splits(task):
                raise MissingDataError(f"Training requires {split} data, but {describe_absent(task, split)}.")
        store.require(tasks, split)
        for task in tasks:
            store.require_labels(task.name, split)


def fingerprints(store: Store, tasks: Iterable[str], split: str) -> Mapping[str, str]:
    """Return the fingerprint of each task's data, with `TASK.SPLIT` as keys."""
    return {f"{task}.{split}": store.record(task, split).fingerprint for task in tasks}


def _cache_key(store: Store, config: TrainConfig, tasks: Mapping[str, Task]) -> str:
    family = FAMILIES[config.model.name].partition(":")[0]
    forms = [tasks[name].target_forms[form].__module__ for name, form in config.target_forms.items()]
    modules = (
        *forms,
        family,
        find_family(config.model.name).encode.__module__,  # families with the same `encode` share entries
        "decabench.models.batches",
        "decabench.vectors.tokenizer",
        "decabench.models.heads",
        __name__,
    )
    content: dict[str, Any] = {
        "code": file_digest(*(Path(str(import_module(name).__file__)) for name in dict.fromkeys(modules))),
        "unicode": unicodedata.unidata_version,
        "data": {
            key: value
            for split in _splits_read(config)
            for key, value in fingerprints(store, config.tasks, split).items()
        },
        "outputs": {name: output_record(tasks[name].output) for name in config.tasks},
        "question_varies": {name: tasks[name].question_varies for name in config.tasks},
        "family": family,
        "split": split_of(config.model),
        "vocabulary": config.model.vocabulary,
        "minimum_count": config.minimum_count,
        "train_examples": config.train_examples,
        "learn_validation": config.learn_validation,
        "skip_context": {name: config.skip_context.get(name) for name in config.tasks},
        "cut_context": {name: config.cut_context.get(name) for name in config.tasks},
        "target_forms": dict(config.target_forms),
    }
    return fingerprint(content).removeprefix("sha256:")


def _write_cache(entry: Path, data: TrainingData) -> None:
    arrays = {
        f"{task}/{column}/{name}": np.ascontiguousarray(getattr(ragged, name))
        for task, own in data.tasks.items()
        for column, ragged in own.columns.items()
        for name in ("values", "ends")
    }
    words, size = data.lexicon.words[len(SPECIALS) :], data.lexicon.size - len(SPECIALS)
    labels = {task: label_names(output) for task, output in data.outputs.items()}
    content = {"vocabulary": words[:size], "others": words[size:], "labels": labels}
    write_file(entry, save(arrays, {name: json.dumps(value) for name, value in content.items()}))
    for other in entry.parent.iterdir():
        last_used = other.stat().st_mtime
        if other != entry and time.time() - last_used > _UNUSED_DAYS * 86_400:
            other.unlink(missing_ok=True)


def _read_cache(entry: Path, config: TrainConfig, tasks: Mapping[str, Task]) -> TrainingData | None:
    columns: dict[str, dict[str, Ragged]] = {task: {} for task in config.tasks}
    try:
        with safe_open(entry, "numpy") as file:
            content = {name: json.loads(value) for name, value in file.metadata().items()}
            for name in file.keys():
                task, column, kind = name.rsplit("/", 2)
                if kind == "values":
                    ends = file.get_tensor(f"{task}/{column}/ends")
                    columns[task][column] = Ragged(file.get_tensor(name), ends)
        lexicon = Lexicon(content["vocabulary"])
        lexicon.number(content["others"])
        outputs = {
            task: with_label_names(tasks[task].output, tuple(content["labels"][task]))
            for task in config.tasks
        }
        with suppress(OSError):  # the home folder may belong to another user
            os.utime(entry)  # mark as used
        return TrainingData(lexicon, outputs, {task: TaskData(task, own) for task, own in columns.items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError, DataError):
        return None


def cut_batches(data: TaskData, config: TrainConfig, epoch: int) -> list[Integers]:
    """Split one pass over a task into batches, each an array of row indexes.

    A row that exceeds the batch size gets a batch of its own. The same arguments always return the same
    batches. Unless the setting `grouping` is `none`, examples of similar length are grouped within a
    pool of 128 batches. With `lengths`, the pool is limited to the family's `pool_share` of a pass, but
    has at least 8 batches.
    """
    family, examples = (
        find_family(config.model.name),
        config.batch_sizes.get(data.name, config.batch_examples),
    )
    random = np.random.default_rng([config.seed, zlib.crc32(data.name.encode()), epoch])
    order = random.permutation(len(data))
    lengths = data.lengths
    marks = 0 if config.count_marks else family.marks
    counted = {name: each - marks for name, each in lengths.items()}
    budget, is_padded = examples or config.batch_tokens, not examples and config.batch_rule == "padded"
    if examples:
        sizes = np.ones(len(data), dtype=np.int64)
    else:
        sizes = family.padded_lengths(counted) if is_padded else family.sizes(counted)
    keys = family.sort_keys(lengths, by_answer=config.grouping == "answers")
    pool, least = (max(1, int(batches * budget / sizes.mean())) for batches in (_POOL, _LEAST_POOL))
    if config.grouping == "lengths":
        pool = min(pool, max(least, math.ceil(len(data) * family.pool_share)))
    made: list[Integers] = []
    for start in range(0, len(order), pool):
        rows = order[start : start + pool]
        if config.grouping != "none":
            rows = rows[np.lexsort([key[rows] for key in keys])]
        at = 0
        while at < len(rows):
            # Look only at as many rows as fit into a batch if all of them have the smallest size.
            size = sizes[rows[at : at + budget // max(1, int(sizes[rows].min())) + 1]]
            fills = np.cumsum(size)
            if is_padded:
                fills = np.maximum.accumulate(size) * np.arange(1, len(size) + 1)
            end = at + max(1, int(np.searchsorted(fills, budget, "right")))
            made.append(rows[at:end])
            at = end
    return [made[number] for number in random.permutation(len(made))]


class BatchStream:
    """An endless stream of a task's batches, which can be resumed from its position."""

    def __init__(self, data: TaskData, config: TrainConfig, position: Sequence[int] = (0, 0)) -> None:
        """Start at `position`, a pair of 0-based indexes: the pass, and the batch within that pass."""
        self._data, self._config = data, config
        self.epoch, self.batch = position
        self._batches = cut_batches(data, config, self.epoch)

    def count(self, epoch: int) -> int:
        """Return the number of batches in a pass; passes are numbered from 0."""
        same = epoch == self.epoch
        return len(self._batches if same else cut_batches(self._data, self._config, epoch))

    @property
    def position(self) -> tuple[int, int]:
        """The 0-based indexes of the current pass and of the next batch in it."""
        return self.epoch, self.batch

    @property
    def begins_pass(self) -> int:
        """The number of the pass that the next batch starts, counted from 1; 0 if it doesn't start a pass."""
        return (
            self.epoch + 1 if self.batch == 0 else self.epoch + 2 if self.batch == len(self._batches) else 0
        )

    def __next__(self) -> Integers:
        if self.batch == len(self._batches):
            self.epoch, self.batch = self.epoch + 1, 0
            self._batches = cut_batches(self._data, self._config, self.epoch)
        self.batch += 1
        return self._batches[self.batch - 1]
