"""Record scores: write new ones among a submission's earlier ones, with statistics and the manifest that binds them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from decabench.errors import DataError, DecabenchError, MissingDataError
from decabench.files import (
    file_digest,
    is_within,
    make_folder,
    remove_file,
    require_within,
    sweep_temporary,
    wait_for_lock,
)
from decabench.metrics import score_rows
from decabench.scoring.evaluator import (
    ScoredTask,
    ScoringOptions,
    add_intervals,
    digest_answers,
    find_metric,
    known_to,
    open_with_remade,
    score_submission,
    write_statistics,
)
from decabench.scoring.manifest import (
    BoundResults,
    InvalidManifestError,
    Manifest,
    bind_task,
    check_manifest,
    read_manifest,
    results_under_manifest,
    write_manifest,
)
from decabench.scoring.results import (
    STATISTICS,
    InvalidResultsError,
    Results,
    TaskResult,
    parse_record,
    read_bounded,
    read_results_file,
    statistics_path,
    write_results_file,
)
from decabench.scoring.scored_examples import EXAMPLES, examples_path, make_examples, save_examples
from decabench.scoring.significance import Sample, describe_units, read_rows, stored_metric
from decabench.submission import (
    MANIFEST,
    RESULTS,
    SIGNATURE,
    AnswerKind,
    Submission,
    SubmissionInfo,
    answers_digest,
    open_submission,
    read_answers,
    read_withheld,
    remove_results,
    results_folders,
)
from decabench.tasks import DECATHLON, TASKS, Store, Task, home_folder, known_tasks
from decabench.workers import collection_paused

__all__ = [
    "TOLERANCE",
    "Recorded",
    "drop_results",
    "manifest_root",
    "numbers_agree",
    "read_sample",
    "record_scores",
    "require_withheld",
    "results_folder",
]

TOLERANCE = 1e-6
"""How far, relative to the score, statistics may be off: libraries add in different orders."""


def numbers_agree(one: float | None, reference: float) -> bool:
    """Return whether a number is there and equals another up to the rounding of sums."""
    return one is not None and abs(one - reference) <= TOLERANCE * max(1.0, abs(reference))


@dataclass(frozen=True)
class Recorded:
    """Scores as they were written."""

    results: Results
    """The new scores, and the earlier ones that still hold."""
    path: Path
    """The results file."""
    root: Path
    """The folder of the manifest."""
    kept: tuple[str, ...] = ()
    """Tasks whose earlier results were kept."""
    left_out: tuple[str, ...] = ()
    """Earlier results that no longer hold, each with the reason: `squad: its answers have changed`."""
    again: tuple[str, ...] = ()
    """Tasks whose earlier results no manifest bound, so that they were scored again."""


def results_folder(submission: Path, results: Results) -> Path:
    """Return the folder where results are written by default: in the submission, or beside an archive."""
    name = results.split
    if results.suite != DECATHLON:
        name += f"-{results.suite.name}"
    if results.answers == "raw":
        name += "-raw"
    return results_home(submission) / name


def results_home(submission: Path) -> Path:
    """Return the folder of all results of a submission: `results` in it, or the folder beside an archive."""
    return submission / RESULTS if submission.is_dir() else _beside(submission)


def _beside(archive: Path) -> Path:
    return archive.parent / f"{archive.name}.results"


def manifest_root(submission: Path, folder: Path) -> Path:
    """Return the folder of the manifest that covers a folder of results.

    The submission's own, if the results are in it; for an archive, the folder of results beside it; or else the folder
    of results itself.
    """
    if submission.is_dir() and folder.absolute().is_relative_to(submission.absolute()):
        return submission
    beside = _beside(submission)
    return beside if folder.absolute().parent == beside.absolute() else folder


def record_scores(
    submission: str | Path,
    folder: Path,
    results: Results,
    scored: Mapping[str, ScoredTask],
    options: ScoringOptions,
) -> Recorded:
    """Write `results.json`, statistics and the manifest, and keep earlier results of other tasks that are still valid.

    An earlier result is valid if its answers, data and metric are the same and its statistics give its score. A result
    that this machine did not score, or that no manifest binds, is scored again if answers and data are available.
    Otherwise it is kept, and the new manifest says if no manifest bound it.

    The manifest is removed first and written last, and until all statistics are there, `results.json` has only results
    that stay as they are, so that a killed run leaves no contradiction and loses nothing else. Raises StorageError,
    also if a link leads out of the folder.

    If another process writes scores under the same manifest, wait for it: each keeps the other's results.
    """
    submission = Path(submission)
    root = manifest_root(submission, folder)
    require_within(root, folder, folder / STATISTICS, folder / EXAMPLES)
    make_folder(folder, "--output")
    notice = f"Waiting for another process that writes results in {root}."
    with wait_for_lock(root / MANIFEST, notice, "--output"):
        return _record(submission, root, folder, results, scored, options)


def _record(
    submission: Path,
    root: Path,
    folder: Path,
    results: Results,
    scored: Mapping[str, ScoredTask],
    options: ScoringOptions,
) -> Recorded:
    """Do what `record_scores` says, while nobody else writes there."""
    for each in {root, folder, folder / STATISTICS, folder / EXAMPLES}:
        sweep_temporary(each)
    earlier = _read_earlier(root, folder, results)
    kept, left_out = _still_valid(submission, earlier, results, options)
    again, changed = _score_unbound(submission, earlier, kept, options)
    scored = {**again, **scored}
    left_out += changed
    kept = {name: found for name, found in kept.items() if found.is_bound}
    merged = replace(
        results, tasks={**{name: found.result for name, found in again.items()}, **results.tasks}
    )
    if kept or again:
        both = {**{name: found.result for name, found in kept.items()}, **merged.tasks}
        samples = {name: held.sample for name, held in kept.items() if held.sample}
        samples |= {name: found.sample for name, found in scored.items() if found.sample}
        hidden = {name for name, found in scored.items() if found.hidden}
        tasks, ends = add_intervals(both, samples, results.suite, hidden)
        merged = replace(results, tasks=tasks, interval=ends)
    elsewhere = _bind_elsewhere(root, earlier)
    signed = (root / MANIFEST).read_bytes() if earlier.manifest else None
    remove_file(root / MANIFEST)
    steady = {
        name
        for name, found in again.items()
        if replace(found.result, interval=None) == replace(earlier.tasks[name], interval=None)
    }
    _write_kept(folder, merged, kept.keys() | steady)
    for path in _statistics_of_ours(root, folder, earlier, kept.keys() | steady):
        require_within(root, path.parent)
        remove_file(path)
        remove_file(examples_path(folder, path.stem))
    write_statistics(folder, scored)
    write_examples(folder, submission, scored, options)
    path = write_results_file(folder, merged)
    bound = {name: bind_task(root, folder, name, merged, found.files) for name, found in scored.items()}
    for name, held in kept.items():
        bound[name] = replace(
            bind_task(root, folder, name, merged, held.files), decabench=held.version, basis=held.basis
        )
    mine = BoundResults(merged.split, file_digest(path), bound)
    write_manifest(root, Manifest({**elsewhere, earlier.name: mine}), signed)
    return Recorded(merged, path, root, tuple(kept), tuple(left_out), tuple(again))


def _write_kept(folder: Path, merged: Results, kept: Collection[str]) -> None:
    """Leave a results file with nothing but kept results, whose statistics stay as they are, or none."""
    if kept:
        rest = {name: task for name, task in merged.tasks.items() if name in kept}
        write_results_file(folder, replace(merged, tasks=rest, interval=None))
    else:
        remove_file(folder / "results.json")


def _statistics_of_ours(root: Path, folder: Path, earlier: _Earlier, kept: Collection[str]) -> list[Path]:
    """Return the files of statistics to replace or remove: those that the earlier manifest or results name.

    In a submission's own folder of results, also those of a run that was killed before it wrote its results.
    """
    written = {*earlier.tasks, *(earlier.bound.tasks if earlier.bound else ())}
    if folder != root and folder.parent in (root, root / RESULTS):
        written |= TASKS.keys()
    return [statistics_path(folder, name) for name in sorted(written.difference(kept))]


def read_sample(root: Path, folder: Path, task: str, result: TaskResult) -> Sample:
    """Read the statistics behind a result in a folder of results.

    The metric must be known to be the task's own. Raises DataError if they are missing, damaged or give another score.
    """
    path = statistics_path(folder, task)
    if not path.is_file() or not is_within(root, path):
        raise MissingDataError("its statistics are missing")
    metric = stored_metric(find_metric(result.metric), path)
    units, rows = read_rows(path, metric.columns)
    sample = Sample.of_levels(metric, rows, units, task)
    if sample.examples != result.n:
        raise DataError(f"its statistics have {sample.examples:,} examples, results.json has {result.n:,}")
    try:
        found = score_rows(metric, rows.tolist())
    except (ArithmeticError, ValueError) as error:  # of numbers near the largest that there are
        raise DataError(f"its statistics give no score: {error}") from error
    if not all(map(math.isfinite, found.details.values())):
        raise DataError("its statistics give no score that is a finite number")
    stated = float("nan") if result.score is None else result.score
    if not numbers_agree(sample.score, stated):
        raise DataError(f"its statistics give {sample.score:.4f}, results.json has {stated:.4f}")
    for name, value in found.details.items():
        if name in result.scores and not numbers_agree(result.scores[name], value):
            raise DataError(
                f"its statistics give {name} {value:.4f}, results.json has {result.scores[name]:.4f}"
            )
    return sample


# Earlier results


def drop_results(folder: Path, changed: Collection[tuple[str, str]], info: SubmissionInfo) -> tuple[str, ...]:
    """Remove the results of the tasks and splits whose answers are about to change, and keep those of all others.

    The remaining results describe the submission as `info`, so that they do not contradict the new submission.toml. A
    killed process leaves nothing that contradicts the manifest, and the next one drops no more. Returns what was
    removed: `sst (validation)`, or a whole folder, `results/test`. Raises StorageError.
    """
    here = results_folders(folder)
    if not here and not (folder / MANIFEST).exists():
        return ()
    with wait_for_lock(folder / MANIFEST, f"Waiting for another process that writes results in {folder}."):
        try:
            manifest = read_manifest(folder)
        except InvalidManifestError:
            manifest = None
        names = {path.relative_to(folder).as_posix() for path in here}
        return _drop(folder, names, manifest or Manifest({}), changed, info)


def _as_json(info: SubmissionInfo) -> dict[str, Any]:
    """Return a description of a submission as it is read back from results."""
    described: dict[str, Any] = json.loads(json.dumps(info.described()))
    return described


def _drop(
    folder: Path,
    here: Collection[str],
    manifest: Manifest,
    changed: Collection[tuple[str, str]],
    info: SubmissionInfo,
) -> tuple[str, ...]:
    """Do the work of `drop_results` on the folders that are here.

    Results that contradict the manifest are removed too. Results that no manifest binds stay unbound.
    """
    faults = [fault for fault in check_manifest(folder) if not fault.is_absent]
    bound, removed, gone = dict(manifest.results), [], []
    smaller: dict[str, Results] = {}
    for name in sorted({*here, *bound}):
        wrong = {fault.task for fault in faults if fault.folder == name and name in bound}
        try:
            old = None if "" in wrong else read_results_file(folder / name / "results.json")
        except InvalidResultsError:
            old = None
        if old is None and name not in bound and not changed:
            continue
        dropped = (
            {task for task in old.tasks if (task, old.split) in changed or task in wrong} if old else {""}
        )
        if old is None or dropped >= old.tasks.keys():
            gone.append(name)
            bound.pop(name, None)
        elif dropped or dict(old.submission) != _as_json(info):
            rest = {task: result for task, result in old.tasks.items() if task not in dropped}
            interval = None if dropped & set(old.suite.tasks) else old.interval
            smaller[name] = replace(old, submission=_as_json(info), tasks=rest, interval=interval)
            removed += [f"{task} ({old.split})" for task in old.tasks if task in dropped]
    if gone or smaller or any(held.replaced for held in bound.values()):
        for path in (folder / name for name in (*gone, *smaller)):
            require_within(folder, path, path / STATISTICS, path / EXAMPLES)
        for name in bound.keys() & smaller.keys():
            bound[name] = _bind_smaller(folder / name, smaller[name], bound[name])
        _write_bound(folder, bound)
        remove_results(folder, [folder / name for name in gone])
        for name, rest_of in smaller.items():
            _write_smaller(folder / name, rest_of)
        digests = {name: file_digest(folder / name / "results.json") for name in bound}
        _write_bound(
            folder, {name: replace(held, results=digests[name], replaced="") for name, held in bound.items()}
        )
    return (*removed, *gone)


def _write_bound(folder: Path, bound: Mapping[str, BoundResults]) -> None:
    """Replace the manifest, or remove it if it would bind nothing."""
    if bound:
        path = folder / MANIFEST
        write_manifest(folder, Manifest(bound), path.read_bytes() if path.is_file() else None)
    else:
        remove_file(folder / MANIFEST)
        remove_file(folder / SIGNATURE)


def _bind_smaller(folder: Path, results: Results, held: BoundResults) -> BoundResults:
    """Return what the manifest says about results that are about to replace larger ones."""
    tasks = {task: bound for task, bound in held.tasks.items() if task in results.tasks}
    digest = hashlib.sha256(results.to_json().encode("utf-8")).hexdigest()
    return BoundResults(held.split, f"sha256:{digest}", tasks, file_digest(folder / "results.json"))


def _write_smaller(folder: Path, results: Results) -> None:
    """Write results without some tasks. Their files go first, so that a kill leaves no file without results."""
    old = read_results_file(folder / "results.json").tasks
    for task in old.keys() - results.tasks.keys():
        remove_file(statistics_path(folder, task))
        remove_file(examples_path(folder, task))
    write_results_file(folder, results)


@dataclass(frozen=True)
class _Earlier:
    """What a folder of results holds before it is written."""

    root: Path
    """The manifest's folder."""
    folder: Path
    """The folder of results."""
    name: str
    """The same, relative to the root."""
    manifest: Manifest | None = None
    """The manifest, if there is a valid one."""
    tasks: Mapping[str, TaskResult] = field(default_factory=dict)
    """The results."""
    answers: AnswerKind = "extracted"
    """Which texts were scored."""
    version: str = ""
    """The version of decabench that wrote them."""
    reason: str = ""
    """Why none of them hold; empty if each has to be looked at."""
    lost: tuple[str, ...] = ()
    """The tasks that a damaged results file names, as far as it can be read."""

    @property
    def bound(self) -> BoundResults | None:
        """What the manifest says about the folder."""
        return self.manifest.results.get(self.name) if self.manifest else None


