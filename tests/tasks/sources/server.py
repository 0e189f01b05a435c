from __future__ import annotations

import hashlib
import re
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from decabench.tasks.example import Example
from decabench.tasks.task import Files, RemoteFile, Source

__all__ = ["Fault", "FileServer", "RawServer", "Seen", "git_blob", "no_reader", "pinned", "sha256", "source"]


# A local file server that fails on request and records all requests.


@dataclass(frozen=True)
class Fault:
    """A fault in one response."""

    status: int | None = None
    """Respond with this status and no file."""
    retry_after: int | None = None
    """The Retry-After header, in seconds."""
    cut: int | None = None
    """Close the connection after this many bytes of the body."""
    drip: float = 0.0
    """Seconds to wait before each tenth of the body."""
    wrong: bool = False
    """Send other bytes of the same length."""
    headers: dict[str, str] = field(default_factory=dict)
    """Headers to add or replace."""


@dataclass(frozen=True)
class Seen:
    """A request, and the status of its response."""

    method: str
    path: str
    range: str | None
    if_range: str | None
    status: int
    authorization: str | None = None
    encoding: str | None = None


@dataclass
class FileServer:
    """Serves a folder. Use it as a context manager."""

    folder: Path
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    """The faults of the first, second, … response by path. Later responses are correct."""
    always: dict[str, Fault] = field(default_factory=dict)
    """The fault of every response by path or folder."""
    ranges: bool = True
    """Whether the server supports range requests."""
    tags: bool = True
    """Whether the server sends an ETag (the SHA-256 of the bytes)."""
    headers: dict[str, str] = field(default_factory=dict)
    """Headers to add to every response."""
    pages: dict[str, Callable[[dict[str, str]], str | Path]] = field(default_factory=dict)
    """Pages or served files by path and query."""
    seen: list[Seen] = field(default_factory=list)
    """All requests."""

    def __enter__(self) -> FileServer:
        handler = type("_Handler", (_Handler,), {"files": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.host}"
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def fault(self, path: str) -> Fault:
        """Return the fault of the next response for a path."""
        if self.faults.get(path):
            return self.faults[path].pop(0)
        return next((fault for start, fault in self.always.items() if path.startswith(start)), Fault())

    def statuses(self, path: str | None = None) -> list[int]:
        """Return the statuses of all responses, or of those for one path."""
        return [seen.status for seen in self.seen if path in (None, seen.path)]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Ignore clients that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 5
    files: FileServer

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        parts = urlsplit(self.path)
        path = unquote(parts.path).lstrip("/")
        fault = self.files.fault(path)
        if fault.status is not None:
            retry = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
            return self._send(path, fault.status, b"", fault.headers | retry, fault)
        found: str | Path = self.files.folder / path
        if path in self.files.pages:
            found = self.files.pages[path](dict(parse_qsl(parts.query)))
        if isinstance(found, str):
            return self._send(
                path, 200, found.encode(), {"Content-Type": "text/html; charset=utf-8"}, Fault()
            )
        if not found.is_file():
            return self._send(path, 404, b"", {}, fault)
        self._send_file(path, found.read_bytes(), fault, body)

    def _send_file(self, path: str, content: bytes, fault: Fault, body: bool) -> None:
        tag = f'"{hashlib.sha256(content).hexdigest()}"'
        headers = {"ETag": tag} if self.files.tags else {}
        start = self._start(tag, len(content))
        if fault.wrong:
            content = bytes(byte ^ 1 for byte in content)
        if start is None:
            return self._send(path, 200, content, headers | fault.headers, fault, body)
        if start >= len(content):
            return self._send(path, 416, b"", {"Content-Range": f"bytes */{len(content)}"}, fault)
        headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self._send(path, 206, content[start:], headers | fault.headers, fault, body)

    def _start(self, tag: str, size: int) -> int | None:
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        changed = self.headers.get("If-Range", tag) != tag
        return int(asked[1]) if asked and self.files.ranges and not changed else None

    def _send(
        self, path: str, status: int, content: bytes, headers: dict[str, str], fault: Fault, body: bool = True
    ) -> None:
        given = {"Content-Length": str(len(content)), "Content-Type": "application/octet-stream"}
        asked = [self.headers.get(name) for name in ("Range", "If-Range", "Authorization", "Accept-Encoding")]
        self.files.seen.append(Seen(self.command, path, asked[0], asked[1], status, asked[2], asked[3]))
        self.send_response(status)
        for name, value in (given | self.files.headers | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self._send_body(content, fault)

    def _send_body(self, content: bytes, fault: Fault) -> None:
        if fault.cut is not None:
            self.wfile.write(content[: fault.cut])
            self.close_connection = True
        elif fault.drip:
            step = max(1, len(content) // 10)
            for start in range(0, len(content), step):
                time.sleep(fault.drip)
                self.wfile.write(content[start : start + step])
        else:
            self.wfile.write(content)


@dataclass
class RawServer:
    """Handles each connection with the next script, which sends exact bytes. The last script repeats."""

    scripts: list[Callable[[socket.socket], None]]
    """Called with the connection after the request was read. The connection is closed afterwards."""
    requests: list[bytes] = field(default_factory=list)
    """Return the headers of all requests."""

    def __enter__(self) -> RawServer:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            head = b""
            while b"\r\n\r\n" not in head and (chunk := connection.recv(65536)):
                head += chunk
            if not head:
                return
            self.requests.append(head)
            script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
            try:
                script(connection)
            except OSError:
                pass  # the client has disconnected, as expected


# Values for the tests of sources.


def no_reader(files: Files, split: str) -> Iterator[Example]:
    """These tests read no examples."""
    yield from ()


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def git_blob(content: bytes) -> str:
    """Return git's blob id of the bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def pinned(path: Path, *urls: str, **others: Any) -> RemoteFile:
    """Return the published file, with its SHA-256."""
    return RemoteFile(path.name, urls, sha256(path), **others)


def source(*files: RemoteFile, name: str = "upstream", **others: Any) -> Source:
    """Return a source with one split, `train`."""
    return Source(name, {"train": files}, no_reader, **others)
