"""Score submissions and write the results.

The results of one evaluation consist of these files:

results/<split>/results.json                a summary
results/<split>/statistics/<task>.parquet   a row for each example, used to compute scores, intervals and tests
results/<split>/examples/<task>.jsonl.gz    a line for each example
"""

from __future__ import annotations

import hashlib
import shutil
import time
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decabench.errors import DataError, MissingDataError, SubmissionError, require_name
from decabench.files import Paths, import_zstd, make_folder, remove_file, require_within
from decabench.metrics import METRICS
from decabench.prompts import GivenAnswers, describe_answers
from decabench.scoring.examples import (
    EXAMPLES,
    STATISTICS,
    ExamplesHead,
    ScoredExample,
    examples_path,
    label_questions,
    make_examples,
    save_examples,
    write_statistics,
)
from decabench.scoring.results import (
    LimitedRun,
    Results,
    TaskResult,
    hidden_decimals,
    write_results_file,
)
from decabench.scoring.significance import Layout, Sample, describe_units, score_interval, total_interval
from decabench.scoring.task_results import (
    Deferred,
    Job,
    ScoredTask,
    code_digest,
    collector_paused,
    find_metric,
    ids_of,
    restricted,
    score_job,
    select,
    worker_pool,
)
from decabench.submission import (
    RESULTS,
    AlignedAnswers,
    AnswerKind,
    PredictionFile,
    Submission,
    open_submission,
    read_lines,
    read_prompts,
)
from decabench.tasks import (
    DECATHLON,
    SPLITS,
    TASKS,
    Store,
    Suite,
    Task,
    describe_absent,
    get_task,
    include_option,
    known_tasks,
    select_suite,
)
from decabench.text import excerpt

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    SubmissionError if there is nothing to score, UnknownNameError for an unknown split or task.
    """
    names = [tasks] if isinstance(tasks, str) else tasks
    reported = select_suite(suite, include)
    options = ScoringOptions(split, names, home, jobs, include, answers, reported, without=without or {})
    results, scored = score_submission(submission, options)
    return replace(
        results,
        source=partial(scored_examples, submission, options, scored),
        writer=partial(_write, submission, options, scored),
    )


def _write(
    submission: str | Path,
    options: ScoringOptions,
    scored: Mapping[str, ScoredTask],
    results: Results,
    folder: Path | None,
) -> Path:
    folder = folder or results_folder(Path(submission), results)
    return write_results(submission, folder, results, scored, options)


def scored_examples(
    submission: str | Path,
    options: ScoringOptions,
    scored: Mapping[str, ScoredTask],
    name: str,
    hidden: bool = False,
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
    with open_submission(submission) as opened:
        task = known_to(opened, options)[name]
        head, rows = make_examples(task, found, replace(options, all_texts=True))
        return head, list(rows)


def _without(
    scored: Mapping[str, ScoredTask], options: ScoringOptions, known: Mapping[str, Task]
) -> dict[str, ScoredTask]:
    ids = {name: ids_of(found.references) for name, found in scored.items()}
    known_ids = {name: set(each) for name, each in ids.items()}
    absent = [
        id_ for name, each in options.without.items() for id_ in each if id_ not in known_ids.get(name, ())
    ]
    count = sum(map(len, options.without.values()))
    place = f"the scored data ({', '.join(scored)}, {options.split})"
    if len(absent) == count:
        raise DataError(
            f"None of the {count:,} examples to leave out ({', '.join(options.without)}) is in {place}: "
            f"{shown_ids(absent)}. Check the tasks, the split and the ids."
        )
    if absent:
        warnings.warn(
            f"These examples are not in {place}, so they can't be left out: {shown_ids(absent)}", stacklevel=2
        )
    return {
        name: _leave_out(found, ids[name], set(options.without.get(name, ())), known[name], options.split)
        for name, found in scored.items()
    }


def _leave_out(
    scored: ScoredTask, ids: Sequence[str], without: Collection[str], task: Task, split: str
) -> ScoredTask:
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
            f"All {len(ids):,} examples of {task.name} are left out, so there is nothing to score."
        )
    found = restricted(scored, ids, kept)
    left_out = tuple(id_ for id_ in ids if id_ not in kept)
    partial = replace(found.result.partial or LimitedRun(0, 0), without=left_out)
    units = describe_units(found.sample, task.unit_names) if found.sample else None
    return replace(found, result=replace(found.result, status="partial", partial=partial, units=units))


def shown_ids(ids: Sequence[str], most: int = 3) -> str:
    """Return a short list of ids, such as `a, b, c and 7 more`."""
    shown = ", ".join(excerpt(id_, 60) for id_ in ids[:most])
    return f"{shown} and {len(ids) - most:,} more" if len(ids) > most else shown


def score_submission(
    submission: str | Path, options: ScoringOptions
) -> tuple[Results, dict[str, ScoredTask]]:
    """Score a submission, and return its results and a ScoredTask for each task.

    Results in the ledger are reused, and their texts are read only when needed. Raises the same errors as `evaluate`.
    """
    store = Store(options.home)
    with open_submission(submission) as opened:
        known = known_to(opened, options)
        jobs, ledger = _find_jobs(opened, options, store, known, submission), Ledger(store.home)
        found = {job.task.name: _look_up(job, ledger, submission, options) for job in jobs}
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
            scored = _without(scored, options, known)
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
    return [Job.of(known[name], file, store, submission, options.answers) for name, file in files.items()]


def _look_up(job: Job, ledger: Ledger, submission: str | Path, options: ScoringOptions) -> ScoredTask | None:
    """Return a job's result from the ledger. Answers and references are read only when needed.

    Returns None if there is no result or `again` is set. Also returns None if the data file doesn't match its record:
    the answers are then scored again, which checks every row of the data.
    """
    if options.again or (found := ledger.find(job)) is None:
        return None
    if not job.store.is_unaltered(job.task.name, job.split):
        return None
    read = cache(partial(_read_answers, submission, job, tuple(found.variant_rows)))
    return replace(
        found,
        references=Deferred(lambda: select(job.references, read()[0].places)),
        predictions=Deferred(lambda: read()[0].texts(options.answers)),
        aligned=read,
    )


def _read_answers(submission: str | Path, job: Job, variants: Sequence[int]) -> Mapping[int, AlignedAnswers]:
    task, ids = (job.task.name, job.split), job.references.ids
    with open_submission(submission) as opened:
        job.require_same(opened)
        files = {0: opened.files[task], **{number: opened.variants[number][task] for number in variants}}
        found = {number: AlignedAnswers.read(read_lines(file.path), ids) for number, file in files.items()}
        job.require_same(opened)  # in case the files changed while they were read
        return found


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


def add_intervals(
    results: Mapping[str, TaskResult],
    samples: Mapping[str, Sample],
    suite: Suite,
    hidden: Collection[str] = (),
) -> tuple[dict[str, TaskResult], tuple[float, float] | None]:
    """Return the results with an interval for each task that has a sample, and the interval of the total.

    For tasks with hidden labels, intervals are rounded like scores.
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
    """Return the known tasks by name. Installed packages are searched only if not all tasks are built in."""
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
                f"{task}{include_option(known[task])} again."
            )
        store.require_labels(task, file.split)
        prepared = record.stated
        stated = submission.info.data.get(f"{task}.{file.split}")
        if stated is not None and stated != prepared:
            different.append(f"{task} (made for {stated[:19]}…, prepared {prepared[:19]}…)")
    if unprepared:
        raise MissingDataError(
            f"The {files[unprepared[0]].split} split of {', '.join(unprepared)} is not prepared in {store.home}. Run "
            "decabench prepare "
            f"{' '.join(unprepared)}, or choose the tasks to score with --tasks."
        )
    if different:
        raise DataError(
            f"The submission {submission.info.name} ({path}) was not made for the prepared data: "
            f"{'; '.join(different)}. Prepare the same data, or predict again."
        )


