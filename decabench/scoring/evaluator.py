"""Evaluation: from a submission and prepared data to scores, intervals and the statistics behind them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from decabench.errors import (
    DataError,
    MetricError,
    MissingDataError,
    SubmissionError,
    UnknownNameError,
    require_name,
)
from decabench.files import Paths, file_digest, require_machine
from decabench.metrics import METRICS, REFUSED, Item, Metric, Reference, Row, count_faults, score_rows
from decabench.plugins import load_entry_point, load_object, plugin_names
from decabench.prompts import (
    AnswerForms,
    GivenAnswers,
    LabelForms,
    describe_format,
    forms_of,
    is_other_label,
    possible_labels,
    takes_for,
)
from decabench.scoring.ledger import Deferred, Ledger, LedgerEntry, Scored
from decabench.scoring.results import (
    DataUsed,
    LimitedRun,
    Results,
    ScoresWithout,
    TaskResult,
    VariantScores,
    hidden_decimals,
)
from decabench.scoring.scored_examples import ExamplesHead, ScoredExample, label_questions, make_examples
from decabench.scoring.significance import (
    Sample,
    describe_units,
    score_interval,
    total_interval,
)
from decabench.submission import (
    AlignedAnswers,
    AnswerKind,
    AnswerLine,
    AnswerReader,
    PredictionFile,
    Submission,
    open_submission,
    read_answers,
    read_prompts,
    texts_digest,
)
from decabench.tasks import (
    DECATHLON,
    METRIC_GROUP,
    SPLITS,
    TASKS,
    Label,
    References,
    SplitRecord,
    Store,
    Suite,
    Tags,
    Task,
    Tree,
    describe_absent,
    get_task,
    home_folder,
    include_option,
    known_tasks,
    number_units,
    select_suite,
    unquoted,
)
from decabench.text import excerpt
from decabench.workers import collection_paused, process_pool

Example = TypeVar("Example", bound=Reference)

__all__ = [
    "AnswerCounts",
    "ScoredTask",
    "ScoringOptions",
    "TaskScores",
    "add_intervals",
    "context_ceiling",
    "count_answers",
    "count_forms",
    "describe_forms",
    "digest_answers",
    "evaluate",
    "find_metric",
    "is_reachable",
    "require_left_out",
    "score_submission",
    "score_task",
    "shown_ids",
    "without_digests",
    "worker_pool",
]


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
class ScoredTask:
    """One task of a submission, with everything behind its score."""

    result: TaskResult
    """Its entry in the results."""
    references: Sequence[Item]
    """The examples in the order of the prepared data; for a limited run, only those it answered."""
    predictions: Sequence[str] = ()
    """An answer for each example; empty if the task failed."""
    sample: Sample | None = None
    """The statistics by group; None if the task failed."""
    rows: Any = ()
    """(examples, columns): the statistics of each example."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The files of its answers, other wordings included: path in the submission to sha256."""
    unknown: tuple[str, ...] = ()
    """Ids in `ScoringOptions.without` that no example of the prepared split has."""
    variant_rows: Mapping[int, Any] = field(default_factory=dict)
    """The statistics of each example under other wordings, by their number."""
    aligned: Mapping[int, AlignedAnswers] = field(default_factory=dict)
    """The answers as they were read, for each wording."""
    units: Any = None
    """(examples, levels): the number of each example's unit; None if the task failed."""
    hidden: bool = False
    """Whether the labels are hidden, so that nothing about a single example may be written or shown."""


