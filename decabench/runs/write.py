"""Runs a predictor over tasks and writes its submission.

Answers go to a journal as they come (`decabench.journal`); the submission is made of the journals once every task is
answered, so that it is all there or not there, and the same whether or not the run was interrupted.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decabench.errors import DecabenchError
from decabench.files import make_folder, storage_errors
from decabench.predictors import Answer, Outcome
from decabench.runs.ask import Progress, Silent, Tally, TaskRun, answer_task
from decabench.runs.engine import BATCH, Engine, EngineOptions, LocalEngine
from decabench.runs.journal import FOLDER as JOURNAL
from decabench.runs.journal import Journal
from decabench.runs.plan import ALL_VARIANTS, Part, Plan, Run, plan, submission_info
from decabench.submission import (
    FOLDER,
    METADATA_NAME,
    VARIANTS,
    SubmissionInfo,
    file_name,
    read_metadata,
    write_predictions,
    write_submission,
)
from decabench.tasks import Question

if TYPE_CHECKING:
    from decabench.tasks import AnswerForm

__all__ = [
    "BATCH",
    "ENGINES",
    "FRESH",
    "PART",
    "RUN_FILE",
    "Answered",
    "Engine",
    "EngineOptions",
    "Report",
    "Run",
    "is_same",
    "make_engine",
    "occupied_by",
    "predict",
    "prediction",
    "predictions",
    "run_predictor",
    "write",
]

# ---- choice

ENGINES = ("local", "ray")
"""What `--engine` takes."""


def make_engine(name: str, options: EngineOptions) -> Engine:
    """An engine by name, to be entered before it is used. Raises DecabenchError where its extra is missing."""
    if name == "ray":
        from decabench.runs.ray_engine import RayEngine

        return RayEngine(options)
    return LocalEngine(options)


# ---- assembly

RELABELLED = "relabelled"
"""The rule that says that a variant's label word was turned into the dataset's."""


def predictions(
    questions: Iterable[Question],
    outcomes: Mapping[str, Outcome],
    form: AnswerForm | None,
    relabel: Callable[[str], str] | None,
) -> Iterator[dict[str, Any]]:
    """One line for each example that has an answer, in the order of the questions. A failure has no line."""
    for question in questions:
        outcome = outcomes.get(question.id)
        if isinstance(outcome, Answer):
            yield prediction(question, outcome, form, relabel)


def prediction(
    question: Question, answer: Answer, form: AnswerForm | None, relabel: Callable[[str], str] | None
) -> dict[str, Any]:
    """What one line of `predictions/<task>.<split>.jsonl` holds.

    `form` is how the answer stands in the text; None takes the text as it is. `relabel` turns a variant's label
    words into the dataset's.
    """
    text, rules = answer.text, []
    if form is not None:
        from decabench.prompts import extract

        extracted = extract(answer.text, form, question.question, answer.finish)
        text, rules = extracted.answer, [extracted.rule]
    if relabel is not None and (renamed := relabel(text)) != text:
        text = renamed
        rules.append(RELABELLED)
    line: dict[str, Any] = {"id": question.id, "answer": text}
    if text != answer.text:
        line["raw"] = answer.text
    if rules:
        line["rule"] = "+".join(rules)
    if answer.finish != "stop":
        line["finish"] = answer.finish
    if answer.context_kept is not None:
        line["context_kept"] = list(answer.context_kept)
    return line


# ---- writing

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


# ---- predicting

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
