"""Verify a results file: score the submission again and report every difference, task by task."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from decabench.errors import DecabenchError, MissingDataError, SubmissionError
from decabench.files import Paths
from decabench.scoring.evaluator import (
    ScoringOptions,
    add_intervals,
    known_to,
    open_with_remade,
    score_submission,
)
from decabench.scoring.manifest import ManifestFault, check_manifest
from decabench.scoring.record import manifest_root, read_sample, require_withheld, results_home
from decabench.scoring.results import (
    InvalidResultsError,
    Results,
    TaskResult,
    parse_record,
    parse_task,
    read_bounded,
    read_suite,
)
from decabench.scoring.significance import Sample
from decabench.submission import (
    METADATA_NAME,
    Submission,
    SubmissionInfo,
    open_submission,
    read_answers,
    read_metadata,
    read_withheld,
)
from decabench.tasks import Store, Task, home_folder

__all__ = [
    "Discrepancy",
    "TaskCheck",
    "VerifiedResults",
    "require_remade",
    "results_files",
    "submission_differences",
    "verify",
    "verify_file",
]


@dataclass(frozen=True)
class Discrepancy:
    """A value in a results file that scoring again does not reproduce, or a contradiction with the manifest."""

    where: str
    """`squad: predictions`, `decascore`, ..."""
    meaning: str
    """What has changed: the answers, the labels, the metric, or the file."""
    stated: str = ""
    """The value in the file."""
    found: str = ""
    """The value from scoring again; with `stated`, empty if the meaning says it all."""

    def __str__(self) -> str:
        values = f": the file says {self.stated}, scoring gives {self.found}"
        return f"{self.where}: {self.meaning}{values if self.stated or self.found else ''}"


@dataclass(frozen=True)
class TaskCheck:
    """What verification found about one task."""

    status: Literal["same", "differs", "not at hand"]
    """`not at hand` if its answers are withheld, so that only its statistics could be held against its result."""
    differences: tuple[Discrepancy, ...] = ()
    """Everything that differs."""
    note: str = ""
    """What the result was held against, if its answers or its statistics are not at hand."""


@dataclass(frozen=True)
class VerifiedResults:
    """What verification found about one results file."""

    path: Path
    """The results file."""
    tasks: Mapping[str, TaskCheck]
    """Every task that the file has a result for."""
    lacking: tuple[str, ...] = ()
    """Tasks that the submission answers, but the file has no result for."""
    other: tuple[Discrepancy, ...] = ()
    """Differences that concern no single task: totals, the suite, the bytes, the manifest."""

    @property
    def differences(self) -> list[Discrepancy]:
        """All differences; none if the file is what scoring gives, as far as the answers are at hand."""
        found = [one for check in self.tasks.values() for one in check.differences]
        lacking = [
            Discrepancy(name, "it is answered, but the file has no result for it") for name in self.lacking
        ]
        return [*found, *lacking, *self.other]

    @property
    def ok(self) -> bool:
        """Whether nothing differs, and something was scored again."""
        return not self.differences and any(check.status == "same" for check in self.tasks.values())

    @property
    def verdict(self) -> str:
        """The result in one line."""
        names: dict[str, list[str]] = {"same": [], "differs": [], "not at hand": []}
        for name, check in self.tasks.items():
            names[check.status].append(name)
        same, differs, absent = names["same"], names["differs"], names["not at hand"]
        of = f"{len(same)} of {len(self.tasks)} tasks" if len(same) < len(self.tasks) else _count(len(same))
        absent_text = f"{len(absent)} not at hand ({', '.join(absent)})"
        if self.ok and not absent:
            return f"verified, the same bytes: {of}"
        if self.ok:
            return f"verified: {of} the same, {absent_text}"
        parts = [f"{len(self.differences)} differences" if len(self.differences) != 1 else "1 difference"]
        parts += [f"{', '.join(differs)} differ{'s' if len(differs) == 1 else ''}"] if differs else []
        parts += [f"the file lacks {', '.join(self.lacking)}"] if self.lacking else []
        parts += [f"{of} the same"] if same else []
        parts += [absent_text] if absent else []
        if not self.differences:
            return f"not verified: none of its answers are at hand ({', '.join(absent)})"
        return f"not verified: {'; '.join(parts)}"


def _count(tasks: int) -> str:
    return f"{tasks} task" if tasks == 1 else f"{tasks} tasks"


_MEANINGS = {
    "predictions": "the answers have changed",
    "fingerprint": "the data or its labels are not the same",
    "signature": "the metric is another version",
    "signatures": "a metric is another version",
    "score": "the score was edited, or depends on something that has changed",
    "scores": "a score was edited, or depends on something that has changed",
    "interval": "the interval was edited, or depends on something that has changed",
    "decascore": "the decaScore was edited, or depends on something that has changed",
    "total": "the total was edited, or depends on something that has changed",
    "suite": "the suite was edited",
    "submission": "submission.toml has changed",
    "answers": "the answers, or the rule, finish or context_kept of some lines, have changed",
    "ceiling": "the context_kept of some lines has changed",
    "partial": "submission.toml has changed",
    "variants": "the answers to other wordings, or which of them are retired, have changed",
    "without": "a score without some examples was edited, or depends on something that has changed",
    "decabench": "scored by another version of decabench",
}
"""Map from a key to the meaning of a difference under it; the outermost key counts."""

_TOTALS = ("decascore", "interval", "total")


def results_files(submission: Path) -> list[Path]:
    """Find the results files in a submission's folder, or beside an archive. Raises MissingDataError."""
    folder = results_home(submission)
    found = sorted(folder.glob("*/results.json"))
    if not found and submission.is_file():
        raise MissingDataError(
            f"There is no results.json in {folder}, where those of an archive are kept; what is inside the archive is "
            "not read. Unpack it and verify the folder, or run decabench evaluate first."
        )
    if not found:
        raise MissingDataError(
            f"There is no results.json in {folder}: run decabench evaluate first (the Python function of that name "
            "writes nothing)."
        )
    return found


