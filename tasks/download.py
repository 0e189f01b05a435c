"""Download published files over HTTP, from their own addresses or from a mirror.

Interrupted transfers resume at the exact byte, and a file gets its final name only once it is complete and
verified.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import httpx2
from tqdm import tqdm

from decabench.errors import DataError, MissingDataError, StorageError
from decabench.files import atomic_file, file_digests, make_folder, storage_errors
from decabench.tasks.readers import FileRecord, SourceFiles, make_record, open_source
from decabench.tasks.task import RemoteFile, Source
from decabench.text import printable, short_list
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
    """The longest wait in seconds, even if a server's Retry-After asks for more."""
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

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


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
    """The folder, in which downloads have their published names."""
    network: Network = field(default_factory=Network)
    """Timeouts, retries and limits."""
    progress: bool = True
    """Whether to show a progress bar on a terminal."""
    force: bool = False
    """Whether to download files again that already exist."""
    strict: bool = True
    """Whether files must have the published digests. A mirror's files don't have to."""
    say: Callable[[str], None] = lambda text: print(f"  {printable(text)}", file=sys.stderr, flush=True)
    """Called with a message before each wait for a retry."""

    def path(self, file: RemoteFile) -> Path:
        """Return the path of a downloaded file."""
        return self.folder / file.name

    def find(self, file: RemoteFile, urls: tuple[str, ...]) -> tuple[str, dict[str, str]] | None:
        """Return the URL and digests of a downloaded file, or None.

        The file must exist, be intact, and have come from one of these URLs.
        """
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

        Raises TransferError, DataError if the bytes are wrong, or StorageError.
        """
        target = self.path(file)
        part = self.folder / ".incoming" / f"{file.name}.part"
        timeout = httpx2.Timeout(self.network.read_timeout, connect=self.network.connect_timeout)
        headers = {"User-Agent": "decabench", "Accept-Encoding": "identity"}
        options: dict[str, Any] = {
            "timeout": timeout,
            "follow_redirects": True,
            "max_redirects": _MOST_REDIRECTS,
        }
        with storage_errors(target), httpx2.Client(headers=headers, **options) as client:
            make_folder(target.parent)
            make_folder(part.parent)
            if self.force:
                _discard(part)
            transfer = _Transfer(client, url, part, self, file)
            for _ in range(2):  # an old partial file may be wrong, so try once more from the start
                transfer.complete()
                digests, size = file_digests(part, file.digests), part.stat().st_size
                faults = file.find_faults(size, digests) if self.strict else []
                if transfer.linked not in ("", digests["sha256"]):
                    faults.append(f"sha256 {digests['sha256']}, but the server says {transfer.linked}")
                if not size:
                    faults = ["it is empty"]
                if not faults:
                    _write_note(target, url=plain_url(url), digests=digests)
                    part.replace(target)
                    _discard(part)
                    return digests
                _discard(part)
        raise DataError(f"the file is not the published one: {'; '.join(faults)}")

    def forget(self, file: RemoteFile) -> None:
        """Make the next run download a file again."""
        _note(self.path(file)).unlink(missing_ok=True)


def _note(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _write_note(path: Path, **content: Any) -> None:
    with atomic_file(_note(path)) as note:
        note.write(json.dumps({"format": 1, **content}, indent=1).encode())


def _discard(part: Path) -> None:
    """Remove a partial file and its note, so that the next attempt starts from the beginning."""
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
    """The number of retries since the last progress."""
    reached: int = 0
    """The size of the partial file at the last progress."""

    @property
    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    @property
    def _most(self) -> int:
        size = self.file.size
        return self.downloads.network.largest if size is None else 2 * size + (1 << 20)

    def complete(self) -> None:
        """Receive all bytes, resuming after interruptions. Raises TransferError."""
        while True:
            try:
                return self._receive()
            except InterruptedTransferError as error:
                reason = error
            self._wait(reason)

    def _require_time(self) -> None:
        limit = self.downloads.network.time_limit
        if time.monotonic() - self.began >= limit:
            raise TransferError(f"the download was not complete after {limit:.3g} s; run again to continue")

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

    def _receive(self) -> None:
        note, headers = self._read_note(), {}
        if self._size and note.get("url") == plain_url(self.url):
            headers = {"Range": f"bytes={self._size}-"}
            headers |= {"If-Range": str(note["validator"])} if note.get("validator") else {}
        self._require_time()
        with (
            _http_errors(self.downloads.network),
            self.client.stream("GET", self.url, headers=headers) as response,
        ):
            for each in (*response.history, response):
                if found := _SHA256.fullmatch(each.headers.get("X-Linked-ETag", "")):
                    self.linked = found[1]
            _require_success(response)
            if response.status_code == 416:  # the partial file is complete, or longer than the file
                if response.headers.get("Content-Range", "") != f"bytes */{self._size}":
                    self._start_over("the partial file did not match")
                return
            start, total = self._place(response)
            if total is not None and total > self._most:
                raise TransferError(
                    f"the file would have {total:,} bytes, but at most {self._most:,} are plausible"
                )
            if start == 0:
                tag = _validator(response)
                _write_note(self.part, url=plain_url(self.url), validator=tag, total=total)
            self._save(response, start, total)
        if total is not None and self._size < total:
            raise InterruptedTransferError("the connection was lost")

    def _read_note(self) -> dict[str, Any]:
        try:
            return read_json(_note(self.part))
        except (OSError, ValueError):
            return {}

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
                        raise TransferError("the server sent a web page instead of the file")
                    size += len(chunk)
                    if size > self._most:
                        raise TransferError(
                            f"the file has more than {self._most:,} bytes, which is not plausible"
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


def _require_success(response: httpx2.Response) -> None:
    status, encoding = response.status_code, response.headers.get("Content-Encoding", "").lower()
    if status in _TEMPORARY:
        asked = response.headers.get("Retry-After", "")
        raise InterruptedTransferError(f"HTTP {status}", status, float(asked) if asked.isdecimal() else None)
    if status not in (200, 206, 416):
        raise TransferError(f"HTTP {status}", status)
    # Old servers describe a .tgz file as a tar file with the encoding gzip, which is the file itself.
    is_own = encoding in ("gzip", "x-gzip") and response.url.path.endswith((".gz", ".tgz"))
    if encoding not in ("", "identity") and not is_own:
        raise TransferError(f"the response has the encoding {encoding[:40]!r}, which was not requested")


def _is_chunked(response: httpx2.Response) -> bool:
    found: str = response.headers.get("Transfer-Encoding", "")
    return found.lower() == "chunked"


def _is_web_page(response: httpx2.Response, start: bytes) -> bool:
    is_html = response.headers.get("Content-Type", "").lower().startswith("text/html")
    return bool(_PAGE.match(start[:1024])) or (is_html and start.lstrip()[:1] == b"<")


@contextmanager
def _http_errors(network: Network) -> Iterator[None]:
    """Turn the client's errors into a TransferError, because their own messages repeat URLs."""
    try:
        yield
    except httpx2.InvalidURL as error:
        raise TransferError("not a valid address") from error
    except httpx2.UnsupportedProtocol as error:
        raise TransferError("the server redirects to an address that is not HTTP") from error
    except httpx2.TooManyRedirects as error:
        raise TransferError(
            f"the server redirects in a loop, or more than {_MOST_REDIRECTS} times"
        ) from error
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


