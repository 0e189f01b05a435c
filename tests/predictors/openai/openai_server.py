"""A local server with the OpenAI API that misbehaves as a test requires."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Seen:
    """A received request."""

    number: int
    """The number of the request, from 0."""
    at: float
    """The time of arrival in seconds, from a monotonic clock."""
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """The text that the model is given."""
        if "prompt" in self.body:
            return str(self.body["prompt"])
        return "\n".join(message["content"] for message in self.body["messages"])


@dataclass(frozen=True)
class Say:
    """A response to send."""

    body: Any = None
    """The body, as an object or as raw bytes."""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    claims: int = 0
    """The number of bytes by which Content-Length is too large. The connection is then closed."""
    delay: float = 0.0
    """Seconds to wait before the response."""
    hangs_up: bool = False
    """Whether to close the connection without a response."""


def chat(text: Any, finish: str = "stop", **message: Any) -> Say:
    """Return an answer in the format of the chat API."""
    choice = {
        "index": 0,
        "finish_reason": finish,
        "message": {"role": "assistant", "content": text, **message},
    }
    return Say({"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})


def fault(status: int, message: str, headers: dict[str, str] | None = None, **error: Any) -> Say:
    """Return an error in OpenAI's format."""
    return Say({"error": {"message": message, **error}}, status, headers or {})


def words(count_words: int, text: str = "yes") -> Say:
    """Return an answer whose usage has this number of prompt tokens."""
    choice = {"finish_reason": "stop", "message": {"content": text}}
    return Say({"choices": [choice], "usage": {"prompt_tokens": count_words, "completion_tokens": 1}})


@dataclass
class Server:
    """A running server, with the requests that it received."""

    url: str
    seen: list[Seen] = field(default_factory=list)
    at_once: int = 0
    """The highest number of simultaneous requests."""
    is_gone: bool = False
    """Whether the server has stopped, which breaks open connections."""
    _busy: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def asked(self) -> list[Seen]:
        """Return the requests for answers."""
        return [seen for seen in self.seen if seen.body]


@contextmanager
def serving(respond: Callable[[Seen], Say], port: int = 0) -> Iterator[Server]:
    """Run a local server until the block ends. `respond` returns the response to each request."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            with server._lock:
                seen = Seen(
                    len(server.seen), time.monotonic(), self.path, dict(self.headers), json.loads(content)
                )
                server.seen.append(seen)
                server._busy += 1
                server.at_once = max(server.at_once, server._busy)
            try:
                say = respond(seen)
                time.sleep(say.delay)
            finally:
                with server._lock:
                    server._busy -= 1
            self._send(say)

        def do_GET(self) -> None:
            with server._lock:
                seen = Seen(len(server.seen), time.monotonic(), self.path, dict(self.headers), {})
                server.seen.append(seen)
            self._send(respond(seen))

        def _send(self, say: Say) -> None:
            self.close_connection = say.hangs_up or say.claims > 0 or server.is_gone
            if say.hangs_up or server.is_gone:
                return
            body = say.body if isinstance(say.body, bytes) else json.dumps(say.body).encode()
            head = {"Content-Type": "application/json", "Content-Length": str(len(body) + say.claims)}
            self.send_response(say.status)
            for name, value in (head | say.headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: Any) -> None:
            """Ignore clients that have disconnected."""

    with Quiet(("127.0.0.1", port), Handler) as http:
        server = Server(f"http://127.0.0.1:{http.server_address[1]}/v1")
        thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.is_gone = True
            http.shutdown()
            thread.join()
