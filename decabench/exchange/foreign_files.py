"""Open another program's file of answers: SQuAD predictions, CSV, plain text, lm-eval samples, Inspect logs.

Each reader yields a row for everything that the file holds, faulty or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from decabench.errors import SubmissionError, require_name
from decabench.exchange.foreign_rows import (
    FILE_BYTES,
    WHOLE_BYTES,
    ForeignAnswer,
    ForeignFile,
    Places,
    decode_json,
    kind_of,
    lines_of,
    reading,
)
from decabench.exchange.foreign_tables import open_csv
from decabench.exchange.inspect_logs import open_inspect
from decabench.exchange.lm_eval_samples import open_lm_eval
from decabench.text import quoted

__all__ = ["FORMATS", "open_foreign"]


def open_foreign(path: Path, format: str, places: Places) -> ForeignFile:
    """Open a file of answers. Raises UnknownNameError for an unknown format, SubmissionError for an unreadable file."""
    reader = FORMATS[require_name(format, FORMATS, "format")]
    with reading(path):
        size = path.stat().st_size
        if not path.is_file():
            raise SubmissionError(f"{path} is not a regular file: give a file of answers.")
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
        record = decode_json(line.decode("utf-8-sig"))
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
    with reading(path), path.open("rb") as file:
        return file.read(_FIRST_LINE)


# SQuAD: one object, id to answer


def _open_squad(path: Path, places: Places) -> ForeignFile:
    """`{"<id>": "<answer>", …}`, which the official scorers of SQuAD 1.1 and 2.0 read."""
    with reading(path):
        text = path.read_bytes().decode("utf-8-sig")
    try:
        content = decode_json(text, pairs=_Pairs)
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
            given = {} if isinstance(value, _Pairs) else value
            message = (
                f"the answer to {quoted(key)} is {kind_of(given)}, not a string: give the predictions, not the n-best "
                "list or the no-answer probabilities"
            )
            yield ForeignAnswer(None, key, problem=("non-string-answer", message))


# Plain text, in the order of the data


def _open_text(path: Path, places: Places) -> ForeignFile:
    """A line for each example. Only line feeds end lines, with or without a carriage return before them."""
    return ForeignFile(_text_rows(path), in_order=True)


def _text_rows(path: Path) -> Iterator[ForeignAnswer]:
    for number, raw in lines_of(path):
        try:
            line = raw.removesuffix(b"\r").decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            problem = ("bad-encoding", f"byte {error.start + 1} is not UTF-8: save the file as UTF-8")
            yield ForeignAnswer(number, problem=problem)
        else:
            yield ForeignAnswer(number, None, line)


FORMATS: dict[str, Callable[[Path, Places], ForeignFile]] = {
    "squad": _open_squad,
    "csv": open_csv,
    "text": _open_text,
    "lm-eval": open_lm_eval,
    "inspect": open_inspect,
}
"""Every format by name, with the function that opens a file of it."""
