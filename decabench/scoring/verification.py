"""Verify a results file by scoring the answers again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from decabench.files import Paths
from decabench.scoring.evaluator import ScoringOptions, known_to, results_files, score_submission
from decabench.scoring.results import parse_results, read_bounded
from decabench.submission import open_submission
from decabench.tasks import Store

TOLERANCE = 1e-6
"""The relative tolerance for scores computed from statistics, because libraries add numbers in different orders."""


@dataclass(frozen=True)
class Discrepancy:
    """A value in a results file that differs from the value found by scoring again."""

    where: str
    """The location in the file, such as `squad: predictions` or `decascore`."""
    meaning: str
    """The likely cause of the difference, such as changed answers, labels or metrics, or an edited file."""
    stated: str = ""
    """The value in the file."""
    found: str = ""
    """The value found by scoring again. Both `stated` and `found` are empty if they must not be shown."""

    def __str__(self) -> str:
        values = f": the file says {self.stated}, but scoring gives {self.found}"
        return f"{self.where}: {self.meaning}{values if self.stated or self.found else ''}"


@dataclass(frozen=True)
class VerifiedResults:
    """The result of verifying one results file."""

    path: Path
    """The results file."""
    split: str
    """The split of the results."""
    scored: tuple[str, ...]
    """The tasks in the file that were scored again."""
    unanswered: tuple[str, ...] = ()
    """The tasks in the file that can't be verified because the submission has no answers for them."""
    differences: tuple[Discrepancy, ...] = ()
    """The values that differ."""

    @property
    def ok(self) -> bool:
        """Whether at least one task was scored again and no value differs."""
        return bool(self.scored) and not self.differences

    @property
    def verdict(self) -> str:
        """The result in one line, such as `verified: 3 tasks are the same; no answers for sst`."""
        count = len(self.differences)
        tasks = "1 task is" if len(self.scored) == 1 else f"{len(self.scored)} tasks are"
        parts = [f"{count} {'value differs' if count == 1 else 'values differ'}"] if count else []
        parts += [f"{tasks} the same"] if self.scored and not count else []
        parts += [f"no answers for {', '.join(self.unanswered)}"] if self.unanswered else []
        return f"{'verified' if self.ok else 'not verified'}: {'; '.join(parts) or 'the file has no tasks'}"


_MEANINGS = {
    "predictions": "the answers have changed",
    "fingerprint": "the data or its labels differ",
    "signature": "the metric has a different version",
    "signatures": "a metric has a different version",
    "submission": "submission.toml has changed",
    "answers": "some lines have a different answer, rule, finish or context_kept",
    "ceiling": "some lines have a different context_kept",
    "partial": "submission.toml has changed",
    "variants": "the answers to other wordings or the list of retired wordings have changed",
    "decabench": "scored by a different version of decabench",
}
"""The likely cause of a difference, by key of the results file.

For a nested key, the outermost key listed here is used.
"""
_EDITED = "the results file was edited, or something that it depends on has changed"
_TOTALS = ("decascore", "interval", "total")


def verify(
    submission: str | Path,
    results: str | Path | None = None,
    home: str | Path | None = None,
    jobs: int = 1,
    include: Paths = (),
) -> list[Discrepancy]:
    """Score a submission again, and return the differences from the scores in a results file.

    By default, all of the submission's results files are compared. Raises InvalidResultsError if a results file can't
    be read, and the same errors as `evaluate`.
    """
    files = results_files(Path(submission)) if results is None else [Path(results)]
    options = ScoringOptions(home=home, jobs=jobs, include=include)
    return [one for file in files for one in verify_file(submission, file, options).differences]


def verify_file(submission: str | Path, path: Path, options: ScoringOptions) -> VerifiedResults:
    """Score a submission again, without the ledger, and compare the results with a file.

    The split, suite, tasks and kind of answers are taken from the file. Raises the same errors as `verify`.
    """
    stated, file = parse_results(read_bounded(path), str(path))
    options = replace(
        options,
        split=file.split,
        tasks=list(file.tasks),
        answers=file.answers,
        suite=file.suite,
        without={
            name: task.partial.without
            for name, task in file.tasks.items()
            if task.partial and task.partial.without
        },
        again=True,
    )
    with open_submission(submission) as opened:
        known = known_to(opened, options)
        answered = {task for task, split in opened.files if split == options.split and task in known}
    present = tuple(name for name in stated["tasks"] if name in answered)
    unanswered = tuple(name for name in stated["tasks"] if name not in answered)
    if not present:
        return VerifiedResults(path, options.split, (), unanswered)
    results, _ = score_submission(submission, replace(options, tasks=present))
    again = json.loads(results.to_json())
    if unanswered:  # totals include tasks that were not scored again
        stated, again = ({**each, **dict.fromkeys(_TOTALS)} for each in (stated, again))
    store = Store(options.home)
    found = []
    for name in present:
        hidden = store.hides(known[name], options.split)
        for one in _differences(stated["tasks"][name], again["tasks"].get(name)):
            where = f"{name}: {one.where}"
            if hidden and "predictions" in one.where:  # perfect answers have the same digest as the labels
                found.append(Discrepancy(where, one.meaning))
            else:
                found.append(replace(one, where=where))
    stated, again = (
        {**each, "tasks": None, "submission": _about(each["submission"], present, options.split)}
        for each in (stated, again)
    )
    return VerifiedResults(path, options.split, present, unanswered, (*found, *_differences(stated, again)))


def _about(submission: Mapping[str, Any], tasks: Sequence[str], split: str) -> dict[str, Any]:
    names = {f"{task}.{split}" for task in tasks}
    return {
        key: {name: each for name, each in value.items() if name in names}
        if key in ("data", "partial", "incomplete") and isinstance(value, Mapping)
        else value
        for key, value in submission.items()
    }


def _differences(stated: Any, found: Any, path: tuple[str, ...] = ()) -> Iterator[Discrepancy]:
    if isinstance(stated, Mapping) and isinstance(found, Mapping):
        for key in sorted({*stated, *found}):
            yield from _differences(stated.get(key, "nothing"), found.get(key, "nothing"), (*path, key))
    elif stated != found:
        meaning = next((_MEANINGS[key] for key in path if key in _MEANINGS), _EDITED)
        yield Discrepancy(".".join(path), meaning, _shown(stated), _shown(found))


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
    return text if len(text) <= 90 else f"{text[:89]}…"


def numbers_agree(one: float | None, reference: float) -> bool:
    """Return whether a number is not None and equals the reference, up to rounding errors."""
    return one is not None and abs(one - reference) <= TOLERANCE * max(1.0, abs(reference))
