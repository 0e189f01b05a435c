"""Score submissions and write the results.

The results of one evaluation consist of these files:

results/<split>/results.json                a summary
results/<split>/statistics/<task>.parquet   a row for each example, used to compute scores, intervals and tests
results/<split>/examples/<task>.jsonl.gz    a line for each example
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.json import Encoder
from numpy.typing import NDArray

from decabench.errors import DataError, MissingDataError, SubmissionError, require_name
from decabench.files import Paths, atomic_file, make_folder, remove_file, require_within
from decabench.metrics import REFUSED, Metric, score_rows
from decabench.prompts import GivenAnswers, describe_answers, label_flag, takes_label
from decabench.prompts import options as list_options
from decabench.scoring.examples import EXACT, ExamplesHead, ScoredExample, answer_flags
from decabench.scoring.examples import FORMAT as EXAMPLES_FORMAT
from decabench.scoring.results import (
    EXAMPLES,
    STATISTICS,
    LimitedRun,
    Results,
    TaskResult,
    examples_path,
    hidden_decimals,
    statistics_path,
    write_results_file,
)
from decabench.scoring.significance import (
    Interval,
    Sample,
    describe_units,
    total_interval,
    write_statistics,
)
from decabench.scoring.task_results import (
    Job,
    Ledger,
    ReadAnswers,
    ScoredTask,
    collector_paused,
    count_flags,
    find_metric,
    ids_of,
    label_questions,
    score_job,
    select,
    unit_numbers,
    worker_pool,
)
from decabench.submission import (
    RESULTS,
    AlignedAnswers,
    AnswerKind,
    AnswerLine,
    PredictionFile,
    Submission,
    open_submission,
    read_lines,
)
from decabench.tasks import (
    DECATHLON,
    SPLITS,
    TASKS,
    Label,
    Number,
    Store,
    Suite,
    Tags,
    Task,
    describe_absent,
    get_task,
    home_option,
    include_option,
    known_tasks,
    select_suite,
)
from decabench.text import excerpt

Array = NDArray[Any]


@dataclass(frozen=True)
class ScoringOptions:
    """Options for scoring a submission."""

    split: str = "validation"
    """The split."""
    tasks: Sequence[str] | None = None
    """The tasks to score; None for all tasks that the submission answers."""
    home: str | Path | None = None
    """The folder of prepared data."""
    jobs: int = 1
    """The number of processes."""
    include: Paths = ()
    """Files that define tasks."""
    answers: AnswerKind = "extracted"
    """Whether to score the extracted answers or the model's raw output."""
    suite: Suite = DECATHLON
    """The suite whose total is computed."""
    without: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The ids of examples to leave out, by task. A task with such examples has a partial result."""
    all_texts: bool = False
    """Whether scored examples include texts that can't be redistributed."""
    again: bool = False
    """Whether to score tasks again even if their results are in the ledger."""


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

    A task is `failed` if its file has faults, and missing if it has no file. It is `partial` if the run was limited or
    `without` lists some of its examples. Partial tasks are scored on the remaining examples and left out of totals. Use
    `Results.examples` to get the scored answers, and `Results.write` to write all results. Scripts that set `jobs`
    above 1 need an `if __name__ == "__main__":` guard.

    Raises MissingDataError if the data isn't prepared, DataError if the submission was made for different data,
    SubmissionError if there is nothing to score, and UnknownNameError for an unknown split or task.
    """
    names = [tasks] if isinstance(tasks, str) else tasks
    reported = select_suite(suite, include)
    options = ScoringOptions(split, names, home, jobs, include, answers, reported, without=without or {})
    return score_submission(submission, options)[0]


def scored_examples(
    options: ScoringOptions, scored: Mapping[str, ScoredTask], name: str, hidden: bool = False
) -> tuple[ExamplesHead, list[ScoredExample]]:
    """Return the scored examples of a task.

    Raises DataError if the task failed, or if its labels are hidden and `hidden` is not set.
    """
    found = scored[name]
    if found.hidden and not hidden:
        raise DataError(
            f"The {options.split} labels of {name} are hidden, and examples would reveal them. To see "
            "examples anyway, add --hidden (in Python, hidden=True), but only if no one else can read the output."
        )
    if found.sample is None:
        raise DataError(f"The examples of {name} can't be shown: {found.result.reason.rstrip('.')}.")
    head, rows = _make_examples(found, found.sample, replace(options, all_texts=True))
    return head, list(rows)


def _without(scored: Mapping[str, ScoredTask], options: ScoringOptions) -> dict[str, ScoredTask]:
    ids = {name: ids_of(found.references) for name, found in scored.items()}
    known_ids = {name: set(each) for name, each in ids.items()}
    absent = [
        id_ for name, each in options.without.items() for id_ in each if id_ not in known_ids.get(name, ())
    ]
    count = sum(map(len, options.without.values()))
    place = f"the scored data ({', '.join(scored)}, {options.split})"
    if len(absent) == count:
        raise DataError(
            f"The examples to leave out ({', '.join(options.without)}) are not in {place}: "
            f"{shown_ids(absent)}. Check the tasks, the split and the ids."
        )
    if absent:
        warnings.warn(
            f"Some examples are not in {place}, so they can't be left out: {shown_ids(absent)}", stacklevel=2
        )
    return {
        name: _leave_out(found, ids[name], set(options.without.get(name, ())), options.split)
        for name, found in scored.items()
    }


def _leave_out(scored: ScoredTask, ids: Sequence[str], without: Collection[str], split: str) -> ScoredTask:
    task = scored.task
    kept = {id_ for id_ in ids if id_ not in without}
    if scored.sample is None or len(kept) == len(ids):
        return scored
    if scored.hidden:
        raise DataError(
            f"The {split} labels of {task.name} are hidden, and comparing its scores with and without some examples "
            "would reveal labels. Choose other tasks with --tasks."
        )
    if not kept:
        raise DataError(
            f"The chosen ids leave out all {len(ids):,} examples of {task.name}, so there is nothing to score."
        )
    found = restricted(scored, ids, kept)
    left_out = tuple(id_ for id_ in ids if id_ not in kept)
    partial = replace(found.result.partial or LimitedRun(0, 0), without=left_out)
    units = describe_units(found.sample, task.unit_names) if found.sample else None
    return replace(found, result=replace(found.result, status="partial", partial=partial, units=units))


def restricted(scored: ScoredTask, ids: Sequence[str], kept: Collection[str]) -> ScoredTask:
    """Return a scored task limited to the examples in `kept`.

    The scores of its main metric and the counts of flags are computed again. Other details, such as variants and
    samples, are left out."""
    if len(kept) == len(ids) or scored.sample is None:
        return scored
    places = [place for place, id_ in enumerate(ids) if id_ in kept]
    given = scored.read()
    references = select(given.references, places)
    predictions = [given.predictions[place] for place in places]
    metric, rows = scored.sample.metric, scored.rows[places]
    # Rows of dialogues are kept, because earlier turns affect them. Rows of corpus metrics depend on all examples,
    # so they are computed again.
    if metric.scope == "corpus":
        metric = find_metric(scored.result.metric).for_data(references)
        rows = np.asarray(metric.statistics(predictions, references), dtype=float)
    units = unit_numbers(references)
    sample = Sample.of_levels(metric, rows, units, scored.sample.name)
    less = ReadAnswers(references, predictions, {0: given.wordings[0].only(places)})
    counts, empty = count_flags(predictions, less.wordings[0].details)
    result = replace(
        scored.result,
        score=sample.score,
        scores=score_rows(metric, rows).details,
        n=len(places),
        empty=empty,
        answers=dict(counts),
        partial=LimitedRun(len(places), scored.result.data.rows),
        units=None,
        calibration=None,
        samples=None,
        variants=None,
        ceiling=None,
    )
    return replace(
        scored, result=result, sample=sample, rows=rows, units=units, read=lambda: less, variant_rows={}
    )


def shown_ids(ids: Sequence[str]) -> str:
    """Join ids with commas, shortening long lists, as in `a, b, c and 7 more`."""
    shown = ", ".join(excerpt(id_, 60) for id_ in ids[:3])
    return f"{shown} and {len(ids) - 3:,} more" if len(ids) > 3 else shown


def score_submission(
    submission: str | Path | Submission, options: ScoringOptions
) -> tuple[Results, dict[str, ScoredTask]]:
    """Score a submission, and return its results and a ScoredTask for each task.

    `submission` is a path or an open Submission. Results in the ledger are reused, and answer texts are read only
    when needed. Raises the same errors as `evaluate`.
    """
    store = Store(options.home)
    with (
        nullcontext(submission)
        if isinstance(submission, Submission)
        else open_submission(submission) as opened
    ):
        path = (opened.folder or "") if isinstance(submission, Submission) else submission
        known = known_to(opened, options)
        jobs, ledger = _find_jobs(opened, options, store, known, path), Ledger(store.home)
        found = {job.task.name: _look_up(job, ledger, path, options) for job in jobs}
        jobs = [job for job in jobs if found[job.task.name] is None]
        is_ours = all(job.key for job in jobs)  # third-party metrics may need the garbage collector
        with (
            worker_pool(options.jobs, sum(job.data.rows for job in jobs)) as pool,
            collector_paused() if is_ours else nullcontext(),
        ):
            for job in jobs:
                found[job.task.name] = scored_job = score_job(job, pool)
                ledger.keep(job, scored_job)
        scored = {name: each for name, each in found.items() if each is not None}
        if options.without:
            scored = _without(scored, options)
        results = Results(
            opened.info.described(),
            options.split,
            {name: _with_interval(found) for name, found in scored.items()},
            _total_ends(scored, options.suite),
            answers=options.answers,
            suite=options.suite,
            source=partial(scored_examples, options, scored),
            writer=partial(_write, Path(path), options, scored),
            unknown_tasks=() if options.tasks else _unknown_tasks(opened, known, options.split),
        )
    return results, scored


def _with_interval(found: ScoredTask) -> TaskResult:
    return replace(found.result, interval=_ends(found.sample.interval if found.sample else None, [found]))


def is_new(submission: Submission, options: ScoringOptions) -> bool:
    """Return whether `score_submission` would store a new result in the ledger."""
    store, known = Store(options.home), known_to(submission, options)
    jobs, ledger = _find_jobs(submission, options, store, known), Ledger(store.home)
    return any(job.key and not ledger.has(job) for job in jobs)


def _find_jobs(
    submission: Submission,
    options: ScoringOptions,
    store: Store,
    known: Mapping[str, Task],
    path: str | Path | None = None,
) -> list[Job]:
    """Return a job for each file to score. `path` names the submission in errors."""
    files = _files_to_score(submission, options, known)
    _require_same_data(path or submission.folder or "", submission, files, store, known)
    return [Job(known[name], file, store, submission, options.answers) for name, file in files.items()]


def _look_up(job: Job, ledger: Ledger, submission: str | Path, options: ScoringOptions) -> ScoredTask | None:
    """Return a job's result from the ledger, or None if the job must be scored. Answers are read only when needed.

    The job is scored if there is no result, if `again` is set, or if the data file doesn't match its record. In the
    last case, scoring checks every row of the data.
    """
    if options.again or (found := ledger.find(job)) is None:
        return None
    if not job.store.is_unaltered(job.task.name, job.file.split):
        return None
    return replace(found, read=cache(partial(_read_answers, submission, job, tuple(found.variant_rows))))


def _read_answers(submission: str | Path, job: Job, variants: Sequence[int]) -> ReadAnswers:
    task, ids = (job.task.name, job.file.split), job.references.ids
    with open_submission(submission) as opened:
        job.require_same(opened)
        files = {0: opened.files[task], **{number: opened.variants[number][task] for number in variants}}
        found = {number: AlignedAnswers.read(read_lines(file.path), ids) for number, file in files.items()}
        job.require_same(opened)  # in case the files changed while they were read
    return ReadAnswers(select(job.references, found[0].places), found[0].texts(job.answers), found)


def without_digests(results: Results, home: str | Path | None, include: Paths = ()) -> Results:
    """Return results without the digests of answers to hidden splits.

    If answers are nearly perfect, their digest can be used to check guesses of the labels.
    """
    known, store = known_tasks(include), Store(home)
    tasks = dict(results.tasks)
    for name in (name for name in tasks if store.hides(known.get(name, name), results.split)):
        variants = tasks[name].variants
        tasks[name] = replace(
            tasks[name], predictions="", variants=variants and replace(variants, predictions={})
        )
    return replace(results, tasks=tasks)


def _total_ends(scored: Mapping[str, ScoredTask], suite: Suite) -> tuple[float, float] | None:
    """Return the ends of the total's interval.

    Returns None if a task of the suite isn't scored, the suite has no total, or there is no interval.
    """
    whole = [
        scored[name] for name in suite.tasks if name in scored and scored[name].result.status == "scored"
    ]
    if suite.total == "none" or len(whole) < len(suite.tasks):
        return None
    samples = [found.sample for found in whole if found.sample is not None]
    return _ends(total_interval(samples, suite.total), whole)


def _ends(interval: Interval | None, behind: Sequence[ScoredTask]) -> tuple[float, float] | None:
    """Return the ends of an interval, rounded like scores if it depends on tasks with hidden labels."""
    if interval is None:
        return None
    low, high = interval.ends
    spans = [found.sample.metric.range for found in behind if found.hidden and found.sample]
    decimals = min((hidden_decimals(span, low, high) for span in spans), default=None)
    return (low, high) if decimals is None else (round(low, decimals), round(high, decimals))


def known_to(submission: Submission, options: ScoringOptions) -> Mapping[str, Task]:
    """Return the known tasks by name. If only built-in tasks are needed, installed packages aren't searched."""
    names = {task for task, split in submission.files if split == options.split} | set(options.tasks or ())
    if names <= TASKS.keys() and not options.include:
        return TASKS
    return known_tasks(options.include)


