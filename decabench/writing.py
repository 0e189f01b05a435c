"""From answered tasks to a submission's folder: all of it or nothing, and nothing of another predictor beside it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from decabench.answering import Tally
from decabench.assembly import predictions
from decabench.journal import Journal
from decabench.layout import FOLDER, VARIANTS, file_name
from decabench.metadata import METADATA_NAME
from decabench.planning import ALL_VARIANTS, Part, Plan, Run, submission_info
from decabench.submission import SubmissionInfo, read_metadata, write_predictions, write_submission
from decabench.tasks.home import make_folder, storage_errors

__all__ = ["PART", "Answered", "is_same", "write"]

RESULTS = "results"
"""Where in a submission's folder `decabench evaluate` puts its results."""

PART = ".partial"
"""Where in its folder a submission is written before it is whole."""

_ERROR_LENGTH = 500

Mark = Mapping[str, Any]


@dataclass(frozen=True)
class Answered:
    """One task in one wording, and what came of it."""

    part: Part
    """What was asked."""
    tally: Tally
    """How it went."""
    journal: Journal
    """The outcomes."""


def write(planned: Plan, answered: Sequence[Answered]) -> None:
    """Writes the submission from the journals. Raises StorageError."""
    run = planned.run
    old, _ = read_metadata(run.output)
    kept = old if old is not None and is_same(old, planned) else None
    answers: dict[int, dict[tuple[str, str], Iterator[dict[str, Any]]]] = {}
    for done in answered:
        of_wording = answers.setdefault(_folder(run, done.part), {})
        of_wording[done.part.task.name, run.split] = _lines(run, done)
    with _half_written(run.output) as half:
        write_submission(half, _info(planned, answered, kept), answers.pop(0), compress=run.compress)
        for number, of_wording in answers.items():
            write_predictions(half / VARIANTS / str(number), of_wording, compress=run.compress)
        redone = {file_name(task.name, run.split) for task in run.tasks} if kept else None
        _put_in_place(half, run.output, redone)


def is_same(old: SubmissionInfo, planned: Plan) -> bool:
    """Whether a submission is of the same predictor, and so may keep what it has of other tasks and splits."""
    return bool(old.predictor.get("fingerprint") == planned.predictor["fingerprint"])


def _folder(run: Run, part: Part) -> int:
    """0 for the answers that a submission is scored by; with all wordings, the others have folders of their own."""
    return part.variant if run.variant == ALL_VARIANTS else 0


def _lines(run: Run, done: Answered) -> Iterator[dict[str, Any]]:
    part = done.part
    relabel = part.wording.relabel if part.wording and part.wording.labels else None
    return predictions(part.questions(run), done.journal.outcomes, part.form, relabel)


def _info(planned: Plan, answered: Sequence[Answered], old: SubmissionInfo | None) -> SubmissionInfo:
    run = planned.run
    begun = min(done.journal.begun for done in answered)
    info = replace(
        submission_info(planned),
        date=run.date or begun,
        partial=dict(_partial(run, answered)),
        incomplete=dict(_incomplete(run, answered)),
    )
    if old is None:
        return info
    redone = tuple(info.data)
    said = {name: value for name in _ABOUT if (value := getattr(run, name))}
    return replace(
        old,  # a run that retries failures or adds a task does not take back what was said of the model
        **said,
        date=run.date or min(begun, old.date or begun),
        predictor=info.predictor,
        data={**old.data, **info.data},
        partial={**_without(old.partial, redone), **info.partial},
        incomplete={**_without(old.incomplete, redone), **info.incomplete},
    )


_ABOUT = ("name", "authors", "description", "url", "model_size", "training_data")
"""What a run may say of its submission."""


def _without(marks: Mapping[str, Mark], redone: Sequence[str]) -> dict[str, Mark]:
    """The marks of what is not written anew, a redone task's other wordings included."""
    return {
        key: mark
        for key, mark in marks.items()
        if not any(key == name or key.startswith(f"{name}.variant") for name in redone)
    }


def _partial(run: Run, answered: Sequence[Answered]) -> Iterator[tuple[str, Mark]]:
    """What a limited run left out; a limit that leaves nothing out is none."""
    for done in answered:
        rows, tally = run.store.record(done.part.task.name, run.split).rows, done.tally
        if _folder(run, done.part) == 0 and tally.total < rows:
            mark = {"answered": tally.total - tally.failed, "of": rows, "chosen": run.choice.text}
            yield f"{done.part.task.name}.{run.split}", mark


def _incomplete(run: Run, answered: Sequence[Answered]) -> Iterator[tuple[str, Mark]]:
    for done in answered:
        number, tally = _folder(run, done.part), done.tally
        if tally.failed:
            wording = f".variant{number}" if number else ""
            error = tally.commonest_error[:_ERROR_LENGTH]
            mark = {"failed": tally.failed, "of": tally.total, "error": error}
            yield f"{done.part.task.name}.{run.split}{wording}", mark


@contextmanager
def _half_written(output: Path) -> Iterator[Path]:
    """A folder for what is not whole yet; nothing of it is left."""
    half = output / PART
    shutil.rmtree(half, ignore_errors=True)  # of a run that was killed
    try:
        yield make_folder(half)
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _put_in_place(half: Path, output: Path, redone: set[str] | None) -> None:
    """Removes old answers and moves in the new ones; of files that decabench did not write none is touched.

    `redone` are the files that are written anew; None is all of them, for those are another predictor's. Then
    submission.toml goes first, so that a kill leaves no answers under another's name.
    """
    with storage_errors(output):
        if redone is None:
            (output / METADATA_NAME).unlink(missing_ok=True)
        _remove_results(output / RESULTS)
        for folder in (output, *_variant_folders(output)):
            _remove_answers(folder / FOLDER, redone)  # other wordings too: they are answers of an older run
        for new in sorted(path.parent for path in half.rglob(FOLDER) if path.is_dir()):
            folder = make_folder(output / new.relative_to(half) / FOLDER)
            for path in sorted((new / FOLDER).iterdir()):
                os.replace(path, folder / path.name)
        os.replace(half / METADATA_NAME, output / METADATA_NAME)


def _variant_folders(output: Path) -> list[Path]:
    return [path for path in sorted((output / VARIANTS).glob("*")) if path.name.isdecimal()]


def _remove_answers(folder: Path, redone: set[str] | None) -> None:
    for path in sorted(folder.glob("*.jsonl*")):
        name = path.name.removesuffix(".gz").removesuffix(".zst")
        if name.endswith(".jsonl") and (redone is None or name in redone):
            path.unlink()
    _remove_if_empty(folder, folder.parent)


def _remove_results(folder: Path) -> None:
    """They were of the old answers."""
    for split in sorted(path for path in folder.glob("*") if path.is_dir()):
        for path in (split / "results.json", split / "run.json", *split.glob("statistics/*.parquet")):
            path.unlink(missing_ok=True)
        _remove_if_empty(split / "statistics", split)
    _remove_if_empty(folder)


def _remove_if_empty(*folders: Path) -> None:
    for folder in folders:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
