"""Servers that stall, trickle, lie or never end: each costs bounded time, bytes and requests, and is told aloud."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from decabench.tasks.sources.download import Downloads, Network, TransferError
from decabench.tasks.task import RemoteFile
from tests.tasks.sources.server import RawServer

CONTENT = bytes(range(256)) * 400
SIZE = len(CONTENT)
Script = Callable[[socket.socket], None]

NETWORK = Network(
    retries=2,
    backoff=0.01,
    longest_wait=0.05,
    connect_timeout=1.0,
    read_timeout=0.3,
    time_limit=20.0,
    largest=4 << 20,
)
AT_ONCE = 15
"""Seconds: far more than what is tested takes, and less than the time limits that would end it otherwise."""


@dataclass
class Client:
    """Fetches one file and notes what it is told."""

    folder: Path
    network: Network = NETWORK
    said: list[str] = field(default_factory=list)

    def fetch(self, server: RawServer, **known: object) -> bytes:
        file = RemoteFile("data.bin", **known)  # type: ignore[arg-type]
        downloads = Downloads(self.folder / "raw", self.network, say=self.said.append)
        downloads.fetch(file, f"{server.url}/data.bin")
        return downloads.path(file).read_bytes()

    @property
    def bytes_on_disk(self) -> int:
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path)


def reply(*headers: str, status: str = "200 OK", body: bytes = b"", then: Script | None = None) -> Script:
    """Send a head and a body, and do something before the connection is closed."""

    def script(connection: socket.socket) -> None:
        head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", *headers, "Connection: close"))
        connection.sendall(f"{head}\r\n".encode() + body)
        if then is not None:
            then(connection)

    return script


def stall(connection: socket.socket) -> None:
    connection.recv(1)  # until the client hangs up


def endless(piece: bytes, pause: float = 0.0) -> Script:
    def script(connection: socket.socket) -> None:
        while True:
            connection.sendall(piece)
            time.sleep(pause)

    return script


LENGTH = f"Content-Length: {SIZE}"
WHOLE = reply(LENGTH, body=CONTENT)


def test_a_stall_is_told_and_tried_again(client: Client) -> None:
    with RawServer([reply(LENGTH, body=CONTENT[:1000], then=stall), WHOLE]) as server:
        assert client.fetch(server) == CONTENT
    assert client.said == [
        "data.bin: the server sent nothing for 0.3 s; retrying in 0.01 s (1 of 2)",
    ]


def test_a_trickle_above_the_lowest_speed_ends_with_the_time_limit(client: Client) -> None:
    client.network = replace(NETWORK, time_limit=1.0)
    started = time.monotonic()
    with RawServer([reply("Content-Length: 4000000", then=endless(b"x" * 100, 0.02))]) as server:
        with pytest.raises(TransferError, match="it was not complete after 1 s; run again to continue"):
            client.fetch(server)
    assert time.monotonic() - started < AT_ONCE


def test_progress_restores_the_retries(client: Client) -> None:
    content = os.urandom(3 << 20)

    def piece(start: int) -> Script:
        end = min(start + (1 << 20), len(content))
        headers = (f"Content-Range: bytes {start}-{len(content) - 1}/{len(content)}",) if start else ()
        length = f"Content-Length: {len(content) - start}"
        status = "206 Partial Content" if start else "200 OK"
        return reply(*headers, length, status=status, body=content[start:end])

    client.network = replace(NETWORK, retries=1)
    with RawServer([piece(start) for start in range(0, len(content), 1 << 20)]) as server:
        assert client.fetch(server) == content
    assert len(client.said) == 2


def test_an_announced_size_beyond_reason_is_refused_at_once(client: Client) -> None:
    with RawServer([reply("Content-Length: 99000000000000", then=stall)]) as server:
        with pytest.raises(
            TransferError, match=r"it would be 99,000,000,000,000 bytes long, but no more than"
        ):
            client.fetch(server, size=SIZE)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("known", "most"),
    [({}, NETWORK.largest), ({"size": SIZE, "sha256": "0" * 64}, 2 * SIZE + (1 << 20))],
)
@pytest.mark.parametrize("is_chunked", [True, False])
def test_an_endless_body_is_cut(
    client: Client, known: dict[str, object], most: int, is_chunked: bool
) -> None:
    piece = b"10000\r\n" + bytes(0x10000) + b"\r\n" if is_chunked else bytes(0x10000)
    headers = ["Transfer-Encoding: chunked"] if is_chunked else []
    with RawServer([reply(*headers, then=endless(piece))]) as server:
        with pytest.raises(TransferError, match=f"it sends more than {most:,} bytes"):
            client.fetch(server, **known)
        assert len(server.requests) == 1
    assert client.bytes_on_disk < 10_000


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip", "x" * 1000])
def test_an_encoding_that_was_not_asked_for(client: Client, encoding: str) -> None:
    with RawServer([reply(f"Content-Encoding: {encoding}", LENGTH, body=CONTENT)]) as server:
        with pytest.raises(TransferError, match=r"it has the encoding .* which was not asked for"):
            client.fetch(server)


def test_a_circle_of_redirects(client: Client) -> None:
    with RawServer([reply("Location: /data.bin", status="302 Found")]) as server:
        with pytest.raises(TransferError, match="it redirects in a circle, or more than 10 times"):
            client.fetch(server)
        assert len(server.requests) == 11


def test_a_login_is_not_passed_on_to_another_host(client: Client) -> None:
    with RawServer([WHOLE]) as other:
        redirects = [
            reply("Location: /there", status="302 Found"),
            reply(f"Location: {other.url}/x", status="302 Found"),
        ]
        with RawServer(redirects) as server:
            server.url = server.url.replace("//", "//me:secret@")
            assert client.fetch(server) == CONTENT
            assert all(b"Authorization:" in head for head in server.requests)
        assert b"Authorization" not in other.requests[0]


@pytest.mark.parametrize(
    ("kind", "page"),
    [
        ("text/html", b"<div>This site is blocked</div>"),
        ("text/plain", b"\xef\xbb\xbf<!-- portal --><HTML><body>Sign in</body>"),
        ("text/plain", b'<?xml version="1.0"?>\n<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN">'),
        ("application/octet-stream", b"<title>404 Not Found</title>"),
    ],
)
def test_a_page_is_not_a_file(client: Client, kind: str, page: bytes) -> None:
    script = reply(f"Content-Type: {kind}", f"Content-Length: {len(page)}", body=page)
    with RawServer([script]) as server:
        with pytest.raises(TransferError, match="a web page was sent instead of the file"):
            client.fetch(server)
    assert client.bytes_on_disk == 0


def partial(start: int, end: int, *headers: str, total: int = SIZE, body: bytes | None = None) -> Script:
    content = CONTENT[start : end + 1] if body is None else body
    placed = (f"Content-Range: bytes {start}-{end}/{total}", f"Content-Length: {len(content)}")
    return reply(*placed, *headers, status="206 Partial Content", body=content)


CUT = reply(LENGTH, 'ETag: "one"', body=CONTENT[:5000])


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(partial(4000, SIZE - 1), id="from another byte"),
        pytest.param(partial(6000, SIZE - 1), id="with a gap"),
        pytest.param(partial(5000, SIZE - 1, 'ETag: "two"'), id="of another version"),
        pytest.param(partial(5000, SIZE - 1, total=SIZE + 7), id="of another size"),
        pytest.param(reply(status="206 Partial Content", body=CONTENT), id="without a place"),
        pytest.param(
            reply("Content-Range: bytes 5-4/x", status="206 Partial Content", body=CONTENT), id="nonsense"
        ),
        pytest.param(reply("Content-Range: bytes */77", status="416 No"), id="of a shorter file"),
    ],
)
def test_a_rest_that_does_not_fit_starts_over(client: Client, second: Script) -> None:
    with RawServer([CUT, second, WHOLE]) as server:
        assert client.fetch(server) == CONTENT
        assert [b"Range: bytes=5000-" in head for head in server.requests] == [False, True, False]
        assert b'If-Range: "one"' in server.requests[1]


def test_a_body_without_a_length_may_be_cut(client: Client) -> None:
    """It ends with its connection: only a digest or a size can tell whether that is all."""
    with RawServer([reply(body=CONTENT[:5000])]) as server:
        with pytest.raises(TransferError, match="the connection ended after 5,000 bytes"):
            client.fetch(server)
    assert not (client.folder / "raw" / "data.bin").exists()
