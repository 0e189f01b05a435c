"""Read answer files line by line, and check them against the ids of a split.

Each line is an object with an id and an answer, {"id": "...", "answer": "..."}. Files may be compressed (.gz, .zst).
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import operator
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from decabench.errors import SubmissionError
from decabench.files import import_zstd, require_machine
from decabench.metrics import REFUSED
from decabench.submission.faults import KEPT, WARNINGS, Fault, FileCount
from decabench.text import excerpt, kind_of, printable, quoted, well_formed
from decabench.untrusted import parse_json

FOLDER = "predictions"
"""The folder for answer files."""

VARIANTS = "variants"
"""The folder for answers to other wordings of the questions: `variants/<K>/predictions/`, K from 1."""


def predictions_folder(variant: int = 0) -> str:
    """Return the folder for answers to the given wording of the questions."""
    return f"{VARIANTS}/{variant}/{FOLDER}" if variant else FOLDER


@dataclass(frozen=True, slots=True)
class PredictionFile:
    """A submission's answers to one split of one task."""

    path: Path
    """The path of the file. In an archive, it is only valid while the submission is open."""
    task: str
    """The name of the task, taken from the file name."""
    split: str
    """The split: `train`, `validation` or `test`."""
    variant: int = 0
    """The wording of the questions; 0 is the dataset's own."""

    @property
    def name(self) -> str:
        """The file's path in the submission, for messages."""
        return f"{predictions_folder(self.variant)}/{printable(self.path.name)}"


# From bytes to lines. Files are untrusted and may be compressed, so everything has a limit.


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for reading an answer file. They apply to the decompressed content."""

    file_bytes: int = 1 << 32
    """The maximum number of bytes in the file."""
    file_lines: int = 100_000_000
    """The maximum number of lines in the file, including blank lines."""
    line_bytes: int = 1 << 20
    """The maximum number of bytes in a line."""


_LIMITS = Limits()


class BrokenFileError(SubmissionError):
    """Raised if a file can't be read to the end."""

    def __init__(self, path: Path, code: str, line: int, reason: str) -> None:
        super().__init__(f"{path.parent.name}/{path.name}:{line}: {code}: {reason}")
        self.code = code
        """A key of `decabench.submission.faults.CODES`."""
        self.line = line
        """The line at which reading stopped."""
        self.reason = reason
        """A description of the fault."""


def numbered_lines(path: Path, limits: Limits) -> Generator[tuple[int, bytes | None], None, None]:
    """Yield the number and content of each line, counting from 1, with None for a line that is too long.

    Raises BrokenFileError if the file is damaged or exceeds a limit.
    """
    number = total = 0
    try:
        with _open(path) as file:
            while line := file.readline(limits.line_bytes + 1):
                number, total = number + 1, total + len(line)
                if number == 1 and (
                    suffix := next((each for each in _MAGIC if line.startswith(_MAGIC[each])), "")
                ):
                    reason = f"the file is compressed, but its name does not end in {suffix}; rename the file"
                    raise BrokenFileError(path, "bad-compression", 1, reason)
                if number > limits.file_lines:
                    reason = (
                        f"the file has more than {limits.file_lines:,} lines; write one line for each example"
                    )
                    raise BrokenFileError(path, "too-large", number, reason)
                is_long = len(line) > limits.line_bytes and not line.endswith(b"\n")
                rest = line if is_long else b""
                while rest and not rest.endswith(b"\n") and total <= limits.file_bytes:
                    rest = file.readline(limits.line_bytes)
                    total += len(rest)
                if total > limits.file_bytes:
                    size = "unpacks to" if path.suffix in _MAGIC else "has"
                    reason = f"the file {size} more than {limits.file_bytes:,} bytes; shorten the answers"
                    raise BrokenFileError(path, "too-large", number, reason)
                yield number, None if is_long else line.removesuffix(b"\n")
    except BrokenFileError:
        raise
    except Exception as error:
        raise _broken(path, number + 1, error) from error


_MAGIC = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd"}
"""The first bytes of compressed files, by suffix."""


