"""Runs a predictor over tasks and writes its submission.

Answers go to a journal as they come (`decabench.journal`); the submission is made of the journals once every task is
answered, so that it is all there or not there, and the same whether or not the run was interrupted.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import decabench
from decabench.answering import Progress, Silent, Tally, answer_task
from decabench.assembly import predictions
from decabench.engines import BATCH, Engine, EngineOptions, make_engine
from decabench.errors import DecabenchError
from decabench.journal import FOLDER as JOURNAL
from decabench.journal import Journal
from decabench.layout import FOLDER, file_name
from decabench.metadata import METADATA_NAME
from decabench.planning import ALL_VARIANTS, Part, Plan, Run, plan
from decabench.submission import SubmissionInfo, read_metadata, write_predictions, write_submission
from decabench.tasks.home import make_folder, storage_errors

__all__ = ["PART", "RUN_FILE", "VARIANTS", "Report", "Run", "occupied_by", "predict", "run_predictor"]

RESULTS = "results"
"""Where in a submission's folder `decabench evaluate` puts its results."""

PART = ".partial"
"""Where in its folder a submission is written before it is whole."""

VARIANTS = "variants"
"""Where in a submission's folder the answers to other wordings are."""

_ERROR_LENGTH = 500

RUN_FILE = "run.json"
"""Times and memory of the last run: no part of the submission."""

Pair = tuple[str, str]
Lines = Iterator[dict[str, Any]]


@dataclass(frozen=True)
class Report:
    """What a run did."""

    folder: Path
    """The submission."""
    tallies: Sequence[Tally]
    """One for each task and wording, in order."""

    @property
    def failed(self) -> int:
        """Examples without an answer."""
        return sum(tally.failed for tally in self.tallies)


def predict(run: Run) -> Path:
    """Predicts every task and writes the submission, all of it or nothing. Raises DecabenchError.

    What the folder has of the same predictor for other tasks and splits stays; answers of another are replaced.
    """
    return run_predictor(plan(run)).folder


def run_predictor(planned: Plan, progress: Progress | None = None) -> Report:
    """Answers what is to be answered and writes the submission. Raises DecabenchError.

    Where it raises, what was answered is in the journals, and the same run goes on from there.
    """
    run = planned.run
    with _output(run.output), _engine(planned) as engine:
        answered = [_answered(run, part, engine, progress or Silent()) for part in planned.parts]
        _write(planned, answered)
    return Report(run.output, [tally for tally, _ in answered])


def occupied_by(planned: Plan) -> str:
    """What a folder has that a run must not replace unasked, in words; nothing where the run may go on there."""
    run = planned.run
    found = {path.name for path in run.output.iterdir()} - {PART, RUN_FILE} if run.output.exists() else set()
    if METADATA_NAME in found:
        old, _ = read_metadata(run.output)
        if old is not None and _is_same(old, run, planned.predictor):
            return ""
        return (
            f"holds the submission {old.name}"
            if old is not None
            else "holds a submission that cannot be read"
        )
    if found - {JOURNAL}:
        return "is not empty"
    journals = {path.name for path in (run.output / JOURNAL).glob("*.jsonl")}
    ours = {part.key.file_name for part in planned.parts}
    return "holds the answers of a run of another model" if journals and not journals & ours else ""


@contextmanager
def _output(folder: Path) -> Iterator[None]:
    """One run at a time writes to a folder; of one that learnt nothing nothing is left."""
    from filelock import FileLock, Timeout

    is_new = not folder.exists()
    journals = make_folder(folder / JOURNAL)
    lock = journals / ".lock"
    try:
        with storage_errors(lock), FileLock(lock).acquire(timeout=0):
            yield
    except Timeout:
        raise DecabenchError(
            f"Another run is writing to {folder}: wait for it, or give this one an --output of its own."
        ) from None
    finally:
        if {path.name for path in journals.iterdir()} <= {lock.name}:
            shutil.rmtree(journals)
            if is_new and not any(folder.iterdir()):
                folder.rmdir()


def _engine(planned: Plan) -> Engine:
    run = planned.run
    options = EngineOptions(planned.backend, run.batch_size or BATCH, run.workers, run.address)
    return make_engine(run.engine, options)


def _answered(run: Run, part: Part, engine: Engine, progress: Progress) -> tuple[Tally, Journal]:
    journal = Journal(run.output, part.key)
    if run.fresh:
        with storage_errors(journal.path):
            journal.path.unlink(missing_ok=True)
    with journal:
        questions = partial(part.questions, run)
        tally = answer_task(part.name, engine, part.setting, questions, journal, progress, run.give_up_after)
    return tally, journal


