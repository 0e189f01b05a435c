"""Files of answers: what one line may be, reading them line by line, and a digest of what they say."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import heapq
import json
import operator
import tempfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

from decabench.errors import SubmissionError
from decabench.files import Writable, parse_json
from decabench.submission.faults import WARNINGS
from decabench.submission.layout import PredictionFile
from decabench.text import excerpt, quoted

__all__ = [
    "FINISHES",
    "Answers",
    "BrokenFileError",
    "Limits",
    "Line",
    "numbered_lines",
    "predictions_digest",
    "read_answers",
    "read_details",
    "read_lines",
    "read_predictions",
    "read_records",
    "write_answers",
]

# ---- lines

CHUNK = 1 << 16
ZSTD_CHUNK = 1 << 10
"""A zstd block of 4 bytes can unpack to 128 KiB, so this many bytes at once unpack to 32 MiB at most."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a file is read, unpacked."""

    file_bytes: int = 1 << 32
    """Bytes of the file."""
    file_lines: int = 100_000_000
    """Lines, blank ones too."""
    line_bytes: int = 1 << 20
    """Bytes of one line."""


class BrokenFileError(SubmissionError):
    """A file that cannot be read to its end."""

    def __init__(self, path: Path, code: str, line: int, reason: str) -> None:
        super().__init__(f"{path.parent.name}/{path.name}:{line}: {code}: {reason}")
        self.code = code
        """A key of `decabench.submission.faults.CODES`."""
        self.line = line
        """The line at which reading stopped."""
        self.reason = reason
        """What was wrong there."""


def numbered_lines(path: Path, limits: Limits) -> Generator[tuple[int, bytes | None], None, None]:
    """Every line with its number, from 1, without the newline; None in place of one that is too long.

    Raises `BrokenFileError` where the file is damaged or passes a limit.
    """
    number, total, rest, dropping = 1, 0, b"", False
    with closing(_chunks(path)) as chunks:
        while chunk := _next_chunk(chunks, path, number):
            total += len(chunk)
            if total > limits.file_bytes:
                reason = f"the file unpacks to more than {limits.file_bytes:,} bytes"
                raise BrokenFileError(path, "too-large", number, reason)
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield number, None if dropping or len(line) > limits.line_bytes else line
                dropping = False
                number += 1
                if number > limits.file_lines:
                    reason = f"the file has more than {limits.file_lines:,} lines"
                    raise BrokenFileError(path, "too-large", number, reason)
            if len(rest) > limits.line_bytes:
                rest, dropping = b"", True
    if rest or dropping:
        yield number, None if dropping else rest


def _next_chunk(chunks: Iterator[bytes], path: Path, line: int) -> bytes:
    try:
        return next(chunks, b"")
    except Exception as error:
        raise _broken(path, line, error) from error


def _broken(path: Path, line: int, error: Exception) -> BrokenFileError:
    packing = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
        return BrokenFileError(path, "unreadable-file", line, f"it cannot be read: {error.strerror or error}")
    if packing and isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile, _ZstdDamage)):
        return BrokenFileError(
            path,
            "bad-compression",
            line,
            f"the {packing} data is damaged or cut short ({error}); pack it again",
        )
    raise error


def _chunks(path: Path) -> Generator[bytes, None, None]:
    if path.suffix == ".gz":
        with gzip.open(path, "rb") as packed:
            while chunk := packed.read1(CHUNK):
                yield chunk
    elif path.suffix == ".zst":
        yield from _zstd_chunks(path)
    else:
        with open(path, "rb") as plain:
            while chunk := plain.read(CHUNK):
                yield chunk


class _ZstdDamage(Exception):
    """zstandard's own error, or the end of the file inside a frame, which zstandard passes over."""


def _zstd_chunks(path: Path) -> Iterator[bytes]:
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    frame: zstandard.ZstdDecompressionObj | None = None
    with open(path, "rb") as packed:
        while chunk := packed.read(ZSTD_CHUNK):
            while chunk:
                current = frame = frame or decompressor.decompressobj()
                try:
                    unpacked = current.decompress(chunk)
                except zstandard.ZstdError as error:
                    raise _ZstdDamage(str(error)) from error
                chunk = b""
                if current.eof:
                    frame, chunk = None, current.unused_data
                if unpacked:
                    yield unpacked
        if frame is not None or not packed.tell():
            raise _ZstdDamage("the file ends inside a frame")


# ---- predictions

Answers = Literal["extracted", "raw"]
"""Which text of a line is meant: the extracted answer, or all that the model said, where a line has it."""

Problems = tuple[tuple[str, str], ...]

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_RUN_BYTES = 1 << 26
FINISHES = ("stop", "length", "refused")
"""Why an answer may have ended."""

_MOST = 2**53
"""Above this, many readers of JSON no longer tell whole numbers apart."""

_ENTRY_BYTES = 200
"""About what Python adds to an id and its line in a list."""


