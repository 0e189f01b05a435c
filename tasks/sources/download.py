"""Download single files: verified, resumed at the exact byte, and given their name only when complete.

pooch, which also downloads data files, would replace little of this: its retries start from the first byte, it
forgets what an interrupted run had, and it knows neither If-Range nor Retry-After nor git's digests.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from tqdm import tqdm
from urllib3.util.retry import Retry

from decabench.errors import DataError, StorageError
from decabench.files import atomic_file, make_folder, storage_errors
from decabench.tasks.sources.local_files import Digests, find_faults, published_digests
from decabench.tasks.task import RemoteFile

if TYPE_CHECKING:
    from urllib3.response import BaseHTTPResponse

__all__ = [
    "Downloads",
    "Network",
    "Origin",
    "TransferError",
    "causes",
    "new_session",
    "plain_url",
    "reason_of",
]


@dataclass(frozen=True)
class Network:
    """Timeouts and retries of downloads; tests shorten them."""

    retries: int = 5
    """Number of retries of a request after HTTP 429, 500, 502, 503 or 504."""
    connect_retries: int = 2
    """Number of retries of a connection: fewer, as most hosts that do not answer are gone."""
    resumes: int = 10
    """Number of times an interrupted transfer is resumed."""
    backoff: float = 1.0
    """Seconds before the first retry; doubled for each further one."""
    longest_wait: float = 60.0
    """The longest single wait in seconds, whatever a server's Retry-After asks for."""
    connect_timeout: float = 15.0
    """Seconds within which a connection must be made."""
    read_timeout: float = 60.0
    """Seconds without a byte; a slow transfer continues as long as bytes arrive."""
    drive_hosts: tuple[str, ...] = ("drive.google.com", "docs.google.com", "drive.usercontent.google.com")
    """Hosts (and ports) that may answer with Google Drive's confirmation page."""
    drive_download: str = "https://drive.usercontent.google.com/download"
    """The URL that the form on that page submits to."""

    def wait(self, attempt: int) -> float:
        """Return the seconds to wait before retry number `attempt`, counted from zero."""
        return float(min(self.backoff * 2**attempt, self.longest_wait))


class _PatientRetry(Retry):
    """urllib3's Retry with a limit to every wait, so that no Retry-After holds a run for hours."""

    longest_wait = 60.0

    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        asked = super().get_retry_after(response)
        return None if asked is None else min(asked, self.longest_wait)


def new_session(network: Network) -> requests.Session:
    """Open a session with these timeouts and retries, which requests the bytes as stored on the server."""
    # The limit is set on a new class: urllib3 creates a new object of it for every attempt.
    patience = type("_Patience", (_PatientRetry,), {"longest_wait": network.longest_wait})
    retry = patience(
        total=network.retries,
        connect=network.connect_retries,
        read=network.connect_retries,
        backoff_factor=network.backoff,
        backoff_max=network.longest_wait,
        status_forcelist=(429, 500, 502, 503, 504),
        allowed_methods=("GET",),
        raise_on_status=False,
    )
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(max_retries=retry))
    session.headers.update({"User-Agent": "decabench", "Accept-Encoding": "identity"})
    return session


class TransferError(Exception):
    """A download that failed; the message is only the reason, without URLs or secrets."""


def plain_url(url: str, query: bool = True) -> str:
    """Remove the user name, password and, on request, the query from a URL, so that it can be shown and stored."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, parts.query if query else "", ""))


_REASONS = (
    ("SSLCertVerificationError", "its TLS certificate is not valid"),
    ("SSLError", "no secure connection"),
    ("ProxyError", "the proxy refused"),
    ("NameResolutionError", "unknown host name"),
    ("gaierror", "unknown host name"),
    ("ConnectTimeoutError", "the connection timed out"),
    ("ConnectTimeout", "the connection timed out"),
    ("ReadTimeoutError", "the server stopped sending"),
    ("ReadTimeout", "the server stopped sending"),
    ("IncompleteRead", "the connection was lost"),
    ("TooManyRedirects", "it redirects in a circle"),
    ("InvalidURL", "not a valid address"),
    ("LocationParseError", "not a valid address"),
    ("MissingSchema", "not a valid address"),
    ("InvalidSchema", "not an HTTP address"),
)
"""By the exact name of a class: urllib3 derives a refused connection from one that timed out."""


def reason_of(error: BaseException) -> str:
    """Describe a network error in a few words; its own message repeats URLs and is never used."""
    chain = causes(error)
    names = {type(link).__name__ for link in chain}
    for name, reason in _REASONS:
        if name in names:
            return reason
    for link in reversed(chain):
        if isinstance(link, OSError) and link.strerror:
            return str(link.strerror).lower()
    return type(error).__name__


def causes(error: BaseException | None) -> list[BaseException]:
    """Return an error and all errors that it wraps: requests and urllib3 keep causes in `reason` and in `args`."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting and len(found) < 20:
        link = waiting.pop()
        if link is not None and link not in found:
            found.append(link)
            inner = (*link.args, getattr(link, "reason", None), link.__cause__)
            waiting += [each for each in inner if isinstance(each, BaseException)]
    return found


