"""A submission and prepared data in, results out."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from decabench.errors import DataError, MetricError, MissingDataError, SubmissionError, require_name
from decabench.metrics import Item, Row
from decabench.scoring.results import DataUsed, Results, TaskResult, ordered
from decabench.scoring.rows import find_metric, score_task, workers
from decabench.scoring.significance import Sample, bootstrap, interval, total
from decabench.submission import (
    Answers,
    CheckReport,
    Line,
    PredictionFile,
    Submission,
    check_submission,
    open_submission,
    predictions_digest,
    read_answers,
    read_records,
)
from decabench.tasks import (
    DECATHLON,
    SPLITS,
    SplitRecord,
    Store,
    Task,
    fingerprint_line,
    home_folder,
    known_tasks,
)

if TYPE_CHECKING:
    from decabench.scoring.significance import Array

__all__ = [
    "COUNTED",
    "Scored",
    "Scoring",
    "Told",
    "ceiling",
    "evaluate",
    "is_reachable",
    "score_submission",
    "told_of",
]

# ---- reachable

COUNTED = ("unparseable", "truncated", "refused", "context_cut")
"""What is counted, in the order in which it is said."""

_NOWHERE = "unanswerable"
"""What QA-ZRE's answer is where the context has none: no cut can take it away."""


@dataclass(frozen=True)
class Told:
    """What one file tells of its answers."""

    counts: Mapping[str, int]
    """Of `COUNTED`, those that are not 0."""
    kept: Mapping[str, tuple[int, int]]
    """By id, which characters of the context were shown, where they were not all."""


def told_of(file: PredictionFile) -> Told:
    """Reads a file of answers once. Raises SubmissionError at its first fault."""
    counts = dict.fromkeys(COUNTED, 0)
    kept: dict[str, tuple[int, int]] = {}
    for line in read_records(file):
        for name in _named(line):
            counts[name] += 1
        if line.context_kept is not None:
            kept[str(line.id)] = line.context_kept
    return Told({name: count for name, count in counts.items() if count}, kept)


def _named(line: Line) -> Iterable[str]:
    rules = line.rule.split("+")
    if "unparseable" in rules:
        yield "unparseable"
    if line.finish == "length":
        yield "truncated"
    if line.finish == "refused" or "refused" in rules:
        yield "refused"
    if line.context_kept is not None:
        yield "context_cut"


def ceiling(
    task: Task, told: Told, references: Sequence[Item], rows: Iterable[Mapping[str, Any]]
) -> float | None:
    """Of how many examples the gold answer can still be found, 0-100; None where no context of such a task was cut.

    `rows` has the id and the context of every example of the split.
    """
    if not task.extractive or not told.kept:
        return None
    golds = {item.id: item.answers for item in references if item.id in told.kept}
    lost = sum(
        not is_reachable(golds[row["id"]], row["context"], told.kept[row["id"]])
        for row in rows
        if row["id"] in golds
    )
    return 100 * (1 - lost / len(references))


def is_reachable(golds: Sequence[str], context: str, kept: tuple[int, int]) -> bool:
    """Whether the cut took none of the references, or not all that can be found in the context.

    A reference that the whole context does not have word for word is none that a cut could take away. `unanswerable`
    can always be said.
    """
    shown = context[slice(*kept)]
    before = [gold for gold in golds if gold == _NOWHERE or _has(context, gold)]
    return not before or any(gold == _NOWHERE or _has(shown, gold) for gold in before)


def _has(text: str, gold: str) -> bool:
    """Whether the text has the answer, or all of several that are joined with `, `; case and spaces aside."""
    return _has_words(text, gold) or all(_has_words(text, part) for part in gold.split(", "))


def _has_words(text: str, words: str) -> bool:
    pattern = r"\s+".join(re.escape(word) for word in words.split())
    return re.search(rf"(?<!\w){pattern}(?!\w)", text, re.IGNORECASE) is not None


# ---- evaluator


