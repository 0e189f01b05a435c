"""The examples behind scores, for a board and for the page of `decabench show`.

`static/examples.js` loads the following files from `data/` when it needs them. Texts and answers are split into pieces,
so that a page of examples loads quickly. On a board, they are:

    texts/<task>-<split>.js         ids, fields to filter by, and how many systems got each example right
    texts/<task>-<split>-<n>.js     questions, contexts and gold answers
    answers/<system>/<task>.js      a system's verdicts, scores, answer lengths and flags
    answers/<system>/<task>-<n>.js  a system's answers
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import accumulate, pairwise
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import decabench
from decabench.errors import DecabenchError
from decabench.files import file_digest
from decabench.leaderboard.datafiles import make_script, write_json
from decabench.leaderboard.entries import Column, Entry
from decabench.leaderboard.pages import CONTENT_POLICY, make_environment
from decabench.leaderboard.publishing import File, publish, static_files
from decabench.leaderboard.scores import Keeper
from decabench.metrics import Metric
from decabench.scoring import (
    EXACT,
    Browsed,
    Chosen,
    Inspected,
    ScoredExample,
    answer_flags,
    browse_examples,
    describe_parting,
    find_courses,
)
from decabench.submission import (
    AlignedAnswers,
    AnswerLine,
    Limits,
    read_lines,
)
from decabench.tasks import Example, Tags, Tree

Array = NDArray[Any]

_PIECE = 1 << 17
"""The approximate size of a piece, in characters of JSON."""

_LIMITS = Limits(file_bytes=1 << 28)
"""Limits on the answer files that are read."""

_MOST_BEFORE = 12
"""The maximum number of earlier examples to show, such as the previous turns of a dialogue."""

_MOST_LABELS = 60
"""The maximum number of values for a filter field. Fields with more are left out."""

_QUESTIONS = frozenset("what which who whom whose when where why how is are was were do does did can".split())

# Data files


def _index_and_pieces(
    name: str, index: Mapping[str, Any], rows: Iterable[Any], key: str = ""
) -> Iterator[tuple[str, bytes]]:
    """Yield files with the rows as JSON values, split into pieces, and then an index file.

    The index contains the position of the first row of each piece.
    """
    texts = [encode_basestring_ascii(row) if isinstance(row, str) else write_json(row) for row in rows]
    sizes = list(accumulate(map(len, texts), initial=0))
    starts = [0] if texts else []
    while starts and (end := bisect_left(sizes, sizes[starts[-1]] + _PIECE)) < len(texts):
        starts.append(end)
    for number, (start, end) in enumerate(pairwise([*starts, len(texts)])):
        json_text = f"[{','.join(texts[start:end])}]"
        yield f"data/{name}-{number}.js", make_script(f"{name}-{number}", json_text=json_text)
    first = {"key": key, "pieces": len(starts), "starts": starts}
    yield f"data/{name}.js", make_script(name, {**first, **index})


def _flag_places(flags: Mapping[int, Collection[str]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place, names in flags.items():
        for name in names:
            found.setdefault(name, []).append(place)
    return dict(sorted(found.items()))


def _find_fields(examples: Sequence[Example], turns: Sequence[int] = ()) -> dict[str, Any]:
    # Return the labels of each field that examples can be filtered or grouped by, and the index of each
    # example's label.
    values: dict[str, list[str]] = {
        "gold": [example.answers[0] or "(empty)" for example in examples],
        "question": [_question_word(example.question) for example in examples],
        "length": [_length_class(example.answers[0]) for example in examples],
        "turn": [f"turn {turn + 1}" if turn < _MOST_BEFORE else "later turns" for turn in turns],
    }
    for level in range(min((len(example.units) for example in examples), default=0)):
        values.setdefault("unit", [])
        named = [example.units[level] or "none" for example in examples]
        if not values["unit"] and 1 < len(set(named)) <= _MOST_LABELS:
            values["unit"] = named
    found = {}
    for name, each in values.items():
        labels = [label for label, _ in Counter(each).most_common()]
        if 1 < len(labels) <= _MOST_LABELS:
            numbers = {label: number for number, label in enumerate(labels)}
            found[name] = {
                "labels": [_cut(label, 60) for label in labels],
                "codes": [numbers[label] for label in each],
            }
    return found


def _question_word(question: str) -> str:
    words = re.findall(r"[a-z]+", question.lower()[:500])
    return next((word for word in words if word in _QUESTIONS), "other")


def _length_class(gold: str) -> str:
    count = len(gold.split())
    return next(
        (
            name
            for most, name in ((1, "one word"), (5, "2 to 5 words"), (20, "6 to 20 words"))
            if count <= most
        ),
        "more than 20 words",
    )


# Examples on a board


@dataclass(frozen=True)
class TaskTexts:
    """The examples of a task's split, or why they can't be shown."""

    why: str = ""
    """Why the examples can't be shown, or an empty string if they can."""
    examples: Sequence[Example] = ()
    """The examples, in the order of the data."""
    is_whole: bool = False
    """Whether contexts and answers are shown in full, as is necessary for tags and trees."""
    before: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """The indexes of the earlier turns of each example's dialogue, by example index."""
    states: Mapping[int, str] = field(default_factory=dict)
    """The gold dialogue state after each example, by example index."""

    @cached_property
    def ids(self) -> list[str]:
        """The ids of the examples."""
        return [example.id for example in self.examples]

    def files(self, name: str, right: Sequence[Array]) -> Iterator[tuple[str, bytes]]:
        """Yield the files that all systems share.

        `right` contains one boolean array per system, which marks the examples that the system got right.
        """
        turns = [len(self.before[place]) for place in range(len(self.examples))] if self.before else ()
        known = [one for one in right if len(one) == len(self.examples)]
        index = {
            "ids": [_cut(id_, 120) for id_ in self.ids],
            "fields": _find_fields(self.examples, turns),
            "right": np.sum(known, axis=0).tolist() if known else None,
            "systems": len(known),
        }
        return _index_and_pieces(name, index, map(self.text, range(len(self.examples))))

    def text(self, place: int) -> dict[str, Any]:
        """Return an example's question, context, gold answers and, in a dialogue, the previous turns."""
        example = self.examples[place]
        golds = list(dict.fromkeys(example.answers))
        found: dict[str, Any] = {
            "question": _cut(example.question, 500),
            "context": example.context if self.is_whole else _window(example.context, golds[0], 600),
            "golds": [gold if self.is_whole else _cut(gold, 500) for gold in golds[:4]],
        }
        if place in self.before:
            before = self.before[place][-_MOST_BEFORE:]
            found["before"] = [_cut(self.examples[each].context, 300) for each in before]
            found["goldState"] = _cut(self.states[place], 500)
        return found


