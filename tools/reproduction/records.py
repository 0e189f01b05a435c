"""Records of runs: what a page needs of a run, in one small file that can be kept beside the plan.

RECORDS/RUN-seed-N.zip is a submission that `decabench evaluate` scores like any other (its answers, their results, and
the whole configuration, with digests of the weights and the training data), and `training.json`: what was asked for,
the validation scores, the steps, seconds and number of weights. Weights and logs are left out, being a thousand times
larger.
"""

from __future__ import annotations

import json
import shutil
import tomllib
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from decabench.files import atomic_file
from decabench.submission import FOLDER, open_submission
from reproduction.logs import count_weights, counts_epochs, read_log
from reproduction.plan import Place, Plan, Run

TRAINING = "training.json"
_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Training:
    """What is known of the training of a run that is done."""

    weights: int | None
    """The number of weights, without embeddings."""
    steps: int
    """The number of steps."""
    seconds: float
    """The sum of their seconds."""
    step_seconds: float | None
    """Their median."""
    by_epoch: bool
    """Whether it was validated at the end of each epoch."""
    validations: list[tuple[float, str, float]]
    """(step, task, score) of each validation."""


def asked_for(plan: Plan, run: Run, place: Place) -> dict[str, Any]:
    """Return what decides about a run: its tasks, settings, the configuration file and where it starts from."""
    config, first = run.config or plan.config, plan.first_of(run)
    return {
        "tasks": list(run.tasks),
        "settings": {**plan.settings, **run.settings},
        "config": tomllib.loads((place.plan.parent / config).read_text(encoding="utf-8")) if config else {},
        "split": plan.split,
        "init": asked_for(plan, first, place) if first else None,
    }


def read_training(plan: Plan, run: Run, seed: int, place: Place) -> Training | None:
    """Return what is known of a run's training; None unless it is done. It is read from the logs once, and noted."""
    if not place.results(plan, run, seed).exists():
        return None
    note = place.submission(run.name, seed) / TRAINING
    if not note.exists():
        told = {**asdict(_read_logs(place.run(run.name, seed))), "asked": asked_for(plan, run, place)}
        with atomic_file(note) as file:
            file.write((json.dumps(told, indent=1, sort_keys=True) + "\n").encode())
    return msgspec.json.decode(note.read_bytes(), type=Training)


def _read_logs(folder: Path) -> Training:
    seconds, validations = [], []
    if (folder / "train.csv").exists():
        seconds = [float(line["seconds"]) for line in read_log(folder / "train.csv")]
    if (folder / "validation.csv").exists():
        validations = [
            (float(one["step"]), one["task"], float(one["score"]))
            for one in read_log(folder / "validation.csv")
        ]
    return Training(
        weights=count_weights(folder),
        steps=len(seconds),
        seconds=sum(seconds),
        step_seconds=median(seconds) if seconds else None,
        by_epoch=(folder / "config.toml").exists() and counts_epochs(folder),
        validations=validations,
    )


def record_file(place: Place, name: str, seed: int) -> Path | None:
    """Return where the record of a run is kept; None where no records are."""
    return place.records / f"{name}-seed-{seed}.zip" if place.records else None


def keep_record(plan: Plan, run: Run, seed: int, place: Place) -> None:
    """Write the record of a run that is done, unless there is one. The same run gives the same bytes."""
    file = record_file(place, run.name, seed)
    if file is None or file.exists() or read_training(plan, run, seed, place) is None:
        return
    submission = place.submission(run.name, seed)
    kept = [*submission.glob(f"{FOLDER}/*"), place.results(plan, run, seed), *submission.glob("*.*")]
    with atomic_file(file) as part, zipfile.ZipFile(part, "w") as archive:
        for path in sorted(path for path in kept if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(submission).as_posix(), _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes(), compresslevel=9)


def has_record(plan: Plan, run: Run, seed: int, place: Place) -> bool:
    """Whether there is a record of a run with the plan's settings. Raises SubmissionError for a damaged one."""
    file = record_file(place, run.name, seed)
    if file is None or not file.exists():
        return False
    with open_submission(file) as opened:
        assert opened.folder is not None
        return _was_asked(opened.folder / TRAINING, plan, run, place)


def has_changed(plan: Plan, run: Run, seed: int, place: Place) -> bool:
    """Whether a run is done that was trained with other settings than the plan's of today."""
    note = place.submission(run.name, seed) / TRAINING
    return note.exists() and not _was_asked(note, plan, run, place)


def _was_asked(note: Path, plan: Plan, run: Run, place: Place) -> bool:
    asked: object = json.loads(note.read_bytes())["asked"]
    return asked == asked_for(plan, run, place)


def restore_run(plan: Plan, run: Run, seed: int, place: Place) -> bool:
    """Put the answers and results of a run's record where they would be after training.

    Returns False if there is no record, or one of other settings, which the plan no longer asks for.
    Raises SubmissionError for a record that is damaged.
    """
    file = record_file(place, run.name, seed)
    if file is None or not file.exists():
        return False
    submission, results = place.submission(run.name, seed), "results"
    with open_submission(file) as opened:
        assert opened.folder is not None
        if not _was_asked(opened.folder / TRAINING, plan, run, place):
            print(f"{file}: of other settings than the plan's; left alone", flush=True)
            return False
        ignored = shutil.ignore_patterns(results)
        shutil.copytree(opened.folder, submission, ignore=ignored, dirs_exist_ok=True)
        shutil.copytree(opened.folder / results, submission / results)  # last: they say that all is there
    return True
