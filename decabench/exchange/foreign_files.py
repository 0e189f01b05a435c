"""Read the answers in other programs' files: SQuAD predictions, CSV, plain text, lm-eval samples, Inspect logs.

Each reader yields a row for everything that the file holds, faulty or not. Files may come from strangers: size, line
length and depth are bounded, and nothing in them is run.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from decabench.errors import DecabenchError, SubmissionError, install_hint, require_name
from decabench.submission import BrokenFileError, Limits, numbered_lines
from decabench.text import printable, quoted
from decabench.untrusted import BrokenCsvError, csv_rows, rows_in_quotes

__all__ = [
    "FORMATS",
    "ForeignAnswer",
    "ForeignFile",
    "HeadingError",
    "Places",
    "frame_answers",
    "open_foreign",
]

FILE_BYTES = 1 << 30
"""The maximum size of a file, unpacked, in bytes."""
WHOLE_BYTES = 1 << 26
"""The maximum size of one JSON object: parsed, it takes up to 28 times as much memory."""
LINE_BYTES = 1 << 24
"""The maximum size of a line, and of a cell of a table: samples of lm-eval repeat the whole prompt."""


class ForeignAnswer(NamedTuple):
    """One row of a file: an answer, or what keeps it from being one."""

    line: int | None
    """The line or row, from 1; None if the format has none."""
    id: str | None = None
    """The id as the file has it; None if it has none, or not a readable one."""
    answer: str | None = None
    """The answer; None if there is no readable one."""
    raw: str | None = None
    """The model's whole output, if that is another text."""
    finish: str = "stop"
    """How the output ended: `stop`, `length` or `refused`."""
    problem: tuple[str, str] | None = None
    """A fault code and a message, if the row is not an answer."""
    position: int | None = None
    """The example's place in the data, from 0, if the file states it."""
    texts: tuple[str, ...] = ()
    """The texts that the row has of its example: question, context, references, or the prompt that holds them."""
    golds: tuple[str, ...] = ()
    """The right answer, as the file has it, in every way to read it."""
    letter: str | None = None
    """The letter or number that stood for the answer among options, if the model chose by one."""
    is_likeliest: bool = False
    """Whether the answer is the likeliest of some choices, and not a text that the model wrote."""
    other_output: str = ""
    """The name of another column of a table that may hold the answers."""
    ids_in_quotes: tuple[str, ...] = ()
    """The ids of rows that a stray quotation mark may have made a part of this one."""


class HeadingError(SubmissionError):
    """A table whose first line does not name the columns that are wanted."""

    def __init__(self, sentence: str, heading: tuple[str, ...]) -> None:
        super().__init__(sentence)
        self.heading = heading
        """The cells of its first line."""


@dataclass(frozen=True)
class Places:
    """Where the ids and answers are in a file that does not settle that itself."""

    id: str = "id"
    """The column of a table, or the field of lm-eval's `doc`, that holds the id."""
    answer: str = "answer"
    """The column of a table that holds the answer."""
    delimiter: str = ""
    """What separates the columns of a CSV file; by default a tab for `.tsv` and a comma for others."""
    choice: str = ""
    """lm-eval: the filter whose answers to take. Inspect: the scorer whose answers to take, in place of the
    completions; by default `choice`, if the samples were scored by it."""
    epoch: int = 0
    """Inspect: the epoch to take; 0 if there is only one."""


@dataclass(frozen=True)
class ForeignFile:
    """A file of answers that has been opened, but whose rows have not been read."""

    rows: Iterable[ForeignAnswer]
    """The rows, read when iterated."""
    in_order: bool = False
    """Whether rows have no ids and stand in the order of the data."""
    has_order: bool = True
    """Whether rows can stand in the order of the data; samples of Inspect are sorted by their ids as texts."""
    size: int | None = None
    """The number of examples in the data that the file was made from, if it states that."""
    is_raw: bool = False
    """Whether answers are the whole output of a language model, from which answers are extracted."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What the file says about how its answers were made: `model`, `task`, `version`."""


