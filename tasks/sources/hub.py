"""Files of datasets on the Hugging Face hub, at a pinned commit, downloaded by the hub's own client."""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from decabench.errors import DataError
from decabench.files import is_refused_write, storage_errors
from decabench.tasks.sources.download import Downloads
from decabench.tasks.sources.local_files import Digests, find_faults, published_digests
from decabench.tasks.sources.network import Network, TransferError, causes, new_session, reason_of
from decabench.tasks.task import Hub, RemoteFile

__all__ = ["fetch_from_hub", "hub_address"]


def hub_address(hub: Hub, name: str) -> str:
    """Return the URL of a file at a commit, as the hub's libraries write it."""
    return f"hf://datasets/{hub.repository}@{hub.revision}/{name}"


def fetch_from_hub(hub: Hub, file: RemoteFile, downloads: Downloads) -> tuple[Path, Digests]:
    """Return a file in the cache `hub` of the downloads folder, verified against the hub and the published digests.

    A cached file at a full commit needs no network. Raises TransferError and DataError.
    """
    for force in (downloads.force, True):  # the cache may be damaged, so try again from the start
        path = _download(hub, file, downloads, force)
        digests = Digests.compute(path, {*published_digests(file), "git_blob"})
        faults = find_faults(file, digests) + _find_cache_faults(path, digests)
        if not faults:
            return path, digests
    raise DataError(f"the file is not the published one: {'; '.join(faults)}")


def _find_cache_faults(path: Path, digests: Digests) -> list[str]:
    """Compare a file with its name in the cache: the hub names large files by sha256 and small ones by git blob."""
    stored = path.resolve().name
    kind = {64: "sha256", 40: "git_blob"}.get(len(stored) if re.fullmatch("[0-9a-f]+", stored) else 0)
    if kind is None or digests.values[kind] == stored:
        return []
    return [f"{kind} {digests.values[kind]}, but the hub says {stored}"]


def _download(hub: Hub, file: RemoteFile, downloads: Downloads, force: bool) -> Path:
    import huggingface_hub
    from huggingface_hub import constants

    cache = downloads.folder / "hub"
    client = huggingface_hub.hf_hub_download  # imported before it is silenced: its import sets the level
    with _silenced(downloads.progress), storage_errors(cache), _hub_errors():
        endpoint = os.environ.get("HF_ENDPOINT") or constants.ENDPOINT
        cached = huggingface_hub.try_to_load_from_cache(
            hub.repository, file.name, cache, hub.revision, repo_type="dataset"
        )
        if (force or not isinstance(cached, str)) and not constants.HF_HUB_OFFLINE:
            _require_answer(endpoint, downloads.network)
        return Path(
            client(
                hub.repository,
                file.name,
                repo_type="dataset",
                revision=hub.revision,
                cache_dir=cache,
                endpoint=endpoint,
                force_download=force,
            )
        )


def _require_answer(endpoint: str, network: Network) -> None:
    """Check that the hub responds at all: its client would try a dead host for half a minute, for every file."""
    with new_session() as session:
        timeout = (network.connect_timeout, network.read_timeout)
        session.head(endpoint, timeout=timeout, allow_redirects=False).close()


@contextmanager
def _silenced(progress: bool) -> Iterator[None]:
    """Keep the client from logging advice, and, unless `progress` is set on a terminal, from showing bars."""
    import huggingface_hub

    bars: Any = huggingface_hub.utils
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    hide_bars = not (progress and sys.stderr.isatty()) and not bars.are_progress_bars_disabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that an environment variable overrides the setting of bars
        if hide_bars:
            bars.disable_progress_bars()
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)
            if hide_bars:
                bars.enable_progress_bars()


@contextmanager
def _hub_errors() -> Iterator[None]:
    """Turn the client's errors into a TransferError; their own messages repeat URLs and request ids."""
    try:
        yield
    except Exception as error:  # the client passes on the errors of three other libraries
        if is_refused_write(error):
            raise
        answers = (getattr(link, "response", None) for link in causes(error))
        status = next((answer.status_code for answer in answers if answer is not None), None)
        reason = _REASONS.get(type(error).__name__, reason_of(error))
        raise TransferError(f"HTTP {status}: {reason}" if status else reason) from error


_REASONS = {
    "EntryNotFoundError": "no such file at that commit",
    "RemoteEntryNotFoundError": "no such file at that commit",
    "RevisionNotFoundError": "no such commit",
    "RepositoryNotFoundError": "no such repository, or not a public one",
    "GatedRepoError": "its terms must be accepted on its page, and a token set",
    "LocalEntryNotFoundError": "the hub does not provide it and it is not in the cache",
    "OfflineModeIsEnabled": "HF_HUB_OFFLINE is set and the file is not in the cache",
    "HfHubHTTPError": "the hub refused",
}
