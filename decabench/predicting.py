"""Runs a predictor over tasks and writes its submission."""

from __future__ import annotations

import datetime
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import decabench
from decabench.errors import DecabenchError, UnknownNameError
from decabench.layout import FOLDER, file_name
from decabench.metadata import METADATA_NAME
from decabench.predictor import Predictor, Question, Setting
from decabench.predictors import PREDICTORS
from decabench.submission import SubmissionInfo, read_metadata, write_submission
from decabench.tasks import Task
from decabench.tasks.home import make_folder, storage_errors
from decabench.tasks.plugins import load_entry_point, load_object, plugin_names
from decabench.tasks.registry import named
from decabench.tasks.store import Store

__all__ = ["GROUP", "PART", "Run", "find_predictor", "predict"]

GROUP = "decabench.predictors"
"""The entry-point group of packages that bring predictors."""

RESULTS = "results"
"""Where in a submission's folder `decabench evaluate` puts its results."""

PART = ".partial"
"""Where in its folder a submission is written before it is whole."""


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
    """Predicts every task and writes the submission, all of it or nothing. Raises DecabenchError.

    What the folder has of the same predictor for other tasks and splits stays; answers of another are replaced.
    """
    found = find_predictor(run.predictor)
    predictions = {(task.name, run.split): _answers(run, found, task) for task in run.tasks}
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
    old, _ = read_metadata(run.output)
    goes_on = old is not None and (old.name, old.predictor) == (info.name, info.predictor)
    if old is not None and goes_on:
        info = replace(info, data={**old.data, **info.data})
    with _part(run.output) as part:
        write_submission(part, info, predictions, compress=run.compress)
        stale = {file_name(*pair) for pair in predictions} if goes_on else None
        _put_in_place(part, run.output, stale)
    return run.output


@contextmanager
def _part(output: Path) -> Iterator[Path]:
    """A folder for what is not whole yet; nothing of it is left, nor of `output` where that was made for it."""
    part, is_new = output / PART, not output.exists()
    shutil.rmtree(part, ignore_errors=True)  # of a run that was killed
    try:
        yield make_folder(part)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        if is_new and output.is_dir() and not any(output.iterdir()):
            output.rmdir()


def _put_in_place(part: Path, output: Path, stale: set[str] | None) -> None:
    """Removes the old answers, all of them for None, and moves in the new; submission.toml goes first, comes last."""
    with storage_errors(output):
        (output / METADATA_NAME).unlink(missing_ok=True)
        shutil.rmtree(output / RESULTS, ignore_errors=True)  # they were of the old answers
        for path in sorted((output / FOLDER).glob("*.jsonl*")):
            name = path.name.removesuffix(".gz").removesuffix(".zst")
            if name.endswith(".jsonl") and (stale is None or name in stale):
                path.unlink()
        for path in sorted((part / FOLDER).iterdir()):
            os.replace(path, make_folder(output / FOLDER) / path.name)
        os.replace(part / METADATA_NAME, output / METADATA_NAME)


def _predictor(found: Any, run: Run, task: Task) -> Predictor:
    setting = Setting(
        task=task,
        split=run.split,
        training_answers=lambda: _first_answers(run.store, task.name, "train"),
        gold_answers=lambda: _gold(run.store, task.name, run.split),
        seed=run.seed,
    )
    if isinstance(found, Predictor) and not isinstance(found, type):
        return found
    made = _outside(run, task, partial(found, setting)) if callable(found) else found
    if not isinstance(made, Predictor):
        raise UnknownNameError(
            f"{run.predictor} is no predictor: it needs a method predict(questions) that returns one text each."
        )
    return made


def _outside(run: Run, task: Task, call: Callable[[], Any]) -> Any:
    """What somebody else's code returns; what it raises is said to be its own."""
    try:
        return call()
    except DecabenchError:
        raise
    except Exception as error:
        raise DecabenchError(
            f"The predictor {run.predictor} failed on {task.name} ({type(error).__name__}: {error}): run again with "
            "--debug for the place."
        ) from error


def _first_answers(store: Store, task: str, split: str) -> Iterator[str]:
    return (row["answers"][0] for row in store.read(task, split, ("answers",)))


def _gold(store: Store, task: str, split: str) -> Mapping[str, str]:
    return {row["id"]: row["answers"][0] for row in store.read(task, split, ("id", "answers"))}


def _answers(run: Run, found: Any, task: Task) -> Iterator[tuple[str, str]]:
    predictor = _predictor(found, run, task)  # only now, so that one model at a time is in memory
    questions = (
        Question(**row) for row in run.store.read(task.name, run.split, ("id", "question", "context"))
    )
    while batch := list(islice(questions, run.batch_size)):
        answers = _outside(run, task, partial(_texts, predictor, batch))
        if answers is None or len(answers) != len(batch):
            raise DecabenchError(
                f"{run.predictor} was given {len(batch)} questions of {task.name} and must return as many texts."
            )
        yield from zip((question.id for question in batch), answers, strict=True)


def _texts(predictor: Predictor, batch: list[Question]) -> list[str] | None:
    """The answers as a list of strings, or None for anything else: a single string is no list of them."""
    answers: object = predictor.predict(batch)
    if isinstance(answers, str) or not isinstance(answers, Iterable):
        return None
    texts = list(answers)
    return texts if all(isinstance(text, str) for text in texts) else None