def require_remade(submission: str | Path, remade: str | Path, files: Sequence[Path]) -> None:
    """Raise DecabenchError if a second submission has none of the answers that the first one withholds.

    Only tasks that the results files have results for count. Without this it would be ignored.
    """
    with open_submission(submission) as opened, open_submission(remade) as again:
        stated = set()
        for path in files:
            try:
                record = parse_record(read_bounded(path), str(path))
            except InvalidResultsError:
                continue  # reported when it is verified
            stated |= {(name, record["split"]) for name in record["tasks"]}
        withheld, found = stated - opened.files.keys(), again.files.keys()
    if stated and not withheld:
        raise DecabenchError(f"{submission} withholds no answers of its results: leave out --remade.")
    if withheld and not withheld & found:
        names = [", ".join(f"{task} ({split})" for task, split in sorted(each)) for each in (withheld, found)]
        raise DecabenchError(
            f"{remade} has none of the answers that {submission} withholds: they are {names[0]}, and it answers "
            f"{names[1] or 'nothing'}. Make them again with decabench predict, or leave out --remade."
        )


def verify(
    submission: str | Path,
    results: str | Path | None = None,
    home: str | Path | None = None,
    jobs: int = 1,
    include: Paths = (),
) -> list[Discrepancy]:
    """Score a submission again and return every difference from a results file; none if they agree.

    Tasks whose answers are withheld are held against their statistics and digests only. Without `results`, every
    results file in the submission's folder is verified.

    Raises InvalidResultsError if the file cannot be read, and the errors of `evaluate`.
    """
    files = results_files(Path(submission)) if results is None else [Path(results)]
    options = ScoringOptions(home=home, jobs=jobs, include=include)
    return [found for file in files for found in verify_file(submission, file, options).differences]


