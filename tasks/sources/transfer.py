"""A downloader for pooch that survives cut connections, restarts and damaged partial files."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import requests
import urllib3
from tqdm import tqdm

from decabench.tasks.errors import DataError, StorageError
from decabench.tasks.home import storage_errors
from decabench.tasks.sources.drive import confirmed_url, is_confirmation
from decabench.tasks.sources.network import Network, TransferError, reason_of
from decabench.tasks.sources.part import Part
from decabench.tasks.sources.session import new_session

__all__ = ["ResumingDownloader"]

_CHUNK = 1 << 16
_PAGE = re.compile(rb"\s*(<!doctype html|<html)", re.IGNORECASE)


class _BrokeOff(Exception):
    """The body ended early: what came is kept, and the transfer can be taken up again."""


@dataclass(frozen=True)
class ResumingDownloader:
    """Called by pooch with an address and a path; leaves a whole, checked file there."""

    part: Path
    """Where the bytes are kept until they are whole. An interrupt leaves it for the next run."""
    check: Callable[[Path], list[str]]
    """Says what is wrong with the whole file; nothing where it is as published."""
    network: Network
    """How patient it is."""
    progress: bool
    """Whether a bar is shown (on a terminal)."""

    def __call__(self, url: str, output_file: str, pooch: Any = None, check_only: bool = False) -> None:
        """Raises TransferError, StorageError, or DataError for a wrong checksum."""
        part = Part(self.part)
        with new_session(self.network) as session, storage_errors(self.part):
            for _ in range(2):  # a damaged partial file may be at fault, so a second time, from nothing
                self._complete(session, url, part)
                wrong = self.check(part.path)
                if not wrong:
                    return part.hand_over(Path(output_file))
                part.discard()
        raise DataError(f"the file is not the published one: {'; '.join(wrong)}")

    def _complete(self, session: requests.Session, url: str, part: Part) -> None:
        for attempt in range(self.network.resumes + 1):
            try:
                return self._pull(session, url, part)
            except _BrokeOff as error:
                reason = str(error)
            if attempt < self.network.resumes:
                time.sleep(self.network.wait(attempt))
        raise TransferError(f"{reason}, {self.network.resumes + 1} times")

    def _pull(self, session: requests.Session, url: str, part: Part) -> None:
        headers = part.headers(url)
        with self._open(session, url, headers) as response:
            if response.status_code == 416:  # the part is whole already, or longer than the file
                if _total(response) != part.size():
                    part.discard()
                    raise _BrokeOff("the partial file did not fit")
                return
            start = _start(response)
            if start not in (0, part.size()):
                part.discard()
                raise _BrokeOff("the server went on at another place than asked")
            if start == 0:
                part.begin(url, response)
            self._save(response, part, start)

    def _open(self, session: requests.Session, url: str, headers: dict[str, str]) -> requests.Response:
        response = self._get(session, url, headers)
        if is_confirmation(response, self.network):
            with response:
                target = confirmed_url(response, url, self.network)
            response = self._get(session, target, headers)
        if response.status_code not in (200, 206, 416):
            response.close()
            raise TransferError(f"HTTP {response.status_code}", absent=response.status_code in (404, 410))
        return response

    def _get(self, session: requests.Session, url: str, headers: dict[str, str]) -> requests.Response:
        timeout = (self.network.connect_timeout, self.network.read_timeout)
        try:
            return session.get(url, headers=headers, stream=True, timeout=timeout)
        except (requests.RequestException, urllib3.exceptions.HTTPError, UnicodeError) as error:
            raise TransferError(reason_of(error)) from error

    def _save(self, response: requests.Response, part: Part, start: int) -> None:
        length = _length(response)
        _require_space(part.path, length or 0)
        with part.path.open("r+b" if start else "wb") as file, self._bar(start, length) as bar:
            file.seek(start)
            for chunk in _chunks(response, first=start == 0):
                _write(file, chunk)
                bar.update(len(chunk))
            file.flush()
            os.fsync(file.fileno())
        if length is not None and part.size() < start + length:
            raise _BrokeOff("the connection broke off")

    def _bar(self, start: int, length: int | None) -> tqdm[Any]:
        silent = not (self.progress and sys.stderr.isatty())
        total = None if length is None else start + length
        name = self.part.name.removesuffix(".part")
        return tqdm(
            desc=name, total=total, initial=start, unit="B", unit_scale=True, leave=False, disable=silent
        )


def _write(file: BinaryIO, chunk: bytes) -> None:
    file.write(chunk)


def _require_space(path: Path, needed: int) -> None:
    """Says so before an hour of downloading, not after it."""
    free = shutil.disk_usage(path.parent).free
    if needed > free:
        raise StorageError(
            f"No space for {path.parent}: {needed:,} bytes are to come and {free:,} are free; "
            "free some, or name another folder with --home."
        )


def _start(response: requests.Response) -> int:
    """The place in the file at which the body begins."""
    if response.status_code != 206:
        return 0
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(found[1]) if found else -1


def _total(response: requests.Response) -> int:
    """The size of the whole file as a 416 tells it."""
    found = re.match(r"bytes \*/(\d+)", response.headers.get("Content-Range", ""))
    return int(found[1]) if found else -1


def _decodes(response: requests.Response) -> bool:
    """Whether an encoding stands over the file's own bytes.

    Old servers call a .tgz a tar file with the encoding gzip, which is the file itself.
    """
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    path = urlsplit(response.url).path
    return encoding != "identity" and not (encoding in ("gzip", "x-gzip") and path.endswith((".gz", ".tgz")))


def _length(response: requests.Response) -> int | None:
    """Bytes that the body must have, where that can be known."""
    length = response.headers.get("Content-Length", "")
    return int(length) if length.isdigit() and not _decodes(response) else None


def _chunks(response: requests.Response, first: bool) -> Iterator[bytes]:
    try:
        for chunk in response.raw.stream(_CHUNK, decode_content=_decodes(response)):
            if first and _PAGE.match(chunk[:256]):
                raise TransferError("a web page came instead of the file")
            first = False
            yield chunk
    except (urllib3.exceptions.HTTPError, requests.RequestException, ConnectionError, TimeoutError) as error:
        raise _BrokeOff(reason_of(error)) from error