def evaluate(
    submission: str | Path,
    split: str = "validation",
    tasks: str | Sequence[str] | None = None,
    home: str | Path | None = None,
    jobs: int = 1,
    include: Paths = (),
    answers: AnswerKind = "extracted",
    suite: str | Suite | None = None,
    without: Mapping[str, Sequence[str]] | None = None,
) -> Results:
    """Score a submission (a folder, .zip or .tar.gz) on one split of the prepared data.

    A task whose file has faults is `failed` in the results and never averaged. A task without a file is missing. A task
    of a limited run is `partial`: scored on the examples it answered, but left out of totals. `without` names examples
    of tasks; the score of the others is `TaskResult.without`, beside that of all. Ids that are not in the data are
    ignored, unless none of them is.
    `Results.examples` has what was answered and how it scored.
    Nothing is written to the submission: the command `decabench evaluate` does that, and `Results.to_json` gives the
    text of `results.json`.
    With `jobs` above 1, processes are started, so a script needs an `if __name__ == "__main__":` guard.

    Raises MissingDataError if data is not prepared, DataError if it is not the data that the submission was made for or
    holds none of the examples to leave out, SubmissionError if there is nothing to score, UnknownNameError for an
    unknown split or task.
    """
    names = [tasks] if isinstance(tasks, str) else tasks
    reported = select_suite(suite, include)
    options = ScoringOptions(split, names, home, jobs, include, answers, reported, without=without or {})
    results, scored = score_submission(submission, options)
    require_left_out(options, scored)
    return replace(results, source=partial(_examples_of, submission, options, scored))


def _examples_of(
    submission: str | Path, options: ScoringOptions, scored: Mapping[str, ScoredTask], name: str
) -> tuple[ExamplesHead, list[ScoredExample]]:
    """Return the scored examples of a task. Raises DataError if it has no score, or hidden labels."""
    if scored[name].hidden:
        raise DataError(
            f"The labels of {name}, {options.split}, are hidden, and examples would reveal them: "
            "decabench.scoring.find_examples shows them with hidden=True, if nobody else can read the output."
        )
    if scored[name].sample is None:
        raise DataError(f"{name} has no score: {scored[name].result.reason}")
    with open_submission(submission) as opened:
        task = known_to(opened, options)[name]
        head, rows = make_examples(opened, task, scored[name], replace(options, all_texts=True))
        return head, list(rows)


def require_left_out(options: ScoringOptions, scored: Mapping[str, ScoredTask]) -> None:
    """Raise DataError if there are examples to leave out, and the data that was scored holds none of them."""
    if not options.without or any(
        len(found.unknown) < len(set(options.without.get(name, ()))) for name, found in scored.items()
    ):
        return
    listed = {name: len(ids) for name, ids in options.without.items()}
    known = "; ".join(
        f"{name}: {shown_ids(found.unknown)}" for name, found in scored.items() if found.unknown
    )
    raise DataError(
        f"None of the {sum(listed.values()):,} examples to leave out ({', '.join(listed)}) is in the data that was "
        f"scored ({', '.join(scored)}, {options.split}){f'. Not found: {known}' if known else ''}. Check the tasks, "
        "the split and the ids."
    )


def shown_ids(ids: Sequence[str], most: int = 3) -> str:
    """Return the first ids and how many more there are: `a, b, c and 7 more`."""
    shown = ", ".join(excerpt(id_, 60) for id_ in ids[:most])
    return f"{shown} and {len(ids) - most:,} more" if len(ids) > most else shown


def score_submission(
    submission: str | Path, options: ScoringOptions
) -> tuple[Results, dict[str, ScoredTask]]:
    """Score a submission; return the results and, for each task, what its score is based on.

    All commands and boards go through here. Results that the ledger knows for these answers come from there, and the
    texts behind them are read only when they are used. Raises the errors of `evaluate`.
    """
    store = Store(home_folder(options.home))
    with collection_paused(), open_submission(submission) as opened:
        known = known_to(opened, options)
        files = _files_to_score(opened, options, known)
        _require_same_data(submission, opened, files, store, known)
        jobs = [_Job.of(known[name], file, store, opened, options) for name, file in files.items()]
        ledger = Ledger(store.home)
        found = {job.task.name: _look_up(job, ledger, submission, options) for job in jobs}
        jobs = [job for job in jobs if found[job.task.name] is None]
        with worker_pool(options.jobs, sum(job.record.rows for job in jobs)) as pool:
            found |= {job.task.name: _score_steady(job, pool, ledger) for job in jobs}
        scored = {name: each for name, each in found.items() if each is not None}
        description = opened.info.described()
        unknown_tasks = () if options.tasks else _unknown_tasks(opened, known, options.split)
    samples = {name: found.sample for name, found in scored.items() if found.sample}
    hidden = {name for name, found in scored.items() if found.hidden}
    results, ends = add_intervals(
        {name: found.result for name, found in scored.items()}, samples, options.suite, hidden
    )
    return (
        Results(
            description,
            options.split,
            results,
            ends,
            answers=options.answers,
            suite=options.suite,
            unknown_tasks=unknown_tasks,
        ),
        scored,
    )


