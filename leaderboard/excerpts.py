"""A few examples of every task for the page of a submission: question, context, gold, answer and score.

Answers that were not scored here are not shown. Examples are chosen by their ids alone and topped up to show right,
wrong and empty answers, so that most of them are the same for all submissions and can be compared.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from decabench.errors import DecabenchError
from decabench.files import file_digest
from decabench.leaderboard.entries import Entry
from decabench.leaderboard.scores import Keeper
from decabench.leaderboard.standings import Column
from decabench.metrics import Metric
from decabench.scoring import Ledger, describe_parting, find_courses
from decabench.submission import Limits, PredictionFile, find_predictions, read_answers
from decabench.tasks import Example
from decabench.untrusted import parse_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["Excerpts", "Policy", "collect_excerpts"]

Policy = Literal["free", "all", "none"]
"""Which examples go into the site: those of datasets that may be redistributed, all, or none."""

MOST = 40
"""The maximum number of examples per task."""

_COMMON = 16
"""How many of them are the same for all submissions."""

_EACH_KIND = 12
"""How many right, wrong and empty answers to show, if there are that many."""

_MOST_BYTES = 1 << 28
"""The maximum number of unpacked bytes to read from a predictions file: a submission may contain anything."""

_EXACT = 0.005
"""How close to the best possible score an answer must be to count as right."""


@dataclass(frozen=True)
class Excerpts:
    """The examples that a page shows for one task."""

    shown: tuple[dict[str, Any], ...] = ()
    """JSON values: id, question, context, golds, answer, score, kind; for a dialogue, also its course."""
    why: str = ""
    """Why there are none; empty if there are some."""


def collect_excerpts(
    entries: Sequence[Entry], columns: Sequence[Column], keeper: Keeper, policy: Policy = "free"
) -> dict[str, dict[str, Excerpts]]:
    """Return examples for every scored task of every entry, by the entry's path and then by task.

    Holds the data of only one task in memory at a time.
    """
    found: dict[str, dict[str, Excerpts]] = {entry.path: {} for entry in entries}
    files = {entry.path: _prediction_files(entry.place) for entry in entries}
    ledger, code = Ledger(keeper.store.home), file_digest(Path(__file__))
    for column in {column.name: column for column in columns}.values():
        for split in sorted({entry.split for entry in entries}):
            scored = [
                entry for entry in entries if entry.split == split and entry.score(column.name) is not None
            ]
            read = cache(partial(_read_data, column.name, split, keeper))
            why = _refuse(column.name, split, keeper, policy) if scored else ""
            for entry in scored:
                file = files[entry.path].get((column.name, split))
                found[entry.path][column.name] = (
                    Excerpts(why=why)
                    if why
                    else _find_excerpts(entry, column, file, read, keeper, ledger, code)
                )
    return found


def _find_excerpts(
    entry: Entry,
    column: Column,
    file: PredictionFile | None,
    read: Callable[[], _Data],
    keeper: Keeper,
    ledger: Ledger,
    code: str,
) -> Excerpts:
    """Return the examples that an earlier build chose from the same answers, or choose them."""
    evidence = entry.evidence[column.name]
    if evidence.kind != "verified":
        return Excerpts(why="The answers were not scored here.")
    if file is None:
        return Excerpts(why="The answers are not in a folder.")
    content = [evidence.key, code, column.low, column.high, column.higher_is_better, column.digits]
    key = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    if evidence.key and (known := ledger.read(key)) is not None:
        with suppress(msgspec.MsgspecError):
            return msgspec.msgpack.decode(known, type=Excerpts)
    chosen = _choose_excerpts(entry, column, file, read(), keeper)
    if evidence.key and not chosen.why:
        ledger.write(key, msgspec.msgpack.encode(chosen))
    return chosen


@dataclass(frozen=True)
class _Data:
    """One split of one task."""

    why: str = ""
    """Why it cannot be read."""
    examples: Sequence[Example] = ()
    """The examples in order, with what a page shows of them."""
    order: Sequence[int] = ()
    """Their indexes, shuffled by the ids."""
    places: Mapping[str, int] = field(default_factory=dict)
    """The index of each id."""


def _refuse(name: str, split: str, keeper: Keeper, policy: Policy) -> str:
    """Say why nothing of a split can be shown; empty if it can."""
    if policy == "none":
        return "The site was built without examples."
    record = keeper.record(name, split)
    if record is None:
        return "The data of this task was not prepared when the site was built."
    if keeper.hides(name, split):
        return "The labels of this split are hidden, and examples would reveal them."
    task = keeper.tasks[name] if name in keeper.tasks else None
    if policy == "free" and record.origin != "sample" and (task is None or task.withhold_texts):
        return "The text of this dataset may not be redistributed."
    return ""


def _read_data(name: str, split: str, keeper: Keeper) -> _Data:
    try:
        rows = keeper.store.read(name, split, ("id", "question", "context", "answers", "units"))
        examples = [
            Example(row["id"], row["question"], row["context"], tuple(row["answers"]), tuple(row["units"]))
            for row in rows
        ]
    except DecabenchError:
        return _Data("The data of this task was damaged when the site was built.")
    digests = [hashlib.sha256(example.id.encode()).digest() for example in examples]
    order = sorted(range(len(examples)), key=digests.__getitem__)
    return _Data("", examples, order, {example.id: index for index, example in enumerate(examples)})


def _prediction_files(place: Path) -> Mapping[tuple[str, str], PredictionFile]:
    try:
        return find_predictions(place)[0]
    except (DecabenchError, OSError):  # such as that of an archive
        return {}


def _choose_excerpts(
    entry: Entry, column: Column, file: PredictionFile, data: _Data, keeper: Keeper
) -> Excerpts:
    result, evidence = entry.tasks[column.name], entry.evidence[column.name]
    if data.why:
        return Excerpts(why=data.why)
    if evidence.scores is None or len(evidence.scores) != len(data.examples):
        return Excerpts(why="The data was prepared again while the site was built.")
    metric = keeper.metrics[result.metric]
    if metric.states is None:  # otherwise what is shown depends on all answers
        shown = _read_shown(file.path, evidence.scores, column, data)
        if shown is not None:
            return Excerpts(tuple(shown))
    try:
        answers = read_answers(file, "extracted", Limits(file_bytes=_MOST_BYTES))
        texts = [answers[example.id] for example in data.examples]
    except (DecabenchError, KeyError):
        return Excerpts(why="The answers could not be read.")
    scores = evidence.scores.tolist()
    indexes = _choose_indexes(data.order, list(map(_classify, texts, scores, repeat(column))))
    courses: Mapping[str, dict[str, Any]] = {}
    if metric.states is not None:
        places: Sequence[int] = range(len(texts))
        if keeper.tasks[column.name].unit_names == ("dialogue",):  # a state depends on its own dialogue alone
            shown_units = {data.examples[index].units for index in indexes}
            places = [place for place in places if data.examples[place].units in shown_units]
        answered = [texts[place] for place in places]
        courses = _describe_courses(metric, answered, [data.examples[place] for place in places])
    return Excerpts(
        tuple(
            _excerpt(data.examples[index], texts[index], scores[index], column)
            | courses.get(data.examples[index].id, {})
            for index in indexes
        )
    )


_MAYBE_EMPTY = re.compile(rb'"answer": ?"(?:\s|\\[bfnrt]|\\u[0-9a-fA-F]{4}|[\x80-\xff])*"')
"""Matches each answer of whitespace alone in a file, and a few other answers."""


def _read_shown(path: Path, scores: Array, column: Column, data: _Data) -> list[dict[str, Any]] | None:
    """Return the examples to show, given the scores of all, without reading the answers to the others.

    None for a file that is packed or not written as by `write_answers`.
    """
    import numpy as np

    try:
        if path.suffix != ".jsonl" or path.stat().st_size > _MOST_BYTES:
            return None
        text = b"\n" + path.read_bytes()
        best = column.high if column.higher_is_better else column.low
        kinds = np.where(np.abs(best - scores.astype(float)) <= _EXACT, "right", "wrong").tolist()
        for match in _MAYBE_EMPTY.finditer(text):
            id_, answer = _read_line(text, text.rindex(b"\n", 0, match.start()))
            if not answer.strip():
                kinds[data.places[id_]] = "empty"
        shown, start = [], 0
        for index in _choose_indexes(data.order, kinds):
            example = data.examples[index]
            begun = f'\n{{"id": {json.dumps(example.id, ensure_ascii=False)}, "answer": '.encode()
            later = text.find(begun, start)  # files are mostly in the order of the data
            start = later if later >= 0 else text.index(begun)
            id_, answer = _read_line(text, start)
            if id_ != example.id:
                return None
            shown.append(_excerpt(example, answer, float(scores[index]), column))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return shown


def _read_line(text: bytes, start: int) -> tuple[str, str]:
    """Return the id and the answer on the line after a newline."""
    end = text.find(b"\n", start + 1)
    record = parse_json(text[start + 1 : end if end >= 0 else None].decode())
    return record["id"], record["answer"]


def _choose_indexes(order: Sequence[int], kinds: Sequence[str]) -> list[int]:
    """Return ordered indexes of examples: the common ones, some of each kind, and then more."""
    chosen = dict.fromkeys(order[:_COMMON])
    wanted = {kind: _EACH_KIND for kind in ("empty", "wrong", "right")}
    for index in chosen:
        wanted[kinds[index]] -= 1
    more: dict[str, list[int]] = {kind: [] for kind in wanted}
    lacking = {kind for kind in wanted if wanted[kind] > 0}.intersection(kinds)
    for index in order[_COMMON:]:  # a single pass, as there may be many thousands
        if not lacking:
            break
        kind = kinds[index]
        if kind in lacking:
            more[kind].append(index)
            if len(more[kind]) == wanted[kind]:
                lacking.remove(kind)
    for kind in wanted:
        chosen.update(dict.fromkeys(more[kind]))
    for index in order:
        if len(chosen) >= MOST:
            break
        chosen[index] = None
    return sorted(list(chosen)[:MOST])


_MOST_BEFORE = 12
"""The most earlier examples of a group that are shown."""


def _describe_courses(
    metric: Metric, texts: Sequence[str], examples: Sequence[Example]
) -> dict[str, dict[str, Any]]:
    """Return, by id, the dialogue state that the metric compares in place of an answer, and how it came about."""
    described = {}
    for index, course in find_courses(metric, texts, examples).items():
        parted = course.parted
        where = "here" if parted is not None else ""
        if parted is not None and parted != index:
            where = describe_parting(examples[parted].id, examples[parted].answers[0], texts[parted])
        described[examples[index].id] = {
            "before": [_cut(examples[place].context, 300) for place in course.before[-_MOST_BEFORE:]],
            "state": _cut(course.predicted, 500),
            "goldState": _cut(course.gold, 500),
            "parted": _cut(where, 500),
        }
    return described


def _classify(answer: str, score: float, column: Column) -> str:
    if not answer.strip():
        return "empty"
    best = column.high if column.higher_is_better else column.low
    return "right" if abs(best - score) <= _EXACT else "wrong"


def _excerpt(example: Example, answer: str, score: float, column: Column) -> dict[str, Any]:
    known = math.isfinite(score)
    golds = list(dict.fromkeys(example.answers))
    return {
        "id": _cut(example.id, 120),
        "question": _cut(example.question, 500),
        "context": _window(example.context, golds[0], 600),
        "golds": [_cut(gold, 500) for gold in golds[:4]],
        "answer": _cut(answer, 700),
        "score": round(score, column.digits) if known else None,
        "kind": _classify(answer, score, column) if known or not answer.strip() else "unscored",
    }


def _window(text: str, gold: str, size: int) -> str:
    """Return the part of a context around the gold answer, or its beginning if the answer is not in it."""
    found = text.find(gold)
    start = max(0, found - size // 3) if found > 2 * size // 3 else 0
    return ("…" if start else "") + _cut(text[start:], size)


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"
