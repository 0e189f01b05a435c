"""Download single files over HTTP: resumed at the exact byte, verified, and given their name only when complete."""

from __future__ import annotations

import email.utils
import json
import os
import re
import shutil
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit, urlunsplit

import httpx2
from tqdm import tqdm

from decabench.errors import DataError, StorageError
from decabench.files import atomic_file, file_digests, make_folder, storage_errors
from decabench.tasks.task import RemoteFile
from decabench.untrusted import read_json

__all__ = ["Downloads", "InterruptedTransferError", "Network", "TransferError", "plain_url"]

_MOST_REDIRECTS = 10
_TEMPORARY = (408, 429, 500, 502, 503, 504)
_PROGRESS = 1 << 20


@dataclass(frozen=True)
class Network:
    """Timeouts, retries and bounds of downloads; tests shorten them."""

    retries: int = 3
    """Number of retries after failed requests and interrupted transfers; each MiB that arrives restores them."""
    backoff: float = 1.0
    """Seconds before the first retry; doubled for each further one."""
    longest_wait: float = 60.0
    """The longest single wait in seconds, whatever a server's Retry-After asks for."""
    connect_timeout: float = 15.0
    """Seconds within which a connection must be made."""
    read_timeout: float = 30.0
    """Seconds without a byte after which a transfer counts as interrupted."""
    slowest: int = 1_000
    """Bytes per second, over `read_timeout` seconds, below which a transfer counts as interrupted."""
    time_limit: float = 6 * 3600.0
    """Seconds that one file may take, with all retries."""
    largest: int = 4 << 30
    """The most bytes of a file with no published size."""


class TransferError(Exception):
    """A download that failed; the message is only the reason, without URLs or secrets."""

    def __init__(self, reason: str, status: int | None = None, is_page: bool = False) -> None:
        super().__init__(reason)
        self.status = status
        self.is_page = is_page


