"""Read API keys and secret headers, choose the servers that receive them, and redact them."""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from decabench.errors import DecabenchError
from decabench.predictors.protocol import Header

VARIABLE = "DECABENCH_API_KEY"
"""The environment variable with the API key for any server. If it is set but empty, no key is sent."""

OPENAI_VARIABLE = "OPENAI_API_KEY"
"""The environment variable to use for OpenAI's own servers if VARIABLE isn't set.

Its value is never sent to other servers.
"""

SECRET_LENGTH = 8
"""The minimum length of a key or header value to redact.

Shorter values, such as `EMPTY` or `none`, aren't redacted because they may be ordinary words.
"""


@dataclass(frozen=True)
class ApiKey:
    """An API key and additional headers, which are sent to a single server."""

    value: str = field(default="", repr=False)
    """The key; empty if there is none."""
    variable: str = VARIABLE
    """The environment variable that the key is read from."""
    others: tuple[Header, ...] = ()
    """Headers set by the user. They may contain secrets, and one of them may replace the key."""

    @property
    def headers(self) -> dict[str, str]:
        """All headers to send, including the key."""
        others = {header.name: header.value for header in self.others}
        is_replaced = "authorization" in map(str.lower, others)
        return (
            {"Authorization": f"Bearer {self.value}", **others} if self.value and not is_replaced else others
        )

    @property
    def given(self) -> str:
        """A description of the key and the headers for an error message, such as `the key in OPENAI_API_KEY`."""
        names = [header.name for header in self.others]
        key = f"the key in {self.variable}" if self.value else "" if names else "requests without a key"
        headers = f"the header{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else ""
        return " with ".join(filter(None, (key, headers)))

    def redact(self, text: str) -> str:
        """Replace the key with `[key]` and header values with `[header]` in a string from a server."""
        parts = (part for header in self.others for part in (header.value, *header.value.split()))
        for secret, shown in ((self.value, "[key]"), *((part, "[header]") for part in parts)):
            if len(secret) >= SECRET_LENGTH:
                for form in {secret, json.dumps(secret)[1:-1], secret.replace("/", "\\/")}:
                    text = text.replace(form, shown)
        return text


def read_key(headers: Sequence[Header], url: str) -> ApiKey:
    """Read the key for a server from the environment, along with the values of headers that refer to a variable.

    Raises DecabenchError if a header's variable isn't set, or if a value isn't valid in a header.
    """
    variable = OPENAI_VARIABLE if VARIABLE not in os.environ and _is_openai(url) else VARIABLE
    value = os.environ.get(variable, "").strip()
    if not all("!" <= char <= "~" for char in value):
        raise DecabenchError(
            f"The key in {variable} contains spaces, line breaks or non-ASCII characters, so it is not a valid key. "
            "Set the variable again."
        )
    return ApiKey(value, variable, tuple(map(_read_header, headers)))


def _is_openai(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" and f".{parts.hostname}".endswith(".openai.com")


def is_overheard(url: str) -> bool:
    """Return whether requests to a URL are sent to another machine without encryption."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        is_here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = f".{host}".endswith(".localhost")
    return parts.scheme == "http" and not is_here


_FROM_ENVIRONMENT = "env:"


def _read_header(header: Header) -> Header:
    if not header.value.startswith(_FROM_ENVIRONMENT):
        return header
    variable = header.value.removeprefix(_FROM_ENVIRONMENT)
    value = os.environ.get(variable, "").strip()
    if not value or not all(" " <= char <= "~" for char in value):
        reason = "contains characters that are not allowed in a header" if value else "is not set"
        raise DecabenchError(
            f"--header {header.name} reads the environment variable {variable}, which {reason}. Set the variable to "
            "the header's value."
        )
    return Header(header.name, value)