def _broken(path: Path, line: int, error: Exception) -> Exception:
    require_machine(error, path)
    packing = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
        return BrokenFileError(path, "unreadable-file", line, f"it can't be read: {error.strerror or error}")
    if packing and isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile, import_zstd().ZstdError)):
        with open(path, "rb") as file:
            is_packed = file.read(4).startswith(_MAGIC[path.suffix])
        reason = f"the {packing} data is damaged or truncated ({error}); compress the file again"
        if not is_packed:
            reason = f"the file is not compressed; remove {path.suffix} from its name"
        return BrokenFileError(path, "bad-compression", line, reason)
    return error


def _open(path: Path) -> Any:
    if path.suffix == ".gz":
        return gzip.open(path, "rb")
    if path.suffix == ".zst":
        zstd = import_zstd()
        return zstd.open(path, "rb", options={zstd.DecompressionParameter.window_log_max: 27})
    return open(path, "rb")


# From lines to records

AnswerKind = Literal["extracted", "raw"]
"""The text of a line to use: the extracted answer, or the model's raw output if the line has it."""

FINISHES = ("stop", "length", "refused")
"""The reasons why an answer ends: the model finished it, reached the limit of new tokens, or refused to answer."""

Problems = tuple[tuple[str, str], ...]


class AnswerLine(NamedTuple):
    """A line of an answer file."""

    number: int
    """The line number, from 1, counting blank lines."""
    id: str | None
    """The id; None if it is missing or invalid."""
    answer: str | None
    """The answer; None if it is missing or invalid."""
    problems: Problems = ()
    """The (code, message) of each fault and warning."""
    raw: str | None = None
    """The model's raw output, if it differs from the answer."""
    rule: str = ""
    """The rules that extracted the answer, such as `reasoning+marker+label`; empty if it was not extracted."""
    finish: str = "stop"
    """The reason why the answer ended, from `FINISHES`."""
    context_kept: tuple[int, int] | None = None
    """The part of the context that the model was shown, as character offsets [start, end); None for
    the whole context.
    """
    probabilities: Mapping[str, float] | None = None
    """The probability of each label, if the model chose among labels by their likelihood."""
    samples: tuple[str | None, ...] = ()
    """Additional sampled answers to the same question, with None for a refusal."""
    reasoning: str | None = None
    """The model's reasoning, if the model returned it separately from the answer."""

    def text(self, kind: AnswerKind = "extracted") -> str:
        """Return the text to score."""
        return (self.raw if kind == "raw" and self.raw is not None else self.answer) or ""


