"""Readers for answers written by other programs.

The formats are SQuAD predictions, CSV, plain text, tables in memory, lm-eval samples and Inspect logs. Each
reader yields every row of the file, including invalid rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from decabench.errors import DecabenchError, SubmissionError, require_name
from decabench.exchange.foreign_rows import (
    FILE_BYTES,
    FINISHES,
    LINE_BYTES,
    WHOLE_BYTES,
    ForeignAnswer,
    ForeignFile,
    Places,
    as_id,
    decode_json,
    lines_of,
    reading,
    texts_in,
)
from decabench.exchange.inspect_logs import open_inspect
from decabench.exchange.lm_eval_samples import lm_eval_rows
from decabench.text import kind_of, quoted
from decabench.untrusted import BrokenCsvError, csv_rows, rows_in_quotes


def open_foreign(path: Path, format: str, places: Places) -> ForeignFile:
    """Open an answer file.

    Raises UnknownNameError for an unknown format and SubmissionError for an unreadable file.
    """
    reader = FORMATS[require_name(format, FORMATS, "format")]
    with reading(path):
        size = path.stat().st_size
        if not path.is_file():
            raise SubmissionError(f"{path} is not a regular file. Specify a file with answers.")
    most, advice = FILE_BYTES, "Remove everything except the ids and the answers"
    if format == "squad":
        most, advice = WHOLE_BYTES, "Remove everything except the answer to each question id"
    if size > most:
        raise SubmissionError(f"{path.name} has {size:,} bytes, more than the limit of {most:,}. {advice}.")
    with reading(path), path.open("rb") as file:
        start = file.read(1 << 16)
    _refuse_packed(path, format, start)
    _refuse_own_form(path, format, start)
    return reader(path, places)


_PACKED = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    **{b"BZh%d1AY" % level: "bzip2" for level in range(1, 10)},
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
"""Compression formats, by the first bytes of a file."""


def _refuse_packed(path: Path, format: str, start: bytes) -> None:
    if format == "inspect" or (format in ("text", "lm-eval") and path.suffix in (".gz", ".zst")):
        return
    if start.startswith(b"PAR1") or path.suffix.lower() in (".xlsx", ".ods"):
        raise SubmissionError(f"{path.name} is not a text file. Save the table as CSV in UTF-8.")
    if packing := next((name for magic, name in _PACKED.items() if start.startswith(magic)), ""):
        raise SubmissionError(f"{path.name} is compressed ({packing}). Unpack the file first.")


def _refuse_own_form(path: Path, format: str, start: bytes) -> None:
    if format not in ("squad", "csv", "lm-eval") or path.suffix in (".gz", ".zst"):
        return
    line, _, rest = start.partition(b"\n")
    try:
        record = decode_json(line.decode("utf-8-sig"))
    except ValueError:
        return
    if not isinstance(record, dict) or "id" not in record or "resps" in record:
        return
    if format == "squad" and not rest.strip():  # an answer to the question whose id is "id"
        return
    key = next((key for key in ("answer", "prediction") if isinstance(record.get(key), str)), "")
    if key:
        move = "Move" if key == "answer" else f"Rename the key {key!r} to 'answer', move"
        raise SubmissionError(
            f"{path.name} is already in decabench's format, so it doesn't need to be imported. {move} the file "
            "to DIR/predictions/TASK.SPLIT.jsonl, write DIR/submission.toml (see docs/submissions.md), and run "
            "decabench check DIR."
        )


# SQuAD: one object that maps ids to answers


def _open_squad(path: Path, places: Places) -> ForeignFile:
    """Open a SQuAD predictions file: a JSON object that maps question ids to answers.

    The official SQuAD 1.1 and 2.0 scorers read the same format.
    """
    with reading(path):
        text = path.read_bytes().decode("utf-8-sig")
    try:
        content = decode_json(text, pairs=_Pairs)
    except ValueError as error:
        raise SubmissionError(
            f"{path.name} is not JSON: {error}. The format squad reads a JSON object such as "
            '{"<id>": "<answer>", …}; for a table, use csv.'
        ) from error
    if not isinstance(content, _Pairs):
        raise SubmissionError(
            f"{path.name} is not a SQuAD predictions file. Such a file contains a JSON object that maps each question "
            "id to an answer."
        )
    return ForeignFile(_squad_rows(content))


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of a JSON object, including duplicate keys."""


def _squad_rows(content: _Pairs) -> Iterator[ForeignAnswer]:
    for key, value in content:
        if isinstance(value, str):
            yield ForeignAnswer(None, key, value)
        else:
            given = {} if isinstance(value, _Pairs) else value
            message = (
                f"the answer to {quoted(key)} is {kind_of(given)}, not a string; import the file with the predictions, "
                "not the n-best list or the no-answer probabilities"
            )
            yield ForeignAnswer(None, key, problem=("non-string-answer", message))


# Plain text, in dataset order


def _text_rows(path: Path) -> Iterator[ForeignAnswer]:
    """Yield one answer per line. Lines end with LF or CRLF."""
    for number, raw in lines_of(path):
        try:
            line = raw.removesuffix(b"\r").decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            problem = ("bad-encoding", f"byte {error.start + 1} is not valid UTF-8; save the file as UTF-8")
            yield ForeignAnswer(number, problem=problem)
        else:
            yield ForeignAnswer(number, None, line)


# Tables


