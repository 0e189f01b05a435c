"""Models served by any API that Inspect supports, such as Anthropic's (`inspect:PROVIDER/MODEL`).

Inspect handles providers, keys (`ANTHROPIC_API_KEY`, …) and retries. decabench handles prompts,
the journal, extraction and costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

from decabench.errors import DecabenchError, ModelError, require_package
from decabench.predictors.openai.client import LoopThread
from decabench.predictors.protocol import (
    REMOTE,
    Answer,
    Failure,
    Finish,
    ModelOptions,
    Outcome,
    PredictorFactory,
    Setting,
    add_tokens,
    is_cut_in_reasoning,
)
from decabench.prompts import Prompting
from decabench.tasks import Question
from decabench.text import describe_error

USED = REMOTE | {"batch_api"}
"""The names of the options that the predictor uses."""
ADVICE = "Inspect or the provider's environment variables control this setting. Leave out the option."
"""Advice for users who pass an option that isn't supported."""

_FINISHES: dict[str, Finish] = {
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refused",
}
"""Maps Inspect's stop reasons to `Finish` values. Any other reason counts as `stop`."""


def backend(target: str, options: ModelOptions) -> InspectBackend:
    """Create a backend for an Inspect model. Raises DecabenchError for an invalid name or option."""
    provider, _, model = target.partition("/")
    if not provider or not model:
        raise DecabenchError(
            "The predictor inspect requires a provider and a model, as in inspect:anthropic/claude-sonnet-4-5."
        )
    require_package("The predictor inspect", "inspect", "inspect_ai")
    return InspectBackend(target, options)


def _window(options: ModelOptions) -> int:
    return options.concurrency or (1_000 if options.batch_api else 8)


@dataclass(frozen=True)
class InspectBackend:
    """A hosted model and its options. No request is sent before the first question."""

    target: str
    """The provider and model, such as `anthropic/claude-sonnet-4-5`."""
    options: ModelOptions
    """The requested options."""

    prompted = True
    is_chat = True

    def describe(self) -> dict[str, Any]:
        """Return the model and its decoding settings, to be recorded in the submission."""
        return {"model": self.target, "inspect": version("inspect-ai"), **self.options.describe_requests()}

    @property
    def label(self) -> str:
        """The model's name in a submission."""
        return f"inspect:{self.target}"

    @contextmanager
    def open(self) -> Iterator[PredictorFactory]:
        """Set up the provider's client, which is shared by all tasks. No request is sent yet."""
        from inspect_ai.model import GenerateConfig, get_model

        options = self.options
        config = GenerateConfig(
            max_connections=_window(options),
            max_retries=5 if options.retries is None else options.retries,
            attempt_timeout=None if options.batch_api else round(options.timeout or 120),
            batch=options.batch_api or None,
        )
        try:
            model = get_model(self.target, config=config, memoize=False)
        except Exception as error:  # the package or key is missing, or the name is unknown
            raise ModelError(f"Inspect can't run {self.target}: {describe_error(error)}") from error

        def make(setting: Setting) -> InspectPredictor:
            own = replace(options, seed=setting.seed)
            return InspectPredictor(model, loop, setting.require_prompting("inspect"), own)

        with LoopThread() as loop:
            yield make


@dataclass(frozen=True)
class InspectPredictor:
    """Answers the questions of a single task concurrently."""

    model: Any
    """The Inspect model."""
    loop: LoopThread
    """The event loop that runs requests."""
    prompting: Prompting
    """Builds the prompts."""
    options: ModelOptions
    """Decoding options."""

    def stream(self, questions: Iterable[Question]) -> Iterator[tuple[str, Outcome]]:
        """Yield (id, outcome) pairs as answers arrive. Closing the iterator cancels pending requests."""
        return self.loop.stream(self._outcome, questions, 2 * _window(self.options))

    async def _outcome(self, question: Question) -> Outcome:
        limit, more = self.options.new_tokens(self.prompting.max_new_tokens), self.options.reasoning_room
        answer = await self._ask(question, limit)
        if more and isinstance(answer, Answer) and is_cut_in_reasoning(answer):
            longer = await self._ask(question, limit + more)
            return add_tokens(longer, [answer]) if isinstance(longer, Answer) else longer
        return answer

    async def _ask(self, question: Question, max_tokens: int) -> Outcome:
        from inspect_ai.model import (
            ChatMessageAssistant,
            ChatMessageSystem,
            ChatMessageUser,
            ContentReasoning,
            GenerateConfig,
        )

        kinds = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}
        options = self.options
        settings: dict[str, Any] = {
            "temperature": options.temperature,
            "seed": options.seed,
            "top_p": options.top_p,
            "max_tokens": max_tokens,
            "stop_seqs": list(self.prompting.chat_stop) or None,
            "reasoning_effort": options.reasoning_effort,
            "extra_body": options.parameters or None,
        }
        omitted = {"stop_seqs" if name == "stop" else name for name in options.omit}
        config = GenerateConfig(**{name: value for name, value in settings.items() if name not in omitted})
        messages = [kinds[turn.role](content=turn.content) for turn in self.prompting.messages(question)]
        try:
            output = await self.model.generate(messages, config=config)
        except Exception as error:
            return Failure(describe_error(error))
        if output.error or not output.choices:
            return Failure(f"The provider sent no answer: {output.error or 'no reason given'}")
        content = output.message.content
        parts = [] if isinstance(content, str) else content
        reasoning = "\n".join(part.reasoning for part in parts if isinstance(part, ContentReasoning))
        usage = output.usage
        cached = (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0) if usage else 0
        return Answer(
            output.completion,
            _FINISHES.get(output.stop_reason, "stop"),
            prompt_tokens=usage.input_tokens + cached if usage else None,
            completion_tokens=usage.output_tokens if usage else None,
            reasoning=reasoning or None,
            reasoning_tokens=usage.reasoning_tokens if usage else None,
            served_by=output.model or None,
        )
