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
from decabench.files import require_machine
from decabench.submission import BrokenFileError, Limits, numbered_lines
from decabench.text import printable, quoted
from decabench.untrusted import BrokenCsvError, csv_rows

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
        require_machine(error, path)
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
        require_machine(error, path)
        raise SubmissionError(f"{path} cannot be read: {error.strerror or error}.") from error


# SQuAD: one object, id to answer


def _open_squad(path: Path, places: Places) -> ForeignFile:
    """`{"<id>": "<answer>", …}`, which the official scorers of SQuAD 1.1 and 2.0 read."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        content = _decode(text, pairs=_Pairs)
    except OSError as error:
        require_machine(error, path)
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
            at_id, at_answer = _columns_at(heading, places, path.name)
            for _, line, cells in rows:
                if len(cells) == len(heading):
                    yield ForeignAnswer(line, cells[at_id], cells[at_answer])
                elif cells:
                    message = (
                        f"it has {len(cells)} fields and the heading {len(heading)}: put quotes around fields"
                    )
                    yield ForeignAnswer(line, problem=("bad-record", message))
    except OSError as error:
        require_machine(error, path)
        raise SubmissionError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise SubmissionError(f"{path.name} is not UTF-8: save it as UTF-8.") from error
    except BrokenCsvError as error:
        at = f"{path.name}:{error.last}"
        raise SubmissionError(f"{at}: this is not CSV with {delimiter!r} between fields: {error}.") from error


def _columns_at(heading: Sequence[str], places: Places, name: str) -> tuple[int, int]:
    """Return where the two columns are. Raises SubmissionError if one is missing or there twice."""
    faults = []
    for column, option in ((places.id, "--id"), (places.answer, "--answer")):
        if (count := list(heading).count(column)) != 1:
            faults.append(f"{f'{count} columns' if count else 'no column'} {quoted(column)} ({option})")
    if not heading:
        raise SubmissionError(f"{name} is empty: its first line must name the columns, such as id,answer.")
    if faults:
        listed = ", ".join(quoted(each, 30) for each in heading[:12])
        sentence = f"{name} has {' and '.join(faults)}. Its columns: {listed}.{_advise(heading)}"
        raise HeadingError(sentence, tuple(heading))
    return list(heading).index(places.id), list(heading).index(places.answer)


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
    _columns_at(heading, places, "The table")
    ids, answers = list(frame[places.id]), list(frame[places.answer])
    return ForeignFile(_frame_rows(ids, answers, numbers))


def _frame_rows(ids: Sequence[Any], answers: Sequence[Any], numbers: bool) -> Iterator[ForeignAnswer]:
    for row, (given, answer) in enumerate(zip_longest(ids, answers), 1):
        id_ = _as_id(given)
        if id_ is None:
            problem = ("non-string-id", f"the id is {_kind(given)}: give strings or whole numbers")
        elif isinstance(answer, str):
            yield ForeignAnswer(row, id_, answer)
            continue
        elif numbers and (number := _as_number(answer)) is not None:
            yield ForeignAnswer(row, id_, number)
            continue
        else:
            problem = ("non-string-answer", f"the answer to {quoted(id_)} is {_kind(answer)}: give a string")
        yield ForeignAnswer(row, id_, problem=problem)


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
    for number, raw in _lines(path):
        if not raw.strip():
            continue
        try:
            record = _decode(raw.decode("utf-8"))
        except ValueError as error:  # UnicodeDecodeError is one
            yield ForeignAnswer(number, problem=("bad-json", f"the line is not JSON: {error}"))
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


def _lm_eval_row(number: int, record: Mapping[str, Any], places: Places) -> ForeignAnswer:
    doc, position = record["doc"], record.get("doc_id")
    position = position if type(position) is int else None
    id_ = _as_id(doc.get(places.id))
    problem = None
    if id_ is None:
        keys = ", ".join(quoted(str(key), 30) for key in list(doc)[:12])
        message = f"its doc has no id in {quoted(places.id)}: name the field with --id. Its fields: {keys}"
        problem = ("missing-field", message)
    kept = record.get("filtered_resps")
    first = kept[0] if isinstance(kept, list) and kept else None
    raw = None
    if isinstance(first, str):
        whole = record.get("resps")
        while isinstance(whole, list) and whole:
            whole = whole[0]
        raw = whole if isinstance(whole, str) and whole != first else None
    elif (first := _best_choice(kept, record.get("arguments"))) is None:
        message = "it has neither a text nor choices: only generate_until and multiple_choice are read"
        problem = ("non-string-answer", message)
    return ForeignAnswer(number, id_, first, raw, problem=problem, position=position)


def _best_choice(scores: Any, arguments: Any) -> str | None:
    """Return the continuation with the highest log-likelihood, the first of several, as lm-eval's `acc` takes it."""
    if not isinstance(scores, list) or not isinstance(arguments, dict) or len(scores) != len(arguments):
        return None
    best: tuple[float, str] | None = None
    for at, score in enumerate(scores):
        given = arguments.get(f"gen_args_{at}")
        text = given.get("arg_1") if isinstance(given, dict) else None
        try:
            value = float(score[0])
        except (TypeError, ValueError, LookupError):
            return None
        if not isinstance(text, str) or value != value:
            return None
        if best is None or value > best[0]:
            best = value, text.strip()
    return best[1] if best else None


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
    return ForeignFile(
        _inspect_rows(samples, places, path.name),
        is_raw=not places.choice,
        facts={**facts, **versions},
    )


def _bound_archive(path: Path) -> None:
    """Raise SubmissionError for an archive that unpacks to more than is read."""
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
    except (OSError, zipfile.BadZipFile) as error:
        require_machine(error, path)
        raise SubmissionError(f"{path.name} is damaged: {error}.") from error
    if size > FILE_BYTES:
        raise SubmissionError(f"{path.name} unpacks to {size:,} bytes; at most {FILE_BYTES:,} are read.")


def _inspect_rows(samples: Sequence[Any], places: Places, name: str) -> Iterator[ForeignAnswer]:
    epochs = sorted({sample.epoch for sample in samples})
    if len(epochs) > 1 and not places.epoch:
        raise SubmissionError(f"{name} has {len(epochs)} epochs: choose one with --epoch.")
    for number, sample in enumerate(samples, 1):
        if places.epoch and sample.epoch != places.epoch:
            continue
        if sample.error is not None:
            continue  # it has no answer, which `check` reports as missing
        id_, output = str(sample.id), sample.output
        if not places.choice:
            finish = {"max_tokens": "length", "model_length": "length", "content_filter": "refused"}
            yield ForeignAnswer(number, id_, output.completion, finish=finish.get(output.stop_reason, "stop"))
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
            yield _scored_answer(number, id_, score.answer, output.completion, options)


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
    return ForeignAnswer(number, id_, text, None if completion == text else completion)


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
    """Parse JSON of other programs, which may write NaN; of a key that occurs twice, the last counts unless `pairs`.

    Raises ValueError.
    """
    try:
        return json.loads(text, parse_constant=lambda name: None, object_pairs_hook=pairs)
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
