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

from decabench.metrics.errors import DecabenchError
from decabench.tasks.errors import DataError
from decabench.tasks.home import storage_errors
from decabench.tasks.sources.digests import Digests, digests_of, faults, pins_of
from decabench.tasks.sources.files import LocalFiles, parquet_columns
from decabench.tasks.sources.network import TransferError, causes, reason_of
from decabench.tasks.sources.writing import is_refused_write
from decabench.tasks.task import Hub, RemoteFile

__all__ = ["HubFiles", "fetch_from_hub", "hub_address"]

_BATCH = 1024


def hub_address(hub: Hub, name: str) -> str:
    """How the hub's libraries name a file at a commit."""
    return f"hf://datasets/{hub.repository}@{hub.revision}/{name}"


def fetch_from_hub(
    hub: Hub, file: RemoteFile, folder: Path, progress: bool, force: bool
) -> tuple[Path, Digests]:
    """The file below `folder`, whole and as the hub describes it.

    A file at a full commit that is there already needs no network. Raises TransferError and DataError.
    """
    for again in (force, True):  # a damaged cache may be at fault, so a second time, from nothing
        path = _downloaded(hub, file, folder, progress, again)
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


def _downloaded(hub: Hub, file: RemoteFile, folder: Path, progress: bool, force: bool) -> Path:
    import huggingface_hub
    import huggingface_hub.utils

    endpoint = os.environ.get("HF_ENDPOINT") or None
    with _quiet("huggingface_hub", huggingface_hub.utils, progress), storage_errors(folder), _hub_errors():
        found = huggingface_hub.hf_hub_download(
            hub.repository,
            file.name,
            repo_type="dataset",
            revision=hub.revision,
            cache_dir=folder,
            endpoint=endpoint,
            force_download=force,
        )
    return Path(found)


class HubFiles(LocalFiles):
    """Files of a dataset on the hub; their rows come from memory-mapped `datasets` tables."""

    def rows(self, name: str, columns: tuple[str, ...] = ()) -> Iterator[Mapping[str, Any]]:
        """The rows of a parquet file with the columns named, or all; about a thousand in memory at a time."""
        import datasets
        import pyarrow.parquet as parquet

        path = self.path(name)
        with (
            _quiet("datasets", datasets.utils, progress=False),
            _reading_errors(name),
            storage_errors(self._scratch),
        ):
            with parquet.ParquetFile(path) as file:
                chosen = parquet_columns(name, columns, file.schema_arrow.names)
            # The converted table lies in the scratch folder: after the triples are written nobody needs it.
            table = datasets.Dataset.from_parquet(
                str(path), cache_dir=str(self._scratch / "datasets"), columns=chosen, keep_in_memory=False
            )
        for batch in table.with_format("arrow").iter(_BATCH):
            yield from batch.to_pylist()


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
