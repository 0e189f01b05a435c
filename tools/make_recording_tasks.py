"""Make tasks of recordings: sequences of measurements, such as the activity of a brain's regions over time.

    python tools/make_recording_tasks.py OUTPUT TASK_FOLDER ... [--scale recording|training|none]
    decabench prepare memory motor --include OUTPUT/memory.toml --include OUTPUT/motor.toml
    decabench train --config OUTPUT/train.toml --set model.extension=rmn --include ... --output run

For the tf-MRI tasks of "Multi-Task Recurrent Modular Networks", whose recordings are the Human Connectome Project's and
need its licence: nothing of them is here, and whoever has them exports a folder for each task. It has `recordings.csv`
with a row for each recording:

    file,split,labels[,subject]

- `file`: a table beside it, a row for each point in time and a column for each region: `.csv`, `.tsv` or `.npy`;
- `split`: train, validation or test; recordings of one subject must be in one split only;
- `labels`: one label for the recording, or one for each point in time, separated by spaces; all rows alike.

Models of words read them as they are: a point in time becomes a word of its own (`motor-12-3`), whose vector is the
row. OUTPUT gets tables and task files, `vectors.npy` with its words in `vectors.txt`, `suite.toml`, and `train.toml`,
which keeps the vectors fixed. `recording` scales each region to mean 0 and deviation 1 in each recording, `training`
by all training recordings of all tasks.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from decabench.errors import DecabenchError
from decabench.vectors.vector_files import write_matrix

Series = npt.NDArray[np.float32]

SPLITS = ("train", "validation", "test")
SCALES = ("recording", "training", "none")
_NAME = re.compile(r"[a-z0-9._]+")


@dataclass(frozen=True)
class Recording:
    """A sequence of measurements."""

    split: str
    """Its split."""
    labels: tuple[str, ...]
    """Its label, or that of each point in time."""
    series: Series
    """(points in time, regions)"""
    subject: str
    """Whose it is; empty if the table does not say."""


class FaultError(Exception):
    """What is wrong with the recordings, in a sentence for the user."""


def read_task(folder: Path) -> list[Recording]:
    """Read a task's recordings. Raises FaultError with every fault of the folder."""
    table = folder / "recordings.csv"
    try:
        with table.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError, csv.Error) as error:
        raise FaultError(f"{table} cannot be read ({error}): it lists a task's recordings.") from error
    if not rows or missing_columns(rows[0]):
        raise FaultError(f"{table} must have rows, and the columns file, split and labels.")
    found, faults = [], []
    for number, row in enumerate(rows, 2):
        try:
            found.append(read_recording(folder, row))
        except (OSError, ValueError) as error:
            faults.append(f"line {number}: {error}")
    faults += [] if faults else list(inconsistencies(found))
    if faults:
        more = f"; and {len(faults) - 5} more faults" if len(faults) > 5 else ""
        raise FaultError(f"{table}: {'; '.join(faults[:5])}{more}.")
    return found


def missing_columns(row: dict[str, Any]) -> set[str]:
    return {"file", "split", "labels"} - set(row)


def read_recording(folder: Path, row: dict[str, str]) -> Recording:
    """Read a recording by its row of the table. Raises ValueError, OSError."""
    if row["split"] not in SPLITS:
        raise ValueError(f"the split is {row['split']!r}: give {', '.join(SPLITS)}")
    path = folder / row["file"]
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{row['file']} is outside the task's folder")
    if path.suffix == ".npy":
        series = np.load(path, allow_pickle=False)
    else:
        series = np.loadtxt(path, delimiter="\t" if path.suffix == ".tsv" else ",", ndmin=2)
    if series.ndim != 2 or not series.size or not np.issubdtype(series.dtype, np.number):
        raise ValueError(f"{row['file']} must have a row for each point in time and a column for each region")
    if not np.isfinite(series).all():
        raise ValueError(f"{row['file']} has values that are no finite numbers")
    labels = tuple((row["labels"] or "").split())
    if len(labels) not in (1, len(series)):
        raise ValueError(f"{len(labels)} labels for {len(series)} points in time: give one, or one for each")
    return Recording(row["split"], labels, series.astype(np.float32), row.get("subject") or "")


def inconsistencies(recordings: Sequence[Recording]) -> Iterable[str]:
    """Yield what does not fit together."""
    if len({is_tagged(recordings), *(len(one.labels) > 1 for one in recordings)}) > 1:
        yield "some recordings have one label and some one for each point in time"
    widths = sorted({one.series.shape[1] for one in recordings})
    if len(widths) > 1:
        yield f"recordings have {', '.join(map(str, widths))} regions: give all the same"
    subjects = {split: {one.subject for one in recordings if one.split == split} - {""} for split in SPLITS}
    for at, split in enumerate(SPLITS):
        for other in SPLITS[at + 1 :]:
            if both := sorted(subjects[split] & subjects[other]):
                yield f"subject {both[0]} is in {split} and in {other}"
    if not any(one.split == "train" for one in recordings):
        yield "no recording is for training"


