"""Checks a submission without knowing any answer: every fault at once, with file, line and code."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from decabench.errors import DataError, MissingDataError, SubmissionError, UnknownNameError
from decabench.files import atomic_file, parse_json
from decabench.submission.answers import BrokenFileError, Limits, Line, read_lines
from decabench.submission.faults import CheckReport, FaultLog, FileCount
from decabench.submission.folder import read_metadata, submission_folder
from decabench.submission.layout import (
    FOLDER,
    Layout,
    PredictionFile,
    find_predictions,
    find_variants,
    nearest,
)
from decabench.submission.metadata import SubmissionInfo
from decabench.tasks import SPLITS
from decabench.text import printable, quoted

__all__ = ["FORMAT", "CheckReport", "IdList", "check_submission", "read_id_list", "write_id_list"]

# ---- idlists

FORMAT = "decabench.ids/1"
LIMIT_BYTES = 1 << 30


@dataclass(frozen=True)
class IdList:
    """The ids of some splits, and which data they are from."""

    ids: Mapping[tuple[str, str], tuple[str, ...]]
    """(task, split) to the ids in the order of the data."""
    fingerprints: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(task, split) to the fingerprint of that data, where it was given."""


def write_id_list(
    path: str | Path,
    ids: Mapping[tuple[str, str], Iterable[str]],
    fingerprints: Mapping[tuple[str, str], str] | None = None,
) -> None:
    """Write an id list as `.json` or `.json.gz`; equal input gives equal bytes, and order of ids is kept."""
    path = Path(path)
    splits = []
    for (task, split), of_split in sorted(ids.items(), key=lambda item: _position(item[0])):
        fingerprint = (fingerprints or {}).get((task, split))
        head = {"task": task, "split": split}
        splits.append(head | ({"fingerprint": fingerprint} if fingerprint else {}) | {"ids": list(of_split)})
    text = json.dumps({"format": FORMAT, "splits": splits}, ensure_ascii=False, indent=0) + "\n"
    _parsed(path, text)
    with atomic_file(path, "gz" if _is_packed(path) else None) as handle:
        handle.write(text.encode())


def read_id_list(path: str | Path) -> IdList:
    """An id list; `MissingDataError` where there is none, `DataError` where it is damaged."""
    path = Path(path)
    packed = _is_packed(path)
    try:
        with gzip.open(path, "rb") if packed else open(path, "rb") as handle:
            raw = handle.read(LIMIT_BYTES + 1)
    except FileNotFoundError as error:
        raise MissingDataError(f"There is no id list {path}: give the path of one.") from error
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(path, f"it cannot be read ({error})") from error
    if len(raw) > LIMIT_BYTES:
        raise _damaged(path, f"it has more than {LIMIT_BYTES:,} bytes")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise _damaged(path, "it is not UTF-8") from error
    return _parsed(path, text)


