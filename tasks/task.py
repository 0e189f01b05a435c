"""What a task is: a value that names its data, its reader and its metric. No subclassing, no work on import."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from decabench.tasks.example import Example
from decabench.tasks.variants import Variant

__all__ = ["Files", "Hub", "RemoteFile", "Source", "Task"]


class Files(Protocol):
    """Verified local files of one source, as a reader sees them. Every method streams."""

    def path(self, name: str) -> Path:
        """The local path of a file."""

    def member(self, name: str, member: str) -> Path:
        """The local path of one member of an archive, extracted on first use."""

    def rows(self, name: str, columns: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
        """The rows of a parquet file, a few thousand in memory at a time."""


Reader = Callable[[Files, str], Iterator[Example]]
"""(files, split) -> that split's examples in upstream's order."""


@dataclass(frozen=True)
class RemoteFile:
    """A file that upstream publishes and a mirror may hold under the same name."""

    name: str
    """Its name in a mirror, below the task's folder: `train-v1.1.json`, `3.0.0/test-....parquet`."""
    urls: tuple[str, ...] = ()
    """Where it can be had, in order; none for a form that only mirrors have."""
    sha256: str | None = None
    """The published digest, where one is known."""
    size: int | None = None
    """Bytes, where known."""
    md5: str | None = None
    """A weaker published digest, where it is all there is."""
    git_blob: str | None = None
    """The id of the git blob (sha1 over `blob <size>\\0` + bytes), where it is all there is."""


@dataclass(frozen=True)
class Hub:
    """A parquet dataset on the Hugging Face hub, at a commit."""

    repository: str
    """`owner/name`."""
    revision: str
    """A full commit hash."""


@dataclass(frozen=True)
class Source:
    """One form in which a dataset is published, with the reader for that form."""

    name: str
    """Short: `upstream json`, `hub parquet`."""
    files: Mapping[str, tuple[RemoteFile, ...]]
    """Split to the files that it is read from (several splits may share one)."""
    read: Reader
    """Turns them into examples."""
    hub: Hub | None = None
    """Set where the files are parquet on the hub; the file names are then paths in the repository."""
    members: tuple[str, ...] = ()
    """Members of archives that the reader asks for, so that one pass can extract them all."""


@dataclass(frozen=True)
class Task:
    """A task of the benchmark."""

    name: str
    """decaNLP's name: `squad`, `iwslt.en.de`."""
    title: str
    """What a person calls it: `Question answering`."""
    dataset: str
    """What it is made from: `SQuAD 1.1`."""
    metric: str
    """The name of its headline metric in `decabench.metrics.METRICS`."""
    counts: Mapping[str, int]
    """Published number of examples by split; those of `hidden` splits too."""
    sources: tuple[Source, ...]
    """Where the data can be had, in the order in which they are tried."""
    licence: str
    """Under which terms the text may be used."""
    citation: str
    """Authors, year and title of the dataset's paper."""
    homepage: str = ""
    """Where a person reads about it."""
    version: int = 1
    """Raised whenever the same files would give other triples."""
    secondary: tuple[str, ...] = ("nf1",)
    """Other metrics that are computed beside the headline."""
    hidden: tuple[str, ...] = ()
    """Splits whose labels are not public."""
    gold_score: str = ""
    """The score that gold answers must bring to 100, where a quirk of the official scorer denies them the headline."""
    extractive: bool = False
    """Whether an answer is a part of the context, so that a context that was cut may have lost it."""
    variants: tuple[Variant, ...] = ()
    """Other wordings of its questions, numbered from 1: 0 is the dataset's own."""
    notes: str = ""
    """Where the triples differ from what a reader of the paper may expect."""
    origin: str = "decabench"
    """Who defined it: `decabench`, or `user` for a file or an entry point."""
    folder: Path | None = None
    """Where its files lie, for a task whose data is local and never downloaded."""
