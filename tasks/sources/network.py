"""How patient a download is, and how a failed one is told."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

__all__ = ["Network", "TransferError", "causes", "plain_url", "reason_of"]


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
