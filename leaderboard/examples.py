"""A few examples of every task for the page of a submission: question, context, gold, answer and score.

They are shown only where the prepared data at hand is the data that was scored (fingerprint) and the answers at hand
are the answers that were scored (digest). The choice depends on the ids alone, topped up to show right, wrong and empty
answers, so most examples are the same for all submissions and can be compared.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from decabench.errors import DecabenchError
from decabench.leaderboard.evidence import Evidence
from decabench.leaderboard.read import Entry, home_of
from decabench.metrics import METRICS
from decabench.submission import Limits, PredictionFile, answers_digest, find_predictions, read_answers
from decabench.tasks import TASKS, Store

if TYPE_CHECKING:
    from decabench.tasks import Example

__all__ = [
    "Examples",
    "Policy",
    "TaskExamples",
    "collect",
]

Policy = Literal["free", "all", "none"]
"""Whose text goes into the site: what may be passed on, everything, or nothing."""

MOST = 40
_COMMON = 16
_MOST_BYTES = 1 << 28  # of a file of answers, unpacked: a submission may hold anything
_OF_A_KIND = 12
_RIGHT = 99.995


@dataclass(frozen=True)
class TaskExamples:
    """What a page shows of one task."""

    shown: tuple[dict[str, Any], ...] = ()
    """JSON values: id, question, context, golds, answer, score, kind."""
    why: str = ""
    """Why there are none."""


Examples = dict[str, dict[str, TaskExamples]]
"""By path of the results file, then by task."""


def collect(
    entries: Sequence[Entry],
    names: Sequence[str],
    submissions: Path,
    evidence: Evidence,
    home: Path | None,
    policy: Policy = "free",
) -> Examples:
    """Examples of every scored task of every entry. One task's data is in memory at a time."""
    found: Examples = {entry.path: {} for entry in entries}
    files = {entry.path: _files(submissions, entry) for entry in entries}
    for task in names:
        for split in sorted({entry.split for entry in entries}):
            scored = [
                entry
                for entry in entries
                if entry.split == split and task in entry.tasks and entry.tasks[task].score is not None
            ]
            data = _Data.of(task, split, home, policy) if scored else None
            for entry in scored:
                file = files[entry.path].get((task, split))
                assert data is not None
                found[entry.path][task] = _task_examples(entry, task, file, data, evidence)
    return found


@dataclass(frozen=True)
class _Data:
    """One split of one task, or why it is not to be had."""

    fingerprint: str
    """Of the prepared data."""
    examples: Sequence[Example]
    """In order."""
    ids: Sequence[str]
    """Of the examples."""
    order: Sequence[int]
    """Indexes, shuffled by the ids."""
    why: str = ""
    """Why nothing can be shown."""

    @classmethod
    def of(cls, task: str, split: str, home: Path | None, policy: Policy) -> _Data:
        if policy == "none":
            return cls("", (), (), (), "The site was built without examples.")
        if home is None:
            return cls("", (), (), (), "The site was built without the prepared data.")
        store = Store(home)
        try:
            record = store.record(task, split)
            is_withheld = task in TASKS and TASKS[task].withhold_texts
            if policy == "free" and is_withheld and record.origin != "sample":  # the sample's text is free
                return cls("", (), (), (), "The text of this dataset may not be passed on.")
            examples = list(store.examples(task, split))
        except DecabenchError:
            return cls("", (), (), (), "The data of this task was not prepared where the site was built.")
        ids = [example.id for example in examples]
        digests = [hashlib.sha256(id_.encode()).digest() for id_ in ids]
        return cls(record.fingerprint, examples, ids, sorted(range(len(ids)), key=digests.__getitem__))


def _files(submissions: Path, entry: Entry) -> Mapping[tuple[str, str], PredictionFile]:
    try:
        return find_predictions(submissions / home_of(entry.path))[0]
    except (DecabenchError, OSError):
        return {}


