"""Local files of one source: paths, members of archives, rows of parquet."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import uuid4

from decabench.errors import DataError, MissingDataError
from decabench.tasks.sources.download import Network
from decabench.tasks.sources.members import extract
from decabench.tasks.task import RemoteFile, Source

__all__ = ["Job", "LocalFiles", "files_of", "parquet_columns", "scratch_in"]

# ---- job


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


# ---- files

_BATCH = 1024
_SCRATCH = ".extract-"
_STALE = 24 * 3600


def scratch_in(folder: Path) -> Path:
    """A name for a new scratch folder; those that killed runs left a day ago are removed."""
    for old in folder.glob(f"{_SCRATCH}*"):
        if old.is_dir() and time.time() - old.stat().st_mtime > _STALE:
            shutil.rmtree(old, ignore_errors=True)
    return folder / f"{_SCRATCH}{uuid4().hex[:12]}"


class LocalFiles:
    """Files under upstream's names. Implements the Files protocol; closing it removes what it extracted."""

    def __init__(self, paths: Mapping[str, Path], scratch: Path, members: tuple[str, ...] = ()) -> None:
        self._paths = dict(paths)
        self._scratch = scratch
        self._members = members
        self._extracted: dict[str, dict[str, Path]] = {}

    def path(self, name: str) -> Path:
        """The local path of a file."""
        if name not in self._paths:
            known = ", ".join(self._paths)
            raise MissingDataError(f"{name} is not among the files fetched ({known}): prepare its split too.")
        return self._paths[name]

    def member(self, name: str, member: str) -> Path:
        """The local path of a member of an archive; `outer!inner` names one of an archive inside it.

        The first call extracts all members that the source declares, in one pass.
        """
        archive = self.path(name)
        extracted = self._extracted.setdefault(name, {})
        if member not in extracted:
            wanted = {member} if extracted else {member, *self._members}
            extracted |= extract(archive, wanted, self._scratch / name.replace("/", "_"))
        if member not in extracted:
            raise DataError(
                f"The archive {name} has no member {member}: it is not the file that upstream publishes; "
                "fetch it again with --force, or name another --mirror."
            )
        return extracted[member]

    def rows(self, name: str, columns: tuple[str, ...] = ()) -> Iterator[Mapping[str, Any]]:
        """The rows of a parquet file with the columns named, or all; about a thousand in memory at a time."""
        import pyarrow as arrow
        import pyarrow.parquet as parquet

        path = self.path(name)
        try:
            # A small buffer, so that memory does not grow with the row groups, which may be the whole file.
            with parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
                chosen = parquet_columns(name, columns, file.schema_arrow.names)
                for batch in file.iter_batches(_BATCH, columns=chosen):
                    yield from batch.to_pylist()
        except (arrow.ArrowException, OSError) as error:
            raise DataError(
                f"{name} is not a whole parquet file ({type(error).__name__}): fetch it again with --force."
            ) from error

    def close(self) -> None:
        """Removes what was extracted."""
        self._extracted.clear()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> LocalFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def parquet_columns(name: str, columns: tuple[str, ...], present: list[str]) -> list[str]:
    """The columns asked for. Raises DataError where the file lacks one, which parquet readers pass over."""
    absent = [column for column in columns if column not in present]
    if absent:
        raise DataError(
            f"{name} has no column {', '.join(absent)} (it has {', '.join(present)}): "
            "it is not the file that upstream publishes."
        )
    return list(columns or present)
