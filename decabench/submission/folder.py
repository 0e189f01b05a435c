"""Find the files of a submission (a folder or an archive), open it and write it.

submission.toml predictions/<task>.<split>.jsonl        {"id": "...", "answer": "..."}; also .jsonl.gz and
.jsonl.zst variants/<K>/predictions/...            the same for other wordings of the questions
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from decabench.errors import SubmissionError, UnknownNameError, require_name
from decabench.files import (
    SUFFIXES,
    Compression,
    atomic_file,
    file_digest,
    is_within,
    lock_file,
    require_machine,
    require_within,
    storage_errors,
    temporary_folder,
)
from decabench.submission.answers import FOLDER, VARIANTS, PredictionFile, predictions_folder, write_answers
from decabench.submission.archive import ARCHIVE_SUFFIXES, is_archive, unpack
from decabench.submission.faults import WARNINGS, Fault, group_faults
from decabench.submission.metadata import (
    FORMAT,
    METADATA_LIMIT,
    METADATA_NAME,
    SubmissionInfo,
    parse_metadata,
    render_metadata,
)
from decabench.tasks import SPLITS
from decabench.text import printable, quoted, with_full_stop

RESULTS = "results"
"""The folder in a submission's folder where `decabench evaluate` puts its results."""

Files = dict[tuple[str, str], PredictionFile]
"""The file of answers for each (task, split)."""


@dataclass(frozen=True)
class Submission:
    """The answers to some splits of some tasks, and information about how they were made."""

    info: SubmissionInfo
    """The content of submission.toml."""
    files: Mapping[tuple[str, str], PredictionFile]
    """The file of answers for each (task, split)."""
    variants: Mapping[int, Mapping[tuple[str, str], PredictionFile]] = field(default_factory=dict)
    """The same for other wordings of the questions, by their number from 1."""
    folder: Path | None = None
    """The folder that it was read from; a temporary one for an archive. None if it was made in memory."""

    def files_of(self, task: str, split: str) -> dict[str, Path]:
        """Return every file that the submission has for a split, as path in the submission to path on disk."""
        files = (found.get((task, split)) for found in (self.files, *self.variants.values()))
        return {file.name: file.path for file in files if file is not None}


@contextmanager
def open_submission(path: str | Path) -> Iterator[Submission]:
    """Open a folder or an archive, which is unpacked for as long as the block lasts.

    Reads submission.toml and the names of the files, not the answers. Raises SubmissionError with their faults;
    `check_submission` also finds faults in answers.
    """
    with submission_folder(Path(path)) as root:
        info, faults = read_metadata(root)
        if info is None and is_unfinished(root):
            raise SubmissionError(f"{Path(path).name}: {faults[0].message}.")
        files, misnamed = find_predictions(root)
        variants, stray = find_variants(root)
        found = [each for each in (*faults, *misnamed, *stray) if each.code not in WARNINGS]
        if not files and not misnamed:
            found.append(Fault("no-predictions", describe_no_predictions()))
        if info is None or found or not files:
            raise SubmissionError(_describe_faults(Path(path).name, found))
        yield Submission(info, files, variants, root)


def describe_no_predictions(splits: Collection[str] = (), others: Collection[str] = ()) -> str:
    """Explain that there are no answers, or none for some splits; `others` are the splits that have answers."""
    wanted = " or ".join(splits)
    where = f"no answers for {wanted}" if wanted else "no answers"
    only = f", only for {' and '.join(sorted(others))}" if others else ""
    advice = f"choose --split {sorted(others)[-1]}, or write" if others else "write"
    return (
        f"{FOLDER}/ has {where}{only}; {advice} "
        f"{FOLDER}/<task>.{next(iter(splits), 'validation')}.jsonl with a line such as "
        f'{{"id": "…", "answer": "…"}} for each example'
    )


_MOST_FAULTS = 8


def _describe_faults(name: str, faults: Sequence[Fault]) -> str:
    if len(faults) < 2:
        return with_full_stop(
            f"{name}: {faults[0] if faults else f'no-predictions: {describe_no_predictions()}'}"
        )
    alike = group_faults(faults)
    lines = [f"- {sentence}" for sentence, _ in alike[:_MOST_FAULTS]]
    more = sum(count for _, count in alike[_MOST_FAULTS:])
    lines += [f"- and {more:,} more"] if more else []
    return f"{name} is not a valid submission:\n" + "\n".join(lines)


