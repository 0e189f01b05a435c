"""Client for servers with an OpenAI-compatible API, with rate limits and retries.

The openai package isn't used because it takes 3 ms more CPU time per request and 0.6 s to import. It also lacks
features that are needed for thousands of questions: a pause of all requests after a 429, Retry-After waits of up to ten
minutes, retries that count towards the rate limit, a timeout for the whole reply, a limit on the size of a reply, and a
key that never appears in errors or answers.
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
from asyncio import sleep
from collections.abc import Callable, Collection, Coroutine, Generator, Iterable, Mapping
from email.utils import parsedate_to_datetime
from queue import SimpleQueue
from typing import Any, Self, TypeVar

import h11

from decabench.errors import ModelError
from decabench.predictors.openai.choices import (
    UnansweredError,
    UnreadableReplyError,
    is_same_model,
    parse_answer,
)
from decabench.predictors.openai.connections import Connections, UnreachableError
from decabench.predictors.openai.keys import OPENAI_VARIABLE, VARIABLE, ApiKey, is_overheard
from decabench.predictors.openai.replies import Overflow, ServerReply
from decabench.predictors.protocol import OMITTED, Answer, ModelOptions
from decabench.tasks import Question
from decabench.text import excerpt

T = TypeVar("T")

LONGEST_PAUSE = 600.0
"""The longest wait, in seconds, that a Retry-After header can request. Longer waits are shortened."""

LONGEST_BACK_OFF = 60.0
"""The longest pause between attempts, in seconds, unless the server sends a Retry-After header."""

CUT_ALIKE, CUT_SPREAD, LONG_PROMPT = 3, 1.25, 4_000
"""Thresholds for warning that a server truncates prompts.

At least CUT_ALIKE prompts must share the largest token count so far. The longest of these prompts must have more than
LONG_PROMPT characters, and more than CUT_SPREAD times as many characters as the shortest.
"""

SHOWN_WAIT = 5.0
"""Waits of at least this many seconds are logged, so that the program doesn't seem to hang."""

_log = logging.getLogger("decabench")


class Pace:
    """A rate limiter that spaces requests evenly and can pause them all.

    Each instance belongs to one event loop.
    """

    def __init__(self, per_minute: float | None) -> None:
        self._interval = 60 / per_minute if per_minute else 0.0
        self._next = -math.inf
        self._paused_until = -math.inf

    async def turn(self) -> None:
        """Wait until the next request may be sent."""
        slot = self._take_slot()
        while (wait := slot - time.monotonic()) > 0:
            await sleep(wait)
            if time.monotonic() < self._paused_until:  # a pause started in the meantime
                slot = self._take_slot()

    def pause(self, seconds: float) -> None:
        """Pause all requests for a number of seconds."""
        self._paused_until = max(self._paused_until, time.monotonic() + seconds)

    def _take_slot(self) -> float:
        slot = max(time.monotonic(), self._next, self._paused_until)
        self._next = slot + self._interval
        return slot


def draw_back_off(tries: int) -> float:
    """Return a random number of seconds to wait before the next attempt.

    The maximum doubles with each attempt, from 2 up to 60 seconds. The wait is random so that clients don't all
    retry at once.
    """
    return random.uniform(0, min(LONGEST_BACK_OFF, 2.0**tries))


def parse_retry_after(header: str | None) -> float | None:
    """Parse a Retry-After header into seconds. Returns None if it is absent or invalid."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            date = parsedate_to_datetime(header)
        except (ValueError, OverflowError):  # the year is out of range
            return None
        zoned = date if date.tzinfo else date.replace(tzinfo=datetime.UTC)
        seconds = zoned.timestamp() - time.time()
    return min(max(seconds, 0.0), LONGEST_PAUSE) if math.isfinite(seconds) else None


RETRIED = frozenset({408, 409, 425, 429})
"""HTTP statuses to retry, in addition to all 5xx statuses."""

LARGEST_REPLY = 16 << 20
"""The maximum size of a reply in bytes. A typical reply has a few thousand bytes."""

_NEEDED = ("model", "messages", "prompt")
"""Required parameters. If a server's error names one of them, the parameter isn't treated as rejected."""

MOST_SAID = 20
"""The maximum number of different warnings to log.

Without a limit, a server that names a different model in every answer would flood the log.
"""


class UnsupportedError(Exception):
    """Raised if the server rejects or ignores optional parameters."""


class FilteredError(Exception):
    """Raised if the server's content filter blocks a question."""


