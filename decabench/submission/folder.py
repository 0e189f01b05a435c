"""A submission: a folder or an archive of answers, and what they were made with.

submission.toml
predictions/<task>.<split>.jsonl        {"id": "...", "answer": "..."}; .jsonl.gz and .jsonl.zst too
variants/<K>/predictions/...            the same for other wordings of the questions
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from decabench.errors import SubmissionError
from decabench.files import SUFFIXES, Compression, atomic_file
from decabench.submission.answers import predictions_digest, read_answers, read_predictions, write_answers
from decabench.submission.archive import ARCHIVE_SUFFIXES, is_archive, unpack
from decabench.submission.faults import WARNINGS, Fault, FaultLog
from decabench.submission.layout import (
    FOLDER,
    Layout,
    PredictionFile,
    file_name,
    find_predictions,
    find_variants,
    inside,
)
from decabench.submission.metadata import (
    METADATA_LIMIT,
    METADATA_NAME,
    SubmissionInfo,
    parse_metadata,
    render_metadata,
)
from decabench.text import printable

__all__ = [
    "PredictionFile",
    "Submission",
    "SubmissionInfo",
    "open_submission",
    "predictions_digest",
    "read_answers",
    "read_metadata",
    "read_predictions",
    "submission_folder",
    "write_predictions",
    "write_submission",
]


@dataclass(frozen=True)
class Submission:
    """Answers to some splits of some tasks, and what made them."""

    info: SubmissionInfo
    """What it says about itself."""
    files: Mapping[tuple[str, str], PredictionFile]
    """(task, split) to the file of answers."""
    variants: Mapping[int, Mapping[tuple[str, str], PredictionFile]] = field(default_factory=dict)
    """The same for other wordings of the questions, by their number from 1."""


@contextmanager
def open_submission(path: str | Path) -> Iterator[Submission]:
    """A submission, for as long as the block lasts; an archive is unpacked and removed again.

    Reads submission.toml and the names of the files, not the answers. `SubmissionError` names the first
    fault; `decabench.submission.checker.check_submission` finds all of them.
    """
    with submission_folder(Path(path)) as root:
        info, faults = read_metadata(root)
        log = FaultLog()
        files = find_predictions(root, Layout(), log)
        variants = find_variants(root, Layout(), log)
        for fault in (*faults, *log.kept()):
            if fault.code not in WARNINGS:
                raise SubmissionError(f"{Path(path).name}: {fault}.")
        if info is None or not files:
            raise SubmissionError(f"{Path(path).name}: no-predictions: there is no file in {FOLDER}/.")
        yield Submission(info, files, variants)


def write_submission(
    folder: str | Path,
    info: SubmissionInfo,
    predictions: Mapping[tuple[str, str], Iterable[tuple[str, str] | Mapping[str, Any]]],
    compress: Compression = None,
) -> Submission:
    """Write answers and submission.toml; equal input gives equal bytes, and every file is whole or not there.

    Files of other splits that the folder already has are left; those of the same splits are replaced.
    """
    folder = Path(folder)
    metadata = render_metadata(info)
    write_predictions(folder, predictions, compress)
    with atomic_file(folder / METADATA_NAME) as handle:
        handle.write(metadata)
    return Submission(info, find_predictions(folder, Layout(), FaultLog()))


def write_predictions(
    folder: Path,
    predictions: Mapping[tuple[str, str], Iterable[tuple[str, str] | Mapping[str, Any]]],
    compress: Compression = None,
) -> None:
    """Writes `predictions/<task>.<split>.jsonl` into a folder, each file whole or not at all."""
    paths = {pair: folder / FOLDER / file_name(*pair) for pair in predictions}
    for pair, answers in predictions.items():
        bare = paths[pair]
        with atomic_file(bare.with_name(bare.name + SUFFIXES[compress]), compress) as handle:
            write_answers(handle, answers)
        for other, suffix in SUFFIXES.items():
            if other != compress:
                bare.with_name(bare.name + suffix).unlink(missing_ok=True)


@contextmanager
def submission_folder(path: Path) -> Iterator[Path]:
    """The folder that holds submission.toml: `path` itself, or where the archive was unpacked for now."""
    if path.is_dir():
        yield path
    elif not path.exists():
        raise SubmissionError(f"There is no {path}: give a folder or one of {', '.join(ARCHIVE_SUFFIXES)}.")
    elif not is_archive(path):
        kinds = ", ".join(ARCHIVE_SUFFIXES)
        raise SubmissionError(f"{printable(path.name)} is no submission: give a folder or one of {kinds}.")
    else:
        with tempfile.TemporaryDirectory(prefix="decabench-") as temporary:
            unpack(path, Path(temporary))
            yield _top(Path(temporary))


def read_metadata(root: Path) -> tuple[SubmissionInfo | None, list[Fault]]:
    """What submission.toml says and every fault of it; None where a fault is no mere warning."""
    path = root / METADATA_NAME
    if not inside(root, path):
        return None, [
            Fault("no-submission-toml", f"there is no {METADATA_NAME} in the submission; write one")
        ]
    try:
        with open(path, "rb") as handle:
            return parse_metadata(handle.read(METADATA_LIMIT + 1))
    except OSError as error:
        return None, [Fault("unreadable-file", f"it cannot be read: {error.strerror}", METADATA_NAME)]


def _top(folder: Path) -> Path:
    """An archive's one top folder, if that is all that it holds, what the Finder adds aside."""
    entries = [path for path in folder.iterdir() if not path.name.startswith((".", "__MACOSX"))]
    return entries[0] if len(entries) == 1 and entries[0].is_dir() and entries[0].name != FOLDER else folder