def describe_forms(task: Task, found: ScoredTask, store: Store, split: str) -> Iterator[str]:
    """Yield sentences about answers that are scored as wrong because of their form, with examples and advice."""
    if not found.predictions:
        return
    given = GivenAnswers(
        task.output,
        find_metric(task.metric),
        ids_of(found.references),
        found.predictions,
        None if found.hidden else found.references,
        partial(read_prompts, store, task.name, split),
        lambda: task.answer_form,
        label_questions(task, store, split),
    )
    yield from (sentence for code, sentence in describe_answers(given) if code != "no-label")


# The ledger

_OLD_SECONDS = 7 * 24 * 3600


@dataclass(frozen=True)
class _Entry:
    key: str
    result: TaskResult
    columns: tuple[str, ...]
    rows: bytes
    units: bytes
    variant_rows: dict[int, bytes]


class Ledger:
    """A cache of results and statistics, so that the same answers are not scored twice.

    `$DECABENCH_HOME/ledger/<code>/<key>` contains the result of one task. The key is a digest of everything that
    affects the result. The ledger can be deleted at any time and is never part of a submission. Damaged or misnamed
    entries are ignored.
    """

    def __init__(self, home: Path) -> None:
        self._folder = home / "ledger" / code_digest()[:16]

    def find(self, job: Job) -> ScoredTask | None:
        """Return the stored result of a job, without texts, or None if there is no valid entry."""
        import msgspec

        try:
            content = (self._folder / job.key).read_bytes() if job.key else b""
            if hashlib.sha256(content[32:]).digest() != content[:32]:
                return None
            entry = msgspec.msgpack.decode(content[32:], type=_Entry)
            return _unpack(entry, job) if entry.key == job.key else None
        except (OSError, ValueError, msgspec.MsgspecError, import_zstd().ZstdError):
            return None

    def has(self, job: Job) -> bool:
        """Return whether there is an entry for a job. The entry can still turn out to be damaged."""
        return (self._folder / job.key).is_file()

    def keep(self, job: Job, found: ScoredTask) -> None:
        """Store a result. Does nothing if the task failed, if the job has no key, or if the file can't be written."""
        import msgspec

        if found.sample is None or not job.key:
            return
        entry = _Entry(
            job.key,
            replace(found.result, interval=None),
            found.sample.metric.columns,
            _pack(found.rows),
            _pack(found.units),
            {number: _pack(rows) for number, rows in found.variant_rows.items()},
        )
        content = msgspec.msgpack.encode(entry)
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            # not flushed to disk, which takes longer than scoring; a damaged entry is ignored
            (self._folder / job.key).write_bytes(hashlib.sha256(content).digest() + content)
            _sweep(self._folder)


