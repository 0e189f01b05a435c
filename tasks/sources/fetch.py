"""The files of a task from the network: from the first source that works, or from a web mirror."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from decabench.errors import DataError, MissingDataError, StorageError
from decabench.files import make_folder
from decabench.tasks.sources.download import Downloads
from decabench.tasks.sources.hub import fetch_from_hub, hub_address
from decabench.tasks.sources.local_files import (
    Digests,
    FileRecord,
    SourceFiles,
    make_record,
    open_source,
)
from decabench.tasks.sources.network import TransferError, plain_url
from decabench.tasks.task import RemoteFile, Source

__all__ = ["fetch", "fetch_from_mirror"]


def fetch(task: str, sources: Sequence[Source], splits: Sequence[str], downloads: Downloads) -> SourceFiles:
    """Download the files of the splits from the first source that works; existing files are not downloaded again.

    Raises MissingDataError with what was tried and why it failed, and StorageError.
    """

    def provide(source: Source, files: list[RemoteFile]) -> list[tuple[Path, FileRecord]]:
        return [_fetch_file(downloads, source, file) for file in files]

    make_folder(downloads.folder)
    try:
        return open_source(sources, splits, provide, downloads.folder)
    except MissingDataError as error:
        raise MissingDataError(
            f"The files for {task} could not be downloaded from any source: {error}; "
            "try again later, or use --mirror with a folder or URL that has them."
        ) from error


def _fetch_file(downloads: Downloads, source: Source, file: RemoteFile) -> tuple[Path, FileRecord]:
    if source.hub is None:
        return _fetch_from_urls(downloads, file)
    address = hub_address(source.hub, file.name)
    try:
        path, digests = fetch_from_hub(source.hub, file, downloads)
    except StorageError:
        raise
    except (TransferError, DataError) as error:
        raise MissingDataError(f"{address} ({error})") from error
    return path, make_record(file, address, digests)


def _fetch_from_urls(downloads: Downloads, file: RemoteFile) -> tuple[Path, FileRecord]:
    if not file.urls:
        raise MissingDataError(f"{file.name} is not published anywhere: only a mirror can have it")
    path = downloads.path(file)
    if origin := downloads.find(file, file.urls):
        return path, make_record(file, origin.url, origin.digests)
    failures = []
    for url in file.urls:
        try:
            return path, make_record(file, plain_url(url), downloads.fetch(file, url))
        except StorageError:
            raise
        except (TransferError, DataError) as error:
            failures.append(f"{plain_url(url)} ({error})")
    raise MissingDataError(f"{file.name} from {' and from '.join(failures)}")


def fetch_from_mirror(
    task: str, sources: Sequence[Source], splits: Sequence[str], downloads: Downloads, mirror: str
) -> SourceFiles:
    """Download the files of the splits from `<mirror>/<task>/`, whatever their digests.

    Raises MissingDataError with the files that the mirror lacks, and StorageError.
    """
    mirror = mirror.rstrip("/")
    # A folder for each mirror: its files may differ from upstream's, and must never replace them.
    key = hashlib.sha256(plain_url(mirror).encode()).hexdigest()[:8]
    kept = replace(downloads, folder=downloads.folder / f"mirror-{key}", strict=False)

    def provide(_: Source, files: list[RemoteFile]) -> list[tuple[Path, FileRecord]]:
        return [(kept.path(file), make_record(file, f"mirror:{file.name}", digests(file))) for file in files]

    def digests(file: RemoteFile) -> Digests:
        url = f"{mirror}/{quote(task)}/{quote(file.name)}"
        origin = kept.find(file, (url,))
        try:
            return origin.digests if origin else kept.fetch(file, url)
        except TransferError as error:
            raise MissingDataError(f"no {file.name} ({error})") from error

    make_folder(downloads.folder)
    try:
        return open_source(sources, splits, provide, downloads.folder)
    except MissingDataError as error:
        raise MissingDataError(
            f"The mirror {plain_url(mirror, query=False)} does not contain the files for {task}: {error}; "
            f"they belong in its folder {task}."
        ) from error