class Line(NamedTuple):
    """One line that is not blank."""

    number: int
    """From 1, blank lines counted."""
    id: str | None
    """The id, where there is a readable one."""
    answer: str | None
    """The answer, where there is a readable one."""
    problems: Problems
    """(code, message) for each thing that is wrong or odd."""
    raw: str | None = None
    """All that the model said, where that is not the answer."""
    rule: str = ""
    """How the answer was extracted: `reasoning+marker+label`; empty where nothing was."""
    finish: str = "stop"
    """Why the answer ended: `stop`, `length` (the limit of new tokens) or `refused`."""
    context_kept: tuple[int, int] | None = None
    """Which characters of the context the model was shown, [start, end); None where all."""

    def text(self, answers: Answers = "extracted") -> str:
        """What is scored."""
        return (self.raw if answers == "raw" and self.raw is not None else self.answer) or ""


def read_lines(path: Path, limits: Limits) -> Generator[Line, None, None]:
    """Every line with its problems; `BrokenFileError` where the file cannot be read further."""
    with closing(numbered_lines(path, limits)) as lines:
        for number, raw in lines:
            if raw is None:
                reason = f"the line is longer than {limits.line_bytes:,} bytes; answers are far shorter"
                yield Line(number, None, None, (("too-large", reason),))
                continue
            first: Problems = ()
            if number == 1 and raw.startswith(_UTF_16):
                raise BrokenFileError(path, "bad-encoding", 1, "the file is UTF-16; save it as UTF-8")
            if number == 1 and raw.startswith(codecs.BOM_UTF8):
                raw = raw.removeprefix(codecs.BOM_UTF8)
                first = (("byte-order-mark", "the file starts with a byte order mark; save it without"),)
            if raw.strip():
                line = _parsed(number, raw)
                yield line._replace(problems=first + line.problems) if first else line
            elif first:
                yield Line(number, None, None, first)


def read_predictions(file: PredictionFile | Path) -> Iterator[tuple[int, str, str]]:
    """(line number, id, answer) of every line, streamed; `SubmissionError` at the first fault.

    Ids that stand twice are not noticed here, for that takes memory: see `read_answers`.
    """
    return ((line.number, str(line.id), line.text()) for line in read_records(file))


def read_records(file: PredictionFile | Path) -> Iterator[Line]:
    """Every line with an id and an answer, and what it says of the answer; otherwise as `read_predictions`."""
    path = _path(file)
    with closing(read_lines(path, Limits())) as lines:
        for line in lines:
            for code, reason in line.problems:
                if code not in WARNINGS:
                    raise SubmissionError(f"{path.parent.name}/{path.name}:{line.number}: {code}: {reason}")
            if line.id is not None and line.answer is not None:
                yield line


def read_answers(file: PredictionFile | Path, answers: Answers = "extracted") -> dict[str, str]:
    """Id to answer, in the order of the file; `SubmissionError` at the first fault."""
    found: dict[str, str] = {}
    path = _path(file)
    for line in read_records(path):
        id_ = str(line.id)
        if id_ in found:
            raise SubmissionError(_twice(f"{path.parent.name}/{path.name}:{line.number}", id_))
        found[id_] = line.text(answers)
    return found


def write_answers(handle: Writable, answers: Iterable[tuple[str, str] | Mapping[str, Any]]) -> None:
    """One line for each (id, answer), or for each mapping with those keys and others; refuses what cannot be read."""
    seen: set[str] = set()
    for number, given in enumerate(answers, start=1):
        line = given if isinstance(given, Mapping) else {"id": given[0], "answer": given[1]}
        id_, answer = line["id"], line["answer"]
        place = f"Answer {number} (id {quoted(str(id_))}) was not written"
        if not isinstance(id_, str) or not isinstance(answer, str):
            raise SubmissionError(f"{place}: id and answer must both be strings.")
        if id_ in seen:
            raise SubmissionError(_twice(place, id_))
        seen.add(id_)
        try:
            raw = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        except UnicodeEncodeError as error:
            raise SubmissionError(f"{place}: bad-encoding: {_surrogate(error)}.") from error
        if len(raw) > Limits().line_bytes:
            raise SubmissionError(
                f"{place}: too-large: its line has more than {Limits().line_bytes:,} bytes."
            )
        handle.write(raw)


def predictions_digest(
    file: PredictionFile | Path, run_bytes: int = _RUN_BYTES, answers: Answers = "extracted"
) -> str:
    """`sha256:` and the digest of the answers as UTF-8 lines `["id","answer"]`, sorted by id.

    Packing, the order of lines, blank lines and further keys leave it the same. Sorts in runs of about
    `run_bytes`, kept in temporary files, so memory does not grow with the file.
    """
    digest, before = hashlib.sha256(), None
    with ExitStack() as stack:
        for id_, line in heapq.merge(*_runs(_path(file), run_bytes, stack, answers), key=itemgetter(0)):
            if id_ == before:
                raise SubmissionError(_twice(_path(file).name, id_))
            before = id_
            digest.update(line)
    return f"sha256:{digest.hexdigest()}"