class InterruptedTransferError(TransferError):
    """A request or transfer that failed for now: its bytes so far are kept, and it may be tried again."""

    def __init__(self, reason: str, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(reason, status)
        self.retry_after = retry_after


@dataclass(frozen=True)
class Downloads:
    """A folder of verified downloads.

    `<name>.json` beside a download says where it came from; `.incoming/<name>.part` is an incomplete download.
    """

    folder: Path
    """The folder; downloads have their published names."""
    network: Network = field(default_factory=Network)
    """Timeouts and retries."""
    progress: bool = True
    """Whether to show a bar (on a terminal)."""
    force: bool = False
    """Whether to download files that already exist."""
    strict: bool = True
    """Whether a file must have the published digests; a mirror's need not."""
    standard: str = "the published one"
    """The standard that messages name, if a file does not meet it."""
    say: Callable[[str], None] | None = None
    """Called with a sentence before every wait for another attempt."""

    def path(self, file: RemoteFile) -> Path:
        """Return the path of a file once it is downloaded."""
        return self.folder / file.name

    def find(self, file: RemoteFile, urls: tuple[str, ...]) -> tuple[str, dict[str, str]] | None:
        """Return URL and digests of a file that exists, is intact and came from one of these URLs; None otherwise."""
        path = self.path(file)
        try:
            note = read_json(_note(path))
            url, known = str(note["url"]), dict(note["digests"])["sha256"]
            digests = {} if self.force else file_digests(path, file.digests)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        is_intact = digests.get("sha256") == known and path.stat().st_size > 0
        if not is_intact or url not in map(plain_url, urls):
            return None
        return None if self.strict and file.find_faults(path.stat().st_size, digests) else (url, digests)

    def fetch(self, file: RemoteFile, url: str) -> dict[str, str]:
        """Download a file, verify it, and return its digests.

        Raises TransferError, DataError for wrong bytes, StorageError.
        """
        target = self.path(file)
        part = _Part(self.folder / ".incoming" / f"{file.name}.part")
        timeout = httpx2.Timeout(self.network.read_timeout, connect=self.network.connect_timeout)
        headers = {"User-Agent": "decabench", "Accept-Encoding": "identity"}
        with storage_errors(target), httpx2.Client(headers=headers, timeout=timeout) as client:
            make_folder(target.parent)
            make_folder(part.path.parent)
            if self.force:
                part.discard()
            transfer = _Transfer(client, url, part, self, self.most_bytes(file))
            for _ in range(2):  # wrong bytes may come from an old part, so try again from the start
                is_delimited = transfer.complete()
                digests, size = file_digests(part.path, file.digests), part.size()
                faults = file.find_faults(size, digests) if self.strict else []
                if transfer.linked not in ("", digests["sha256"]):
                    faults.append(f"sha256 {digests['sha256']}, but the server says {transfer.linked}")
                if not size:
                    faults = ["it is empty"]
                if not faults:
                    if not is_delimited:
                        self._require_end(file, size, digests, part)
                    _write_note(target, url, digests)
                    part.path.replace(target)
                    part.discard()
                    return digests
                part.discard()
        raise DataError(f"the file is not {self.standard}: {'; '.join(faults)}")

    def most_bytes(self, file: RemoteFile) -> int:
        """Return the most bytes that a file may have: twice its published size, or the network's limit."""
        return self.network.largest if file.size is None else 2 * file.size + (1 << 20)

    def _require_end(self, file: RemoteFile, size: int, digests: dict[str, str], part: _Part) -> None:
        """Refuse a body that ended with its connection, unless digest or size show that it is whole."""
        is_whole = bool(file.digests) and not file.find_faults(size, digests)
        if not is_whole and size != file.size:
            part.discard()
            raise TransferError(
                f"the connection ended after {size:,} bytes, and the server did not say how many there are: the file "
                "may be cut off; use a server that sends Content-Length, or a mirror with a SHA256SUMS file"
            )

    def forget(self, file: RemoteFile) -> None:
        """Make the next run download a file again."""
        _note(self.path(file)).unlink(missing_ok=True)


def _note(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _write_note(target: Path, url: str, digests: dict[str, str]) -> None:
    with atomic_file(_note(target)) as note:
        note.write(json.dumps({"format": 1, "url": plain_url(url), "digests": digests}, indent=1).encode())


def plain_url(url: str, query: bool = True) -> str:
    """Remove the user name, password and, on request, the query from a URL, so that it can be shown and stored."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, parts.query if query else "", ""))


@dataclass(frozen=True)
class _Part:
    """The received bytes of a file, with a note of the version they belong to."""

    path: Path
    """`<name>.part`; the note is `<name>.part.json`."""

    def resume_headers(self, url: str) -> dict[str, str]:
        """Return the request headers to resume after the part; none if the download has to start over."""
        note, size = self._read_note(), self.size()
        if size == 0 or note.get("url") != plain_url(url):
            return {}
        validator = str(note.get("validator", ""))
        return {"Range": f"bytes={size}-"} | ({"If-Range": validator} if validator else {})

    def begin(self, url: str, response: httpx2.Response, total: int | None) -> None:
        """Record which version of the file is about to be written."""
        content = {"format": 1, "url": plain_url(url), "validator": _validator(response), "total": total}
        with atomic_file(_note(self.path)) as note:
            note.write(json.dumps(content).encode())

    def continues(self, response: httpx2.Response, total: int | None) -> bool:
        """Tell whether a response continues the version that the part belongs to."""
        note = self._read_note()
        tags, totals = (note.get("validator"), _validator(response)), (note.get("total"), total)
        return not any(None not in pair and "" not in pair and pair[0] != pair[1] for pair in (tags, totals))

    def _read_note(self) -> dict[str, Any]:
        try:
            return read_json(_note(self.path))
        except (OSError, ValueError):
            return {}

    def open(self, start: int) -> BinaryIO:
        """Open the part for writing from byte `start`."""
        file = self.path.open("r+b" if start else "wb")
        file.seek(start)
        return file

    def size(self) -> int:
        """Return the number of received bytes."""
        return self.path.stat().st_size if self.path.exists() else 0

    def discard(self) -> None:
        """Remove the part, so that the next attempt starts from nothing."""
        self.path.unlink(missing_ok=True)
        _note(self.path).unlink(missing_ok=True)


def _validator(response: httpx2.Response) -> str:
    tag: str = response.headers.get("ETag", "")
    # A weak tag does not promise the same bytes, so it must not be sent as If-Range.
    return response.headers.get("Last-Modified", "") if not tag or tag.startswith("W/") else tag


_WEB_PAGE = re.compile(
    rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<(!doctype html|html|head|title|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_SHA256 = re.compile(r'"?([0-9a-f]{64})"?')


@dataclass
class _Transfer:
    """The transfer of one file from one address into a part."""

    client: httpx2.Client
    url: str
    part: _Part
    downloads: Downloads
    most: int
    linked: str = ""
    """The sha256 that the Hugging Face hub sends with a file; empty for other servers."""
    began: float = field(default_factory=time.monotonic)
    tried: int = 0
    """Number of retries since the last progress."""
    reached: int = 0
    """The size of the part at the last progress."""

    def complete(self) -> bool:
        """Receive all bytes, resuming after interruptions, and return whether their end was marked.

        A body that ends with its connection has no such mark. Raises TransferError.
        """
        while True:
            try:
                return self._receive()
            except InterruptedTransferError as error:
                reason = error
            self._wait(reason)

    @property
    def _name(self) -> str:
        return self.part.path.name.removesuffix(".part")

    @property
    def _network(self) -> Network:
        return self.downloads.network

    def _require_time(self) -> None:
        if time.monotonic() - self.began >= self._network.time_limit:
            raise TransferError(
                f"it was not complete after {_duration(self._network.time_limit)}; run again to continue"
            )

    def _wait(self, error: InterruptedTransferError) -> None:
        """Wait before the next attempt. Raises TransferError if there is to be none."""
        size, most = self.part.size(), self._network.retries
        if size >= self.reached + _PROGRESS:
            self.reached, self.tried = size, 0
        if self.tried >= most:
            times = f", {self.tried + 1} times" if error.status is None and self.tried else ""
            raise TransferError(f"{error}{times}", error.status)
        asked = error.retry_after
        seconds = self._network.backoff * 2**self.tried if asked is None else asked
        seconds = min(seconds, self._network.longest_wait)
        self.tried += 1
        self._require_time()
        if self.downloads.say is not None:
            self.downloads.say(
                f"{self._name}: {error}; retrying in {_duration(seconds)} ({self.tried} of {most})"
            )
        time.sleep(min(seconds, self._network.time_limit))

    def _receive(self) -> bool:
        with _http_errors(self._network):
            response = self._open()
            try:
                if response.status_code == 416:  # the part is complete already, or longer than the file
                    if response.headers.get("Content-Range", "") != f"bytes */{self.part.size()}":
                        self._start_over("the partial file did not match")
                    return True
                start, total = self._place(response)
                if total is not None and total > self.most:
                    raise TransferError(
                        f"it would be {total:,} bytes long, but no more than {self.most:,} can be right"
                    )
                if start == 0:
                    self.part.begin(self.url, response, total)
                self._save(response, start, total)
            finally:
                response.close()
        if total is not None and self.part.size() < total:
            raise InterruptedTransferError("the connection was lost")
        return total is not None or _is_chunked(response)

    def _open(self) -> httpx2.Response:
        """Request the file and return the response with its body unread.

        Redirects are followed here, because the client would first read the body of each into memory.
        """
        request = self.client.build_request("GET", self.url, headers=self.part.resume_headers(self.url))
        for _ in range(_MOST_REDIRECTS + 1):
            self._require_time()
            response = self.client.send(request, stream=True)
            if found := _SHA256.fullmatch(response.headers.get("X-Linked-ETag", "")):
                self.linked = found[1]
            if not response.has_redirect_location:
                return _require_success(response)
            response.close()
            if response.next_request is None:
                raise TransferError("it redirects to something that is not an HTTP address")
            request = response.next_request
        raise TransferError(f"it redirects in a circle, or more than {_MOST_REDIRECTS} times")

    def _place(self, response: httpx2.Response) -> tuple[int, int | None]:
        """Return where in the file the body starts, and the file's size if known."""
        if response.status_code == 200:
            length = response.headers.get("Content-Length", "")
            return 0, int(length) if length.isdecimal() and not _is_chunked(response) else None
        found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        start, total = (int(found[1]), found[3]) if found else (-1, "*")
        size = None if total == "*" else int(total)
        if start not in (0, self.part.size()):
            self._start_over("the server resumed at the wrong place")
        if start and not self.part.continues(response, size):
            self._start_over("the file changed on the server")
        return start, size

    def _start_over(self, reason: str) -> None:
        self.part.discard()
        raise InterruptedTransferError(reason)

    def _save(self, response: httpx2.Response, start: int, total: int | None) -> None:
        free = shutil.disk_usage(self.part.path.parent).free
        if total is not None and total - start > free:  # raise now, not after an hour of downloading
            raise StorageError(
                f"Not enough space in {self.part.path.parent}: {total - start:,} bytes are needed, {free:,} are free; "
                "free some, or choose another folder with --home."
            )
        bar = tqdm(
            desc=self._name,
            total=total,
            initial=start,
            unit="B",
            unit_scale=True,
            leave=False,
            disable=not (self.downloads.progress and sys.stderr.isatty()),
        )
        size = start
        try:
            with self.part.open(start) as file, bar:
                for chunk in self._read(response):
                    if not size and _is_web_page(response, chunk):
                        raise TransferError("a web page was sent instead of the file", is_page=True)
                    size += len(chunk)
                    if size > self.most:
                        raise TransferError(
                            f"it sends more than {self.most:,} bytes, which is more than can be right"
                        )
                    file.write(chunk)
                    bar.update(len(chunk))
                file.flush()
                os.fsync(file.fileno())
        except TransferError as error:
            if not isinstance(error, InterruptedTransferError):
                self.part.discard()
            raise

    def _read(self, response: httpx2.Response) -> Iterator[bytes]:
        """Yield a body in chunks as they arrive. Raises InterruptedTransferError if they arrive too slowly."""
        window, received = time.monotonic(), 0
        for chunk in response.iter_raw():
            yield chunk
            self._require_time()
            received += len(chunk)
            seconds = time.monotonic() - window
            if seconds >= self._network.read_timeout:
                if received < self._network.slowest * seconds:
                    raise InterruptedTransferError(
                        f"the server sent only {received:,} bytes in {_duration(seconds)}"
                    )
                window, received = time.monotonic(), 0


def _require_success(response: httpx2.Response) -> httpx2.Response:
    status, encoding = response.status_code, response.headers.get("Content-Encoding", "").lower()
    # Old servers call a .tgz a tar file with the encoding gzip, which is the file itself.
    is_own = encoding in ("gzip", "x-gzip") and response.url.path.endswith((".gz", ".tgz"))
    if status in (200, 206, 416) and (encoding in ("", "identity") or is_own):
        return response
    response.close()
    if status in _TEMPORARY:
        asked = _seconds(response.headers.get("Retry-After", ""))
        raise InterruptedTransferError(f"HTTP {status}", status, asked)
    if status in (200, 206, 416):
        raise TransferError(f"it has the encoding {encoding[:40]!r}, which was not asked for")
    raise TransferError(f"HTTP {status}", status)


def _seconds(value: str) -> float | None:
    """Read a Retry-After header: seconds, or a date; None for anything else."""
    try:
        return max(float(value), 0.0) if value.isdecimal() else _seconds_until(value)
    except (ValueError, OverflowError, TypeError):
        return None


def _seconds_until(date: str) -> float:
    return max(email.utils.parsedate_to_datetime(date).timestamp() - time.time(), 0.0)


def _is_chunked(response: httpx2.Response) -> bool:
    found: str = response.headers.get("Transfer-Encoding", "")
    return found.lower() == "chunked"


def _is_web_page(response: httpx2.Response, start: bytes) -> bool:
    if _WEB_PAGE.match(start[:1024]):
        return True
    kind = response.headers.get("Content-Type", "").lower()
    return kind.startswith("text/html") and start.lstrip()[:1] == b"<" and not start.startswith(b"<?xml")


@contextmanager
def _http_errors(network: Network) -> Iterator[None]:
    """Turn the client's errors into a TransferError: their own messages repeat URLs."""
    try:
        yield
    except httpx2.InvalidURL as error:
        raise TransferError("not a valid address") from error
    except httpx2.UnsupportedProtocol as error:
        raise TransferError("it redirects to something that is not an HTTP address") from error
    except httpx2.ReadTimeout as error:
        silence = f"the server sent nothing for {_duration(network.read_timeout)}"
        raise InterruptedTransferError(silence) from error
    except httpx2.RemoteProtocolError as error:
        is_lost = "closed" in str(error) or "disconnected" in str(error)
        reason = "the connection was lost" if is_lost else "it does not speak HTTP"
        raise InterruptedTransferError(reason) from error
    except httpx2.RequestError as error:
        cause: BaseException | None = error
        while cause is not None and (not isinstance(cause, OSError) or isinstance(cause, TimeoutError)):
            cause = cause.__cause__ or cause.__context__
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise TransferError("its TLS certificate is not valid") from error
        raise InterruptedTransferError(_reason(error, cause)) from error


def _reason(error: httpx2.RequestError, cause: OSError | None) -> str:
    if isinstance(cause, socket.gaierror):
        return "unknown host name"
    if isinstance(cause, ssl.SSLError):
        return "no secure connection"
    if cause is not None and cause.errno:
        return os.strerror(cause.errno).lower()
    if isinstance(error, httpx2.TimeoutException):
        return "the connection timed out"
    return "the proxy refused" if isinstance(error, httpx2.ProxyError) else "the connection was lost"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
