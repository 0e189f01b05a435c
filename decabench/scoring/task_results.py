"""The result of a task: a file of answers is read, checked and scored on the prepared data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from decabench.errors import DataError, MetricError, SubmissionError
from decabench.files import Paths, file_digest, require_machine
from decabench.metrics import Item
from decabench.scoring.answer_counts import context_ceiling, count_answers, count_other_forms
from decabench.scoring.ledger import Ledger, Scored, ScoredTask
from decabench.scoring.metric_scores import (
    TaskScores,
    find_metric,
    ids_of,
    score_task,
    select,
    unit_numbers,
)
from decabench.scoring.results import (
    DataUsed,
    LimitedRun,
    ScoresWithout,
    TaskResult,
    VariantScores,
    hidden_decimals,
)
from decabench.scoring.significance import Sample, describe_units, score_interval
from decabench.submission import (
    AlignedAnswers,
    AnswerKind,
    AnswerReader,
    PredictionFile,
    Submission,
    texts_digest,
)
from decabench.tasks import DECATHLON, References, SplitRecord, Store, Suite, Task, unquoted

__all__ = ["Job", "ScoringOptions", "score_job"]


@dataclass(frozen=True)
class ScoringOptions:
    """What to score in a submission, and how."""

    split: str = "validation"
    """The split."""
    tasks: Sequence[str] | None = None
    """Only these tasks; None for all that the submission answers."""
    home: str | Path | None = None
    """The folder of prepared data."""
    jobs: int = 1
    """The number of processes."""
    include: Paths = ()
    """Files that define tasks."""
    answers: AnswerKind = "extracted"
    """Whether to score the extracted answers or the model's raw output."""
    suite: Suite = DECATHLON
    """The suite whose total to compute."""
    without: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By task, the ids of examples of the split: besides the score of all, score the others alone."""
    all_texts: bool = False
    """Whether the files of scored examples hold texts that may not be passed on, too."""
    again: bool = False
    """Whether to score tasks again whose result is in the ledger."""


@dataclass(frozen=True)
class Job:
    """A file of answers, and the data that it answers."""

    task: Task
    file: PredictionFile
    scored: Scored
    traces: Sequence[tuple[int, ...]]
    store: Store
    submission: Submission

    @classmethod
    def of(
        cls, task: Task, file: PredictionFile, store: Store, submission: Submission, options: ScoringOptions
    ) -> Job:
        """Find what decides the result. Raises SubmissionError if the answers are replaced meanwhile."""
        files = submission.files_of(task.name, file.split)
        others = (number for number, each in submission.variants.items() if (task.name, file.split) in each)
        marks = [submission.info.marks(task.name, file.split, number) for number in (0, *others)]
        try:
            traces = _traces(files.values())
            digests = _digests(files)
        except FileNotFoundError:
            raise _changed_error(task.name) from None
        without = options.without.get(task.name, ())
        record = store.record(task.name, file.split)
        scored = Scored(task, record, file.split, digests, marks, options.answers, without)
        return cls(task, file, scored, traces, store, submission)

    @property
    def record(self) -> SplitRecord:
        """The record of the data, read before the references, so that data that is replaced now is noticed."""
        return self.scored.data

    @cached_property
    def references(self) -> References:
        """The references of the whole split."""
        return self.store.references(self.task.name, self.file.split)

    @property
    def answers(self) -> AnswerKind:
        """Which text of a line is scored."""
        return self.scored.answers

    @property
    def without(self) -> Sequence[str]:
        """The ids of examples without which the answers are also scored."""
        return self.scored.without

    @property
    def hidden(self) -> bool:
        """Whether the labels are hidden."""
        return bool(self.record.salt)

    def score(
        self,
        metrics: Sequence[str],
        aligned: AlignedAnswers,
        references: Sequence[Item],
        pool: Executor | None,
    ) -> TaskScores:
        """Call `score_task`. If labels are hidden, errors don't quote them and scores are rounded."""
        texts = aligned.texts(self.answers)
        refused = aligned.refused if self.answers == "extracted" else ()
        if not self.hidden:
            return score_task(metrics, texts, references, pool, refused)
        span = find_metric(self.task.metric).range
        name, split = self.task.name, self.file.split
        instead = MetricError(
            f"{self.task.metric} cannot score the {split} split, whose labels are hidden: decabench tasks validate "
            f"{name} --split {split} --hidden says why. Run it only where nobody else can read the output."
        )
        with unquoted(True, instead):
            found = score_task(metrics, texts, references, pool, refused)
        cut = {name: round(score, hidden_decimals(span, score)) for name, score in found.scores.items()}
        return replace(found, scores=cut)

    def read(self, file: PredictionFile) -> AlignedAnswers:
        """Read answers. Raises _FaultyFileError."""
        marks, ids = self.submission.info.marks(file.task, file.split, file.variant), ids_of(self.references)
        reader = AnswerReader(file, ids, marks)
        aligned = AlignedAnswers.read(reader, ids)
        if reader.fault_count:
            raise _FaultyFileError(reader.reason, reader.fault_count)
        return aligned

    def unknown(self) -> tuple[str, ...]:
        """Return the ids to leave out that no example has."""
        known = set(ids_of(self.references)) if self.without else set()
        return tuple(id_ for id_ in dict.fromkeys(self.without) if id_ not in known)


