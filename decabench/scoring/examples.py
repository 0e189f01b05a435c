"""Scored examples: a row for each example and wording, stored in files next to the results.

examples/<task>.jsonl.gz        a line about the file, then a line for each example, in the order of the data

These files show which answers were right and wrong. Scores don't depend on them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import decabench
from decabench.errors import DataError, MissingDataError, require_package
from decabench.files import atomic_file, read_errors, remove_file
from decabench.metrics import Metric, Reference
from decabench.prompts import label_flag, possible_labels, takes_label
from decabench.submission import AnswerKind, AnswerLine, BrokenFileError, Limits, numbered_lines
from decabench.tasks import Label, Number, Store, Tags, Task
from decabench.text import excerpt
from decabench.untrusted import parse_json

if TYPE_CHECKING:
    import pandas
    from numpy.typing import NDArray

    Array = NDArray[Any]

FORMAT = "decabench.examples/1"

STATISTICS = "statistics"
"""The folder for statistics next to `results.json`."""

EXAMPLES = "examples"
"""The folder for scored examples next to `results.json`."""

_LIMITS = Limits(line_bytes=1 << 26)


class ScoredExample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An answer with its score and the details that explain the score."""

    id: str
    """The example's id."""
    variant: int = 0
    """The wording of the question; 0 is the dataset's own."""
    prediction: str | None = None
    """The scored answer; None if its text was left out."""
    raw: str | None = None
    """The model's whole output, if it differs from the answer."""
    reasoning: str | None = None
    """The model's reasoning, if the model returned it separately from the output."""
    references: tuple[str, ...] = ()
    """All references; empty if they were left out."""
    score: float | None
    """The headline score of this example; None if examples have no individual score."""
    right: bool | None
    """Whether the answer has the best possible score or is equal to a reference; None if unknown."""
    statistics: tuple[float, ...]
    """The metric's statistics, in the order of `ExamplesHead.columns`."""
    flags: tuple[str, ...] = ()
    """Notable properties of the answer: `empty`, `unparseable`, `reasoning_only`, `cut_in_reasoning`, `tool_call`,
    `refused`, `cut` (the answer reached the limit of new tokens), `context_cut` (the context was truncated),
    `other_label` (the answer is not a label), `label_form` (the answer is a label in another form)."""


@dataclass(frozen=True, slots=True)
class Course:
    """The dialogue states behind one example's score, for metrics that compare states instead of answers."""

    before: tuple[int, ...]
    """The positions of earlier examples in the same group, in order."""
    predicted: str
    """The predicted state, according to the answers up to this turn."""
    gold: str
    """The gold state, according to the gold answers up to this turn."""
    parted: int | None
    """The position of the example whose answer made the states differ; None if the states are equal."""


def find_courses(
    metric: Metric, predictions: Sequence[str], references: Sequence[Reference]
) -> dict[int, Course]:
    """Return the states behind each score, by position, or an empty dict if the metric doesn't compare states."""
    courses: dict[int, Course] = {}
    for group in metric.states(predictions, references) if metric.states else ():
        parted: int | None = None
        for number, state in enumerate(group):
            if state.predicted == state.gold:
                parted = None
            elif parted is None:
                parted = state.place
            before = tuple(earlier.place for earlier in group[:number])
            courses[state.place] = Course(before, state.predicted, state.gold, parted)
    return courses


def describe_parting(id: str, gold: str, answer: str) -> str:
    """Describe the answer that made a state diverge from the gold state."""
    return f"at {id}: gold {gold!r}, answer {answer!r}"


@dataclass(frozen=True)
class ExamplesHead:
    """The first line of a file of scored examples, which describes the file."""

    task: str
    """The task's name."""
    split: str
    """The split: `validation` or `test`."""
    metric: str
    """The metric's name."""
    headline: str
    """The name of the score that is shown for each example."""
    signature: str
    """The metric's signature."""
    columns: tuple[str, ...]
    """The names of the statistics."""
    best: float | None
    """The best possible score; None if examples have no individual score."""
    higher_is_better: bool
    """Whether a higher score is better."""
    data: str
    """The fingerprint of the data."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of each answer file, by path in the submission."""
    answers: str = "extracted"
    """Which texts were scored: `extracted` or `raw`."""
    left_out: tuple[str, ...] = ()
    """Fields left out of all rows because their text can't be redistributed."""
    decabench: str = decabench.__version__
    """The version of decabench that scored the examples."""

    def loss(self, row: ScoredExample) -> float:
        """Return the distance from an answer's score to the best score: 0 for a right answer, infinity if unknown."""
        if row.right:
            return 0.0
        if row.score is None or self.best is None:
            return float("inf")
        return abs(self.best - row.score)