@contextmanager
def submission_folder(path: Path) -> Iterator[Path]:
    """Provide the folder that holds submission.toml: `path` itself, or a temporary one for an archive."""
    kinds = ", ".join(ARCHIVE_SUFFIXES)
    if path.is_dir():
        yield path
    elif not path.exists():
        raise SubmissionError(f"There is no {path}: give a folder or one of {kinds}.")
    elif _NAME.fullmatch(path.name):
        raise SubmissionError(
            f"{printable(path.name)} is a file of answers, not a submission: move it to "
            f"DIR/{FOLDER}/TASK.SPLIT.jsonl, write DIR/{METADATA_NAME} with the lines format = "
            f'"{FORMAT}" and name = "my model", and then give DIR.'
        )
    elif not is_archive(path):
        raise SubmissionError(f"{printable(path.name)} is not a submission: give a folder or one of {kinds}.")
    else:
        with temporary_folder() as temporary:
            unpack(path, temporary)
            top = _top(temporary)
            if is_archive(top):
                raise SubmissionError(
                    f"{printable(path.name)} holds only another archive: unpack it and give {printable(top.name)}."
                )
            yield top


_ADDED = (".", "__MACOSX", "Thumbs.db", "desktop.ini")
"""Beginnings of the names of files that operating systems add to folders."""


def _top(folder: Path) -> Path:
    """Return the only folder or archive at the top of an archive, or in its only folder; otherwise the whole
    archive."""
    entries = [path for path in folder.iterdir() if not path.name.startswith(_ADDED)]
    if len(entries) != 1 or entries[0].name == FOLDER:
        return folder
    only = entries[0]
    return _top(only) if only.is_dir() else only if is_archive(only) else folder


def is_unfinished(root: Path) -> bool:
    """Return whether a run has left a journal here but no submission yet."""
    return (
        (root / "journal").is_dir() and not (root / METADATA_NAME).exists() and not (root / FOLDER).exists()
    )


def read_metadata(root: Path) -> tuple[SubmissionInfo | None, list[Fault]]:
    """Read submission.toml and return it with every fault; None if there is a fault other than warnings."""
    path = root / METADATA_NAME
    if is_unfinished(root):
        message = (
            "decabench predict is still running, was interrupted or failed; partial answers are in "
            "journal/. Run the same command again to continue"
        )
        return None, [Fault("no-submission-toml", message)]
    if not _is_plain_file(root, path):
        return None, [
            Fault(
                "no-submission-toml",
                f"there is no {METADATA_NAME} in the submission; write one, with at least the lines "
                f'format = "{FORMAT}" and name = "my model"',
            )
        ]
    try:
        with open(path, "rb") as handle:
            return parse_metadata(handle.read(METADATA_LIMIT + 1))
    except OSError as error:
        require_machine(error, path)
        return None, [Fault("unreadable-file", f"it cannot be read: {error.strerror}", METADATA_NAME)]


# Finding the files of answers by their names


@dataclass(frozen=True)
class Scope:
    """Which of a submission's files to look at."""

    known_tasks: Collection[str] | None = None
    """The names of all tasks; None to accept any name."""
    tasks: Collection[str] | None = None
    """The tasks to look at; None for all."""
    splits: Collection[str] | None = None
    """The splits to look at; None for all."""

    def includes(self, task: str, split: str) -> bool:
        """Return whether to look at a file; one whose name has no split is never skipped for that."""
        return (self.tasks is None or task in self.tasks) and (
            self.splits is None or split in self.splits or split not in SPLITS
        )


_EVERYTHING = Scope()
_NAME = re.compile(r"(?P<stem>.+)\.jsonl(\.gz|\.zst)?")
_SPLIT_ALIASES = {"dev": "validation", "val": "validation", "valid": "validation", "eval": "test"}


