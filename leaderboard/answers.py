"""The answers that were scored, read fast: a board has fifty submissions with sixty thousand lines each.

Lines as `write_submission` writes them are taken apart by one pattern; anything else goes the careful way of
`decabench.predictions`. Either way the digest decides whether these are the answers that were scored.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from decabench.layout import PredictionFile
from decabench.predictions import Answers, predictions_digest, read_answers

__all__ = ["blank_ids", "scored_answers"]

# Runs of plain characters between escapes: one step a run, not one a character.
_LINE = re.compile(
    rb'^\{"id": "([^"\\\n]*)", "answer": "([^"\\\n]*(?:\\.[^"\\\n]*)*)"'
    rb'(?:, "(?:raw|rule|finish|context_kept)": .*)?\}$',
    re.MULTILINE,
)
_LARGEST = 1 << 28


def scored_answers(
    file: PredictionFile, digest: str, answers: Answers = "extracted"
) -> Mapping[str, str] | None:
    """Id to answer; None where the answers are not those of the digest. An empty digest is not checked.

    Raises SubmissionError where the file cannot be read.
    """
    if digest:
        fast = _fast(file.path, digest) if answers == "extracted" else None
        if fast is not None:
            return fast
        if predictions_digest(file, answers=answers) != digest:
            return None
    return read_answers(file, answers)


class _Answers(Mapping[str, str]):
    """Answers as they stand in the file, each decoded when it is asked for: a page shows few of them."""

    def __init__(self, raw: Mapping[bytes, bytes]) -> None:
        self._raw = raw

    def __getitem__(self, id: str) -> str:
        return _text(self._raw[id.encode()])

    def blank(self) -> set[str]:
        """The ids of blank answers, without decoding the others."""
        return {id.decode() for id, raw in self._raw.items() if _is_blank(raw)}

    def __iter__(self) -> Iterator[str]:
        return (id.decode() for id in self._raw)

    def __len__(self) -> int:
        return len(self._raw)


def _is_blank(raw: bytes) -> bool:
    # A long run of nothing but escaped white space is left for what it is: nobody says that.
    return not raw or raw.isspace() or (len(raw) < 16 and b"\\" in raw and not _text(raw).strip())


def blank_ids(answers: Mapping[str, str]) -> set[str]:
    """The ids of blank answers."""
    if isinstance(answers, _Answers):
        return answers.blank()
    return {id for id, answer in answers.items() if not answer.strip()}


def _fast(path: Path, digest: str) -> Mapping[str, str] | None:
    """None where the file is not written as ours are, or has another digest."""
    try:
        content = _content(path)
        lines = _LINE.findall(content)
        if len(lines) != content.count(b"\n") or not content.endswith(b"\n"):
            return None
        lines.sort()
        found = hashlib.sha256(b"".join(b'["%b","%b"]\n' % pair for pair in lines)).hexdigest()
        if digest != f"sha256:{found}":
            return None
        answers = _Answers(dict(lines))
    except (OSError, ValueError, EOFError):
        return None
    return answers if len(answers) == len(lines) else None


def _content(path: Path) -> bytes:
    """Unpacked; no more than the limit, whatever an archive claims."""
    with open(path, "rb") as file:
        stream: Any = file
        if path.suffix == ".gz":
            stream = gzip.GzipFile(fileobj=file)
        elif path.suffix == ".zst":
            import zstandard

            stream = zstandard.ZstdDecompressor().stream_reader(file)
        content = bytes(stream.read(_LARGEST + 1) or b"")
    if len(content) > _LARGEST:
        raise ValueError("too large")
    return content


def _text(raw: bytes) -> str:
    if b"\\" in raw:
        return str(json.loads(b'"' + raw + b'"'))
    return raw.decode()