@dataclass(frozen=True)
class _Kept:
    """An earlier result that still holds."""

    result: TaskResult
    """The result."""
    sample: Sample | None
    """Its statistics; None for a failed task or a limited run."""
    files: Mapping[str, str]
    """Its files: path in the submission to sha256."""
    version: str
    """The version of decabench that scored it."""
    is_bound: bool = True
    """Whether there is nothing better to rest on than what is kept: a manifest, or no answers at hand."""
    basis: Literal["", "statistics"] = ""
    """What it rests on, as in the manifest."""


def _read_earlier(root: Path, folder: Path, new: Results) -> _Earlier:
    name = folder.resolve().relative_to(root.resolve()).as_posix()
    path, manifest, reason = folder / "results.json", None, ""
    try:
        manifest = read_manifest(root)
    except InvalidManifestError as error:
        reason = f"the earlier {MANIFEST} is not valid: {error.reason}"
    if not path.exists():
        return _Earlier(root, folder, name, manifest)
    try:
        old = read_results_file(path)
    except InvalidResultsError as error:
        reason = f"the earlier results.json is damaged: {error.reason}; score all of its tasks again"
        return _Earlier(root, folder, name, manifest, reason=reason, lost=_stated_tasks(path))
    if manifest and not reason:
        faults = [fault for fault in check_manifest(root) if fault.folder == name and not fault.task]
        reason = faults[0].reason if faults else ""
    return _Earlier(
        root, folder, name, manifest, old.tasks, old.answers, old.decabench, reason or _difference(old, new)
    )


