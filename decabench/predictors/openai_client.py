"""Asks a server that speaks the OpenAI API, again and again where that can help."""

from __future__ import annotations

import asyncio
import difflib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx2

from decabench.errors import DecabenchError
from decabench.predictors.openai_key import VARIABLES, Key
from decabench.predictors.openai_pace import Clock, Pace, back_off, retry_after
from decabench.predictors.openai_replies import Reply, TooLong, UnreadableReplyError
from decabench.predictors.texts import excerpt

__all__ = ["Client", "GaveUpError", "Limits", "RefusedError", "TooLongError"]

RETRIED = frozenset({408, 409, 425, 429})
"""What a server says that may answer another time, beside every 5xx."""

LARGEST_REPLY = 16 << 20
"""Bytes. An answer has a few thousand."""

T = TypeVar("T")


class RefusedError(Exception):
    """The server will not answer this question; asking again would not help."""


class GaveUpError(Exception):
    """All tries for this question were in vain."""


class TooLongError(Exception):
    """The prompt of this question has no room."""

    def __init__(self, size: TooLong, message: str) -> None:
        super().__init__(message)
        self.size = size
        """What the server says of it."""


class _PassingError(Exception):
    """What another try may mend, and how long the server asks to wait before."""

    def __init__(
        self, message: str, wait: float | None = None, for_all: bool = False, unreachable: bool = False
    ) -> None:
        super().__init__(message)
        self.wait = wait
        self.for_all = for_all
        self.unreachable = unreachable


@dataclass(frozen=True)
class Limits:
    """How hard a server is pressed."""

    concurrency: int = 8
    """Requests in flight."""
    per_minute: float | None = None
    """Requests, tries again included."""
    timeout: float = 120.0
    """Seconds from sending a request to having its whole reply."""
    retries: int = 5
    """Tries after the first."""
    clock: Clock = field(default_factory=Clock)
    """Time."""


