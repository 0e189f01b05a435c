"""Find submissions and score their answers.

Only scores that this machine computed from answers are verified. Results files and statistics that come
with a submission are unverified claims. They are used for scores that can't be computed here, and are marked
as reported.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from decabench.errors import DecabenchError, StorageError, SubmissionError
from decabench.files import Paths, is_within
from decabench.leaderboard.entries import (
    RANKED_SPLITS,
    Entry,
    Evidence,
    Kind,
    LeaderboardError,
    Refusal,
    clean,
    describe_submission,
    path_fault,
    printable_line,
)
from decabench.metrics import METRICS, Metric
from decabench.scoring import (
    InvalidResultsError,
    Results,
    Sample,
    ScoringOptions,
    TaskResult,
    VariantScores,
    describe_units,
    hidden_decimals,
    is_new,
    mean_sample,
    numbers_agree,
    read_bounded,
    read_statistics,
    score_submission,
    statistics_path,
    total_interval,
)
from decabench.submission import (
    ARCHIVE_SUFFIXES,
    FOLDER,
    METADATA_NAME,
    RESULTS,
    Submission,
    open_submission,
)
from decabench.tasks import SplitRecord, Store, Suite, Task, is_task_name
from decabench.text import printable
from decabench.workers import process_pool

Each = TypeVar("Each")


Policy = Literal["free", "all", "none"]
"""Which examples a site includes: `free` for datasets that may be redistributed, `all`, or `none`."""


class _ContradictionError(DecabenchError, ValueError):
    """Raised if the statistics in a submission don't agree with its score."""


@dataclass(frozen=True)
class BoardOptions:
    """The options for building a site. `write_leaderboard` accepts the same options by name."""

    home: str | Path | None = None
    """The folder with the prepared data that answers are scored on."""
    suites: str | Sequence[str] = ()
    """The suites to build boards for. By default, the suites that `include` defines, or the decathlon."""
    include: Paths = ()
    """Files that define tasks and suites."""
    examples: Policy = "free"
    """Which examples to include: `free` (from datasets that may be redistributed), `all` or `none`."""
    rank_reported: bool = False
    """Whether to also rank reported scores, whose answers or data are not available."""
    jobs: int = 1
    """The number of scoring processes."""
    baselines: Callable[[Suite, str], Iterable[Path]] | None = None
    """A function that makes baseline submissions, such as `decabench.runs.floors.make_baselines`."""
    splits: Sequence[str] = RANKED_SPLITS
    """The splits to score and rank."""


@dataclass(frozen=True)
class Keeper:
    """The tasks, data and settings of the machine that builds a board."""

    store: Store
    """The prepared data."""
    suites: Sequence[Suite]
    """The suites to build boards for."""
    tasks: Mapping[str, Task]
    """The known tasks."""
    metrics: Mapping[str, Metric] = field(default_factory=lambda: METRICS)
    """The known metrics. A metric named in a results file is never loaded, because that would run untrusted code."""
    options: BoardOptions = field(default_factory=BoardOptions)
    """The options of the board."""
    report: Callable[[str], object] = str
    """A function that is called with progress messages."""

    @cached_property
    def _records(self) -> dict[str, dict[str, SplitRecord]]:
        return {}

    def record(self, task: str, split: str) -> SplitRecord | None:
        """Return the record of a prepared split, or None if the split is not prepared or has no labels."""
        if task not in self._records:
            try:
                self._records[task] = self.store.records(task) if is_task_name(task) else {}
            except DecabenchError:  # damaged data can't be used for scoring
                self._records[task] = {}
        found = self._records[task].get(split)
        return found if found is not None and found.labelled else None

    def hides(self, task: str, split: str) -> bool:
        """Return whether a split's labels are available but hidden, so that its examples must not be published."""
        record, known = self.record(task, split), self.tasks.get(task)
        return record is not None and (bool(record.salt) or (known is not None and split in known.hidden))

    def obstacle(self, task: str, split: str, made_for: str | None) -> str:
        """Return why answers can't be scored on this machine, or an empty string if they can.

        `made_for` is the digest of the data that the answers were made for, or None if it is unknown.
        """
        if task not in self.tasks:
            return "the task is unknown here; specify its task file with --include"
        record = self.record(task, split)
        if record is None:
            return "the data is not prepared here"
        if split in self.tasks[task].hidden and not record.salt:
            return "the data was prepared before the labels were hidden; prepare the data again"
        same = made_for in (None, record.stated)
        return "" if same else "the answers are for data that differs from the data prepared here"


