"""Models served through any OpenAI-compatible API (`openai:BASE_URL`)."""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import count
from typing import Any
from urllib.parse import urlsplit

from decabench.errors import DecabenchError
from decabench.predictors.openai.choices import (
    UnansweredError,
    UnreadableReplyError,
    parse_likelihoods,
)
from decabench.predictors.openai.client import (
    Client,
    FilteredError,
    LoopThread,
    PromptOverflowError,
    UnsupportedError,
)
from decabench.predictors.openai.keys import read_key
from decabench.predictors.openai.replies import Overflow
from decabench.predictors.protocol import (
    REMOTE,
    Answer,
    Failure,
    ModelOptions,
    Outcome,
    PredictorFactory,
    Setting,
    add_tokens,
    before_stops,
    best_choice,
    is_cut_in_reasoning,
)
from decabench.prompts import Prompting, PromptTooLongError, fit
from decabench.tasks import Question

USED = REMOTE | {"model", "max_prompt_tokens", "api", "header", "requests_per_minute"}
"""The names of the options that the predictor uses."""
ADVICE = "The server or --api controls this setting. Leave out the option."
"""Advice for users who pass an option that isn't supported."""

_OWN = {
    "model": "--model",
    "messages": "--template",
    "prompt": "--template",
    "temperature": "--temperature",
    "top_p": "--top-p",
    "seed": "--seed",
    "stop": "set by the template",
    "max_tokens": "--max-new-tokens",
    "max_completion_tokens": "--max-new-tokens",
    "n": "--samples",
    "stream": "not supported",
}
"""Parameters that --body can't set. Each is mapped to the option to use instead, or to the reason why it can't be
set.
"""

CHARACTERS_PER_TOKEN = 4
"""The number of characters per token, used to estimate a prompt's length until the server has counted its tokens."""

CUTS = 6
"""The maximum number of times to shorten a context if the server rejects the prompt as too long."""

SILENTLY_CUT = (8_000, 8)
"""Thresholds for detecting that a server has not read a whole prompt.

The prompt must have at least 8,000 characters, and the server must count fewer than one token for every 8 characters.
"""

SHORTEST_ECHO = 40
"""The minimum length, in characters, of a repeated prompt that is removed from an answer."""

ECHO_AT = 40
"""A repeated prompt must start within this many characters of the answer's beginning.

Some servers insert whitespace or a start-of-text token before it.
"""


def backend(target: str, options: ModelOptions) -> OpenAIBackend:
    """Create a backend for a base URL. Raises DecabenchError for an invalid URL or option."""
    url = _parse_base_url(target)
    if not options.model:
        raise DecabenchError(
            f"The predictor openai requires --model NAME. The server lists its models at {url}/models."
        )
    given = {
        "temperature": options.temperature,
        "top_p": options.top_p,
        "max_tokens": options.max_new_tokens,
    }
    for name, value in given.items():
        if value and name in options.omit:
            flag = _OWN[name].partition(" ")[0]
            raise DecabenchError(f"--omit {name} and {flag} contradict each other. Use only one of the two.")
    if taken := [f"{name} ({flag})" for name, flag in _OWN.items() if name in options.parameters]:
        raise DecabenchError(
            f"--body can't set {', '.join(taken)}. Remove these parameters, or use the options in parentheses."
        )
    return OpenAIBackend(url, options)


