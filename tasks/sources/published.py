"""Verify a task's published files and open them for its reader, from a folder, a mirror or the published URLs."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from decabench.archives import extract
from decabench.errors import DataError, MissingDataError, StorageError
from decabench.files import file_digests, make_folder, temporary_folder
from decabench.tasks.task import RemoteFile, Source
from decabench.text import describe_error, short_list
from decabench.untrusted import open_parquet

if TYPE_CHECKING:  # importing it loads an HTTP client, which takes longer than preparing a small task
    from decabench.tasks.sources.download import Downloads

Status = Literal["verified", "unpinned", "mirror-differs"]
"""Whether a file equals the published file.

`unpinned` means that no digest is published. Only files from a mirror are allowed to differ.
"""


@dataclass(frozen=True)
class FileRecord:
    """A file that a split was read from, as recorded in `task.json`."""

    name: str
    """The published name."""
    url: str
    """The URL that the file came from, or `mirror:<name>` or `local:<name>`."""
    sha256: str
    """The sha256 of the bytes that were read."""
    size: int
    """The size in bytes."""
    status: Status
    """How the file compares with the published file."""


def make_record(file: RemoteFile, url: str, path: Path, digests: Mapping[str, str]) -> FileRecord:
    """Return the record of a file on disk, given its digests and the URL it came from."""
    size = path.stat().st_size
    status: Status = "verified" if file.digests else "unpinned"
    if file.find_faults(size, digests):
        status = "mirror-differs"
    return FileRecord(file.name, url, digests["sha256"], size, status)


class LocalFiles(ExitStack):
    """Local files under their published names, implementing the `Files` protocol.

    Archive members are extracted into a temporary folder in `scratch`, which is removed on close.
    """

    def __init__(self, paths: Mapping[str, Path], scratch: Path, members: tuple[str, ...] = ()) -> None:
        super().__init__()
        self._paths = dict(paths)
        self._scratch = scratch
        self._members = members
        self._extracted: dict[str, Path] | None = None

    def path(self, name: str) -> Path:
        """Return the local path of a file or archive member. Members are extracted on the first call.

        Raises MissingDataError for an unknown name, and DataError for an empty file or a member that the archive lacks.
        """
        if name in self._paths:
            return _require_content(self._paths[name], name)
        member = next((each for each in self._members if PurePosixPath(each).name == name), None)
        if member is None:
            raise MissingDataError(
                f"{name} is not among the files for the requested splits ({', '.join(self._paths)}). "
                "Also prepare the split that contains this file."
            )
        archive, *_ = self._paths
        if self._extracted is None:
            folder = self.enter_context(temporary_folder(make_folder(self._scratch), "extracted"))
            self._extracted = extract(self.path(archive), self._members, folder)
        if member not in self._extracted:
            raise DataError(
                f"The archive {archive} has no member {member}, so it is not the file that upstream publishes. "
                f"{_REMEDY}."
            )
        return _require_content(self._extracted[member], f"The member {member} of {archive}")

    def rows(self, name: str, columns: tuple[str, ...] = ()) -> Iterator[Mapping[str, Any]]:
        """Stream the rows of a parquet file, with all columns or only the given columns.

        About a thousand rows are in memory at once. Raises DataError if the file is damaged or lacks a column.
        """
        import pyarrow as arrow

        path = self.path(name)
        try:
            # With a large buffer, memory would grow with the row groups, which can be as large as the file.
            with open_parquet(path, buffer_size=1 << 20, pre_buffer=False) as file:
                present = file.schema_arrow.names
                if absent := [column for column in columns if column not in present]:
                    raise DataError(
                        f"{name} has no column {', '.join(absent)} (it has {', '.join(present)}), "
                        "so it is not the file that upstream publishes."
                    )
                read = 0
                for batch in file.iter_batches(1024, columns=list(columns or present)):
                    try:
                        rows = batch.to_pylist()
                    except (ValueError, OverflowError) as error:  # for example, a date out of range
                        place = f"{name}, rows {read + 1} to {read + len(batch)}"
                        raise DataError(f"{place}, can't be read ({describe_error(error)}).") from error
                    yield from rows
                    read += len(rows)
        except (arrow.ArrowException, OSError) as error:
            raise DataError(
                f"{name} is not a complete parquet file ({type(error).__name__}). {_REMEDY}."
            ) from error


_REMEDY = "Replace the file, or fetch it again with --force if it was downloaded"


def _require_content(path: Path, name: str) -> Path:
    """Return the path. Raises DataError if the file is empty, because published files never are."""
    if path.exists() and path.stat().st_size == 0:
        raise DataError(f"{name} is empty. {_REMEDY}.")
    return path


@dataclass(frozen=True)
class SourceFiles:
    """The local files of one of a task's sources."""

    files: LocalFiles
    """The files for the source's reader. The caller must close them."""
    source: Source
    """The source that the files belong to."""
    records: tuple[FileRecord, ...]
    """The digests and origin of each file."""
    missing: tuple[str, ...] = ()
    """Requested splits that this source doesn't have."""
    downloads: Downloads | None = None
    """The download folder that contains the files, or None if they are read in place."""

    def forget(self) -> None:
        """Make the next run download unverified files again, because they couldn't be read."""
        for record in self.records:
            if self.downloads is not None and record.status != "verified":
                self.downloads.forget(RemoteFile(record.name))