def open_foreign(path: Path, format: str, places: Places) -> ForeignFile:
    """Open a file of answers. Raises UnknownNameError for an unknown format, SubmissionError for an unreadable file."""
    reader = FORMATS[require_name(format, FORMATS, "format")]
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise SubmissionError(f"{path} is not a regular file: give a file of answers.")
    except OSError as error:
        raise SubmissionError(f"{path} cannot be read: {error.strerror or error}.") from error
    most, advice = FILE_BYTES, "split it"
    if format == "squad":
        most, advice = WHOLE_BYTES, "keep only the answer to each id"
    if size > most:
        raise SubmissionError(f"{path.name} has {size:,} bytes; at most {most:,} are read: {advice}.")
    start = _read_start(path)
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
"""The first bytes of compressed files."""


def _refuse_packed(path: Path, format: str, start: bytes) -> None:
    """Raise SubmissionError for a compressed file, unless its format is read so."""
    if format == "inspect" or (format in ("text", "lm-eval") and path.suffix in (".gz", ".zst")):
        return
    if packing := next((name for magic, name in _PACKED.items() if start.startswith(magic)), ""):
        raise SubmissionError(f"{path.name} is compressed ({packing}): unpack it first.")


def _refuse_own_form(path: Path, format: str, start: bytes) -> None:
    """Raise SubmissionError for lines such as `{"id": …, "answer": …}`, which need no import."""
    if format not in ("squad", "csv", "lm-eval") or path.suffix in (".gz", ".zst"):
        return
    line, _, rest = start.partition(b"\n")
    try:
        record = _decode(line.decode("utf-8-sig"))
    except ValueError:
        return
    if not isinstance(record, dict) or "id" not in record or "resps" in record:
        return
    if format == "squad" and not rest.strip():
        return
    key = next((key for key in ("answer", "prediction") if isinstance(record.get(key), str)), "")
    if key:
        renamed = "" if key == "answer" else f"rename the key {key!r} to 'answer', "
        raise SubmissionError(
            f"{path.name} has the lines of a submission already, and needs no import: {renamed}move it to "
            "DIR/predictions/TASK.SPLIT.jsonl, write DIR/submission.toml (see docs/submissions.md), and run decabench "
            "check DIR."
        )


_FIRST_LINE = 1 << 16


def _read_start(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_FIRST_LINE)
    except OSError as error:
        raise SubmissionError(f"{path} cannot be read: {error.strerror or error}.") from error


# SQuAD: one object, id to answer


def _open_squad(path: Path, places: Places) -> ForeignFile:
    """`{"<id>": "<answer>", …}`, which the official scorers of SQuAD 1.1 and 2.0 read."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        content = _decode(text, pairs=_Pairs)
    except OSError as error:
        raise SubmissionError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise SubmissionError(f"{path.name} is not UTF-8: save it as UTF-8.") from error
    except ValueError as error:
        raise SubmissionError(f"{path.name} is not JSON: {error}.") from error
    if not isinstance(content, _Pairs):
        raise SubmissionError(
            f"{path.name} is not a SQuAD predictions file, which is one JSON object: an answer for each question id."
        )
    return ForeignFile(_squad_rows(content))


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of a JSON object, keys that occur twice included."""


def _squad_rows(content: _Pairs) -> Iterator[ForeignAnswer]:
    for key, value in content:
        if isinstance(value, str):
            yield ForeignAnswer(None, key, value)
        else:
            message = (
                f"the answer to {quoted(key)} is {_kind(value)}, not a string: give the predictions, not the n-best "
                "list or the no-answer probabilities"
            )
            yield ForeignAnswer(None, key, problem=("non-string-answer", message))


# Tables: CSV and data frames


def _open_csv(path: Path, places: Places) -> ForeignFile:
    """Columns under a heading; fields as RFC 4180 has them, so that an answer may hold line ends."""
    return ForeignFile(_csv_rows(path, places))


def _csv_rows(path: Path, places: Places) -> Iterator[ForeignAnswer]:
    delimiter = places.delimiter or ("\t" if path.suffix == ".tsv" else ",")
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise DecabenchError(f"The delimiter is {delimiter!r}: give one character, such as a comma or a tab.")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
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
                        f"it has {len(cells)} fields and the heading {len(heading)}: put quotes around fields"
                    )
                    yield ForeignAnswer(first, problem=("bad-record", message))
    except OSError as error:
        raise SubmissionError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise SubmissionError(f"{path.name} is not UTF-8: save it as UTF-8.") from error
    except BrokenCsvError as error:
        raise SubmissionError(
            f"{path.name}:{error.first}: from here on, this is not CSV with {delimiter!r} between fields ({error}). "
            "Double each quotation mark inside a field, and put one before and after such a field."
        ) from error