def examples_frame(head: ExamplesHead, rows: Iterable[ScoredExample]) -> pandas.DataFrame:
    """Return scored examples as a DataFrame. Raises DecabenchError if pandas (extra `pandas`) is not installed."""
    require_package("A table of examples", "pandas", "pandas")
    import pandas

    names = ("id", "prediction", "raw", "reasoning", "references", "score", "right", "flags", "variant")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    numbers: list[tuple[float, ...]] = []
    references: dict[str, tuple[str, ...]] = {}
    for row in rows:
        known = references.setdefault(row.id, row.references)
        for name, values in columns.items():
            value = known if name == "references" else getattr(row, name)
            values.append(list(value) if isinstance(value, tuple) else value)
        numbers.append(row.statistics)
    frame = pandas.DataFrame(columns)
    for at, name in enumerate(head.columns):
        frame[f"statistics.{name}"] = [float(row[at]) for row in numbers]
    return frame


def examples_path(folder: Path, task: str) -> Path:
    """Return the path of a task's scored examples in a folder of results."""
    return folder / EXAMPLES / f"{task}.jsonl.gz"


# Creating rows of scored examples


_EXACT = 0.005
"""An answer is right if its score is at most this far from the best possible score."""


def make_examples(task: Task, found: Any, options: Any) -> tuple[ExamplesHead, Iterator[ScoredExample]]:
    """Return the head of a task's file of scored examples, and an iterator over the rows of all wordings."""
    assert found.sample is not None  # tasks that failed have no examples
    metric = found.sample.metric
    low, high = metric.range
    best = high if metric.higher_is_better else low
    head = ExamplesHead(
        task=task.name,
        split=options.split,
        metric=found.result.metric,
        headline=found.result.headline,
        signature=found.result.signature,
        columns=metric.columns,
        best=best if math.isfinite(best) and low >= 0 else None,
        higher_is_better=metric.higher_is_better,
        data=found.result.data.fingerprint,
        files=found.files,
        answers=options.answers,
        left_out=() if options.all_texts or found.result.data.origin == "sample" else _left_out(task),
    )
    return head, _make_rows(task, found, options, head)


def _left_out(task: Task) -> tuple[str, ...]:
    """Return the fields that can't be redistributed, because they contain gold answers or may quote the context."""
    if not task.redistributable:
        return "prediction", "raw", "reasoning", "references"
    if task.withhold_texts:
        is_text = not isinstance(task.output, Label | Number | Tags)
        return ("prediction", "raw", "reasoning") if is_text else ("raw", "reasoning")
    return ()


def _make_rows(task: Task, found: Any, options: Any, head: ExamplesHead) -> Iterator[ScoredExample]:
    questions = label_questions(task, Store(options.home), options.split)
    metric, best, is_label = found.sample.metric, head.best, isinstance(task.output, Label)
    shows_answers, shows_raw, shows_reasoning, shows_references = (
        name not in head.left_out for name in ("prediction", "raw", "reasoning", "references")
    )
    takes = cache(partial(takes_label, metric))
    for number, rows in ((0, found.rows), *found.variant_rows.items()):
        aligned = found.aligned()[number]
        numbers = _rows_with_scores(metric, rows, has_scores=best is not None)
        texts, details = aligned.texts(options.answers), aligned.details
        for at, (item, text, (row, score)) in enumerate(zip(found.references, texts, numbers, strict=True)):
            line, form = details.get(at), ""
            question = questions.get(item.id, "")
            labels = possible_labels(task.output, question) if is_label else ()
            if labels and text not in labels:
                form = label_flag(text, labels, question, takes)
            exact = text in item.answers and metric.scope != "group"  # a right answer can follow wrong turns
            yield ScoredExample(
                id=item.id,
                variant=number,
                prediction=text if shows_answers else None,
                raw=_other_text(line, options.answers) if line is not None and shows_raw else None,
                reasoning=line.reasoning if line is not None and shows_reasoning else None,
                references=tuple(item.answers) if number == 0 and shows_references else (),
                score=score,
                right=_is_right(score, best, exact),
                statistics=row,
                flags=answer_flags(line, text, form) if line is not None or form or not text.strip() else (),
            )


