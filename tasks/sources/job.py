"""What is fetched, and which files of a source that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from decabench.tasks.sources.network import Network
from decabench.tasks.task import RemoteFile, Source

__all__ = ["Job", "files_of"]


@dataclass(frozen=True)
class Job:
    """What is fetched, and where to."""

    task: str
    """The task's name, which is its folder in a mirror."""
    splits: tuple[str, ...]
    """The splits asked for."""
    folder: Path
    """Where downloads lie."""
    mirror: str | None
    """A folder or an HTTP(S) address that holds the files instead of upstream."""
    progress: bool
    """Whether downloads show a bar (on a terminal)."""
    force: bool
    """Whether to download again what is there."""
    network: Network
    """How patient downloads are."""


def files_of(source: Source, splits: Sequence[str]) -> list[RemoteFile]:
    """The files that the splits are read from, each once, in order."""
    files = (file for split in splits for file in source.files.get(split, ()))
    return list({file.name: file for file in files}.values())