def read_texts(name: str, split: str, keeper: Keeper) -> TaskTexts:
    """Return the examples of a task's split, or why they can't be shown."""
    policy = keeper.options.examples
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
        return TaskTexts("This task's data was already damaged when the site was built.")
    if task is None:
        return TaskTexts("", examples)
    metric = keeper.metrics[task.metric]
    courses = find_courses(metric, [example.answers[0] for example in examples], examples)
    return TaskTexts(
        "",
        examples,
        isinstance(task.output, Tags | Tree),
        {place: course.before for place, course in courses.items()},
        {place: course.gold for place, course in courses.items()},
    )


@dataclass(frozen=True)
class SystemAnswers:
    """An entry's answers to a task's examples, or why they can't be shown."""

    why: str = ""
    """Why the answers can't be shown, or an empty string if they can."""
    count: int = 0
    """The number of answers."""
    files: Sequence[File] = ()
    """The data files that pages load."""


def read_answers_shown(
    entry: Entry,
    column: Column,
    data: TaskTexts,
    keeper: Keeper,
    name: str,
    earlier: Path | None = None,
) -> SystemAnswers:
    """Return the data files with an entry's answers to a task's examples, or why they can't be shown.

    `name` is the name of the data files. `earlier` is the folder of an earlier site. Its files are reused
    if they were made from the same answers.
    """
    evidence, count = entry.evidence[column.name], len(data.examples)
    why = data.why or ("" if evidence.kind == "verified" else "These answers were not scored for this site.")
    made_of = [evidence.key, _own_digest(), column.low, column.high, column.digits]
    key = hashlib.sha256(json.dumps(made_of).encode()).hexdigest() if evidence.key and not why else ""
    if key and earlier is not None and (files := _find_earlier(earlier, name, key)):
        return SystemAnswers("", count, files)
    file = entry.files.get((column.name, entry.split))
    why = why or ("" if file else "Answers are shown only for submissions that are folders.")
    read = None
    if file and not why:
        if evidence.scores is None or len(evidence.scores) != count:
            why = "The data was prepared again while the site was being built."
        elif (read := _read_answers(file.path, data.ids)) is None:
            why = "The answers could not be read."
    if read is None or evidence.scores is None:
        return SystemAnswers(why, 0, [(f"data/{name}.js", make_script(name, {"why": why}))])
    texts, details = read
    words = [len(text.split()) for text in texts]
    flags: dict[int, Collection[str]] = {place: ["empty"] for place, number in enumerate(words) if not number}
    flags |= {place: answer_flags(line, texts[place]) for place, line in details.items()}
    index = {
        **_verdicts(evidence.scores, column),
        "words": words,
        "flags": _flag_places(dict(sorted(flags.items()))),
    }
    rows = _answer_rows(texts, details, data, keeper.metrics[entry.tasks[column.name].metric])
    return SystemAnswers("", count, list(_index_and_pieces(name, index, rows, key)))