def _csv_rows(path: Path, places: Places) -> Iterator[ForeignAnswer]:
    """Yield the rows of a CSV file with a header line. Quoted fields may contain line breaks, as in RFC 4180."""
    delimiter = places.delimiter or ("\t" if path.suffix == ".tsv" else ",")
    delimiter = "\t" if delimiter == r"\t" else delimiter  # a shell doesn't turn this into a tab
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise DecabenchError(
            f"The delimiter must be a single character, such as a comma or a tab, not {delimiter!r}."
        )
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
                    message = (
                        f"the row must have {len(heading)} fields, like the header, but has {len(cells)}; "
                        f"put fields that contain {delimiter!r} in quotation marks"
                    )
                    yield ForeignAnswer(first, problem=("bad-record", message))
    except BrokenCsvError as error:
        raise SubmissionError(
            f"{path.name}:{error.first}: from this line on, the file isn't CSV with the delimiter {delimiter!r} "
            f"({error}). Put each field that contains a quotation mark in quotation marks, and double the marks inside."
        ) from error


class _Table:
    def __init__(self, heading: Sequence[str], places: Places, name: str) -> None:
        """Find the columns in the heading.

        If there is no id column, rows are matched to examples by the text in the other columns. Raises
        SubmissionError if a required column is missing or occurs twice.
        """
        if not heading:
            raise SubmissionError(
                f"{name} is empty. The first line must list the columns, such as id,answer."
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
            sentence = f"{name} has {' and '.join(faults)}. The columns are {listed}.{_advise(heading)}"
            has_no_ids = counts[places.id] == 0 and counts[places.answer] == 1 and places.id == Places.id
            if not has_no_ids or len(heading) < 2:
                raise SubmissionError(sentence)
            self._problem = ("missing-field", f"the table has no column {quoted(places.id)} (--id)")
        self.at_id = None if self._problem else list(heading).index(places.id)
        self.at_answer = list(heading).index(places.answer)
        self._others = [
            (at, column.strip().casefold().replace(" ", "_"))
            for at, column in enumerate(heading)
            if at not in (self.at_id, self.at_answer)
        ]
        self._at_finish = next((at for at, column in self._others if column in _FINISH_COLUMNS), None)
        self._columns = tuple(heading[at] for at, _ in self._others)

    def row(self, line: int, cells: Sequence[Any]) -> ForeignAnswer:
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
            columns=self._columns,
            cells=tuple(str(cells[at]) for at, _ in self._others),
        )

    def finish(self, cells: Sequence[Any]) -> str:
        reason = "" if self._at_finish is None else str(cells[self._at_finish])
        return FINISHES.get(reason.strip().casefold(), "stop")


_OUTPUT = re.compile(
    "finish|stop_reason|output|response|completion|generat|predict|raw|rational|reason|explanation|thought"
)
"""Matches the names of columns that contain a model's output instead of its input."""
_GOLD_COLUMNS = {
    *("answer", "correct_answer", "expected", "gold", "gold_answer", "gold_label", "ground_truth", "label"),
    *("reference", "target", "truth"),
}
"""Names of columns that contain the right answer."""
_FINISH_COLUMNS = ("finish", "finish_reason", "stop_reason")
"""Names of columns that contain an answer's finish reason."""


def _advise(heading: Sequence[str]) -> str:
    if heading[0].lstrip().startswith(("{", "[")):
        return (
            ' The file is JSON, not CSV. Write a line {"id": "…", "answer": "…"} for each example instead (see '
            "docs/submissions.md)."
        )
    if len(heading) == 1:
        found = next((delimiter for delimiter in ",;\t|" if delimiter in heading[0]), "")
        shown = "$'\\t'" if found == "\t" else f"'{found}'"
        if found:
            return f" If the file uses a different delimiter, add --delimiter {shown}."
        return (
            " If each line is an answer, in the same order as the data, use the format text instead of csv."
        )
    return (
        " Specify the id and answer columns with --id and --answer. If the first line is an answer, add a header line "
        "such as id,answer."
    )


def frame_answers(frame: Any, places: Places, numbers: bool = False) -> ForeignFile:
    """Read a table in memory: a pandas or polars DataFrame, a `datasets.Dataset`, or a mapping of columns.

    Ids may be strings or whole numbers. Answers must be strings, or finite numbers if `numbers` is set.
    Raises SubmissionError if a column is missing.
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
                message = f"the id is {kind_of(given[table.at_id])}; ids must be strings or whole numbers"
                yield ForeignAnswer(number, problem=("non-string-id", message))
                continue
        if not isinstance(answer, str):
            answer = _as_number(answer) if numbers else None
        if answer is None and table.finish(cells) == "refused":
            answer = ""
        if answer is None:
            asked = "" if id_ is None else f" to {quoted(id_)}"
            message = f"the answer{asked} is {kind_of(given[table.at_answer])}; answers must be strings"
            yield ForeignAnswer(number, id_, problem=("non-string-answer", message))
        else:
            cells[table.at_answer] = answer
            yield table.row(number, cells)


def _as_number(value: Any) -> str | None:
    """Return a finite number as the shortest string that parses back to the same number.

    Returns None for any other value.
    """
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return (as_id(value) or repr(number)) if math.isfinite(number) and not isinstance(value, bool) else None


FORMATS: dict[str, Callable[[Path, Places], ForeignFile]] = {
    "squad": _open_squad,
    "csv": lambda path, places: ForeignFile(_csv_rows(path, places)),
    "text": lambda path, places: ForeignFile(_text_rows(path), in_order=True),
    "lm-eval": lambda path, places: ForeignFile(lm_eval_rows(path, places), is_raw=True),
    "inspect": open_inspect,
}
"""Import formats by name, each with the function that opens a file in this format."""
