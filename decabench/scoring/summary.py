"""The results of a submission on disk, written from its present answers, and verified by scoring these again.

results/<split>/results.json                the summary of one evaluation
results/<split>/statistics/<task>.parquet   a row for each example
results/<split>/examples/<task>.jsonl.gz    a line for each example
results/<split>/earlier.json                an earlier summary with scores that the present answers do not give;
                                            the next ones are earlier-2.json, earlier-3.json, …
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Literal, NamedTuple

from decabench.errors import MissingDataError
from decabench.files import Paths, make_folder, remove_file, require_within, storage_errors
from decabench.scoring.evaluator import known_to, score_submission
from decabench.scoring.examples import EXAMPLES, examples_path, make_examples, save_examples
from decabench.scoring.ledger import ScoredTask
from decabench.scoring.results import (
    InvalidResultsError,
    Results,
    parse_record,
    read_bounded,
    read_results_file,
    read_suite,
    write_results_file,
)
from decabench.scoring.statistics import STATISTICS, write_statistics
from decabench.scoring.task_results import ScoringOptions
from decabench.submission import RESULTS, find_predictions, open_submission, remove_results, results_folders
from decabench.tasks import DECATHLON, Store, home_folder
from decabench.workers import collection_paused

__all__ = [
    "Discrepancy",
    "TaskCheck",
    "VerifiedResults",
    "WrittenResults",
    "drop_results",
    "results_files",
    "results_folder",
    "results_home",
    "verify",
    "verify_file",
    "write_results",
]


def results_home(submission: Path) -> Path:
    """Return the folder of all results of a submission: `results` in it, or a folder next to an archive."""
    return submission / RESULTS if submission.is_dir() else submission.parent / f"{submission.name}.results"


def results_folder(submission: Path, results: Results) -> Path:
    """Return the folder where results are written by default."""
    suite = "" if results.suite == DECATHLON else f"-{results.suite.name}"
    return results_home(submission) / f"{results.split}{suite}{'-raw' if results.answers == 'raw' else ''}"


class WrittenResults(NamedTuple):
    """Where results were written."""

    path: Path
    """The results file."""
    earlier: Path | None
    """The earlier results, if they have scores that the present answers do not give."""


def write_results(
    submission: str | Path,
    folder: Path,
    results: Results,
    scored: Mapping[str, ScoredTask],
    options: ScoringOptions,
) -> WrittenResults:
    """Write `results.json`, with the statistics and the scored examples of its tasks next to it.

    An earlier `results.json` goes first and the new one comes last, so that a killed run leaves no contradiction.
    Raises StorageError, also if a link leads out of the submission.
    """
    submission = Path(submission)
    inside = submission.is_dir() and folder.absolute().is_relative_to(submission.absolute())
    require_within(submission if inside else folder, folder, folder / STATISTICS, folder / EXAMPLES)
    make_folder(folder, "--output")
    with collection_paused(), open_submission(submission) as opened:
        answered = {task for task, split in opened.files if split == results.split}
        earlier = _set_aside(folder / "results.json", results, answered)
        write_statistics(folder, scored)
        known = known_to(opened, options)
        for name, found in scored.items():
            if found.sample is not None and not found.hidden:
                save_examples(folder, *make_examples(opened, known[name], found, options))
            else:
                remove_file(examples_path(folder, name))
    return WrittenResults(write_results_file(folder, results), earlier)


def _set_aside(path: Path, new: Results | None, answered: Collection[str]) -> Path | None:
    """Remove an earlier results file, or rename it if it has scores that the present answers do not give."""
    if not path.exists() and not path.is_symlink():
        return None
    try:
        old = read_results_file(path)
        is_lost = _has_other_scores(old, new, answered)
    except InvalidResultsError:
        old, is_lost = None, True
    if new is not None and old is not None and old.to_json() == new.to_json():
        return None
    if not is_lost or path.is_symlink():
        remove_file(path)
        return None
    kept = _free_place(path)
    with storage_errors(path):
        os.replace(path, kept)
    return kept


def _free_place(path: Path) -> Path:
    """Return where to keep an earlier results file: the first of `earlier.json`, `earlier-2.json`, … that is free."""
    names = (f"earlier{f'-{number}' if number > 1 else ''}.json" for number in count(1))
    return next(place for name in names if not os.path.lexists(place := path.with_name(name)))


def _has_other_scores(old: Results, new: Results | None, answered: Collection[str]) -> bool:
    scored = {name: task.score for name, task in old.tasks.items() if task.score is not None}
    if new is None:
        return not scored.keys() <= {*answered}
    if _subject(old) != _subject(new):
        return bool(scored)
    return any(
        name not in answered or (name in new.tasks and new.tasks[name].score != score)
        for name, score in scored.items()
    )


def _subject(results: Results) -> tuple[Any, ...]:
    return results.submission["name"], results.split, results.suite.name, results.answers


def drop_results(folder: Path, changed: Collection[tuple[str, str]]) -> tuple[str, ...]:
    """Remove the results that have a task and split whose answers are about to change, and return their folders.

    `evaluate` gives the other tasks' scores again from the ledger. Results of tasks without answers are set aside.
    Raises StorageError.
    """
    answered = find_predictions(folder)[0].keys() if changed else ()
    stale = []
    for results in results_folders(folder):
        try:
            old = read_results_file(results / "results.json")
        except InvalidResultsError:
            continue
        if any((name, old.split) in changed for name in old.tasks):
            require_within(folder, results)
            _set_aside(
                results / "results.json", None, {task for task, split in answered if split == old.split}
            )
            stale.append(results)
    remove_results(folder, stale)
    return tuple(results.relative_to(folder).as_posix() for results in stale)


def results_files(submission: Path) -> list[Path]:
    """Find the results files in a submission's folder, or next to an archive. Raises MissingDataError."""
    folder = results_home(submission)
    if found := sorted(folder.glob("*/results.json")):
        return found
    archived = "; the inside of an archive is not read" if submission.is_file() else ""
    raise MissingDataError(f"There is no results.json in {folder}{archived}. Run decabench evaluate first.")