def _look_up(job: _Job, ledger: Ledger, submission: str | Path, options: ScoringOptions) -> ScoredTask | None:
    """Return a result of the ledger, whose answers and references are read when they are needed."""
    if options.again or (entry := ledger.find(job.scored)) is None:
        return None
    read = partial(_read_answers, submission, options, job.task.name)
    references = Deferred(partial(_read_answered, job, entry.result, read))
    return ScoredTask(
        entry.result,
        references,
        Deferred(lambda: [answers[id_] for answers in (read(),) for id_ in ids_of(references)]),
        entry.sample,
        entry.rows,
        job.scored.files,
        entry.unknown,
        entry.variant_rows,
        units=entry.units,
        hidden=job.hidden,
    )


def _read_answers(submission: str | Path, options: ScoringOptions, task: str) -> dict[str, str]:
    with open_submission(submission) as opened:
        return read_answers(opened.files[task, options.split], options.answers)


def _read_answered(job: _Job, result: TaskResult, read: Callable[[], Collection[str]]) -> Sequence[Item]:
    """Read the references that were answered: in a limited run, only some."""
    references = job.store.references(job.task.name, job.file.split)
    if result.status != "partial":
        return references
    answered = read()
    return _select(references, [at for at, id_ in enumerate(references.ids) if id_ in answered])


def digest_answers(submission: Submission, task: str, split: str) -> dict[str, str]:
    """Return the sha256 of each file that the submission has for the task, by its path there.

    A file that cannot be read is left out: reading its answers says so, as a fault. Raises FileNotFoundError.
    """
    found = {}
    for name, path in submission.files_of(task, split).items():
        try:
            found[name] = file_digest(path)
        except FileNotFoundError:
            raise
        except OSError as error:
            require_machine(error, path)
    return found


def without_digests(results: Results, home: str | Path | None, include: Paths = ()) -> Results:
    """Return results to print, without digests of answers to hidden splits: perfect answers have the digest of the
    labels.
    """
    known, store = known_tasks(include), Store(home_folder(home))
    tasks = dict(results.tasks)
    for name in (name for name in tasks if store.hides(known.get(name, name), results.split)):
        variants = tasks[name].variants
        tasks[name] = replace(
            tasks[name], predictions="", variants=variants and replace(variants, predictions={})
        )
    return replace(results, tasks=tasks)


def add_intervals(
    results: Mapping[str, TaskResult],
    samples: Mapping[str, Sample],
    suite: Suite,
    hidden: Collection[str] = (),
) -> tuple[dict[str, TaskResult], tuple[float, float] | None]:
    """Return the results with an interval for each task that has a sample, and the interval of the suite's total.

    Intervals based on hidden labels are rounded as the scores are.
    """
    intervals = {name: score_interval(sample) for name, sample in samples.items()}
    spans = {name: samples[name].metric.range for name in samples if name in hidden}

    def cut(ends: tuple[float, float], *of: tuple[float, float]) -> tuple[float, float]:
        if not of:
            return ends
        decimals = min(hidden_decimals(span, *ends) for span in of)
        return round(ends[0], decimals), round(ends[1], decimals)

    found = {
        name: replace(result, interval=cut(interval.ends, *([spans[name]] if name in spans else [])))
        if (interval := intervals.get(name))
        else result
        for name, result in results.items()
    }
    whole = [samples[name] for name in suite.tasks if name in samples and found[name].status == "scored"]
    if suite.total == "none" or len(whole) < len(suite.tasks):
        return found, None
    total = total_interval(whole, suite.total)
    within = [span for name, span in spans.items() if name in suite.tasks]
    return found, cut(total.ends, *within) if total else None


