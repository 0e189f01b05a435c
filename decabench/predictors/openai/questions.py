"""One task's questions put to a server, many at once, with contexts cut where there is no room."""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any, Self, TypeVar

from decabench.predictors.openai.client import (
    Client,
    GaveUpError,
    RefusedError,
    TooLong,
    TooLongError,
    answer_of,
)
from decabench.predictors.protocol import Answer, Failure, Outcome
from decabench.prompts import Prompting, PromptTooLongError, fit
from decabench.tasks import Question

__all__ = ["CHARACTERS_PER_TOKEN", "Decoding", "LoopThread", "OpenAIPredictor"]

# ---- openai_loop

T = TypeVar("T")


class LoopThread:
    """Runs coroutines from `with` on; leaving it cancels those that are left and ends the thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="decabench-requests", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Begins a coroutine; what it returns is in the future."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def result(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end."""
        return self.begin(coroutine).result()

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


# ---- openai_predictor

CHARACTERS_PER_TOKEN = 4
"""What a prompt's length is guessed by before the server has counted it."""

CUTS = 6
"""How often a context is cut shorter for a server that still has no room."""

SILENTLY_CUT = (8_000, 8)
"""A prompt of at least so many characters has more than one token in so many, or the server did not read it all."""


@dataclass(frozen=True)
class Decoding:
    """How answers are asked for."""

    api: str = "chat"
    """`chat` or `completions`."""
    temperature: float = 0.0
    """0 is greedy."""
    top_p: float | None = None
    """Nucleus sampling."""
    seed: int = 0
    """For sampling."""
    max_new_tokens: int | None = None
    """The limit of an answer; the prompting's unless given."""
    max_prompt_tokens: int | None = None
    """The limit of a prompt, as the server counts it."""


@dataclass(frozen=True)
class OpenAIPredictor:
    """Answers the questions of one task."""

    client: Client
    """The connection, which lives in the loop."""
    loop: LoopThread
    """Where requests run."""
    prompting: Prompting
    """How a question becomes a prompt."""
    decoding: Decoding
    """How answers are asked for."""
    window: int
    """Questions in work: those in flight, and as many that wait for a turn or between two tries."""

    def stream(self, questions: Iterable[Question]) -> Generator[tuple[str, Outcome], None, None]:
        """(id, outcome) as they come. Closing it cancels what is in flight."""
        source = iter(questions)
        done: SimpleQueue[Future[Outcome]] = SimpleQueue()
        pending: dict[Future[Outcome], str] = {}
        try:
            while True:
                while len(pending) < self.window and (question := next(source, None)) is not None:
                    future = self.loop.begin(self._outcome(question))
                    pending[future] = question.id
                    future.add_done_callback(done.put)
                if not pending:
                    return
                future = done.get()
                yield pending.pop(future), future.result()
        finally:
            for future in pending:
                future.cancel()

    async def _outcome(self, question: Question) -> Outcome:
        try:
            return await self._answer(question)
        except (GaveUpError, RefusedError, TooLongError, PromptTooLongError) as error:
            return Failure(str(error))

    async def _answer(self, question: Question) -> Outcome:
        """Asks with as much of the context as there is room for."""
        limit = self.decoding.max_prompt_tokens
        kept = self._span(question, limit, self._guessed_tokens(question)) if limit else None
        for cut in range(CUTS + 1):
            try:
                answer = await self._ask(question, kept)
            except TooLongError as error:
                if cut == CUTS or not self._context(question, kept):
                    raise
                kept = self._shorter(question, kept, self._room(error.size), cut)
                continue
            counted = answer.prompt_tokens
            if limit and counted and counted > limit and cut < CUTS and self._context(question, kept):
                kept = self._shorter(question, kept, TooLong(limit, counted), cut)
                continue
            return self._checked(question, kept, answer)
        raise AssertionError("the last round returns or raises")

    def _checked(self, question: Question, kept: int | None, answer: Answer) -> Outcome:
        """The answer with what was kept of its context; a Failure where the prompt was too long after all."""
        limit, counted = self.decoding.max_prompt_tokens, answer.prompt_tokens
        if limit and counted and counted > limit:
            return Failure(
                f"The prompt has {counted} tokens, more than the {limit} allowed, however much is cut."
            )
        size = self._size(question, self._context(question, kept))
        least, characters = SILENTLY_CUT
        if counted and size >= least and size > characters * counted:
            return Failure(
                f"The server counted {counted} tokens in a prompt of {size:,} characters, so it read only a part of "
                "it and did not say so: give the model a larger context (num_ctx), or cut with --max-prompt-tokens."
            )
        return answer if kept is None else replace(answer, context_kept=(0, kept))

    async def _ask(self, question: Question, kept: int | None) -> Answer:
        context = self._context(question, kept)
        decoding = self.decoding
        body: dict[str, Any] = {
            "model": self.client.model,
            "temperature": decoding.temperature,
            "seed": decoding.seed,
        }
        if decoding.top_p is not None:
            body["top_p"] = decoding.top_p
        if decoding.api == "chat":
            messages = self.prompting.messages(question, context)
            body["messages"] = [{"role": message.role, "content": message.content} for message in messages]
            path = "/chat/completions"
        else:
            body["prompt"] = self.prompting.text(question, context)
            if self.prompting.stop:
                body["stop"] = list(self.prompting.stop)
            path = "/completions"
        answer = await self.client.ask(path, body, self._max_new_tokens, answer_of)
        return replace(answer, text=self.client.hidden(answer.text))

    @property
    def _max_new_tokens(self) -> int:
        given = self.decoding.max_new_tokens
        return self.prompting.max_new_tokens if given is None else given

    def _room(self, size: TooLong) -> TooLong:
        """The size with the limit of the prompt alone: a server's limit is of prompt and answer together."""
        return replace(size, limit=None if size.limit is None else size.limit - self._max_new_tokens)

    @staticmethod
    def _context(question: Question, kept: int | None) -> str:
        return question.context if kept is None else question.context[:kept]

    def _size(self, question: Question, context: str) -> int:
        """Characters of the whole prompt."""
        if self.decoding.api == "chat":
            return sum(len(message.content) for message in self.prompting.messages(question, context))
        return len(self.prompting.text(question, context))

    def _guessed_tokens(self, question: Question) -> Callable[[str], int]:
        return lambda context: math.ceil(self._size(question, context) / CHARACTERS_PER_TOKEN)

    @staticmethod
    def _span(question: Question, budget: int, count: Callable[[str], int]) -> int | None:
        span = fit(question, budget, count)
        return None if span is None else span[1]

    def _shorter(self, question: Question, kept: int | None, size: TooLong, cut: int) -> int:
        """How much of the context to keep after a prompt was too long: always less than before.

        By the tokens that the server counted in this very prompt, where it did; otherwise by guess, a quarter less
        each time, then half. Nothing is carried over from other questions, so that their order does not matter.
        """
        context = self._context(question, kept)
        characters = self._size(question, context)
        if size.limit is not None and size.prompt is not None and size.prompt > size.limit:
            tokens, budget = size.prompt, math.floor(size.limit * (1 - 0.02 * cut))
        else:
            tokens = math.ceil(characters / CHARACTERS_PER_TOKEN)
            guess = math.floor(tokens * (0.75 if cut < 2 else 0.5))
            budget = guess if size.limit is None else min(guess, size.limit)
        end = self._span(
            question, budget, lambda shown: math.ceil(self._size(question, shown) * tokens / characters)
        )
        return min(len(context) - 1, len(context) if end is None else end)
