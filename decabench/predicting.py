"""Runs a predictor over tasks and writes its submission.

Answers go to a journal as they come (`decabench.journal`); the submission is made of the journals once every task is
answered, so that it is all there or not there, and the same whether or not the run was interrupted.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from decabench.answering import Progress, Silent, Tally, TaskRun, answer_task
from decabench.engines import BATCH, Engine, EngineOptions, make_engine
from decabench.errors import DecabenchError
from decabench.journal import FOLDER as JOURNAL
from decabench.journal import Journal
from decabench.metadata import METADATA_NAME
from decabench.planning import Part, Plan, Run, plan
from decabench.submission import read_metadata
from decabench.tasks.home import make_folder, storage_errors
from decabench.writing import PART, Answered, is_same, write

__all__ = ["FRESH", "RUN_FILE", "Report", "Run", "occupied_by", "predict", "run_predictor"]

FRESH = ".fresh"
"""Marks the journal of a run that asks everything again, until all is answered."""

RUN_FILE = "run.json"
"""Times and memory of the last run: no part of the submission."""


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
        write(planned, answered)
        if run.fresh:
            for done in answered:
                _promote(run, done)
    return Report(run.output, [done.tally for done in answered])


def occupied_by(planned: Plan) -> str:
    """What a folder has that a run must not replace unasked, in words; nothing where the run may go on there.

    Raises DecabenchError for a folder of somebody's files, which no run takes even when it is asked to.
    """
    run = planned.run
    found = {path.name for path in run.output.iterdir()} if run.output.exists() else set()
    if METADATA_NAME in found:
        old, _ = read_metadata(run.output)
        if old is None:
            return "holds a submission that cannot be read"
        return "" if is_same(old, planned) else f"holds the submission {old.name}"
    journals = {path.name.removesuffix(FRESH) for path in (run.output / JOURNAL).glob("*.jsonl*")}
    if journals & {part.key.file_name for part in planned.parts}:
        return ""  # a run that was killed, perhaps while it put its files in place
    if journals:
        return "holds the answers of a run of another model"
    if found - {PART, JOURNAL, RUN_FILE}:
        raise DecabenchError(
            f"{run.output} is not empty and no submission: give --output a folder of its own."
        )
    return ""


@contextmanager
def _output(folder: Path) -> Iterator[None]:
    """One run at a time writes to a folder; of one that learnt nothing nothing is left."""
    from filelock import FileLock, Timeout

    is_new = not folder.exists()
    journals = make_folder(folder / JOURNAL)
    lock = FileLock(journals / ".lock")
    try:
        with storage_errors(journals):
            lock.acquire(timeout=0)
    except Timeout:
        raise DecabenchError(
            f"Another run is writing to {folder}: wait for it, or give this one an --output of its own."
        ) from None
    try:
        yield
    finally:
        _tidy(folder, is_new)
        lock.release()


def _tidy(folder: Path, is_new: bool) -> None:
    """Removes what a run made that learnt nothing."""
    journals = folder / JOURNAL
    if {path.name for path in journals.iterdir()} <= {".lock"}:
        shutil.rmtree(journals)
        if is_new and not any(folder.iterdir()):
            folder.rmdir()


def _engine(planned: Plan) -> Engine:
    run = planned.run
    options = EngineOptions(planned.backend, run.batch_size or BATCH, run.workers, run.address)
    return make_engine(run.engine, options)


def _answered(run: Run, part: Part, engine: Engine, progress: Progress) -> Answered:
    with Journal(run.output, part.key, FRESH if run.fresh else "") as journal:
        questions = partial(part.questions, run)
        tally = answer_task(
            TaskRun(part.name, engine, part.setting, questions, journal, progress, run.give_up_after)
        )
    return Answered(part, tally, journal)


def _promote(run: Run, done: Answered) -> None:
    """The new answers are appended to the journal, where they take the place of the old ones."""
    with Journal(run.output, done.part.key) as journal:
        for id_, outcome in done.journal.outcomes.items():
            journal.append(id_, outcome)
    done.journal.path.unlink(missing_ok=True)
