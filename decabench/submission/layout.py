"""Which files a submission has: names to tasks and splits, and what is wrong with the names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from decabench.errors import SubmissionError
from decabench.files import SUFFIXES
from decabench.submission.faults import FaultLog
from decabench.tasks import SPLITS
from decabench.text import printable, quoted

__all__ = [
    "FOLDER",
    "VARIANTS",
    "Layout",
    "PredictionFile",
    "file_name",
    "find_predictions",
    "find_variants",
    "inside",
    "nearest",
]

FOLDER = "predictions"

VARIANTS = "variants"
"""Where the answers to other wordings of the questions lie: `variants/<K>/predictions/`, K from 1."""

_NAME = re.compile(r"(?P<stem>.+)\.jsonl(\.gz|\.zst)?")
_SPLIT_ALIASES = {"dev": "validation", "val": "validation", "valid": "validation", "eval": "test"}


@dataclass(frozen=True, slots=True)
class PredictionFile:
    """The answers of a submission to one split of one task."""

    path: Path
    """Where the file is; for an archive only while the submission is open."""
    task: str
    """The task's name, from the file's name."""
    split: str
    """train, validation or test."""
    variant: int = 0
    """To which wording of the questions; 0 is the dataset's own."""

    @property
    def name(self) -> str:
        """Its path in the submission."""
        return f"{_folder(self.variant)}/{printable(self.path.name)}"


@dataclass(frozen=True)
class Layout:
    """What to look for among the files of a submission."""

    known_tasks: Collection[str] | None = None
    """Every task there is; None takes any name."""
    tasks: Collection[str] | None = None
    """The tasks to look at; None for all."""
    splits: Collection[str] | None = None
    """The splits to look at; None for all."""

    def wants_task(self, task: str) -> bool:
        """Whether any file of a task is to be looked at."""
        return self.tasks is None or task in self.tasks

    def wants(self, task: str, split: str) -> bool:
        """Whether a file is to be looked at."""
        return self.wants_task(task) and (self.splits is None or split in self.splits)


def _folder(variant: int) -> str:
    return f"{VARIANTS}/{variant}/{FOLDER}" if variant else FOLDER


def file_name(task: str, split: str) -> str:
    """`<task>.<split>.jsonl`; refuses what could not be read back."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", task, re.ASCII):
        raise SubmissionError(f"{quoted(task)} cannot be a task's name: use letters, digits, dots, - and _.")
    if split not in SPLITS:
        raise SubmissionError(f"{quoted(split)} is no split: use one of {', '.join(SPLITS)}.")
    return f"{task}.{split}.jsonl"


def inside(root: Path, path: Path) -> bool:
    """Whether a path is a plain file that lies in the submission, links followed."""
    return path.is_file() and _is_within(root, path)


def find_predictions(root: Path, layout: Layout, log: FaultLog) -> dict[tuple[str, str], PredictionFile]:
    """The files that are wanted, by (task, split) in order of their names; the rest goes to the log."""
    _misplaced(root, log)
    return _found(root, layout, log, 0)


def find_variants(
    root: Path, layout: Layout, log: FaultLog
) -> dict[int, dict[tuple[str, str], PredictionFile]]:
    """The wanted files of `variants/<K>/predictions/`, by K in order; what is no such folder goes to the log."""
    folder, numbers = root / VARIANTS, []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if re.fullmatch(r"[1-9][0-9]{0,2}", path.name) and path.is_dir() and _is_within(root, path):
            numbers.append(int(path.name))
        elif not path.name.startswith("."):
            reason = f"it is no folder of a variant; use {VARIANTS}/<number from 1>/{FOLDER}/"
            log.add("unknown-file", reason, f"{VARIANTS}/{printable(path.name)}")
    return {number: _found(root, layout, log, number) for number in sorted(numbers)}


def _is_within(root: Path, path: Path) -> bool:
    return path.resolve().is_relative_to(root.resolve())


def _found(root: Path, layout: Layout, log: FaultLog, variant: int) -> dict[tuple[str, str], PredictionFile]:
    found: dict[tuple[str, str], PredictionFile] = {}
    folder = root / _folder(variant)
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name.startswith("."):
            continue
        name = f"{_folder(variant)}/{printable(path.name)}"
        match = _NAME.fullmatch(path.name)
        if match is None or not inside(root, path):
            log.add("unknown-file", _why_unknown(path, root), name)
            continue
        pair = _task_and_split(match["stem"], layout, log, name)
        if pair is None:
            continue
        if pair in found:
            log.add("duplicate-file", f"{found[pair].name} answers the same split; keep one of them", name)
        else:
            found[pair] = PredictionFile(path, *pair, variant)
    return found


def _misplaced(root: Path, log: FaultLog) -> None:
    for path in sorted(root.iterdir()):
        if _NAME.fullmatch(path.name) and not path.name.startswith("."):
            log.add("unknown-file", f"predictions belong in {FOLDER}/; move it there", printable(path.name))


def _why_unknown(path: Path, root: Path) -> str:
    if path.is_dir():
        return f"it is a folder; put the files right into {FOLDER}/"
    if path.is_symlink() and not inside(root, path):
        return "it is a link to something outside the submission; put a copy of the file there"
    if not path.is_file():
        return "it is no plain file"
    packed = " or ".join(f".jsonl{suffix}" for suffix in SUFFIXES.values())
    return f"its name ends neither in {packed}; rename or remove it"


def _task_and_split(stem: str, layout: Layout, log: FaultLog, name: str) -> tuple[str, str] | None:
    task, _, split = stem.rpartition(".")
    known = layout.known_tasks
    if not task or (known is not None and stem in known):
        if layout.wants_task(stem):
            meant = quoted(f"{stem}.validation.jsonl")
            log.add("unknown-split", f"the name has no split; call it {meant} or after its split", name)
        return None
    if split not in SPLITS:
        if layout.wants_task(task):
            log.add("unknown-split", f"{quoted(split)} is no split; {_instead(split, SPLITS)}", name)
        return None
    if not layout.wants(task, split):
        return None
    if known is not None and task not in known:
        log.add("unknown-task", f"{quoted(task)} is no task; {_instead(task, known)}", name)
        return None
    return task, split


def nearest(name: str, known: Collection[str]) -> str | None:
    """The name that was probably meant, if any is near."""
    folded = {other.casefold(): other for other in known}
    meant = _SPLIT_ALIASES.get(name.casefold(), name.casefold())
    near = difflib.get_close_matches(meant, folded, n=1)
    return folded[near[0]] if near else None


def _instead(name: str, known: Collection[str]) -> str:
    near = nearest(name, known)
    return f"did you mean {near!r}?" if near else f"use one of {', '.join(sorted(known))}"