def _write(planned: Plan, answered: Sequence[tuple[Tally, Journal]]) -> None:
    """The submission from the journals."""
    run = planned.run
    rows = list(zip(planned.parts, answered, strict=True))
    normal = {
        part.task.name: found for part, found in rows if not (part.variant and run.variant == ALL_VARIANTS)
    }
    old, _ = read_metadata(run.output)
    goes_on = old is not None and _is_same(old, run, planned.predictor)
    info = _info(planned, normal, old if goes_on else None)
    answers: dict[int, dict[Pair, Lines]] = {}
    for part, (_, journal) in rows:
        variant = part.variant if run.variant == ALL_VARIANTS else 0
        answers.setdefault(variant, {})[part.task.name, run.split] = _lines(run, part, journal)
    with _part(run.output) as part_folder:
        write_submission(part_folder, info, answers.pop(0), compress=run.compress)
        for variant, of_variant in answers.items():
            write_predictions(part_folder / VARIANTS / str(variant), of_variant, compress=run.compress)
        stale = {file_name(part.task.name, run.split) for part in planned.parts} if goes_on else None
        _put_in_place(part_folder, run.output, stale)


def _lines(run: Run, part: Part, journal: Journal) -> Lines:
    relabel = part.wording.relabel if part.wording and part.wording.labels else None
    return predictions(part.questions(run), journal.outcomes, part.form, relabel)


def _is_same(old: SubmissionInfo, run: Run, predictor: Mapping[str, Any]) -> bool:
    """Whether a submission is of the same predictor, and so may keep what it has of other tasks and splits."""
    return (old.name, old.predictor.get("fingerprint")) == (
        run.name or run.predictor,
        predictor["fingerprint"],
    )


def _info(
    planned: Plan, normal: Mapping[str, tuple[Tally, Journal]], old: SubmissionInfo | None
) -> SubmissionInfo:
    run = planned.run
    info = SubmissionInfo(
        name=run.name or run.predictor,
        authors=run.authors,
        description=run.description,
        date=run.date or min(journal.begun for _, journal in normal.values()),
        predictor={**planned.predictor, "decabench": decabench.__version__},
        data={_split(run, task): run.store.record(task, run.split).fingerprint for task in normal},
        partial=dict(_partial(run, normal)),
        incomplete=dict(_incomplete(run, normal)),
    )
    if old is None:
        return info
    redone = info.data.keys()
    return replace(
        info,
        date=run.date or min(info.date, old.date or info.date),
        data={**old.data, **info.data},
        partial={**_without(old.partial, redone), **info.partial},
        incomplete={**_without(old.incomplete, redone), **info.incomplete},
    )


def _split(run: Run, task: str) -> str:
    return f"{task}.{run.split}"


def _without(marks: Mapping[str, Any], redone: Collection[str]) -> dict[str, Any]:
    return {key: mark for key, mark in marks.items() if key not in redone}


def _partial(run: Run, normal: Mapping[str, tuple[Tally, Journal]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a limited run left out; a limit that leaves nothing out is none."""
    for task, (tally, _) in normal.items():
        rows = run.store.record(task, run.split).rows
        if tally.total < rows:
            answered = tally.total - tally.failed
            yield _split(run, task), {"answered": answered, "of": rows, "chosen": run.choice.text}


def _incomplete(
    run: Run, normal: Mapping[str, tuple[Tally, Journal]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for task, (tally, _) in normal.items():
        if tally.failed:
            error = tally.commonest_error[:_ERROR_LENGTH]
            yield _split(run, task), {"failed": tally.failed, "of": tally.total, "error": error}


@contextmanager
def _part(output: Path) -> Iterator[Path]:
    """A folder for what is not whole yet; nothing of it is left."""
    part = output / PART
    shutil.rmtree(part, ignore_errors=True)  # of a run that was killed
    try:
        yield make_folder(part)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _put_in_place(part: Path, output: Path, stale: set[str] | None) -> None:
    """Removes the old answers, all of them for None, and moves in the new; submission.toml goes first, comes last."""
    with storage_errors(output):
        (output / METADATA_NAME).unlink(missing_ok=True)
        shutil.rmtree(output / RESULTS, ignore_errors=True)  # they were of the old answers
        if stale is None:
            shutil.rmtree(output / VARIANTS, ignore_errors=True)
        for new in sorted(path.parent for path in part.rglob(FOLDER) if path.is_dir()):
            folder = output / new.relative_to(part)
            _remove(folder / FOLDER, stale)
            for path in sorted((new / FOLDER).iterdir()):
                os.replace(path, make_folder(folder / FOLDER) / path.name)
        os.replace(part / METADATA_NAME, output / METADATA_NAME)


def _remove(folder: Path, stale: set[str] | None) -> None:
    for path in sorted(folder.glob("*.jsonl*")):
        name = path.name.removesuffix(".gz").removesuffix(".zst")
        if name.endswith(".jsonl") and (stale is None or name in stale):
            path.unlink()