def file_name(task: str, split: str) -> str:
    """Return `<task>.<split>.jsonl`. Raises SubmissionError for names that could not be read back."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", task, re.ASCII):
        raise SubmissionError(f"{quoted(task)} cannot name a task: use letters, digits, dots, - and _.")
    if split not in SPLITS:
        raise SubmissionError(f"{quoted(split)} is not a split: use one of {', '.join(SPLITS)}.")
    return f"{task}.{split}.jsonl"


def find_predictions(root: Path, scope: Scope = _EVERYTHING) -> tuple[Files, list[Fault]]:
    """Find the files of answers in `predictions/`, sorted by name, and the faults of all other names."""
    faults = [
        Fault("unknown-file", f"predictions belong in {FOLDER}/; move it there", printable(path.name))
        for path in sorted(root.iterdir())
        if _NAME.fullmatch(path.name) and not path.name.startswith(".")
    ]
    return find_files(root, FOLDER, scope, faults), faults


def find_variants(root: Path, scope: Scope = _EVERYTHING) -> tuple[dict[int, Files], list[Fault]]:
    """Find the files in `variants/<K>/predictions/`, sorted by K, and the faults of all other names."""
    folder, numbers, faults = root / VARIANTS, [], []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if re.fullmatch(r"[1-9][0-9]{0,2}", path.name) and path.is_dir() and is_within(root, path):
            numbers.append(int(path.name))
        elif not path.name.startswith("."):
            reason = f"it is not a variant's folder; use {VARIANTS}/<number from 1>/{FOLDER}/"
            faults.append(Fault("unknown-file", reason, f"{VARIANTS}/{printable(path.name)}"))
    return {
        number: find_files(root, predictions_folder(number), scope, faults, number)
        for number in sorted(numbers)
    }, faults


def find_files(root: Path, name: str, scope: Scope, faults: list[Fault], variant: int = 0) -> Files:
    """Find the files of each task and split in a submission's folder, and add the faults of all other names."""
    found: Files = {}
    folder = root / name
    is_inside = is_within(root, folder)
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name.startswith("."):
            continue
        code = reason = ""
        match = _NAME.fullmatch(path.name)
        is_plain = path.is_file() and ((is_inside and not path.is_symlink()) or is_within(root, path))
        if match is None or not is_plain:
            code, reason = "unknown-file", _why_unknown(root, path)
        else:
            task, split = _task_and_split(match["stem"], scope)
            if not scope.includes(task, split):
                continue
            code, reason = _name_fault(task, split, scope)
            if not code:
                file = PredictionFile(path, task, split, variant)
                if (first := found.setdefault((task, split), file)) is not file:
                    code, reason = "duplicate-file", f"{first.name} answers the same split; keep only one"
        if code:
            faults.append(Fault(code, reason, f"{name}/{printable(path.name)}"))
    return found


def _task_and_split(stem: str, scope: Scope) -> tuple[str, str]:
    """Split `<task>.<split>`; the split is empty if there is none, as in `iwslt.en.de`."""
    task, _, split = stem.rpartition(".")
    is_task = not task or (scope.known_tasks is not None and stem in scope.known_tasks)
    return (stem, "") if is_task else (task, split)


def _name_fault(task: str, split: str, scope: Scope) -> tuple[str, str]:
    if not split:
        meant = quoted(f"{task}.validation.jsonl")
        return "unknown-split", f"the name lacks a split; rename it to {meant}, or use the right split"
    if split not in SPLITS:
        meant = _SPLIT_ALIASES.get(split.casefold(), split.casefold())
        return "unknown-split", _unknown("split", split, meant, SPLITS)
    if scope.known_tasks is not None and task not in scope.known_tasks:
        own = " For a task of your own, give its file with --include."
        return "unknown-task", _unknown("task", task, task.casefold(), scope.known_tasks) + own
    return "", ""


def _unknown(kind: str, name: str, meant: str, known: Collection[str]) -> str:
    try:
        return f"There is no {kind} {quoted(name)}. Did you mean {require_name(meant, known, kind)}?"
    except UnknownNameError as error:
        return str(error)


def _why_unknown(root: Path, path: Path) -> str:
    if path.is_dir():
        return f"it is a folder; put the files directly into {printable(path.parent.name)}/"
    if path.is_symlink() and not _is_plain_file(root, path):
        return "it is a link to something outside the submission; put a copy of the file there"
    if not path.is_file():
        return "it is not a regular file"
    packed = " or ".join(f".jsonl{suffix}" for suffix in SUFFIXES.values())
    return f"its name does not end in {packed}; rename or remove it"


def _is_plain_file(root: Path, path: Path) -> bool:
    return path.is_file() and is_within(root, path)


# Writing