def _is_right(score: float | None, best: float | None, exact: bool) -> bool | None:
    if exact or (score is not None and best is not None and abs(best - score) <= _EXACT):
        return True
    return None if score is None else False


def _other_text(line: AnswerLine, answers: AnswerKind) -> str | None:
    return line.raw if answers == "extracted" else line.answer if line.raw is not None else None


_RULES = ("unparseable", "reasoning-only", "cut-in-reasoning", "tool-call", "template", "not-in-context")
"""Extraction rules that are counted and shown next to a score, because they point to a problem."""


def line_flags(line: AnswerLine) -> list[str]:
    """Return the flags recorded in a line, with the names used in `TaskResult.answers`."""
    rules = line.rule.split("+") if line.rule else ()
    flags = [rule.replace("-", "_") for rule in _RULES if rule in rules]
    if line.finish == "refused" or "refused" in rules:
        flags.append("refused")
    if line.finish == "length":
        flags.append("truncated")
    if line.context_kept is not None:
        flags.append("context_cut")
    return flags


def answer_flags(line: AnswerLine | None, text: str, form: str = "") -> tuple[str, ...]:
    """Return the flags that apply to an answer; see `ScoredExample.flags`."""
    flags = [] if text.strip() else ["empty"]
    found = [] if line is None else line_flags(line)
    flags += ("cut" if flag == "truncated" else flag for flag in found if flag != "template")
    return (*flags, form) if form else tuple(flags)


_SCORED_AT_ONCE = 10_000


def _rows_with_scores(
    metric: Metric, rows: Any, has_scores: bool
) -> Iterator[tuple[tuple[float, ...], float | None]]:
    import numpy as np

    for start in range(0, len(rows), _SCORED_AT_ONCE):
        part = np.asarray(rows[start : start + _SCORED_AT_ONCE], dtype=float)
        found: list[float | None] = [None] * len(part)
        if has_scores:
            columns = {name: part[:, at] for at, name in enumerate(metric.columns)}
            with np.errstate(all="ignore"):
                scores = np.asarray(metric.score(columns)[metric.headline], dtype=float).tolist()
            rounded = {score: round(score, 6) if math.isfinite(score) else None for score in set(scores)}
            found = [rounded[score] for score in scores]
        yield from zip(zip(*map(_shortest, part.T), strict=True), found, strict=True)


def _shortest(column: Array) -> list[float]:
    """Return a column's numbers, with whole floats as integers."""
    import numpy as np

    with np.errstate(invalid="ignore"):
        whole = column.astype(np.int64)
    if (whole == column).all() and (np.abs(column) < 2**53).all():
        numbers: list[float] = whole.tolist()
        return numbers
    return [int(value) if value.is_integer() else value for value in column.tolist()]


def label_questions(task: Task, store: Store, split: str) -> dict[str, str]:
    """Return the questions by id if they list the possible labels, and an empty dict otherwise."""
    if not isinstance(task.output, Label) or task.output.names:
        return {}
    return {row["id"]: row["question"] for row in store.read(task.name, split, ("id", "question"))}


# Writing


def save_examples(folder: Path, head: ExamplesHead, rows: Iterable[ScoredExample]) -> Path:
    """Write `examples/<task>.jsonl.gz` to a results folder, and return its path.

    Raises StorageError if the file can't be written.
    """
    path, encode = examples_path(folder, head.task), msgspec.json.Encoder().encode
    about = {name: value for name, value in asdict(head).items() if value not in ((), {})}
    with atomic_file(path, "gz", _LEVEL) as file:
        file.write(encode({"format": FORMAT, **about}) + b"\n")
        lines = map(encode, rows)
        while some := list(islice(lines, _LINES)):  # gzip's write method has a large overhead
            file.write(b"\n".join(some) + b"\n")
    return path


_LINES = 1_000
"""How many lines to write at once."""
_LEVEL = 5
"""The compression level. Level 6 takes 50% longer, but files are only 2% smaller."""


# Reading


def open_examples(path: Path) -> tuple[ExamplesHead, Iterator[ScoredExample]]:
    """Open a file of scored examples, and return its head and an iterator over its rows.

    Raises MissingDataError if the file doesn't exist, DataError if it is damaged. Iterating can also raise DataError.
    """
    if not path.is_file():
        raise MissingDataError(f"There is no {path}. Run decabench evaluate first.")
    lines = _lines(path)
    try:
        record = parse_json(next(lines)[1].decode())
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            kind = record.get("format") if isinstance(record, dict) else record
            raise _damaged(path, f"its format is {excerpt(repr(kind), 60)}; this version reads {FORMAT!r}")
        return msgspec.convert(record, ExamplesHead), _rows(path, lines)
    except msgspec.ValidationError as error:
        raise _damaged(path, f"its first line is invalid ({excerpt(str(error))})") from error
    except (StopIteration, ValueError) as error:
        raise _damaged(path, f"its first line is not JSON ({excerpt(str(error))})") from error


