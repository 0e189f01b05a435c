"""Verify a task's published files and open them for its reader, from a folder, a mirror or the published URLs."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from decabench.archives import extract
from decabench.errors import DataError, MissingDataError, StorageError
from decabench.files import file_digests, make_folder, read_errors, temporary_folder
from decabench.tasks.task import RemoteFile, Source, list_files, published_files
from decabench.text import short_list
from decabench.untrusted import open_parquet

if TYPE_CHECKING:  # importing it loads an HTTP client, which takes longer than preparing a small task
    from decabench.tasks.sources.download import Downloads

Status = Literal["verified", "unpinned", "mirror-differs"]
"""How a file compares with the published file.

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


def make_record(file: RemoteFile, url: str, path: Path) -> FileRecord:
    """Return the record of a file on disk that came from the given URL."""
    with read_errors(path):
        size, digests = path.stat().st_size, file_digests(path, file.digests)
    status: Status = "verified" if file.digests else "unpinned"
    if file.find_faults(size, digests):
        status = "mirror-differs"
    return FileRecord(file.name, url, digests["sha256"], size, status)


class SourceFiles(ExitStack):
    """The local files of one of a task's sources, implementing the `Files` protocol.

    Archive members are extracted into a temporary folder in `scratch`, which is removed on close.
    """

    def __init__(
        self,
        source: Source,
        paths: Mapping[str, Path],
        scratch: Path,
        records: tuple[FileRecord, ...] = (),
        missing: tuple[str, ...] = (),
        downloads: Downloads | None = None,
    ) -> None:
        super().__init__()
        self.source = source
        self.records = records
        """The digests and origin of each file."""
        self.missing = missing
        """Requested splits that the source doesn't have."""
        self._paths = dict(paths)
        self._scratch = scratch
        self._downloads = downloads
        self._extracted: dict[str, Path] | None = None

    def path(self, name: str) -> Path:
        """Return the local path of a file or archive member. Members are extracted on the first call.

        Raises MissingDataError for an unknown name, and DataError for an empty file or a member that the archive lacks.
        """
        if name in self._paths:
            return _require_content(self._paths[name], name)
        member = next((each for each in self.source.members if PurePosixPath(each).name == name), None)
        if member is None:
            raise MissingDataError(
                f"The files for the requested splits ({', '.join(self._paths)}) do not include {name}. "
                "Also prepare the split that contains this file."
            )
        archive, *_ = self._paths
        if self._extracted is None:
            folder = self.enter_context(temporary_folder(make_folder(self._scratch), "extracted"))
            self._extracted = extract(self.path(archive), self.source.members, folder)
        if member not in self._extracted:
            raise DataError(
                f"The archive {archive} has no member {member}, so it is not the file that upstream publishes. "
                f"{_REMEDY}."
            )
        return _require_content(self._extracted[member], f"The member {member} of {archive}")

    def forget(self) -> None:
        """Make the next run download unverified files again, because they couldn't be read."""
        for record in self.records:
            if self._downloads is not None and record.status != "verified":
                self._downloads.forget(RemoteFile(record.name))

    def describe_differing(self) -> str:
        """Name the files that differ from the published files, with both sizes. Returns "" if there are none."""
        published = published_files([self.source])
        return " ".join(
            f"{file.name} differs from the published file{file.describe_size(record.size)}."
            for record in self.records
            if record.status == "mirror-differs"
            for file in [published.get(record.name, RemoteFile(record.name))]
        )

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
                for batch in file.iter_batches(1024, columns=list(columns or present)):
                    yield from batch.to_pylist()
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


def read_folder(
    task: str, sources: Sequence[Source], splits: Sequence[str], folder: Path, scratch: Path, origin: str
) -> SourceFiles:
    """Open the source with the most complete splits in `folder`. Its files are read in place.

    The other splits are listed as missing. `origin` is recorded with each file, as `mirror` or `local`.
    If a SHA256SUMS file exists next to the task's folder in a mirror, the files must match it. Raises
    MissingDataError if `folder` doesn't have all files of any split from any source, and DataError for
    a damaged file.
    """

    def present(source: Source) -> list[str]:
        return [split for split in splits if split in source.files and not absent(source, split)]

    def absent(source: Source, *splits: str) -> list[str]:
        names = (file.name for split in splits for file in source.files.get(split, ()))
        return [name for name in dict.fromkeys(names) if not (folder / name).is_file()]

    source = max(sources, key=lambda source: len(present(source)))
    found = present(source)
    if not found:
        none = f"split {', '.join(splits)}"
        lacking = {each.name: short_list(absent(each, *splits)) or none for each in sources}
        reasons = "; ".join(f"'{name}': no {names}" for name, names in lacking.items())
        advice = "Add the missing files" if len(sources) == 1 else "Add the files for one of these sources"
        raise MissingDataError(f"{folder} does not contain the files for {task}: {reasons}. {advice}.")
    files = {file.name: file for split in found for file in source.files[split]}
    records = tuple(make_record(file, f"{origin}:{name}", folder / name) for name, file in files.items())
    sums = folder.parent / CHECKSUMS
    listed = _read_checksums(sums, str(sums)) if origin == "mirror" and sums.is_file() else {}
    for record in records:
        if (expected := listed.get(f"{task}/{record.name}", record.sha256)) != record.sha256:
            raise DataError(
                f"{folder / record.name} is damaged: the sha256 is {record.sha256}, but {CHECKSUMS} has {expected}. "
                f"Copy the file again, or correct {CHECKSUMS}."
            )
    missing = tuple(split for split in splits if split not in found)
    return SourceFiles(source, {name: folder / name for name in files}, scratch, records, missing)


