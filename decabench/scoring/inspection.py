"""The examples behind a score, found again beside the results, or scored now, to be shown."""

from __future__ import annotations

import math
import os
import tempfile
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from operator import eq
from pathlib import Path
from typing import Any, TypeVar, overload

from decabench.errors import DataError, DecabenchError, StorageError
from decabench.files import is_within, storage_errors
from decabench.metrics import Item
from decabench.scoring.evaluator import (
    ScoringOptions,
    digest_answers,
    find_metric,
    known_to,
    score_submission,
)
from decabench.scoring.results import score_digits
from decabench.scoring.scored_examples import (
    Course,
    ExamplesHead,
    ScoredExample,
    examples_path,
    find_courses,
    make_examples,
    open_examples,
    other_text,
)
from decabench.scoring.summary import results_home
from decabench.submission import RESULTS, AnswerKind, AnswerLine, Submission, open_submission, read_lines
from decabench.tasks import Store, Task, get_task, home_folder

__all__ = ["Inspected", "find_examples"]


@dataclass(frozen=True)
class Inspected:
    """The scored examples of a task, with the questions and contexts that they are about."""

    submission: str
    """The submission's name."""
    task: Task
    """The task."""
    head: ExamplesHead
    """What the examples are of."""
    rows: Sequence[ScoredExample]
    """The rows of the dataset's own wording, in the order of the data."""
    wordings: RowsById[Mapping[int, ScoredExample]]
    """By id, the rows of other wordings, by their number."""
    texts: RowsById[Mapping[str, str]]
    """By id, the `question` and the `context`."""
    courses: Mapping[int, Course]
    """By place among the rows, how the answer came to be right or wrong, if its metric compares more than itself."""
    score: float | None
    """The task's score; None if it is not known."""
    is_read: bool
    """Whether the rows are from the file beside the results; otherwise, the task was scored for them."""

    @property
    def digits(self) -> int:
        """How many decimals to print of scores: more than two on short scales and unbounded ones."""
        return score_digits(self.head.task, self.head.metric, least=2)


def find_examples(
    submission: str | Path, task: str, options: ScoringOptions, hidden: bool = False
) -> Inspected:
    """Return the examples of a task: from the file beside the results if it is of these answers, or scored now.

    Raises the errors of `evaluate`, SubmissionError if the task's answers have faults, and DataError for hidden labels
    unless `hidden` says that nobody else will see them.
    """
    submission = Path(submission)
    with open_submission(submission) as opened:
        known = known_to(opened, replace(options, tasks=[task]))
        name = get_task(task, known).name
        store = Store(home_folder(options.home))
        if store.hides(known[name], options.split) and not hidden:
            raise DataError(
                f"The labels of {name}, {options.split}, are hidden, and examples would give them away: add "
                "--hidden to see them, where nobody else reads the output."
            )
        found = _read_current(submission, opened, known[name], store, options)
        is_read = found is not None
        if found is None:
            _, scored = score_submission(submission, replace(options, tasks=[name]))
            if scored[name].sample is None:
                raise DataError(f"{name} cannot be shown: {scored[name].result.reason.rstrip('.')}.")
            found = _Collected(
                *make_examples(opened, known[name], scored[name], replace(options, all_texts=True)), store
            )
        own, others = found.rows[0], {number: rows for number, rows in found.rows.items() if number}
        metric = find_metric(known[name].metric)
        courses = {}
        if metric.states is not None:  # or no answer is compared with others
            courses = find_courses(
                metric, [row.prediction or "" for row in own], [Item(row.references, row.id) for row in own]
            )
        return Inspected(
            opened.info.name,
            known[name],
            found.head,
            own,
            RowsById(own, lambda at: {number: rows[at] for number, rows in others.items()}, not others),
            RowsById(own, found.texts.__getitem__),
            courses,
            _score_of(known[name], found.head, found.statistics),
            is_read,
        )


_Value = TypeVar("_Value")