def _stated_tasks(path: Path) -> tuple[str, ...]:
    try:
        return tuple(parse_record(read_bounded(path), str(path))["tasks"])
    except InvalidResultsError:
        return ()


def _difference(old: Results, new: Results) -> str:
    """Say in what two results files differ so that no task of one belongs into the other; empty if they agree."""
    for what, before, now in (
        ("split", old.split, new.split),
        ("suite", _stated_suite(old), _stated_suite(new)),
        ("kind of answers", old.answers, new.answers),
        ("submission", old.submission["name"], new.submission["name"]),
        ("predictor", old.submission.get("predictor"), new.submission.get("predictor")),
    ):
        if before != now:
            return f"the earlier results.json is for another {what}"
    return ""


def _stated_suite(results: Results) -> tuple[object, ...]:
    """Return the parts of a suite in a results file that decide its totals; a suite file has further ones."""
    suite = results.suite
    return suite.name, suite.tasks, suite.total, suite.total_name


def _still_valid(
    submission: Path, earlier: _Earlier, new: Results, options: ScoringOptions
) -> tuple[dict[str, _Kept], list[str]]:
    """Return the earlier results of tasks that were not scored now, and why others are left out."""
    names = [name for name in earlier.tasks or earlier.lost if name not in new.tasks]
    if earlier.reason:
        return {}, [f"{', '.join(names) or 'earlier results'}: {earlier.reason}"]
    kept: dict[str, _Kept] = {}
    left_out = []
    if names:
        known = known_tasks(options.include) if set(names) - set(TASKS) else TASKS
        with open_submission(submission) as opened:
            for name in names:
                try:
                    kept[name] = _require_valid(earlier, opened, name, options, known)
                except DecabenchError as error:
                    left_out.append(f"{name}: {str(error).rstrip('.')}")
    return kept, left_out


