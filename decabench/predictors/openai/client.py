"""Send requests to a server that speaks the OpenAI API, and retry where that can help.

Uses plain HTTP rather than the openai package, which costs 2 ms more CPU per request and 0.6 s on import, and lacks
what matters over thousands of questions: one pause for all requests after a 429, Retry-After of up to ten
minutes, retries within the rate limit, one time limit for the whole reply, a cap on its size, and a key that appears
in no error or answer.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import datetime
import difflib
import json
import logging
import math
import os
import random
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any, Self, TypeVar

import httpx2

from decabench.errors import DecabenchError, ModelError
from decabench.predictors.openai.replies import Overflow, ServerReply, UnreadableReplyError
from decabench.predictors.protocol import Header
from decabench.text import excerpt

__all__ = [
    "LONGEST_PAUSE",
    "VARIABLES",
    "ApiKey",
    "Client",
    "GaveUpError",
    "LoopThread",
    "Pace",
    "PromptOverflowError",
    "RefusedError",
    "RequestClock",
    "RequestLimits",
    "draw_back_off",
    "parse_retry_after",
    "read_key",
]

VARIABLES = ("DECABENCH_API_KEY", "OPENAI_API_KEY")
"""Environment variables for the key. The first one set is used; an empty value means no key."""

SECRET_LENGTH = 8
"""Shorter keys (`EMPTY`, `none`) are not secrets but words, which an answer may well contain."""

T = TypeVar("T")


@dataclass(frozen=True)
class ApiKey:
    """A key, and other headers, that are shown only to the server."""

    value: str = field(default="", repr=False)
    """The key; empty for none."""
    others: tuple[Header, ...] = ()
    """Headers that the user gave; any of them may hold a secret, and one of them may replace the key."""

    @property
    def headers(self) -> dict[str, str]:
        """The headers that carry the key and the rest."""
        others = {header.name: header.value for header in self.others}
        is_replaced = "authorization" in map(str.lower, others)
        return (
            {"Authorization": f"Bearer {self.value}", **others} if self.value and not is_replaced else others
        )

    @property
    def given(self) -> str:
        """What was sent, in words that fit `the server refuses …`."""
        names = [header.name for header in self.others]
        key = (
            f"the key in {' or '.join(VARIABLES)}"
            if self.value
            else ""
            if names
            else "requests without a key"
        )
        headers = f"the header{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else ""
        return " with ".join(filter(None, (key, headers)))

    def redact(self, text: str) -> str:
        """Replace the key with `[key]`, and what other headers hold with `[header]`, in a text from a server."""
        text = _replace(text, self.value, "[key]")
        for header in self.others:
            for secret in (header.value, *header.value.split()):
                text = _replace(text, secret, "[header]") if len(secret) >= SECRET_LENGTH else text
        return text

    def redact_answer(self, text: str) -> str:
        """Redact an answer, but for a key that may be an ordinary word."""
        hidden = self if len(self.value) >= SECRET_LENGTH else replace(self, value="")
        return hidden.redact(text)


def _replace(text: str, secret: str, shown: str) -> str:
    """Replace a secret in a text, also as JSON may spell it."""
    for form in {secret, json.dumps(secret)[1:-1], secret.replace("/", "\\/")}:
        text = text.replace(form, shown) if form else text
    return text


def read_key(headers: Sequence[Header] = ()) -> ApiKey:
    """Read the key, and headers that name a variable, from the environment.

    Raises DecabenchError for a variable that is not set, or that a header cannot hold.
    """
    variable = next((name for name in VARIABLES if name in os.environ), VARIABLES[0])
    value = os.environ.get(variable, "").strip()
    if not all("!" <= char <= "~" for char in value):
        raise DecabenchError(
            f"The key in {variable} contains spaces, line breaks or letters beyond ASCII, which no key does: set it "
            "again."
        )
    return ApiKey(value, tuple(map(_read_header, headers)))


_FROM_ENVIRONMENT = "env:"


def _read_header(header: Header) -> Header:
    if not header.value.startswith(_FROM_ENVIRONMENT):
        return header
    variable = header.value.removeprefix(_FROM_ENVIRONMENT)
    value = os.environ.get(variable, "").strip()
    if not value or not all(" " <= char <= "~" for char in value):
        reason = "contains what a header cannot hold" if value else "is not set"
        raise DecabenchError(
            f"--header {header.name} takes its value from {variable}, which {reason}: set it."
        )
    return Header(header.name, value)


LONGEST_PAUSE = 600.0
"""Seconds: the longest Retry-After that is honoured; longer ones are cut to this."""

LONGEST_BACK_OFF = 60.0
"""Seconds."""

SHOWN_WAIT = 5.0
"""Seconds: a wait of so long is logged, so that nobody takes it for a program that hangs."""

_log = logging.getLogger("decabench")


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class RequestClock:
    """The client's clock, replaced in tests so that they need not wait."""

    now: Callable[[], float] = time.monotonic
    """Returns seconds from a fixed but arbitrary moment."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits for a number of seconds."""
    date: Callable[[], datetime.datetime] = _utc_now
    """Returns the date and time, for a Retry-After that gives a date."""