@dataclass(frozen=True)
class Origin:
    """Where a download came from, and its digests when it was verified."""

    url: str
    """Its address, without user name and password."""
    digests: Digests
    """The digests of its bytes."""


@dataclass(frozen=True)
class Downloads:
    """A folder of verified downloads.

    `<name>.json` beside a download saves hashing it again; `.incoming/<name>.part` is an incomplete download.
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

    def path(self, file: RemoteFile) -> Path:
        """Return the path of a file once it is downloaded."""
        return self.folder / file.name

    def find(self, file: RemoteFile, urls: tuple[str, ...]) -> Origin | None:
        """Return the origin of a file that exists, is intact and came from one of these URLs; None otherwise."""
        origin = None if self.force else _read_origin(self.path(file), file)
        if origin is None or origin.url not in map(plain_url, urls):
            return None
        return None if self.strict and find_faults(file, origin.digests) else origin

    def fetch(self, file: RemoteFile, url: str) -> Digests:
        """Download a file and verify it. Raises TransferError, DataError for wrong bytes, StorageError."""
        target = self.path(file)
        part = _Part(self.folder / ".incoming" / f"{file.name}.part")
        with storage_errors(target), new_session(self.network) as session:
            make_folder(target.parent)
            make_folder(part.path.parent)
            if self.force:
                part.discard()
            for _ in range(2):  # wrong bytes may come from an old part, so try again from the start
                _Transfer(session, url, part, self.network, self.progress).complete()
                digests = Digests.compute(part.path, published_digests(file))
                faults = find_faults(file, digests) if self.strict else []
                if not faults:
                    _write_origin(part.path, Origin(plain_url(url), digests), target)
                    part.path.replace(target)
                    part.discard()
                    return digests
                part.discard()
        raise DataError(f"the file is not the published one: {'; '.join(faults)}")


def _origin_note(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _write_origin(path: Path, origin: Origin, target: Path) -> None:
    """Record the origin of the file at `path`, which is about to be moved to `target`."""
    content = {
        "format": 1,
        "url": origin.url,
        "size": origin.digests.size,
        "modified": path.stat().st_mtime_ns,
        "digests": dict(origin.digests.values),
    }
    with atomic_file(_origin_note(target)) as note:
        note.write(json.dumps(content, indent=1).encode())


def _read_origin(path: Path, file: RemoteFile) -> Origin | None:
    """Read the origin of a complete download; None if it was changed since, or there is none."""
    try:
        content = json.loads(_origin_note(path).read_text(encoding="utf-8"))
        noted = Digests(int(content["size"]), dict(content["digests"]))
        url, modified, stat = str(content["url"]), content["modified"], path.stat()
        kinds = published_digests(file).keys()
        if (stat.st_size, stat.st_mtime_ns) == (noted.size, modified) and kinds <= noted.values.keys():
            return Origin(url, noted)
        digests = Digests.compute(path, kinds)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Origin(url, digests) if digests.values["sha256"] == noted.values.get("sha256") else None


@dataclass(frozen=True)
class _Part:
    """The bytes received so far, with a note of the version they belong to."""

    path: Path
    """`<name>.part`; the note is `<name>.part.json`."""

    @property
    def _note(self) -> Path:
        return self.path.with_name(self.path.name + ".json")

    def resume_headers(self, url: str) -> dict[str, str]:
        """Return the request headers to resume after the part; none if the download has to start over."""
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
            size, noted, validator = self.path.stat().st_size, note["url"], note["validator"]
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        if size == 0 or noted != plain_url(url):
            return {}
        return {"Range": f"bytes={size}-"} | ({"If-Range": validator} if validator else {})

    def begin(self, url: str, response: requests.Response) -> None:
        """Record which version of the file is about to be written."""
        tag = response.headers.get("ETag", "")
        # A weak tag does not promise the same bytes, so it must not be sent as If-Range.
        validator = response.headers.get("Last-Modified", "") if not tag or tag.startswith("W/") else tag
        with atomic_file(self._note) as note:
            note.write(json.dumps({"format": 1, "url": plain_url(url), "validator": validator}).encode())

    def open(self, start: int) -> BinaryIO:
        """Open the part for writing from byte `start`."""
        file = self.path.open("r+b" if start else "wb")
        file.seek(start)
        return file

    def size(self) -> int:
        """Return the number of bytes so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def discard(self) -> None:
        """Remove the part, so that the next attempt starts from nothing."""
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)


class _Interrupted(Exception):
    """The body ended early: the bytes so far are kept, and the transfer can be resumed."""


_CHUNK = 1 << 16
_WEB_PAGE = re.compile(rb"\s*(<!doctype html|<html)", re.IGNORECASE)


