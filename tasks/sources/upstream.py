"""Files from where they are published: each from the first of its addresses that works."""

from __future__ import annotations

from pathlib import Path

from decabench.tasks.errors import DataError, MissingDataError, StorageError
from decabench.tasks.sources.download import Downloads
from decabench.tasks.sources.files import LocalFiles
from decabench.tasks.sources.job import Job, files_of
from decabench.tasks.sources.network import TransferError, plain_url
from decabench.tasks.sources.record import FileRecord, record_of
from decabench.tasks.task import Hub, RemoteFile, Source

__all__ = ["from_upstream"]


def from_upstream(job: Job, source: Source) -> tuple[dict[str, Path], list[FileRecord], type[LocalFiles]]:
    """Downloads what is not there yet. Raises DataError with the reasons, without saying of which source."""
    files = files_of(source, job.splits)
    if source.hub is not None:
        return _from_hub(job, source.hub, files)
    downloads = Downloads(job.folder, job.network, job.progress, job.force)
    records = [_from_first(downloads, file) for file in files]
    return {file.name: downloads.path(file) for file in files}, records, LocalFiles


def _from_first(downloads: Downloads, file: RemoteFile) -> FileRecord:
    if not file.urls:
        raise MissingDataError(f"only a mirror can hold {file.name}, as it is published nowhere")
    origin = downloads.present(file, file.urls)
    if origin is not None:
        return record_of(file, origin.url, origin.digests)
    failures = []
    for url in file.urls:
        try:
            return record_of(file, plain_url(url), downloads.fetch(file, url))
        except StorageError:
            raise
        except (TransferError, DataError) as error:
            failures.append(f"{plain_url(url)} ({error})")
    raise MissingDataError(f"{file.name} from {' and from '.join(failures)}")


def _from_hub(
    job: Job, hub: Hub, files: list[RemoteFile]
) -> tuple[dict[str, Path], list[FileRecord], type[LocalFiles]]:
    from decabench.tasks.sources.hub import HubFiles, fetch_from_hub, hub_address

    paths, records = {}, []
    for file in files:
        address = hub_address(hub, file.name)
        try:
            path, digests = fetch_from_hub(hub, file, job)
        except StorageError:
            raise
        except (TransferError, DataError) as error:
            raise MissingDataError(f"{address} ({error})") from error
        paths[file.name] = path
        records.append(record_of(file, address, digests))
    return paths, records, HubFiles