# The files of a task


def fetch(
    task: str,
    sources: Sequence[Source],
    splits: Sequence[str],
    downloads: Downloads,
    mirror: str | None = None,
) -> tuple[SourceFiles, Downloads]:
    """Download the files of the splits from the first source that works, unless they already exist.

    With `mirror`, a URL, they come from `<mirror>/<task>/`, regardless of published digests. Also returns the
    folder with the downloads. Raises MissingDataError with the reason for each source, and StorageError.
    """
    if mirror is None and not any(source.urls for source in sources):
        names = [
            dict.fromkeys(file.name for split in splits for file in source.files.get(split, ()))
            for source in sources
        ]
        own = "; or ".join(short_list(list(each)) for each in names)
        raise MissingDataError(
            f"The files for {task} are not published. Put your own copies ({own}) into the folder "
            f"DIR/{task} and use --mirror DIR."
        )
    if mirror is not None:
        mirror = mirror.rstrip("/")
        # Each mirror has its own folder, because its files may differ from upstream's and must never replace
        # them.
        key = hashlib.sha256(plain_url(mirror).encode()).hexdigest()[:8]
        downloads = replace(downloads, folder=downloads.folder / f"mirror-{key}", strict=False)

    def provide(file: RemoteFile) -> tuple[Path, FileRecord]:
        urls = tuple(map(_hub_address, file.urls))
        if mirror is not None:
            urls = (f"{mirror}/{quote(task)}/{quote(file.name)}",)
        if not urls:
            raise MissingDataError(f"{file.name} is not published anywhere; only a mirror can provide it")
        failures = []
        for url in urls:
            try:
                found = downloads.find(file, urls) or (plain_url(url), downloads.fetch(file, url))
            except StorageError:
                raise
            except (TransferError, DataError) as error:
                failures.append(f"{plain_url(url, query=mirror is None)} ({error})")
            else:
                origin = found[0] if mirror is None else f"mirror:{file.name}"
                return downloads.path(file), make_record(file, origin, downloads.path(file), found[1])
        raise MissingDataError(f"{file.name} from {' and from '.join(failures)}")

    make_folder(downloads.folder)
    try:
        opened = open_source(sources, splits, lambda files: list(map(provide, files)), downloads.folder)
        return opened, downloads
    except MissingDataError as error:
        if mirror is not None:
            raise MissingDataError(
                f"The mirror {plain_url(mirror, query=False)} does not contain the files for {task}: {error}. "
                f"Put the files in the mirror's folder {task}."
            ) from error
        raise MissingDataError(
            f"The files for {task} can't be downloaded from any source: {error}. "
            "Try again later, or use --mirror with a folder or URL that has the files."
        ) from error


_HUB = "https://huggingface.co"


def _hub_address(url: str) -> str:
    mirror = os.environ.get("HF_ENDPOINT", "").rstrip("/")
    return mirror + url.removeprefix(_HUB) if mirror and url.startswith(f"{_HUB}/") else url