class _Table:
    """The columns of a table, and how a row of it is read."""

    def __init__(self, heading: Sequence[str], places: Places, name: str) -> None:
        """Find the columns. Raises SubmissionError if one is missing or there twice.

        A table without ids needs other columns, with texts that tell the examples.
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
            problem=self._problem,
            texts=_texts(texts),
            golds=tuple(map(str, golds)),
            other_output=self._other_output,
        )


_OUTPUT = re.compile("output|response|completion|generat|predict|raw|rational|reason|explanation|thought")
"""A part of the name of a column that holds what a model wrote, and not what it was asked."""
_PREDICTED = re.compile("^(model_)?(output|response|completion|generated|predict)")
"""The beginning of the name of a column that holds answers."""
_GOLD_COLUMNS = frozenset(
    ("answer", "correct_answer", "expected", "gold", "gold_answer", "gold_label", "ground_truth", "label")
) | frozenset(("reference", "target", "truth"))
"""The names of columns that hold the right answer."""


def _texts(value: Any) -> tuple[str, ...]:
    """Return the texts in a value of JSON, each with its beginning and end if it is long."""
    found: list[str] = []
    waiting = [value]
    while waiting and len(found) < _MOST_TEXTS:
        each = waiting.pop(0)
        if hasattr(each, "tolist"):  # an array, as pandas has lists of parquet
            each = each.tolist()
        if isinstance(each, (list, tuple)) and all(
            isinstance(word, str) and " " not in word for word in each
        ):
            each = " ".join(each)  # the words of a text
        if isinstance(each, str) and each.strip():
            if each[:2] in ("[{", '{"'):  # messages of a chat, as JSON
                try:
                    waiting.insert(0, _decode(each))
                    continue
                except ValueError:
                    pass
            long = len(each) > 2 * _TEXT_ENDS
            found.append(f"{each[:_TEXT_ENDS]} {each[-_TEXT_ENDS:]}" if long else each)
        elif isinstance(each, (Mapping, list, tuple)):
            waiting[:0] = each.values() if isinstance(each, Mapping) else each
    return tuple(found)


_MOST_TEXTS, _TEXT_ENDS = 100, 5_000


def _has_prose(texts: Iterable[str]) -> bool:
    return any(len(_LETTERS.findall(text)) >= 3 for text in texts)


_LETTERS = re.compile(r"[^\W\d_]{2,}")


def _advise(heading: Sequence[str]) -> str:
    """Say what to do about columns that are not those that are wanted."""
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
            id_ = cells[table.at_id] = _as_id(given[table.at_id])
            if id_ is None:
                message = f"the id is {_kind(given[table.at_id])}: give strings or whole numbers"
                yield ForeignAnswer(number, problem=("non-string-id", message))
                continue
        if not isinstance(answer, str):
            answer = _as_number(answer) if numbers else None
        if answer is None:
            asked = "" if id_ is None else f" to {quoted(id_)}"
            message = f"the answer{asked} is {_kind(given[table.at_answer])}: give a string"
            yield ForeignAnswer(number, id_, problem=("non-string-answer", message))
        else:
            cells[table.at_answer] = answer
            yield table.row(number, cells)


def _as_id(value: Any) -> str | None:
    """Return an id as text: a string, or a whole number of any type but bool."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    return str(value.__index__())