@dataclass(frozen=True)
class _Transfer:
    """The transfer of one file from one address into a part."""

    session: requests.Session
    url: str
    part: _Part
    network: Network
    progress: bool

    def complete(self) -> None:
        """Receive all bytes, resuming after interruptions. Raises TransferError."""
        for attempt in range(self.network.resumes + 1):
            try:
                return self._receive()
            except _Interrupted as error:
                reason = str(error)
            if attempt < self.network.resumes:
                time.sleep(self.network.wait(attempt))
        raise TransferError(f"{reason}, {self.network.resumes + 1} times")

    def _receive(self) -> None:
        headers = self.part.resume_headers(self.url)
        with self._open(headers) as response:
            if response.status_code == 416:  # the part is complete already, or longer than the file
                if _first_number(r"bytes \*/(\d+)", response) != self.part.size():
                    self.part.discard()
                    raise _Interrupted("the partial file did not match")
                return
            start = _first_number(r"bytes (\d+)-", response) if response.status_code == 206 else 0
            if start not in (0, self.part.size()):
                self.part.discard()
                raise _Interrupted("the server resumed at the wrong place")
            if start == 0:
                self.part.begin(self.url, response)
            self._save(response, start)

    def _open(self, headers: dict[str, str]) -> requests.Response:
        response = self._get(self.url, headers)
        if _is_drive_page(response, self.network):
            with response:
                target = _confirmed_url(response, self.url, self.network)
            response = self._get(target, headers)
        if response.status_code not in (200, 206, 416):
            response.close()
            raise TransferError(f"HTTP {response.status_code}")
        return response

    def _get(self, url: str, headers: dict[str, str]) -> requests.Response:
        timeout = (self.network.connect_timeout, self.network.read_timeout)
        try:
            return self.session.get(url, headers=headers, stream=True, timeout=timeout)
        except (requests.RequestException, urllib3.exceptions.HTTPError, UnicodeError) as error:
            raise TransferError(reason_of(error)) from error

    def _save(self, response: requests.Response, start: int) -> None:
        length = _body_length(response)
        free = shutil.disk_usage(self.part.path.parent).free
        if length is not None and length > free:  # raise now, not after an hour of downloading
            raise StorageError(
                f"Not enough space in {self.part.path.parent}: {length:,} bytes are needed, {free:,} are free; "
                "free some, or choose another folder with --home."
            )
        with self.part.open(start) as file, self._bar(start, length) as bar:
            for chunk in _read_chunks(response, first=start == 0):
                file.write(chunk)
                bar.update(len(chunk))
            file.flush()
            os.fsync(file.fileno())
        if length is not None and self.part.size() < start + length:
            raise _Interrupted("the connection was lost")

    def _bar(self, start: int, length: int | None) -> tqdm[Any]:
        return tqdm(
            desc=self.part.path.name.removesuffix(".part"),
            total=None if length is None else start + length,
            initial=start,
            unit="B",
            unit_scale=True,
            leave=False,
            disable=not (self.progress and sys.stderr.isatty()),
        )


def _first_number(pattern: str, response: requests.Response) -> int:
    """Read a number from the Content-Range of a 206 or a 416; -1 if there is none."""
    found = re.match(pattern, response.headers.get("Content-Range", ""))
    return int(found[1]) if found else -1


def _is_encoded(response: requests.Response) -> bool:
    """Tell whether a content encoding has to be decoded to get the file's own bytes.

    Old servers call a .tgz a tar file with the encoding gzip, which is the file itself.
    """
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    path = urlsplit(response.url).path
    return encoding != "identity" and not (encoding in ("gzip", "x-gzip") and path.endswith((".gz", ".tgz")))


def _body_length(response: requests.Response) -> int | None:
    """Return the number of bytes that the body must have, if known."""
    length = response.headers.get("Content-Length", "")
    return int(length) if length.isdigit() and not _is_encoded(response) else None


def _read_chunks(response: requests.Response, first: bool) -> Iterator[bytes]:
    try:
        for chunk in response.raw.stream(_CHUNK, decode_content=_is_encoded(response)):
            if first and _WEB_PAGE.match(chunk[:256]):
                raise TransferError("a web page was sent instead of the file")
            first = False
            yield chunk
    except (urllib3.exceptions.HTTPError, requests.RequestException, ConnectionError, TimeoutError) as error:
        raise _Interrupted(reason_of(error)) from error


_LONGEST_PAGE = 1 << 20


def _is_drive_page(response: requests.Response, network: Network) -> bool:
    """Tell whether Google Drive sent a page, which asks for confirmation, instead of the file."""
    content = response.headers.get("Content-Type", "")
    return content.startswith("text/html") and urlsplit(response.url).netloc in network.drive_hosts


def _confirmed_url(response: requests.Response, url: str, network: Network) -> str:
    """Return the URL that the page's form submits to.

    Only the form's hidden fields are taken from the page; the host is fixed.
    """
    form = _HiddenFields()
    form.feed(response.raw.read(_LONGEST_PAGE, decode_content=True).decode("utf-8", "replace"))
    fields = dict(parse_qsl(urlsplit(url).query)) | form.fields | {"confirm": "t"}
    return f"{network.drive_download}?{urlencode(fields)}"


class _HiddenFields(HTMLParser):
    """Collects `<input type="hidden">` inside `<form id="download-form">`."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "form":
            self._inside = given.get("id") == "download-form"
        elif tag == "input" and self._inside and given.get("type") == "hidden" and given.get("name"):
            self.fields[str(given["name"])] = given.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False
