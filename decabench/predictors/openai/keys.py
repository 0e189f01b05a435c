"""The key for a server and other secret headers: where they come from, which servers get them, and how they
stay secret."""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from decabench.errors import DecabenchError
from decabench.predictors.protocol import Header

__all__ = ["OPENAI_VARIABLE", "VARIABLE", "ApiKey", "is_overheard", "read_key"]

VARIABLE = "DECABENCH_API_KEY"
"""The environment variable for the key of any server; an empty value means no key."""

OPENAI_VARIABLE = "OPENAI_API_KEY"
"""The variable used for OpenAI's own servers if the other is not set. Its value is never sent to another server."""

SECRET_LENGTH = 8
"""Shorter keys (`EMPTY`, `none`) are ordinary words that an answer may contain, not secrets."""


@dataclass(frozen=True)
class ApiKey:
    """A key and other headers, which are sent only to the server."""

    value: str = field(default="", repr=False)
    """The key; empty for none."""
    variable: str = VARIABLE
    """Where the key comes from."""
    others: tuple[Header, ...] = ()
    """Headers given by the user. Any of them may hold a secret, and one of them may replace the key."""

    @property
    def headers(self) -> dict[str, str]:
        """The headers that carry the key, and the other headers."""
        others = {header.name: header.value for header in self.others}
        is_replaced = "authorization" in map(str.lower, others)
        return (
            {"Authorization": f"Bearer {self.value}", **others} if self.value and not is_replaced else others
        )

    @property
    def given(self) -> str:
        """The name of the key and of other headers, in words that fit `the server refuses …`."""
        names = [header.name for header in self.others]
        key = f"the key in {self.variable}" if self.value else "" if names else "requests without a key"
        headers = f"the header{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else ""
        return " with ".join(filter(None, (key, headers)))

    def redact(self, text: str) -> str:
        """Replace the key with `[key]`, and the values of other headers with `[header]`, in a text from a server."""
        text = _replace(text, self.value, "[key]")
        for header in self.others:
            for secret in (header.value, *header.value.split()):
                text = _replace(text, secret, "[header]") if len(secret) >= SECRET_LENGTH else text
        return text

    def redact_answer(self, text: str) -> str:
        """Redact an answer, unless the key may be an ordinary word."""
        hidden = self if len(self.value) >= SECRET_LENGTH else replace(self, value="")
        return hidden.redact(text)


def _replace(text: str, secret: str, shown: str) -> str:
    for form in {secret, json.dumps(secret)[1:-1], secret.replace("/", "\\/")}:
        text = text.replace(form, shown) if form else text
    return text


def read_key(headers: Sequence[Header], url: str) -> ApiKey:
    """Read the key for a server, and headers that name a variable, from the environment.

    Raises DecabenchError for a variable that is not set, or that a header cannot hold.
    """
    variable = OPENAI_VARIABLE if VARIABLE not in os.environ and _is_openai(url) else VARIABLE
    value = os.environ.get(variable, "").strip()
    if not all("!" <= char <= "~" for char in value):
        raise DecabenchError(
            f"The key in {variable} contains spaces, line breaks or non-ASCII letters, so it is not a valid key: "
            "set it again."
        )
    return ApiKey(value, variable, tuple(map(_read_header, headers)))


def _is_openai(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" and f".{parts.hostname}".endswith(".openai.com")


def is_overheard(url: str) -> bool:
    """Return whether requests go to another machine without encryption."""
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
        reason = "contains characters that a header cannot hold" if value else "is not set"
        raise DecabenchError(
            f"--header {header.name} reads the environment variable {variable}, which {reason}."
        )
    return Header(header.name, value)