def _require_valid(
    earlier: _Earlier, opened: Submission, name: str, options: ScoringOptions, known: Mapping[str, Task]
) -> _Kept:
    """Return an earlier result of a task. Raises DecabenchError, with the reason, if it no longer holds."""
    result = earlier.tasks[name]
    if name not in known:
        raise DataError("the task is not known; give the file that defines it with --include")
    task = known[name]
    if result.metric != task.metric:
        raise DataError(f"it was scored by {result.metric}, and its metric is {task.metric}")
    for metric in (task.metric, *task.secondary):
        if metric in result.signatures and result.signatures[metric] != find_metric(metric).full_signature:
            raise DataError(f"it was scored by another version of {metric}")
    store = Store(home_folder(options.home))
    record = store.records(name).get(options.split)
    if record is not None and record.fingerprint != result.data.fingerprint:
        raise DataError("its data has changed")
    _require_same_answers(opened, task, options.split, result, earlier.answers)
    sample = None
    at_hand = (name, options.split) in opened.files
    is_again = at_hand and store.hides(task, options.split)  # without statistics, it is scored again
    if result.status == "scored" and not is_again:
        sample = read_sample(earlier.root, earlier.folder, name, result)
        if (
            not result.units and len(task.unit_names) == 1
        ):  # of several levels, files of earlier versions have one
            result = replace(result, units=describe_units(sample, task.unit_names))
    files = digest_answers(opened, name, options.split)
    if earlier.bound is not None:
        held = earlier.bound.tasks.get(name)
        if held is None:
            raise DataError(f"{MANIFEST} does not mention it")
        if sample is not None:
            path = statistics_path(earlier.folder, name)
            if held.statistics != file_digest(path):
                raise DataError(f"its statistics are not those whose digest is in {MANIFEST}")
        version = held.decabench or earlier.version
        if not held.basis:
            # A manifest says which result belongs to these answers, but anyone can write one.
            is_bound = not at_hand or record is None
            return _Kept(result, sample, files, version, is_bound=is_bound)
        return _Kept(result, sample, files, version, is_bound=not at_hand, basis="statistics")
    return _Kept(result, sample, files, earlier.version, is_bound=not at_hand, basis="statistics")