# Finding submissions


def find_submissions(given: Path) -> tuple[Path, list[str], list[Refusal]]:
    """Find all submissions in a folder. `given` can also be a single submission.

    Returns a folder, the submissions' paths relative to this folder, and a Refusal for each path that
    can't be used. A submission is a folder, an archive, or a single results file. Links directly in
    `given` are trusted. Links further down are followed only if they lead to a path in the same
    subfolder of `given`. Raises LeaderboardError if `given` is not a folder.
    """
    if not given.is_dir():
        raise LeaderboardError(
            f"There is no folder {given}. Specify the folder that contains the submissions."
        )
    whole = given if given.name not in ("", "..") else given.resolve()
    if (given / METADATA_NAME).is_file() and whole.name:
        return whole.parent, [whole.name], []
    found: dict[str, str] = {}
    refused: list[Refusal] = []
    _search(given, given, 1, found, refused)
    return given, sorted(found.values()), refused


def _search(top: Path, folder: Path, depth: int, found: dict[str, str], refused: list[Refusal]) -> None:
    try:
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        refused.append(Refusal(printable(os.path.relpath(folder, top)), os.strerror(error.errno or 0)))
        return
    for path in paths:
        shown = path.relative_to(top).as_posix()
        is_one = _is_archive(path) or _is_results_name(path) or _is_submission(path)
        if depth > 1 and path.is_symlink() and not is_within(top / Path(shown).parts[0], path):
            if is_one or path.is_dir():
                refused.append(Refusal(printable(shown), _LEADS_OUT))
        elif is_one and not _is_beside_archive(path):
            if fault := path_fault(shown):
                refused.append(Refusal(printable(shown), fault))
            else:
                found.setdefault(os.path.realpath(path), shown)
        elif path.is_dir() and depth < 4:
            _search(top, path, depth + 1, found, refused)


_LEADS_OUT = "it links outside its submission; replace the link with a copy, or link to the whole submission"


def _is_archive(path: Path) -> bool:
    return path.name.lower().endswith(ARCHIVE_SUFFIXES) and path.is_file()


def _is_submission(path: Path) -> bool:
    return path.is_dir() and (
        any((path / name).exists() for name in (METADATA_NAME, FOLDER, RESULTS)) or any(_results_in(path))
    )


def _is_results_name(path: Path) -> bool:
    return path.name.endswith(".json") and (
        path.name.startswith(RESULTS) or path.name.endswith(f".{RESULTS}.json") or path.parent.name == RESULTS
    )


def _is_beside_archive(path: Path) -> bool:
    return path.name.endswith(f".{RESULTS}") and _is_archive(
        path.with_name(path.name.removesuffix(f".{RESULTS}"))
    )


def _results_in(place: Path) -> list[Path]:
    if place.is_dir():
        found = [*place.glob("*.json"), *place.glob(f"{RESULTS}/*.json"), *place.glob(f"{RESULTS}/*/*.json")]
    elif _is_archive(place):
        found = [*place.with_name(f"{place.name}.{RESULTS}").glob("*/*.json")]
    else:
        found = [place]
    return sorted(path for path in found if _is_results_name(path) and not path.name.startswith("."))


# Scoring


def score_submissions(top: Path, paths: Sequence[str], keeper: Keeper) -> tuple[list[Entry], list[Refusal]]:
    """Score submissions for all suites and splits, and return the entries and the refusals."""
    entries: list[Entry] = []
    refused: list[Refusal] = []

    def add(found: Iterable[Entry | Refusal]) -> None:
        for each in found:
            (entries if isinstance(each, Entry) else refused).append(each)  # type: ignore[arg-type]

    _score_ahead([top / shown for shown in paths], keeper)
    for shown in _reporting(paths, len(paths), "Read {} of {} submissions", keeper):
        add(_score_place(top / shown, shown, keeper, keeper.options.splits, keeper.suites))
    if keeper.options.baselines is not None:
        for suite in keeper.suites:
            for split in sorted({entry.split for entry in entries if entry.suite == suite}):
                for path in keeper.options.baselines(suite, split):
                    made = _score_place(path, f"baselines/{path.name}", keeper, (split,), (suite,))
                    add(replace(each, submission="") if isinstance(each, Entry) else each for each in made)
    return entries, sorted(dict.fromkeys(refused), key=lambda refusal: refusal.path)


