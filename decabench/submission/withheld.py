"""Withheld answers: keyed digests in place of answers that may not be passed on.

withheld/<task>.<split>.jsonl           a line about the file, then {"id": "...", "digest": "..."} for each answer

Whoever makes the answers again can prove that they are the same. The key is in the file: it keeps digests of different
submissions apart, and hides nothing from those who guess an answer, so labels need no withholding by this.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from decabench.errors import SubmissionError
from decabench.files import SUFFIXES, Compression, atomic_file, is_within, remove_file, require_within
from decabench.submission.answers import (
    FOLDER,
    BrokenFileError,
    Ids,
    Limits,
    answers_digest,
    numbered_lines,
    read_answers,
)
from decabench.submission.faults import Fault, FileCount
from decabench.submission.folder import WITHHELD, find_predictions, lock_submission
from decabench.text import quoted
from decabench.untrusted import parse_json

__all__ = [
    "WithheldAnswers",
    "WithheldReader",
    "keyed_digest",
    "read_withheld",
    "withhold",
]

FORMAT = "decabench.withheld/1"
_LIMITS = Limits(file_bytes=1 << 28, file_lines=2_000_000, line_bytes=1 << 16)
_MOST_FAULTS = 1_000
_DIGEST = re.compile("[0-9a-f]{32}")


def keyed_digest(key: bytes, id: str, answer: str) -> str:
    """Return the first 128 bits, in hex, of HMAC-SHA256 over `["id","answer"]` as UTF-8 JSON."""
    quote = json.JSONEncoder(ensure_ascii=False).encode
    return hmac.digest(key, f"[{quote(id)},{quote(answer)}]".encode(), "sha256")[:16].hex()


@dataclass(frozen=True)
class WithheldAnswers:
    """The digests of the answers to a split."""

    key: bytes = b""
    """The key of the digests, 32 bytes."""
    answers: str = ""
    """The digest of all answers together, as in the results."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """By id."""

    def differing(self, answers: Mapping[str, str]) -> list[str]:
        """Return the ids whose answer is not the withheld one, or is in only one of the two."""
        return sorted(
            id
            for id in {*self.digests, *answers}
            if id not in answers or self.digests.get(id) != keyed_digest(self.key, id, answers[id])
        )


class WithheldReader:
    """Reads a file of digests once and checks every line against the ids of its split."""

    def __init__(self, path: Path, ids: Ids | None = None, whole: bool = True) -> None:
        self.path = path
        self.name = f"{WITHHELD}/{path.name}"
        self.faults: list[Fault] = []
        self._ids = None if ids is None else set(ids)
        self._whole = whole
        self._lines = 0

    def read(self) -> WithheldAnswers:
        """Return the digests, as far as they can be read; `faults` then has what is wrong."""
        key, answers, digests = b"", "", dict[str, str]()
        try:
            with closing(numbered_lines(self.path, _LIMITS)) as lines:
                for number, raw in lines:
                    if raw is not None and not raw.strip():
                        continue
                    self._lines += 1
                    record = self._record(number, raw)
                    if self._lines == 1:
                        key, answers = self._head(number, record)
                    elif record is not None:
                        self._add(digests, number, record)
                    if len(self.faults) >= _MOST_FAULTS:
                        self._note("bad-withheld", "there are more faults; reading stopped here", number)
                        break
        except BrokenFileError as error:
            self._note(error.code, f"{error.reason}; reading stopped there", error.line)
        if not self._lines:
            self._note("bad-withheld", "the file is empty; withhold the answers again", None)
        if self._whole and self._ids is not None and len(self.faults) < _MOST_FAULTS:
            for id in sorted(self._ids - digests.keys())[:_MOST_FAULTS]:
                self._note("missing-id", f"the example {quoted(id)} has no digest", None)
        return WithheldAnswers(key, answers, digests)

    def count(self, task: str, split: str, found: WithheldAnswers) -> FileCount:
        """Return the counts of the file."""
        expected = None if self._ids is None else len(self._ids)
        return FileCount(self.name, task, split, max(0, self._lines - 1), len(found.digests), expected, 0)

    def _note(self, code: str, message: str, line: int | None) -> None:
        self.faults.append(Fault(code, message, self.name, line))

    def _record(self, number: int, raw: bytes | None) -> dict[str, Any] | None:
        if raw is None:
            self._note("too-large", f"the line has more than {_LIMITS.line_bytes:,} bytes", number)
            return None
        try:
            record = parse_json(raw.decode())
        except UnicodeDecodeError:
            self._note("bad-encoding", "the line is not UTF-8", number)
        except ValueError as error:
            self._note("bad-json", f"the line is not JSON: {error}", number)
        else:
            if isinstance(record, dict):
                return record
            self._note("not-an-object", "the line is not an object", number)
        return None

    def _head(self, number: int, record: dict[str, Any] | None) -> tuple[bytes, str]:
        if record is None or record.get("format") != FORMAT:
            self._note("bad-withheld", f"the first line does not state the format {FORMAT!r}", number)
            return b"", ""
        key, answers = record.get("key"), record.get("answers")
        if not isinstance(key, str) or not re.fullmatch("[0-9a-f]{64}", key):
            self._note("bad-withheld", "the first line has no key of 64 hex digits", number)
            return b"", ""
        if not isinstance(answers, str) or not re.fullmatch("sha256:[0-9a-f]{64}", answers):
            self._note("bad-withheld", "the first line has no digest of all answers", number)
            return bytes.fromhex(key), ""
        return bytes.fromhex(key), answers

    def _add(self, digests: dict[str, str], number: int, record: dict[str, Any]) -> None:
        id, digest = record.get("id"), record.get("digest")
        if "id" not in record or "digest" not in record:
            self._note("missing-field", "the line needs id and digest", number)
        elif not isinstance(id, str):
            self._note("non-string-id", "the id is not a string", number)
        elif not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            self._note("bad-record", "the digest is not 32 hex digits", number)
        elif id in digests:
            self._note("duplicate-id", f"the id {quoted(id)} is on an earlier line too", number)
        elif self._ids is not None and id not in self._ids:
            self._note("unknown-id", f"the split has no example {quoted(id)}", number)
        else:
            digests[id] = digest


def read_withheld(path: Path) -> WithheldAnswers:
    """Read a file of digests. Raises SubmissionError for its first fault."""
    reader = WithheldReader(path)
    found = reader.read()
    for fault in reader.faults:
        raise SubmissionError(f"{fault}.")
    return found


def withhold(folder: str | Path, task: str, split: str, compress: Compression = None) -> Path:
    """Replace a submission's answers to a split by their digests, and return the new file.

    Equal answers give equal bytes. Scored examples of the task beside earlier results go too, since they may repeat
    the answers. Raises SubmissionError if there are no valid answers, or if there are answers to other wordings, which
    no digests are made of.
    """
    folder = Path(folder)
    with lock_submission(folder):
        return _withhold(folder, task, split, compress)


def _withhold(folder: Path, task: str, split: str, compress: Compression) -> Path:
    file = find_predictions(folder)[0].get((task, split))
    if file is None:
        raise SubmissionError(f"{folder.name} has no answers for {task}.{split} to withhold.")
    if variants := sorted(folder.glob(f"variants/*/{FOLDER}/{task}.{split}.jsonl*")):
        raise SubmissionError(
            f"{folder.name} also answers {task}.{split} in other wordings ({variants[0].parent.parent.name}): remove "
            "these answers first."
        )
    require_within(folder, folder / WITHHELD)
    answers = read_answers(file)
    digest = answers_digest(answers)
    # Made of the answers themselves, so that the same answers give the same file, and others another key.
    key = hashlib.sha256(f"{FORMAT}\n{digest}".encode()).digest()
    path = folder / WITHHELD / f"{task}.{split}.jsonl{SUFFIXES[compress]}"
    with atomic_file(path, compress) as handle:
        for record in _records(key, digest, answers):
            handle.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
    for examples in folder.glob(f"results/{split}*/examples/{task}.jsonl.gz"):
        if is_within(folder, examples):
            remove_file(examples)
    remove_file(file.path)  # last: without answers, a run that was killed could not be repeated
    return path


def _records(key: bytes, digest: str, answers: Mapping[str, str]) -> Iterator[dict[str, str]]:
    yield {"format": FORMAT, "key": key.hex(), "answers": digest}
    for id, answer in answers.items():
        yield {"id": id, "digest": keyed_digest(key, id, answer)}