class StoredRows(Sequence[_Value]):
    """Rows in a temporary file, of which each is read when it is asked for: memory holds where they are."""

    def __init__(self, kind: type[_Value]) -> None:
        import msgspec

        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY)
        weakref.finalize(self, self._file.close)
        self._ends = array("Q", [0])
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(kind).decode

    def append(self, row: _Value) -> None:
        """Add a row. Raises StorageError."""
        with storage_errors(Path(tempfile.gettempdir()), "TMPDIR"):
            self._ends.append(self._ends[-1] + self._file.write(self._encode(row)))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[_Value]:
        at = 0
        while at < len(self):
            some = self[at : at + _AT_ONCE]
            at += len(some)
            yield from some

    @overload
    def __getitem__(self, index: int) -> _Value: ...
    @overload
    def __getitem__(self, index: slice) -> list[_Value]: ...
    def __getitem__(self, index: int | slice) -> _Value | list[_Value]:
        found = range(len(self))[index]
        if isinstance(found, int):
            return self._read(found, found + 1)[0]
        return self._read(found.start, found.stop) if found.step == 1 else [self[at] for at in found]

    def _read(self, start: int, stop: int) -> list[_Value]:
        first = self._ends[start]
        self._file.seek(first)
        content = memoryview(self._file.read(self._ends[max(start, stop)] - first))
        self._file.seek(0, os.SEEK_END)
        ends = self._ends[start : stop + 1]
        return [self._decode(content[a - first : b - first]) for a, b in pairwise(ends)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]


_IN_MEMORY = 1 << 24
"""So many bytes of rows stay in memory; more are written to a temporary file."""
_AT_ONCE = 1_000
"""So many rows are read at once."""


class RowsById(Mapping[str, _Value]):
    """Values by the id of their row, or `at` its place. Ids are held in memory once one is asked for."""

    def __init__(
        self, rows: Sequence[ScoredExample], at: Callable[[int], _Value], is_empty: bool = False
    ) -> None:
        self._rows, self.at, self._is_empty = rows, at, is_empty

    @cached_property
    def _places(self) -> dict[str, int]:
        return {} if self._is_empty else {row.id: at for at, row in enumerate(self._rows)}

    def __getitem__(self, id: str) -> _Value:
        return self.at(self._places[id])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class _Collected:
    """The scored examples of all wordings in the order of the data, with their questions and contexts."""

    def __init__(
        self,
        head: ExamplesHead,
        made: Iterable[ScoredExample],
        store: Store,
        answers: Mapping[int, _Answers] | None = None,
    ) -> None:
        """Store the rows as they come. With `answers`, they must be of these, and have what their file left out.

        Raises DataError if they are not of every example once, in every wording.
        """
        self.head = head
        self.rows: dict[int, StoredRows[ScoredExample]] = {0: StoredRows(ScoredExample)}
        self.texts: StoredRows[dict[str, str]] = StoredRows(dict[str, str])
        self.statistics = array("d")
        columns = (
            "id",
            "question",
            "context",
            *(["answers"] if answers is not None and head.left_out else []),
        )
        data = store.read(head.task, head.split, columns)
        ids: dict[int, Iterator[str]] = {}
        for row in made:
            references = row.references
            if not row.variant:
                found = next((each for each in data if each["id"] == row.id), None)
                is_next = found is not None
                if found is not None:
                    self.texts.append({"question": found["question"], "context": found["context"]})
                    references = tuple(found.get("answers", references))
            else:
                own = (each.id for each in self.rows[0])
                is_next = next(ids.setdefault(row.variant, own), None) == row.id
                self.rows.setdefault(row.variant, StoredRows(ScoredExample))
            if not is_next:
                raise DataError(f"{row.id!r} of {head.task} is not where the data have it.")
            if answers is not None:
                row = _checked(head, row, references, answers)
            self.rows[row.variant].append(row)
            if not row.variant:
                self.statistics.extend(row.statistics)
        if any(len(rows) != len(self.rows[0]) for rows in self.rows.values()):
            raise DataError(f"A wording of {head.task} lacks examples.")
        if answers is not None and (answers.keys() != self.rows.keys() or any(map(len, answers.values()))):
            raise DataError(f"Examples of {head.task} lack answers.")