Provider = Callable[[list[RemoteFile]], list[tuple[Path, FileRecord]]]
"""A function that returns the path and record of each file. Raises MissingDataError if a file is missing."""


def _open_source(
    sources: Sequence[Source], splits: Sequence[str], provide: Provider, scratch: Path
) -> SourceFiles:
    """Open the first source whose files can be provided.

    Raises MissingDataError with the reason for each source, and DataError for a damaged file.
    """
    failures = []
    for source in sources:
        missing = tuple(split for split in splits if split not in source.files)
        files = {file.name: file for split in splits for file in source.files.get(split, ())}
        try:
            if len(missing) == len(splits):
                raise MissingDataError(f"no split {', '.join(missing)}")
            provided = provide(list(files.values()))
        except MissingDataError as error:
            failures.append(f"'{source.name}': {error}")
        else:
            paths = {record.name: path for path, record in provided}
            records = tuple(record for _, record in provided)
            return SourceFiles(LocalFiles(paths, scratch, source.members), source, records, missing)
    raise MissingDataError("; ".join(failures) or "the task has no sources")


def read_folder(
    task: str, sources: Sequence[Source], splits: Sequence[str], folder: Path, scratch: Path, origin: str
) -> SourceFiles:
    """Open the first source whose files are all in `folder`, and read them in place.

    If no source is complete, the first source with all files of at least one split is opened, and the other
    splits are listed as missing. `origin` is recorded with each file, as `mirror` or `local`. If a SHA256SUMS
    file exists next to the task's folder in a mirror, the files must match it. Raises MissingDataError if no source
    has all files of a split, and DataError for a damaged file.
    """
    listed = _read_checksums(folder.parent / CHECKSUMS) if origin == "mirror" else {}

    def provide(files: list[RemoteFile]) -> list[tuple[Path, FileRecord]]:
        if absent := [file.name for file in files if not (folder / file.name).is_file()]:
            raise MissingDataError(f"no {short_list(absent)}")
        return [(folder / file.name, record(file)) for file in files]

    def record(file: RemoteFile) -> FileRecord:
        path = folder / file.name
        try:
            digests = file_digests(path, file.digests)
        except OSError as error:
            raise MissingDataError(f"{file.name} can't be read ({error.strerror})") from error
        expected = listed.get(f"{task}/{file.name}", digests["sha256"])
        if digests["sha256"] != expected:
            raise DataError(
                f"{path} is damaged: the sha256 is {digests['sha256']}, but {CHECKSUMS} has {expected}. Copy the file "
                f"again, or correct {CHECKSUMS}."
            )
        return make_record(file, f"{origin}:{file.name}", path, digests)

    try:
        return _open_source(sources, splits, provide, scratch)
    except MissingDataError as error:
        for source in sources:
            there = [
                split
                for split in splits
                if (files := source.files.get(split))
                and all((folder / file.name).is_file() for file in files)
            ]
            if there:
                rest = tuple(split for split in splits if split not in there)
                return replace(_open_source([source], there, provide, scratch), missing=rest)
        advice = "Add the missing files" if len(sources) == 1 else "Add the files for one of these sources"
        raise MissingDataError(
            f"{folder} does not contain the files for {task}: {error}. {advice}."
        ) from error


def fetch(task: str, sources: Sequence[Source], splits: Sequence[str], downloads: Downloads) -> SourceFiles:
    """Download the files of the splits from the first source that works, unless they already exist.

    Raises MissingDataError with the reason for each source, and StorageError if a file can't be written.
    """
    from decabench.tasks.sources.download import TransferError, plain_url

    def provide(file: RemoteFile) -> tuple[Path, FileRecord]:
        if not file.urls:
            raise MissingDataError(f"{file.name} is not published anywhere; only a mirror can provide it")
        path, urls = downloads.path(file), tuple(map(_hub_address, file.urls))
        if found := downloads.find(file, urls):
            return path, make_record(file, found[0], path, found[1])
        failures = []
        for url in urls:
            try:
                digests = downloads.fetch(file, url)
            except StorageError:
                raise
            except (TransferError, DataError) as error:
                failures.append(f"{plain_url(url)} ({error})")
            else:
                return path, make_record(file, plain_url(url), path, digests)
        raise MissingDataError(f"{file.name} from {' and from '.join(failures)}")

    if not any(source.urls for source in sources):
        names = [
            dict.fromkeys(file.name for split in splits for file in source.files.get(split, ()))
            for source in sources
        ]
        own = "; or ".join(short_list(list(each)) for each in names)
        raise MissingDataError(
            f"The files for {task} are not published. Put your own copies ({own}) into the folder "
            f"DIR/{task} and use --mirror DIR."
        )
    make_folder(downloads.folder)
    try:
        opened = _open_source(sources, splits, lambda files: list(map(provide, files)), downloads.folder)
        return replace(opened, downloads=downloads)
    except MissingDataError as error:
        raise MissingDataError(
            f"The files for {task} can't be downloaded from any source: {error}. "
            "Try again later, or use --mirror with a folder or URL that has the files."
        ) from error