class Pace:
    """Spaces requests evenly, and sends none during a pause. Belongs to one event loop."""

    def __init__(self, clock: RequestClock, per_minute: float | None) -> None:
        self._clock = clock
        self._interval = 60 / per_minute if per_minute else 0.0
        self._next = -math.inf
        self._paused_until = -math.inf

    async def turn(self) -> None:
        """Wait until a request may be sent."""
        slot = self._take_slot()
        while (wait := slot - self._clock.now()) > 0:
            await self._clock.sleep(wait)
            if self._clock.now() < self._paused_until:  # a pause began meanwhile
                slot = self._take_slot()

    def pause(self, seconds: float) -> None:
        """Hold back all requests for `seconds`."""
        self._paused_until = max(self._paused_until, self._clock.now() + seconds)

    def _take_slot(self) -> float:
        slot = max(self._clock.now(), self._next, self._paused_until)
        self._next = slot + self._interval
        return slot


def draw_back_off(tries: int) -> float:
    """Draw the seconds to wait after `tries`, uniformly from 0 to 2, 4, … 60, so that clients do not retry in step."""
    return random.uniform(0, min(LONGEST_BACK_OFF, 2.0**tries))


def parse_retry_after(header: str | None, clock: RequestClock) -> float | None:
    """Parse the seconds, or the date, of a Retry-After header; None if it is absent or invalid."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            date = parsedate_to_datetime(header)
        except ValueError:
            return None
        zoned = date if date.tzinfo else date.replace(tzinfo=datetime.UTC)
        seconds = (zoned - clock.date()).total_seconds()
    return min(max(seconds, 0.0), LONGEST_PAUSE) if math.isfinite(seconds) else None


RETRIED = frozenset({408, 409, 425, 429})
"""Statuses after which another try may succeed, besides every 5xx."""

LARGEST_REPLY = 16 << 20
"""In bytes; an answer has a few thousand."""


class RefusedError(Exception):
    """The server refuses this question, and asking again would not help."""


class GaveUpError(Exception):
    """Every try for this question failed."""


class PromptOverflowError(Exception):
    """The prompt of this question is too long for the server."""

    def __init__(self, overflow: Overflow, message: str) -> None:
        super().__init__(message)
        self.overflow = overflow
        """The lengths that the server reported."""


class _RetryableError(Exception):
    """A failure that another try may overcome; the message continues "the server"."""

    def __init__(
        self, message: str, wait: float | None = None, for_all: bool = False, unreachable: bool = False
    ) -> None:
        super().__init__(message)
        self.wait = wait
        """Seconds that the server asks to wait first."""
        self.for_all = for_all
        """Whether all requests must wait."""
        self.unreachable = unreachable
        """Whether there was no connection at all."""


@dataclass(frozen=True)
class RequestLimits:
    """How much load to put on a server."""

    concurrency: int = 8
    """Requests in flight."""
    per_minute: float | None = None
    """Requests per minute, retries included; None for no limit."""
    timeout: float = 120.0
    """Seconds from sending a request to receiving its whole reply."""
    retries: int = 5
    """Further tries after the first."""
    clock: RequestClock = field(default_factory=RequestClock)
    """The clock for waits."""


class Client:
    """A connection pool to one server, for one event loop, with what has been learned about the server."""

    def __init__(self, url: str, model: str, key: ApiKey, limits: RequestLimits) -> None:
        self.url = url
        self.model = model
        self._key = key
        self._limits = limits
        self._pace = Pace(limits.clock, limits.per_minute)
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._limit_name = "max_tokens"
        self._has_replied = False
        self._stopped = ""  # why no further request may be sent
        self._announced_until = -math.inf
        # Below this level it logs the headers of replies, where a server may echo the key.
        logging.getLogger("httpcore2").setLevel(logging.INFO)
        self._http = httpx2.AsyncClient(
            headers={"Content-Type": "application/json", "User-Agent": "decabench", **key.headers},
            timeout=None,  # a limit for the whole request is set around it
            limits=httpx2.Limits(max_connections=limits.concurrency),
            follow_redirects=False,  # the key is for this host
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    def redact(self, answer: str) -> str:
        """Remove the key from an answer, which a server that echoes its input would put on record."""
        return self._key.redact_answer(answer)

    async def ask(
        self, path: str, body: Mapping[str, Any], max_tokens: int, read: Callable[[Mapping[str, Any]], T]
    ) -> T:
        """POST until `read` can parse the reply, and return what it parsed.

        `read` raises UnreadableReplyError for a reply that should be asked for again. Raises RefusedError, GaveUpError
        and PromptOverflowError for this question alone, and ModelError if all other questions would fail too.
        """
        for tried in range(1, self._limits.retries + 2):
            try:
                return read(await self._content(path, body, max_tokens))
            except UnreadableReplyError as error:
                fault = _RetryableError(f"sent a reply that does not fit this API: {error}")
            except _RetryableError as error:
                fault = error
            if tried <= self._limits.retries:
                seconds = draw_back_off(tried) if fault.wait is None else fault.wait
                self._announce(seconds, fault)
                if fault.for_all:
                    self._pace.pause(seconds)  # the next turn waits for it
                else:
                    await self._limits.clock.sleep(seconds)
        tries = f"{tried} tries" if tried > 1 else "one try"
        if fault.unreachable and not self._has_replied:
            self._stopped = (
                f"{self.url} never answered: after {tries} it {fault}. Check that the server is running."
            )
            raise ModelError(self._stopped)
        raise GaveUpError(f"No answer after {tries}: the server {fault}.")

    def _announce(self, seconds: float, fault: _RetryableError) -> None:
        """Log a long wait, unless one is already going on."""
        now = self._limits.clock.now()
        if seconds < SHOWN_WAIT or now < self._announced_until:
            return
        self._announced_until = now + seconds
        why = ", as it asks" if fault.wait is not None else ""
        what = "no request is sent for" if fault.for_all else "trying again in"
        _log.warning("The server %s; %s %.0f s%s.", fault, what, seconds, why)

    async def _content(self, path: str, body: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
        """Return the JSON object of a reply that is not an error."""
        name = self._limit_name
        reply = await self._send("POST", path, {**body, name: max_tokens})
        if name == "max_tokens" and reply.refuses(name) and "max_completion_tokens" in reply.message:
            self._limit_name = "max_completion_tokens"
            reply = await self._send("POST", path, {**body, self._limit_name: max_tokens})
        said = f'"{excerpt(self._key.redact(reply.message))}"'
        if reply.status not in (401, 403, 404, 429) and (overflow := reply.overflow):
            raise PromptOverflowError(overflow, f"The prompt is too long for the server, which says {said}.")
        if 200 <= reply.status < 300:
            if reply.content is None:
                raise UnreadableReplyError(f"not a JSON object but {said}")
            if reply.error and "choices" not in reply.content:
                raise _RetryableError(f"answered with an error: {said}")
            return reply.content
        if reason := await self._reason_to_stop(reply, path, said):
            self._stopped = reason
            raise ModelError(reason)
        if reply.status in RETRIED or reply.status >= 500:
            wait = parse_retry_after(reply.headers.get("retry-after"), self._limits.clock)
            raise _RetryableError(f"answered with status {reply.status}: {said}", wait, reply.status == 429)
        raise RefusedError(f"The server refused the request with status {reply.status}: {said}.")

    async def _send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> ServerReply:
        """Send one request and read its whole reply."""
        content = None if body is None else json.dumps(body).encode()
        async with self._slots:
            await self._pace.turn()
            if self._stopped:
                raise ModelError(self._stopped)
            try:
                async with asyncio.timeout(self._limits.timeout):
                    return await self._exchange(method, self.url + path, content)
            except TimeoutError:
                raise _RetryableError(f"sent no complete reply within {self._limits.timeout:g} s") from None
            except httpx2.RequestError as error:
                said = self._key.redact(str(error))
                raise _RetryableError(
                    f"could not be reached, or broke off ({type(error).__name__}: {excerpt(said)})",
                    unreachable=isinstance(error, httpx2.ConnectError),
                ) from None

    async def _exchange(self, method: str, url: str, content: bytes | None) -> ServerReply:
        async with self._http.stream(method, url, content=content) as response:
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > LARGEST_REPLY:
                    raise _RetryableError(f"sent more than {LARGEST_REPLY >> 20} MiB")
            self._has_replied = True
            return ServerReply(response.status_code, body.decode("utf-8", "replace"), response.headers)

    async def _reason_to_stop(self, reply: ServerReply, path: str, said: str) -> str:
        """Say why every other question would fail too; empty if another might succeed."""
        status, url = reply.status, self.url + path
        if status in (401, 403):
            return (
                f"{url} refuses {self._key.given} with status {status}: {said}. Set {VARIABLES[0]} to a valid key, or "
                "give the header that it wants with --header."
            )
        if status == 402 or reply.error.get("code") == "insufficient_quota":
            return (
                f"{url} asks for payment: {said}. Check the account and run the same command again: the answers so "
                "far are kept."
            )
        if 300 <= status < 400:
            return (
                f"{url} redirects with status {status}. This is not followed, because the key must not go to another "
                "host: give the final URL."
            )
        if status == 404 or reply.error.get("code") == "model_not_found":
            return await self._explain_not_found(url, said)
        refused = [name for name in ("temperature", "seed", "top_p", "stop") if reply.refuses(name)]
        if refused:
            return (
                f"{url} does not take {refused[0]} with {self.model}: {said}. Leave it out with --omit {refused[0]}, "
                "which the submission records, or change the option, the model or the server."
            )
        return ""

    async def _explain_not_found(self, url: str, said: str) -> str:
        """Say whether the server does not know the model or the URL."""
        try:
            models = _list_models(await self._send("GET", "/models"))
        except _RetryableError:
            models = []
        missing = f"{url} was not found (status 404: {said})"
        if not models:
            return f"{missing}: base URLs usually end in /v1, unlike {self.url}."
        if self.model in models:
            return f"{missing}, though the server has {self.model}: try the other --api."
        near = difflib.get_close_matches(self.model, models, n=3, cutoff=0.5)
        listed = ", ".join(map(excerpt, near or models[:10]))
        hint = f"did you mean {listed}?" if near else f"it has {listed}."
        return self._key.redact(f"The server at {self.url} has no model {self.model}: {hint}")


def _list_models(reply: ServerReply) -> list[str]:
    """Return the names that GET /models lists; none if the reply is not a list."""
    data = (reply.content or {}).get("data")
    rows = data if isinstance(data, list) else []
    return [row["id"] for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]


class LoopThread:
    """A thread that runs coroutines inside a `with` block; leaving it cancels those still running."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="decabench-requests", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine; the future holds what it returns."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def result(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result."""
        return self.start(coroutine).result()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()
