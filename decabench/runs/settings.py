"""Make what a predictor is handed: a task and its training data, and nothing that leads to the answers of the split."""

from __future__ import annotations

import copyreg
from collections.abc import Iterator, Mapping
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from decabench.errors import DataError, MissingDataError
from decabench.predictors import OracleSetting, Setting
from decabench.prompts import Prompting
from decabench.tasks import Question, Store, Task, available_splits, describe_absent
from decabench.untrusted import open_parquet

__all__ = ["ORACLE", "make_setting", "reveal_gold"]

ORACLE = "oracle"
"""The one predictor that is handed the answers; no other can have its name."""


def make_setting(
    store: Store, task: Task, split: str, seed: int = 0, prompting: Prompting | None = None
) -> Setting:
    """Return what a predictor is made for; its training data is read when it asks for it."""
    path, refusal = store.path(task.name, "train"), _refusal(store, task, split)
    return Setting(
        task=_without_sources(task),
        split=split,
        training_answers=_training_answers(path, refusal),
        training_examples=_training_examples(path, refusal),
        seed=seed,
        prompting=prompting,
    )


def reveal_gold(setting: Setting, store: Store) -> OracleSetting:
    """Return the setting of the predictor `oracle`, which alone is handed the answers of the split."""
    gold = partial(_gold_answers, store, setting.task.name, setting.split)
    return OracleSetting(**vars(setting), gold_answers=gold)


class TrainingAnswers:
    """Streams the first answer of every training example. None of its attributes leads to a file."""

    __slots__ = ("__weakref__",)

    def __call__(self) -> Iterator[str]:
        """Return an iterator over the answers. Raises MissingDataError and DataError."""
        return (first for ((first, *_),) in _rows(_read_columns(_open(self), ("answers",))))


class TrainingExamples:
    """Streams the question and the first answer of every training example. None of its attributes leads to a file."""

    __slots__ = ("__weakref__",)

    def __call__(self) -> Iterator[tuple[Question, str]]:
        """Return an iterator over pairs of question and answer. Raises MissingDataError and DataError."""
        table = _read_columns(_open(self), ("id", "question", "context", "answers"))
        return (
            (Question(id, question, context), first) for id, question, context, (first, *_) in _rows(table)
        )


_FILES: WeakKeyDictionary[TrainingAnswers | TrainingExamples, tuple[Path, str]] = WeakKeyDictionary()
"""The parquet file of the training split, and why there is nothing to be had from it; empty if there is.

Here and not in the object, since the file of the split that is asked lies beside it.
"""


def _training_answers(path: Path, refusal: str) -> TrainingAnswers:
    made = TrainingAnswers()
    _FILES[made] = (path, refusal)
    return made


def _training_examples(path: Path, refusal: str) -> TrainingExamples:
    made = TrainingExamples()
    _FILES[made] = (path, refusal)
    return made


copyreg.pickle(TrainingAnswers, lambda made: (_training_answers, _FILES[made]))
copyreg.pickle(TrainingExamples, lambda made: (_training_examples, _FILES[made]))


def _open(made: TrainingAnswers | TrainingExamples) -> Path:
    path, refusal = _FILES[made]
    if refusal:
        raise MissingDataError(refusal)
    return path


def _read_columns(path: Path, names: tuple[str, ...]) -> Any:
    """Return columns as a table, read as a whole: a file that stays open would say where it is."""
    import pyarrow as pa

    try:
        with open_parquet(path) as file:
            return file.read(columns=list(names)).select(names)
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path} is damaged ({error}): run decabench prepare, and with --force if that finds nothing to do."
        ) from error


def _rows(table: Any) -> Iterator[tuple[Any, ...]]:
    for batch in table.to_batches(max_chunksize=1_000):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _refusal(store: Store, task: Task, split: str) -> str:
    """Say why a predictor gets no training data; empty if it gets it."""
    if split == "train":
        return f"The training answers of {task.name} are what is asked, so no predictor is given them."
    if "train" in store.records(task.name):
        return ""
    if "train" not in available_splits(task):
        return f"The predictor learns from training answers, but {describe_absent(task, 'train')}."
    return store.advise(task, "train")


def _without_sources(task: Task) -> Task:
    """Return the task without what leads to its files: a task of one's own may have all answers in one."""
    bare = copy(task)
    object.__setattr__(
        bare, "sources", ()
    )  # a task checks itself when it is made, and would ask for a source
    object.__setattr__(bare, "folder", None)
    object.__setattr__(bare, "definition", None)
    return bare


def _gold_answers(store: Store, task: str, split: str) -> Mapping[str, str]:
    return {row["id"]: row["answers"][0] for row in store.read(task, split, ("id", "answers"))}
