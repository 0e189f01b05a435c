"""One file from one address, through pooch: checked, resumed, and under its name only when whole."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pooch

from decabench.tasks.home import make_folder, storage_errors
from decabench.tasks.sources.digests import Digests, digests_of, faults, pins_of
from decabench.tasks.sources.network import Network, plain_url
from decabench.tasks.sources.record import Origin, read_origin, write_origin
from decabench.tasks.sources.transfer import ResumingDownloader
from decabench.tasks.task import RemoteFile

__all__ = ["Downloads"]

_INCOMING = ".incoming"


@dataclass(frozen=True)
class Downloads:
    """A folder of verified downloads."""

    folder: Path
    """Where they lie under their names; beside it, `.incoming` has what is not whole yet."""
    network: Network
    """How patient a download is."""
    progress: bool = True
    """Whether a bar is shown (on a terminal)."""
    force: bool = False
    """Fetch again what is there."""
    strict: bool = True
    """Whether a file must have the digests that are published; those of a mirror need not."""

    def path(self, file: RemoteFile) -> Path:
        """Where the file lies once it is here."""
        return self.folder / file.name

    def present(self, file: RemoteFile, urls: tuple[str, ...]) -> Origin | None:
        """The origin of a file that is here already, from one of these addresses, and good."""
        origin = None if self.force else read_origin(self.path(file), file)
        if (
            origin is None
            or origin.url not in map(plain_url, urls)
            or (self.strict and faults(file, origin.digests))
        ):
            return None
        return origin

    def fetch(self, file: RemoteFile, url: str) -> Digests:
        """Downloads the file. Raises TransferError, DataError for a wrong checksum, StorageError."""
        incoming = make_folder((self.folder / _INCOMING / file.name).parent)
        target = make_folder(self.path(file).parent) / Path(file.name).name
        known = self._pooch_hash(file)
        with storage_errors(target):
            arrived = incoming / target.name
            if self.force or known is None:
                arrived.unlink(missing_ok=True)  # pooch would take it for the file
            with _quiet_pooch():
                pooch.retrieve(url, known, arrived.name, incoming, downloader=self._downloader(file, arrived))
            digests = digests_of(arrived, pins_of(file))
            write_origin(arrived, Origin(plain_url(url), digests), target)
            arrived.replace(target)
        return digests

    def _pooch_hash(self, file: RemoteFile) -> str | None:
        """What pooch checks on its own; it knows nothing of git blobs."""
        pins = pins_of(file) if self.strict else {}
        return next((f"{kind}:{pins[kind]}" for kind in ("sha256", "md5") if kind in pins), None)

    def _downloader(self, file: RemoteFile, arrived: Path) -> ResumingDownloader:
        def check(path: Path) -> list[str]:
            return faults(file, digests_of(path, pins_of(file))) if self.strict else []

        part = arrived.with_name(arrived.name + ".part")
        if self.force:
            part.unlink(missing_ok=True)
        return ResumingDownloader(part, check, self.network, self.progress)


@contextmanager
def _quiet_pooch() -> Iterator[None]:
    """pooch tells of every file and its digest at the level INFO, which is its default."""
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