def _score_ahead(places: Sequence[Path], keeper: Keeper) -> None:
    """Score new submissions in several processes, which write their results to the ledger.

    Faults are ignored here, because they are found again and reported when the entries are made.
    """
    if keeper.options.jobs < 2:
        return
    new: list[tuple[Path, ScoringOptions]] = []
    for place in places:
        with suppress(DecabenchError, OSError), _open(place, False) as opened:
            for suite, split in product(keeper.suites, keeper.options.splits):
                options, _ = _plan_split(opened, split, suite, keeper) if opened else (None, {})
                if opened and options and is_new(opened, options):
                    new.append((place, options))
    if len(new) < 2:  # a single submission's tasks are scored in parallel later
        return
    with suppress(BrokenProcessPool), process_pool(min(keeper.options.jobs, len(new))) as pool:
        waiting = [pool.submit(_score_alone, place, replace(options, jobs=1)) for place, options in new]
        for done in _reporting(as_completed(waiting), len(new), "Scored {} of {} new submissions", keeper):
            done.result()


def _score_alone(place: Path, options: ScoringOptions) -> None:
    with suppress(DecabenchError, OSError, MemoryError):
        score_submission(place, options)


def _reporting(items: Iterable[Each], count: int, said: str, keeper: Keeper) -> Iterator[Each]:
    """Yield items, and report the number of completed items every few seconds."""
    last = time.monotonic()
    for number, item in enumerate(items):
        if time.monotonic() - last > 5.0:
            keeper.report(said.format(f"{number:,}", f"{count:,}"))
            last = time.monotonic()
        yield item


def _score_place(
    place: Path, shown: str, keeper: Keeper, splits: Sequence[str], suites: Sequence[Suite]
) -> Iterator[Entry | Refusal]:
    try:
        reported, refused = _read_reported(place, shown)
        yield from refused
        with _open(place, bool(reported or refused)) as opened:
            made = [
                _score_split(place, shown, opened, reported, split, suite, keeper)
                for suite in suites
                for split in splits
            ]
    except SubmissionError as error:
        why = printable_line(str(error).rstrip("."), 300)
        yield Refusal(shown, f"it is not a valid submission: {why}")
    except (_ContradictionError, StorageError, OSError) as error:  # a bad file must not stop the whole board
        yield Refusal(shown, _reason(error, place.parent))
    else:
        entries = [each for each in made if isinstance(each, Entry)]
        yield from entries or {each: None for each in made if each is not None}


def _reason(error: Exception, top: Path) -> str:
    # Paths are relative, so that they don't reveal folders above the submissions.
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    if isinstance(cause, OSError):
        name = os.path.relpath(os.fsdecode(cause.filename), top) if cause.filename else "a file"
        return printable_line(f"{name} can't be read: {os.strerror(cause.errno or 0)}", 300)
    return printable_line(str(error), 300)


@contextmanager
def _open(place: Path, has_results: bool) -> Iterator[Submission | None]:
    is_unfinished = (place / METADATA_NAME).is_file() and not has_results
    if _is_archive(place) or (place / FOLDER).is_dir() or is_unfinished:
        with open_submission(place) as opened:
            yield opened
    else:
        yield None