def _read_answers(path: Path, ids: list[str]) -> tuple[list[str], dict[int, AnswerLine]] | None:
    """Return the answer to each example, and the lines that contain more than an answer.

    The lines are keyed by example index. Returns None if the file can't be read or is invalid.
    """
    try:
        read = AlignedAnswers.read(read_lines(path, _LIMITS), ids)
    except (DecabenchError, OSError, KeyError):
        return None
    texts = [""] * len(ids)
    for place, text in zip(read.places, read.answers, strict=True):
        texts[place] = text
    return texts, {read.places[at]: line for at, line in read.details.items()}


def _answer_rows(
    texts: Sequence[str], details: Mapping[int, AnswerLine], data: TaskTexts, metric: Metric
) -> list[Any]:
    most = sys.maxsize if data.is_whole else 700
    rows: list[Any] = [_cut(text, most) if len(text) > most else text for text in texts]
    more: dict[int, dict[str, str]] = {}
    for place, course in find_courses(metric, texts, data.examples).items():
        parted = course.parted
        where = "here" if parted is not None else ""
        if parted is not None and parted != place:
            there = data.examples[parted]
            where = describe_parting(there.id, there.answers[0], texts[parted])
        more[place] = {"state": _cut(course.predicted, 500), "parted": _cut(where, 500)}
    for place, line in details.items():
        if line.raw is not None:
            more.setdefault(place, {})["raw"] = _cut(line.raw, 700)
    for place, found in more.items():
        rows[place] = {"answer": rows[place], **found}
    return rows


@cache
def _own_digest() -> str:
    return file_digest(Path(__file__))


def _find_earlier(site: Path, name: str, key: str) -> list[File]:
    index = site / f"data/{name}.js"
    try:
        with index.open("rb") as file:
            start = re.match(rb'[^{]*\{\\"key\\":\\"([0-9a-f]*)\\",\\"pieces\\":(\d+),', file.read(500))
    except OSError:
        return []
    if start is None or start[1].decode() != key:
        return []
    names = [f"data/{name}-{number}.js" for number in range(int(start[2]))]
    return [(each, site / each) for each in (*names, f"data/{name}.js")]


def find_right(scores: Array, column: Column) -> Array:
    """Return a boolean array that marks the examples with the best possible score."""
    right: Array = np.abs(scores - (column.high if column.higher_is_better else column.low)) <= EXACT
    return right