# Verification


@dataclass(frozen=True)
class Discrepancy:
    """A value in a results file that scoring again does not reproduce."""

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

    status: Literal["same", "differs", "no answers"]
    """`no answers` if the submission has none, so that the stated score cannot be verified."""
    differences: tuple[Discrepancy, ...] = ()
    """Everything that differs."""


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
    """Differences that concern no single task: totals, the suite, the submission's description."""

    @property
    def differences(self) -> list[Discrepancy]:
        """All differences; none if the file is what scoring gives, as far as there are answers."""
        found = [one for check in self.tasks.values() for one in check.differences]
        return [*found, *self.other]

    @property
    def ok(self) -> bool:
        """Whether nothing differs, and something was scored again."""
        return not self.differences and any(check.status == "same" for check in self.tasks.values())

    @property
    def verdict(self) -> str:
        """The result in one line."""
        names = {
            status: [name for name, check in self.tasks.items() if check.status == status]
            for status in ("same", "differs", "no answers")
        }
        parts = [f"{len(names['same'])} of {len(self.tasks)} tasks the same"] if names["same"] else []
        parts += [f"{', '.join(names['differs'])} differ"] if names["differs"] else []
        parts += ["the file differs elsewhere"] if self.other else []
        parts += [f"no answers to {', '.join(names['no answers'])}"] if names["no answers"] else []
        parts += [f"no result for {', '.join(self.lacking)}"] if self.lacking else []
        return f"{'verified' if self.ok else 'not verified'}: {'; '.join(parts) or 'it has no tasks'}"


_MEANINGS = {
    "predictions": "the answers have changed",
    "fingerprint": "the data or its labels are not the same",
    "signature": "the metric is another version",
    "signatures": "a metric is another version",
    "submission": "submission.toml has changed",
    "answers": "the answers, or the rule, finish or context_kept of some lines, have changed",
    "ceiling": "the context_kept of some lines has changed",
    "partial": "submission.toml has changed",
    "variants": "the answers to other wordings, or which of them are retired, have changed",
    "decabench": "scored by another version of decabench",
}
"""What a difference under a key means; the outermost key counts."""
_EDITED = "the file was edited, or depends on something that has changed"
_TOTALS = ("decascore", "interval", "total")