def _as_number(value: Any) -> str | None:
    """Return a finite number of any type as text, as short as it can be read back."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if isinstance(value, bool) or number != number or number in (float("inf"), float("-inf")):
        return None
    return _as_id(value) or repr(number)


# Plain text, in the order of the data


def _open_text(path: Path, places: Places) -> ForeignFile:
    """A line for each example. Only line feeds end lines, with or without a carriage return before them."""
    return ForeignFile(_text_rows(path), in_order=True)


def _text_rows(path: Path) -> Iterator[ForeignAnswer]:
    for number, raw in _lines(path):
        try:
            line = raw.removesuffix(b"\r").decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            problem = ("bad-encoding", f"byte {error.start + 1} is not UTF-8: save the file as UTF-8")
            yield ForeignAnswer(number, problem=problem)
        else:
            yield ForeignAnswer(number, None, line)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines. Raises SubmissionError for a damaged file or a line that is too long."""
    limits = Limits(FILE_BYTES, 20_000_000, LINE_BYTES)
    try:
        with closing(numbered_lines(path, limits)) as lines:
            for number, raw in lines:
                if raw is None:
                    raise SubmissionError(
                        f"{path.name}:{number}: the line is longer than {LINE_BYTES:,} bytes."
                    )
                yield number, raw
    except BrokenFileError as error:
        raise SubmissionError(f"{path.name}:{error.line}: {error.reason}.") from error


# lm-eval: `samples_<task>_<time>.jsonl`, written with --log_samples


def _open_lm_eval(path: Path, places: Places) -> ForeignFile:
    """A line for each example and filter: `doc`, `filter`, `arguments`, `resps` and `filtered_resps`."""
    return ForeignFile(_lm_eval_rows(path, places), is_raw=True)


def _lm_eval_rows(path: Path, places: Places) -> Iterator[ForeignAnswer]:
    filters: dict[str, None] = {}
    for number, record in _lm_eval_records(path):
        if isinstance(record, ValueError):
            yield ForeignAnswer(number, problem=("bad-json", f"the line is not JSON: {record}"))
            continue
        if not isinstance(record, dict) or not isinstance(record.get("doc"), dict):
            message = "the line is not a sample of lm-eval, which has a 'doc': give a samples_*.jsonl file"
            yield ForeignAnswer(number, problem=("bad-record", message))
            continue
        name = str(record.get("filter", "none"))
        filters[name] = None
        if places.choice and name != places.choice:
            continue
        if len(filters) > 1 and not places.choice:
            listed = ", ".join(printable(each) for each in filters)
            raise SubmissionError(
                f"{path.name} has the answers of several filters ({listed}): choose one with --filter."
            )
        yield _lm_eval_row(number, record, places)
    if places.choice and places.choice not in filters:
        listed = ", ".join(printable(each) for each in filters) or "none"
        raise SubmissionError(
            f"{path.name} has no answers of the filter {quoted(places.choice)}. It has: {listed}."
        )


