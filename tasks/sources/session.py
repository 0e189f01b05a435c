"""An HTTP session that repeats what a busy server refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from decabench.tasks.sources.network import Network

if TYPE_CHECKING:
    from urllib3.response import BaseHTTPResponse

__all__ = ["new_session"]


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
