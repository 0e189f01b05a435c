"""HTTP requests that end: retried aloud, redirects followed by hand, bodies decoded and counted within bounds."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit, urlunsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

__all__ = [
    "CHUNK",
    "InterruptedTransferError",
    "Network",
    "Patience",
    "TransferError",
    "causes",
    "is_encoded",
    "new_session",
    "plain_url",
    "read_body",
    "reason_of",
    "send",
]

CHUNK = 1 << 16
"""The most bytes of a body in memory."""

_MOST_REDIRECTS = 10
_TEMPORARY = (408, 429, 500, 502, 503, 504)
_PROGRESS = 1 << 20


@dataclass(frozen=True)
class Network:
    """Timeouts, retries and bounds of downloads; tests shorten them."""

    retries: int = 5
    """Number of retries after failed requests and interrupted transfers; each MiB that arrives restores them."""
    connect_retries: int = 2
    """Number of retries of a connection: fewer, as most hosts that do not answer are gone."""
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
    drive_hosts: tuple[str, ...] = ("drive.google.com", "docs.google.com", "drive.usercontent.google.com")
    """Hosts (and ports) that may answer with Google Drive's confirmation page."""
    drive_download: str = "https://drive.usercontent.google.com/download"
    """The URL that the form on that page submits to."""

    def wait(self, attempt: int) -> float:
        """Return the seconds to wait before retry number `attempt`, counted from zero."""
        return float(min(self.backoff * 2**attempt, self.longest_wait))


class TransferError(Exception):
    """A download that failed; the message is only the reason, without URLs or secrets."""

    def __init__(self, reason: str, status: int | None = None, is_page: bool = False) -> None:
        super().__init__(reason)
        self.status = status
        self.is_page = is_page


class InterruptedTransferError(TransferError):
    """A request or transfer that failed for now: what has arrived is kept, and it may be tried again."""

    def __init__(
        self, reason: str, status: int | None = None, retry_after: float | None = None, connected: bool = True
    ) -> None:
        super().__init__(reason, status)
        self.retry_after = retry_after
        self.connected = connected


@dataclass
class Patience:
    """Decides whether and when a transfer is tried again, and says so."""

    network: Network
    """Numbers of retries, waits and the time limit."""
    name: str
    """The file's name, for messages."""
    say: Callable[[str], None] | None = None
    """Called with one sentence before every wait."""
    _began: float = field(default_factory=time.monotonic)
    _retries: int = 0
    _reached: int = 0

    @property
    def seconds_left(self) -> float:
        """The seconds left for this file; 0 or less if its time is up."""
        return self.network.time_limit - (time.monotonic() - self._began)

    def require_time(self) -> None:
        """Raise TransferError if the file has taken too long."""
        if self.seconds_left <= 0:
            raise TransferError(
                f"it was not complete after {_duration(self.network.time_limit)}; run again to continue"
            )

    def wait(self, error: InterruptedTransferError, size: int) -> None:
        """Wait before the next attempt, with `size` bytes on disk. Raises TransferError if there is to be none."""
        if size >= self._reached + _PROGRESS:
            self._reached, self._retries = size, 0
        most = self.network.retries if error.connected else self.network.connect_retries
        if self._retries >= most:
            times = f", {self._retries + 1} times" if error.status is None and self._retries else ""
            raise TransferError(f"{error}{times}", error.status)
        seconds = self.network.wait(self._retries)
        if error.retry_after is not None:
            seconds = min(error.retry_after, self.network.longest_wait)
        self._retries += 1
        self.require_time()
        if self.say is not None:
            self.say(f"{self.name}: {error}; retrying in {_duration(seconds)} ({self._retries} of {most})")
        time.sleep(min(seconds, max(self.seconds_left, 0)))


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def plain_url(url: str, query: bool = True) -> str:
    """Remove the user name, password and, on request, the query from a URL, so that it can be shown and stored."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, parts.query if query else "", ""))


# Requests


class _Session(requests.Session):
    """A session that never looks where a redirect leads: to do so, requests reads its whole body, endless or not."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        return None


def new_session() -> requests.Session:
    """Open a session that requests the bytes as stored on the server; retries and redirects are its caller's."""
    session = _Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(max_retries=Retry(0, redirect=0, raise_on_status=False)))
    session.headers.update({"User-Agent": "decabench", "Accept-Encoding": "identity"})
    return session


def send(
    session: requests.Session, url: str, headers: dict[str, str], network: Network, patience: Patience
) -> requests.Response:
    """Request a URL and return the response with its body unread.

    Redirects are followed here, because requests would first read the body of each into memory. Raises TransferError.
    """
    target = url
    for _ in range(_MOST_REDIRECTS + 1):
        patience.require_time()
        response = _get(session, target, headers, network)
        if not response.is_redirect:
            return _require_success(response)
        response.close()
        target = _redirect_target(response.url, response.headers["Location"], url)
    raise TransferError(f"it redirects in a circle, or more than {_MOST_REDIRECTS} times")


def _get(session: requests.Session, url: str, headers: dict[str, str], network: Network) -> requests.Response:
    timeout = (network.connect_timeout, network.read_timeout)
    try:
        return session.get(url, headers=headers, stream=True, timeout=timeout, allow_redirects=False)
    except (requests.RequestException, urllib3.exceptions.HTTPError, UnicodeError, ValueError) as error:
        reason = _reason(error, network)
        if isinstance(error, (requests.Timeout, requests.ConnectionError)) and reason not in _LASTING:
            connected = not _names(error).isdisjoint(("ReadTimeout", "ReadTimeoutError", "ProtocolError"))
            raise InterruptedTransferError(reason, connected=connected) from error
        raise TransferError(reason) from error