def _score_split(
    place: Path,
    shown: str,
    opened: Submission | None,
    reported: Sequence[tuple[Path, Results]],
    split: str,
    suite: Suite,
    keeper: Keeper,
) -> Entry | Refusal | None:
    tasks: dict[str, TaskResult] = {}
    evidence: dict[str, Evidence] = {}
    why: dict[str, str] = {}
    if opened is not None:
        options, why = _plan_split(opened, split, suite, keeper)
        if options:
            try:
                results, scored = score_submission(opened, options)
                tasks = dict(results.tasks)
                evidence = {
                    task: _evidence("verified", "", found.sample, found.rows, found.key)
                    for task, found in scored.items()
                }
            except SubmissionError:
                raise
            except (DecabenchError, MemoryError) as error:  # one failure must not stop the whole board
                said = str(error) if isinstance(error, DecabenchError) else "there is not enough memory"
                why |= dict.fromkeys(
                    options.tasks or (), f"it could not be scored: {printable_line(said, 200)}"
                )
    path, stated = _choose(reported, split, suite)
    left = dict.fromkeys(why.keys() - tasks.keys()) | {
        task: result
        for task, result in (stated.tasks.items() if stated else ())
        if task in suite.tasks and task not in tasks
    }
    left = {task: left[task] for task in suite.tasks if task in left}
    reasons = {task: why.get(task) or "the answers are not available" for task in left}
    remarks = tuple(f"not scored here: {line}" for line in _describe_left(left, reasons)) if tasks else ()
    is_raw = stated is not None and stated.answers == "raw"
    if not tasks or (keeper.options.rank_reported and not is_raw):
        for task, result in left.items():
            if result is not None:
                tasks[task], evidence[task] = _reported(task, result, reasons[task], path, split, keeper)
        remarks = () if evidence else remarks
    if not tasks:
        return (
            Refusal(shown, f"no task could be scored: {'; '.join(_describe_left(left, reasons))}")
            if left
            else None
        )
    about: Mapping[str, Any] = stated.submission if stated else {}
    if opened is not None:
        about = {**opened.info.described(), "predictor": opened.info.predictor}
    has_hidden = any(keeper.hides(task, split) and evidence[task].kind == "reported" for task in tasks)
    entry = Entry(
        path=f"{shown}/{split}" + (f"/{suite.name}" if suite != keeper.suites[0] else ""),
        split=split,
        tasks={task: clean(_capped(tasks[task], keeper.metrics)) for task in suite.tasks if task in tasks},
        evidence=evidence,
        suite=suite,
        submission=shown,
        files=opened.files if opened is not None and opened.folder == place else {},
        remarks=remarks,
        **describe_submission(about),
    )
    if entry.kind == "reported" and (not keeper.options.rank_reported or has_hidden):
        entry = replace(entry, apart="reported")
    elif entry.wording:
        entry = replace(entry, apart="other wording")
    elif is_raw and entry.kind == "reported":
        entry = replace(entry, apart="whole output")
    return _guard(_with_total(entry), keeper)


def _plan_split(
    opened: Submission, split: str, suite: Suite, keeper: Keeper
) -> tuple[ScoringOptions | None, dict[str, str]]:
    """Return options for the tasks that can be scored here, and the reasons why other tasks can't be scored.

    The options are None if no task can be scored here.
    """
    answered = [task for task in suite.tasks if (task, split) in opened.files]
    why = {task: keeper.obstacle(task, split, opened.info.data.get(f"{task}.{split}")) for task in answered}
    tasks = [task for task in answered if not why[task]]
    options = ScoringOptions(
        split, tasks, keeper.store.home, keeper.options.jobs, keeper.options.include, suite=suite
    )
    return options if tasks else None, why


def _evidence(kind: Kind, why: str, sample: Sample | None, rows: Any, key: str = "") -> Evidence:
    if sample is None:
        return Evidence(kind)
    with np.errstate(all="ignore"):
        scores = sample.headline(rows).astype(np.float32)
    if sample.metric.range[0] < 0:  # a correlation, which is undefined for a single example
        scores = np.full_like(scores, np.nan)
    return Evidence(kind, why, sample.condensed(), scores, key)


def _capped(result: TaskResult, metrics: Mapping[str, Metric]) -> TaskResult:
    # Rounding errors can push a score out of range: a perfect BLEU is 100.00000000000004.
    metric = metrics.get(result.metric)
    if result.score is None or metric is None or not 0 < result.score - metric.range[1] <= 1e-6:
        return result
    return replace(result, score=metric.range[1])


def _describe_left(left: Mapping[str, TaskResult | None], reasons: Mapping[str, str]) -> Iterator[str]:
    for reason in dict.fromkeys(reasons.values()):
        names = [
            f"{task} (reported {result.score:.1f})"
            if (result := left[task]) and result.score is not None
            else task
            for task in left
            if reasons[task] == reason
        ]
        yield f"{', '.join(names)}: {reason}"


def _with_total(entry: Entry) -> Entry:
    scores = {task: score for task in entry.suite.tasks if (score := entry.score(task)) is not None}
    total = entry.suite.combine(scores)
    samples = [sample for task in scores if (sample := entry.sample(task)) is not None]
    if total is None or len(samples) < len(scores):
        return replace(entry, total=total)
    found = total_interval(samples, entry.suite.total)
    return replace(entry, total=total, interval=found.ends if found else None)


