"""One file from one address, through pooch: checked, resumed, and under its name only when whole."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import pooch
import requests
import urllib3
from requests.adapters import HTTPAdapter
from tqdm import tqdm
from urllib3.util.retry import Retry

from decabench.errors import DataError, StorageError
from decabench.files import atomic_file, make_folder, storage_errors
from decabench.tasks.sources.integrity import (
    Digests,
    Origin,
    digests_of,
    faults,
    pins_of,
    read_origin,
    write_origin,
)
from decabench.tasks.task import RemoteFile

if TYPE_CHECKING:
    from requests import Response
    from urllib3.response import BaseHTTPResponse

__all__ = [
    "Downloads",
    "Network",
    "Part",
    "ResumingDownloader",
    "TransferError",
    "causes",
    "confirmed_url",
    "is_confirmation",
    "new_session",
    "plain_url",
    "reason_of",
]

# ---- network


@dataclass(frozen=True)
class Network:
    """The patience of a download; tests make it short."""

    retries: int = 5
    """Times that a request is repeated after HTTP 429, 500, 502, 503 or 504."""
    connect_retries: int = 2
    """Times that a connection is tried again: fewer, as most hosts that do not answer are gone."""
    resumes: int = 10
    """Times that a transfer which broke off is taken up again."""
    backoff: float = 1.0
    """Seconds before the first repetition; doubled for each that follows."""
    longest_wait: float = 60.0
    """No single wait is longer, whatever a server's Retry-After asks for."""
    connect_timeout: float = 15.0
    """Seconds in which a connection must stand."""
    read_timeout: float = 60.0
    """Seconds without a byte; a slow transfer goes on as long as bytes come."""
    drive_hosts: tuple[str, ...] = ("drive.google.com", "docs.google.com", "drive.usercontent.google.com")
    """Hosts (and ports) that may answer with Google Drive's confirmation page."""
    drive_download: str = "https://drive.usercontent.google.com/download"
    """Where that page's form leads."""

    def wait(self, attempt: int) -> float:
        """Seconds before repetition number `attempt`, counted from zero."""
        return float(min(self.backoff * 2**attempt, self.longest_wait))


class TransferError(Exception):
    """A download that did not succeed; the message is the reason alone, without address or secret."""

    def __init__(self, reason: str, absent: bool = False) -> None:
        super().__init__(reason)
        self.absent = absent
        """Whether the server says that it has no such file."""


def plain_url(url: str, query: bool = True) -> str:
    """The address without a user name, a password and, on request, the query: fit to be shown and stored."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, parts.query if query else "", ""))


def reason_of(error: BaseException) -> str:
    """A few words for an error of the network; never its own text, which repeats addresses."""
    chain = causes(error)
    names = {type(link).__name__ for link in chain}
    for name, reason in _REASONS:
        if name in names:
            return reason
    told = next(
        (link.strerror for link in reversed(chain) if isinstance(link, OSError) and link.strerror), None
    )
    return str(told).lower() if told else type(error).__name__


_REASONS = (
    ("SSLCertVerificationError", "its TLS certificate is not valid"),
    ("SSLError", "no secure connection"),
    ("ProxyError", "the proxy refused"),
    ("NameResolutionError", "its name is not known"),
    ("gaierror", "its name is not known"),
    ("ConnectTimeoutError", "no connection in time"),
    ("ConnectTimeout", "no connection in time"),
    ("ReadTimeoutError", "it fell silent"),
    ("ReadTimeout", "it fell silent"),
    ("IncompleteRead", "the connection broke off"),
    ("TooManyRedirects", "it redirects in a circle"),
    ("InvalidURL", "not a valid address"),
    ("LocationParseError", "not a valid address"),
    ("MissingSchema", "not a valid address"),
    ("InvalidSchema", "not an HTTP address"),
)
"""By the exact name of a class: urllib3 derives a refused connection from one that took too long."""


def causes(error: BaseException | None) -> list[BaseException]:
    """The error and all that it wraps: requests and urllib3 keep the cause in `reason` and in `args`."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting and len(found) < 20:
        link = waiting.pop()
        if link is not None and link not in found:
            found.append(link)
            inner = (*link.args, getattr(link, "reason", None), link.__cause__)
            waiting += [each for each in inner if isinstance(each, BaseException)]
    return found


# ---- drive

_LONGEST_PAGE = 1 << 20


def is_confirmation(response: Response, network: Network) -> bool:
    """Whether this is a page of Drive's instead of a file."""
    content = response.headers.get("Content-Type", "")
    return content.startswith("text/html") and urlsplit(response.url).netloc in network.drive_hosts


def confirmed_url(response: Response, url: str, network: Network) -> str:
    """The address that the page's form leads to.

    Only its hidden fields are taken from the page; where it leads is ours to say.
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


# ---- part


@dataclass(frozen=True)
class Part:
    """The bytes that came so far, with a note of the version that they belong to."""

    path: Path
    """`<name>.part`; the note is `<name>.part.json`."""

    @property
    def _note(self) -> Path:
        return self.path.with_name(self.path.name + ".json")

    def headers(self, url: str) -> dict[str, str]:
        """The request headers that go on where the part ends; none where it has to start over."""
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
            size, noted, validator = self.path.stat().st_size, note["url"], note["validator"]
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        if size == 0 or noted != plain_url(url):
            return {}
        return {"Range": f"bytes={size}-"} | ({"If-Range": validator} if validator else {})

    def begin(self, url: str, response: Response) -> None:
        """Notes which version of the file is about to be written."""
        tag = response.headers.get("ETag", "")
        # A weak tag does not promise the same bytes, so If-Range may not have it.
        validator = response.headers.get("Last-Modified", "") if not tag or tag.startswith("W/") else tag
        with atomic_file(self._note) as note:
            note.write(json.dumps({"format": 1, "url": plain_url(url), "validator": validator}).encode())

    def size(self) -> int:
        """Bytes so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def discard(self) -> None:
        """Removes it, so that the next attempt starts from nothing."""
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)

    def hand_over(self, target: Path) -> None:
        """Moves the whole file to `target`."""
        self.path.replace(target)
        self.discard()


# ---- session


class _PatientRetry(Retry):
    """urllib3's Retry with a limit to every wait, so that no Retry-After holds a run for hours."""

    longest_wait = 60.0

    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        asked = super().get_retry_after(response)
        return None if asked is None else min(asked, self.longest_wait)


def new_session(network: Network) -> requests.Session:
    """A session with the network's patience, which asks for the bytes as they lie on the server."""
    # The limit stands on a class of its own: urllib3 makes a new object of it for every attempt.
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


# ---- transfer

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


# ---- download

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
