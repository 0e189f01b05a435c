"""Read and write the journal of a run.

Outcomes are appended as they arrive, so a killed run loses only pending requests.

    DIR/journal/<task>.<split>[.variant<K>].<12 hex digits of the fingerprint>.jsonl

The first line contains the task, the split, the variant and the full fingerprint, which is a digest of
everything that affects answers. Only runs with the same fingerprint read the file. Each of the
remaining lines is an outcome; if an example has several outcomes, the last outcome counts. An
incomplete line is removed before the run continues.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from decabench.errors import DataError
from decabench.files import make_folder, storage_errors, write_file
from decabench.predictors import Failure, Outcome, answer_from, validate_outcome
from decabench.untrusted import parse_json

FOLDER = "journal"
"""The subfolder of a submission that contains journals."""

FORMAT = "decabench.journal/1"

OLD = ".old"
"""Suffix of a journal set aside by a run with --fresh."""

_SYNC_SECONDS = 1.0
"""Seconds between syncs.

If the process is killed, no written lines are lost. In a power failure, lines written since
the last sync may be lost.
"""


@dataclass(frozen=True)
class JournalKey:
    """Identifies a journal by task, split, variant and predictor."""

    task: str
    """The task name."""
    split: str
    """The split: train, validation or test."""
    variant: int
    """The variant number; 0 for the dataset's own wording."""
    fingerprint: str
    """The `sha256:…` digest of everything that affects answers."""
    predictor: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Everything covered by the fingerprint, in readable form."""

    @property
    def file_name(self) -> str:
        """The name of the journal file."""
        wording = f".variant{self.variant}" if self.variant else ""
        digest = self.fingerprint.removeprefix("sha256:")[:12]
        return f"{self.task}.{self.split}{wording}.{digest}.jsonl"


class Journal:
    """The outcomes of a task, read on opening and appended to while open."""

    def __init__(self, folder: Path, key: JournalKey) -> None:
        self.path = folder / FOLDER / key.file_name
        self.key = key
        self.begun = datetime.date.today().isoformat()
        """The date of the first run with this fingerprint."""
        self.outcomes: dict[str, Outcome] = {}
        """The last outcome for each id."""
        self.seconds: float | None = 0.0
        """The total time of all outcomes in seconds, including earlier runs; None if some times are missing."""
        self._file = -1
        self._synced = 0.0

    def __enter__(self) -> Self:
        make_folder(self.path.parent)
        with storage_errors(self.path):
            if whole := self._read() if self.path.exists() else 0:
                os.truncate(self.path, whole)
            else:  # atomically, so that no journal has only a part of its header
                write_file(self.path, _encode(self._header()))
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with storage_errors(self.path):
            os.fsync(self._file)
            os.close(self._file)
        if not self.outcomes:
            self.path.unlink(missing_ok=True)  # as if the run had never started
            with suppress(FileNotFoundError):
                os.replace(self._aside, self.path)

    def append(self, id_: str, outcome: Outcome, seconds: float = 0.0) -> None:
        """Append an outcome and write it to the file. `seconds` is the time since the previous outcome."""
        self.outcomes[id_] = outcome
        record = {**_record(id_, outcome), "seconds": round(seconds, 4)}
        self._count(record)
        data = _encode(record)
        with storage_errors(self.path):
            while data:  # a full disk may accept only part of the data, and fail on the next write
                data = data[os.write(self._file, data) :]
            if time.monotonic() - self._synced > _SYNC_SECONDS:
                os.fsync(self._file)
                self._synced = time.monotonic()

    def read(self) -> dict[str, Outcome]:
        """Return the last outcome for each id, without writing anything; empty if there is no file.

        Raises DataError if the file is damaged.
        """
        if self.path.exists():
            self._read()
        return self.outcomes

    def set_aside(self) -> None:
        """Rename the file so that all questions are asked again. Raises StorageError if that fails."""
        with storage_errors(self.path), suppress(FileNotFoundError):
            os.replace(self.path, self._aside)

    @property
    def _aside(self) -> Path:
        return self.path.with_name(f"{self.path.name}{OLD}")

    def _read(self) -> int:
        whole = 0
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if number == 1 or line.endswith(b"\n"):
                    self._read_line(number, line)
                    whole += len(line)
        return whole

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

    def _read_line(self, number: int, line: bytes) -> None:
        try:
            record = parse_json(line.decode())
            if number == 1:
                expected = self._header()
                if not line.endswith(b"\n"):
                    raise ValueError("the first line is incomplete")
                if any(
                    record[name] != expected[name]
                    for name in ("format", "task", "split", "variant", "fingerprint")
                ):
                    raise ValueError("the first line does not match the file's name")
                self.begun = datetime.date.fromisoformat(record["begun"]).isoformat()
            else:
                id_, outcome = _parse(record)
                self.outcomes[id_] = outcome
                self._count(record)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{self.path}:{number} is damaged ({type(error).__name__}: {error}). To ask all questions again, use "
                "--fresh."
            ) from error

    def _count(self, record: Mapping[str, Any]) -> None:
        seconds = record.get("seconds")
        if self.seconds is None or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
            self.seconds = None
        else:
            self.seconds += seconds


def _encode(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _record(id_: str, outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Failure):
        return {"id": id_, "error": outcome.error}
    held = ((each.name, getattr(outcome, each.name), each.default) for each in fields(outcome))
    given = {name: value for name, value, default in held if value != default}
    record = {"id": id_, "raw": given.pop("text"), **given}
    tokens = [record.pop(name, None) for name in ("prompt_tokens", "completion_tokens")]
    if tokens != [None, None]:
        record["tokens"] = tokens
    if outcome.choices:
        record["choices"] = [astuple(choice) for choice in outcome.choices]
    return record


def _parse(record: Mapping[str, Any]) -> tuple[str, Outcome]:
    id_ = record["id"]
    if not isinstance(id_, str):
        raise ValueError("the id is not a string")
    if "error" in record:
        return id_, validate_outcome(Failure(record["error"]))
    prompt, completion = record.get("tokens", (None, None))
    details = {"finish": "stop", **record, "prompt_tokens": prompt, "completion_tokens": completion}
    return id_, answer_from(record["raw"], details)