def known_to(submission: Submission, options: ScoringOptions) -> Mapping[str, Task]:
    """Return the tasks by name. Installed packages are searched only for names that are not built in."""
    names = {task for task, split in submission.files if split == options.split} | set(options.tasks or ())
    if names <= TASKS.keys() and not options.include:
        return TASKS
    return known_tasks(options.include)


def _files_to_score(
    submission: Submission, options: ScoringOptions, known: Mapping[str, Task]
) -> dict[str, PredictionFile]:
    """Return the files by task, those of the suite first and in its order."""
    wanted = [get_task(name, known).name for name in options.tasks] if options.tasks else known
    files = {
        task: file
        for (task, split), file in submission.files.items()
        if split == options.split and task in known and task in wanted
    }
    if not files:
        split = require_name(options.split, SPLITS, "split")
        names = ", ".join(wanted) if options.tasks else "any known task"
        name, unknown = submission.info.name, _unknown_tasks(submission, known)
        if unknown and not options.tasks:
            advice = f"It has answers for {', '.join(unknown)}: give the file that defines the task with --include."
        elif others := sorted({each for task, each in submission.files if task in wanted} - {split}):
            hidden = [describe_absent(known[task], split) for task in wanted if split in known[task].hidden]
            reason = f"{'; '.join(hidden)}. " if hidden and options.tasks else ""
            advice = (
                f"{reason}It has answers on {' and '.join(others)}: choose them with --split {others[-1]}."
            )
        else:
            advice = f"They belong in predictions/<task>.{split}.jsonl."
        raise SubmissionError(f"The submission {name} has no answers for {names} on {split}. {advice}")
    return {name: files[name] for name in (*options.suite.tasks, *files) if name in files}


def _unknown_tasks(submission: Submission, known: Collection[str], *splits: str) -> tuple[str, ...]:
    """Return the names of tasks in the submission's files, of all splits unless some are given, that are not known."""
    return tuple(
        sorted(
            {
                task
                for task, split in submission.files
                if task not in known and (not splits or split in splits)
            }
        )
    )


def _require_same_data(
    path: str | Path,
    submission: Submission,
    files: Mapping[str, PredictionFile],
    store: Store,
    known: Mapping[str, Task],
) -> None:
    unprepared, different = [], []
    for task, file in files.items():
        try:
            record = store.record(task, file.split)
        except MissingDataError:
            unprepared.append(task)
            continue
        if file.split in known[task].hidden and not record.salt:
            raise DataError(
                f"The {file.split} split of {task} was prepared before its labels were hidden: run decabench prepare "
                f"{task}{include_option(known[task])} again."
            )
        store.require_labels(task, file.split)
        prepared = record.stated
        stated = submission.info.data.get(f"{task}.{file.split}")
        if stated is not None and stated != prepared:
            different.append(f"{task} (made for {stated[:19]}…, prepared is {prepared[:19]}…)")
    if unprepared:
        raise MissingDataError(
            f"The data of {', '.join(unprepared)} is not prepared in {store.home}: run decabench prepare "
            f"{' '.join(unprepared)}, or choose the tasks to score with --tasks."
        )
    if different:
        raise DataError(
            f"The submission {submission.info.name} ({path}) was not made for the data that is prepared: "
            f"{'; '.join(different)}; "
            "prepare the data it was made for, or predict again."
        )