@contextmanager
def lock_submission(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Let only one process at a time write a submission's answers.

    A new folder that stays empty is removed. Raises DecabenchError if another process keeps writing for
    `patience` seconds, StorageError.
    """
    is_new = not folder.exists()
    refusal = f"Another process is writing to {folder}: wait for it, or give this one another --output."
    try:
        with lock_file(folder / METADATA_NAME, refusal, patience, "--output"):
            yield
    finally:
        if is_new:
            remove_if_empty(folder)


def write_submission(
    folder: str | Path,
    info: SubmissionInfo | str,
    predictions: Mapping[tuple[str, str], Iterable[tuple[str, str] | Mapping[str, Any]]],
    compress: Compression = None,
) -> Submission:
    """Write answers and submission.toml; equal input gives equal bytes, and no file is left half-written.

    `info` may be the submission's name alone. `predictions` holds, by task and split, (id, answer) pairs or mappings
    with these and other keys. Files of these splits are replaced; files of other splits are kept.
    Raises SubmissionError for answers or information that could not be read back, StorageError if the folder cannot
    be written.
    """
    folder = Path(folder)
    info = SubmissionInfo(info) if isinstance(info, str) else info
    metadata = render_metadata(info)
    with lock_submission(folder):
        write_predictions(folder, predictions, compress)
        with atomic_file(folder / METADATA_NAME) as handle:
            handle.write(metadata)
    return Submission(info, find_predictions(folder)[0])


def write_predictions(
    folder: Path,
    predictions: Mapping[tuple[str, str], Iterable[tuple[str, str] | Mapping[str, Any]]],
    compress: Compression = None,
) -> None:
    """Write `predictions/<task>.<split>.jsonl` into a folder, atomically, and never through a link out of it."""
    require_within(folder, folder / FOLDER)
    paths = {pair: folder / FOLDER / file_name(*pair) for pair in predictions}
    for pair, answers in predictions.items():
        bare = paths[pair]
        with atomic_file(bare.with_name(bare.name + SUFFIXES[compress]), compress) as handle:
            write_answers(handle, answers)
        for other, suffix in SUFFIXES.items():
            if other != compress:
                bare.with_name(bare.name + suffix).unlink(missing_ok=True)


def changed_answers(
    old: tuple[Path, SubmissionInfo], new: tuple[Path, SubmissionInfo], pairs: Iterable[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Return the (task, split) pairs whose answers, data or marks differ between two folders."""
    (folder, info), (other, other_info) = old, new
    return {
        (task, split)
        for task, split in pairs
        if info.data.get(f"{task}.{split}") != other_info.data.get(f"{task}.{split}")
        or _marks(info, task, split) != _marks(other_info, task, split)
        or _digests(folder, file_name(task, split)) != _digests(other, file_name(task, split))
    }


def _marks(info: SubmissionInfo, task: str, split: str) -> list[tuple[str, Mapping[str, Any]]]:
    marks = (*info.partial.items(), *info.incomplete.items())
    name = f"{task}.{split}"
    return [(key, mark) for key, mark in marks if key == name or key.startswith(f"{name}.variant")]


def _digests(folder: Path, name: str) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): file_digest(path)
        for pattern in (f"{FOLDER}/{name}*", f"{VARIANTS}/*/{FOLDER}/{name}*")
        for path in folder.glob(pattern)
        if path.is_file()
    }


def remove_results(folder: Path, only: Sequence[Path] | None = None) -> None:
    """Remove the results of a submission whose answers are about to change, either all or only some folders.

    Nothing that decabench did not write is touched. Raises StorageError, before anything is removed, if a link
    leads out of the folder.
    """
    splits = results_folders(folder) if only is None else list(only)
    stale = []
    for split in splits:
        rows = (*split.glob("statistics/*.parquet"), *split.glob("examples/*.jsonl.gz"))
        stale += [split / "results.json", split / "run.json", *rows]
    require_within(folder, *stale)
    with storage_errors(folder):
        for path in stale:
            path.unlink(missing_ok=True)
        for split in splits:
            remove_if_empty(split / "statistics", split / "examples", split)
        remove_if_empty(folder / RESULTS)


def results_folders(folder: Path) -> list[Path]:
    """Return the folders in a submission's `results/`."""
    return sorted(path for path in (folder / RESULTS).glob("*") if path.is_dir())


def remove_if_empty(*folders: Path) -> None:
    """Remove folders that are empty. Links stay."""
    for folder in folders:
        if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            folder.rmdir()