class _PlainLine(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    id: str
    answer: str


_PLAIN = msgspec.json.Decoder(_PlainLine)

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_lines(path: Path, limits: Limits = _LIMITS) -> Generator[AnswerLine, None, None]:
    """Yield the lines of a file with their problems. Raises BrokenFileError if it can't be read to the end."""
    is_first = True
    with closing(numbered_lines(path, limits)) as lines:
        for number, raw in lines:
            if raw and (line := _parse_plain(number, raw)):
                is_first = False
                yield line
                continue
            if raw is None:
                reason = f"the line is longer than {limits.line_bytes:,} bytes; shorten the line"
                yield AnswerLine(number, None, None, (("too-large", reason),))
                continue
            first: Problems = ()
            if number == 1 and raw.startswith(_UTF_16):
                raise BrokenFileError(path, "bad-encoding", 1, "the file is UTF-16; save it as UTF-8")
            if number == 1 and raw.startswith(codecs.BOM_UTF8):
                raw = raw.removeprefix(codecs.BOM_UTF8)
                first = (
                    (
                        "byte-order-mark",
                        "the file starts with a byte order mark; save it as UTF-8 without a byte order mark",
                    ),
                )
            if raw.strip():
                if is_first and (reason := _describe_whole(raw)):
                    raise BrokenFileError(path, "bad-json", number, reason)
                is_first = False
                line = _parse_line(number, raw)
                yield line._replace(problems=first + line.problems) if first else line
            elif first:
                yield AnswerLine(number, None, None, first)


def _describe_whole(raw: bytes) -> str:
    start = raw.strip()
    if start == b"[" or re.match(rb"\[\s*\{", start):
        return (
            "this looks like a JSON array; decabench reads one object per line, so write each "
            "object on its own line"
        )
    if start == b"{":
        return (
            "this looks like a JSON object spread over several lines; decabench reads one object per "
            'line, such as {"id": "…", "answer": "…"}. If its keys are ids, use decabench import squad'
        )
    if _maps_ids(raw):
        return (
            "this looks like one JSON object that maps ids to answers; decabench reads one object per line, so "
            "convert it with decabench import squad"
        )
    if re.match(rb"\"?id\"?[,\t]", start):
        return "this looks like CSV; decabench reads one JSON object per line, so convert it with decabench import csv"
    return ""


def _maps_ids(raw: bytes) -> bool:
    try:
        record = parse_json(raw.decode())
    except ValueError:
        return False
    return (
        isinstance(record, dict)
        and len(record) >= _MANY_KEYS
        and not record.keys() & {"id", "answer"}
        and all(isinstance(value, str) for value in record.values())
    )


_MANY_KEYS = 10
"""The number of keys from which an object without 'id' and 'answer' is taken for a map of ids to answers."""


def _parse_plain(number: int, raw: bytes) -> AnswerLine | None:
    """Parse a typical line, with only an id and an answer, five times as fast as `_parse_line`.

    Returns None for other lines and for blank answers."""
    if raw.count(b'"') != 8:  # a line with another key, a repeated key or an escaped quotation mark has more
        return None
    try:
        plain = _PLAIN.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    is_blank = not plain.answer or plain.answer.isspace()
    return None if is_blank else AnswerLine(number, plain.id, plain.answer)


def _parse_line(number: int, raw: bytes) -> AnswerLine:
    try:
        record = parse_json(raw.decode(), surrogates=True)
    except UnicodeDecodeError as error:
        reason = f"byte {error.start + 1} of the line is not UTF-8; save the file as UTF-8"
        return AnswerLine(number, None, None, (("bad-encoding", reason),))
    except ValueError as error:
        reason = f"the line is not JSON: {error}"
        if not raw.lstrip().startswith((b"{", b"[")):
            reason = (
                'the line is not a JSON object such as {"id": "…", "answer": "…"}; to convert plain text or a table, '
                "use decabench import"
            )
        elif raw.rstrip().endswith(b"},"):
            reason = "the line ends in a comma after its JSON object; remove the comma"
        return AnswerLine(number, None, None, (("bad-json", reason),))
    if not isinstance(record, dict):
        reason = f'the line must be an object, but is {kind_of(record, "null")}; write {{"id": "...", "answer": "..."}}'
        return AnswerLine(number, None, None, (("not-an-object", reason),))
    problems: list[tuple[str, str]] = []
    absent = [key for key in ("id", "answer") if key not in record]
    if absent:
        keys = ", ".join(quoted(other, 30) for other in list(record)[:5]) or "none"
        keys += f" and {len(record) - 5} more" if len(record) > 5 else ""
        none_of = " and no ".join(map(repr, absent))
        problems.append(("missing-field", f"the line has no {none_of}, only these keys: {keys}"))
    id_ = _read_text(record, "id", "non-string-id", problems) if "id" in record else None
    answer = _read_text(record, "answer", "non-string-answer", problems) if "answer" in record else None
    if answer is not None and not answer.strip():
        problems.append(("empty-answer", f"the answer to {quoted(id_ or '?')} is empty"))
    other = record.get("prediction")
    if answer and isinstance(other, str) and answer.casefold() not in other.casefold():
        reason = "the line has an 'answer' and a different 'prediction', but only the 'answer' is scored"
        problems.append(("answer-format", f"{reason}; put the model's answer into 'answer'"))
    texts: dict[str, Any] = {
        key: text
        for key in ("raw", "rule")
        if key in record and (text := _read_text(record, key, "bad-record", problems)) is not None
    }
    details, faults = read_details({key: record[key] for key in ("finish", "context_kept") if key in record})
    problems += (("bad-record", fault) for fault in faults)
    probabilities = _read_probabilities(record["choices"]) if "choices" in record else None
    samples = record.get("samples", [])
    if not isinstance(samples, list) or not all(
        each is None or (isinstance(each, str) and well_formed(each) == each) for each in samples
    ):
        problems.append(
            ("bad-record", "'samples' must be a list of strings, with null for each refused answer")
        )
        samples = []
    reasoning = record.get("reasoning")
    return AnswerLine(
        number,
        id_,
        answer,
        tuple(problems),
        **texts,
        **details,
        probabilities=probabilities,
        samples=tuple(samples),
        reasoning=well_formed(reasoning) if isinstance(reasoning, str) else None,
    )


def _read_probabilities(choices: Any) -> dict[str, float] | None:
    """Return the probability of each label, or None if any probability is missing or invalid.

    Invalid probabilities are not faults, because scores don't depend on them.
    """
    rows = choices.items() if isinstance(choices, dict) else ()
    found = {
        label: row["probability"]
        for label, row in rows
        if isinstance(row, dict)
        and isinstance(row.get("probability"), int | float)
        and 0 <= row["probability"] <= 1
    }
    return found if found and len(found) == len(rows) else None


def _read_text(record: dict[str, Any], key: str, code: str, problems: list[tuple[str, str]]) -> str | None:
    text = record[key]
    if not isinstance(text, str):
        problems.append((code, f"{key!r} must be a string in quotes, but is {kind_of(text, 'null')}"))
        return None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        problems.append(("bad-encoding", f"the {key} has {describe_surrogate(error)}"))
        return None
    return text


def describe_surrogate(error: UnicodeEncodeError) -> str:
    """Return a phrase that describes an unpaired surrogate, which can't be encoded."""
    return f"half of a surrogate pair (\\u{ord(error.object[error.start]):04x}), which is not a character"


def read_details(record: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Validate the optional fields of a record, and return the valid fields and a description of each fault.

    The fields are `finish`, `context_kept`, `prompt_tokens` and `completion_tokens`.
    """
    details: dict[str, Any] = {}
    faults = []
    for key, (read, wanted) in _DETAILS.items():
        if key in record:
            value = read(record[key])
            if value is None:
                faults.append(f"{key!r} must be {wanted}, but is {excerpt(repr(record[key]), 60)}")
            else:
                details[key] = value
    return details, faults


def _read_finish(value: Any) -> str | None:
    return value if isinstance(value, str) and value in FINISHES else None


def _read_span(value: Any) -> tuple[int, int] | None:
    ends = [_read_count(end) for end in value] if isinstance(value, (list, tuple)) else []
    match ends:
        case [int(start), int(end)] if start <= end:
            return start, end
    return None


def _read_count(value: Any) -> int | None:
    try:
        count = -1 if isinstance(value, bool) else int(operator.index(value))
    except TypeError:
        return None
    return count if 0 <= count <= _MOST else None


_MOST = 2**53
"""The largest valid count or character offset. Many JSON parsers round larger integers."""

_DETAILS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "finish": (_read_finish, f"one of {', '.join(FINISHES)}"),
    "context_kept": (_read_span, "the start and end of the part that was kept, such as [0, 1234]"),
    "prompt_tokens": (_read_count, "a whole number"),
    "completion_tokens": (_read_count, "a whole number"),
}


# Checking records against the ids of a split


@dataclass(frozen=True)
class Marks:
    """The entries in submission.toml for a file that doesn't answer every example; see `SubmissionInfo`."""

    partial: Mapping[str, Any] | None = None
    """The entry for a limited run."""
    incomplete: Mapping[str, Any] | None = None
    """The entry for a run with failures."""


Ids = Sequence[str] | AbstractSet[str]

_ANSWER_BYTES = 1 << 16
"""The number of bytes allowed for each id. A file may have `_SLACK_BYTES` more."""
_SLACK_BYTES = 1 << 20
"""The number of bytes by which a file may exceed `_ANSWER_BYTES` times the number of ids."""
_UNKNOWN_IDS = Limits(file_bytes=1 << 28, file_lines=10_000_000)
"""Limits for files of splits whose ids are unknown. All ids in such a file are kept in memory."""
_UNMARKED = Marks()


_FEW_IDS = 5
"""The minimum number of unknown ids for which a file is reported as containing answers for other data."""

_ID_FAULTS = ("unknown-id", "missing-id")
"""The codes of faults that `other-ids` replaces if the answers are for other data."""


def describe_other_form(id_: str, known: Container[str]) -> str:
    """Explain that an id differs from a known id only in spaces, in case or in its Unicode normalization.

    Returns an empty string if there is no such known id.
    """
    if (same := id_.strip()) != id_ and same in known:
        return f"the id {quoted(id_)} has spaces around it; write {quoted(same)}, as in the data"
    if (same := id_.lower()) != id_ and same in known:
        return f"the id {quoted(id_)} differs from {quoted(same)} only in case; write the id as in the data"
    if id_.isascii():
        return ""
    forms: tuple[tuple[Literal["NFC", "NFD"], str], ...] = (("NFC", "NFD"), ("NFD", "NFC"))
    for form, other in forms:
        if (same := unicodedata.normalize(form, id_)) != id_ and same in known:
            return (
                f"the id {quoted(id_)} differs from an id in the data only in its Unicode form ({other} "
                f"instead of {form}); write the id as in the data"
            )
    return ""


class AnswerReader:
    """A reader that checks every line of an answer file against the ids of its split.

    Iterating yields the lines that answer an example. Afterwards, `faults` contains the first 20 faults of each code,
    and `unlisted` counts the other faults. If most ids are unknown, a single fault `other-ids` replaces all unknown and
    missing ids.
    """

    def __init__(self, file: PredictionFile, ids: Ids | None, marks: Marks = _UNMARKED) -> None:
        self.file = file
        self.marks = marks
        self.faults: list[Fault] = []
        self.unlisted: Counter[tuple[str, str]] = Counter()
        self._counts: Counter[str] = Counter()
        self._known = ids is not None
        # If the ids are known, no other ids are added, so that a large file can't use up memory.
        self._seen: dict[str, int] = dict.fromkeys(
            sorted(ids) if isinstance(ids, AbstractSet) else ids or (), 0
        )
        self._lines = 0
        self._answers = 0
        self._first_unknown = ""

    def __iter__(self) -> Iterator[AnswerLine]:
        limits = Limits(_SLACK_BYTES + len(self._seen) * _ANSWER_BYTES, 100_000 + len(self._seen) * 10)
        if not self._known:
            split = f"{self.file.task}.{self.file.split}"
            self._note(
                "no-data",
                f"the ids of {split} are unknown; prepare the data, or specify an id list with --ids",
            )
            limits = _UNKNOWN_IDS
        try:
            with closing(read_lines(self.file.path, limits)) as lines:
                seen = self._seen
                for line in lines:
                    self._lines += 1
                    for code, message in line.problems:
                        self._note(code, message, line.number)
                    if line.id is not None and seen.get(line.id) == 0:  # the first line with this id
                        seen[line.id] = line.number
                    elif not self._is_new(line):
                        continue
                    if line.answer is not None:
                        self._answers += 1
                        yield line
        except BrokenFileError as error:
            self._note(error.code, f"{error.reason}; reading stopped there", error.line)
        else:
            self._check_complete()
        if sentence := self._describe_other_ids():
            self.faults = [fault for fault in self.faults if fault.code not in _ID_FAULTS]
            self.faults.insert(0, Fault("other-ids", sentence, self.file.name))
            self._counts["other-ids"] = 1
            for code in _ID_FAULTS:
                del self._counts[code], self.unlisted[self.file.name, code]

    @property
    def count(self) -> FileCount:
        """The counts of lines and answers, which are complete when all lines have been read."""
        return FileCount(
            file=self.file.name,
            task=self.file.task,
            split=self.file.split,
            lines=self._lines,
            answers=self._answers,
            expected=len(self._seen) if self._known else None,
            empty=self._counts["empty-answer"],
        )

    @property
    def fault_count(self) -> int:
        """The number of faults, including faults that are not listed in `faults`. Warnings are not counted."""
        return sum(count for code, count in self._counts.items() if code not in WARNINGS)

    @property
    def reason(self) -> str:
        """The most important fault: a failed run, or else the first of `faults`. Empty if there are none."""
        faults = [fault for fault in self.faults if fault.code not in WARNINGS]
        for fault in faults:
            if fault.code == "incomplete":
                return f"{fault.code}: {fault.message}"
        return str(faults[0]) if faults else ""

    def _note(self, code: str, message: str, line: int | None = None) -> None:
        self._counts[code] += 1
        if self._counts[code] <= KEPT:
            self.faults.append(Fault(code, message, self.file.name, line))
        else:
            self.unlisted[self.file.name, code] += 1

    def _is_new(self, line: AnswerLine) -> bool:
        if line.id is None:
            return False
        before = self._seen.get(line.id)
        if before:
            message = f"the id {quoted(line.id)} is also on line {before}; keep only one answer"
            self._note("duplicate-id", message, line.number)
        elif before is None and self._known:
            self._first_unknown = self._first_unknown or line.id
            message = (
                describe_other_form(line.id, self._seen)
                or f"the split has no example {quoted(line.id)}; remove the line, or name the file after the right "
                "split"
            )
            self._note("unknown-id", message, line.number)
        else:
            self._seen[line.id] = line.number
            return True
        return False

    def _describe_other_ids(self) -> str:
        """Explain that the answers are for other data if most ids are unknown. Returns an empty string otherwise."""
        unknown = self._counts["unknown-id"]
        if unknown < _FEW_IDS or 2 * unknown <= self.count.lines:
            return ""
        expected = next(iter(self._seen), "")
        if form := describe_other_form(self._first_unknown, self._seen):
            return f"{unknown:,} of {self.count.lines:,} ids are not in the data; for example, {form}"
        like = (
            f" (expected ids such as {quoted(expected)}, but got {quoted(self._first_unknown)})"
            if expected
            else ""
        )
        advice = (
            "line numbers are not ids; if the answers are in the order of the data, use decabench import text"
            if self._first_unknown.isdecimal() and not expected.isdecimal()
            else "the answers are for another split or other data; check the split and the prepared data"
        )
        return (
            f"{unknown:,} of {self.count.lines:,} ids are not among the {self.count.expected or 0:,} "
            f"{self.file.split} examples of {self.file.task}{like}: {advice}"
        )

    def _check_complete(self) -> None:
        if self.marks.partial or self.marks.incomplete:
            self._check_marks(self.marks.partial, self.marks.incomplete)
            return
        if self._seen and not self._lines:
            self._note(
                "missing-id", f"the file is empty; add a line for each of the {len(self._seen):,} examples"
            )
            return
        if not any(self._seen.values()) and not self._counts["unknown-id"]:
            return  # no line has an id, and the fault of each line is enough
        for id_, line in self._seen.items():
            if not line:
                self._note(
                    "missing-id", f"the example {quoted(id_)} has no answer; add a line for this example"
                )

    def _check_marks(self, partial: Mapping[str, Any] | None, incomplete: Mapping[str, Any] | None) -> None:
        lines = whole = 0
        if partial:
            lines, whole = partial["answered"], partial["of"]
            message = (
                f"the run was limited to {lines:,} of {whole:,} examples, so it is scored separately and "
                "never ranked"
            )
            self._note("partial", message)
        if incomplete:
            asked, failed = incomplete["of"], incomplete["failed"]
            lines, whole = asked - failed, whole or asked
            commonest = (
                f" (most common error: {quoted(incomplete['error'], 200)})" if incomplete.get("error") else ""
            )
            message = f"{failed:,} of {asked:,} examples failed{commonest}"
            self._note("incomplete", f"{message}; run the same predict command again to retry these examples")
        elif not lines:
            self._note(
                "wrong-count",
                "submission.toml describes a limited run without answers; remove the entry in [partial]",
            )
        if self._known and whole != len(self._seen):
            message = (
                f"submission.toml states {whole:,} examples for the split, but the split has "
                f"{len(self._seen):,}; correct the number, or prepare the same data"
            )
            self._note("wrong-count", message)
        if self._answers != lines:
            message = (
                f"submission.toml states {lines:,} answers for the file, but the file has {self._answers:,}; correct "
                "the number or the answer file"
            )
            self._note("wrong-count", message)


# Whole files

_NOTHING_MORE = AnswerLine(0, None, None)[4:]
"""The default values of the fields after `problems`, for lines that contain only an id and an answer."""


def texts_digest(ids: Sequence[str], texts: Sequence[str]) -> str:
    """Return the `sha256:` digest of all answers, as lines of UTF-8 JSON (`["id","answer"]`) sorted by id."""
    digest, quote = hashlib.sha256(), encode_basestring
    in_order = sorted(range(len(ids)), key=ids.__getitem__)
    lines = (f"[{quote(ids[at])},{quote(texts[at])}]\n" for at in in_order)
    while some := "".join(islice(lines, 1_000)):
        digest.update(some.encode())
    return f"sha256:{digest.hexdigest()}"


@dataclass(frozen=True)
class AlignedAnswers:
    """The answers to a split's examples, in the order of the data.

    To save memory, most answers are stored as plain strings, and repeated answers share a string.
    """

    places: Sequence[int]
    """The positions of the answered examples in the split; a range if all are answered."""
    answers: Sequence[str]
    """The answer to each example in `places`, in the same order."""
    details: Mapping[int, AnswerLine]
    """The lines with more than an id and an answer, by their position in `answers`."""

    @classmethod
    def read(cls, lines: Iterable[AnswerLine], ids: Sequence[str]) -> AlignedAnswers:
        """Read lines, and put their answers in the order of `ids`. Each line must answer a different example."""
        found: list[str | None] = [None] * len(ids)
        details: dict[int, AnswerLine] = {}
        shared: dict[str, str] = {}
        places: dict[str, int] = {}
        place = -1
        for line in lines:
            place += 1
            if place >= len(ids) or ids[place] != line.id:  # most files are in the order of the data
                places = places or {id_: at for at, id_ in enumerate(ids)}
                place = places[str(line.id)]
            # In tasks with more distinct answers, few are repeated.
            look_up = shared.setdefault if len(shared) < 10_000 else shared.get
            answer = line.answer or ""
            found[place] = answer = look_up(answer, answer)
            if line[4:] != _NOTHING_MORE:
                details[place] = line._replace(
                    id=ids[place], answer=answer, rule=look_up(line.rule, line.rule)
                )
        answers = [answer for answer in found if answer is not None]
        if len(answers) == len(ids):
            return cls(range(len(ids)), answers, details)
        kept = [at for at, answer in enumerate(found) if answer is not None]
        return cls(kept, answers, {new: details[old] for new, old in enumerate(kept) if old in details})

    def only(self, kept: Sequence[int]) -> AlignedAnswers:
        """Return the answers at the given positions, in order."""
        details = {new: self.details[old] for new, old in enumerate(kept) if old in self.details}
        return AlignedAnswers([self.places[at] for at in kept], [self.answers[at] for at in kept], details)

    @property
    def refused(self) -> Sequence[int]:
        """The positions of refused answers in `answers`."""
        return [place for place, line in self.details.items() if line.finish == "refused"]

    @property
    def series(self) -> list[list[str]]:
        """The answers as lists of shape (samples, examples), with REFUSED for refused answers."""
        first = list(self.answers)
        for place in self.refused:
            first[place] = REFUSED
        more = [line.samples if (line := self.details.get(at)) else () for at in range(len(first))]
        count = min(map(len, more), default=0)
        others = ([REFUSED if each[at] is None else each[at] or "" for each in more] for at in range(count))
        return [first, *others]

    def texts(self, kind: AnswerKind) -> Sequence[str]:
        """Return the texts to score."""
        if kind == "extracted" or not self.details:
            return self.answers
        texts = list(self.answers)
        for place, line in self.details.items():
            texts[place] = line.text(kind)
        return texts
