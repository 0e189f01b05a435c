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
from collections.abc import Callable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, urlencode, urlsplit

import requests
from tqdm import tqdm

from decabench.errors import DataError, StorageError
from decabench.files import atomic_file, make_folder, storage_errors
from decabench.tasks.sources.local_files import Digests, find_faults, published_digests
from decabench.tasks.sources.network import (
    InterruptedTransferError,
    Network,
    Patience,
    TransferError,
    is_encoded,
    new_session,
    plain_url,
    read_body,
    send,
)
from decabench.tasks.task import RemoteFile
from decabench.untrusted import read_json

__all__ = ["Downloads", "Origin"]


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
    standard: str = "the published one"
    """What a file must be, for the message if it is not."""
    say: Callable[[str], None] | None = None
    """Called with a sentence before every wait for another attempt."""

    def path(self, file: RemoteFile) -> Path:
        """Return the path of a file once it is downloaded."""
        return self.folder / file.name

    def find(self, file: RemoteFile, urls: tuple[str, ...]) -> Origin | None:
        """Return the origin of a file that exists, is intact and came from one of these URLs; None otherwise."""
        origin = None if self.force else _read_origin(self.path(file), file)
        if origin is None or not origin.digests.size or origin.url not in map(plain_url, urls):
            return None
        return None if self.strict and find_faults(file, origin.digests) else origin

    def fetch(self, file: RemoteFile, url: str) -> Digests:
        """Download a file and verify it. Raises TransferError, DataError for wrong bytes, StorageError."""
        target = self.path(file)
        part = _Part(self.folder / ".incoming" / f"{file.name}.part")
        with storage_errors(target), new_session() as session:
            make_folder(target.parent)
            make_folder(part.path.parent)
            if self.force:
                part.discard()
            transfer = _Transfer(
                session, url, part, self.network, self.most_bytes(file), self.progress, self.say
            )
            for _ in range(2):  # wrong bytes may come from an old part, so try again from the start
                is_delimited = transfer.complete()
                digests = Digests.compute(part.path, published_digests(file))
                faults = self._find_faults(file, digests)
                if not faults:
                    self._require_end(file, digests, is_delimited, part)
                    _write_origin(part.path, Origin(plain_url(url), digests), target)
                    part.path.replace(target)
                    part.discard()
                    return digests
                part.discard()
        raise DataError(f"the file is not {self.standard}: {'; '.join(faults)}")

    def most_bytes(self, file: RemoteFile) -> int:
        """Return the most bytes that a file may have: twice its published size, or the network's limit."""
        return self.network.largest if file.size is None else 2 * file.size + (1 << 20)

    def _find_faults(self, file: RemoteFile, digests: Digests) -> list[str]:
        if not digests.size:
            return ["it is empty"]
        return find_faults(file, digests) if self.strict else []

    def _require_end(self, file: RemoteFile, digests: Digests, is_delimited: bool, part: _Part) -> None:
        """Refuse a body that ended with its connection, unless digest or size show that it is whole."""
        is_known = bool(published_digests(file)) or file.size is not None
        if (
            not is_delimited
            and not (is_known and not find_faults(file, digests))
            and digests.size != file.size
        ):
            part.discard()
            raise TransferError(
                f"the connection ended after {digests.size:,} bytes, and the server did not say how many there are: "
                "the file may be cut off; a SHA256SUMS file in the mirror, or a server that sends Content-Length, "
                "would settle it"
            )

    def forget(self, file: RemoteFile) -> None:
        """Make the next run download a file again."""
        _origin_note(self.path(file)).unlink(missing_ok=True)


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
        content = read_json(_origin_note(path))
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
        note, size = self._read_note(), self.size()
        if size == 0 or note.get("url") != plain_url(url):
            return {}
        validator = str(note.get("validator", ""))
        return {"Range": f"bytes={size}-"} | ({"If-Range": validator} if validator else {})

    def begin(self, url: str, response: requests.Response, total: int | None) -> None:
        """Record which version of the file is about to be written."""
        content = {"format": 1, "url": plain_url(url), "validator": _validator(response), "total": total}
        with atomic_file(self._note) as note:
            note.write(json.dumps(content).encode())

    def continues(self, response: requests.Response, total: int | None) -> bool:
        """Tell whether a response goes on with the version that the part belongs to."""
        note = self._read_note()
        tags, totals = (note.get("validator"), _validator(response)), (note.get("total"), total)
        return not any(None not in pair and "" not in pair and pair[0] != pair[1] for pair in (tags, totals))

    def _read_note(self) -> dict[str, Any]:
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return note if isinstance(note, dict) else {}

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


def _validator(response: requests.Response) -> str:
    tag = response.headers.get("ETag", "")
    # A weak tag does not promise the same bytes, so it must not be sent as If-Range.
    return response.headers.get("Last-Modified", "") if not tag or tag.startswith("W/") else tag