def _require_success(response: requests.Response) -> requests.Response:
    status = response.status_code
    if status in (200, 206, 416):
        return response
    response.close()
    if status not in _TEMPORARY:
        raise TransferError(f"HTTP {status}", status)
    raise InterruptedTransferError(f"HTTP {status}", status, _retry_after(response))


def _retry_after(response: requests.Response) -> float | None:
    try:
        return max(Retry().parse_retry_after(response.headers.get("Retry-After", "")), 0.0)
    except (urllib3.exceptions.InvalidHeader, ValueError, OverflowError):
        return None


def _redirect_target(here: str, location: str, first: str) -> str:
    """Return the URL that a redirect leads to; only the first URL's own host is told its user name and password."""
    try:
        # Headers are read as Latin-1, but the bytes of an address are UTF-8.
        target = urlsplit(urljoin(here, location.encode("latin-1", "replace").decode("utf-8", "replace")))
        login, _, host = urlsplit(first).netloc.rpartition("@")
        is_http = target.scheme in ("http", "https") and bool(target.hostname)
    except ValueError:
        is_http = False
    if not is_http:
        raise TransferError("it redirects to something that is not an HTTP address")
    given = target.netloc.rpartition("@")[2]
    if login and (target.scheme, given) == (urlsplit(first).scheme, host):
        given = f"{login}@{given}"
    return urlunsplit((target.scheme, given, target.path, target.query, ""))


# Bodies


def is_encoded(response: requests.Response) -> bool:
    """Tell whether a content encoding has to be decoded to get the file's own bytes.

    Old servers call a .tgz a tar file with the encoding gzip, which is the file itself.
    """
    encoding = response.headers.get("Content-Encoding", "").lower()
    path = urlsplit(response.url).path
    is_own = encoding in ("gzip", "x-gzip") and path.endswith((".gz", ".tgz"))
    return encoding not in ("", "identity") and not is_own


def read_body(
    response: requests.Response, network: Network, patience: Patience, most: int
) -> Iterator[bytes]:
    """Yield a body, decoded, in chunks as they arrive. Raises TransferError if it is too long or too slow."""
    chunks = _read_raw(response, network, patience)
    size = 0
    for chunk in _decode(chunks, response) if is_encoded(response) else chunks:
        size += len(chunk)
        if size > most:
            raise TransferError(f"it sends more than {most:,} bytes, which is more than can be right")
        yield chunk


def _read_raw(response: requests.Response, network: Network, patience: Patience) -> Iterator[bytes]:
    window, received = time.monotonic(), 0
    while True:
        try:
            # Not `stream`, which waits for a whole chunk: a trickle would hold it for days.
            chunk = response.raw.read1(CHUNK, decode_content=False)
        except (urllib3.exceptions.HTTPError, requests.RequestException, OSError) as error:
            raise InterruptedTransferError(_reason(error, network)) from error
        if not chunk:
            return
        yield chunk
        patience.require_time()
        received += len(chunk)
        seconds = time.monotonic() - window
        if seconds >= network.read_timeout:
            if received < network.slowest * seconds:
                raise InterruptedTransferError(
                    f"the server sent only {received:,} bytes in {_duration(seconds)}"
                )
            window, received = time.monotonic(), 0


def _decode(chunks: Iterator[bytes], response: requests.Response) -> Iterator[bytes]:
    """Undo gzip or deflate in pieces of a bounded size, whatever they expand to."""
    encoding = response.headers.get("Content-Encoding", "").lower()
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise TransferError(f"it has the encoding {encoding[:40]!r}, which was not asked for")
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        for chunk in chunks:
            while chunk:
                if decoder.eof:
                    decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)
                if piece := decoder.decompress(chunk, CHUNK):
                    yield piece
                chunk = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
        while not decoder.eof and (piece := decoder.decompress(b"", CHUNK)):
            yield piece
    except zlib.error as error:
        raise InterruptedTransferError(f"its {encoding} encoding is damaged") from error
    if not decoder.eof:
        raise InterruptedTransferError("the connection was lost")


# Reasons

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
    ("RemoteDisconnected", "the connection was lost"),
    ("TooManyRedirects", "it redirects in a circle"),
    ("InvalidURL", "not a valid address"),
    ("LocationParseError", "not a valid address"),
    ("MissingSchema", "not a valid address"),
    ("InvalidSchema", "not an HTTP address"),
    ("InvalidChunkLength", "the connection was lost"),
    ("HTTPException", "it does not speak HTTP"),
    ("BadStatusLine", "it does not speak HTTP"),
    ("LineTooLong", "it does not speak HTTP"),
)
"""By the exact name of a class: urllib3 derives a refused connection from one that timed out."""

_LASTING = ("its TLS certificate is not valid", "not a valid address", "not an HTTP address")


def reason_of(error: BaseException) -> str:
    """Describe a network error in a few words; its own message repeats URLs and is never used."""
    names = _names(error)
    for name, reason in _REASONS:
        if name in names:
            return reason
    for link in reversed(causes(error)):
        if isinstance(link, OSError) and link.strerror:
            return str(link.strerror).lower()
    return type(error).__name__


def _reason(error: BaseException, network: Network) -> str:
    silence = f"the server sent nothing for {_duration(network.read_timeout)}"
    return reason_of(error).replace("the server stopped sending", silence)


def _names(error: BaseException) -> set[str]:
    return {type(link).__name__ for link in causes(error)}


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
