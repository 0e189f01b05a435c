"""Values that the tests of sources are made from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from decabench.tasks.example import Example
from decabench.tasks.task import Files, RemoteFile, Source

__all__ = ["git_blob", "no_reader", "pinned", "sha256", "source"]


def no_reader(files: Files, split: str) -> Iterator[Example]:
    """These tests read no examples."""
    yield from ()


def sha256(path: Path) -> str:
    """The digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def git_blob(content: bytes) -> str:
    """The id under which git stores the bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def pinned(path: Path, *urls: str, **others: Any) -> RemoteFile:
    """The file as published, with its sha256."""
    return RemoteFile(path.name, urls, sha256(path), **others)


def source(*files: RemoteFile, name: str = "upstream", **others: Any) -> Source:
    """A source with one split, `train`."""
    return Source(name, {"train": files}, no_reader, **others)