def is_tagged(recordings: Sequence[Recording]) -> bool:
    """Whether each point in time has a label of its own."""
    return len(recordings[0].labels) > 1


def scale(tasks: dict[str, list[Recording]], how: str) -> dict[str, list[Series]]:
    """Return the scaled measurements of all recordings, in order."""
    if how == "none":
        return {name: [one.series for one in own] for name, own in tasks.items()}
    training = np.concatenate([one.series for own in tasks.values() for one in own if one.split == "train"])
    made = {}
    for name, own in tasks.items():
        made[name] = []
        for one in own:
            basis = one.series if how == "recording" else training
            spread = basis.std(0)
            made[name].append((one.series - basis.mean(0)) / np.where(spread > 0, spread, 1))
    return made


def write_tasks(output: Path, tasks: dict[str, list[Recording]], how: str) -> None:
    """Write the tasks, their suite, their vectors and a configuration."""
    widths = {name: own[0].series.shape[1] for name, own in tasks.items()}
    if len(set(widths.values())) > 1:
        raise FaultError(f"Tasks have {widths} regions: all must have the same, to share a network.")
    output.mkdir(parents=True, exist_ok=True)
    words: list[str] = []
    for name, own in tasks.items():
        lines: dict[str, list[str]] = {split: [] for split in SPLITS}
        for number, one in enumerate(own):
            points = [f"{name}-{number}-{time}" for time in range(len(one.series))]
            words += points
            row = {"id": str(number), "points": " ".join(points), "labels": " ".join(one.labels)}
            lines[one.split].append(json.dumps({**row, "subject": one.subject or str(number)}) + "\n")
        files = {split: f"{name}.{split}.jsonl" for split, own_lines in lines.items() if own_lines}
        for split, file in files.items():
            (output / file).write_text("".join(lines[split]), encoding="utf-8")
        (output / f"{name}.toml").write_text(task_file(name, own, files), encoding="utf-8")
    scaled = scale(tasks, how)
    vectors = np.concatenate([series for own in scaled.values() for series in own]).astype(np.float32)
    write_matrix(output / "vectors.npy", words, vectors)
    (output / "suite.toml").write_text(suite_file(list(tasks)), encoding="utf-8")
    (output / "train.toml").write_text(config_file(list(tasks), output / "vectors.npy"), encoding="utf-8")


def task_file(name: str, recordings: Sequence[Recording], files: dict[str, str]) -> str:
    """Write a task file."""
    names = sorted({label for one in recordings for label in one.labels})
    kind = "tags" if is_tagged(recordings) else "label"
    wanted = "labels of the points in time" if kind == "tags" else "label of the recording"
    listed = "\n".join(f'{split} = "{file}"' for split, file in files.items())
    return f"""format = "decabench.taskfile/1"
name = "{name}"
title = "Recordings: {name}"
dataset = "Recordings, exported by their licensee"
question = "What {"are" if kind == "tags" else "is"} the {wanted}?"
context = "{{points}}"
answer = "labels"
id = "id"
units = ["subject"]
redistributable = false
withhold_texts = true

[output]
kind = "{kind}"
names = {json.dumps(names)}

[files]
{listed}
"""


def suite_file(names: Sequence[str]) -> str:
    """Write the suite of all tasks."""
    return f"""format = "decabench.suite/1"
name = "recordings"
title = "Recordings"
description = "Sequences of measurements."
tasks = {json.dumps(list(names))}
total = "mean"
total_name = "mean accuracy"
"""


def config_file(names: Sequence[str], vectors: Path) -> str:
    """Write a configuration that trains all tasks, and leaves the measurements as they are."""
    return f"""tasks = {json.dumps(list(names))}
vectors = [{json.dumps(str(vectors.resolve()))}]
together = true
epochs = 20
rate = "constant"
learning_rate = 0.001
beta2 = 0.999
batch_examples = 16
clip = 0
validate_every = 0
validation_examples = 0
checkpoint_every = 0
best_by = "decascore"

[model]
name = "ns-mtl"
train_embeddings = false
"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("folders", type=Path, nargs="+", metavar="TASK_FOLDER")
    parser.add_argument("--scale", choices=SCALES, default="recording")
    given = parser.parse_args(arguments)
    names = [folder.name.lower() for folder in given.folders]
    if strange := [name for name in names if not _NAME.fullmatch(name) or names.count(name) > 1]:
        parser.error(f"folders are named like tasks, each once, not {', '.join(strange)}")
    try:
        tasks = {name: read_task(folder) for name, folder in zip(names, given.folders, strict=True)}
        write_tasks(given.output, tasks, given.scale)
    except (FaultError, DecabenchError) as error:
        sys.exit(str(error))
    for name, own in tasks.items():
        counts = ", ".join(f"{sum(one.split == split for one in own)} {split}" for split in SPLITS)
        print(f"{name}: {counts}; {own[0].series.shape[1]} regions")


if __name__ == "__main__":
    main()
