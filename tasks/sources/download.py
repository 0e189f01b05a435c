"""Download single files over HTTP.

Interrupted transfers resume at the exact byte, and a file gets its final name only once it is complete and
verified.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx2
from tqdm import tqdm

from decabench.errors import DataError, StorageError
from decabench.files import file_digests, make_folder, storage_errors, write_file
from decabench.tasks.task import RemoteFile
from decabench.text import printable
from decabench.untrusted import read_json

_MOST_REDIRECTS = 10
_TEMPORARY = (408, 429, 500, 502, 503, 504)
_PROGRESS = 1 << 20
_PAGE = re.compile(
    rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<(!doctype html|html|head|title|body)\b",
    re.I | re.S,
)
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_SHA256 = re.compile(r'"?([0-9a-f]{64})"?')


@dataclass(frozen=True)
class Network:
    """Timeouts, retries and limits for downloads."""

    retries: int = 3
    """The number of retries after failed requests and interrupted transfers.

    The count starts again after each MiB received.
    """
    backoff: float = 1.0
    """Seconds before the first retry. The delay doubles for each further retry."""
    longest_wait: float = 60.0
    """The longest wait before a retry, in seconds, even if a server's Retry-After asks for more."""
    connect_timeout: float = 15.0
    """Seconds to wait for a connection."""
    read_timeout: float = 30.0
    """Seconds without any data after which a transfer counts as interrupted."""
    time_limit: float = 6 * 3600.0
    """The total time in seconds that a file may take, including retries."""
    largest: int = 4 << 30
    """The maximum size, in bytes, of a file whose size is not published."""


class TransferError(Exception):
    """A failed download. The message contains only the reason, without URLs or secrets."""

    def __init__(self, reason: str, status: int | None = None, is_page: bool = False) -> None:
        super().__init__(reason)
        self.status = status
        self.is_page = is_page


