"""The journal of a run: every outcome is appended the moment it is known, so that a kill loses only what was in flight.

DIR/journal/<task>.<split>[.variant<K>].<12 hex digits of the fingerprint>.jsonl

The first line says what the answers are of: task, split, variant and the predictor's full fingerprint, which is a
digest of all that decides an answer. A file is read by a run of the same fingerprint only. The other lines are
outcomes; of one example the last counts. A line that a kill cut short is taken off before the run goes on.
"""

from __future__ import annotations

import datetime
import json
import operator
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args

from decabench.errors import DataError
from decabench.files import make_folder, parse_json, storage_errors
from decabench.predictors import Answer, Failure, Finish, Outcome
from decabench.submission import Limits
from decabench.text import excerpt

__all__ = ["FOLDER", "FORMAT", "Journal", "Key", "checked", "sound"]

# ---- outcomes

_TEXT_BYTES = Limits().line_bytes // 4
"""Of one text as JSON. A line of a submission may have it twice, extracted and raw, and its id and more beside.

It is four times what `decabench check` allows an answer on average, so that a model may think long now and then.
Bytes, not characters: JSON writes a control character with six.
"""

_ERROR_LENGTH = 500
"""Characters of a failure's sentence; submission.toml takes as many."""

_MOST = 2**53
"""Above this, many readers of JSON no longer tell whole numbers apart."""


def sound(outcome: object) -> Outcome:
    """The outcome as it can be written and read again; what is wrong with it is a Failure that says so."""
    try:
        found = checked(outcome)
    except ValueError as error:
        return Failure(excerpt(str(error), _ERROR_LENGTH))
    if isinstance(found, Failure):
        return Failure(excerpt(found.error, _ERROR_LENGTH) or "the predictor gave no reason")
    size = len(json.dumps(found.text, ensure_ascii=False).encode())
    if size > _TEXT_BYTES:
        return Failure(
            f"too-large: the answer takes {size:,} bytes as JSON, and {_TEXT_BYTES:,} are the most for one"
        )
    return found


def checked(outcome: object) -> Outcome:
    """The outcome with every field of its kind; numbers of numpy and the like become ints. Raises ValueError."""
    if isinstance(outcome, Failure):
        if not isinstance(outcome.error, str):
            raise ValueError(f"the error is {_shown(outcome.error)}, and must be a text")
        return outcome
    if not isinstance(outcome, Answer):
        raise ValueError(f"the outcome is {_shown(outcome)}, and must be an Answer or a Failure")
    return Answer(
        _text(outcome.text),
        _finish(outcome.finish),
        _span(outcome.context_kept),
        _tokens(outcome.prompt_tokens, "prompt_tokens"),
        _tokens(outcome.completion_tokens, "completion_tokens"),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"the answer is {_shown(value)}, and must be a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(
            "bad-encoding: the answer holds half of a surrogate pair, which is no text"
        ) from None
    return value


def _finish(value: Any) -> Any:
    if isinstance(value, str) and value in get_args(Finish):
        return value
    raise ValueError(f"finish is {_shown(value)}, and must be one of {', '.join(get_args(Finish))}")


