from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from decabench.errors import DataError
from decabench.tasks.sources.download import Downloads, Network, TransferError
from decabench.tasks.task import RemoteFile
from tests.tasks.sources.server import Fault, FileServer, RawServer, pinned, sha256

# All ways in which a server can fail, with the expected number and kind of requests.

DATA = "data.json"
CUT = 100_000


@pytest.fixture
def downloads(tmp_path: Path, hasty: Network) -> Downloads:
    return Downloads(tmp_path / "raw", hasty)


def fetch(downloads: Downloads, server: FileServer, file: RemoteFile | None = None) -> bytes:
    file = file or pinned(server.folder / DATA)
    downloads.fetch(file, f"{server.url}/{DATA}")
    return downloads.path(file).read_bytes()


def is_whole(content: bytes, server: FileServer) -> bool:
    return content == (server.folder / DATA).read_bytes()


def part(downloads: Downloads) -> Path:
    return downloads.folder / ".incoming" / f"{DATA}.part"


def test_whole_file_takes_one_request(downloads: Downloads, server: FileServer) -> None:
    assert is_whole(fetch(downloads, server), server)
    assert [(seen.method, seen.range, seen.status) for seen in server.seen] == [("GET", None, 200)]
    assert server.seen[0].encoding == "identity"
    assert sorted(path.name for path in downloads.folder.iterdir()) == [".incoming", DATA, f"{DATA}.json"]
    assert list((downloads.folder / ".incoming").iterdir()) == []


def test_cut_transfer_goes_on_where_it_broke_off(downloads: Downloads, server: FileServer) -> None:
    server.faults[DATA] = [Fault(cut=CUT), Fault(cut=CUT)]
    assert is_whole(fetch(downloads, server), server)
    first, second, third = server.seen
    assert (first.range, second.range, third.range) == (None, f"bytes={CUT}-", f"bytes={2 * CUT}-")
    assert server.statuses() == [200, 206, 206]
    assert second.if_range == third.if_range == f'"{sha256(server.folder / DATA)}"'


def test_damaged_part_is_dropped_and_fetched_once_more(downloads: Downloads, server: FileServer) -> None:
    leave_part(downloads, server, b"x" * CUT)
    assert is_whole(fetch(downloads, server), server)
    assert [(seen.range, seen.status) for seen in server.seen] == [(f"bytes={CUT}-", 206), (None, 200)]


def leave_part(downloads: Downloads, server: FileServer, content: bytes) -> None:
    """Files that a killed run leaves behind."""
    server.faults[DATA] = [Fault(cut=10)] * 4
    with pytest.raises(TransferError):
        fetch(downloads, server)
    part(downloads).write_bytes(content)
    server.seen.clear()


@pytest.mark.parametrize(("status", "requests"), [(500, 4), (502, 4), (504, 4), (429, 4), (403, 1), (404, 1)])
def test_lasting_refusal(downloads: Downloads, server: FileServer, status: int, requests: int) -> None:
    server.always[DATA] = Fault(status)
    with pytest.raises(TransferError, match=f"HTTP {status}"):
        fetch(downloads, server)
    assert server.statuses() == [status] * requests


def test_wrong_bytes_are_fetched_twice_and_refused(downloads: Downloads, server: FileServer) -> None:
    server.always[DATA] = Fault(wrong=True)
    expected = sha256(server.folder / DATA)
    with pytest.raises(DataError, match=f"sha256 [0-9a-f]{{64}}, expected {expected}"):
        fetch(downloads, server)
    assert [(seen.range, seen.status) for seen in server.seen] == [(None, 200), (None, 200)]
    assert [path for path in downloads.folder.rglob("*") if path.is_file()] == []


def test_no_secret_in_notes(downloads: Downloads, server: FileServer) -> None:
    server.faults[DATA] = [Fault(cut=CUT)]
    downloads.fetch(pinned(server.folder / DATA), f"http://me:secret@{server.host}/{DATA}")
    assert server.seen[0].authorization is not None
    assert server.statuses() == [200, 206]
    assert "secret" not in (downloads.folder / f"{DATA}.json").read_text()


# Servers that stall, trickle, lie or never end cost limited time, bytes and requests, and are reported.

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
"""Seconds, far more than the test should take and less than the time limits that would end it otherwise."""


@dataclass
class Client:
    """Fetches a file and records messages."""

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
    connection.recv(1)  # until the client disconnects


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
    assert client.said == ["data.bin: the server sent nothing for 0.3 s; retrying in 0.01 s (1 of 2)"]


def test_a_trickle_above_the_lowest_speed_ends_with_the_time_limit(client: Client) -> None:
    client.network = replace(NETWORK, time_limit=1.0)
    started = time.monotonic()
    with RawServer([reply("Content-Length: 4000000", then=endless(b"x" * 100, 0.02))]) as server:
        with pytest.raises(
            TransferError, match="the download did not finish within 1 s; run the command again to continue"
        ):
            client.fetch(server)
    assert time.monotonic() - started < AT_ONCE


def test_an_announced_size_beyond_reason_is_refused_at_once(client: Client) -> None:
    with RawServer([reply("Content-Length: 99000000000000", then=stall)]) as server:
        with pytest.raises(
            TransferError,
            match=r"the file has 99,000,000,000,000 bytes, but at most",
        ):
            client.fetch(server, size=SIZE)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("known", "most"), [({}, NETWORK.largest), ({"size": SIZE, "sha256": "0" * 64}, 2 * SIZE + (1 << 20))]
)
@pytest.mark.parametrize("is_chunked", [True, False])
def test_an_endless_body_is_cut(
    client: Client, known: dict[str, object], most: int, is_chunked: bool
) -> None:
    piece = b"10000\r\n" + bytes(0x10000) + b"\r\n" if is_chunked else bytes(0x10000)
    headers = ["Transfer-Encoding: chunked"] if is_chunked else []
    with RawServer([reply(*headers, then=endless(piece))]) as server:
        with pytest.raises(TransferError, match=f"the server sent more than {most:,} bytes"):
            client.fetch(server, **known)
        assert len(server.requests) == 1
    assert client.bytes_on_disk < 10_000


def test_a_circle_of_redirects(client: Client) -> None:
    with RawServer([reply("Location: /data.bin", status="302 Found")]) as server:
        with pytest.raises(TransferError, match="the server redirects in a loop, or more than 10 times"):
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
        with pytest.raises(TransferError, match="the server sent a web page"):
            client.fetch(server)
    assert client.bytes_on_disk == 0


def partial(start: int, end: int, *headers: str, total: int = SIZE, body: bytes | None = None) -> Script:
    content = CONTENT[start : end + 1] if body is None else body
    placed = (f"Content-Range: bytes {start}-{end}/{total}", f"Content-Length: {len(content)}")
    return reply(*placed, *headers, status="206 Partial Content", body=content)


CUT_SHORT = reply(LENGTH, 'ETag: "one"', body=CONTENT[:5000])


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
    with RawServer([CUT_SHORT, second, WHOLE]) as server:
        assert client.fetch(server) == CONTENT
        assert [b"Range: bytes=5000-" in head for head in server.requests] == [False, True, False]
        assert b'If-Range: "one"' in server.requests[1]


def test_a_body_without_a_length_may_be_cut(client: Client) -> None:
    with RawServer([reply(body=CONTENT[:5000])]) as server:
        with pytest.raises(TransferError, match="the connection ended after 5,000 bytes"):
            client.fetch(server)
    assert not (client.folder / "raw" / "data.bin").exists()
