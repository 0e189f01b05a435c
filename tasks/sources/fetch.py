"""The files of a task: from the first source that works, or from a mirror."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from decabench.tasks.errors import DataError, MissingDataError, StorageError
from decabench.tasks.home import make_folder
from decabench.tasks.sources.files import LocalFiles, scratch_in
from decabench.tasks.sources.job import Job
from decabench.tasks.sources.network import Network, plain_url
from decabench.tasks.sources.record import FileRecord
from decabench.tasks.task import Files, Source

__all__ = ["Fetched", "fetch"]


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
        from decabench.tasks.sources.upstream import from_upstream  # pooch and requests are slow to import

        return from_upstream
    if job.mirror.startswith(("http://", "https://")):
        from decabench.tasks.sources.mirror import from_http_mirror

        return from_http_mirror
    from decabench.tasks.sources.mirror import from_folder

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