def _files_to_score(
    submission: Submission, options: ScoringOptions, known: Mapping[str, Task]
) -> dict[str, PredictionFile]:
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
            advice = f"There are answers for {', '.join(unknown)}. Use --include with the file that defines the task."
        elif others := sorted({each for task, each in submission.files if task in wanted} - {split}):
            hidden = [describe_absent(known[task], split) for task in wanted if split in known[task].hidden]
            reason = f"{'; '.join(hidden)}. " if hidden and options.tasks else ""
            advice = f"{reason}There are answers for {' and '.join(others)}. Add --split {others[-1]}."
        else:
            example = next(iter(wanted)) if options.tasks else "TASK"
            advice = f"Write them with decabench predict, or put them in predictions/{example}.{split}.jsonl."
        raise SubmissionError(f"The submission {name} has no {split} answers for {names}. {advice}")
    return {name: files[name] for name in (*options.suite.tasks, *files) if name in files}


def _unknown_tasks(submission: Submission, known: Collection[str], *splits: str) -> tuple[str, ...]:
    named = {task for task, split in submission.files if not splits or split in splits}
    return tuple(sorted(named - set(known)))


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
                f"The {file.split} split of {task} was prepared before its labels were hidden. Run decabench prepare "
                f"{task}{include_option(known[task])}{home_option(store.home)} again."
            )
        if not record.labelled:
            store.require_labels(task, file.split)
        prepared = record.stated
        stated = submission.info.data.get(f"{task}.{file.split}")
        if stated is not None and stated != prepared:
            different.append(f"{task} (made for {stated[:19]}…, prepared {prepared[:19]}…)")
    if unprepared:
        raise MissingDataError(
            f"The {files[unprepared[0]].split} split of {', '.join(unprepared)} is not prepared in {store.home}. Run "
            f"decabench prepare {' '.join(unprepared)}{home_option(store.home)}, or choose the tasks to score with "
            "--tasks."
        )
    if different:
        raise DataError(
            f"The submission {submission.info.name} ({path}) was not made for the prepared data: "
            f"{'; '.join(different)}. Prepare the same data, or predict again."
        )


