"""The file of scored examples: a row for each example and wording, beside the results.

examples/<task>.jsonl.gz        a line about the file, then a line for each example, in the order of the data

No score rests on it: it shows what a model got right and wrong, and is read by `decabench show` and by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import decabench
from decabench.errors import DataError, MissingDataError
from decabench.files import atomic_file
from decabench.submission import BrokenFileError, Limits, numbered_lines
from decabench.text import excerpt
from decabench.untrusted import parse_json

if TYPE_CHECKING:
    import pandas

__all__ = [
    "EXAMPLES",
    "ExamplesHead",
    "ScoredExample",
    "examples_frame",
    "examples_path",
    "open_examples",
    "save_examples",
]

FORMAT = "decabench.examples/1"

EXAMPLES = "examples"
"""The folder of scored examples beside `results.json`."""

_LIMITS = Limits(line_bytes=1 << 26)


@dataclass(frozen=True, slots=True)
class ScoredExample:
    """One answer with everything behind its score."""

    id: str
    """The example's id."""
    statistics: tuple[float, ...]
    """What the metric adds up, in the order of `ExamplesHead.columns`."""
    prediction: str | None = None
    """The answer that was scored; None if it was left out."""
    raw: str | None = None
    """The model's whole output, if that is another text than the answer."""
    references: tuple[str, ...] = ()
    """All references; empty if they were left out."""
    score: float | None = None
    """The headline of this example alone; None if a single example has none."""
    right: bool | None = None
    """Whether the answer has the best possible score or is a reference word for word; None if that is unknown."""
    flags: tuple[str, ...] = ()
    """What is odd about the answer: `empty`, `unparseable`, `refused`, `cut` (at the limit of new tokens),
    `context_cut`, `other_label` (none of the labels), `label_form` (one of them, in another form)."""
    variant: int = 0
    """The wording of the question; 0 is the dataset's own."""


@dataclass(frozen=True)
class ExamplesHead:
    """What a file of scored examples says about itself in its first line."""

    task: str
    """The task's name."""
    split: str
    """`validation` or `test`."""
    metric: str
    """The metric's name."""
    headline: str
    """Which of its scores is the examples'."""
    signature: str
    """The metric's signature."""
    columns: tuple[str, ...]
    """The names of the statistics."""
    best: float | None
    """The best possible score; None if examples have no score of their own."""
    higher_is_better: bool
    """Whether a higher score is better."""
    data: str
    """The fingerprint of the data."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The files of answers: path in the submission to sha256."""
    answers: str = "extracted"
    """Which texts were scored: `extracted` or `raw`."""
    left_out: tuple[str, ...] = ()
    """Fields that are left out of all rows, since their text may not be passed on."""
    decabench: str = decabench.__version__
    """The version of decabench that scored."""

    def loss(self, row: ScoredExample) -> float:
        """Return how far an answer is from the best score, 0 if it is right, infinite if nobody knows."""
        if row.right:
            return 0.0
        if row.score is None or self.best is None:
            return float("inf")
        return abs(self.best - row.score)


def examples_frame(head: ExamplesHead, rows: Iterable[ScoredExample]) -> pandas.DataFrame:
    """Return rows as a table, with a column for each statistic; references stand in the rows of all wordings."""
    import pandas

    names = [each.name for each in fields(ScoredExample) if each.name != "statistics"]
    columns: dict[str, list[Any]] = {name: [] for name in names}
    numbers: list[tuple[float, ...]] = []
    references: dict[str, tuple[str, ...]] = {}
    for row in rows:
        row = replace(row, references=references.setdefault(row.id, row.references))
        for name, values in columns.items():
            value = getattr(row, name)
            values.append(list(value) if isinstance(value, tuple) else value)
        numbers.append(row.statistics)
    frame = pandas.DataFrame(columns)
    for at, name in enumerate(head.columns):
        frame[f"statistics.{name}"] = [row[at] for row in numbers]
    return frame


def examples_path(folder: Path, task: str) -> Path:
    """Return where a task's scored examples are in a folder of results."""
    return folder / EXAMPLES / f"{task}.jsonl.gz"


# Writing


def save_examples(folder: Path, head: ExamplesHead, rows: Iterable[ScoredExample]) -> Path:
    """Write `examples/<task>.jsonl.gz` into a folder of results and return its path. Raises StorageError."""
    import msgspec

    path, encode = examples_path(folder, head.task), msgspec.json.Encoder().encode
    about = {name: value for name, value in asdict(head).items() if value not in ((), {})}
    with atomic_file(path, "gz") as file:
        file.write(encode({"format": FORMAT, **about}) + b"\n")
        for row in rows:
            file.write(encode(_record(row, head.left_out)) + b"\n")
    return path


def _record(row: ScoredExample, left_out: Iterable[str]) -> dict[str, Any]:
    record: dict[str, Any] = {"id": row.id}
    if row.variant:
        record["variant"] = row.variant
    record["prediction"] = row.prediction
    if row.raw is not None:
        record["raw"] = row.raw
    if row.references:
        record["references"] = row.references
    record["score"], record["right"] = row.score, row.right
    record["statistics"] = [int(value) if value == int(value) else value for value in row.statistics]
    if row.flags:
        record["flags"] = row.flags
    for name in left_out:
        record.pop(name, None)
    return record


# Reading


def open_examples(path: Path) -> tuple[ExamplesHead, Iterator[ScoredExample]]:
    """Read the first line of a file of scored examples; return it, and the rows, which are read as they are needed.

    Raises MissingDataError if there is no file, DataError if it is damaged or has another format; so does iterating
    over the rows.
    """
    import msgspec

    if not path.is_file():
        raise MissingDataError(f"There is no {path}: run decabench evaluate first.")
    lines = _lines(path)
    try:
        record = parse_json(next(lines)[1].decode())
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            kind = record.get("format") if isinstance(record, dict) else record
            raise _damaged(path, f"its format is {excerpt(repr(kind), 60)}; this version reads {FORMAT!r}")
        return msgspec.convert(record, ExamplesHead), _rows(path, lines)
    except msgspec.ValidationError as error:
        raise _damaged(path, f"in its first line, {excerpt(str(error))}") from error
    except (StopIteration, ValueError) as error:
        raise _damaged(path, f"its first line is not JSON ({excerpt(str(error))})") from error


def _rows(path: Path, lines: Iterator[tuple[int, bytes]]) -> Iterator[ScoredExample]:
    import msgspec

    decoder = msgspec.json.Decoder(ScoredExample)
    for number, line in lines:
        try:
            yield decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _damaged(path, f"line {number}: {excerpt(str(error))}") from error


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
