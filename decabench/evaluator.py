"""A submission and prepared data in, results out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from decabench.checker import check_submission
from decabench.errors import DataError, MetricError, MissingDataError, SubmissionError
from decabench.metrics.base import Item, Row
from decabench.predictions import predictions_digest, read_answers
from decabench.report import CheckReport
from decabench.results import DataUsed, Results, TaskResult, ordered
from decabench.scoring import find_metric, score_task, workers
from decabench.significance import Sample, bootstrap, interval, total
from decabench.submission import PredictionFile, Submission, open_submission
from decabench.tasks import DECATHLON, SPLITS, Task, known_tasks
from decabench.tasks.home import home_folder
from decabench.tasks.registry import named
from decabench.tasks.store import SplitRecord, Store, fingerprint_line

if TYPE_CHECKING:
    from decabench.significance import Array

__all__ = ["Scored", "evaluate", "score_submission"]


@dataclass(frozen=True)
class _Job:
    """One file of answers with the data that it answers."""

    task: Task
    file: PredictionFile
    record: SplitRecord
    references: Sequence[Item]


@dataclass(frozen=True)
class Scored:
    """One task of a submission with what its score rests on."""

    result: TaskResult
    """What goes into the results."""
    references: Sequence[Item]
    """The examples in the order of the prepared data."""
    predictions: Sequence[str] = ()
    """One answer an example; none where the task failed."""
    sample: Sample | None = None
    """The statistics; None where the task failed."""
    rows: Sequence[Row] = ()
    """The statistics of every example."""


def evaluate(
    submission: str | Path,
    split: str = "validation",
    tasks: Sequence[str] | None = None,
    home: str | Path | None = None,
    jobs: int = 1,
    include: Sequence[str | Path] = (),
) -> Results:
    """Scores a submission (a folder, .zip or .tar.gz) on one split of the prepared data.

    A task whose file has faults is `failed` in the results and never averaged; a task without a file is missing.
    More than one of `jobs` starts processes, for which a script needs its `if __name__ == "__main__":`.
    Raises MissingDataError where data is not prepared, DataError where it is not the data that the submission
    was made for, SubmissionError where there is nothing to score.
    """
    return score_submission(submission, split, tasks, home, jobs, include)[0]


def score_submission(
    submission: str | Path,
    split: str = "validation",
    tasks: Sequence[str] | None = None,
    home: str | Path | None = None,
    jobs: int = 1,
    include: Sequence[str | Path] = (),
) -> tuple[Results, dict[str, Scored]]:
    """The results, and by task what they rest on: for comparisons and for the board. Raises as `evaluate` does."""
    named(split, SPLITS, "split")
    known = known_tasks([Path(path) for path in include])
    wanted = [named(name, known, "task") for name in tasks] if tasks else None
    store = Store(home_folder(home))
    with open_submission(submission) as opened:
        files = _files(opened, split, wanted, known)
        _refuse_other_data(opened, files, store)
        made = [_job(known[task], file, store) for task, file in files.items()]
        report = _check(made[0].file.path.parents[1], made, known)
        scored = _score(made, report, jobs)
        description = asdict(opened.info)
    results = {task: found.result for task, found in scored.items()}
    drawn = {task: bootstrap(found.sample) for task, found in scored.items() if _has_spread(found.sample)}
    results = {
        task: replace(result, interval=interval(drawn[task]).ends) if task in drawn else result
        for task, result in results.items()
    }
    return Results(description, split, ordered(results), _decascore_interval(drawn)), scored


def _has_spread(sample: Sample | None) -> TypeGuard[Sample]:
    """One group alone, drawn again and again, would give an interval of no width."""
    return sample is not None and len(sample.rows) > 1


def _decascore_interval(drawn: Mapping[str, Array]) -> tuple[float, float] | None:
    if not set(DECATHLON) <= drawn.keys():
        return None
    return interval(total({task: drawn[task] for task in DECATHLON})).ends


def _files(
    submission: Submission, split: str, wanted: Sequence[str] | None, known: Mapping[str, Task]
) -> dict[str, PredictionFile]:
    files = {
        task: file
        for (task, file_split), file in submission.files.items()
        if file_split == split and task in known and (wanted is None or task in wanted)
    }
    if not files:
        named_tasks = ", ".join(wanted) if wanted else "any known task"
        raise SubmissionError(
            f"The submission has no answers for {named_tasks} on {split}: "
            f"they belong in predictions/<task>.{split}.jsonl."
        )
    return {name: files[name] for name in (*DECATHLON, *files) if name in files}


def _refuse_other_data(submission: Submission, files: Mapping[str, PredictionFile], store: Store) -> None:
    unprepared, different = [], []
    for task, file in files.items():
        try:
            found = store.record(task, file.split).fingerprint
        except MissingDataError:
            unprepared.append(task)
            continue
        stated = submission.info.data.get(f"{task}.{file.split}")
        if stated is not None and stated != found:
            different.append(f"{task} (made for {stated[:19]}…, prepared is {found[:19]}…)")
    if unprepared:
        raise MissingDataError(
            f"The data of {', '.join(unprepared)} is not prepared in {store.home}: run decabench prepare, or name the "
            "tasks to score with --tasks."
        )
    if different:
        raise DataError(
            f"The submission was made for other data than is prepared: {'; '.join(different)}; "
            "prepare the data that it was made for, or predict again."
        )


def _job(task: Task, file: PredictionFile, store: Store) -> _Job:
    record, digest, references = store.record(task.name, file.split), hashlib.sha256(), []
    for example in store.examples(task.name, file.split):
        digest.update(fingerprint_line(example))
        references.append(Item(example.answers, example.id, example.group, example.meta))
    if f"sha256:{digest.hexdigest()}" != record.fingerprint:
        raise DataError(
            f"The prepared data of {task.name}, {file.split}, is not what its record says: run decabench prepare "
            f"{task.name} --force."
        )
    return _Job(task, file, record, references)


def _check(path: Path, jobs: Sequence[_Job], known: Mapping[str, Task]) -> CheckReport:
    expected = {(job.task.name, job.file.split): [item.id for item in job.references] for job in jobs}
    return check_submission(
        path,
        expected,
        known,
        tasks=[job.task.name for job in jobs],
        splits=sorted({job.file.split for job in jobs}),
    )


def _score(jobs: Sequence[_Job], report: CheckReport, processes: int) -> dict[str, Scored]:
    with workers(processes, sum(len(job.references) for job in jobs)) as pool:
        return {job.task.name: _scored(job, report, pool) for job in jobs}


def _scored(job: _Job, report: CheckReport, pool: Executor | None) -> Scored:
    metric = find_metric(job.task.metric)
    result = TaskResult("failed", job.task.metric, metric.headline, _data(job))
    if faults := report.faults_of(job.file.name):
        failed = replace(result, reason=str(faults[0]), faults=report.count_of(job.file.name))
        return Scored(failed, job.references)
    answers = read_answers(job.file)
    predictions = [answers[item.id] for item in job.references]
    try:
        found = score_task((job.task.metric, *job.task.secondary), predictions, job.references, pool)
    except MetricError as error:  # the gold answers are not what this metric compares: the other tasks go on
        return Scored(replace(result, reason=str(error), faults=1), job.references)
    result = replace(
        result,
        status="scored",
        n=len(predictions),
        score=found.scores[found.headline],
        scores=found.scores,
        signature=found.signatures[job.task.metric],
        signatures=found.signatures,
        empty=sum(not text.strip() for text in predictions),
        predictions=predictions_digest(job.file),
    )
    groups = [item.group for item in job.references]
    sample = Sample.of(metric, found.rows, groups, job.task.name)
    return Scored(result, job.references, predictions, sample, found.rows)


def _data(job: _Job) -> DataUsed:
    record = job.record
    published = job.task.counts.get(job.file.split)
    return DataUsed(record.fingerprint, record.origin, record.verified, record.rows, published, record.note)