@dataclass(frozen=True)
class Scoring:
    """What to score of a submission, and how."""

    split: str = "validation"
    """Which split."""
    tasks: Sequence[str] | None = None
    """Only these; None for all that it has."""
    home: str | Path | None = None
    """Where the data is prepared."""
    jobs: int = 1
    """Processes."""
    include: Sequence[str | Path] = ()
    """Files that define tasks."""
    answers: Answers = "extracted"
    """The extracted answers, or all that the model said."""


_CONTEXT = ("id", "context")


@dataclass(frozen=True)
class _Job:
    """One file of answers with the data that it answers."""

    task: Task
    file: PredictionFile
    record: SplitRecord
    references: Sequence[Item]
    store: Store
    answers: Answers
    partial: Mapping[str, Any]
    """What submission.toml says of a limited run; empty for a whole one."""
    variants: Mapping[int, PredictionFile]
    """The answers to other wordings, by number."""


@dataclass(frozen=True)
class Scored:
    """One task of a submission with what its score rests on."""

    result: TaskResult
    """What goes into the results."""
    references: Sequence[Item]
    """The examples in the order of the prepared data; of a limited run those that it answered."""
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
    answers: Answers = "extracted",
) -> Results:
    """Scores a submission (a folder, .zip or .tar.gz) on one split of the prepared data.

    A task whose file has faults is `failed` in the results and never averaged; a task without a file is missing; one of
    a limited run is `partial`, scored on what it answered and never summed.
    More than one of `jobs` starts processes, for which a script needs its `if __name__ == "__main__":`.
    Raises MissingDataError where data is not prepared, DataError where it is not the data that the submission
    was made for, SubmissionError where there is nothing to score.
    """
    return score_submission(submission, Scoring(split, tasks, home, jobs, include, answers))[0]


def score_submission(submission: str | Path, scoring: Scoring) -> tuple[Results, dict[str, Scored]]:
    """The results, and by task what they rest on: for comparisons and for the board. Raises as `evaluate` does."""
    split = require_name(scoring.split, SPLITS, "split")
    known = known_tasks([Path(path) for path in scoring.include])
    wanted = [require_name(name, known, "task") for name in scoring.tasks] if scoring.tasks else None
    store = Store(home_folder(scoring.home))
    with open_submission(submission) as opened:
        files = _files(opened, split, wanted, known)
        _refuse_other_data(opened, files, store)
        made = [_job(known[task], file, store, opened, scoring.answers) for task, file in files.items()]
        report = _check(made[0].file.path.parents[1], made, known)
        scored = _score(made, report, scoring.jobs)
        description = opened.info.described()
    results = {task: found.result for task, found in scored.items()}
    drawn = {task: bootstrap(found.sample) for task, found in scored.items() if _has_spread(found.sample)}
    results = {
        task: replace(result, interval=interval(drawn[task]).ends) if task in drawn else result
        for task, result in results.items()
    }
    whole = {task: drawn[task] for task in drawn if results[task].status == "scored"}
    interval_of_all = _decascore_interval(whole)
    return Results(description, split, ordered(results), interval_of_all, answers=scoring.answers), scored


def _has_spread(sample: Sample | None) -> TypeGuard[Sample]:
    """One group alone, drawn again and again, would give an interval of no width."""
    return sample is not None and len(sample.rows) > 1


def _decascore_interval(drawn: Mapping[str, Array]) -> tuple[float, float] | None:
    if not set(DECATHLON.tasks) <= drawn.keys():
        return None
    return interval(total({task: drawn[task] for task in DECATHLON.tasks})).ends


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
    return {name: files[name] for name in (*DECATHLON.tasks, *files) if name in files}


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