def _task_examples(
    entry: Entry, task: str, file: PredictionFile | None, data: _Data, evidence: Evidence
) -> TaskExamples:
    result = entry.tasks[task]
    if data.why:
        return TaskExamples(why=data.why)
    if data.fingerprint != result.fingerprint:
        return TaskExamples(why="The data at hand when the site was built is not the data that was scored.")
    if file is None:
        return TaskExamples(why="The answers are not beside the results.")
    try:
        answers = read_answers(file, "raw" if entry.is_raw else "extracted", Limits(file_bytes=_MOST_BYTES))
    except DecabenchError:
        return TaskExamples(why="The answers could not be read.")
    if result.predictions and answers_digest(answers) != result.predictions:
        return TaskExamples(why="The answers beside the results are not those that were scored.")
    try:
        return TaskExamples(tuple(_chosen(entry, task, answers, data, evidence)))
    except KeyError:
        return TaskExamples(why="The answers do not fit the data.")


def _chosen(
    entry: Entry, task: str, answers: Mapping[str, str], data: _Data, evidence: Evidence
) -> Iterator[dict[str, Any]]:
    def text(index: int) -> str:
        return answers[data.ids[index]]

    found = evidence.of(entry, task)
    scores: Sequence[float] | dict[int, float]
    if found is not None and len(found.scores) == len(data.ids):
        scores = found.scores.tolist()
        kinds = [_kind(answers[id], value) for id, value in zip(data.ids, scores, strict=True)]
        indexes = _choice(data.order, kinds)
    else:
        indexes = sorted(data.order[:MOST])
        scores = _scored(entry.tasks[task].metric, indexes, text, data)
    for index in indexes:
        yield _shown(data.examples[index], text(index), scores[index])


def _choice(order: Sequence[int], kinds: Sequence[str]) -> list[int]:
    """Indexes of examples: the common ones, then some of each kind, then more, in the order of the data."""
    chosen = dict.fromkeys(order[:_COMMON])
    wanted = {kind: _OF_A_KIND for kind in ("empty", "wrong", "right")}
    for index in chosen:
        wanted[kinds[index]] -= 1
    more: dict[str, list[int]] = {kind: [] for kind in wanted}
    for index in order[_COMMON:]:  # one walk over what may be many thousands
        kind = kinds[index]
        if len(more[kind]) < wanted[kind]:
            more[kind].append(index)
    for kind in wanted:
        chosen.update(dict.fromkeys(more[kind]))
    for index in order:
        if len(chosen) >= MOST:
            break
        chosen[index] = None
    return sorted(list(chosen)[:MOST])


def _scored(metric: str, indexes: Sequence[int], text: Callable[[int], str], data: _Data) -> dict[int, float]:
    """Scores of examples by themselves, where no statistics were kept; not a number where there is none."""
    if metric not in METRICS or METRICS[metric].scope != "example":
        return dict.fromkeys(indexes, math.nan)
    of = METRICS[metric]
    rows = of.statistics([text(index) for index in indexes], [data.examples[index] for index in indexes])
    scores = {}
    for index, row in zip(indexes, rows, strict=True):
        try:
            scores[index] = float(of.score(dict(zip(of.columns, row, strict=True)))[of.headline])
        except ZeroDivisionError:
            scores[index] = math.nan
    return scores


def _kind(answer: str, score: float) -> str:
    if not answer.strip():
        return "empty"
    return "right" if score >= _RIGHT else "wrong"


def _shown(example: Example, answer: str, score: float) -> dict[str, Any]:
    known = math.isfinite(score)
    golds = list(dict.fromkeys(example.answers))
    return {
        "id": _cut(example.id, 120),
        "question": _cut(example.question, 500),
        "context": _window(example.context, golds[0], 600),
        "golds": [_cut(gold, 500) for gold in golds[:4]],
        "answer": _cut(answer, 700),
        "score": round(score, 1) if known else None,
        "kind": _kind(answer, score) if known or not answer.strip() else "unscored",
    }


def _window(text: str, gold: str, size: int) -> str:
    """The part of a context around the gold answer, if it stands there, else its beginning."""
    found = text.find(gold)
    start = max(0, found - size // 3) if found > 2 * size // 3 else 0
    return ("…" if start else "") + _cut(text[start:], size)


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"