def describe_forms(found: ScoredTask, store: Store, split: str) -> Iterator[str]:
    """Yield sentences about answers that are scored as wrong because of their form, with examples and advice."""
    if not found.predictions:
        return
    task = found.task
    given = GivenAnswers(
        task.output,
        find_metric(task.metric),
        ids_of(found.references),
        found.predictions,
        None if found.hidden else found.references,
        partial(store.prompts, task.name, split),
        lambda: task.answer_form,
        label_questions(task, store, split),
        _other_samples(found),
    )
    yield from (sentence for code, sentence in describe_answers(given) if code != "no-label")


def _other_samples(found: ScoredTask) -> list[list[str]]:
    """Return the texts of all samples except the first, with empty texts for refusals.

    The list is empty if samples were not scored."""
    if found.result.samples is None:
        return []
    return [
        ["" if text == REFUSED else text for text in texts] for texts in found.read().wordings[0].series[1:]
    ]


# Files of results


def results_home(submission: Path) -> Path:
    """Return the folder for all results of a submission. The results of an archive are stored next to the archive."""
    return submission / RESULTS if submission.is_dir() else submission.parent / f"{submission.name}.results"


def results_folder(submission: Path, results: Results) -> Path:
    """Return the default folder for a submission's results, which depends on the split, the suite and what was
    scored.
    """
    suite = "" if results.suite == DECATHLON else f"-{results.suite.name}"
    end = "-raw" if results.answers == "raw" else ""
    if any(task.partial and task.partial.without for task in results.tasks.values()):
        end += "-without"
    return results_home(submission) / f"{results.split}{suite}{end}"