class Client:
    """A connection pool to one server, for one event loop, with what was learnt of the server."""

    def __init__(self, url: str, model: str, key: Key, limits: Limits) -> None:
        self.url = url
        self.model = model
        self._key = key
        self._limits = limits
        self._pace = Pace(limits.clock, limits.per_minute)
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._limit_name = "max_tokens"
        self._has_replied = False
        self._stopped = ""  # why no request may leave any more
        # Below this level it logs the headers of replies, where a server may echo the key.
        logging.getLogger("httpcore2").setLevel(logging.INFO)
        self._http = httpx2.AsyncClient(
            headers={**key.headers, "Content-Type": "application/json", "User-Agent": "decabench"},
            timeout=None,  # one limit for the whole of a request is set around it
            limits=httpx2.Limits(max_connections=limits.concurrency),
            follow_redirects=False,  # the key is for this host
        )

    async def close(self) -> None:
        """Closes all connections."""
        await self._http.aclose()

    def hidden(self, text: str) -> str:
        """An answer without the key, which a server that echoes what it gets would bring into the record."""
        return self._key.hidden_in_answer(text)

    async def ask(
        self, path: str, body: Mapping[str, Any], max_tokens: int, read: Callable[[Mapping[str, Any]], T]
    ) -> T:
        """What `read` makes of the reply to a POST; it may raise UnreadableReplyError, and then it is asked again.

        Raises RefusedError, GaveUpError and TooLongError for this question, DecabenchError where all others would
        fare the same.
        """
        for tried in range(1, self._limits.retries + 2):
            try:
                return read(await self._content(path, body, max_tokens))
            except UnreadableReplyError as error:
                fault = _PassingError(f"sent what is no reply of this API: {error}")
            except _PassingError as error:
                fault = error
            if tried <= self._limits.retries:
                await self._wait(fault, tried)
        tries = f"{tried} tries" if tried > 1 else "one try"
        if fault.unreachable and not self._has_replied:
            self._stopped = (
                f"{self.url} never answered: after {tries} it {fault}. See whether the server runs there."
            )
            raise DecabenchError(self._stopped)
        raise GaveUpError(f"No answer after {tries}: the server {fault}.")

    async def _wait(self, fault: _PassingError, tried: int) -> None:
        seconds = back_off(tried) if fault.wait is None else fault.wait
        if fault.for_all:
            self._pace.pause(seconds)  # which the next turn waits for
        else:
            await self._limits.clock.sleep(seconds)

    async def _content(self, path: str, body: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
        """The object of a reply that is no error."""
        name = self._limit_name
        reply = await self._send("POST", path, {**body, name: max_tokens})
        if name == "max_tokens" and reply.refuses(name) and "max_completion_tokens" in reply.message:
            self._limit_name = "max_completion_tokens"
            reply = await self._send("POST", path, {**body, self._limit_name: max_tokens})
        said = self._said(reply)
        if reply.status not in (401, 403, 404, 429) and (size := reply.too_long):
            raise TooLongError(size, f"The server has no room for the prompt: it says {said}.")
        if 200 <= reply.status < 300:
            return self._object(reply)
        if reason := await self._reason_to_stop(reply, path, said):
            self._stopped = reason
            raise DecabenchError(reason)
        if reply.status in RETRIED or reply.status >= 500:
            wait = retry_after(reply.headers.get("retry-after"), self._limits.clock)
            raise _PassingError(f"answered with status {reply.status}: {said}", wait, reply.status == 429)
        raise RefusedError(f"The server refused the request with status {reply.status}: {said}.")

    def _object(self, reply: Reply) -> dict[str, Any]:
        content = reply.content
        if content is None:
            raise UnreadableReplyError(f"no JSON object but {self._said(reply)}")
        if reply.error and "choices" not in content:
            raise _PassingError(f"answered with an error: {self._said(reply)}")
        return content

    def _said(self, reply: Reply) -> str:
        return f'"{excerpt(self._key.hidden_in(reply.message))}"'

    async def _send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Reply:
        """One request and its whole reply."""
        content = None if body is None else json.dumps(body).encode()
        async with self._slots:
            await self._pace.turn()
            if self._stopped:
                raise DecabenchError(self._stopped)
            try:
                async with asyncio.timeout(self._limits.timeout):
                    return await self._exchange(method, self.url + path, content)
            except TimeoutError:
                raise _PassingError(f"gave no whole reply in {self._limits.timeout:g} s") from None
            except httpx2.RequestError as error:
                said = self._key.hidden_in(str(error))
                raise _PassingError(
                    f"could not be reached, or broke off ({type(error).__name__}: {excerpt(said)})",
                    unreachable=isinstance(error, httpx2.ConnectError),
                ) from None

    async def _exchange(self, method: str, url: str, content: bytes | None) -> Reply:
        async with self._http.stream(method, url, content=content) as response:
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > LARGEST_REPLY:
                    raise _PassingError(f"sent more than {LARGEST_REPLY >> 20} MiB")
            self._has_replied = True
            return Reply(response.status_code, body.decode("utf-8", "replace"), response.headers)

    async def _reason_to_stop(self, reply: Reply, path: str, said: str) -> str:
        """What the next question would meet too, in a sentence; empty where it might fare better."""
        status, url = reply.status, self.url + path
        if status in (401, 403):
            has = f"the key of {' or '.join(VARIABLES)}" if self._key.value else "requests without a key"
            return f"{url} refuses {has} with status {status}: {said}. Set {VARIABLES[0]} to a key for it."
        if status == 402 or reply.error.get("code") == "insufficient_quota":
            return f"{url} wants to be paid first: {said}. See to the account and run again: what was answered is kept."
        if 300 <= status < 400:
            return (
                f"{url} points elsewhere with status {status}, which is not followed, lest the key go to another "
                "host: give the URL that answers itself."
            )
        if status == 404 or reply.error.get("code") == "model_not_found":
            return await self._not_found(url, said)
        refused = [name for name in ("temperature", "seed", "top_p", "stop") if reply.refuses(name)]
        if refused:
            return (
                f"{url} does not take {refused[0]} with {self.model}: {said}. It was not left out, for then the "
                "record would not say how the answers were made: change the option, the model or the server."
            )
        return ""

    async def _not_found(self, url: str, said: str) -> str:
        """Whether it is the model or the URL that the server does not know."""
        try:
            models = _models(await self._send("GET", "/models"))
        except _PassingError:
            models = []
        missing = f"{url} is not found (status 404: {said})"
        if not models:
            return f"{missing}: the base URL usually ends in /v1, and {self.url} was given."
        if self.model in models:
            return f"{missing}, though the server has {self.model}: try the other --api."
        near = difflib.get_close_matches(self.model, models, n=3, cutoff=0.5)
        listed = ", ".join(map(excerpt, near or models[:10]))
        hint = f"did you mean {listed}?" if near else f"it has {listed}."
        return self._key.hidden_in(f"The server at {self.url} has no model {self.model}: {hint}")


def _models(reply: Reply) -> list[str]:
    """The names that GET /models lists; none for anything but a list."""
    data = (reply.content or {}).get("data")
    rows = data if isinstance(data, list) else []
    return [row["id"] for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]
