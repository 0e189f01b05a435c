"""Asks a server that speaks the OpenAI API, again and again where that can help."""

from __future__ import annotations

import asyncio
import datetime
import difflib
import json
import logging
import math
import os
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any, TypeVar

import httpx2

from decabench.errors import DecabenchError
from decabench.predictors.protocol import Answer, Finish
from decabench.text import excerpt, well_formed

__all__ = [
    "LONGEST_PAUSE",
    "VARIABLES",
    "Client",
    "Clock",
    "GaveUpError",
    "Key",
    "Limits",
    "Pace",
    "RefusedError",
    "Reply",
    "TooLong",
    "TooLongError",
    "UnreadableReplyError",
    "answer_of",
    "back_off",
    "environment_key",
    "retry_after",
]

# ---- openai_key

VARIABLES = ("DECABENCH_API_KEY", "OPENAI_API_KEY")
"""Where the key is looked for. The first that is set decides, and set to nothing it means no key."""

SECRET_LENGTH = 8
"""Shorter ones (`EMPTY`, `none`) are no secrets but words, which an answer may well contain."""


@dataclass(frozen=True)
class Key:
    """A key that shows itself to nobody but the server."""

    value: str = field(default="", repr=False)
    """The key; empty for none."""

    @property
    def headers(self) -> dict[str, str]:
        """What a request carries of it."""
        return {"Authorization": f"Bearer {self.value}"} if self.value else {}

    def hidden_in(self, text: str) -> str:
        """The text without the key, for what a server sends back."""
        for form in {self.value, json.dumps(self.value)[1:-1], self.value.replace("/", "\\/")}:
            text = text.replace(form, "[key]") if form else text
        return text

    def hidden_in_answer(self, text: str) -> str:
        """The same for an answer, which a word that happens to be the key does not change."""
        return self.hidden_in(text) if len(self.value) >= SECRET_LENGTH else text


def environment_key() -> Key:
    """The key of the environment, if it has one. Raises DecabenchError for what cannot stand in a header."""
    variable = next((name for name in VARIABLES if name in os.environ), VARIABLES[0])
    value = os.environ.get(variable, "").strip()
    if not all("!" <= char <= "~" for char in value):
        raise DecabenchError(
            f"The key in {variable} has spaces, line breaks or letters beyond ASCII, which no key has: set it again."
        )
    return Key(value)


# ---- openai_pace

LONGEST_PAUSE = 600.0
"""Seconds: what a server may ask for; longer pauses are cut to this."""

LONGEST_BACK_OFF = 60.0
"""Seconds."""


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class Clock:
    """Time as the client sees it, so that a test need not wait."""

    now: Callable[[], float] = time.monotonic
    """Seconds since some moment."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits so many seconds."""
    date: Callable[[], datetime.datetime] = _utc_now
    """What the calendar says: servers may name the moment."""


class Pace:
    """Lets requests go one an interval, and none during a pause. Belongs to one event loop."""

    def __init__(self, clock: Clock, per_minute: float | None) -> None:
        self._clock = clock
        self._interval = 60 / per_minute if per_minute else 0.0
        self._next = -math.inf
        self._paused_until = -math.inf

    async def turn(self) -> None:
        """Waits until a request may leave."""
        slot = self._slot()
        while (wait := slot - self._clock.now()) > 0:
            await self._clock.sleep(wait)
            if self._clock.now() < self._paused_until:  # a pause began meanwhile
                slot = self._slot()

    def pause(self, seconds: float) -> None:
        """No request leaves for so long."""
        self._paused_until = max(self._paused_until, self._clock.now() + seconds)

    def _slot(self) -> float:
        slot = max(self._clock.now(), self._next, self._paused_until)
        self._next = slot + self._interval
        return slot


def back_off(tries: int) -> float:
    """Seconds to wait after so many tries: drawn evenly from 0 to 2, 4, 8 … 60, lest clients march in step."""
    return random.uniform(0, min(LONGEST_BACK_OFF, 2.0**tries))


def retry_after(header: str | None, clock: Clock) -> float | None:
    """Seconds that a Retry-After header asks for, as a number or a date; None for none and for nonsense."""
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


# ---- openai_replies

_FINISH: dict[str, Finish] = {"length": "length", "max_tokens": "length", "content_filter": "refused"}
_NO_ANSWER = {"abort", "error"}
"""Reasons to finish of servers that gave up half-way."""

