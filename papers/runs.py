"""Train, answer, score and record the runs of a plan."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from filelock import FileLock, Timeout

import decabench
from decabench.errors import DecabenchError
from decabench.files import write_file
from decabench.predictors import ModelOptions
from decabench.scoring import find_metric, read_results_file
from decabench.tasks import Store
from papers.boards import call, score
from papers.effort import asked_for, has_changed, read_training
from papers.plan import (
    SUBMISSIONS,
    WEIGHTS,
    Place,
    Plan,
    Run,
    SeededRun,
    measured_tasks,
    seeded_runs,
    task_of,
)

ENDED = "ended"
"""The file in a run's folder that marks its training as complete."""


def train(one: SeededRun) -> None:
    """Train a run to the end. If it starts from another run's weights, that run is trained first."""
    if (one.folder / ENDED).exists():
        return
    if (first := one.first) is not None:
        with FileLock(first.lock):  # wait if another process is training it
            if not (first.folder / ENDED).exists():
                print(f"{first.title}, whose weights are needed first", flush=True)
                train(first)
    plan, run, place = one.plan, one.run, one.place
    config = run.config or plan.config
    decabench.train(
        one.folder,
        run.tasks,
        settings={**plan.settings, **run.settings, "seed": one.seed},
        config=place.plan.parent / config if config else None,
        init=one.origin,
        home=place.home,
        device=place.device,
        resume=True,
        include=place.include,
        report=lambda text: print(f"  {text}", flush=True),
    )
    write_file(one.folder / ENDED, json.dumps({"asked": asked_for(one)}))


def answer(one: SeededRun) -> None:
    """Answer the tasks that a run is measured on, and score the answers.

    All splits are answered before any is scored, because new answers remove older results. The plan's
    split is scored last, because its results mark the run as done.
    """
    place = one.place
    for split in one.splits:
        measured = measured_tasks(one.plan, split, place.include)
        decabench.predict(
            f"trained:{one.folder}",
            one.submission,
            [task for task in one.run.tasks if task in measured],
            split,
            place.home,
            place.include,
            options=ModelOptions(device=place.device),
        )
    for split in reversed(one.splits):
        score(one.plan, one.suite, one.submission, place, split)


def keep_record(one: SeededRun) -> None:
    """Write a completed run's record: its answers, results, configuration and training."""
    if read_training(one) is None:
        return
    submission = one.submission
    paths = [*submission.glob("predictions/*"), *submission.glob("*.*"), *submission.glob("results/*/*.json")]
    files = {path.relative_to(submission).as_posix(): path.read_bytes() for path in paths if path.is_file()}
    print(f"Record: {one.place.archive.add(one.name, files)}")


def complete(one: SeededRun) -> None:
    """Train, answer, score and record a run, unless it is done or another process is training it."""
    missing = [split for split in one.splits if not one.results(split).exists()]
    if one.is_scored and not (missing and (one.folder / ENDED).exists()):  # the plan may have a new measure
        return
    try:
        with FileLock(one.lock, timeout=0):
            print(one.title, flush=True)
            train(one)
            answer(one)
            keep_record(one)
            for split in one.splits:
                print(f"  {one.title}: {describe_scores(one.results(split))}", flush=True)
    except Timeout:
        print(f"{one.title} is being trained by another process", flush=True)


def describe_scores(results: Path) -> str:
    """Return a run's main scores, and the file that they come from. Errors are shown with three decimals."""
    scores = []
    for name, task in read_results_file(results).tasks.items():
        if task.score is not None:
            digits = 3 if math.isinf(find_metric(task.metric).range[1]) else 2
            scores.append(f"{name} {task.headline} {task.score:.{digits}f}")
    return f"{', '.join(scores) or 'no scores'} ({results})"


def restore(plan: Plan, place: Place) -> None:
    """Unpack the plan's records into the folder where runs store their answers.

    A record whose settings differ from the plan's is not used. Raises DecabenchError if the output folder
    contains runs with other settings.
    """
    submissions = place.output / SUBMISSIONS
    with FileLock(place.lock("records")):
        place.archive.unpack(submissions)
        for one in (one for one in seeded_runs(plan, place) if has_changed(one)):
            if one.folder.exists():
                raise DecabenchError(
                    f"{one.title} was trained with settings that differ from the plan's. Delete {one.folder} and "
                    f"{one.submission} to train it again, or choose another --output."
                )
            print(f"{one.title}: its record was not used, because its settings differ from the plan's")
            shutil.rmtree(one.submission)


def faults(plan: Plan, runs: Sequence[Run], place: Place) -> Iterator[str]:
    """Yield missing settings, tasks, data and vectors, which would otherwise stop a run after hours of training."""
    from decabench.models import Checkpoint, pick_device
    from decabench.training.config import TrainConfig, combine_settings
    from decabench.vectors import join_vectors

    opened, store = dict[tuple[str, ...], str](), Store(place.home)
    try:
        pick_device(place.device)
    except DecabenchError as error:
        yield str(error)
    for run in runs:
        config = run.config or plan.config
        try:
            path = place.plan.parent / config if config else None
            settings = {**plan.settings, **run.settings, "seed": 0}
            made, _ = combine_settings(TrainConfig(), path, settings, tasks=run.tasks)
            if run.checkpoint and not (WEIGHTS / run.checkpoint).exists():
                raise DecabenchError(
                    f"it starts from {WEIGHTS / run.checkpoint}, which does not exist. Write it with "
                    f"`python -m papers weights {place.plan.parent.name} {run.checkpoint}`."
                )
            if run.checkpoint:
                Checkpoint.open(WEIGHTS / run.checkpoint)
            for task in made.tasks:
                task_of(task, place.include)
            for split in dict.fromkeys(["train", *plan.splits_of(run)]):
                needed = made.tasks if split == "train" else measured_tasks(plan, split, place.include)
                store.require([task for task in made.tasks if task in needed], split)
        except DecabenchError as error:
            yield f"{run.name}: {error}"
            continue
        if made.vectors not in opened:
            opened[made.vectors] = ""
            try:
                join_vectors(made.vectors)
            except DecabenchError as error:
                opened[made.vectors] = str(error)
        if fault := opened[made.vectors]:
            yield f"{run.name}: {fault}"


def export_weights(one: SeededRun, folder: Path) -> None:
    """Write a run's weights in half precision, without word vectors. Trains the run first if necessary."""
    with FileLock(one.lock):
        train(one)
    call("export", "weights", str(one.folder), "--output", str(folder), "--named-vectors")
