"""Receives submissions to a board: a pull request, read from git, or a folder in a queue.

Everything here is untrusted. Files of a request are read as blobs, without a checkout, which could follow links or run
filters. Submissions in a queue are first moved out of their author's reach.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from decabench.errors import DecabenchError

__all__ = [
    "Problem",
    "PullRequest",
    "SendingLimits",
    "outcome_path",
    "queue_fault",
    "read_request",
    "settle",
    "take_queue",
]

_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""The accepted names of folders, which never need quotes."""
_MOST_FILES = 1_000
_PLAIN = "send only plain files, without links or repositories"
_REFUSED = ".refused"


@dataclass(frozen=True)
class SendingLimits:
    """How much an author may send."""

    megabytes: int = 100
    """The largest size of all files together."""
    quota: tuple[int, int] | None = None
    """(n, days): at most n submissions within that many days; None for no limit."""

    def size_fault(self, files: int, size: int) -> str:
        """Return why something is too large; empty if it is not."""
        if files <= _MOST_FILES and size <= 1_000_000 * self.megabytes:
            return ""
        return f"it has more than {_MOST_FILES:,} files or {self.megabytes:,} MB: send only answers"

    def quota_fault(self, used: int) -> str:
        """Return why an author has to wait; empty if there is no need to."""
        if self.quota is None or used < self.quota[0]:
            return ""
        return f"the limit for an author ({self.quota[0]} in {self.quota[1]} days) is reached: wait"


# A pull request


@dataclass(frozen=True)
class Problem:
    """A fault of a request itself."""

    path: str
    """The file concerned, in the repository."""
    message: str
    """The fault, and what to do."""


@dataclass(frozen=True)
class PullRequest:
    """A pull request that was read."""

    prefix: str
    """The folder of submissions in the repository: `submissions/`."""
    folder: str
    """The changed folder inside the folder of submissions; empty if there is nothing to review."""
    problems: tuple[Problem, ...]
    """Its faults. If there are any, no files were written."""


def read_request(
    into: Path, submissions: Path, commit: str, owner: str | None, limits: SendingLimits
) -> PullRequest:
    """Write the files of a request's changed folder to `into`, and return the request's faults.

    Args:
        into: A folder. `alice/mqan/submission.toml` is written there.
        submissions: The board's folder of submissions, in a clone of its repository.
        commit: The request's last commit, to be merged into the checked-out commit.
        owner: The only folder that the request may change; None for any single folder.
        limits: The largest size, and how many requests that change the folder may be merged within some days.

    Raises DecabenchError if git fails.
    """
    prefix = _git(submissions, "rev-parse", "--show-prefix").decode().rstrip("\n")
    first, last = (
        _git(submissions, "rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}").decode().strip()
        for name in ("HEAD", commit)
    )
    fork = _git(submissions, "merge-base", first, last).decode().strip()
    found = _git(submissions, "diff-tree", "-r", "--no-renames", "--name-only", "-z", fork, last)
    changed = [os.fsdecode(path) for path in found.split(b"\0") if path]
    inside = [path.removeprefix(prefix) for path in changed if path.startswith(prefix)]
    folders = sorted({path.partition("/")[0] for path in inside if "/" in path})
    if not folders:
        loose = [Problem(f"{prefix}{path}", f"put it into a folder in {prefix}") for path in inside]
        return PullRequest(prefix, "", tuple(loose))
    folder = next((each for each in folders if owner and each.casefold() == owner.casefold()), folders[0])
    own = f"{prefix}{folder}/"
    files = list(_list_files(_git(submissions, "ls-tree", "-rzl", "--full-tree", last, own)))
    used = 0
    if limits.quota:
        since = f"--since={limits.quota[1]}.days"
        used = _git(submissions, "log", "--first-parent", since, "--format=%H", first, "--", folder).count(
            b"\n"
        )
    faults = [limits.quota_fault(used), limits.size_fault(len(files), sum(size for _, _, size, _ in files))]
    if not _FOLDER.fullmatch(folder):
        faults.append("name the folder with letters, digits, dots, - and _")
    elif owner and folder.casefold() != owner.casefold():
        faults.append(f"your folder is {prefix}{owner}/: move everything there")
    problems = [
        *(
            Problem(path, f"a request may change only files in {own}")
            for path in changed
            if not path.startswith(own)
        ),
        *(Problem(own, fault) for fault in faults if fault),
        *(Problem(path, fault) for path, _, _, fault in files if fault),
    ]
    for path, blob, _, _ in () if problems else files:
        target = into / path.removeprefix(prefix)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_git(submissions, "cat-file", "blob", blob))
    return PullRequest(prefix, folder if files else "", tuple(problems))