def _span(value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    ends = [_count(end) for end in value] if isinstance(value, (tuple, list)) else []
    match ends:
        case [int(start), int(end)] if start <= end:
            return start, end
    raise ValueError(
        f"context_kept is {_shown(value)}, and must be the first and the last character kept: (0, 1234)"
    )


def _tokens(value: Any, name: str) -> int | None:
    if value is None:
        return None
    count = _count(value)
    if count is None:
        raise ValueError(
            f"{name} is {_shown(value)}, and must be a whole number, or None where it is not known"
        )
    return count


def _count(value: Any) -> int | None:
    """A whole number from 0; None where it is none."""
    try:
        count = None if isinstance(value, bool) else int(operator.index(value))
    except TypeError:
        return None
    return count if count is not None and 0 <= count <= _MOST else None


def _shown(value: object) -> str:
    return excerpt(repr(value), 60)


# ---- journal

FOLDER = "journal"
"""Where in a submission's folder the journals are."""

FORMAT = "decabench.journal/1"

_SYNC_SECONDS = 1.0
"""A kill loses nothing that was written; this bounds what a power cut loses."""


@dataclass(frozen=True)
class Key:
    """What the answers of a journal are of."""

    task: str
    """The task's name."""
    split: str
    """train, validation or test."""
    variant: int
    """Which wording of the questions; 0 is the dataset's."""
    fingerprint: str
    """`sha256:` over all that decides an answer."""
    predictor: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What the fingerprint was taken over, for people."""

    @property
    def file_name(self) -> str:
        """The journal's name in its folder."""
        wording = f".variant{self.variant}" if self.variant else ""
        digest = self.fingerprint.removeprefix("sha256:")[:12]
        return f"{self.task}.{self.split}{wording}.{digest}.jsonl"


class Journal:
    """The outcomes of one task, read when it is opened and appended to while it is open."""

    def __init__(self, folder: Path, key: Key, suffix: str = "") -> None:
        self.path = folder / FOLDER / f"{key.file_name}{suffix}"
        self.key = key
        self.begun = datetime.date.today().isoformat()
        """The day on which the first run of this fingerprint began."""
        self.outcomes: dict[str, Outcome] = {}
        """Id to the last outcome."""
        self._file = -1
        self._synced = 0.0

    def __enter__(self) -> Self:
        make_folder(self.path.parent)
        with storage_errors(self.path):
            self._mend()
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with storage_errors(self.path):
            os.fsync(self._file)
            os.close(self._file)
        if not self.outcomes:
            self.path.unlink(missing_ok=True)  # nothing was learnt: as if the run had not been

    def append(self, id_: str, outcome: Outcome) -> None:
        """One more outcome, written before this returns."""
        self.outcomes[id_] = outcome
        with storage_errors(self.path):
            _write(self._file, _line(_record(id_, outcome)))
            if time.monotonic() - self._synced > _SYNC_SECONDS:
                os.fsync(self._file)
                self._synced = time.monotonic()

    def read(self) -> dict[str, Outcome]:
        """Id to the last outcome, of a journal that is there; nothing is written. Raises DataError."""
        self._read()
        return self.outcomes

    def _mend(self) -> None:
        """Reads what is there and takes off the line that a kill cut short."""
        whole = self._read() if self.path.exists() else 0
        if whole:
            os.truncate(self.path, whole)
        else:
            self._begin()

    def _read(self) -> int:
        """Bytes of whole lines."""
        whole = 0
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):
                    self._take(number, line)
                    whole += len(line)
                elif number == 1 and not self._is_begun(line):
                    raise self._damaged(1, "its first line is no beginning of a journal's")
        return whole

    def _begin(self) -> None:
        self.path.write_bytes(_line(self._header()))

    def _is_begun(self, line: bytes) -> bool:
        """Whether a line is a header of ours that a kill cut short, of whatever day; nothing else is overwritten."""
        start, _, _ = _line(self._header()).partition(b'"begun":')
        length = min(len(line), len(start))
        return line[:length] == start[:length]

    def _header(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "task": self.key.task,
            "split": self.key.split,
            "variant": self.key.variant,
            "fingerprint": self.key.fingerprint,
            "begun": self.begun,
            "predictor": self.key.predictor,
        }

    def _take(self, number: int, line: bytes) -> None:
        try:
            record = parse_json(line.decode())
            if number == 1:
                self._check(record)
                self.begun = _day(record["begun"])
            else:
                self.outcomes[_id(record)] = _outcome(record)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._damaged(number, f"{type(error).__name__}: {error}") from error

    def _damaged(self, number: int, reason: str) -> DataError:
        return DataError(
            f"{self.path}:{number} is damaged ({reason}): ask again with --fresh, or move the file away."
        )

    def _check(self, header: Mapping[str, Any]) -> None:
        found = tuple(header[name] for name in ("format", "task", "split", "variant", "fingerprint"))
        if found != (FORMAT, self.key.task, self.key.split, self.key.variant, self.key.fingerprint):
            raise ValueError("its first line is of other answers than its name says")


def _write(file: int, data: bytes) -> None:
    """All of it: a full disk may take a part and say so only at the next write."""
    while data:
        data = data[os.write(file, data) :]


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _record(id_: str, outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Failure):
        return {"id": id_, "error": outcome.error}
    record: dict[str, Any] = {"id": id_, "raw": outcome.text}
    if outcome.finish != "stop":
        record["finish"] = outcome.finish
    if outcome.context_kept is not None:
        record["context_kept"] = list(outcome.context_kept)
    if outcome.prompt_tokens is not None or outcome.completion_tokens is not None:
        record["tokens"] = [outcome.prompt_tokens, outcome.completion_tokens]
    return record


def _day(begun: Any) -> str:
    """A date as it is written. Raises TypeError or ValueError."""
    return datetime.date.fromisoformat(begun).isoformat()


def _id(record: Mapping[str, Any]) -> str:
    id_ = record["id"]
    if not isinstance(id_, str):
        raise ValueError("its id is no text")
    return id_


def _outcome(record: Mapping[str, Any]) -> Outcome:
    """Raises KeyError, TypeError or ValueError for what no run writes."""
    if "error" in record:
        return checked(Failure(record["error"]))
    prompt, completion = record.get("tokens", (None, None))
    finish, kept = record.get("finish", "stop"), record.get("context_kept")
    return checked(Answer(record["raw"], finish, kept, prompt, completion))