def _runs(
    path: Path, run_bytes: int, stack: ExitStack, answers: Answers
) -> list[Iterable[tuple[str, bytes]]]:
    runs: list[Iterable[tuple[str, bytes]]] = []
    run: list[tuple[str, bytes]] = []
    size = 0
    for record in read_records(path):
        pair = [str(record.id), record.text(answers)]
        line = json.dumps(pair, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        run.append((pair[0], line))
        size += len(line) + _ENTRY_BYTES
        if size > run_bytes:
            runs.append(_spilled(sorted(run), stack))
            run, size = [], 0
    return [*runs, sorted(run)]


def _spilled(run: list[tuple[str, bytes]], stack: ExitStack) -> Iterator[tuple[str, bytes]]:
    handle = stack.enter_context(tempfile.TemporaryFile())
    handle.writelines(line for _, line in run)
    handle.seek(0)
    return ((json.loads(line)[0], line) for line in handle)


def _path(file: PredictionFile | Path) -> Path:
    return file.path if isinstance(file, PredictionFile) else file


def _twice(place: str, id_: str) -> str:
    return f"{place}: duplicate-id: the id {quoted(id_)} stands twice; keep one answer for it."


def _parsed(number: int, raw: bytes) -> Line:
    try:
        value = parse_json(raw.decode())
    except UnicodeDecodeError as error:
        reason = f"byte {error.start + 1} of the line is not UTF-8; save the file as UTF-8"
        return Line(number, None, None, (("bad-encoding", reason),))
    except ValueError as error:
        return Line(number, None, None, (("bad-json", f"the line is not JSON: {error}"),))
    if not isinstance(value, dict):
        reason = f'the line is {_kind(value)}; write an object: {{"id": "...", "answer": "..."}}'
        return Line(number, None, None, (("not-an-object", reason),))
    problems: list[tuple[str, str]] = []
    id_ = _field(value, "id", "non-string-id", problems)
    answer = _field(value, "answer", "non-string-answer", problems)
    if answer is not None and not answer.strip():
        problems.append(("empty-answer", f"the answer to {quoted(id_ or '?')} is empty"))
    told = _told(value, problems)
    return Line(number, id_, answer, tuple(problems), **told)


def _told(value: dict[str, Any], problems: list[tuple[str, str]]) -> dict[str, Any]:
    """What a line says of its answer, as far as it says it rightly."""
    told: dict[str, Any] = {}
    for key in ("raw", "rule"):
        if key in value and (text := _field(value, key, "bad-record", problems)) is not None:
            told[key] = text
    details, faults = read_details({key: value[key] for key in ("finish", "context_kept") if key in value})
    problems += (("bad-record", fault) for fault in faults)
    return told | details


def read_details(record: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Validate what a record says of an answer beside its text; return what is valid, and a sentence on each fault.

    The keys are `finish`, `context_kept`, `prompt_tokens` and `completion_tokens`; each may be left out. Whole numbers
    of any type, numpy's included, become ints.
    """
    details: dict[str, Any] = {}
    faults = []
    for key, (read, advice) in _DETAILS.items():
        if key in record:
            value = read(record[key])
            if value is None:
                faults.append(f"{key} is {excerpt(repr(record[key]), 60)}; {advice}")
            else:
                details[key] = value
    return details, faults


def _finish(value: Any) -> str | None:
    return value if isinstance(value, str) and value in FINISHES else None


def _span(value: Any) -> tuple[int, int] | None:
    """[start, end) of some text."""
    ends = [_count(end) for end in value] if isinstance(value, (list, tuple)) else []
    match ends:
        case [int(start), int(end)] if start <= end:
            return start, end
    return None


def _count(value: Any) -> int | None:
    """A whole number from 0."""
    try:
        count = -1 if isinstance(value, bool) else int(operator.index(value))
    except TypeError:
        return None
    return count if 0 <= count <= _MOST else None


_DETAILS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "finish": (_finish, f"use one of {', '.join(FINISHES)}"),
    "context_kept": (_span, "write the first and the last character that were kept: [0, 1234]"),
    "prompt_tokens": (_count, "write a whole number"),
    "completion_tokens": (_count, "write a whole number"),
}


def _field(value: dict[str, Any], key: str, code: str, problems: list[tuple[str, str]]) -> str | None:
    if key not in value:
        keys = ", ".join(quoted(other, 30) for other in list(value)[:5]) or "none"
        problems.append(("missing-field", f"the line has no {key!r}; its keys: {keys}"))
        return None
    text = value[key]
    if not isinstance(text, str):
        problems.append((code, f"the {key} is {_kind(text)}; write a string in quotes"))
        return None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        problems.append(("bad-encoding", f"the {key} has {_surrogate(error)}"))
        return None
    return text


def _surrogate(error: UnicodeEncodeError) -> str:
    return f"half of a surrogate pair (\\u{ord(error.object[error.start]):04x}), which is no character"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return "a number"
    kinds: dict[type, str] = {str: "a string", list: "a list", dict: "an object"}
    return kinds[type(value)]
