"""The files of a task: from the first source that works, or from a mirror."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from decabench.errors import DataError, MissingDataError, StorageError
from decabench.files import make_folder
from decabench.tasks.sources.download import Downloads, Network, TransferError, plain_url
from decabench.tasks.sources.integrity import Digests, FileRecord, digests_of, pins_of, record_of
from decabench.tasks.sources.local_files import Job, LocalFiles, files_of, scratch_in
from decabench.tasks.task import Files, Hub, RemoteFile, Source

__all__ = ["Fetched", "fetch", "from_folder", "from_http_mirror", "from_upstream"]

# ---- mirror


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


# ---- upstream


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


# ---- fetch


@dataclass(frozen=True)
class Fetched:
    """Verified local files of one source. A context manager: leaving it removes what was extracted."""

    files: Files
    """What the source's reader reads."""
    source: Source
    """The source that worked."""
    records: tuple[FileRecord, ...]
    """What each file is and where it came from."""
    missing: tuple[str, ...] = ()
    """Splits asked for that this source lacks."""

    def close(self) -> None:
        """Removes what was extracted from archives."""
        if isinstance(self.files, LocalFiles):
            self.files.close()

    def __enter__(self) -> Fetched:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def fetch(
    task_name: str,
    sources: Sequence[Source],
    splits: Sequence[str],
    folder: Path,
    mirror: str | None = None,
    progress: bool = True,
    force: bool = False,
    network: Network | None = None,
) -> Fetched:
    """The files of the splits from the first source that works.

    With a mirror, from `<mirror>/<task>/<name>` alone. Raises MissingDataError, which says what was tried
    and why it failed, and StorageError.
    """
    job = Job(task_name, tuple(dict.fromkeys(splits)), folder, mirror, progress, force, network or Network())
    provide = _provider(job)
    make_folder(folder)
    failures = []
    for source in sources:
        try:
            return _fetched(job, source, provide)
        except StorageError:
            raise
        except DataError as error:
            failures.append(f"'{source.name}': {error}")
    raise MissingDataError(_sentence(job, failures))


Provider = Callable[[Job, Source], tuple[dict[str, Path], list[FileRecord], type[LocalFiles]]]
"""(job, source) -> where its files lie, what they are, what reads them. Raises DataError where it cannot."""


def _provider(job: Job) -> Provider:
    if job.mirror is None:
        return from_upstream
    if job.mirror.startswith(("http://", "https://")):
        return from_http_mirror
    return from_folder


def _fetched(job: Job, source: Source, provide: Provider) -> Fetched:
    missing = tuple(split for split in job.splits if split not in source.files)
    if len(missing) == len(job.splits):
        raise MissingDataError(f"it has no split {', '.join(missing)}")
    paths, records, reader = provide(job, source)
    files = reader(paths, scratch_in(job.folder), source.members)
    return Fetched(files, source, tuple(records), missing)


def _sentence(job: Job, failures: list[str]) -> str:
    tried = "; ".join(failures) or "it has no sources"
    if job.mirror is None:
        what = f"The files of {job.task} could not be had from any source"
        advice = "try again later, or name a folder or an address that holds them with --mirror"
    else:
        what = f"The mirror {plain_url(job.mirror, query=False)} has not the files of {job.task}"
        advice = f"they belong in its folder {job.task} under the names above"
    return f"{what}: {tried}; {advice}."
