"""`openai:BASE_URL`: a model behind any server that speaks the OpenAI API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from decabench.errors import DecabenchError
from decabench.predictors.openai.client import Clock
from decabench.predictors.options import ModelOptions
from decabench.predictors.protocol import PredictorFactory, Setting

if TYPE_CHECKING:
    from decabench.predictors.openai.questions import OpenAIPredictor

__all__ = ["OpenAIBackend", "backend"]

APIS = ("chat", "completions")
"""What a server is asked by: with messages, or with one text."""

UNUSED = ("dtype", "device", "device_map", "batch_size", "beam", "chat")
"""Options that are the server's business, or another backend's."""

IN_FLIGHT, TIMEOUT, RETRIES = 8, 120.0, 5
"""What is meant where an option is not given."""


@dataclass(frozen=True)
class OpenAIBackend:
    """A server, before it is asked anything. The key is not in it: `open` takes it from the environment."""

    url: str
    """The base, without a slash at its end: `http://localhost:8000/v1`."""
    options: ModelOptions
    """What was asked for."""
    clock: Clock = field(default_factory=Clock)
    """Time."""

    prompted = True

    def describe(self) -> dict[str, Any]:
        """The server, the model and how it decodes."""
        options = self.options
        given = {
            "revision": options.revision,
            "top_p": options.top_p,
            "max_new_tokens": options.max_new_tokens,
            "max_prompt_tokens": options.max_prompt_tokens,
        }
        return {
            "url": self.url,
            "model": options.model,
            "api": options.api or APIS[0],
            "temperature": options.temperature,
            "seed": options.seed,
            **{name: value for name, value in given.items() if value is not None},
        }

    @contextmanager
    def open(self) -> Iterator[PredictorFactory]:
        """Opens the connections, which all tasks share with the rate limit. Asks nothing yet."""
        from decabench.predictors.openai.client import Client, Limits, environment_key
        from decabench.predictors.openai.questions import LoopThread

        options = self.options
        limits = Limits(
            concurrency=options.concurrency or IN_FLIGHT,
            per_minute=options.requests_per_minute,
            timeout=TIMEOUT if options.timeout is None else options.timeout,
            retries=RETRIES if options.retries is None else options.retries,
            clock=self.clock,
        )
        client = Client(self.url, options.model or "", environment_key(), limits)
        with LoopThread() as loop:
            try:
                yield lambda setting: self._predictor(setting, client, loop, 2 * limits.concurrency)
            finally:
                loop.result(client.close())

    def _predictor(self, setting: Setting, client: Any, loop: Any, window: int) -> OpenAIPredictor:
        from decabench.predictors.openai.questions import Decoding, OpenAIPredictor

        if setting.prompting is None:
            raise DecabenchError(f"openai: asks with prompts, and there is none for {setting.task.name}.")
        options = self.options
        decoding = Decoding(
            api=options.api or APIS[0],
            temperature=options.temperature,
            top_p=options.top_p,
            seed=options.seed,
            max_new_tokens=options.max_new_tokens,
            max_prompt_tokens=options.max_prompt_tokens,
        )
        return OpenAIPredictor(client, loop, setting.prompting, decoding, window)


def backend(target: str, options: ModelOptions) -> OpenAIBackend:
    """The backend for a base URL. Raises DecabenchError for a URL or an option that does not fit."""
    url = _base_url(target)
    if not options.model:
        raise DecabenchError(f"openai: needs --model NAME, one of the names that {url}/models lists.")
    if options.api not in (None, *APIS):
        raise DecabenchError(f"--api is chat or completions, and {options.api} was given.")
    for name in UNUSED:
        if getattr(options, name) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise DecabenchError(f"openai: has no use for {flag}: the server decides it, or --api does.")
    _check_numbers(options)
    return OpenAIBackend(url, options)


def _base_url(target: str) -> str:
    """The base URL, which must hold nothing that should not be recorded. Errors do not show what may be a secret."""
    try:
        parts = urlsplit(target)
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host:
        example = "openai:http://localhost:8000/v1"
        raise DecabenchError(
            f"openai: is followed by a URL that begins with http:// or https://, as in {example}."
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise DecabenchError(
            f"The URL for {host} has a user, a password or something after ?, which would be recorded: leave it out "
            "and set DECABENCH_API_KEY for the key."
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _check_numbers(options: ModelOptions) -> None:
    positive: Mapping[str, float | None] = {
        "concurrency": options.concurrency,
        "requests-per-minute": options.requests_per_minute,
        "timeout": options.timeout,
        "max-new-tokens": options.max_new_tokens,
        "max-prompt-tokens": options.max_prompt_tokens,
    }
    for name, value in positive.items():
        if value is not None and not value > 0:
            raise DecabenchError(f"--{name} must be more than 0, and {value:g} was given.")
    if options.retries is not None and options.retries < 0:
        raise DecabenchError(f"--retries must be 0 or more, and {options.retries} was given.")
