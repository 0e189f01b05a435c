"""The examples behind the scores: texts, which all systems share, and each system's answers to them.

Only answers that were scored here are shown. Examples are chosen by id alone, so that all systems show the same
ones and can be compared.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
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

__all__ = ["Excerpts", "Policy", "TaskTexts", "read_answers_shown", "read_texts"]

Policy = Literal["free", "all", "none"]
"""Which examples go into the site: those of datasets that may be redistributed, all, or none."""

MOST = 1_000
"""The maximum number of examples per task."""

PIECE = 100
"""How many texts a file holds."""

_MOST_BYTES = 1 << 28
"""The maximum number of unpacked bytes to read from a predictions file: a submission may contain anything."""

_EXACT = 0.005
"""How close to the best possible score an answer must be to count as right."""

_MOST_BEFORE = 12
"""The maximum number of earlier examples of a group to show."""


@dataclass(frozen=True)
class Excerpts:
    """The answers that a page shows for one task."""

    answers: tuple[dict[str, Any], ...] = ()
    """A JSON value for each example: answer, score, kind and, for a dialogue, the states after it."""
    why: str = ""
    """Why there are no answers; empty if there are."""


@dataclass(frozen=True)
class TaskTexts:
    """A task split's examples to show, or why they cannot be shown."""

    why: str = ""
    """Why nothing can be shown."""
    examples: Sequence[Example] = ()
    """All examples, in the order of the data."""
    shown: Sequence[int] = ()
    """The indexes of the examples to show, in order."""

    @property
    def texts(self) -> list[dict[str, Any]]:
        """The parts of each shown example that all systems share: id, question, context, golds."""
        return [_text(self.examples[index]) for index in self.shown]


def read_texts(name: str, split: str, keeper: Keeper, policy: Policy = "free") -> TaskTexts:
    """Return the examples of one split of a task."""
    if policy == "none":
        return TaskTexts("The site was built without examples.")
    record = keeper.record(name, split)
    if record is None:
        return TaskTexts("The data of this task was not prepared when the site was built.")
    if keeper.hides(name, split):
        return TaskTexts("The labels of this split are hidden, and examples would reveal them.")
    task = keeper.tasks[name] if name in keeper.tasks else None
    if policy == "free" and record.origin != "sample" and (task is None or task.withhold_texts):
        return TaskTexts("The text of this dataset may not be redistributed.")
    try:
        rows = keeper.store.read(name, split, ("id", "question", "context", "answers", "units"))
        examples = [
            Example(row["id"], row["question"], row["context"], tuple(row["answers"]), tuple(row["units"]))
            for row in rows
        ]
    except DecabenchError:
        return TaskTexts("The data of this task was damaged when the site was built.")
    digests = [hashlib.sha256(example.id.encode()).digest() for example in examples]
    chosen = range(len(examples))
    return TaskTexts("", examples, sorted(islice(sorted(chosen, key=digests.__getitem__), MOST)))


def read_answers_shown(entry: Entry, column: Column, data: TaskTexts, keeper: Keeper) -> Excerpts:
    """Return an entry's answers to the examples of a task that are shown, or why there are none.

    They are stored in the ledger, so that a later build does not read the same answers again.
    """
    evidence = entry.evidence[column.name]
    if data.why:
        return Excerpts(why=data.why)
    if evidence.kind != "verified":
        return Excerpts(why="The answers were not scored here.")
    try:
        file = find_predictions(entry.place)[0].get((column.name, entry.split))
    except (DecabenchError, OSError):  # such as that of an archive
        file = None
    if file is None:
        return Excerpts(why="The answers are not in a folder.")
    scale = [column.low, column.high, column.higher_is_better, column.digits]
    content = [evidence.key, file_digest(Path(__file__)), MOST, *scale]
    key = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    ledger = Ledger(keeper.store.home)
    if evidence.key and (known := ledger.read(key)) is not None:
        with suppress(msgspec.MsgspecError):
            return msgspec.msgpack.decode(known, type=Excerpts)
    found = _read_answers(entry, column, file, data, keeper)
    if evidence.key and not found.why:
        ledger.write(key, msgspec.msgpack.encode(found))
    return found