_TOO_LONG = re.compile(
    r"maximum (?:context|model|prompt) length|available context size|context.{0,3}length.{0,3}exceeded"
    r"|exceed_context_size|prompt is too long|exceeds? (?:the |this )?(?:model's )?context"
    r"|longer than the (?:model's )?context|`inputs` tokens",
    re.IGNORECASE,
)
_LIMITS = (
    r"maximum (?:context|model|prompt) length (?:is|of) (\d+)",
    r"available context size \((\d+) tokens",
    r"> (\d+) maximum",
    r"must be <= (\d+)",
)
_PROMPTS = (
    r"\((\d+) in (?:the|your) (?:messages|prompt)",
    r"messages resulted in (\d+) tokens",
    r"(?:has|have) (\d+) input tokens",
    r"prompt contains (\d+) input tokens",
    r"request \((\d+) tokens\)",
    r"prompt \(length (\d+)\)",
    r"prompt is too long: (\d+) tokens",
    r"Given: (\d+) `inputs` tokens",
)


@dataclass(frozen=True)
class TooLong:
    """A prompt that the server has no room for."""

    limit: int | None
    """Tokens that prompt and answer may have together, where it says so."""
    prompt: int | None
    """Tokens that the prompt has, where it says so; "at least so many" is no number."""


class UnreadableReplyError(Exception):
    """A reply that is not what the API promises; the message says what it is instead."""


@dataclass(frozen=True)
class Reply:
    """A whole reply."""

    status: int
    """The HTTP status."""
    text: str
    """The body."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers."""

    @cached_property
    def content(self) -> dict[str, Any] | None:
        """The body's JSON object; None for anything else."""
        try:
            value = json.loads(self.text)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    @cached_property
    def error(self) -> dict[str, Any]:
        """The error object of the body, empty for none. Servers also send a text, or the object itself."""
        content = self.content or {}
        found = content.get("error", content if self.status >= 400 else None)
        return found if isinstance(found, dict) else {"message": found} if found else {}

    @property
    def message(self) -> str:
        """What an error says: its message, or the body as it is."""
        message = self.error.get("message") or self.error.get("detail")
        return message if isinstance(message, str) else self.text

    @property
    def too_long(self) -> TooLong | None:
        """What the error says of the prompt's length, where that is what it is about."""
        error = self.error
        if not error and self.status < 400:
            return None
        about = f"{error.get('code')} {error.get('type')} {self.message}" if error else self.message
        text = re.sub(r"(?<=\d),(?=\d{3})", "", about)
        if not _TOO_LONG.search(text):
            return None
        return TooLong(
            limit=_integer(error.get("n_ctx")) or _found(_LIMITS, text),
            prompt=_integer(error.get("n_prompt_tokens")) or _found(_PROMPTS, text),
        )

    def refuses(self, parameter: str) -> bool:
        """Whether it is an error which says that the server does not take this parameter of the request."""
        unsupported = re.search(
            r"unsupported|not supported|unrecognized|unknown|does not support", self.message, re.I
        )
        named = self.error.get("param") == parameter or re.search(rf"['\"`]{parameter}['\"`]", self.message)
        return self.status in (400, 422) and bool(unsupported and named)


def answer_of(content: Mapping[str, Any]) -> Answer:
    """The answer of a reply of either API. Raises UnreadableReplyError."""
    choices = content.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        raise UnreadableReplyError("it has no choices")
    reason = choice.get("finish_reason")
    if reason in _NO_ANSWER:
        raise UnreadableReplyError(f"its finish_reason is {reason!r}")
    message = choice.get("message")
    said: Mapping[str, Any] = message if isinstance(message, dict) else {"content": choice.get("text", 0)}
    text, refusal = _text(said.get("content")), _text(said.get("refusal")) or ""
    if text is None:
        raise UnreadableReplyError("its first choice has neither a message nor a text")
    usage = content.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    return Answer(
        text=well_formed(text or refusal),
        finish="refused" if refusal else _FINISH.get(str(reason), "stop"),
        prompt_tokens=_integer(counts.get("prompt_tokens")),
        completion_tokens=_integer(counts.get("completion_tokens")),
    )


def _text(content: object) -> str | None:
    """The text of a message's content: a string, nothing, or a list of parts of which some are text."""
    if content is None:
        return ""
    if isinstance(content, list):
        parts = [
            part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"
        ]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else None


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _found(patterns: tuple[str, ...], text: str) -> int | None:
    matches = (re.search(pattern, text, re.IGNORECASE) for pattern in patterns)
    return next((int(match[1]) for match in matches if match), None)


# ---- openai_client

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
