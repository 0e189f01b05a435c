"""Files from a mirror, a folder or an address: `<mirror>/<task>/<name>`.

A digest that differs from the published one is told, not refused.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from decabench.tasks.errors import MissingDataError, StorageError
from decabench.tasks.sources.digests import Digests, digests_of, pins_of
from decabench.tasks.sources.files import LocalFiles
from decabench.tasks.sources.job import Job, files_of
from decabench.tasks.sources.network import TransferError, plain_url
from decabench.tasks.sources.record import FileRecord, record_of
from decabench.tasks.task import RemoteFile, Source

if TYPE_CHECKING:
    from decabench.tasks.sources.download import Downloads

__all__ = ["from_folder", "from_http_mirror"]


def from_folder(job: Job, source: Source) -> tuple[dict[str, Path], list[FileRecord], type[LocalFiles]]:
    """Reads the files where they lie. Raises MissingDataError naming those that are not there."""
    folder = Path(str(job.mirror)).expanduser() / job.task
    files = files_of(source, job.splits)
    absent = [file.name for file in files if not (folder / file.name).is_file()]
    if absent:
        raise MissingDataError(f"no {', '.join(absent)}")
    paths = {file.name: folder / file.name for file in files}
    records = [_mirrored(file, _digests(paths[file.name], file)) for file in files]
    return paths, records, LocalFiles


def _digests(path: Path, file: RemoteFile) -> Digests:
    try:
        return digests_of(path, pins_of(file))
    except OSError as error:
        raise MissingDataError(f"{file.name} cannot be read ({error.strerror})") from error


def _mirrored(file: RemoteFile, digests: Digests) -> FileRecord:
    return record_of(file, f"mirror:{file.name}", digests)


def from_http_mirror(job: Job, source: Source) -> tuple[dict[str, Path], list[FileRecord], type[LocalFiles]]:
    """Downloads the files. Raises MissingDataError naming those that are not there, and why."""
    from decabench.tasks.sources.download import Downloads  # pooch and requests are slow to import

    address = str(job.mirror).rstrip("/")
    # A folder for each mirror: its files may differ from upstream's and never stand in for them.
    key = hashlib.sha256(plain_url(address).encode()).hexdigest()[:8]
    downloads = Downloads(job.folder / f"mirror-{key}", job.network, job.progress, job.force, strict=False)
    files = files_of(source, job.splits)
    records = [
        _mirrored(file, _from_address(downloads, file, f"{address}/{quote(job.task)}")) for file in files
    ]
    return {file.name: downloads.path(file) for file in files}, records, LocalFiles


def _from_address(downloads: Downloads, file: RemoteFile, address: str) -> Digests:
    url = f"{address}/{quote(file.name)}"
    origin = downloads.present(file, (url,))
    if origin is not None:
        return origin.digests
    try:
        return downloads.fetch(file, url)
    except StorageError:
        raise
    except TransferError as error:
        raise MissingDataError(f"no {file.name} ({error})") from error