def _digests(files: Mapping[str, Path]) -> dict[str, str]:
    """Return the sha256 of each file by its path in the submission. Raises FileNotFoundError.

    A file that cannot be read is left out: reading its answers says so, as a fault.
    """
    found = {}
    for name, path in files.items():
        try:
            found[name] = file_digest(path)
        except FileNotFoundError:
            raise
        except OSError as error:
            require_machine(error, path)
    return found


def _traces(files: Iterable[Path]) -> list[tuple[int, ...]]:
    """Return what changes whenever one of the files is written or replaced, also by the same bytes."""
    return [(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for s in map(os.stat, files)]


def _changed_error(task: str) -> SubmissionError:
    return SubmissionError(
        f"The answers of {task} changed while they were being scored: evaluate again when nothing writes to them."
    )


class _FaultyFileError(SubmissionError):
    def __init__(self, reason: str, faults: int) -> None:
        super().__init__(reason)
        self.faults = faults


def score_job(job: Job, pool: Executor | None, ledger: Ledger) -> ScoredTask:
    """Score a file and keep the result. Raises SubmissionError or DataError if it or its data changed meanwhile.

    Results are used again for equal digests, so a digest of other bytes than were scored would give this score away.
    """
    name, files = job.task.name, job.submission.files_of(job.task.name, job.file.split)
    try:
        found = replace(_score_file(job, pool), files=job.scored.files, unknown=job.unknown())
        changed = _traces(files.values()) != job.traces
    except FileNotFoundError:
        changed = True
    if changed:
        raise _changed_error(name)
    if job.store.record(name, job.file.split) != job.record:
        raise DataError(f"The data of {name} was prepared anew while it was being scored: evaluate again.")
    if len(job.scored.files) == len(files):
        ledger.keep(job.scored, found)
    return found


def _score_file(job: Job, pool: Executor | None) -> ScoredTask:
    task, metric = job.task, find_metric(job.task.metric)
    record = job.record
    published = task.counts.get(job.file.split)
    data = DataUsed(record.fingerprint, record.origin, record.verified, record.rows, published, record.note)
    result = TaskResult("failed", task.metric, metric.headline, data)
    limits = job.submission.info.partial.get(f"{task.name}.{job.file.split}")
    try:
        if limits and job.hidden:
            raise _FaultyFileError(
                "its labels are hidden, and the score of a limited run would reveal some: answer all examples",
                1,
            )
        aligned = job.read(job.file)
        references = select(job.references, aligned.places)  # a limited run answers only some
        texts = aligned.texts(job.answers)
        found = job.score((task.metric, *task.secondary), aligned, references, pool)
    except _FaultyFileError as error:
        return ScoredTask(replace(result, reason=str(error), faults=error.faults), job.references)
    except MetricError as error:  # gold answers that this metric cannot score; continue with the other tasks
        return ScoredTask(replace(result, reason=str(error), faults=1), job.references)
    ids = ids_of(references)
    counts = count_answers(aligned.details.values())
    others = count_other_forms(task, ids, texts, job.references, job.store, job.file.split)
    counts = replace(counts, by_kind={**counts.by_kind, **others})
    ceiling = None
    if (
        counts.context_kept and task.extractive and not job.hidden
    ):  # it would reveal where the gold answers are
        contexts = job.store.read(task.name, job.file.split, ("id", "context"))
        ceiling = context_ceiling(counts.context_kept, references, contexts)
    score = found.scores[found.headline]
    units = unit_numbers(references)
    sample = Sample.of_levels(metric.for_data(references), found.rows, units, task.name)
    variant_rows: dict[int, Any] = {}
    all_aligned = {0: aligned}
    result = replace(
        result,
        status="partial" if limits else "scored",
        n=len(references),
        score=score,
        scores=found.scores,
        signature=found.signatures[task.metric],
        signatures=found.signatures,
        empty=sum(not text.strip() for text in texts),
        predictions=texts_digest(ids, texts),
        answers=counts.by_kind,
        ceiling=ceiling,
        partial=LimitedRun(**limits) if limits else None,
        variants=_score_variants(job, references, score, pool, variant_rows, all_aligned),
        units=describe_units(sample, task.unit_names),
        without=_score_without(job, references, texts, found),
    )
    return ScoredTask(
        result,
        references,
        texts,
        sample,
        found.rows,
        variant_rows=variant_rows,
        aligned=all_aligned,
        units=units,
        hidden=job.hidden,
    )


def _score_without(
    job: Job, references: Sequence[Item], predictions: Sequence[str], whole: TaskScores
) -> ScoresWithout | None:
    """Score the answers again without some examples; None if none is among the references.

    Also None for hidden labels, even if the submission's results file asks for it: leaving out one example would reveal
    its label. Raises DataError if no example is left.
    """
    if job.hidden:
        return None
    unwanted = set(job.without)
    ids = ids_of(references) if unwanted else []
    left_out = [id_ for id_ in ids if id_ in unwanted]
    if not left_out:
        return None
    kept = [at for at, id_ in enumerate(ids) if id_ not in unwanted]
    if not kept:
        raise DataError(
            f"All {len(references):,} examples of {job.task.name} are left out: none is left to score."
        )
    rest = select(references, kept)
    found = whole.of_part(kept, predictions, references)
    metric = find_metric(job.task.metric).for_data(rest)
    interval = score_interval(Sample.of_levels(metric, found.rows, unit_numbers(rest), job.task.name))
    return ScoresWithout(
        ids=tuple(left_out),
        n=len(rest),
        score=found.scores[found.headline],
        scores=found.scores,
        interval=interval.ends if interval else None,
    )


def _score_variants(
    job: Job,
    references: Sequence[Item],
    score: float,
    pool: Executor | None,
    rows: dict[int, Any],
    all_aligned: dict[int, AlignedAnswers],
) -> VariantScores | None:
    """Score the answers to other wordings; None if there are none.

    Their statistics go into `rows`, the answers as they were read into `all_aligned`.
    """
    scores, digests, failed = {"0": score}, {}, {}
    for number, files in job.submission.variants.items():
        file = files.get((job.task.name, job.file.split))
        if file is None:
            continue
        try:
            if number > len(job.task.variants):
                raise SubmissionError(
                    f"{job.task.name} has {len(job.task.variants)} variants, so there is no variant {number}."
                )
            aligned = job.read(file)
            if aligned.places != all_aligned[0].places:
                raise SubmissionError(f"{file.name} answers other examples than {job.file.name}.")
        except SubmissionError as error:
            failed[str(number)] = str(error)
            continue
        texts = aligned.texts(job.answers)
        found = job.score((job.task.metric,), aligned, references, pool)
        scores[str(number)] = found.scores[found.headline]
        rows[number], all_aligned[number] = found.rows, aligned
        digests[str(number)] = texts_digest(ids_of(references), texts)
    if len(scores) == 1 and not failed:
        return None
    higher_is_better = find_metric(job.task.metric).higher_is_better
    summed = VariantScores.of(scores, higher_is_better, job.task.retired_variants)
    return replace(summed, predictions=digests, failed=failed)
