"""Run baselines for a board and cache their answers in the home folder.

The answers contain text from the datasets, so they are never published. A cached folder is used only if its
files match their recorded digests and none of its inputs has changed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import decabench
import decabench.predictors
from decabench.errors import DecabenchError
from decabench.files import Paths, file_digest, fingerprint, lock_file, temporary_folder, write_file
from decabench.predictors import PREDICTORS
from decabench.runs.journal import FOLDER as JOURNAL
from decabench.runs.write import predict
from decabench.submission import FOLDER, file_name
from decabench.tasks import Label, Number, SplitRecord, Store, Suite, Tags, Task, Text, Tree, known_tasks
from decabench.untrusted import read_json

_HOME = "baselines"
_KEY = "key.json"
_LARGEST_KEY = 1 << 20
_PATIENCE = 600.0

_SUITED: Mapping[str, type] = {"first-choice": Label, "copy-context": Text, "lead-3": Text}
"""Maps baselines to the output type that they are meant for.

A baseline is left out of suites that have no task with this output type. All other baselines require only a task that
they can answer.
"""


def make_baselines(
    suite: Suite, split: str, home: Path, include: Paths = (), report: Callable[[str], object] = str
) -> Iterator[Path]:
    """Yield a submission folder for each baseline that suits the suite, with all prepared tasks that it can answer.

    `report` is called with a line for each baseline that has to be run, and for each task whose data can't be used.
    """
    store, known = Store(home), known_tasks(include)
    usable = [
        known[task] for task in suite.tasks if task in known and _is_usable(known[task], split, store, report)
    ]
    for name in PREDICTORS:
        tasks = [task for task in usable if _can_answer(name, task, split, store.records(task.name))]
        if not any(isinstance(task.output, _SUITED.get(name, object)) for task in tasks):
            continue
        folder = store.home / _HOME / suite.name / split / name
        busy = f"Another process is still writing to {folder}. Wait for that process to finish."
        with lock_file(folder, busy, _PATIENCE, "--home, or leave out the baselines with --no-baselines"):
            key = _key(name, tasks, split, store)
            if not _is_kept(folder, key, tasks, split):
                report(f"Answering {suite.name}, {split}, with {name}")
                with temporary_folder(folder.parent, name) as temporary:
                    made = temporary / name
                    about = {"authors": ("decabench",), "date": "2026-01-01"}
                    predict(name, made, tasks, split, store.home, include, **about)
                    shutil.rmtree(made / JOURNAL, ignore_errors=True)
                    write_file(made / _KEY, json.dumps({"key": key, "files": _digests(made, tasks, split)}))
                    shutil.rmtree(folder, ignore_errors=True)
                    os.rename(made, folder)
        yield folder


def _is_usable(task: Task, split: str, store: Store, report: Callable[[str], object]) -> bool:
    try:
        if split not in store.records(task.name):
            return False
        store.require_content(task.name, split)
        store.require_current(task, split)
    except DecabenchError as error:
        report(f"No baselines for {task.name}: {error}")
        return False
    return True


def _can_answer(name: str, task: Task, split: str, records: Mapping[str, SplitRecord]) -> bool:
    record, is_structured = records.get(split), isinstance(task.output, Tags | Tree)
    if record is None or not record.labelled:
        return False
    match name:
        case "majority":
            return "train" in records
        case "random":  # random tags would be those of another sentence, so their number would be wrong
            return "train" in records and not is_structured
        case "most-frequent-tag":
            return "train" in records and is_structured
        case "oracle":
            return not record.salt
        case _:
            return not is_structured and not isinstance(task.output, Number)


def _key(name: str, tasks: Sequence[Task], split: str, store: Store) -> str:
    """Return a digest of everything that affects a baseline's answers: the code, the tasks and their data."""
    records = [store.records(task.name) for task in tasks]
    return fingerprint(
        {
            "baseline": name,
            "version": decabench.__version__,
            "code": file_digest(Path(decabench.predictors.__file__).with_name("baselines.py")),
            "outputs": [[task.name, repr(task.output)] for task in tasks],
            "data": [
                [each[part].fingerprint for part in (split, "train") if part in each] for each in records
            ],
        }
    )


def _digests(folder: Path, tasks: Sequence[Task], split: str) -> dict[str, Any]:
    return {task.name: file_digest(folder / FOLDER / file_name(task.name, split)) for task in tasks}


def _is_kept(folder: Path, key: str, tasks: Sequence[Task], split: str) -> bool:
    try:
        kept = {"key": key, "files": _digests(folder, tasks, split)}
        return bool(read_json(folder / _KEY, _LARGEST_KEY) == kept)
    except (DecabenchError, OSError, ValueError):
        return False