def _rows(path: Path, lines: Iterator[tuple[int, bytes]]) -> Iterator[ScoredExample]:
    decoder = msgspec.json.Decoder(ScoredExample)
    for number, line in lines:
        try:
            yield decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _damaged(path, f"line {number} is invalid ({excerpt(str(error))})") from error


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with closing(numbered_lines(path, _LIMITS)) as lines:
            for number, line in lines:
                if line is None:
                    raise _damaged(path, f"line {number} is longer than {_LIMITS.line_bytes:,} bytes")
                if line.strip():
                    yield number, line
    except BrokenFileError as error:
        raise _damaged(path, error.reason) from error


def _damaged(path: Path, reason: str) -> DataError:
    return DataError(
        f"{path} is not a valid file of scored examples: {reason}. Run decabench evaluate again."
    )


# Files of statistics


def statistics_path(folder: Path, task: str) -> Path:
    """Return the path of a task's statistics in a folder of results."""
    return folder / STATISTICS / f"{task}.parquet"


def write_statistics(folder: Path, scored: Mapping[str, Any]) -> None:
    """Write `statistics/<task>.parquet` for each task that was scored in full, and remove the files of other tasks.

    A file has a row for each example, with the columns `unit_1` (the outermost unit), `unit_2`, …, and the statistics.
    Tasks with hidden labels get no file, because its rows would show which answers are right. Raises StorageError if a
    file can't be written or removed.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    for task, found in scored.items():
        path = statistics_path(folder, task)
        if found.sample is None or found.result.status != "scored" or found.hidden:
            remove_file(path)
            continue
        levels = enumerate(found.units.T.astype("int32"), start=1)
        columns = {f"unit_{level}": numbers for level, numbers in levels}
        columns |= {name: found.rows[:, at] for at, name in enumerate(found.sample.metric.columns)}
        about = {"metric": found.result.metric, "signature": found.result.signature}
        table = pa.table({name: _to_arrow(values) for name, values in columns.items()})
        with atomic_file(path) as file:
            pq.write_table(table.replace_schema_metadata(about), file, compression="zstd")


# pyarrow's conversions from and to numpy import pandas, which takes longer than writing all files.


def _to_arrow(values: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    array = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), len(array), [None, pa.py_buffer(array)])


def _to_numpy(column: Any) -> Array:
    import numpy as np

    return np.concatenate([np.from_dlpack(chunk) for chunk in column.chunks])


_MOST_COLUMNS = 4_000
"""The maximum number of columns. Metrics allow 1,000 classes, with a few columns for each class."""


def read_statistics(path: Path, metric: Metric) -> tuple[Metric, Array, Array]:
    """Read a statistics file, and return its metric, the units of its examples, and their statistics.

    The metric has the classes that the file was written for. The units are numbers with the shape (examples, levels),
    and the statistics have the shape (examples, columns). Raises DataError if the file is damaged or empty,
    or lacks a column.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with read_errors(path):  # pass bytes, because pyarrow can't open paths that aren't UTF-8
            file = pq.ParquetFile(pa.memory_map(os.fsencode(path)))
        names = file.schema_arrow.names
        if len(names) > _MOST_COLUMNS:
            raise ValueError(f"it has {len(names):,} columns")
        metric = metric.for_columns(names)
        levels = [name for level in range(1, len(names) + 1) if (name := f"unit_{level}") in names]
        table = file.read([*levels, *metric.columns], use_threads=False)
        units = np.stack([_to_numpy(table.column(name)) for name in levels], axis=1)
        rows = np.stack([_to_numpy(table.column(name)).astype(float) for name in metric.columns], axis=1)
        if not len(rows) or units.dtype.kind not in "iu" or not np.isfinite(rows).all():
            raise ValueError(
                "it is empty, or contains a value that is not finite or a unit that is not a whole number"
            )
    except (pa.ArrowException, KeyError, TypeError, ValueError, OSError) as error:
        raise DataError(
            f"{path} is damaged ({type(error).__name__}: {error}). Run decabench evaluate again."
        ) from error
    return metric, units, rows