@dataclass(frozen=True)
class _Job:
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
    ) -> _Job:
        """Find what decides the result. Raises SubmissionError if the answers are replaced meanwhile."""
        files = submission.files_of(task.name, file.split)
        others = (number for number, each in submission.variants.items() if (task.name, file.split) in each)
        marks = [submission.info.marks(task.name, file.split, number) for number in (0, *others)]
        try:
            traces = _traces(files.values())
            digests = digest_answers(submission, task.name, file.split)
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


def _score_steady(job: _Job, pool: Executor | None, ledger: Ledger) -> ScoredTask:
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
    if found.sample is not None and len(job.scored.files) == len(files):
        entry = LedgerEntry(
            found.result, found.sample, found.rows, found.units, found.variant_rows, found.unknown
        )
        ledger.keep(job.scored, entry)
    return found


def _score_file(job: _Job, pool: Executor | None) -> ScoredTask:
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
        references = _select(job.references, aligned.places)  # a limited run answers only some
        texts = aligned.texts(job.answers)
        found = job.score((task.metric, *task.secondary), aligned, references, pool)
    except _FaultyFileError as error:
        return ScoredTask(replace(result, reason=str(error), faults=error.faults), job.references)
    except MetricError as error:  # gold answers that this metric cannot score; continue with the other tasks
        return ScoredTask(replace(result, reason=str(error), faults=1), job.references)
    ids = ids_of(references)
    counts = count_answers(aligned.details.values())
    counts = replace(counts, by_kind={**counts.by_kind, **_count_forms(job, ids, texts)})
    ceiling = None
    if (
        counts.context_kept and task.extractive and not job.hidden
    ):  # it would reveal where the gold answers are
        contexts = job.store.read(task.name, job.file.split, ("id", "context"))
        ceiling = context_ceiling(counts.context_kept, references, contexts)
    score = found.scores[found.headline]
    units = _number_units(references)
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


def ids_of(references: Sequence[Item]) -> list[str]:
    """Return the ids of references, without making an item for each if they are in columns."""
    while isinstance(references, Deferred):
        references = references.values
    return references.ids if isinstance(references, References) else [item.id for item in references]


def _number_units(references: Sequence[Item]) -> Any:
    if isinstance(references, References):
        return references.unit_numbers()
    return number_units([item.units for item in references])


def _select(references: Sequence[Example], places: Sequence[int]) -> Sequence[Example]:
    """Return the references at some places, which are in order."""
    if len(places) == len(references):
        return references
    wanted = set(places)
    return [item for at, item in enumerate(references) if at in wanted]