def _verdicts(scores: Array, column: Column) -> dict[str, Any]:
    known, right = np.isfinite(scores), find_right(scores, column)
    values, codes = np.unique(np.round(scores.astype(float), column.digits), return_inverse=True)
    shown = [
        (int(value) if value.is_integer() else value) if np.isfinite(value) else None
        for value in values.tolist()
    ]
    return {
        "score": [shown[code] for code in codes.tolist()],
        "right": "".join(np.where(known, np.where(right, "1", "0"), "-").tolist()),
    }


# The page of `decabench show`


def write_example_pages(shown: Inspected, output: Path, other: Inspected | None = None) -> Path:
    """Write the page of `decabench show` to a folder, and return the path of its `index.html`.

    An earlier page in the folder is replaced. Raises LeaderboardError if this would delete other
    files, and StorageError if the page can't be written.
    """
    publish(_page_files(shown, other), output)
    return output / "index.html"


def _page_files(shown: Inspected, other: Inspected | None) -> Iterator[tuple[str, bytes]]:
    examples = list(browse_examples(shown, Chosen()))
    yield from static_files()
    plain = [
        Example(each.row.id, each.question, each.context, each.row.references or ("",), ())
        for each in examples
    ]
    turns = [len(each.before) for each in examples] if any(each.course for each in examples) else ()
    texts = {"ids": [each.row.id for each in examples], "fields": _find_fields(plain, turns)}
    yield from _index_and_pieces("texts/all", texts, map(_describe_text, examples))
    answers = [_describe_answer(each) for each in examples]
    flags = {
        place: {flag for row in (each.row, *each.wordings.values()) for flag in row.flags}
        for place, each in enumerate(examples)
    }
    yield from _index_and_pieces(
        "answers/this/all", _index_of([each.row for each in examples], flags), answers
    )
    if other is not None:
        theirs = {row.id: row for row in other.rows}
        rows = [theirs.get(each.row.id) for each in examples]
        described = [{} if row is None else _answer(row) for row in rows]
        yield from _index_and_pieces("answers/other/all", _index_of(rows, {}), described)
    content = (
        make_environment()
        .get_template("examples.html")
        .render(
            root="",
            is_embedded=False,
            shown=shown,
            other=other,
            output=type(shown.task.output).__name__,
            best="" if shown.head.best is None else shown.head.best,
            wrong=sum(each.row.right is False for each in examples),
            policy=CONTENT_POLICY,
            version=decabench.__version__,
        )
    )
    yield "index.html", content.encode("utf-8", "replace")


def _describe_text(each: Browsed) -> dict[str, Any]:
    found: dict[str, Any] = {
        "question": each.question,
        "context": each.context,
        "golds": list(dict.fromkeys(each.row.references)),
    }
    if each.course is not None:
        found |= {"before": list(each.before), "goldState": each.course.gold}
    return found


def _describe_answer(each: Browsed) -> dict[str, Any]:
    found = _answer(each.row)
    if each.course is not None:
        found |= {"state": each.course.predicted, "parted": each.parted}
    if each.wordings:
        found["wordings"] = [
            [number, {**_answer(row), "score": row.score, "right": row.right}]
            for number, row in sorted(each.wordings.items())
        ]
    return found


def _answer(row: ScoredExample) -> dict[str, Any]:
    more = {"raw": row.raw, "reasoning": row.reasoning}
    return {"answer": row.prediction or ""} | {name: text for name, text in more.items() if text is not None}


def _index_of(rows: Sequence[ScoredExample | None], flags: Mapping[int, Collection[str]]) -> dict[str, Any]:
    return {
        "score": [row and row.score for row in rows],
        "right": "".join("-" if row is None or row.right is None else str(int(row.right)) for row in rows),
        "words": [len((row.prediction or "").split()) if row else 0 for row in rows],
        "flags": _flag_places(flags),
    }


def _window(text: str, gold: str, size: int) -> str:
    found = text.find(gold)
    start = max(0, found - size // 3) if found > 2 * size // 3 else 0
    return ("…" if start else "") + _cut(text[start:], size)


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"