_WEB_PAGE = re.compile(
    rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<(!doctype html|html|head|title|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


@dataclass(frozen=True)
class _Transfer:
    """The transfer of one file from one address into a part."""

    session: requests.Session
    url: str
    part: _Part
    network: Network
    most: int
    progress: bool
    say: Callable[[str], None] | None

    def complete(self) -> bool:
        """Receive all bytes, resuming after interruptions, and return whether their end was marked.

        A body that ends with its connection has no such mark. Raises TransferError.
        """
        patience = Patience(self.network, self._name, self.say)
        while True:
            try:
                return self._receive(patience)
            except InterruptedTransferError as error:
                reason = error
            patience.wait(reason, self.part.size())

    @property
    def _name(self) -> str:
        return self.part.path.name.removesuffix(".part")

    def _receive(self, patience: Patience) -> bool:
        with self._open(patience) as response:
            if response.status_code == 416:  # the part is complete already, or longer than the file
                if response.headers.get("Content-Range", "") != f"bytes */{self.part.size()}":
                    self._start_over("the partial file did not match")
                return True
            start, total = self._place(response)
            if total is not None and total > self.most:
                raise TransferError(
                    f"it would be {total:,} bytes long, but no more than {self.most:,} can be right"
                )
            if start == 0:
                self.part.begin(self.url, response, total)
            self._save(response, start, total, patience)
            if total is not None and self.part.size() < total:
                raise InterruptedTransferError("the connection was lost")
            return total is not None or is_encoded(response) or _is_chunked(response)

    def _open(self, patience: Patience) -> requests.Response:
        headers = self.part.resume_headers(self.url)
        response = send(self.session, self.url, headers, self.network, patience)
        if _is_drive_page(response, self.network):
            with response:
                target = _confirmed_url(response, self.url, self.network, patience)
            response = send(self.session, target, headers, self.network, patience)
        return response

    def _place(self, response: requests.Response) -> tuple[int, int | None]:
        """Return where in the file the body starts, and the file's size if known."""
        if response.status_code == 200:
            return 0, _body_length(response)
        found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        start, total = (int(found[1]), found[3]) if found else (-1, "*")
        size = None if total == "*" else int(total)
        if start not in (0, self.part.size()) or is_encoded(response):
            self._start_over("the server resumed at the wrong place")
        if start and not self.part.continues(response, size):
            self._start_over("the file changed on the server")
        return start, size

    def _start_over(self, reason: str) -> None:
        self.part.discard()
        raise InterruptedTransferError(reason)

    def _save(self, response: requests.Response, start: int, total: int | None, patience: Patience) -> None:
        self._require_space(None if total is None else total - start)
        try:
            with self.part.open(start) as file, self._bar(start, total) as bar:
                is_first = start == 0
                for chunk in read_body(response, self.network, patience, self.most - start):
                    if is_first and _is_web_page(response, chunk):
                        raise TransferError("a web page was sent instead of the file", is_page=True)
                    is_first = False
                    file.write(chunk)
                    bar.update(len(chunk))
                file.flush()
                os.fsync(file.fileno())
        except TransferError as error:
            # Ranges count encoded bytes, so a decoded part cannot be resumed.
            if is_encoded(response) or not isinstance(error, InterruptedTransferError):
                self.part.discard()
            raise

    def _require_space(self, length: int | None) -> None:
        free = shutil.disk_usage(self.part.path.parent).free
        if length is not None and length > free:  # raise now, not after an hour of downloading
            raise StorageError(
                f"Not enough space in {self.part.path.parent}: {length:,} bytes are needed, {free:,} are free; "
                "free some, or choose another folder with --home."
            )

    def _bar(self, start: int, total: int | None) -> tqdm[Any]:
        return tqdm(
            desc=self._name,
            total=total,
            initial=start,
            unit="B",
            unit_scale=True,
            leave=False,
            disable=not (self.progress and sys.stderr.isatty()),
        )


def _body_length(response: requests.Response) -> int | None:
    """Return the number of bytes that the body must have, if known."""
    length = response.headers.get("Content-Length", "")
    is_number = length.isascii() and length.isdigit() and len(length) < 20
    return int(length) if is_number and not is_encoded(response) and not _is_chunked(response) else None


def _is_chunked(response: requests.Response) -> bool:
    return response.headers.get("Transfer-Encoding", "").lower() == "chunked"


def _is_web_page(response: requests.Response, start: bytes) -> bool:
    if _WEB_PAGE.match(start[:1024]):
        return True
    kind = response.headers.get("Content-Type", "").lower()
    return kind.startswith("text/html") and start.lstrip()[:1] == b"<" and not start.startswith(b"<?xml")


_LONGEST_PAGE = 1 << 20


def _is_drive_page(response: requests.Response, network: Network) -> bool:
    """Tell whether Google Drive sent a page, which asks for confirmation, instead of the file."""
    content = response.headers.get("Content-Type", "")
    return content.startswith("text/html") and urlsplit(response.url).netloc in network.drive_hosts


def _confirmed_url(response: requests.Response, url: str, network: Network, patience: Patience) -> str:
    """Return the URL that the page's form submits to.

    Only the form's hidden fields are taken from the page; the host is fixed.
    """
    form = _HiddenFields()
    form.feed(b"".join(read_body(response, network, patience, _LONGEST_PAGE)).decode("utf-8", "replace"))
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