def _job(task: Task, file: PredictionFile, store: Store, submission: Submission, answers: Answers) -> _Job:
    record, digest, references = store.record(task.name, file.split), hashlib.sha256(), []
    for example in store.examples(task.name, file.split):
        digest.update(fingerprint_line(example))
        references.append(Item(example.answers, example.id, example.group, example.meta))
    if f"sha256:{digest.hexdigest()}" != record.fingerprint:
        raise DataError(
            f"The prepared data of {task.name}, {file.split}, is not what its record says: run decabench prepare "
            f"{task.name} --force."
        )
    pair = (task.name, file.split)
    return _Job(
        task,
        file,
        record,
        references,
        store,
        answers,
        partial=submission.info.partial.get(".".join(pair), {}),
        variants={number: files[pair] for number, files in submission.variants.items() if pair in files},
    )


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
    if report.faults_of(job.file.name):
        failed = replace(result, reason=_reason(report, job.file), faults=report.count_of(job.file.name))
        return Scored(failed, job.references)
    answers = read_answers(job.file, job.answers)
    references = [item for item in job.references if item.id in answers] if job.partial else job.references
    predictions = [answers[item.id] for item in references]
    try:
        found = score_task((job.task.metric, *job.task.secondary), predictions, references, pool)
    except MetricError as error:  # the gold answers are not what this metric compares: the other tasks go on
        return Scored(replace(result, reason=str(error), faults=1), job.references)
    told = told_of(job.file)
    result = replace(
        result,
        status="partial" if job.partial else "scored",
        n=len(predictions),
        score=found.scores[found.headline],
        scores=found.scores,
        signature=found.signatures[job.task.metric],
        signatures=found.signatures,
        empty=sum(not text.strip() for text in predictions),
        predictions=predictions_digest(job.file, answers=job.answers),
        answers=told.counts,
        ceiling=ceiling(job.task, told, references, job.store.read(job.task.name, job.file.split, _CONTEXT)),
        partial=job.partial,
        variants=_variants(job, references, found.scores[found.headline], report, pool),
    )
    groups = [item.group for item in references]
    sample = Sample.of(metric, found.rows, groups, job.task.name)
    return Scored(result, references, predictions, sample, found.rows)


def _reason(report: CheckReport, file: PredictionFile) -> str:
    """The first fault; that examples failed comes before all that follows from it."""
    faults = report.faults_of(file.name)
    for fault in faults:
        if fault.code == "incomplete":
            return f"{fault.code}: {fault.message}"
    return str(faults[0])


def _variants(
    job: _Job, references: Sequence[Item], score: float, report: CheckReport, pool: Executor | None
) -> dict[str, Any]:
    """The headline under every wording; nothing where there is but the dataset's own."""
    if not job.variants:
        return {}
    scores, digests, failed = {"0": score}, {}, {}
    for number, file in job.variants.items():
        try:
            scores[str(number)] = _variant_score(job, number, file, references, report, pool)
            digests[str(number)] = predictions_digest(file, answers=job.answers)
        except SubmissionError as error:
            failed[str(number)] = str(error)
    values = list(scores.values())
    best, worst = max(values), min(values)
    if not find_metric(job.task.metric).higher_is_better:
        best, worst = worst, best
    summary = {"mean": math.fsum(values) / len(values), "worst": worst, "spread": abs(best - worst)}
    return {"scores": scores, "predictions": digests, **summary, **({"failed": failed} if failed else {})}


def _variant_score(
    job: _Job,
    number: int,
    file: PredictionFile,
    references: Sequence[Item],
    report: CheckReport,
    pool: Executor | None,
) -> float:
    """Raises SubmissionError where its file has faults or answers other examples."""
    if number > len(job.task.variants):
        raise SubmissionError(
            f"{job.task.name} has {len(job.task.variants)} variants, and none of number {number}."
        )
    if report.faults_of(file.name):
        raise SubmissionError(_reason(report, file))
    answers = read_answers(file, job.answers)
    if answers.keys() != {item.id for item in references}:
        raise SubmissionError(f"{file.name} answers other examples than {job.file.name}.")
    found = score_task((job.task.metric,), [answers[item.id] for item in references], references, pool)
    return found.scores[found.headline]


def _data(job: _Job) -> DataUsed:
    record = job.record
    published = job.task.counts.get(job.file.split)
    return DataUsed(record.fingerprint, record.origin, record.verified, record.rows, published, record.note)