class InterruptedTransferError(TransferError):
    """A request or transfer that failed temporarily. The bytes received so far are kept, and a retry may succeed."""

    def __init__(self, reason: str, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(reason, status)
        self.retry_after = retry_after


@dataclass(frozen=True)
class Downloads:
    """A folder of verified downloads.

    `<name>.json` next to a download records where it came from. `.incoming/<name>.part` is an incomplete
    download, and `.incoming/<name>.part.json` records which version of the file it belongs to.
    """

    folder: Path
    """The folder. Files keep their published names."""
    network: Network = field(default_factory=Network)
    """Timeouts, retries and limits."""
    progress: bool = True
    """Whether to show a progress bar on a terminal."""
    force: bool = False
    """Whether to download files again even if they already exist."""
    say: Callable[[str], None] = lambda text: print(f"  {printable(text)}", file=sys.stderr, flush=True)
    """A function that is called with a message whenever a download is about to wait before a retry."""

    def path(self, file: RemoteFile) -> Path:
        """Return the path of a downloaded file."""
        return self.folder / file.name

    def find(self, file: RemoteFile, urls: tuple[str, ...]) -> str | None:
        """Return the URL that a downloaded file came from, or None if the file has to be downloaded.

        It has to be downloaded if it is missing, damaged or not from one of `urls`, and always if `force` is set.
        """
        path = self.path(file)
        try:
            note = read_json(_note(path))
            url, sha256 = str(note["url"]), note["sha256"]
            digests = {} if self.force else file_digests(path, file.digests)
        except (OSError, ValueError, KeyError):
            return None
        if digests.get("sha256") != sha256 or url not in map(plain_url, urls):
            return None
        return None if file.find_faults(path.stat().st_size, digests) else url

    def fetch(self, file: RemoteFile, url: str) -> str:
        """Download a file, verify it, and return its URL without credentials.

        Raises TransferError if the download fails, DataError if the file is empty or has the wrong size or digest,
        and StorageError if it can't be written.
        """
        target = self.path(file)
        part = self.folder / ".incoming" / f"{file.name}.part"
        timeout = httpx2.Timeout(self.network.read_timeout, connect=self.network.connect_timeout)
        headers = {"User-Agent": "decabench", "Accept-Encoding": "identity"}
        with storage_errors(target), httpx2.Client(headers=headers, timeout=timeout) as client:
            make_folder(target.parent)
            make_folder(part.parent)
            if self.force:
                _discard(part)
            transfer = _Transfer(client, url, part, self, file)
            for _ in range(2):  # a partial file from an earlier run may be wrong, so try again from the start
                has_end = transfer.complete()
                digests, size = file_digests(part, file.digests), part.stat().st_size
                faults = file.find_faults(size, digests) if size else ["it is empty"]
                if transfer.linked not in ("", digests["sha256"]):
                    faults.append(f"sha256 {digests['sha256']}, but the server reports {transfer.linked}")
                if not faults and not has_end and not file.digests and size != file.size:
                    _discard(part)
                    raise TransferError(
                        f"the connection ended after {size:,} bytes, but the server did not state the "
                        "size, so the file may be incomplete; use a server that sends Content-Length, "
                        "or a mirror with a SHA256SUMS file"
                    )
                if not faults:
                    _write_note(target, url=plain_url(url), sha256=digests["sha256"])
                    part.replace(target)
                    _discard(part)
                    return plain_url(url)
                _discard(part)
        raise DataError(f"the downloaded file has the wrong content: {'; '.join(faults)}")

    def forget(self, file: RemoteFile) -> None:
        """Make the next run download a file again."""
        _note(self.path(file)).unlink(missing_ok=True)


def _note(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _write_note(path: Path, **content: Any) -> None:
    write_file(_note(path), json.dumps({"format": 1, **content}, indent=1))


def _discard(part: Path) -> None:
    """Remove a partial file and its JSON record, so that the next attempt starts from the beginning."""
    part.unlink(missing_ok=True)
    _note(part).unlink(missing_ok=True)


def plain_url(url: str, query: bool = True) -> str:
    """Remove the credentials and, if `query` is false, the query from a URL, so that it can be shown and stored."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, parts.query if query else "", ""))


@dataclass
class _Transfer:
    """The transfer of a single file from one URL into a partial file."""

    client: httpx2.Client
    url: str
    part: Path
    downloads: Downloads
    file: RemoteFile
    linked: str = ""
    """The sha256 that the Hugging Face hub sends with a file, or an empty string for other servers."""
    began: float = field(default_factory=time.monotonic)
    tried: int = 0
    """The number of retries since the transfer last made progress."""
    reached: int = 0
    """The size of the partial file when the transfer last made progress."""

    @property
    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    @property
    def _most(self) -> int:
        size = self.file.size
        return self.downloads.network.largest if size is None else 2 * size + (1 << 20)

    def complete(self) -> bool:
        """Receive all bytes, resuming after interruptions, and return whether the server marked the end of the file.

        The end is not marked if the server just closes the connection after the last byte. Raises
        TransferError if the download fails.
        """
        while True:
            try:
                return self._receive()
            except InterruptedTransferError as error:
                reason = error
            self._wait(reason)

    def _require_time(self) -> None:
        limit = self.downloads.network.time_limit
        if time.monotonic() - self.began >= limit:
            raise TransferError(
                f"the download did not finish within {limit:.3g} s; run the command again to continue"
            )

    def _wait(self, error: InterruptedTransferError) -> None:
        network, size = self.downloads.network, self._size
        if size >= self.reached + _PROGRESS:
            self.reached, self.tried = size, 0
        if self.tried >= network.retries:
            times = f", {self.tried + 1} times" if error.status is None and self.tried else ""
            raise TransferError(f"{error}{times}", error.status)
        asked = error.retry_after
        seconds = min(network.backoff * 2**self.tried if asked is None else asked, network.longest_wait)
        self.tried += 1
        self._require_time()
        again = f"retrying in {seconds:.3g} s ({self.tried} of {network.retries})"
        self.downloads.say(f"{self.file.name}: {error}; {again}")
        time.sleep(seconds)

    def _receive(self) -> bool:
        with _http_errors(self.downloads.network):
            response = self._open()
            try:
                if response.status_code == 416:  # the partial file is complete, or longer than the file
                    if response.headers.get("Content-Range", "") != f"bytes */{self._size}":
                        self._start_over("the partial file does not match the file on the server")
                    return True
                start, total = self._place(response)
                if total is not None and total > self._most:
                    raise TransferError(
                        f"according to the server, the file has {total:,} bytes, but at most {self._most:,} are allowed"
                    )
                if start == 0:
                    tag = _validator(response)
                    _write_note(self.part, url=plain_url(self.url), validator=tag, total=total)
                self._save(response, start, total)
            finally:
                response.close()
        if total is not None and self._size < total:
            raise InterruptedTransferError("the connection was lost")
        return total is not None or _is_chunked(response)

    def _read_note(self) -> dict[str, Any]:
        try:
            return read_json(_note(self.part))
        except (OSError, ValueError):
            return {}

    def _open(self) -> httpx2.Response:
        """Request the file, or the rest of it, and return the response with its body unread.

        Redirects are followed here, because the client would read each redirect's body, however long, into memory.
        """
        headers, note = {}, self._read_note()
        if self._size and note.get("url") == plain_url(self.url):
            headers = {"Range": f"bytes={self._size}-"}
            headers |= {"If-Range": str(note["validator"])} if note.get("validator") else {}
        request = self.client.build_request("GET", self.url, headers=headers)
        for _ in range(_MOST_REDIRECTS + 1):
            self._require_time()
            response = self.client.send(request, stream=True)
            if found := _SHA256.fullmatch(response.headers.get("X-Linked-ETag", "")):
                self.linked = found[1]
            if not response.has_redirect_location:
                return _require_success(response)
            response.close()
            if response.next_request is None:
                raise TransferError("the server redirects to an address that is not HTTP")
            request = response.next_request
        raise TransferError(f"the server redirects in a loop, or more than {_MOST_REDIRECTS} times")

    def _place(self, response: httpx2.Response) -> tuple[int, int | None]:
        """Return the position in the file at which the body starts, and the file's size if known."""
        if response.status_code == 200:
            length = response.headers.get("Content-Length", "")
            return 0, int(length) if length.isdecimal() and not _is_chunked(response) else None
        found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        start = int(found[1]) if found else -1
        total = int(found[2]) if found and found[2] != "*" else None
        if start not in (0, self._size):
            self._start_over("the server resumed at the wrong position")
        note = self._read_note()
        pairs = ((note.get("validator"), _validator(response)), (note.get("total"), total))
        if start and any(old != new for old, new in pairs if old and new):
            self._start_over("the file changed on the server")
        return start, total

    def _start_over(self, reason: str) -> None:
        _discard(self.part)
        raise InterruptedTransferError(reason)

    def _save(self, response: httpx2.Response, start: int, total: int | None) -> None:
        free = shutil.disk_usage(self.part.parent).free
        if total is not None and total - start > free:  # fail now rather than after an hour of downloading
            raise StorageError(
                f"Not enough space in {self.part.parent}: {total - start:,} bytes are needed, but only {free:,} are "
                "free. Free up disk space, or choose another folder with --home."
            )
        is_quiet = not (self.downloads.progress and sys.stderr.isatty())
        options: dict[str, Any] = {"unit": "B", "unit_scale": True, "leave": False, "disable": is_quiet}
        size = start
        try:
            with (
                self.part.open("r+b" if start else "wb") as file,
                tqdm(desc=self.file.name, total=total, initial=start, **options) as bar,
            ):
                file.seek(start)
                for chunk in response.iter_raw():
                    self._require_time()
                    if not size and _is_web_page(response, chunk):
                        raise TransferError("the server sent a web page instead of the file", is_page=True)
                    size += len(chunk)
                    if size > self._most:
                        raise TransferError(
                            f"the server sent more than {self._most:,} bytes, the limit for this file"
                        )
                    file.write(chunk)
                    bar.update(len(chunk))
                file.flush()
                os.fsync(file.fileno())
        except TransferError as error:
            if not isinstance(error, InterruptedTransferError):
                _discard(self.part)
            raise


def _validator(response: httpx2.Response) -> str:
    tag: str = response.headers.get("ETag", "")
    # A weak tag doesn't guarantee identical bytes, so it must not be sent as If-Range.
    return response.headers.get("Last-Modified", "") if not tag or tag.startswith("W/") else tag


def _require_success(response: httpx2.Response) -> httpx2.Response:
    status, encoding = response.status_code, response.headers.get("Content-Encoding", "").lower()
    # Old servers describe a .tgz file as a tar file with the encoding gzip. The body is then the file itself.
    is_own = encoding in ("gzip", "x-gzip") and response.url.path.endswith((".gz", ".tgz"))
    if status in (200, 206, 416) and (encoding in ("", "identity") or is_own):
        return response
    response.close()
    if status in _TEMPORARY:
        asked = response.headers.get("Retry-After", "")
        raise InterruptedTransferError(f"HTTP {status}", status, float(asked) if asked.isdecimal() else None)
    if status in (200, 206, 416):
        raise TransferError(f"the response has the encoding {encoding[:40]!r}, which was not requested")
    raise TransferError(f"HTTP {status}", status)


def _is_chunked(response: httpx2.Response) -> bool:
    found: str = response.headers.get("Transfer-Encoding", "")
    return found.lower() == "chunked"


def _is_web_page(response: httpx2.Response, start: bytes) -> bool:
    is_html = response.headers.get("Content-Type", "").lower().startswith("text/html")
    return bool(_PAGE.match(start[:1024])) or (is_html and start.lstrip()[:1] == b"<")


@contextmanager
def _http_errors(network: Network) -> Iterator[None]:
    """Convert the client's errors to TransferError, because their messages may contain URLs."""
    try:
        yield
    except httpx2.InvalidURL as error:
        raise TransferError("the URL is not valid") from error
    except httpx2.UnsupportedProtocol as error:
        raise TransferError("the server redirects to an address that is not HTTP") from error
    except httpx2.ReadTimeout as error:
        silence = f"the server sent nothing for {network.read_timeout:.3g} s"
        raise InterruptedTransferError(silence) from error
    except httpx2.RequestError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__cause__ or cause.__context__
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise TransferError("the server's TLS certificate is not valid") from error
        reason = cause.strerror.lower() if cause and cause.strerror else "the connection was lost"
        raise InterruptedTransferError(reason) from error
