"""Runs a predictor over tasks and writes its submission."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import decabench
from decabench.errors import DecabenchError, SubmissionError
from decabench.predictor import Predictor, Question, Setting
from decabench.predictors import PREDICTORS
from decabench.submission import SubmissionInfo, write_submission
from decabench.tasks import Task
from decabench.tasks.plugins import load_entry_point, load_object, plugin_names
from decabench.tasks.registry import named
from decabench.tasks.store import Store

__all__ = ["GROUP", "Run", "find_predictor", "predict"]

GROUP = "decabench.predictors"
"""The entry-point group of packages that bring predictors."""


@dataclass(frozen=True)
class Run:
    """What `decabench predict` was asked for."""

    predictor: str
    """A name, an entry point's name, or `package.module:object`."""
    tasks: Sequence[Task]
    """Which tasks, in order."""
    split: str
    """Which split."""
    output: Path
    """The submission's folder."""
    store: Store
    """Where the data is prepared."""
    name: str = ""
    """The submission's name; the predictor's unless given."""
    authors: tuple[str, ...] = ()
    """Who made it."""
    description: str = ""
    """A sentence or more on how it answers."""
    seed: int = 0
    """For predictors that draw."""
    batch_size: int = 64
    """How many questions a call gets."""
    compress: Any = None
    """`gz`, `zst` or None."""
    date: str = field(default_factory=lambda: datetime.date.today().isoformat())
    """When it ran."""


def find_predictor(name: str) -> Any:
    """A predictor or a factory of predictors, by name. Raises UnknownNameError."""
    if name in PREDICTORS:
        return PREDICTORS[name]
    if ":" in name:
        return load_object(name)
    points = plugin_names(GROUP)
    return load_entry_point(points[named(name, (*PREDICTORS, *points), "predictor")])


def predict(run: Run) -> Path:
    """Predicts every task and writes the submission. Raises DecabenchError; leaves no half-written file."""
    found = find_predictor(run.predictor)
    predictions = {
        (task.name, run.split): _answers(run, _predictor(found, run, task), task) for task in run.tasks
    }
    info = SubmissionInfo(
        name=run.name or run.predictor,
        authors=run.authors,
        description=run.description,
        date=run.date,
        predictor={"name": run.predictor, "seed": run.seed, "decabench": decabench.__version__},
        data={
            f"{task.name}.{run.split}": run.store.record(task.name, run.split).fingerprint
            for task in run.tasks
        },
    )
    write_submission(run.output, info, predictions, compress=run.compress)
    return run.output


def _predictor(found: Any, run: Run, task: Task) -> Predictor:
    setting = Setting(
        task=task,
        split=run.split,
        training_answers=lambda: _first_answers(run.store, task.name, "train"),
        gold_answers=lambda: _gold(run.store, task.name, run.split),
        seed=run.seed,
    )
    made = found if isinstance(found, Predictor) and not isinstance(found, type) else found(setting)
    if not isinstance(made, Predictor):
        raise SubmissionError(
            f"{run.predictor} is no predictor: it needs a method predict(questions) that returns one text each."
        )
    return made


def _first_answers(store: Store, task: str, split: str) -> Iterator[str]:
    return (row["answers"][0] for row in store.read(task, split, ("answers",)))


def _gold(store: Store, task: str, split: str) -> Mapping[str, str]:
    return {row["id"]: row["answers"][0] for row in store.read(task, split, ("id", "answers"))}


def _answers(run: Run, predictor: Predictor, task: Task) -> Iterator[tuple[str, str]]:
    questions = (
        Question(**row) for row in run.store.read(task.name, run.split, ("id", "question", "context"))
    )
    while batch := list(islice(questions, run.batch_size)):
        answers = predictor.predict(batch)
        if len(answers) != len(batch) or not all(isinstance(answer, str) for answer in answers):
            raise DecabenchError(
                f"{run.predictor} was given {len(batch)} questions of {task.name} and must return as many texts."
            )
        yield from zip((question.id for question in batch), answers, strict=True)