def _read_answers(
    entry: Entry, column: Column, file: PredictionFile, data: TaskTexts, keeper: Keeper
) -> Excerpts:
    result, evidence = entry.tasks[column.name], entry.evidence[column.name]
    if evidence.scores is None or len(evidence.scores) != len(data.examples):
        return Excerpts(why="The data was prepared again while the site was built.")
    metric = keeper.metrics[result.metric]
    texts = (
        None if metric.states is not None else _read_shown(file.path, data)
    )  # a state rests on other answers
    courses: Mapping[int, dict[str, Any]] = {}
    if texts is None:
        try:
            answers = read_answers(file, "extracted", Limits(file_bytes=_MOST_BYTES))
            texts = {index: answers[example.id] for index, example in enumerate(data.examples)}
        except (DecabenchError, KeyError):
            return Excerpts(why="The answers could not be read.")
        if metric.states is not None:
            courses = _describe_courses(metric, list(texts.values()), data.examples)
    return Excerpts(
        tuple(
            _answer(texts[index], float(evidence.scores[index]), column) | courses.get(index, {})
            for index in data.shown
        )
    )


def _read_shown(path: Path, data: TaskTexts) -> dict[int, str] | None:
    """Return the answers to show, skipping the others.

    None for a file that is compressed or not in `write_answers`' form.
    """
    found, start = {}, 0
    try:
        if path.suffix != ".jsonl" or path.stat().st_size > _MOST_BYTES:
            return None
        text = b"\n" + path.read_bytes()
        for index in data.shown:
            id_ = data.examples[index].id
            begun = f'\n{{"id": {json.dumps(id_, ensure_ascii=False)}, "answer": '.encode()
            later = text.find(begun, start)  # files are mostly in the order of the data
            start = later if later >= 0 else text.index(begun)
            end = text.find(b"\n", start + 1)
            record = parse_json(text[start + 1 : end if end >= 0 else None].decode())
            if record["id"] != id_ or not isinstance(record["answer"], str):
                return None
            found[index] = record["answer"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found


def _describe_courses(
    metric: Metric, texts: Sequence[str], examples: Sequence[Example]
) -> dict[int, dict[str, Any]]:
    """Return, by index, the dialogue state that the metric compares instead of an answer, and how it arose."""
    described = {}
    for index, course in find_courses(metric, texts, examples).items():
        parted = course.parted
        where = "here" if parted is not None else ""
        if parted is not None and parted != index:
            where = describe_parting(examples[parted].id, examples[parted].answers[0], texts[parted])
        described[index] = {
            "before": [_cut(examples[place].context, 300) for place in course.before[-_MOST_BEFORE:]],
            "state": _cut(course.predicted, 500),
            "goldState": _cut(course.gold, 500),
            "parted": _cut(where, 500),
        }
    return described


def _answer(answer: str, score: float, column: Column) -> dict[str, Any]:
    known = math.isfinite(score)
    best = column.high if column.higher_is_better else column.low
    kind = "right" if known and abs(best - score) <= _EXACT else "wrong" if known else "unscored"
    return {
        "answer": _cut(answer, 700),
        "score": round(score, column.digits) if known else None,
        "kind": kind if answer.strip() else "empty",
    }


def _text(example: Example) -> dict[str, Any]:
    golds = list(dict.fromkeys(example.answers))
    return {
        "id": _cut(example.id, 120),
        "question": _cut(example.question, 500),
        "context": _window(example.context, golds[0], 600),
        "golds": [_cut(gold, 500) for gold in golds[:4]],
        **({"unit": _cut(example.units[0], 60)} if example.units else {}),
    }


def _window(text: str, gold: str, size: int) -> str:
    """Return the part of a context around the gold answer, or its beginning if the answer is not in it."""
    found = text.find(gold)
    start = max(0, found - size // 3) if found > 2 * size // 3 else 0
    return ("…" if start else "") + _cut(text[start:], size)


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"
