"""Timeouts and retries of downloads, and short reasons for those that fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

if TYPE_CHECKING:
    from urllib3.response import BaseHTTPResponse

__all__ = ["Network", "TransferError", "causes", "new_session", "plain_url", "reason_of"]


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