def _pack(array: Array) -> bytes:
    import numpy as np

    np.lib.format.write_array(content := BytesIO(), array, allow_pickle=False)
    packed: bytes = import_zstd().compress(content.getvalue(), 1)
    return packed


def _unpack_array(content: bytes) -> Array:
    import numpy as np

    found: Array = np.lib.format.read_array(BytesIO(import_zstd().decompress(content)), allow_pickle=False)
    return found


@lru_cache(maxsize=64)
def _lay_out(units: bytes) -> tuple[Array, Layout]:
    found = _unpack_array(units)
    return found, Layout.of(found)


def _unpack(entry: _Entry, job: Job) -> ScoredTask:
    rows, (units, layout) = _unpack_array(entry.rows), _lay_out(entry.units)
    metric = METRICS[job.task.metric].for_columns(entry.columns)
    return ScoredTask(
        entry.result,
        references=(),
        sample=Sample.of_layout(metric, rows, layout, job.task.name),
        rows=rows,
        files=job.files,
        variant_rows={number: _unpack_array(packed) for number, packed in entry.variant_rows.items()},
        units=units,
        hidden=job.hidden,
        key=entry.key,
    )


@lru_cache(maxsize=16)  # runs once per home
def _sweep(ours: Path) -> None:
    """Remove the entries of other code versions, except versions that wrote an entry in the last week."""
    with suppress(OSError):
        for other in ours.parent.iterdir():
            if (
                other != ours
                and not other.is_symlink()
                and time.time() - other.stat().st_mtime > _OLD_SECONDS
            ):
                shutil.rmtree(other, ignore_errors=True)


# Files of results


def results_home(submission: Path) -> Path:
    """Return the folder for all results of a submission. The results of an archive are stored next to the archive."""
    return submission / RESULTS if submission.is_dir() else submission.parent / f"{submission.name}.results"


def results_folder(submission: Path, results: Results) -> Path:
    """Return the default folder for a submission's results."""
    suite = "" if results.suite == DECATHLON else f"-{results.suite.name}"
    end = "-raw" if results.answers == "raw" else ""
    if any(task.partial and task.partial.without for task in results.tasks.values()):
        end += "-without"
    return results_home(submission) / f"{results.split}{suite}{end}"


def write_results(
    submission: str | Path,
    folder: Path,
    results: Results,
    scored: Mapping[str, ScoredTask],
    options: ScoringOptions,
) -> Path:
    """Write `results.json`, with the statistics and scored examples of its tasks next to it.

    The old `results.json` is removed first and the new file is written last, so that an interrupted run can't leave
    contradictory files. Returns the path of `results.json`. Raises StorageError if a file can't be written.
    """
    submission = Path(submission)
    inside = submission.is_dir() and folder.absolute().is_relative_to(submission.absolute())
    require_within(submission if inside else folder, folder, folder / STATISTICS, folder / EXAMPLES)
    make_folder(folder, "--output")
    with open_submission(submission) as opened:
        remove_file(folder / "results.json")
        write_statistics(folder, scored)
        known = known_to(opened, options)
        with collector_paused():
            for name, found in scored.items():
                if found.sample is not None and not found.hidden:
                    save_examples(folder, *make_examples(known[name], found, options))
                else:
                    remove_file(examples_path(folder, name))
    return write_results_file(folder, results)


def results_files(submission: Path) -> list[Path]:
    """Return a submission's results files, sorted. Raises MissingDataError if there are no results files."""
    folder = results_home(submission)
    if found := sorted(folder.glob("*/results.json")):
        return found
    archived = " (results inside an archive are not read)" if submission.is_file() else ""
    raise MissingDataError(f"There is no results.json in {folder}{archived}. Run decabench evaluate first.")
