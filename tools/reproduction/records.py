"""Records of runs: what a page needs of a run, in one small file that can be kept beside the plan.

RECORDS/RUN-seed-N.zip is a submission that `decabench evaluate` scores like any other (its answers, their results, and
the whole configuration, with digests of the weights and the training data), and `training.json`: what was asked for,
the validation scores, the steps, seconds and number of weights. Weights and logs are left out, being a thousand times
larger.
"""

from __future__ import annotations

import json
import os
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from decabench.submission import FOLDER, METADATA_NAME
from reproduction.logs import count_weights, counts_epochs, read_log
from reproduction.plan import Place, Plan, Run

TRAINING = "training.json"
_DATE = (1980, 1, 1, 0, 0, 0)
_LARGEST = 64 << 20


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
    config = run.config or plan.config
    first = next((one for one in plan.runs if one.name == run.init), None)
    return {
        "tasks": list(run.tasks),
        "settings": {**plan.settings, **run.settings},
        "config": tomllib.loads((place.plan.parent / config).read_text(encoding="utf-8")) if config else {},
        "split": plan.split,
        "init": asked_for(plan, first, place) if first else None,
    }


def read_training(plan: Plan, run: Run, seed: int, place: Place) -> Training | None:
    """Return what is known of a run's training, from its logs or its record; None unless it is done."""
    if not place.results(plan, run, seed).exists():
        return None
    kept = place.submission(run.name, seed) / TRAINING
    if kept.exists():
        return msgspec.json.decode(kept.read_bytes(), type=Training)
    folder = place.run(run.name, seed)
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
    training = read_training(plan, run, seed, place)
    if file is None or training is None or file.exists():
        return
    submission = place.submission(run.name, seed)
    results = place.results(plan, run, seed)
    found = {
        path.relative_to(submission).as_posix(): path.read_bytes()
        for path in [*submission.glob(f"{FOLDER}/*"), results, *submission.glob("*.*")]
        if path.is_file() and path.name != TRAINING
    }
    told = {**msgspec.to_builtins(training), "asked": asked_for(plan, run, place)}
    found[TRAINING] = (json.dumps(told, indent=1, sort_keys=True) + "\n").encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}.part")
    with zipfile.ZipFile(part, "w") as archive:
        for name, content in sorted(found.items()):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, compresslevel=9)
    part.replace(file)


def restore_run(plan: Plan, run: Run, seed: int, place: Place) -> bool:
    """Put the answers and results of a run's record where they would be after training.

    Returns False if there is no record, or one of other settings, which the plan no longer asks for.
    Raises ValueError for a record that is not one.
    """
    file = record_file(place, run.name, seed)
    if file is None or not file.exists():
        return False
    submission, results = place.submission(run.name, seed), place.results(plan, run, seed)
    last = results.relative_to(submission).as_posix()
    with zipfile.ZipFile(file) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
        if TRAINING not in entries or METADATA_NAME not in entries:
            raise ValueError(f"{file} is no record of a run: it lacks {TRAINING} or {METADATA_NAME}.")
        if sum(entry.file_size for entry in entries.values()) > _LARGEST:
            raise ValueError(f"{file} is no record of a run: it unpacks to more than {_LARGEST >> 20} MB.")
        if json.loads(archive.read(TRAINING))["asked"] != asked_for(plan, run, place):
            print(f"{file}: of other settings than the plan's; left alone", flush=True)
            return False
        if last not in entries:
            return False
        for name in sorted(
            entries, key=lambda name: name == last
        ):  # results last: they say that all is there
            if name.startswith(f"{FOLDER}/") or "/" not in name or name == last:
                target = submission / name
                if ".." in Path(name).parts or name.endswith("/"):
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(name))
    return True