def _write(
    submission: Path,
    options: ScoringOptions,
    scored: Mapping[str, ScoredTask],
    results: Results,
    folder: Path | None,
) -> Path:
    """Write `results.json`, with the statistics and scored examples of its tasks next to it.

    The old `results.json` is removed first and the new file is written last, so that an interrupted run can't leave
    contradictory files.
    """
    folder = folder or results_folder(submission, results)
    inside = submission.is_dir() and folder.absolute().is_relative_to(submission.absolute())
    require_within(submission if inside else folder, folder, folder / STATISTICS, folder / EXAMPLES)
    make_folder(folder, "--output")
    remove_file(folder / "results.json")
    with collector_paused():
        for name, found in scored.items():
            _write_statistics(statistics_path(folder, name), found)
            if found.sample is not None and not found.hidden:
                _save_examples(folder, *_make_examples(found, found.sample, options))
            else:
                remove_file(examples_path(folder, name))
    return write_results_file(folder, results)


def _write_statistics(path: Path, found: ScoredTask) -> None:
    """Write a task's statistics if the task was scored in full; otherwise, remove any old file.

    Nothing is written for hidden labels, because the rows would show which answers are right.
    """
    if found.sample is None or found.result.status != "scored" or found.hidden:
        remove_file(path)
    else:
        about = {"metric": found.result.metric, "signature": found.result.signature}
        write_statistics(path, found.sample.metric, found.units, found.rows, about)