def verify_file(submission: str | Path, path: Path, options: ScoringOptions) -> VerifiedResults:
    """Score a submission again and hold one results file against it.

    The file decides over split, suite, tasks and kind of answers; the rest of the options count. Raises the errors of
    `verify`.
    """
    stated = parse_record(read_bounded(path), str(path))
    try:
        suite = read_suite(stated)
    except ValueError as error:
        raise InvalidResultsError(str(path), str(error)) from error
    options = replace(
        options,
        split=stated["split"],
        tasks=list(stated["tasks"]),
        answers=stated.get("answers", "extracted"),
        suite=suite,
        without=_stated_without(stated["tasks"]),
    )
    with open_with_remade(submission, options.remade) as opened:
        known = known_to(opened, options)
        answered = [task for task, split in opened.files if split == options.split and task in known]
        at_hand = [task for task in answered if task in stated["tasks"]]
        absent = _check_absent(submission, path, opened, stated, known, at_hand, options.split)
        digests = _check_digests(opened, at_hand, options.split)
        again = _score_again(submission, options, at_hand, absent, opened)
    notes = {name: found.note for name, found in absent.items() if not found.reason}
    found = {name: [Discrepancy(name, part.reason)] for name, part in absent.items() if part.reason}
    for name, said in digests.items():
        found.setdefault(name, []).append(Discrepancy(name, said))
    other: list[Discrepancy] = []
    same_bytes = path.read_bytes() == again.to_json().encode()
    given, made = dict(stated), json.loads(again.to_json())
    unclear = [name for name in stated["tasks"] if name not in again.tasks or name in digests]
    if unclear:  # neither they nor the totals can be verified, and other answers have other scores
        for each in (given, made):
            each["tasks"] = {name: task for name, task in each["tasks"].items() if name not in unclear}
        given, made = ({**each, **dict.fromkeys(_TOTALS)} for each in (given, made))
    store = Store(home_folder(options.home))
    hidden = {name for name in at_hand if store.hides(known[name], options.split)}
    for task, one in _differences(given, made) if not same_bytes else ():
        if task in hidden and "predictions" in one.where + one.found:
            one = replace(one, stated="", found="")  # perfect answers have the digest of the labels
        (found.setdefault(task, []) if task in stated["tasks"] else other).append(one)
    if not same_bytes and not found and not other:
        other.append(
            Discrepancy("results.json", "its bytes were rewritten", "the same values", "other bytes")
        )
    for fault in _manifest_faults(submission, path):
        if fault.is_absent and fault.task in at_hand:  # what they would say, scoring the answers has said
            notes[fault.task] = "by its answers; the statistics behind it are not in the submission"
            continue
        file = "results.json" if fault.in_results else "manifest.json"
        one = Discrepancy(fault.task or file, fault.reason)
        (found.setdefault(fault.task, []) if fault.task in stated["tasks"] else other).append(one)
    tasks = {
        name: TaskCheck("differs", tuple(found[name]))
        if name in found
        else TaskCheck("same" if name in at_hand else "not at hand", note=notes.get(name, ""))
        for name in stated["tasks"]
    }
    lacking = tuple(task for task in answered if task not in stated["tasks"])
    return VerifiedResults(path, tasks, lacking, tuple(other))