def _score_unbound(
    submission: Path, earlier: _Earlier, kept: Mapping[str, _Kept], options: ScoringOptions
) -> tuple[dict[str, ScoredTask], list[str]]:
    """Score again what no manifest binds, and say what else than the earlier score that gives, or why it cannot be."""
    again: dict[str, ScoredTask] = {}
    left_out = []
    for name in [name for name, held in kept.items() if not held.is_bound]:
        try:
            without = earlier.tasks[name].without
            chosen = replace(options, tasks=[name], without={name: without.ids} if without else {})
            again |= score_submission(submission, chosen)[1]
        except DecabenchError as error:
            reason = f"this machine did not score it, and cannot do so now: {str(error).rstrip('.')}"
            left_out.append(f"{name}: {reason}")
            continue
        before, now = earlier.tasks[name].score, again[name].result.score
        if before != now and (now is None or not numbers_agree(before, now)):
            given, found = ("no score" if value is None else f"{value:.4f}" for value in (before, now))
            left_out.append(f"{name}: the earlier results.json has {given}; scored again, it has {found}")
        elif not _agree_without(earlier.tasks[name], again[name].result):
            left_out.append(
                f"{name}: the earlier results.json has another score without some examples than scoring again gives"
            )
    return again, left_out


def _agree_without(before: TaskResult, now: TaskResult) -> bool:
    if not before.without or not now.without:
        return bool(before.without) == bool(now.without)
    return numbers_agree(before.without.score, now.without.score)