def _checked(
    head: ExamplesHead,
    row: ScoredExample,
    references: tuple[str, ...],
    answers: Mapping[int, _Answers],
) -> ScoredExample:
    """Return a row with the texts that were left out of its file. Raises DataError if it is of another answer."""
    line = answers[row.variant].take(row.id) if row.variant in answers else None
    kind: AnswerKind = "raw" if head.answers == "raw" else "extracted"
    if (
        line is None
        or len(row.statistics) != len(head.columns)
        or ("prediction" not in head.left_out and row.prediction != line.text(kind))
    ):
        raise DataError(f"{row.id!r} of {head.task} has another answer.")
    if not head.left_out:
        return row
    own = () if row.variant else references
    return replace(row, prediction=line.text(kind), raw=other_text(line, kind), references=own)


def _score_of(task: Task, head: ExamplesHead, statistics: array[float]) -> float | None:
    """Return the score of the rows of statistics, which stand in one array, a row after the other."""
    import numpy as np

    from decabench.metrics import score_rows

    if not statistics:
        return None
    metric = find_metric(task.metric).for_columns(head.columns)
    try:
        table: Any = np.asarray(statistics).reshape(-1, len(metric.columns))
        score = score_rows(metric, table).value
    except (ValueError, ArithmeticError, KeyError):
        return None
    return score if math.isfinite(score) else None


def _read_current(
    submission: Path, opened: Submission, task: Task, store: Store, options: ScoringOptions
) -> _Collected | None:
    """Read the file of examples beside the results, if it is of these answers and this data, and whole.

    An archive has its results beside it, where evaluate writes them, or packed with the answers.
    """
    places = [results_home(submission)]
    if opened.folder is not None and opened.folder != submission:
        places.append(opened.folder / RESULTS)
    is_raw = options.answers == "raw"
    for folder in [found for place in places for found in sorted(place.glob(f"{options.split}*"))]:
        path = examples_path(folder, task.name)
        root = submission if submission.is_dir() else folder.parent
        if folder.name.endswith("-raw") != is_raw or not path.is_file() or not is_within(root, path):
            continue
        try:
            head, made = open_examples(path)
            if _is_current(head, opened, task, store, options):
                return _Collected(head, made, store, _open_answers(head, opened))
        except StorageError:
            raise
        except (DecabenchError, KeyError):  # the task is scored again
            continue
    return None


class _Answers:
    """The answers to a wording, taken by id: those in the order of the data are read one by one, and not kept."""

    def __init__(self, path: Path) -> None:
        self._lines = read_lines(path)
        self._waiting: dict[str, AnswerLine] = {}

    def take(self, id: str) -> AnswerLine | None:
        """Return the line with an id, once."""
        if id in self._waiting:
            return self._waiting.pop(id)
        for line in self._lines:
            if line.id == id:
                return line
            self._waiting[str(line.id)] = line
        return None

    def __len__(self) -> int:
        """How many have not been taken."""
        self._waiting |= {str(line.id): line for line in self._lines}
        return len(self._waiting)


def _open_answers(head: ExamplesHead, opened: Submission) -> dict[int, _Answers]:
    """Return the answers to each wording that is scored: those that answer the examples that the first answers."""
    pair = head.task, head.split
    paths = {0: opened.files[pair].path}
    others = {number: found[pair].path for number, found in opened.variants.items() if pair in found}
    if others:
        wanted = _ids_of(paths[0])
        paths |= {number: path for number, path in others.items() if _ids_of(path) == wanted}
    return {number: _Answers(path) for number, path in paths.items()}


def _ids_of(path: Path) -> set[str]:
    return {str(line.id) for line in read_lines(path)}


def _is_current(
    head: ExamplesHead, opened: Submission, task: Task, store: Store, options: ScoringOptions
) -> bool:
    """Return whether a file says that it is of these answers, data and metric.

    The file is somebody else's: its metric is compared, and never loaded, as a name may stand for any code.
    """
    return (
        (head.task, head.split, head.answers) == (task.name, options.split, options.answers)
        and head.metric == task.metric
        and head.data == store.record(task.name, options.split).fingerprint
        and head.signature == find_metric(task.metric).full_signature
        and dict(head.files) == digest_answers(opened, task.name, options.split)
    )