def verify(
    submission: str | Path,
    results: str | Path | None = None,
    home: str | Path | None = None,
    jobs: int = 1,
    include: Paths = (),
) -> list[Discrepancy]:
    """Score a submission again and return every difference from a results file; none if they agree.

    Without `results`, every results file in the submission's folder is verified. Raises InvalidResultsError if the file
    cannot be read, and the errors of `evaluate`.
    """
    files = results_files(Path(submission)) if results is None else [Path(results)]
    options = ScoringOptions(home=home, jobs=jobs, include=include)
    return [one for file in files for one in verify_file(submission, file, options).differences]


def verify_file(submission: str | Path, path: Path, options: ScoringOptions) -> VerifiedResults:
    """Score a submission again, past the ledger, and compare the results with a file.

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
        again=True,
    )
    with open_submission(submission) as opened:
        known = known_to(opened, options)
        answered = [task for task, split in opened.files if split == options.split and task in known]
    present = [name for name in stated["tasks"] if name in answered]
    if not present:
        return VerifiedResults(path, dict.fromkeys(stated["tasks"], TaskCheck("no answers")), tuple(answered))
    results, scored = score_submission(submission, replace(options, tasks=present))
    again = json.loads(results.to_json())
    if len(present) < len(stated["tasks"]):  # totals are of other tasks
        stated, again = ({**each, **dict.fromkeys(_TOTALS)} for each in (stated, again))
    store = Store(home_folder(options.home))
    tasks = {
        name: _check_task(
            name, stated["tasks"][name], again["tasks"].get(name), store.hides(known[name], options.split)
        )
        if name in scored
        else TaskCheck("no answers")
        for name in stated["tasks"]
    }
    described = (
        {**each, "tasks": None, "submission": _about(each["submission"], present, options.split)}
        for each in (stated, again)
    )
    lacking = tuple(name for name in answered if name not in stated["tasks"])
    return VerifiedResults(path, tasks, lacking, tuple(_differences(next(described), next(described))))


def _about(submission: Mapping[str, Any], tasks: Sequence[str], split: str) -> dict[str, Any]:
    """Return the description of a submission, with what it says of these tasks alone."""
    names = {f"{task}.{split}" for task in tasks}
    return {
        key: {name: each for name, each in value.items() if name in names}
        if key in ("data", "partial", "incomplete") and isinstance(value, Mapping)
        else value
        for key, value in submission.items()
    }


def _stated_without(tasks: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the ids that a results file says it left out, by task, as far as they are ids."""
    found = {}
    for name, task in tasks.items():
        without = task.get("without") if isinstance(task, Mapping) else None
        ids = without.get("ids") if isinstance(without, Mapping) else None
        if isinstance(ids, list) and all(isinstance(id_, str) for id_ in ids):
            found[name] = ids
    return found


def _check_task(name: str, stated: Any, again: Any, hidden: bool) -> TaskCheck:
    differences = [
        replace(one, where=f"{name}: {one.where}", stated="", found="")
        if hidden and "predictions" in one.where  # perfect answers have the digest of the labels
        else replace(one, where=f"{name}: {one.where}")
        for one in _differences(stated, again)
    ]
    return TaskCheck("differs" if differences else "same", tuple(differences))


def _differences(stated: Any, found: Any, path: tuple[str, ...] = ()) -> Iterator[Discrepancy]:
    """Yield every value that differs."""
    if isinstance(stated, Mapping) and isinstance(found, Mapping):
        for key in sorted({*stated, *found}):
            yield from _differences(stated.get(key, "nothing"), found.get(key, "nothing"), (*path, key))
    elif stated != found:
        meaning = next((_MEANINGS[key] for key in path if key in _MEANINGS), _EDITED)
        yield Discrepancy(".".join(path), meaning, _shown(stated), _shown(found))


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
    return text if len(text) <= 90 else f"{text[:89]}…"
