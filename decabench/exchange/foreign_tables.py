"""Read answers in tables: CSV files, and data frames in memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from decabench.errors import DecabenchError, SubmissionError
from decabench.exchange.foreign_rows import (
    FINISHES,
    LINE_BYTES,
    ForeignAnswer,
    ForeignFile,
    HeadingError,
    Places,
    as_id,
    kind_of,
    reading,
    texts_in,
)
from decabench.text import quoted
from decabench.untrusted import BrokenCsvError, csv_rows, rows_in_quotes

__all__ = ["frame_answers", "open_csv"]


def open_csv(path: Path, places: Places) -> ForeignFile:
    """Columns under a heading, with fields as in RFC 4180, so an answer may contain line breaks."""
    return ForeignFile(_csv_rows(path, places))


def _csv_rows(path: Path, places: Places) -> Iterator[ForeignAnswer]:
    delimiter = places.delimiter or ("\t" if path.suffix == ".tsv" else ",")
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise DecabenchError(f"The delimiter is {delimiter!r}: give one character, such as a comma or a tab.")
    try:
        with reading(path), path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv_rows(file, delimiter, LINE_BYTES)
            _, _, heading = next(rows, (1, 1, []))
            table = _Table(heading, places, path.name)
            for first, last, cells in rows:
                if len(cells) == len(heading):
                    quoted_rows = rows_in_quotes(cells, delimiter) if last > first else []
                    row = table.row(first, cells)
                    yield row._replace(ids_in_quotes=tuple(each[table.at_id or 0] for each in quoted_rows))
                elif cells:
                    message = f"it has {len(cells)} fields but the heading has {len(heading)}: put quotes around fields"
                    yield ForeignAnswer(first, problem=("bad-record", message))
    except BrokenCsvError as error:
        raise SubmissionError(
            f"{path.name}:{error.first}: from here on, this is not CSV with {delimiter!r} between fields ({error}). "
            "Double each quotation mark inside a field, and put one before and after such a field."
        ) from error


class _Table:
    """The columns of a table, and the way to read its rows."""

    def __init__(self, heading: Sequence[str], places: Places, name: str) -> None:
        """Find the columns. Raises SubmissionError if one is missing or duplicated.

        A table without ids needs other columns whose texts identify the examples.
        """
        if not heading:
            raise SubmissionError(
                f"{name} is empty: its first line must name the columns, such as id,answer."
            )
        counts = {column: list(heading).count(column) for column in (places.id, places.answer)}
        faults = [
            f"{f'{counts[column]} columns' if counts[column] else 'no column'} {quoted(column)} ({option})"
            for column, option in ((places.id, "--id"), (places.answer, "--answer"))
            if counts[column] != 1
        ]
        self._problem: tuple[str, str] | None = None
        if faults:
            listed = ", ".join(quoted(each, 30) for each in heading[:12])
            sentence = f"{name} has {' and '.join(faults)}. Its columns: {listed}.{_advise(heading)}"
            has_no_ids = counts[places.id] == 0 and counts[places.answer] == 1 and places.id == Places.id
            if not has_no_ids or len(heading) < 2:
                raise HeadingError(sentence, tuple(heading))
            self._problem = ("missing-field", f"the table has no column {quoted(places.id)} (--id)")
        self.at_id = None if self._problem else list(heading).index(places.id)
        self.at_answer = list(heading).index(places.answer)
        self._others = [
            (at, column.strip().casefold().replace(" ", "_"))
            for at, column in enumerate(heading)
            if at not in (self.at_id, self.at_answer)
        ]
        self._at_finish = next((at for at, column in self._others if column in _FINISH_COLUMNS), None)
        self._other_output = next(
            (heading[at] for at, column in self._others if _PREDICTED.search(column)), ""
        )

    def row(self, line: int, cells: Sequence[Any]) -> ForeignAnswer:
        """Read a row whose id and answer are texts."""
        texts = [cells[at] for at, column in self._others if not _OUTPUT.search(column)]
        golds = [cells[at] for at, column in self._others if column in _GOLD_COLUMNS]
        id_ = None if self.at_id is None else cells[self.at_id]
        return ForeignAnswer(
            line,
            id_,
            cells[self.at_answer],
            finish=self.finish(cells),
            problem=self._problem,
            texts=texts_in(texts),
            golds=tuple(map(str, golds)),
            other_output=self._other_output,
        )

    def finish(self, cells: Sequence[Any]) -> str:
        """Return how the answer ended, if a column says so."""
        reason = "" if self._at_finish is None else str(cells[self._at_finish])
        return FINISHES.get(reason.strip().casefold(), "stop")


_OUTPUT = re.compile(
    "finish|stop_reason|output|response|completion|generat|predict|raw|rational|reason|explanation|thought"
)
"""Column names that contain one of these hold a model's output rather than its input."""
_PREDICTED = re.compile("^(model_)?(output|response|completion|generated|predict)")
"""The beginning of the name of a column that holds answers."""
_GOLD_COLUMNS = frozenset(
    ("answer", "correct_answer", "expected", "gold", "gold_answer", "gold_label", "ground_truth", "label")
) | frozenset(("reference", "target", "truth"))
"""The names of columns that hold the right answer."""
_FINISH_COLUMNS = ("finish", "finish_reason", "stop_reason")
"""The names of columns that say how an answer ended."""


def _advise(heading: Sequence[str]) -> str:
    """Advise what to do if the required columns are missing."""
    if len(heading) == 1:
        for delimiter in ";\t|":
            if delimiter in heading[0]:
                shown = "$'\\t'" if delimiter == "\t" else f"'{delimiter}'"
                return f" If that separates the columns, add --delimiter {shown}."
    return " Name the columns of ids and of answers with --id and --answer." if len(heading) > 1 else ""


def frame_answers(frame: Any, places: Places, numbers: bool = False) -> ForeignFile:
    """Read a table in memory: a pandas or polars DataFrame, a `datasets.Dataset`, or a mapping of columns.

    Ids may be strings or whole numbers; answers must be strings or, if `numbers`, finite numbers. Raises
    SubmissionError if a column is missing.
    """
    heading = [str(name) for name in getattr(frame, "column_names", None) or getattr(frame, "columns", frame)]
    table = _Table(heading, places, "The table")
    return ForeignFile(_frame_rows(table, [list(frame[name]) for name in heading], numbers))


def _frame_rows(table: _Table, columns: Sequence[Sequence[Any]], numbers: bool) -> Iterator[ForeignAnswer]:
    for number, given in enumerate(zip_longest(*columns), 1):
        cells, answer, id_ = list(given), given[table.at_answer], None
        if table.at_id is not None:
            id_ = cells[table.at_id] = as_id(given[table.at_id])
            if id_ is None:
                message = f"the id is {kind_of(given[table.at_id])}: give strings or whole numbers"
                yield ForeignAnswer(number, problem=("non-string-id", message))
                continue
        if not isinstance(answer, str):
            answer = _as_number(answer) if numbers else None
        if answer is None and table.finish(cells) == "refused":
            answer = ""
        if answer is None:
            asked = "" if id_ is None else f" to {quoted(id_)}"
            message = f"the answer{asked} is {kind_of(given[table.at_answer])}: give a string"
            yield ForeignAnswer(number, id_, problem=("non-string-answer", message))
        else:
            cells[table.at_answer] = answer
            yield table.row(number, cells)


def _as_number(value: Any) -> str | None:
    """Return a finite number of any type as the shortest text that reads back as the same number."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if isinstance(value, bool) or number != number or number in (float("inf"), float("-inf")):
        return None
    return as_id(value) or repr(number)