def _guard(entry: Entry, keeper: Keeper) -> Entry:
    """Round scores for hidden labels to the precision of the pages, and remove digests that reveal labels.

    At full precision, a score such as a mean error can reveal several labels. If answers are nearly perfect, their
    digest can be used to check guesses of the labels. A fingerprint that was computed before the labels were hidden has
    the same problem, because it contains no secret.
    """
    hidden = {name: task for name, task in entry.tasks.items() if keeper.hides(name, entry.split)}
    if not hidden:
        return entry
    metrics = {name: keeper.metrics.get(task.metric) for name, task in hidden.items()}
    spans = {name: metric.range if metric else (-math.inf, math.inf) for name, metric in metrics.items()}

    def cut(values: Sequence[float], *names: str) -> list[float]:
        decimals = min(hidden_decimals(spans[name], *values, least=1) for name in names)
        return [round(value, decimals) for value in values]

    def cut_ends(ends: tuple[float, float] | None, *names: str) -> tuple[float, float] | None:
        low, high = cut(ends, *names) if ends else (0.0, 0.0)
        return (low, high) if ends else None

    def guarded(name: str, task: TaskResult) -> TaskResult:
        record = keeper.record(name, entry.split)
        is_salted = record is not None and record.salt and record.fingerprint == task.data.fingerprint
        return replace(
            task,
            score=None if task.score is None else cut([task.score], name)[0],
            scores={key: cut([score], name)[0] for key, score in task.scores.items()},
            interval=cut_ends(task.interval, name),
            predictions="",
            data=task.data if is_salted else replace(task.data, fingerprint="withheld"),
        )

    return replace(
        entry,
        tasks={**entry.tasks, **{name: guarded(name, task) for name, task in hidden.items()}},
        total=None if entry.total is None else cut([entry.total], *hidden)[0],
        interval=cut_ends(entry.interval, *hidden),
    )


# Runs of one system


def group_runs(entries: Sequence[Entry], keeper: Keeper) -> list[Entry]:
    """Replace runs that differ only in their seeds with one entry for the system.

    The entry has the mean scores of the runs. A predictor's record is an unverified claim, so only
    submissions in the same folder and by the same authors are grouped. The runs must answer the same
    tasks on the same data. If servers produced the answers, they must have reported the same model
    names. If several submissions state the same seed, only the first is grouped, and the others
    remain separate entries.
    """
    groups: dict[Hashable, dict[str, Entry]] = {}
    for entry in entries:
        system = _system_of(entry)
        is_run = system is not None and entry.seed not in groups.get(system, {})
        groups.setdefault(system if is_run else entry.path, {})[entry.seed] = entry
    return [
        _guard(_with_total(_mean_entry([*runs.values()], key)), keeper)
        if len(runs) > 1
        else next(iter(runs.values()))
        for key, runs in groups.items()
    ]


def _system_of(entry: Entry) -> Hashable:
    """Return a key that is equal for all runs of a system, or None if the entry can't be grouped with others."""
    if not entry.system or not entry.submission or entry.apart:
        return None
    if any(result.status != "scored" for result in entry.tasks.values()):
        return None
    tasks = [
        (
            *(name, result.data.fingerprint, result.signature, result.n, entry.evidence[name].kind),
            entry.served_by.get(f"{name}.{entry.split}", ()),
        )
        for name, result in entry.tasks.items()
    ]
    folder = entry.submission.rpartition("/")[0]
    return entry.system, folder, entry.authors, entry.split, entry.suite.name, tuple(tasks)


def _mean_entry(runs: Sequence[Entry], key: Hashable) -> Entry:
    first = runs[0]
    tasks, evidence = {}, {}
    for name, result in first.tasks.items():
        each = [run.tasks[name] for run in runs]
        found = [run.evidence[name] for run in runs]
        samples = [one.sample for one in found if one.sample is not None]
        is_same = len(samples) == len(runs) and all(_is_alike(samples[0], sample) for sample in samples)
        sample = mean_sample(samples) if is_same else None
        interval = sample.interval if sample is not None else None
        scores = [one.scores for one in found if one.scores is not None and len(one.scores) == result.n]
        tasks[name] = replace(
            result,
            score=_mean([one.score or 0.0 for one in each]),
            scores={
                score: _mean([one.scores[score] for one in each])
                for score in result.scores
                if all(score in one.scores for one in each)
            },
            interval=interval.ends if interval else None,
            empty=round(_mean([one.empty for one in each])),
            predictions="",
            answers={},
            ceiling=None,
            calibration=None,
            samples=None,
            variants=None,
        )
        evidence[name] = Evidence(
            found[0].kind, found[0].why, sample, np.mean(scores, axis=0) if len(scores) == len(runs) else None
        )
    folder = first.submission.rpartition("/")[0]
    digest = hashlib.sha256(repr(key).encode("utf-8", "surrogatepass")).hexdigest()[:12]
    unstated = {
        name: default
        for name, default in _STATED.items()
        if any(getattr(run, name) != getattr(first, name) for run in runs)
    }
    return replace(
        first,
        # No submission has this path, and it stays the same when more runs are added.
        path=f"{folder}//runs-{digest}{first.path.removeprefix(first.submission)}",
        tasks=tasks,
        evidence=evidence,
        submission="",
        files={},
        remarks=tuple(dict.fromkeys(remark for run in runs for remark in run.remarks)),
        usage={},
        times={},
        seed="",
        runs=tuple(runs),
        **unstated,
    )


