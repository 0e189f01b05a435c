"""Evaluation: from a submission and prepared data to scores, intervals and the statistics behind them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from decabench.errors import DataError, MissingDataError, SubmissionError, require_name
from decabench.files import Paths
from decabench.metrics import Item
from decabench.scoring.examples import ExamplesHead, ScoredExample, make_examples
from decabench.scoring.ledger import Deferred, Ledger, ScoredTask
from decabench.scoring.metric_scores import ids_of, select, worker_pool
from decabench.scoring.results import Results, TaskResult, hidden_decimals
from decabench.scoring.significance import Sample, score_interval, total_interval
from decabench.scoring.task_results import Job, ScoringOptions, score_job
from decabench.submission import AnswerKind, PredictionFile, Submission, open_submission, read_answers
from decabench.tasks import (
    SPLITS,
    TASKS,
    Store,
    Suite,
    Task,
    describe_absent,
    get_task,
    home_folder,
    include_option,
    known_tasks,
    select_suite,
)
from decabench.text import excerpt
from decabench.workers import collection_paused

__all__ = [
    "evaluate",
    "known_to",
    "require_left_out",
    "score_submission",
    "shown_ids",
    "without_digests",
]


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
        jobs = [Job.of(known[name], file, store, opened, options) for name, file in files.items()]
        ledger = Ledger(store.home)
        found = {job.task.name: _look_up(job, ledger, submission, options) for job in jobs}
        jobs = [job for job in jobs if found[job.task.name] is None]
        with worker_pool(options.jobs, sum(job.record.rows for job in jobs)) as pool:
            found |= {job.task.name: score_job(job, pool, ledger) for job in jobs}
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


def _look_up(job: Job, ledger: Ledger, submission: str | Path, options: ScoringOptions) -> ScoredTask | None:
    """Return a result of the ledger, whose answers and references are read when they are needed."""
    if options.again or (found := ledger.find(job.scored)) is None:
        return None
    read = partial(_read_answers, submission, options, job.task.name)
    references = Deferred(partial(_read_answered, job, found.result, read))
    predictions = Deferred(lambda: [answers[id_] for answers in (read(),) for id_ in ids_of(references)])
    return replace(found, references=references, predictions=predictions)


def _read_answers(submission: str | Path, options: ScoringOptions, task: str) -> dict[str, str]:
    with open_submission(submission) as opened:
        return read_answers(opened.files[task, options.split], options.answers)


def _read_answered(job: Job, result: TaskResult, read: Callable[[], Collection[str]]) -> Sequence[Item]:
    """Read the references that were answered: in a limited run, only some."""
    references = job.store.references(job.task.name, job.file.split)
    if result.status != "partial":
        return references
    answered = read()
    return select(references, [at for at, id_ in enumerate(references.ids) if id_ in answered])


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