class PromptOverflowError(UnansweredError):
    """Raised if a prompt is too long for the server."""

    def __init__(self, overflow: Overflow, message: str) -> None:
        super().__init__(message)
        self.overflow = overflow
        """The lengths reported by the server."""


class _RetryableError(Exception):
    """Raised for a failure that may be temporary.

    The message must complete a sentence that starts with "the server".
    """

    def __init__(
        self, message: str, wait: float | None = None, for_all: bool = False, unreachable: bool = False
    ) -> None:
        super().__init__(message)
        self.wait = wait
        """The wait requested by the server, in seconds."""
        self.for_all = for_all
        """Whether all other requests must wait too."""
        self.unreachable = unreachable
        """Whether no connection could be made."""


CONCURRENCY, TIMEOUT, RETRIES = 8, 120.0, 5
"""Defaults for the options --concurrency, --timeout (in seconds) and --retries."""


class Client:
    """A client for one server, bound to one event loop."""

    def __init__(self, url: str, key: ApiKey, options: ModelOptions) -> None:
        self.url = url
        self.model = options.model or ""
        self.concurrency = options.concurrency or CONCURRENCY
        self._timeout = options.timeout or TIMEOUT  # from sending a request to receiving its whole reply
        self._retries = RETRIES if options.retries is None else options.retries
        self._key = key
        self.redact = key.redact
        """Removes the key and header values from a string, because answers are recorded and may repeat them."""
        self._pace = Pace(options.requests_per_minute)
        self._slots = asyncio.Semaphore(self.concurrency)
        self._limit_name = "max_tokens"
        self._has_replied = False
        self._stopped = ""  # why no more requests are sent
        self._announced_until = -math.inf
        self._said: set[str] = set()
        # The largest token count, and the lengths in characters of the prompts with that count.
        self._longest: tuple[int, list[int]] = (0, [])
        if (key.value or key.others) and is_overheard(url):
            _log.warning(
                "Requests to %s are not encrypted, so others on the network can read %s. Use the server's https:// "
                "address, or a tunnel on this machine.",
                url,
                key.given,
            )
        headers = {"Content-Type": "application/json", "User-Agent": "decabench", **key.headers}
        self._connections = Connections(url, headers, LARGEST_REPLY)

    async def close(self) -> None:
        """Close all connections."""
        self._connections.close()

    async def ask(
        self,
        path: str,
        body: Mapping[str, Any],
        max_tokens: int | None,
        parse: Callable[[Mapping[str, Any]], tuple[Answer, str]] = parse_answer,
        unsupported: Collection[int] = (),
    ) -> Answer:
        """Send a POST request, retrying until the reply contains an answer.

        `parse` reads the answer in a reply; see `parse_answer`. Raises UnansweredError, FilteredError or
        PromptOverflowError if only this question fails, and ModelError if all other questions would fail too. Raises
        UnsupportedError if the status of the reply is in `unsupported`, which means that the server rejects the
        parameters.
        """
        for tried in range(1, self._retries + 2):
            try:
                answer, unknown_end = parse(await self._content(path, body, max_tokens, unsupported))
                self._compare(answer, unknown_end)
                return answer
            except UnreadableReplyError as error:
                said = excerpt(self._key.redact(str(error)))
                fault = _RetryableError(f"sent a reply that does not match this API: {said}")
            except _RetryableError as error:
                fault = error
            if tried <= self._retries:
                seconds = draw_back_off(tried) if fault.wait is None else fault.wait
                self._announce(seconds, fault)
                if fault.for_all:
                    self._pace.pause(seconds)  # the next turn waits for this pause
                else:
                    await sleep(seconds)
        tries = f"{tried} tries" if tried > 1 else "one try"
        if fault.unreachable and not self._has_replied:
            self._stopped = (
                f"{self.url} never answered. After {tries}, the server {fault}. "
                "Check that the server is running."
            )
            raise ModelError(self._stopped)
        raise UnansweredError(f"No answer after {tries}: the server {fault}.")

    def say_once(self, about: str, message: str) -> None:
        """Log a warning once for each value of `about`, and at most MOST_SAID warnings in total."""
        if about not in self._said and len(self._said) < MOST_SAID:
            self._said.add(about)
            _log.warning("%s", self._key.redact(message))

    def note_length(self, characters: int, tokens: int) -> None:
        """Record a prompt's length, and warn if the server seems to truncate prompts.

        The warning appears if prompts of very different lengths share the largest token count. Ollama, for example,
        silently truncates prompts to its num_ctx.
        """
        largest, sizes = self._longest
        if tokens > largest:
            self._longest = tokens, [characters]
        elif tokens == largest:
            sizes.append(characters)
            if len(sizes) >= CUT_ALIKE and max(sizes) > CUT_SPREAD * min(sizes) and max(sizes) > LONG_PROMPT:
                self.say_once(
                    "cut",
                    f"{self.url} counts at most {tokens:,} tokens in prompts of {min(sizes):,} to "
                    f"{max(sizes):,} characters, so the server probably truncates long prompts. Give the "
                    "model a longer context (num_ctx) or cut contexts with --max-prompt-tokens, then "
                    "run again.",
                )

    def _compare(self, answer: Answer, unknown_end: str) -> None:
        """Warn if a model other than the requested one answered, or if the finish_reason is unknown."""
        served = (answer.served_by or "").partition(" (")[0]
        if served and not is_same_model(self.model, served):
            name = excerpt(self._key.redact(served), 80)
            self.say_once(
                name,
                f"{self.url} was asked for {self.model}, but {name} answered. Check --model. The "
                "submission records both names.",
            )
        if unknown_end:
            reason = excerpt(self._key.redact(unknown_end), 60)
            self.say_once(
                reason,
                f"{self.url} ends answers with the unknown finish_reason {reason!r}. These answers are treated as "
                "complete.",
            )

    def _announce(self, seconds: float, fault: _RetryableError) -> None:
        """Log a long wait, unless another wait is in progress."""
        now = time.monotonic()
        if seconds < SHOWN_WAIT or now < self._announced_until:
            return
        self._announced_until = now + seconds
        why = ", as it requested" if fault.wait is not None else ""
        what = "sending no requests for" if fault.for_all else "trying again in"
        _log.warning("The server %s; %s %.0f s%s.", fault, what, seconds, why)

    async def _content(
        self, path: str, body: Mapping[str, Any], max_tokens: int | None, unsupported: Collection[int] = ()
    ) -> dict[str, Any]:
        """Send a POST request and return the JSON body of a successful reply."""
        name = self._limit_name
        sent = dict(body) if max_tokens is None else {**body, name: max_tokens}
        reply = await self._send("POST", path, sent)
        if 200 <= reply.status < 300 and reply.content and reply.content.get("choices") and not reply.error:
            return reply.content
        if "max_completion_tokens" in reply.message and reply.find_refused([name]) == "max_tokens":
            self._limit_name = "max_completion_tokens"
            sent = {**body, self._limit_name: max_tokens}
            reply = await self._send("POST", path, sent)
        said = f'"{excerpt(self._key.redact(reply.message))}"'
        if reply.is_filtered:
            raise FilteredError(said)
        if overflow := reply.overflow:
            raise PromptOverflowError(overflow, f"The prompt is too long for the server: {said}.")
        if 200 <= reply.status < 300:
            if reply.content is None:
                raise UnreadableReplyError(f"{said}, not a JSON object")
            if reply.error:
                for_all = str(reply.error.get("code")) == "429"
                raise _RetryableError(f"answered with an error: {said}", for_all=for_all)
            return reply.content
        if reply.status in unsupported:
            raise UnsupportedError(said)
        if reason := await self._reason_to_stop(reply, path, said, sent):
            self._stopped = reason
            raise ModelError(reason)
        if reply.status in RETRIED or reply.status >= 500:
            wait = parse_retry_after(reply.headers.get("retry-after"))
            raise _RetryableError(f"answered with status {reply.status}: {said}", wait, reply.status == 429)
        raise UnansweredError(f"The server refused the request with status {reply.status}: {said}.")

    async def _send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> ServerReply:
        """Send a request and read the whole reply."""
        content = None if body is None else json.dumps(body).encode()
        async with self._slots:
            await self._pace.turn()
            if self._stopped:
                raise ModelError(self._stopped)
            try:
                async with asyncio.timeout(self._timeout):
                    status, headers, received = await self._connections.exchange(method, path, content)
            except TimeoutError:
                raise _RetryableError(f"did not send a complete reply within {self._timeout:g} s") from None
            except (OSError, h11.RemoteProtocolError) as error:
                unreachable = isinstance(error, UnreachableError)
                happened = "could not be reached" if unreachable else "closed the connection"
                said = excerpt(self._key.redact(str(error)) or type(error).__name__)
                raise _RetryableError(f"{happened} ({said})", unreachable=unreachable) from None
            except OverflowError:
                raise _RetryableError(f"sent a reply of more than {LARGEST_REPLY >> 20} MiB") from None
            self._has_replied = True
            try:
                text = received.decode("utf-8-sig")
            except UnicodeDecodeError:
                if 200 <= status < 300:  # replacement characters would change the answer
                    raise _RetryableError("sent a reply that is not valid UTF-8") from None
                text = received.decode("utf-8", "replace")
            return ServerReply(status, text, headers)

    async def _reason_to_stop(self, reply: ServerReply, path: str, said: str, sent: Mapping[str, Any]) -> str:
        """Return the reason why all other questions would fail too, or an empty string if they might succeed."""
        status, url = reply.status, self.url + path
        if status in (401, 403):
            keeps_a_key = (
                not self._key.value and VARIABLE not in os.environ and os.environ.get(OPENAI_VARIABLE)
            )
            only = f" {OPENAI_VARIABLE} is sent only to OpenAI." if keeps_a_key else ""
            return (
                f"{url} rejects {self._key.given} (status {status}: {said}). Set {VARIABLE} to a valid "
                f"key, or specify the header that the server requires with --header.{only}"
            )
        if status == 402 or reply.error.get("code") == "insufficient_quota":
            return (
                f"{url} requires payment: {said}. Check the account, then run the same command again. Earlier "
                "answers are kept."
            )
        if 300 <= status < 400:
            return (
                f"{url} redirects to another URL (status {status}). Redirects are not followed, so that the key is "
                "never sent to another host. Use the final URL."
            )
        if status == 404 or reply.error.get("code") == "model_not_found":
            return await self._explain_not_found(url, said)
        if not (name := reply.find_refused([each for each in sent if each not in _NEEDED])):
            return ""
        omitted = "max_tokens" if name == "max_completion_tokens" else name
        remedy = (
            f"Leave out the parameter with --omit {omitted}, or change the option, the model or the server. The "
            "submission records omitted parameters."
            if omitted in OMITTED
            else "Change --body."
        )
        return f"{url} does not accept {name} with {self.model}: {said}. {remedy}"

    async def _explain_not_found(self, url: str, said: str) -> str:
        """Explain why a URL or model was not found. The model's name, the URL or the API may be wrong."""
        try:
            content = (await self._send("GET", "/models")).content
        except _RetryableError:
            content = None
        rows = content.get("data") if content else None
        names = [row.get("id") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        models = [name for name in names if isinstance(name, str)]
        missing = f"{url} was not found (status 404: {said})"
        if not models:
            return f"{missing}. Check the base URL {self.url}. Base URLs usually end in /v1."
        if self.model in models:
            other = "completions" if url.endswith("/chat/completions") else "chat"
            return f"{missing}, although the server has the model {self.model}. Try --api {other}."
        near = difflib.get_close_matches(self.model, models, n=3, cutoff=0.5)
        listed = ", ".join(map(excerpt, near or models[:10]))
        hint = f"Did you mean {listed}?" if near else f"The server has {listed}."
        return self._key.redact(f"The server at {self.url} has no model {self.model}. {hint}")


class LoopThread:
    """A context manager for a thread that runs coroutines. On exit, running coroutines are cancelled."""

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
        """Start a coroutine and return a future for its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def result(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result."""
        return self.start(coroutine).result()

    def stream(
        self, ask: Callable[[Question], Coroutine[Any, Any, T]], questions: Iterable[Question], window: int
    ) -> Generator[tuple[str, T], None, None]:
        """Yield (id, result) pairs as results arrive, with up to `window` questions in progress.

        Closing the generator cancels the remaining questions.
        """
        source = iter(questions)
        done: SimpleQueue[concurrent.futures.Future[T]] = SimpleQueue()
        pending: dict[concurrent.futures.Future[T], str] = {}
        try:
            while True:
                while len(pending) < window and (question := next(source, None)) is not None:
                    future = self.start(ask(question))
                    pending[future] = question.id
                    future.add_done_callback(done.put)
                if not pending:
                    return
                future = done.get()
                yield pending.pop(future), future.result()
        finally:
            for future in pending:
                future.cancel()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(asyncio.sleep(0))  # closed connections end in the loop's next round
        finally:
            self._loop.close()