def _require_same_answers(
    opened: Submission, task: Task, split: str, result: TaskResult, kind: AnswerKind
) -> None:
    file = opened.files.get((task.name, split))
    if file is None:
        require_withheld(opened, task, split, result)
        return
    if result.status == "failed":
        return
    stated = {"0": result.predictions, **(result.variants.predictions if result.variants else {})}
    others = {str(number): files.get((task.name, split)) for number, files in opened.variants.items()}
    for number, digest in stated.items():
        found = file if number == "0" else others.get(number)
        if found is None or answers_digest(read_answers(found, kind)) != digest:
            raise DataError("its answers have changed")


def require_withheld(opened: Submission, task: Task, split: str, result: TaskResult) -> bool:
    """Check that answers which are not there may be withheld, and return whether there are digests of them.

    Raises SubmissionError if the digests are damaged, DataError if the answers or digests do not belong to the result.
    """
    path = opened.withheld.get((task.name, split))
    if path is None:
        if task.redistributable:
            raise DataError("its answers are no longer there")
        return False
    if not task.may_withhold:
        raise DataError("its answers may be passed on, so there is no reason to withhold them")
    if read_withheld(path).answers != result.predictions:
        raise DataError("the digests of its withheld answers are not those of the answers that were scored")
    return True


def _bind_elsewhere(root: Path, earlier: _Earlier) -> dict[str, BoundResults]:
    """Return what a manifest says about other folders of results.

    A submission from before there were manifests gets its other results bound as they are.
    """
    others: dict[str, BoundResults] = {}
    if earlier.manifest is not None:
        others = {name: bound for name, bound in earlier.manifest.results.items() if (root / name).is_dir()}
    else:
        for path in results_under_manifest(root):
            name = path.parent.relative_to(root).as_posix()
            if is_within(root, path) and name != earlier.name:
                try:
                    found = read_results_file(path)
                except InvalidResultsError:
                    continue
                tasks = {
                    task: replace(
                        bind_task(root, path.parent, task, found, {}),
                        decabench=found.decabench,
                        basis="stated",
                    )
                    for task in found.tasks
                }
                others[name] = BoundResults(found.split, file_digest(path), tasks)
    others.pop(earlier.name, None)
    return others


def write_examples(
    folder: Path, submission: Path, scored: Mapping[str, ScoredTask], options: ScoringOptions
) -> None:
    """Write `examples/<task>.jsonl.gz` for every task that has a score and public labels. Raises StorageError."""
    with collection_paused(), open_with_remade(submission, options.remade) as opened:
        known = known_to(opened, options)
        for name, found in scored.items():
            if found.sample is not None and not found.hidden:
                save_examples(folder, *make_examples(opened, known[name], found, options))
