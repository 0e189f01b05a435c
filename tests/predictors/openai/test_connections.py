"""HTTP/1.1 framing, closed connections and proxies, tested with the sockets of a scripted server."""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import h11
import pytest

from decabench.predictors.openai.connections import Connections, UnreachableError

OK = b"HTTP/1.1 200 OK\r\nX-Said: Yes\r\nContent-Length: 2\r\n\r\nok"


def run(
    says: list[bytes | None], ask: Callable[[str], Connections], times: int = 1
) -> tuple[list, list[list[bytes]]]:
    """Send requests to a server that gives these replies in turn, where None closes the connection.

    Return the replies, and the requests of each connection.
    """
    left, heads = iter(says), []

    async def serve(reader, writer):
        heads.append([])
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                heads[-1].append(head)
                if b"Content-Length: " in head:
                    await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))
                say = next(left)
                writer.write(say or b"")
                if say is None or b"close" in say:
                    break
        writer.close()

    async def main():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        connections = ask(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        found = []
        try:
            for _ in range(times):
                found.append(await connections.exchange("POST", "/chat", b'{"a": 1}'))
                await asyncio.sleep(0.01)  # let the client notice the closed connection
            return found
        finally:
            connections.close()
            server.close()
            await asyncio.sleep(0.01)

    return in_a_thread(main()), heads


def in_a_thread(work: Coroutine[Any, Any, list]) -> list:
    """Run a coroutine in its own thread, because an open browser keeps a loop running in the tests' thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def direct(url):
    return Connections(f"{url}/v1", {"User-Agent": "decabench"}, 1000)


def test_one_connection_serves_one_request_after_another():
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"
    informed = b"HTTP/1.1 100 Continue\r\n\r\n" + OK
    found, heads = run([OK, chunked, informed], direct, 3)
    assert [(status, body) for status, _, body in found] == [(200, b"ok")] * 3
    assert found[0][1]["x-said"] == "Yes"
    assert len(heads) == 1 and len(heads[0]) == 3
    assert heads[0][0].startswith(b"POST /v1/chat HTTP/1.1\r\nHost: 127.0.0.1:")


def test_a_closed_connection_is_replaced():
    until_closed = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok"
    found, heads = run([until_closed, OK], direct, 2)
    assert [body for _, _, body in found] == [b"ok"] * 2 and len(heads) == 2


@pytest.mark.parametrize(
    ("say", "error"),
    [
        (None, h11.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nok", h11.RemoteProtocolError),
        (b"close the door\r\n\r\n", h11.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000, OverflowError),
    ],
)
def test_a_broken_reply_raises(say, error):
    with pytest.raises(error):
        run([say], direct)


def test_nobody_there():
    with pytest.raises(UnreachableError):
        in_a_thread(Connections("http://127.0.0.1:9/v1", {}, 1000).exchange("GET", "", None))


def test_a_proxy_gets_the_whole_address(monkeypatch):
    def ask(url):
        monkeypatch.setenv("http_proxy", url.replace("//", "//me:p%40ss@"))
        return Connections("http://model.example/v1", {}, 1000)

    found, heads = run([OK], ask)
    assert found[0][2] == b"ok"
    assert heads[0][0].startswith(b"POST http://model.example/v1/chat HTTP/1.1\r\nHost: model.example\r\n")
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"me:p@ss") in heads[0][0]


def test_no_proxy_is_respected(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert run([OK], direct)[0][0][2] == b"ok"


def test_a_proxy_makes_a_tunnel_for_https(monkeypatch):
    """The server behind the proxy doesn't support TLS. It only sees the handshake begin once the tunnel is open."""

    def ask(url):
        monkeypatch.setenv("https_proxy", url)
        return Connections("https://model.example/v1", {"Authorization": "Bearer secret"}, 1000)

    with pytest.raises(UnreachableError) as caught:
        run([b"HTTP/1.1 200 Connection established\r\n\r\nthis is no close handshake"], ask)
    assert isinstance(caught.value.__cause__, (ssl.SSLError, ConnectionError))
    with pytest.raises(UnreachableError, match="status 407"):
        run([b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n"], ask)