_STATED: Mapping[str, Any] = {
    **dict.fromkeys(("description", "url", "training_data", "date", "predictor"), ""),
    **dict.fromkeys(("model_size", "open_weights")),
}
"""Fields that a system keeps only if all its runs agree on them, with the values used if they don't."""


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _is_alike(one: Sample, other: Sample) -> bool:
    return np.array_equal(one.sizes, other.sizes) and np.array_equal(one.strata, other.strata)


# Reported results


def _read_reported(place: Path, shown: str) -> tuple[list[tuple[Path, Results]], list[Refusal]]:
    found: list[tuple[Path, Results]] = []
    refused: list[Refusal] = []
    for path in _results_in(place):
        name = shown if path == place else f"{shown}/{os.path.relpath(path, place)}"
        root = place if place.is_dir() else place.parent
        if not is_within(root, path):
            refused.append(Refusal(printable(name), _LEADS_OUT))
            continue
        try:
            results = Results.from_json(read_bounded(path), name)
        except InvalidResultsError as error:
            if not error.kind.startswith("decabench.") or error.kind.startswith("decabench.results/"):
                refused.append(Refusal(printable(name), printable_line(error.reason, 300)))
            continue
        if results.split in RANKED_SPLITS:
            found.append((path, results))
    return found, refused


def _choose(
    reported: Sequence[tuple[Path, Results]], split: str, suite: Suite
) -> tuple[Path, Results | None]:
    found = [
        (results.answers == "raw", results.suite.name != suite.name, number)
        for number, (_, results) in enumerate(reported)
        if results.split == split and not results.tasks.keys().isdisjoint(suite.tasks)
    ]
    return reported[min(found)[-1]] if found else (Path(), None)


def _reported(
    task: str, result: TaskResult, why: str, path: Path, split: str, keeper: Keeper
) -> tuple[TaskResult, Evidence]:
    """Return a reported result and, if it will be ranked, the statistics that came with it.

    Raises _ContradictionError if the statistics don't agree with the score.
    """
    metric = keeper.metrics.get(result.metric)
    variants = result.variants
    if variants is not None:  # recompute the summary of the scores instead of trusting it
        headlines = {**variants.scores, **variants.retired}
        headlines = dict(sorted(headlines.items(), key=lambda each: int(each[0])))
        higher_is_better = metric is None or metric.higher_is_better
        variants = (
            VariantScores.of(headlines, higher_is_better, variants.retired) if len(headlines) > 1 else None
        )
    result = replace(result, interval=None, units=None, variants=variants)
    file = statistics_path(path.parent, task)
    if (
        metric is None
        or result.status != "scored"
        or not keeper.options.rank_reported
        or keeper.hides(task, split)
    ):
        return result, Evidence(why=why)
    if not file.is_file() or not is_within(path.parent, file):
        return result, Evidence(why=f"{why}, and there are no statistics")
    try:
        metric, units, rows = read_statistics(file, metric)
        sample = Sample.of_levels(metric, rows, units, task)
        score = sample.score
    except Exception as error:  # a damaged file can fail in many ways
        raise _ContradictionError(
            f"its statistics for {task} are damaged or belong to a metric other than {metric.name}; "
            "run decabench evaluate again"
        ) from error
    if len(rows) != result.n or not numbers_agree(result.score, score):
        raise _ContradictionError(
            f"its score for {task} is {result.score:.8g} on {result.n:,} examples, but its statistics "
            f"give {score:.8g} on {len(rows):,}; run decabench evaluate again"
        )
    names = keeper.tasks[task].unit_names if task in keeper.tasks else ()
    # Without the outer units, an interval could be half as wide as it should be.
    if names and len(names) != units.shape[1]:
        return result, Evidence(why=f"{why}, and its statistics do not have the same units as the task")
    interval = sample.interval
    result = replace(
        result, interval=interval.ends if interval else None, units=describe_units(sample, names)
    )
    return result, _evidence("reported", why, sample, rows)