def results_files(submission: Path) -> list[Path]:
    """Return a submission's results files, sorted. Raises MissingDataError if there are no results files."""
    folder = results_home(submission)
    if found := sorted(folder.glob("*/results.json")):
        return found
    archived = " (results inside an archive are not read)" if submission.is_file() else ""
    raise MissingDataError(f"There is no results.json in {folder}{archived}. Run decabench evaluate first.")


# Scored examples


def _make_examples(
    found: ScoredTask, sample: Sample, options: ScoringOptions
) -> tuple[ExamplesHead, Iterator[ScoredExample]]:
    """Return the head of a task's file of scored examples, and an iterator over the rows of all wordings."""
    metric, task = sample.metric, found.task
    low, high = metric.range
    best = high if metric.higher_is_better else low
    head = ExamplesHead(
        task=task.name,
        split=options.split,
        metric=found.result.metric,
        headline=found.result.headline,
        signature=found.result.signature,
        columns=metric.columns,
        best=best if math.isfinite(best) and low >= 0 else None,
        higher_is_better=metric.higher_is_better,
        data=found.result.data.fingerprint,
        files=found.files,
        answers=options.answers,
        left_out=() if options.all_texts or found.result.data.origin == "sample" else _left_out(task),
    )
    return head, _make_rows(found, metric, options, head)


def _left_out(task: Task) -> tuple[str, ...]:
    """Return the fields that can't be redistributed, because they contain gold answers or may quote the context."""
    if not task.redistributable:
        return "prediction", "raw", "reasoning", "references"
    if task.withhold_texts:
        is_text = not isinstance(task.output, Label | Number | Tags)
        return ("prediction", "raw", "reasoning") if is_text else ("raw", "reasoning")
    return ()