def _parse_base_url(target: str) -> str:
    """Check a base URL and remove a trailing slash.

    The URL is recorded, so it must not contain secrets. Error messages don't repeat an invalid URL.
    """
    try:
        parts = urlsplit(target)
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host:
        raise DecabenchError(
            "The predictor openai requires a URL that begins with http:// or https://, as in "
            "openai:http://localhost:8000/v1."
        )
    if parts.query.startswith("api-version="):
        raise DecabenchError(
            "The predictor openai doesn't support Azure's api-version. Use "
            "openai:https://RESOURCE.openai.azure.com/openai/v1 with --header 'api-key: env:NAME', or "
            "inspect:openai/azure/DEPLOYMENT."
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise DecabenchError(
            f"The URL for {host} contains a user name, a password, a query or a fragment, which would be recorded. "
            "Remove that part. If it is a key, put it in the environment variable DECABENCH_API_KEY."
        )
    url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    for ending in ("/chat/completions", "/completions", "/models", "/responses"):
        if url.endswith(ending):
            raise DecabenchError(
                f"{url} is one of the server's endpoints. Use the server's base URL, openai:{url.removesuffix(ending)}."
            )
    return url


_UNSUPPORTED = frozenset({400, 422, 501})
"""HTTP statuses with which servers reject parameters."""

_ONE_BY_ONE = "echo of one prompt per request"

_WAYS = {
    "choices": ("echo",),
    "json": ("response_format", "json_object", "structured_outputs", "guided_json"),
}
"""Ways to enforce valid answers in each protocol, in order of preference, and the servers that support them.

- echo (log-probabilities of the prompt): vLLM, llama-cpp-python.
- response_format: OpenAI, vLLM, SGLang, llama-server, Ollama.
- json_object: llama-cpp-python.
- structured_outputs: vLLM from 0.12.
- guided_json: earlier versions of vLLM.

Servers based on llama.cpp convert the schema to a grammar.
"""


def _enforcing(way: str, schema: Mapping[str, Any], is_strict: bool) -> dict[str, Any]:
    if way == "response_format":
        named = {"name": "answer", "schema": schema, "strict": is_strict}
        return {way: {"type": "json_schema", "json_schema": named}}
    if way == "json_object":
        return {"response_format": {"type": way, "schema": schema}}
    return {way: {"json": schema} if way == "structured_outputs" else schema}


def _asks_chat(options: ModelOptions) -> bool:
    return options.api != "completions"


@dataclass(frozen=True)
class OpenAIBackend:
    """A server with an OpenAI-compatible API, and the options for its model.

    No request is sent before the first question. The API key isn't stored; `open` reads it from the
    environment.
    """

    url: str
    """The base URL without a trailing slash, such as `http://localhost:8000/v1`."""
    options: ModelOptions
    """The requested options."""

    prompted = True

    @property
    def is_chat(self) -> bool:
        """Whether prompts are chat messages."""
        return _asks_chat(self.options)

    @property
    def protocols(self) -> tuple[str, ...]:
        """Supported protocols in addition to `tag` and `prose`. Only the completions API can score labels."""
        return ("json",) if self.is_chat else ("json", "choices")

    def describe(self) -> dict[str, Any]:
        """Return the server, the model and its decoding settings, to be recorded in the submission."""
        options = self.options
        # Older versions didn't send stop strings to the chat API. This key prevents resuming their journals.
        stops = _asks_chat(options) and "stop" not in options.omit
        return {
            "url": self.url,
            "model": options.model,
            "api": options.api or "chat",
            **options.describe_requests(),
            **({"stop": "template"} if stops else {}),
        }

    @property
    def label(self) -> str:
        """The model's name in a submission. The server's address is left out because it may be private."""
        return f"openai:{self.options.model}"

    @contextmanager
    def open(self) -> Iterator[PredictorFactory]:
        """Set up connections and rate limits, which are shared by all tasks. No request is sent yet."""
        options = self.options
        client = Client(self.url, read_key(options.header, self.url), options)

        def make(setting: Setting) -> OpenAIPredictor:
            prompting, own = setting.require_prompting("openai"), replace(options, seed=setting.seed)
            ways = [*_WAYS.get(prompting.protocol, ())]
            return OpenAIPredictor(client, loop, prompting, own, 2 * client.concurrency, ways)

        with LoopThread() as loop:
            try:
                yield make
            finally:
                loop.result(client.close())


class _UnscoredError(UnsupportedError):
    """Raised if a reply doesn't contain the log-probabilities of the prompt."""


@dataclass
class _Asked:
    question: Question
    """The question."""
    prompting: Prompting
    """Builds the prompt."""
    kept: int | None = None
    """The number of context characters in the prompt; None for the whole context."""
    size: int = 0
    """The number of characters in the latest prompt."""
    discarded: list[Answer] = field(default_factory=list)
    """Earlier answers to the question that were discarded. Their tokens are counted too."""

    @property
    def context(self) -> str:
        """The part of the context that the prompt includes."""
        return self.question.context if self.kept is None else self.question.context[: self.kept]


@dataclass(frozen=True)
class OpenAIPredictor:
    """Answers the questions of a single task concurrently, truncating contexts that are too long."""

    client: Client
    """The client, which belongs to the event loop."""
    loop: LoopThread
    """The event loop that runs requests."""
    prompting: Prompting
    """Builds the prompts."""
    options: ModelOptions
    """Request options, including the maximum prompt length as counted by the server."""
    window: int
    """The maximum number of questions in progress, including those waiting for a slot or a retry."""
    ways: list[str] = field(default_factory=list)
    """The entries of `_WAYS` that the server hasn't rejected, in the order in which they are tried."""
    heeded: set[str] = field(default_factory=set)
    """The entries of `_WAYS` that the server has accepted, and `_ONE_BY_ONE` if it rejects lists of prompts."""
    alone: dict[str, float] = field(default_factory=dict)
    """The log-likelihood of each label if the prompt is only the template's `Answer:`."""

    def stream(self, questions: Iterable[Question]) -> Generator[tuple[str, Outcome], None, None]:
        """Yield (id, outcome) pairs as answers arrive. Closing the generator cancels pending requests."""
        return self.loop.stream(self._outcome, questions, self.window)

    async def _outcome(self, question: Question) -> Outcome:
        asked = _Asked(question, self.prompting)
        try:
            outcome = await self._answer(asked)
        except (UnansweredError, PromptTooLongError) as error:
            return Failure(str(error))
        return add_tokens(outcome, asked.discarded) if isinstance(outcome, Answer) else outcome

    async def _answer(self, asked: _Asked) -> Outcome:
        """Answer a question, using as much of the context as fits."""
        limit = self.options.max_prompt_tokens
        if limit and (span := fit(asked.question, limit, partial(self._guess_tokens, asked))):
            asked.kept = span[1]
        for cut in count():
            try:
                answer = await self._ask(asked)
                counted = answer.prompt_tokens or 0
                if not limit or counted <= limit:
                    return self._check(asked, answer)
                asked.discarded.append(answer)
                overflow = Overflow(limit, counted)
                reason = (
                    f"The prompt has {counted} tokens even after the context was cut. --max-prompt-tokens allows "
                    f"{limit}."
                )
            except FilteredError as error:
                self.client.say_once(
                    "filter",
                    f"A content filter on the server blocked a prompt, so the answer counts as refused: {error}.",
                )
                return self._check(asked, Answer("", "refused"))
            except PromptOverflowError as error:
                # The server's limit includes the answer.
                total, reason = error.overflow.limit, str(error)
                room = None if total is None else total - self._max_new_tokens(asked)
                overflow = Overflow(room, error.overflow.prompt)
            if cut == CUTS or not asked.context:
                break
            self._shorten(asked, overflow, cut)
        return Failure(reason)

    def _check(self, asked: _Asked, answer: Answer) -> Outcome:
        counted = answer.prompt_tokens
        size, (least, characters) = asked.size, SILENTLY_CUT
        if counted and size >= least and size > characters * counted:
            return Failure(
                f"The server counted {counted} tokens in a prompt of {size:,} characters, so it "
                "silently truncated the prompt. Give the model a longer context (num_ctx), or cut "
                "contexts with --max-prompt-tokens."
            )
        if counted:
            self.client.note_length(size, counted)
        return answer if asked.kept is None else replace(answer, context_kept=(0, asked.kept))

    async def _ask(self, asked: _Asked) -> Answer:
        while self.ways:
            way = self.ways[0]
            try:
                answer = await (self._ask_choices(asked) if way == "echo" else self._ask_text(asked, way))
            except UnsupportedError as error:
                if way in self.heeded:
                    raise UnansweredError(f"The server refused the request: {error}.") from None
                if way in self.ways:
                    self.ways.remove(way)
                    now = f"trying {self.ways[0]}" if self.ways else "using <answer>…</answer> tags instead"
                    self.client.say_once(
                        way,
                        f"{self.client.url} doesn't support {way} ({error}). decabench is {now}.",
                    )
            else:
                self.heeded.add(way)
                return answer
        if self.prompting.protocol in _WAYS:
            asked.prompting = replace(self.prompting, protocol="tag")
        return await self._ask_text(asked)

    @cached_property
    def _fixed(self) -> dict[str, Any]:
        """The parameters that are the same in every request."""
        return {**self.options.parameters, "model": self.client.model}

    async def _ask_choices(self, asked: _Asked) -> Answer:
        labels, gap = asked.prompting.labels(asked.question), asked.prompting.gap
        if not labels:
            raise UnansweredError("The question has no labels to choose from.")
        if new := [label for label in labels if label not in self.alone]:
            before = asked.prompting.template.answer or "Answer:"
            scored = await self._score(before, gap, new, {})
            asked.discarded.append(scored)
            self.alone.update({choice.label: choice.total for choice in scored.choices})
        prompt = asked.prompting.text(asked.question, asked.context)
        asked.size = len(prompt)
        return self._redacted(await self._score(prompt, gap, labels, self.alone))

    async def _score(
        self, prompt: str, gap: str, labels: Sequence[str], alone: Mapping[str, float]
    ) -> Answer:
        """Score all labels in one request, or send a request for each label if the server rejects lists of prompts."""
        ends = [f"{gap}{label}" for label in labels]
        if _ONE_BY_ONE not in self.heeded:
            try:
                return await self._echo([f"{prompt}{end}" for end in ends], ends, alone)
            except _UnscoredError:
                raise
            except UnsupportedError:
                if "echo" in self.heeded:
                    raise
                self.heeded.add(_ONE_BY_ONE)
        scored = [await self._echo(f"{prompt}{end}", [end], alone) for end in ends]
        choices = tuple(choice for answer in scored for choice in answer.choices)
        return add_tokens(replace(scored[0], text=best_choice(choices), choices=choices), scored[1:])

    async def _echo(self, prompt: str | list[str], ends: Sequence[str], alone: Mapping[str, float]) -> Answer:
        body = {**self._fixed, "prompt": prompt, "echo": True, "logprobs": 1, "temperature": 0.0}

        def parse(content: Mapping[str, Any]) -> tuple[Answer, str]:
            try:
                return parse_likelihoods(content, ends, alone)
            except UnreadableReplyError as error:
                raise _UnscoredError(str(error)) from None

        # llama-cpp-python's reply to a list of prompts has the status 500.
        may_reject_lists = isinstance(prompt, list) and "echo" not in self.heeded
        unsupported = _UNSUPPORTED | {500} if may_reject_lists else _UNSUPPORTED
        return await self.client.ask("/completions", body, 1, parse, unsupported)

    async def _ask_text(self, asked: _Asked, way: str = "") -> Answer:
        options, prompting = self.options, asked.prompting
        shown = self._shown(asked, asked.context)
        asked.size = _size(shown)
        given = {
            "temperature": options.temperature,
            "seed": options.seed,
            "top_p": options.top_p,
            "reasoning_effort": options.reasoning_effort,
            "messages" if _asks_chat(options) else "prompt": shown,
            "stop": list(prompting.chat_stop if _asks_chat(options) else prompting.stop) or None,
        }
        body = self._fixed | {name: value for name, value in given.items() if value is not None}
        if way:
            schema = prompting.schema(asked.question, asked.context, is_escaped=True)
            body.update(_enforcing(way, schema, is_strict=prompting.form.kind != "state"))
        for name in options.omit:
            body.pop(name, None)
        answer = await self._send(asked, body, _UNSUPPORTED if way else ())
        stops = body.get("stop", ())
        is_nothing = answer.finish == "stop" and not answer.text.strip() and not answer.reasoning
        if is_nothing and not all(map(str.strip, stops)):
            # The model starts its answer with an empty line, which is a stop string because other models end
            # their answers with it.
            self.client.say_once(
                "blank",
                f"{self.client.model} begins its answers with an empty line, which is a stop string of "
                "the template. decabench asks these questions again without the stop string, and cuts "
                "the answers itself.",
            )
            asked.discarded.append(answer)
            del body["stop"]
            if words := list(filter(str.strip, stops)):
                body["stop"] = words
            answer = await self._send(asked, body)
            if (text := before_stops(answer.text, stops)) != answer.text:
                answer = replace(answer, text=text, finish="stop")
        return self._without_prompt(answer, shown if isinstance(shown, str) else shown[-1]["content"])

    def _shown(self, asked: _Asked, context: str) -> str | list[dict[str, str]]:
        """Return the prompt with the given part of the context, as a string or as chat messages."""
        if not _asks_chat(self.options):
            return asked.prompting.text(asked.question, context)
        messages = asked.prompting.messages(asked.question, context)
        return [{"role": message.role, "content": message.content} for message in messages]

    def _without_prompt(self, answer: Answer, prompt: str) -> Answer:
        """Remove the prompt, which some servers repeat before the answer."""
        at = answer.text.find(prompt.strip(), 0, len(prompt) + ECHO_AT)
        if at < 0 or len(prompt) < SHORTEST_ECHO:
            return answer
        self.client.say_once(
            "echo",
            f"{self.client.model} repeats the prompt before its answers. decabench removes the repeated prompt. "
            "If echo (or return_full_text) is on, turn it off on the server.",
        )
        return replace(answer, text=answer.text[at + len(prompt.strip()) :])

    async def _send(self, asked: _Asked, body: dict[str, Any], unsupported: Collection[int] = ()) -> Answer:
        path = "/chat/completions" if _asks_chat(self.options) else "/completions"
        limit = None if "max_tokens" in self.options.omit else self._max_new_tokens(asked)
        more = self.options.reasoning_room
        answer = await self.client.ask(path, body, limit, unsupported=unsupported)
        if limit and more and is_cut_in_reasoning(answer):
            self.client.say_once(
                "reasoning",
                f"{self.client.model} used up {limit:,} tokens while reasoning. decabench asks these questions "
                f"again with {more:,} more tokens. To set another limit, use --max-new-tokens.",
            )
            asked.discarded.append(answer)
            answer = await self.client.ask(path, body, limit + more, unsupported=unsupported)
        return self._redacted(answer)

    def _redacted(self, answer: Answer) -> Answer:
        return replace(
            answer,
            text=self.client.redact(answer.text),
            reasoning=answer.reasoning and self.client.redact(answer.reasoning),
            served_by=answer.served_by and self.client.redact(answer.served_by),
        )

    def _max_new_tokens(self, asked: _Asked) -> int:
        return self.options.new_tokens(asked.prompting.max_new_tokens)

    def _guess_tokens(self, asked: _Asked, context: str) -> int:
        return math.ceil(_size(self._shown(asked, context)) / CHARACTERS_PER_TOKEN)

    def _shorten(self, asked: _Asked, overflow: Overflow, cut: int) -> None:
        """Shorten the context of a prompt that was too long.

        If the server reported its limit and the number of tokens in this prompt, the new length is based
        on both. Otherwise the prompt is shortened by a quarter in each of the first two attempts and then
        by half, or to the reported limit if that is shorter. The lengths of other prompts aren't used, so
        the order of questions doesn't matter.
        """
        context, characters = asked.context, asked.size
        if overflow.limit is not None and overflow.prompt is not None and overflow.prompt > overflow.limit:
            tokens, budget = overflow.prompt, math.floor(overflow.limit * (1 - 0.02 * cut))
        else:
            tokens = math.ceil(characters / CHARACTERS_PER_TOKEN)
            guess = math.floor(tokens * (0.75 if cut < 2 else 0.5))
            budget = guess if overflow.limit is None else min(guess, overflow.limit)

        def estimate(shown: str) -> int:
            return math.ceil(_size(self._shown(asked, shown)) * tokens / characters)

        span = fit(asked.question, budget, estimate)
        asked.kept = min(len(context) - 1, len(context) if span is None else span[1])


def _size(shown: str | list[dict[str, str]]) -> int:
    return len(shown) if isinstance(shown, str) else sum(len(message["content"]) for message in shown)