def fetch_from_mirror(
    task: str, sources: Sequence[Source], splits: Sequence[str], downloads: Downloads, mirror: str
) -> SourceFiles:
    """Download the files of the splits from `<mirror>/<task>/`, regardless of published digests.

    Files listed in `<mirror>/SHA256SUMS` must match it. Raises MissingDataError with the files that the
    mirror lacks, DataError for a damaged file, and StorageError if a file can't be written.
    """
    from decabench.tasks.sources.download import TransferError, plain_url

    mirror = mirror.rstrip("/")
    shown = plain_url(mirror, query=False)
    # Each mirror has its own folder, because its files may differ from upstream's and must never replace
    # them.
    key = hashlib.sha256(plain_url(mirror).encode()).hexdigest()[:8]
    kept = replace(downloads, folder=downloads.folder / f"mirror-{key}", strict=False)
    listed = _fetch_checksums(kept, mirror)

    def provide(file: RemoteFile) -> tuple[Path, FileRecord]:
        url, path = f"{mirror}/{quote(task)}/{quote(file.name)}", kept.path(file)
        expected, into = file, kept
        if digest := listed.get(f"{task}/{file.name}"):
            expected = RemoteFile(file.name, sha256=digest, size=file.size)
            into = replace(kept, strict=True, standard=f"the one in the mirror's {CHECKSUMS}")
        found = into.find(expected, (url,))
        try:
            digests = found[1] if found else into.fetch(expected, url)
        except TransferError as error:
            raise MissingDataError(f"no {file.name} ({error})") from error
        except StorageError:
            raise
        except DataError as error:
            raise DataError(f"{file.name} from the mirror {shown} is damaged: {error}.") from error
        if digest:
            digests = file_digests(path, file.digests)
        return path, make_record(file, f"mirror:{file.name}", path, digests)

    make_folder(downloads.folder)
    try:
        opened = _open_source(sources, splits, lambda files: list(map(provide, files)), downloads.folder)
        return replace(opened, downloads=kept)
    except MissingDataError as error:
        raise MissingDataError(
            f"The mirror {shown} does not contain the files for {task}: {error}. Put the files in the "
            f"mirror's folder {task}."
        ) from error


_HUB = "https://huggingface.co"


def _hub_address(url: str) -> str:
    mirror = os.environ.get("HF_ENDPOINT", "").rstrip("/")
    return mirror + url.removeprefix(_HUB) if mirror and url.startswith(f"{_HUB}/") else url


CHECKSUMS = "SHA256SUMS"
"""The name of the file at the top of a mirror that lists checksums in sha256sum's format."""

_CHECKSUM_LINE = re.compile(r"([0-9A-Fa-f]{64}) [ *](?:\./)?(.+)")
_LONGEST_LIST = 16 << 20


def _read_checksums(path: Path) -> dict[str, str]:
    try:
        if path.stat().st_size > _LONGEST_LIST:
            raise DataError(
                f"{path} is larger than {_LONGEST_LIST >> 20} MiB, so it is not a list of checksums."
            )
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DataError(
            f"{path} can't be read ({error.strerror}). Make the file readable, or remove it."
        ) from error
    return _parse_checksums(content, str(path))


def _fetch_checksums(downloads: Downloads, mirror: str) -> dict[str, str]:
    """Return the mirror's checksums by file, or an empty dict if it has no list of checksums."""
    from decabench.tasks.sources.download import TransferError, plain_url

    file = RemoteFile(CHECKSUMS)
    address = plain_url(f"{mirror}/{CHECKSUMS}", query=False)
    limited = replace(downloads, network=replace(downloads.network, largest=_LONGEST_LIST), force=True)
    try:
        limited.fetch(file, f"{mirror}/{CHECKSUMS}")
        content = limited.path(file).read_bytes()
    except TransferError as error:
        if error.status in (403, 404, 410) or error.is_page:
            return {}
        raise MissingDataError(f"{address} can't be downloaded ({error}). Try again later.") from error
    finally:
        limited.forget(file)
        limited.path(file).unlink(missing_ok=True)
    return _parse_checksums(content, address)


def _parse_checksums(content: bytes, name: str) -> dict[str, str]:
    """Parse the output of `sha256sum */*` in a mirror into a mapping from `<task>/<name>` to digest.

    Raises DataError if a line is invalid or contradicts an earlier line.
    """
    listed: dict[str, str] = {}
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        found = _CHECKSUM_LINE.fullmatch(line.rstrip())
        if found is None and line.strip() and not line.startswith("#"):
            raise DataError(
                f"{name}, line {number}, is not a checksum. Each line must have 64 hexadecimal digits, two spaces and "
                "a name, as sha256sum writes them."
            )
        if found is not None and listed.setdefault(found[2], found[1].lower()) != found[1].lower():
            raise DataError(
                f"{name}, line {number}, has a different checksum for a file that is already listed."
            )
    return listed