def _parsed(path: Path, text: str) -> IdList:
    try:
        record = parse_json(text)
    except ValueError as error:
        raise _damaged(path, f"it is not JSON: {error}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise _damaged(path, f"its format is not {FORMAT!r}")
    ids: dict[tuple[str, str], tuple[str, ...]] = {}
    fingerprints: dict[tuple[str, str], str] = {}
    for entry in _list(record, "splits", path):
        pair = _pair(entry, path)
        if pair in ids:
            raise _damaged(path, f"it has {'.'.join(pair)} twice")
        ids[pair] = tuple(_list(entry, "ids", path))
        if not all(isinstance(id_, str) for id_ in ids[pair]) or len(set(ids[pair])) < len(ids[pair]):
            raise _damaged(path, f"the ids of {'.'.join(pair)} are not different strings")
        try:
            "".join(ids[pair]).encode()
        except UnicodeEncodeError as error:
            raise _damaged(path, f"an id of {'.'.join(pair)} has half of a surrogate pair") from error
        fingerprint = entry.get("fingerprint")
        if fingerprint is not None and not isinstance(fingerprint, str):
            raise _damaged(path, f"the fingerprint of {'.'.join(pair)} is not a string")
        if fingerprint:
            fingerprints[pair] = fingerprint
    return IdList(ids, fingerprints)


def _pair(entry: Any, path: Path) -> tuple[str, str]:
    if not isinstance(entry, dict):
        raise _damaged(path, "one of its splits is not an object")
    task, split = entry.get("task"), entry.get("split")
    if not isinstance(task, str) or not task or split not in SPLITS:
        raise _damaged(path, f"one of its splits is called {quoted(f'{task}.{split}')}")
    return task, split


def _list(record: dict[str, Any], key: str, path: Path) -> list[Any]:
    value = record.get(key)
    if not isinstance(value, list):
        raise _damaged(path, f"{key!r} is not a list")
    return value


def _position(pair: tuple[str, str]) -> tuple[str, int]:
    task, split = pair
    return task, SPLITS.index(split) if split in SPLITS else len(SPLITS)


def _is_packed(path: Path) -> bool:
    name = path.name.lower()
    if not name.endswith((".json", ".json.gz")):
        raise DataError(f"{path.name} cannot be an id list: its name must end in .json or .json.gz.")
    return name.endswith(".gz")


def _damaged(path: Path, why: str) -> DataError:
    return DataError(f"{path.name} is no valid id list: {why}. Get or write it again.")


# ---- checker

Ids = Sequence[str] | AbstractSet[str]
Expected = Mapping[tuple[str, str], Ids]

_ANSWER_BYTES = 1 << 16
"""More than any answer has on average; a file may have this for each id, and the slack."""
_SLACK_BYTES = 1 << 20
_UNKNOWN = Limits(file_bytes=1 << 28, file_lines=10_000_000)
"""Where the ids are not known, they are kept as they come: this bounds them."""


def check_submission(
    path: str | Path,
    expected: Expected,
    known_tasks: Collection[str],
    tasks: Collection[str] | None = None,
    splits: Collection[str] | None = None,
    *,
    fingerprints: Mapping[tuple[str, str], str] | None = None,
) -> CheckReport:
    """Everything that is wrong with a submission.

    `expected` has the ids of each split whose data is at hand; in messages they keep its order. `tasks` and
    `splits` narrow the check to files that must then be there. `fingerprints` are those of the same data:
    answers made for other data get a warning.

    Raises `SubmissionError` where `path` does not exist, `UnknownNameError` for a task or split to check
    that does not exist.
    """
    path = Path(path)
    _refuse_unknown("task", tasks, known_tasks)
    _refuse_unknown("split", splits, SPLITS)
    if not path.exists():
        raise SubmissionError(f"There is no {path}: give a folder, a .zip or a .tar.gz.")
    log = FaultLog()
    counts: list[FileCount] = []
    with ExitStack() as stack:
        try:
            root = stack.enter_context(submission_folder(path))
        except SubmissionError as error:
            log.add("bad-archive", str(error))
        else:
            layout = Layout(known_tasks, tasks, splits)
            counts = _check_folder(root, layout, _Data(expected, fingerprints or {}), log)
    return CheckReport.of(printable(path.name), log, counts)


@dataclass(frozen=True)
class _Data:
    """What is known of the prepared data."""

    ids: Expected
    fingerprints: Mapping[tuple[str, str], str]


def _refuse_unknown(kind: str, names: Collection[str] | None, known: Collection[str]) -> None:
    for name in names or ():
        if name not in known:
            close = nearest(name, known)
            hint = f"Did you mean {close!r}? " if close else ""
            raise UnknownNameError(
                f"There is no {kind} {quoted(name)}. {hint}Use one of {', '.join(sorted(known))}."
            )


def _check_folder(root: Path, layout: Layout, data: _Data, log: FaultLog) -> list[FileCount]:
    info, faults = read_metadata(root)
    for fault in faults:
        log.add(fault.code, fault.message, fault.file, fault.line)
    files = find_predictions(root, layout, log)
    _check_presence(files, layout, log)
    for pair, file in files.items():
        made_for = info.data.get(".".join(pair)) if info else None
        here = data.fingerprints.get(pair)
        if made_for and here and made_for.removeprefix("sha256:") != here.removeprefix("sha256:"):
            message = f"the answers were made for data {made_for[:19]}…; here it is {here[:19]}…"
            log.add("other-data", message, file.name)
    variants = [file for group in find_variants(root, layout, log).values() for file in group.values()]
    return [
        _check_file(file, data.ids.get((file.task, file.split)), _Marks.of(info, file), log)
        for file in (*files.values(), *variants)
    ]


def _check_presence(files: Mapping[tuple[str, str], PredictionFile], layout: Layout, log: FaultLog) -> None:
    if layout.tasks is None and not files:
        log.add("no-predictions", f"there is no file to check in {FOLDER}/; add <task>.<split>.jsonl")
    for task in layout.tasks or ():
        if layout.splits is None and not any((task, split) in files for split in SPLITS):
            log.add("missing-file", f"{task} was asked for; add {task}.<split>.jsonl", FOLDER)
        for split in layout.splits or ():
            if (task, split) not in files:
                log.add("missing-file", f"{task}.{split} was asked for; add {task}.{split}.jsonl", FOLDER)


@dataclass(frozen=True)
class _Marks:
    """What submission.toml says of a file that does not answer every example."""

    partial: Mapping[str, Any] | None = None
    """`answered`, `of`, `chosen` of a limited run."""
    incomplete: Mapping[str, Any] | None = None
    """`failed`, `of`, `error` of a run in which examples failed."""

    @classmethod
    def of(cls, info: SubmissionInfo | None, file: PredictionFile) -> _Marks:
        """A limit holds for all variants; failures are each file's own: `sst.validation.variant2`."""
        if info is None:
            return cls()
        key = f"{file.task}.{file.split}"
        partial = info.partial.get(key)
        if not file.variant:
            return cls(partial, info.incomplete.get(key))
        if partial:  # as many were asked as in the dataset's wording, where failures have no line
            failed = info.incomplete.get(key, {}).get("failed", 0)
            partial = {**partial, "answered": partial["answered"] + failed}
        return cls(partial, info.incomplete.get(f"{key}.variant{file.variant}"))


def _check_marks(marks: _Marks, book: _IdBook, log: FaultLog) -> None:
    """A run that says that it is not whole is taken at its word where its numbers are those of the file."""
    lines = 0
    if partial := marks.partial:
        lines = partial["answered"]
        message = (
            f"a limited run of {lines:,} of {partial['of']:,} examples; it is scored apart and never ranked"
        )
        log.add("partial", message, book.file)
    if failures := marks.incomplete:
        lines = failures["of"] - failures["failed"]
        commonest = f" (commonest: {quoted(failures['error'], 200)})" if failures.get("error") else ""
        message = f"{failures['failed']:,} of {failures['of']:,} examples failed{commonest}"
        log.add("incomplete", f"{message}: run the same predict command again to retry them", book.file)
    elif not lines:
        log.add("wrong-count", "by submission.toml it is of a limited run without any answer", book.file)
    whole = (partial or failures or {})["of"]
    if book.known and whole != len(book.seen):
        message = f"by submission.toml the split has {whole:,} examples; it has {len(book.seen):,}"
        log.add("wrong-count", message, book.file)
    if book.answers != lines:
        message = f"by submission.toml the file has {lines:,} answers; it has {book.answers:,}"
        log.add("wrong-count", message, book.file)


def _check_file(file: PredictionFile, ids: Ids | None, marks: _Marks, log: FaultLog) -> FileCount:
    book = _IdBook(file.name, ids, log)
    limits = _UNKNOWN
    if ids is None:
        message = f"the ids of {file.task}.{file.split} are not known; prepare its data or give an id list"
        log.add("no-data", message, file.name)
    else:
        limits = Limits(_SLACK_BYTES + len(ids) * _ANSWER_BYTES, 100_000 + len(ids) * 10)
    lines = 0
    try:
        with closing(read_lines(file.path, limits)) as found:
            for line in found:
                lines += 1
                for code, message in line.problems:
                    log.add(code, message, file.name, line.number)
                book.note(line)
    except BrokenFileError as error:
        log.add(error.code, f"{error.reason}; reading stopped there", file.name, error.line)
    else:
        if marks.partial or marks.incomplete:
            _check_marks(marks, book, log)
        else:
            book.note_missing()
    return FileCount(
        file=file.name,
        task=file.task,
        split=file.split,
        lines=lines,
        answers=book.answers,
        expected=None if ids is None else len(book.seen),
        empty=log.count(file.name, "empty-answer"),
    )


class _IdBook:
    """Which ids were seen on which line. It holds the ids that are expected, and no stranger's."""

    def __init__(self, file: str, ids: Ids | None, log: FaultLog) -> None:
        self.file = file
        self.log = log
        self.known = ids is not None
        ordered = sorted(ids) if isinstance(ids, AbstractSet) else ids or ()
        self.seen: dict[str, int] = dict.fromkeys(ordered, 0)
        self.answers = 0

    def note(self, line: Line) -> None:
        if line.id is None:
            return
        before = self.seen.get(line.id)
        if before:
            message = f"the id {quoted(line.id)} stands on line {before} too; keep one answer for it"
            self.log.add("duplicate-id", message, self.file, line.number)
        elif before is None and self.known:
            message = f"the split has no example {quoted(line.id)}; remove the line or check the split"
            self.log.add("unknown-id", message, self.file, line.number)
        else:
            self.seen[line.id] = line.number
            self.answers += line.answer is not None

    def note_missing(self) -> None:
        for id_, line in self.seen.items():
            if not line:
                message = f"the example {quoted(id_)} has no answer; add a line for it"
                self.log.add("missing-id", message, self.file)
