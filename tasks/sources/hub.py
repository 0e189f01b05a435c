"""Parquet on the Hugging Face hub, at a pinned commit, read through the `datasets` library."""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from decabench.errors import DataError
from decabench.files import storage_errors
from decabench.metrics import DecabenchError
from decabench.tasks.sources.download import Network, TransferError, causes, reason_of
from decabench.tasks.sources.integrity import Digests, digests_of, faults, pins_of
from decabench.tasks.sources.local_files import Job, LocalFiles, parquet_columns
from decabench.tasks.sources.members import is_refused_write
from decabench.tasks.task import Hub, RemoteFile

__all__ = ["HubFiles", "fetch_from_hub", "hub_address"]

_BATCH = 1024


def hub_address(hub: Hub, name: str) -> str:
    """How the hub's libraries name a file at a commit."""
    return f"hf://datasets/{hub.repository}@{hub.revision}/{name}"


def fetch_from_hub(hub: Hub, file: RemoteFile, job: Job) -> tuple[Path, Digests]:
    """The file in a cache below the job's folder, whole and as the hub describes it.

    A file at a full commit that is there already needs no network. Raises TransferError and DataError.
    """
    for force in (job.force, True):  # a damaged cache may be at fault, so a second time, from nothing
        path = _downloaded(hub, file, job, force)
        digests = digests_of(path, {*pins_of(file), "git_blob"})
        wrong = faults(file, digests) + _storage_faults(path, digests)
        if not wrong:
            return path, digests
    raise DataError(f"the file is not the published one: {'; '.join(wrong)}")


def _storage_faults(path: Path, digests: Digests) -> list[str]:
    """The hub, and so the cache, names a large file by its sha256 and a small one by its git blob."""
    stored = path.resolve().name
    kind = {64: "sha256", 40: "git_blob"}.get(len(stored) if re.fullmatch("[0-9a-f]+", stored) else 0)
    if kind is None or digests.values[kind] == stored:
        return []
    return [f"{kind} {digests.values[kind]}, while the hub says {stored}"]


def _downloaded(hub: Hub, file: RemoteFile, job: Job, force: bool) -> Path:
    import huggingface_hub
    from huggingface_hub import constants, utils

    cache = job.folder / "hub"
    download = huggingface_hub.hf_hub_download  # loaded before it is told to be quiet: loading sets the level
    with _quiet("huggingface_hub", utils, job.progress), storage_errors(cache), _hub_errors():
        endpoint = os.environ.get("HF_ENDPOINT") or constants.ENDPOINT
        known = huggingface_hub.try_to_load_from_cache(
            hub.repository, file.name, cache, hub.revision, repo_type="dataset"
        )
        if (force or not isinstance(known, str)) and not constants.HF_HUB_OFFLINE:
            _require_answer(endpoint, job.network)
        found = download(
            hub.repository,
            file.name,
            repo_type="dataset",
            revision=hub.revision,
            cache_dir=cache,
            endpoint=endpoint,
            force_download=force,
        )
    return Path(found)


def _require_answer(endpoint: str, network: Network) -> None:
    """Any answer will do. The hub's client tries a host that is not there for half a minute, for every file."""
    from decabench.tasks.sources.download import new_session

    with new_session(network) as session:
        timeout = (network.connect_timeout, network.read_timeout)
        session.head(endpoint, timeout=timeout, allow_redirects=False).close()


class HubFiles(LocalFiles):
    """Files of a dataset on the hub, whose rows `datasets` reads."""

    def rows(self, name: str, columns: tuple[str, ...] = ()) -> Iterator[Mapping[str, Any]]:
        """The rows of a parquet file with the columns named, or all; no more than a row group in memory."""
        with _reading_errors(name):
            for batch in _table(self.path(name), name, columns).with_format("arrow").iter(_BATCH):
                yield from batch.to_pylist()


def _table(path: Path, name: str, columns: tuple[str, ...]) -> Any:
    """The file as a `datasets.IterableDataset`.

    Streamed from the disk: a memory-mapped table would be a second copy there, larger than the first, and
    writing it takes memory that grows with the file.
    """
    import datasets
    import pyarrow.parquet as parquet
    from pyarrow.dataset import ParquetFragmentScanOptions

    with parquet.ParquetFile(path) as file:
        chosen = parquet_columns(name, columns, file.schema_arrow.names)
    with _quiet("datasets", datasets.utils, progress=False):
        return datasets.load_dataset(
            "parquet",
            data_files=[str(path)],
            split="train",
            streaming=True,
            columns=chosen,
            batch_size=_BATCH,
            fragment_scan_options=ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False),
        )


@contextmanager
def _hub_errors() -> Iterator[None]:
    """Turns what the hub's client raises into a reason; its own texts repeat addresses and request ids."""
    try:
        yield
    except Exception as error:  # the client passes on the errors of three other libraries
        if is_refused_write(error):
            raise
        answers = (getattr(link, "response", None) for link in causes(error))
        status = next((answer.status_code for answer in answers if answer is not None), None)
        reason = _REASONS.get(type(error).__name__, reason_of(error))
        raise TransferError(f"HTTP {status}: {reason}" if status else reason, absent=status == 404) from error


_REASONS = {
    "EntryNotFoundError": "no such file at that commit",
    "RemoteEntryNotFoundError": "no such file at that commit",
    "RevisionNotFoundError": "no such commit",
    "RepositoryNotFoundError": "no such repository, or not a public one",
    "GatedRepoError": "its terms have to be accepted on its page, and a token set",
    "LocalEntryNotFoundError": "the hub does not give it and it is not in the cache",
    "OfflineModeIsEnabled": "HF_HUB_OFFLINE is set and the file is not in the cache",
    "HfHubHTTPError": "the hub refused",
}


@contextmanager
def _reading_errors(name: str) -> Iterator[None]:
    try:
        yield
    except DecabenchError:
        raise
    except Exception as error:  # `datasets` wraps what Arrow raises in errors of several kinds
        if is_refused_write(error):
            raise
        raise DataError(
            f"{name} is not a whole parquet file ({type(error).__name__}): fetch it again with --force."
        ) from error


@contextmanager
def _quiet(library: str, bars: ModuleType, progress: bool) -> Iterator[None]:
    """No bars unless asked for, no advice in the log; what was set before stands again afterwards."""
    logger = logging.getLogger(library)
    level = logger.level
    hide = not (progress and sys.stderr.isatty()) and not bars.are_progress_bars_disabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a variable of the environment has the last word on bars
        if hide:
            bars.disable_progress_bars()
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)
            if hide:
                bars.enable_progress_bars()