def _lm_eval_records(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield each sample with its number, or why it is not JSON. Up to lm-eval 0.4.2, a file is one array of them."""
    lines = _lines(path)
    for number, raw in lines:
        if not raw.strip():
            continue
        if raw.lstrip().startswith(b"["):
            content = raw + b"".join(b"\n" + line for _, line in lines)
            if len(content) > WHOLE_BYTES:
                raise SubmissionError(
                    f"{path.name} is one JSON array of {len(content):,} bytes; at most {WHOLE_BYTES:,} are read: "
                    "write each of its samples on a line."
                )
            try:
                array = _decode(content.decode())
            except ValueError as error:
                yield number, error
            else:
                yield from enumerate(array, 1)
            return
        try:
            yield number, _decode(raw.decode("utf-8-sig" if number == 1 else "utf-8"))
        except ValueError as error:  # UnicodeDecodeError is one
            yield number, error


def _lm_eval_row(number: int, record: Mapping[str, Any], places: Places) -> ForeignAnswer:
    doc, position = record["doc"], record.get("doc_id")
    id_ = _as_id(doc.get(places.id))
    problem = None
    if id_ is None:
        keys = ", ".join(quoted(str(key), 30) for key in list(doc)[:12])
        message = f"its doc has no id in {quoted(places.id)}: name the field with --id. Its fields: {keys}"
        problem = ("missing-field", message)
    requests = _requests(record.get("arguments"))
    texts = _texts([value for key, value in doc.items() if key != places.id])
    if not _has_prose(texts):
        texts += _texts([request[0] for request in requests[:1]])
    target = record.get("target")
    row = ForeignAnswer(
        number,
        id_,
        problem=problem,
        position=position if type(position) is int else None,
        texts=texts,
        golds=() if target is None else (str(target),),
    )
    kept = record.get("filtered_resps")
    first = kept[0] if isinstance(kept, list) and kept else None
    if isinstance(first, list) and len(first) == 1 and isinstance(first[0], str):
        first = first[0]  # majority_vote
    if isinstance(first, str) and len(requests[0] if requests else ("", "")) > 1:
        whole = record.get("resps")
        while isinstance(whole, list) and whole:
            whole = whole[0]
        first = "" if first == _NO_MATCH else first
        return row._replace(answer=first, raw=whole if isinstance(whole, str) and whole != first else None)
    chosen = _choose(kept, requests, record)
    if isinstance(chosen, str):
        return row._replace(problem=("non-string-answer", chosen))
    choices, best = chosen
    answer = choices[best]
    row = row._replace(answer=answer, golds=(*row.golds, *_nth(choices, target)), is_likeliest=True)
    if choices == [_letter(at) for at in range(len(choices))] and (options := _options(doc, choices)):
        row = row._replace(answer=options[best], letter=answer, golds=(*row.golds, *_nth(options, target)))
    return row


_NO_MATCH = "[invalid]"
"""What lm-eval's filters leave of a text in which they find no answer."""


def _requests(arguments: Any) -> list[Sequence[Any]]:
    """Return the arguments of each request: `{"gen_args_0": {"arg_0": …}, …}`, or earlier `[[…], …]`."""
    if isinstance(arguments, Mapping):
        arguments = [arguments.get(f"gen_args_{at}") for at in range(len(arguments))]
    if not isinstance(arguments, list):
        return []
    found: list[Sequence[Any]] = []
    for each in arguments:
        if isinstance(each, Mapping):
            each = [each.get(f"arg_{at}") for at in range(len(each))]
        found.append(each if isinstance(each, list) and each else ("",))
    return found


def _choose(
    kept: Any, requests: list[Sequence[Any]], record: Mapping[str, Any]
) -> tuple[list[str], int] | str:
    """Return the choices and which of them is the likeliest, the first of several, as lm-eval's `acc` takes it.

    If there is none, return why.
    """
    if requests and all(len(request) == 1 for request in requests):
        return (
            "its only request is the likelihood of a whole text (loglikelihood_rolling), which is no answer"
        )
    texts = [request[1].strip() for request in requests if len(request) > 1 and isinstance(request[1], str)]
    given = kept if isinstance(kept, list) else []
    scores = [score for score in map(_score, given) if score is not None]
    if not texts or not len(scores) == len(given) == len(texts) == len(requests):
        if any(isinstance(each, list) and len(each) > 1 for each in given) and not scores:
            return "it has several responses to a request: choose a filter that leaves one, with --filter"
        return "it has neither a text nor choices: only generate_until and multiple_choice are read"
    if len(texts) == 1:
        return "its only request is the likelihood of the right answer (loglikelihood), which is no answer"
    asked = [at for at, request in enumerate(requests) if request[0]] or list(range(len(requests)))
    choices = [texts[at] for at in asked]
    # acc_mutual_info asks for each choice again, without a context.
    alone = [texts[at] for at in range(len(texts)) if at not in asked]
    if len({json.dumps(requests[at][0]) for at in asked}) > 1 or alone not in ([], choices):
        return (
            "its requests have different contexts (multiple inputs), so that what follows them is no answer"
        )
    values = [scores[at] for at in asked]
    for number, value in enumerate(values, 1):
        if value != value:
            return f"the log-likelihood of its choice {number} is NaN, so that none is the likeliest"
    best = values.index(max(values))
    target = str(record.get("target"))
    if (
        target.isdecimal()
        and record.get("acc") in (0, 1)
        and (best == int(target[:9])) != bool(record["acc"])
    ):
        return (
            f"its likeliest choice is number {best} and its target number {target}, but its acc is {record['acc']}: "
            "these are requests of some other kind"
        )
    return choices, best


def _score(given: Any) -> float | None:
    """Return the log-likelihood in `[log-likelihood, is greedy]`, which lm-eval may have turned into texts."""
    if not isinstance(given, list) or len(given) != 2 or str(given[1]) not in ("True", "False"):
        return None
    try:
        return float(given[0])
    except (TypeError, ValueError):
        return None


def _options(doc: Mapping[str, Any], letters: list[str]) -> list[str]:
    """Return the only list of as many texts in a doc: what the letters stand for. Empty if there are more or none."""
    inner = [value for value in doc.values() if isinstance(value, Mapping)]
    lists = [value for values in (doc, *inner) for value in values.values() if isinstance(value, list)]
    found = [
        each
        for each in lists
        if len(each) == len(letters) and each != letters and all(isinstance(text, str) for text in each)
    ]
    return found[0] if len(found) == 1 else []


def _nth(choices: Sequence[str], target: Any) -> tuple[str, ...]:
    """Return the choice that a target names by its number, from 0."""
    number = str(target)
    return (choices[int(number)],) if number.isdecimal() and int(number[:9]) < len(choices) else ()


# Inspect: `.eval` and `.json` logs, through the package that defines them


def _open_inspect(path: Path, places: Places) -> ForeignFile:
    """The samples of a log."""
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        raise DecabenchError(f"inspect_ai is not installed: {install_hint('inspect')}.") from error
    _bound_archive(path)
    try:
        log = read_eval_log(str(path), resolve_attachments=True)
    except Exception as error:  # of many kinds, for a damaged file
        raise SubmissionError(f"{path.name} is not a log of Inspect: {_first_line(error)}.") from error
    facts = {"model": log.eval.model, "task": log.eval.task, "status": log.status}
    versions = {f"version of {name}": version for name, version in log.eval.packages.items()}
    samples = log.samples or []
    if not places.choice and any(_CHOICE in (sample.scores or {}) for sample in samples):
        places = replace(places, choice=_CHOICE)  # the completions name options by letters
    elif not places.choice and samples and all(_names_a_letter(sample) for sample in samples):
        raise SubmissionError(
            f"{path.name} has letters of options, and no scores of {_CHOICE!r}: score it first with inspect score."
        )
    if places.choice and all(_repeats_completion(sample, places.choice) for sample in samples):
        places = replace(places, choice="")  # a scorer that extracts nothing, such as model_graded_qa
    order = _dataset_order(log, samples)
    return ForeignFile(
        _inspect_rows(samples, places, path.name, order),
        has_order=bool(order),
        size=len(order) or None,
        is_raw=not places.choice,
        facts={**facts, **versions},
    )


def _dataset_order(log: Any, samples: Sequence[Any]) -> dict[str, int]:
    """Return the place of each sample in the dataset, from 0; empty if the log does not state all of them.

    Samples are sorted by their ids as texts, so that 10 comes before 2.
    """
    dataset = getattr(log.eval, "dataset", None)
    ids = list(map(str, getattr(dataset, "sample_ids", None) or ()))
    order = {id_: at for at, id_ in enumerate(ids)}
    is_whole = len(order) == len(ids) == (getattr(dataset, "samples", None) or len(ids))
    has_all = all(str(sample.id) in order for sample in samples)
    return order if is_whole and has_all and not getattr(dataset, "shuffled", False) else {}


def _names_a_letter(sample: Any) -> bool:
    return bool(sample.choices) and _LETTER.search(sample.output.completion or "") is not None


_LETTER = re.compile(r"(?i)answer\s*:\s*([a-z]|\d+)\b")


def _repeats_completion(sample: Any, scorer: str) -> bool:
    """Return whether a scorer's answer is the whole completion, or there is none."""
    answer = getattr((sample.scores or {}).get(scorer), "answer", None)
    if scorer == _CHOICE or not isinstance(answer, str):
        return scorer != _CHOICE and sample.error is not None
    return answer.strip().casefold() == (sample.output.completion or "").strip().casefold()


def _bound_archive(path: Path) -> None:
    """Raise SubmissionError for an archive that unpacks to more than is read."""
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
    except (OSError, zipfile.BadZipFile) as error:
        raise SubmissionError(f"{path.name} is damaged: {error}.") from error
    if size > FILE_BYTES:
        raise SubmissionError(f"{path.name} unpacks to {size:,} bytes; at most {FILE_BYTES:,} are read.")


def _inspect_rows(
    samples: Sequence[Any], places: Places, name: str, order: Mapping[str, int]
) -> Iterator[ForeignAnswer]:
    epochs = sorted({sample.epoch for sample in samples})
    if len(epochs) > 1 and not places.epoch:
        raise SubmissionError(f"{name} has {len(epochs)} epochs: choose one with --epoch.")
    for number, sample in enumerate(samples, 1):
        if places.epoch and sample.epoch != places.epoch:
            continue
        if sample.error is not None:
            continue  # it has no answer, which `check` reports as missing
        id_, output = str(sample.id), sample.output
        about = _inspect_texts(sample)._replace(position=order.get(id_))
        if not places.choice:
            finish = {"max_tokens": "length", "model_length": "length", "content_filter": "refused"}
            ended = finish.get(output.stop_reason, "length" if getattr(sample, "limit", None) else "stop")
            yield about._replace(line=number, id=id_, answer=output.completion, finish=ended)
            continue
        score = (sample.scores or {}).get(places.choice)
        if score is None or not isinstance(score.answer, str):
            listed = ", ".join(map(printable, sample.scores or {})) or "none"
            message = (
                f"the scorer {quoted(places.choice)} gave {quoted(id_)} no answer; it has scores of: {listed}"
            )
            yield ForeignAnswer(number, id_, problem=("missing-field", message))
        else:
            options = sample.choices or ()
            if places.choice != _CHOICE and score.answer in options:
                options = ()  # a scorer of somebody's own, which gives texts
            row = _scored_answer(number, id_, score.answer, output.completion, options)
            yield row._replace(position=about.position, texts=about.texts, golds=about.golds)


def _inspect_texts(sample: Any) -> ForeignAnswer:
    """Return a row with the texts and the right answer of a sample."""
    given = getattr(sample, "input", None) or ""
    messages = [given] if isinstance(given, str) else [getattr(each, "text", "") for each in given]
    target, options = getattr(sample, "target", None) or (), sample.choices or ()
    targets = (target,) if isinstance(target, str) else tuple(target)
    named = {_letter(at): option for at, option in enumerate(options)}
    golds = [*targets, *(named[each] for each in targets if each in named)]
    texts = _texts([*messages, *options, *targets, getattr(sample, "metadata", None) or {}])
    return ForeignAnswer(None, texts=texts, golds=tuple(golds))


_CHOICE = "choice"
"""Inspect's scorer of multiple_choice, whose answer is the letter of an option, or the letters of several."""


def _scored_answer(
    number: int, id_: str, answer: str, completion: str, options: Sequence[str]
) -> ForeignAnswer:
    """Make a row of a scorer's answer. Letters stand for the sample's options, in the order that the data has."""
    letters = {_letter(at): option for at, option in enumerate(options)}
    chosen = [letters.get(each.strip()) for each in answer.split(",")]
    if len(chosen) > 1 and None not in chosen:
        message = f"the answer to {quoted(id_)} is several options ({answer}): an answer here is one text"
        return ForeignAnswer(number, id_, problem=("bad-record", message))
    text = answer if chosen[0] is None else chosen[0]
    letter = None if chosen[0] is None else answer.strip()
    return ForeignAnswer(number, id_, text, None if completion == text else completion, letter=letter)


def _letter(at: int) -> str:
    """Return what Inspect calls an option: A to Z, then 1, 2, …"""
    return chr(ord("A") + at) if at < 26 else str(at - 25)


def _first_line(error: BaseException) -> str:
    return printable((str(error).strip() or type(error).__name__).split("\n")[0][:200]).rstrip(".")


FORMATS: dict[str, Callable[[Path, Places], ForeignFile]] = {
    "squad": _open_squad,
    "csv": _open_csv,
    "text": _open_text,
    "lm-eval": _open_lm_eval,
    "inspect": _open_inspect,
}
"""Every format by name, with the function that opens a file of it."""


# JSON


def _decode(text: str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Parse JSON of other programs, NaN and Infinity too; of a key that occurs twice, the last counts unless `pairs`.

    Raises ValueError.
    """
    try:
        return json.loads(text, object_pairs_hook=pairs)
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except ValueError as error:
        raise ValueError(re.sub(r"[;:].*", "", str(error))) from None


def _kind(value: Any) -> str:
    if value is None:
        return "missing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return f"the number {str(value)[:30]}"
    kinds: dict[type, str] = {_Pairs: "an object", list: "a list", dict: "an object", str: "a string"}
    return kinds.get(type(value), f"of the type {type(value).__name__}")