def _score_without(
    job: _Job, references: Sequence[Item], predictions: Sequence[str], whole: TaskScores
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
    rest = _select(references, kept)
    found = whole.of_part(kept, predictions, references)
    metric = find_metric(job.task.metric).for_data(rest)
    interval = score_interval(Sample.of_levels(metric, found.rows, _number_units(rest), job.task.name))
    return ScoresWithout(
        ids=tuple(left_out),
        n=len(rest),
        score=found.scores[found.headline],
        scores=found.scores,
        interval=interval.ends if interval else None,
    )


def _score_variants(
    job: _Job,
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


def _count_forms(job: _Job, ids: Sequence[str], texts: Sequence[str]) -> dict[str, int]:
    """Count what has another form than the task asks for: answers that are no label, or items of tags and trees."""
    counts = {"other_label": _count_other_labels(job, ids, texts)}
    if isinstance(job.task.output, Tags | Tree):
        counts |= _count_item_faults(job, ids, texts)
    return {kind: count for kind, count in counts.items() if count}


def _count_item_faults(job: _Job, ids: Sequence[str], texts: Sequence[str]) -> dict[str, int]:
    """Count missing, extra and unknown items, and heads outside the sentence. Known tags are those of the split.

    For hidden labels, only their number counts, which is the number of words: no tag is unknown.
    """
    golds = {item.id: item.answers[0] for item in job.references}
    if job.hidden:
        golds = {id_: " ".join("?" for _ in gold.split()) for id_, gold in golds.items()}
    known = {tag for text in (texts if job.hidden else golds.values()) for tag in text.lower().split()}
    tags = known if isinstance(job.task.output, Tags) else None
    counts = dict.fromkeys(("missing_items", "extra_items", "unknown_items", "outside_heads"), 0)
    for id_, text in zip(ids, texts, strict=True):
        faults = count_faults(text, golds[id_], tags)
        for kind, count in zip(counts, astuple(faults), strict=True):
            counts[kind] += count
    return counts


def describe_forms(task: Task, found: ScoredTask, options: ScoringOptions) -> Iterator[str]:
    """Yield sentences about answers in a form that scores as wrong: how many, examples, and advice."""
    if not found.predictions:
        return
    forms = count_forms(task, found, options)
    if forms is not None and (sentence := forms.describe_forms()):
        yield sentence
        if forms.are_most:
            return
    read = partial(read_prompts, Store(home_folder(options.home)), task.name, options.split)
    ids, references = ids_of(found.references), None if found.hidden else found.references
    metric, texts = find_metric(task.metric), found.predictions
    given = GivenAnswers(task.output, metric, ids, texts, references, read, lambda: task.answer_form)
    if sentence := describe_format(given):
        yield sentence


def count_forms(task: Task, found: ScoredTask, options: ScoringOptions) -> LabelForms | AnswerForms | None:
    """Count the answers that are labels, numbers, lists or states in another form; None for free text."""
    if not found.predictions:
        return None
    if not isinstance(task.output, Label):
        others = forms_of(task.output, find_metric(task.metric))
        if others is not None:
            for item, text in zip(found.references, found.predictions, strict=True):
                others.add(item.id, text, "" if found.hidden else item.answers[0])
        return others
    forms = LabelForms(takes_for(find_metric(task.metric)))
    questions = label_questions(task, options)
    for item, text in zip(found.references, found.predictions, strict=True):
        question = questions.get(item.id, "")
        forms.add(item.id, text, possible_labels(task.output, question), question)
    return forms


def _count_other_labels(job: _Job, ids: Sequence[str], texts: Sequence[str]) -> int:
    """Count the answers that are none of the labels that their questions offer."""
    output = job.task.output
    if not isinstance(output, Label):
        return 0
    rows = () if output.names else job.store.read(job.task.name, job.file.split, ("id", "question"))
    questions = {row["id"]: row["question"] for row in rows}
    return sum(
        is_other_label(text, output, questions.get(id_, "")) for id_, text in zip(ids, texts, strict=True)
    )


@dataclass(frozen=True)
class AnswerCounts:
    """How many answers of a file came to be in ways that a reader of the score must know."""

    by_kind: Mapping[str, int]
    """How many were `unparseable` (and of these `reasoning_only`, `cut_in_reasoning` or a `tool_call`), `truncated` or
    `refused`, had tokens of a chat `template` or their `context_cut`, or were an `other_label`; 0 is left out."""
    context_kept: Mapping[str, tuple[int, int]]
    """By id, which characters of the context the model was shown, if not all."""


_RULES = {
    "reasoning_only": "reasoning-only",
    "cut_in_reasoning": "cut-in-reasoning",
    "tool_call": "tool-call",
    "template": "template",
}
"""Extraction rules that are counted, by the name of the count."""


def count_answers(lines: Iterable[AnswerLine]) -> AnswerCounts:
    """Count the unparseable, truncated and refused answers, those with other rules, and those whose context was cut."""
    counts = dict.fromkeys(("unparseable", *_RULES, "truncated", "refused", "context_cut"), 0)
    kept: dict[str, tuple[int, int]] = {}
    for line in lines:
        rules = line.rule.split("+") if line.rule else ()
        for kind, rule in (("unparseable", "unparseable"), *_RULES.items()):
            counts[kind] += rule in rules
        counts["truncated"] += line.finish == "length"
        counts["refused"] += line.finish == "refused" or "refused" in rules
        if line.context_kept is not None:
            counts["context_cut"] += 1
            kept[str(line.id)] = line.context_kept
    return AnswerCounts({kind: count for kind, count in counts.items() if count}, kept)


# Scores of a task by its metrics

_CHUNK = 500
_WORTH_SECONDS = 8.0
"""So much work of a metric is worth starting processes, each of which takes a second before it does any."""
_WORTH_A_PROCESS = 2_000
"""So many examples of a slow metric take longer than starting processes."""


@dataclass(frozen=True)
class TaskScores:
    """All scores of one task."""

    headline: str
    """Which of them is the task's."""
    scores: Mapping[str, float]
    """By name; 0–100, unless the metric has another range."""
    signatures: Mapping[str, str]
    """Metric name to signature."""
    statistics: Mapping[str, Any]
    """Metric name to its statistics, (examples, columns); the headline's metric is the first."""

    @property
    def rows(self) -> Any:
        """The headline metric's statistics."""
        return next(iter(self.statistics.values()))

    @classmethod
    def of_rows(cls, statistics: Mapping[str, Any], references: Sequence[Reference]) -> TaskScores:
        """Score rows by metric name: the first metric's scores, and what the others have beyond them."""
        metrics = {name: find_metric(name).for_data(references) for name in statistics}
        scores: dict[str, float] = {}
        for name, rows in statistics.items():
            scores = {**score_rows(metrics[name], rows).details, **scores}
        signatures = {name: metric.full_signature for name, metric in metrics.items()}
        return cls(next(iter(metrics.values())).headline, scores, signatures, statistics)

    def of_part(
        self, kept: Sequence[int], predictions: Sequence[str], references: Sequence[Reference]
    ) -> TaskScores:
        """Return the scores of some examples alone, given their places and all examples.

        Rows of corpus metrics depend on the other examples, as ranks and classes do, and are computed anew; those of
        all other metrics are as they were. A dialogue's turns follow from those before, which were answered.
        """
        answers, rest = [predictions[at] for at in kept], _select(references, kept)
        statistics = {}
        for name, rows in self.statistics.items():
            metric = find_metric(name)
            anew = metric.scope == "corpus"
            statistics[name] = _to_array(metric.statistics(answers, rest)) if anew else rows[kept]
        return TaskScores.of_rows(statistics, rest)


def find_metric(name: str) -> Metric:
    """Return a metric of ours, of an installed package, or `package.module:object`. Raises UnknownNameError."""
    if name in METRICS:
        return METRICS[name]
    if ":" in name:
        metric = load_object(name)
    else:
        points = plugin_names(METRIC_GROUP)
        metric = load_entry_point(points[require_name(name, (*METRICS, *points), "metric")])
    if not isinstance(metric, Metric):
        raise UnknownNameError(f"{name!r} names {metric!r:.100}, which is not a decabench.metrics.Metric.")
    return metric


def score_task(
    metrics: Sequence[str],
    predictions: Sequence[str],
    references: Sequence[Reference],
    pool: Executor | None,
    refused: Sequence[int] = (),
) -> TaskScores:
    """Score by the first metric, which gives the headline, and add the other metrics' further scores.

    `refused` are the places of refused answers, which are wrong even where an empty answer is right.
    """
    statistics: dict[str, Any] = {}
    known: set[str] = set()
    for name in metrics:
        metric = find_metric(name).for_data(references)
        if metric.headline in known:
            continue  # em, nem and nf1 come from the same rows
        texts = predictions
        if refused and metric.empty_may_be_right:
            texts = list(predictions)
            for at in refused:
                texts[at] = REFUSED
        statistics[name] = rows = _compute_rows(name, metric, texts, references, pool)
        known |= score_rows(metric, rows[:1]).details.keys()
    return TaskScores.of_rows(statistics, references)


def _compute_rows(
    name: str,
    metric: Metric,
    predictions: Sequence[str],
    references: Sequence[Reference],
    pool: Executor | None,
) -> Any:
    """Compute the statistics, in other processes where that takes less time than sending them the examples."""
    import numpy as np

    if metric.scope != "example":
        return _to_array(metric.statistics(predictions, references))
    if pool is None:
        return np.concatenate([*_parts_of_rows(metric, predictions, references)])
    begun = time.process_time()
    rows = list(metric.statistics(predictions[:_CHUNK], references[:_CHUNK]))
    left = max(len(references) - _CHUNK, 0)
    if (time.process_time() - begun) / _CHUNK * left < _WORTH_SECONDS:
        rest = _parts_of_rows(metric, predictions[_CHUNK:], references[_CHUNK:])
        return np.concatenate([_to_array(rows), *rest])
    starts = range(_CHUNK, len(references), _CHUNK)
    parts = pool.map(
        _statistics,
        [name] * len(starts),
        [list(predictions[start : start + _CHUNK]) for start in starts],
        [list(references[start : start + _CHUNK]) for start in starts],
    )
    return _to_array(rows + [row for part in parts for row in part])


_PART = 10_000
"""So many examples are scored before their rows become an array: tuples take four times as much memory."""


def _parts_of_rows(
    metric: Metric, predictions: Sequence[str], references: Sequence[Reference]
) -> Iterator[Any]:
    """Yield the statistics of examples that can be scored apart from each other."""
    items = iter(references)
    for start in range(0, len(predictions), _PART):
        part = predictions[start : start + _PART]
        yield _to_array(metric.statistics(part, list(islice(items, len(part)))))


def _to_array(rows: Sequence[Row]) -> Any:
    import numpy as np

    return np.asarray(rows, dtype=float)


def _statistics(name: str, predictions: list[str], references: list[Reference]) -> Sequence[Row]:
    return find_metric(name).statistics(predictions, references)


@contextmanager
def worker_pool(jobs: int, examples: int) -> Iterator[Executor | None]:
    """Provide a pool of processes, or None if there is too little to do for them."""
    if jobs < 2 or examples < _WORTH_A_PROCESS:
        yield None
        return
    with process_pool(jobs) as pool:
        yield pool


_ALWAYS = "unanswerable"
"""QA-ZRE's answer if the context has none; no cut can remove it."""


def context_ceiling(
    kept: Mapping[str, tuple[int, int]], references: Sequence[Item], contexts: Iterable[Mapping[str, Any]]
) -> float:
    """Return the share of examples whose gold answer was not cut off, 0–100.

    Args:
        kept: By id, which characters of the context the model was shown, if not all.
        references: The examples that were scored.
        contexts: Rows with the `id` and `context` of every example of the split.
    """
    golds = {item.id: item.answers for item in references if item.id in kept}
    lost = sum(
        not is_reachable(golds[row["id"]], row["context"], kept[row["id"]])
        for row in contexts
        if row["id"] in golds
    )
    return 100 * (1 - lost / len(references))


def is_reachable(golds: Sequence[str], context: str, kept: tuple[int, int]) -> bool:
    """Return whether a gold answer found in the whole context is still in the part that was kept.

    Also true if the whole context contains none of them verbatim, because then the cut removed none.
    """
    shown = context[slice(*kept)]
    before = [gold for gold in golds if gold == _ALWAYS or _holds(context, gold)]
    return not before or any(gold == _ALWAYS or _holds(shown, gold) for gold in before)


def _holds(text: str, gold: str) -> bool:
    """Return whether the text contains an answer, or each of several joined with `, `, ignoring case and spacing."""
    return _holds_words(text, gold) or all(_holds_words(text, part) for part in gold.split(", "))


def _holds_words(text: str, words: str) -> bool:
    pattern = r"\s+".join(re.escape(word) for word in words.split())
    return re.search(rf"(?<!\w){pattern}(?!\w)", text, re.IGNORECASE) is not None