def _list_files(listing: bytes) -> Iterator[tuple[str, str, int, str]]:
    """Yield the path, blob, size and fault of each entry of a tree."""
    for line in listing.split(b"\0")[:-1]:
        head, _, name = line.partition(b"\t")
        mode, _, blob, size = head.decode().split()
        path = os.fsdecode(name)
        is_file = mode in ("100644", "100755") and not {"", ".", "..", ".git"}.intersection(path.split("/"))
        yield path, blob, int(size) if size.isdecimal() else 0, "" if is_file else _PLAIN


def _git(folder: Path, *arguments: str) -> bytes:
    """Return the output of git. Raises DecabenchError if it fails."""
    try:
        done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, check=False)
    except OSError as error:
        raise DecabenchError(f"git cannot be started: {error.strerror}. Install it.") from error
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().rstrip(".") or "no reason given"
        raise DecabenchError(f"git {arguments[0]} failed: {reason}. Check the commits and the folder.")
    return done.stdout


# A queue


def take_queue(queue: Path, submissions: Path) -> list[Path]:
    """Move new submissions out of their authors' reach; return them, with those left by an interrupted run.

    Each path ends in `<author>/<name>`. Names that begin with a dot are still being uploaded.
    """
    taken = submissions / ".taken"
    taken.mkdir(parents=True, exist_ok=True)
    for place in _waiting(queue):
        _move(place, taken / place.parent.name / place.name)
    return _waiting(taken)


def _waiting(folder: Path) -> list[Path]:
    authors = [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
    return sorted(
        path
        for author in authors
        for path in author.iterdir()
        if _FOLDER.fullmatch(author.name) and not path.name.startswith(".")
    )


def queue_fault(place: Path, results: Path, now: datetime, limits: SendingLimits) -> str:
    """Return why a submission in a queue is not opened; empty if it is. `results` has its author's outcomes."""
    if not _FOLDER.fullmatch(place.name):
        return "name it with letters, digits, dots, - and _"
    files = [place, *place.rglob("*")] if place.is_dir() and not place.is_symlink() else [place]
    for path in files:
        if path.is_symlink() or not (path.is_file() or path.is_dir()) or path.name.casefold() == ".git":
            return _PLAIN
    used = 0
    if limits.quota:
        begin = _stamp(now - timedelta(days=limits.quota[1]))
        used = sum(path.name >= begin for path in results.glob("*.md") if not path.stem.endswith(_REFUSED))
    size = sum(path.stat().st_size for path in files if path.is_file())
    return limits.quota_fault(used) or limits.size_fault(len(files), size)


def outcome_path(results: Path, place: Path, now: datetime, is_valid: bool) -> Path:
    """Return the path for a submission's outcome: `results/alice/2026-11-29T060000-mqan.md`."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", place.name)[:100]
    return results / place.parent.name / f"{_stamp(now)}-{name}{'' if is_valid else _REFUSED}.md"


def settle(place: Path, submissions: Path, is_valid: bool) -> None:
    """Move a submission to the board's submissions or to the refused ones, replacing an earlier version."""
    _move(place, (submissions if is_valid else submissions / _REFUSED) / place.parent.name / place.name)


def _stamp(now: datetime) -> str:
    return f"{now:%Y-%m-%dT%H%M%S}"


def _move(place: Path, target: Path) -> None:
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(place, target)