def _stated_without(tasks: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the ids that a results file says it left out, by task, as far as they are ids."""
    stated = {name: task.get("without") for name, task in tasks.items() if isinstance(task, Mapping)}
    ids = {name: without.get("ids") for name, without in stated.items() if isinstance(without, Mapping)}
    return {
        name: each
        for name, each in ids.items()
        if isinstance(each, list) and all(isinstance(id_, str) for id_ in each)
    }


@dataclass(frozen=True)
class _Absent:
    """A result whose answers are not at hand."""

    result: TaskResult | None = None
    """The result as stated, if there is nothing against it."""
    sample: Sample | None = None
    """Its statistics."""
    reason: str = ""
    """What is against it."""
    note: str = ""
    """What it was held against."""


def _check_absent(
    submission: str | Path,
    path: Path,
    opened: Submission,
    stated: Mapping[str, Any],
    known: Mapping[str, Task],
    at_hand: Sequence[str],
    split: str,
) -> dict[str, _Absent]:
    """Hold results without answers against their statistics and the digests of the answers."""
    root = manifest_root(Path(submission), path.parent)
    found: dict[str, _Absent] = {}
    for name in stated["tasks"]:
        if name in at_hand:
            continue
        try:
            if name not in known:
                raise MissingDataError("the task is not known; give the file that defines it with --include")
            result = parse_task(name, stated["tasks"][name])
            if result.metric != known[name].metric:
                raise MissingDataError(f"its metric is {known[name].metric}, not {result.metric}")
            has_digests = require_withheld(opened, known[name], split, result)
            sample = read_sample(root, path.parent, name, result) if result.status == "scored" else None
        except (DecabenchError, ValueError) as error:
            found[name] = _Absent(
                reason=f"it cannot be verified: {str(error).removeprefix(f'{name}: ').rstrip('.')}"
            )
        else:
            without = "" if has_digests else "; there are no digests of its answers"
            found[name] = _Absent(result, sample, note=f"its statistics give its score{without}")
    return found


def _check_digests(opened: Submission, at_hand: Sequence[str], split: str) -> dict[str, str]:
    """Hold answers that are at hand against the digests of those that were withheld."""
    said = {}
    for name in at_hand:
        if path := opened.withheld.get((name, split)):
            try:
                withheld = read_withheld(path)
                answers = read_answers(opened.files[name, split])
            except DecabenchError as error:
                said[name] = str(error).rstrip(".")
                continue
            if differing := withheld.differing(answers):
                first = f"the first is {differing[0]}"
                said[name] = (
                    f"{len(differing):,} of {len(answers):,} answers are not the withheld ones; {first}"
                )
    return said


def _score_again(
    submission: str | Path,
    options: ScoringOptions,
    at_hand: Sequence[str],
    absent: Mapping[str, _Absent],
    opened: Submission,
) -> Results:
    """Score what is at hand, and put the results beside it that hold without answers."""
    kept = {name: found.result for name, found in absent.items() if found.result is not None}
    hidden: set[str] = set()
    samples = {name: found.sample for name, found in absent.items() if found.sample is not None}
    results = dict(kept)
    if at_hand:
        again, scored = score_submission(submission, replace(options, tasks=list(at_hand), again=True))
        if not kept:
            return again
        results |= {name: found.result for name, found in scored.items()}
        samples |= {name: found.sample for name, found in scored.items() if found.sample}
        hidden = {name for name, found in scored.items() if found.hidden}
    tasks, ends = add_intervals(results, samples, options.suite, hidden)
    return Results(
        opened.info.described(), options.split, tasks, ends, answers=options.answers, suite=options.suite
    )


def submission_differences(results: Results, submission: str | Path) -> list[str]:
    """Return in what a results file differs from submission.toml; none if they agree or there is no submission.toml.

    Each is a sentence without a full stop: `submission.toml says predictor.variant 1, results.json says nothing`.
    """
    submission = Path(submission)
    if submission.is_dir() and not (submission / METADATA_NAME).exists():
        return []
    try:
        info = _read_info(submission)
    except SubmissionError as error:
        return [str(error).rstrip(".")]
    described = json.loads(json.dumps(info.described()))
    stated = json.loads(json.dumps(dict(results.submission)))
    return [
        f"{METADATA_NAME} says {where} {_shown(now)}, results.json says {_shown(before)}"
        for where, before, now in _unequal(stated, described)
    ]


def _read_info(submission: Path) -> SubmissionInfo:
    if not submission.is_dir():
        with open_submission(submission) as opened:
            return opened.info
    info, faults = read_metadata(submission)
    if info is None:
        raise SubmissionError(f"{faults[0]}.")
    return info


def _unequal(stated: Any, found: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any, Any]]:
    """Yield where two values differ, and the values; in a comparison of fields, an empty one is none."""
    if isinstance(stated, Mapping) and isinstance(found, Mapping):
        for key in sorted({*stated, *found}):
            yield from _unequal(stated.get(key), found.get(key), (*path, key))
    elif (type(stated), stated) != (type(found), found) and not (_is_empty(stated) and _is_empty(found)):
        before, now = ("nothing" if value is None else value for value in (stated, found))
        yield ".".join(path), before, now


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {})


def _manifest_faults(submission: str | Path, path: Path) -> list[ManifestFault]:
    """Return what contradicts the manifest, of all of it and of a results file."""
    root = manifest_root(Path(submission), path.parent)
    name = path.parent.resolve().relative_to(root.resolve()).as_posix()
    return [fault for fault in check_manifest(root) if fault.folder in ("", name)]


def _differences(stated: Any, found: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Discrepancy]]:
    """Yield every difference with its task, or an empty string for what concerns none."""
    if isinstance(stated, Mapping) and isinstance(found, Mapping):
        for key in sorted({*stated, *found}):
            yield from _differences(stated.get(key, "nothing"), found.get(key, "nothing"), (*path, key))
    elif stated != found:
        task = path[1] if path[0] == "tasks" and len(path) > 1 else ""
        names = [name for name in path if name in _MEANINGS]
        meaning = (
            _MEANINGS[names[0]] if names else "the file was edited, or depends on something that has changed"
        )
        inner = ".".join(path[2:] if task else path)
        yield task, Discrepancy(f"{task}: {inner}" if task else inner, meaning, _shown(stated), _shown(found))


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
    return text if len(text) <= 90 else f"{text[:89]}…"
