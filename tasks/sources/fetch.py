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
    CHECKSUMS,
    Digests,
    FileRecord,
    SourceFiles,
    find_faults,
    make_record,
    open_source,
    parse_checksums,
    published_digests,
)
from decabench.tasks.sources.network import TransferError, plain_url
from decabench.tasks.task import RemoteFile, Source
from decabench.text import short_list

__all__ = ["fetch", "fetch_from_mirror"]


def fetch(task: str, sources: Sequence[Source], splits: Sequence[str], downloads: Downloads) -> SourceFiles:
    """Download the files of the splits from the first source that works; existing files are not downloaded again.

    Raises MissingDataError with what was tried and why it failed, and StorageError.
    """

    unpinned: dict[RemoteFile, bool] = {}

    def provide(source: Source, files: list[RemoteFile]) -> list[tuple[Path, FileRecord]]:
        if source.hub is None:
            unpinned.update(
                {file: downloads.path(file).exists() for file in files if not published_digests(file)}
            )
        return [_fetch_file(downloads, source, file) for file in files]

    def forget() -> bool:
        for file in unpinned:
            downloads.forget(file)
        return any(unpinned.values())

    if not any(source.is_downloadable for source in sources):
        own = "; or ".join(_own_files(source, splits) for source in sources)
        raise MissingDataError(
            f"The files for {task} are not published: put your own ({own}) into the folder DIR/{task} and use --mirror "
            "DIR."
        )
    make_folder(downloads.folder)
    try:
        return replace(open_source(sources, splits, provide, downloads.folder), forget=forget)
    except MissingDataError as error:
        raise MissingDataError(
            f"The files for {task} could not be downloaded from any source: {error}; "
            "try again later, or use --mirror with a folder or URL that has them."
        ) from error


def _own_files(source: Source, splits: Sequence[str]) -> str:
    return short_list(
        list(dict.fromkeys(file.name for split in splits for file in source.files.get(split, ())))
    )


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
    """Download the files of the splits from `<mirror>/<task>/`, whatever their published digests.

    A file that `<mirror>/SHA256SUMS` lists must be as listed. Raises MissingDataError with the files that the mirror
    lacks, DataError for a damaged one, and StorageError.
    """
    mirror = mirror.rstrip("/")
    # A folder for each mirror: its files may differ from upstream's, and must never replace them.
    key = hashlib.sha256(plain_url(mirror).encode()).hexdigest()[:8]
    kept = replace(downloads, folder=downloads.folder / f"mirror-{key}", strict=False)
    listed = _fetch_checksums(kept, mirror)
    unverified: dict[RemoteFile, bool] = {}

    def provide(_: Source, files: list[RemoteFile]) -> list[tuple[Path, FileRecord]]:
        return [(kept.path(file), make_record(file, f"mirror:{file.name}", digests(file))) for file in files]

    def digests(file: RemoteFile) -> Digests:
        url = f"{mirror}/{quote(task)}/{quote(file.name)}"
        expected, into = file, kept
        if digest := listed.get(f"{task}/{file.name}"):
            expected = RemoteFile(file.name, sha256=digest, size=file.size)
            into = replace(kept, strict=True, standard=f"the one in the mirror's {CHECKSUMS}")
        origin = into.find(expected, (url,))
        try:
            found = origin.digests if origin else into.fetch(expected, url)
        except TransferError as error:
            raise MissingDataError(f"no {file.name} ({error})") from error
        except StorageError:
            raise
        except DataError as error:
            raise DataError(
                f"{file.name} from the mirror {plain_url(mirror, query=False)} is damaged: {error}."
            ) from error
        if not digest and (find_faults(file, found) or not published_digests(file)):
            unverified[file] = origin is not None
        return found

    def forget() -> bool:
        for file in unverified:
            kept.forget(file)
        return any(unverified.values())

    make_folder(downloads.folder)
    try:
        return replace(open_source(sources, splits, provide, downloads.folder), forget=forget)
    except MissingDataError as error:
        raise MissingDataError(
            f"The mirror {plain_url(mirror, query=False)} does not contain the files for {task}: {error}; "
            f"they belong in its folder {task}."
        ) from error


_LONGEST_LIST = 8 << 20


def _fetch_checksums(downloads: Downloads, mirror: str) -> dict[str, str]:
    """Fetch the mirror's list of checksums; empty if it has none. Raises MissingDataError and DataError."""
    file = RemoteFile(CHECKSUMS)
    address = plain_url(f"{mirror}/{CHECKSUMS}", query=False)
    limited = replace(downloads, network=replace(downloads.network, largest=_LONGEST_LIST), force=True)
    try:
        limited.fetch(file, f"{mirror}/{CHECKSUMS}")
        content = limited.path(file).read_bytes()
    except TransferError as error:
        if error.status in (403, 404, 410) or error.is_page:
            return {}
        raise MissingDataError(f"{address} could not be downloaded ({error}); try again later.") from error
    finally:
        limited.forget(file)
        limited.path(file).unlink(missing_ok=True)
    return parse_checksums(content, address)