def fetch(
    task: str,
    sources: Sequence[Source],
    splits: Sequence[str],
    downloads: Downloads,
    mirror: str | None = None,
) -> SourceFiles:
    """Download the files of the splits from the first source that works, unless they already exist.

    With a mirror, the files come from `<mirror>/<task>/`. They may differ from the published files, but must match
    `<mirror>/SHA256SUMS` if it exists. Raises MissingDataError with the reason for each source, and StorageError if a
    file can't be written.
    """
    from decabench.tasks.sources.download import TransferError, plain_url

    if mirror is None and not any(source.urls for source in sources):
        own = list_files(sources, splits)
        raise MissingDataError(
            f"The files for {task} are not published. Put your own copies ({own}) into the folder "
            f"DIR/{task} and use --mirror DIR."
        )
    listed: dict[str, str] = {}
    if mirror is not None:
        mirror = mirror.rstrip("/")
        # Each mirror has its own folder, because its files may differ from upstream's and must never replace them.
        key = hashlib.sha256(plain_url(mirror).encode()).hexdigest()[:8]
        downloads = replace(downloads, folder=downloads.folder / f"mirror-{key}")
        listed = _fetch_checksums(downloads, mirror)

    def provide(file: RemoteFile) -> FileRecord:
        expected, urls = file, tuple(map(_hub_address, file.urls))
        if mirror is not None:
            expected = RemoteFile(file.name, sha256=listed.get(f"{task}/{file.name}"))
            urls = (f"{mirror}/{quote(task)}/{quote(file.name)}",)
        found, failures = downloads.find(expected, urls), []
        for url in () if found else urls:
            try:
                found = downloads.fetch(expected, url)
                break
            except StorageError:
                raise
            except (TransferError, DataError) as error:
                failures.append(f"{plain_url(url, query=mirror is None)} ({error})")
        if found:
            return make_record(file, f"mirror:{file.name}" if mirror else found, downloads.path(file))
        if not urls:
            raise MissingDataError(f"{file.name} is not published anywhere; only a mirror can provide it")
        raise MissingDataError(f"{file.name} from {' and from '.join(failures)}")

    make_folder(downloads.folder)
    reasons = []
    for source in sources:
        found = [split for split in splits if split in source.files]
        files = {file.name: file for split in found for file in source.files[split]}
        try:
            if not found:
                raise MissingDataError(f"no split {', '.join(splits)}")
            records = tuple(map(provide, files.values()))
        except MissingDataError as error:
            reasons.append(f"'{source.name}': {error}")
        else:
            paths = {name: downloads.path(file) for name, file in files.items()}
            missing = tuple(split for split in splits if split not in found)
            return SourceFiles(source, paths, downloads.folder, records, missing, downloads)
    place = "from any source" if mirror is None else f"from the mirror {plain_url(mirror, query=False)}"
    advice = (
        "Try again later, or use --mirror with a folder or URL that has the files"
        if mirror is None
        else f"Put the files into the folder {task} of the mirror"
    )
    raise MissingDataError(
        f"The files for {task} can't be downloaded {place}: {'; '.join(reasons)}. {advice}."
    )


_HUB = "https://huggingface.co"


def _hub_address(url: str) -> str:
    mirror = os.environ.get("HF_ENDPOINT", "").rstrip("/")
    return mirror + url.removeprefix(_HUB) if mirror and url.startswith(f"{_HUB}/") else url


CHECKSUMS = "SHA256SUMS"
"""The name of the file at the top of a mirror that lists checksums in sha256sum's format."""

_CHECKSUM_LINE = re.compile(r"([0-9A-Fa-f]{64}) [ *](?:\./)?(.+)")


def _fetch_checksums(downloads: Downloads, mirror: str) -> dict[str, str]:
    """Return the mirror's checksums by file, or an empty dict if it has no list of checksums."""
    from decabench.tasks.sources.download import TransferError, plain_url

    file = RemoteFile(CHECKSUMS)
    address = plain_url(f"{mirror}/{CHECKSUMS}", query=False)
    try:
        replace(downloads, force=True).fetch(file, f"{mirror}/{CHECKSUMS}")
    except TransferError as error:
        if error.status in (403, 404, 410) or error.is_page:
            return {}
        raise MissingDataError(f"{address} can't be downloaded ({error}). Try again later.") from error
    return _read_checksums(downloads.path(file), address)


def _read_checksums(path: Path, name: str) -> dict[str, str]:
    """Parse the output of `sha256sum */*` in a mirror into a mapping from `<task>/<name>` to digest.

    Raises DataError for an invalid line. `name` is the name of the file in error messages.
    """
    listed: dict[str, str] = {}
    with read_errors(path):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        if found := _CHECKSUM_LINE.fullmatch(line.rstrip()):
            listed[found[2]] = found[1].lower()
        elif line.strip() and not line.startswith("#"):
            raise DataError(
                f"{name}, line {number}, is not a checksum. Each line must have 64 hexadecimal digits, two spaces and "
                "a name, as sha256sum writes them."
            )
    return listed