def _make_rows(
    found: ScoredTask, metric: Metric, options: ScoringOptions, head: ExamplesHead
) -> Iterator[ScoredExample]:
    task = found.task
    questions = label_questions(task, Store(options.home), options.split)
    shows_answers, shows_raw, shows_reasoning, shows_references = (
        name not in head.left_out for name in ("prediction", "raw", "reasoning", "references")
    )
    takes, output = cache(partial(takes_label, metric)), task.output
    references, wordings = found.references, found.read().wordings
    for number, rows in ((0, found.rows), *found.variant_rows.items()):
        numbers = _rows_with_scores(metric, rows, has_scores=head.best is not None)
        texts, details = wordings[number].texts(options.answers), wordings[number].details
        for at, (item, text, (row, score)) in enumerate(zip(references, texts, numbers, strict=True)):
            line, form, question = details.get(at), "", questions.get(item.id, "")
            labels = output.names or list_options(question) if isinstance(output, Label) else ()
            if labels and text not in labels:
                form = label_flag(text, labels, question, takes)
            # in a group, an answer that equals a reference can be wrong because of earlier turns
            is_best = text in item.answers and metric.scope != "group"
            if score is not None and head.best is not None:
                is_best = is_best or abs(head.best - score) <= EXACT
            yield ScoredExample(
                id=item.id,
                variant=number,
                prediction=text if shows_answers else None,
                raw=_other_text(line, options.answers) if line is not None and shows_raw else None,
                reasoning=line.reasoning if line is not None and shows_reasoning else None,
                references=tuple(item.answers) if number == 0 and shows_references else (),
                score=score,
                right=is_best or (None if score is None else False),
                statistics=row,
                flags=answer_flags(line, text, form) if line is not None or form or not text.strip() else (),
            )


def _other_text(line: AnswerLine, answers: AnswerKind) -> str | None:
    return line.raw if answers == "extracted" else line.answer if line.raw is not None else None


_SCORED_AT_ONCE = 10_000


def _rows_with_scores(
    metric: Metric, rows: Any, has_scores: bool
) -> Iterator[tuple[tuple[float, ...], float | None]]:
    for start in range(0, len(rows), _SCORED_AT_ONCE):
        part = np.asarray(rows[start : start + _SCORED_AT_ONCE], dtype=float)
        found: list[float | None] = [None] * len(part)
        if has_scores:
            columns = {name: part[:, at] for at, name in enumerate(metric.columns)}
            with np.errstate(all="ignore"):
                scores = np.asarray(metric.score(columns)[metric.headline], dtype=float).tolist()
            rounded = {score: round(score, 6) if math.isfinite(score) else None for score in set(scores)}
            found = [rounded[score] for score in scores]
        yield from zip(zip(*map(_shortest, part.T), strict=True), found, strict=True)


def _shortest(column: Array) -> list[float]:
    """Return a column's numbers, with integer-valued floats converted to integers."""
    with np.errstate(invalid="ignore"):
        whole = column.astype(np.int64)
    if (whole == column).all() and (np.abs(column) < 2**53).all():
        numbers: list[float] = whole.tolist()
        return numbers
    return [int(value) if value.is_integer() else value for value in column.tolist()]


def _save_examples(folder: Path, head: ExamplesHead, rows: Iterable[ScoredExample]) -> Path:
    """Write `examples/<task>.jsonl.gz` to a results folder, and return its path.

    Raises StorageError if the file can't be written.
    """
    path, encode = examples_path(folder, head.task), Encoder().encode
    about = {name: value for name, value in asdict(head).items() if value not in ((), {})}
    with atomic_file(path, "gz", level=5) as file:  # level 6 takes 50% longer for files that are 2% smaller
        file.write(encode({"format": EXAMPLES_FORMAT, **about}) + b"\n")
        lines = map(encode, rows)
        while some := list(islice(lines, 1_000)):  # gzip's write method has a large overhead
            file.write(b"\n".join(some) + b"\n")
    return path
