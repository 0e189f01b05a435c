"""Google Drive answers for a large file with a page that asks for a confirmation: the answer to it."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit

from decabench.tasks.sources.network import Network

if TYPE_CHECKING:
    from requests import Response

__all__ = ["confirmed_url", "is_confirmation"]

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
