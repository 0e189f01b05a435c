"""Parse the replies of servers, which differ in wording: answers, errors, and prompts that are too long."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from decabench.predictors.protocol import Answer, Finish
from decabench.text import well_formed

__all__ = ["Overflow", "ServerReply", "UnreadableReplyError", "parse_answer"]

_FINISH: dict[str, Finish] = {"length": "length", "max_tokens": "length", "content_filter": "refused"}
_NO_ANSWER = {"abort", "error"}
"""Values of finish_reason that mean the server gave up halfway."""

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
class Overflow:
    """A prompt that is too long for the server, in tokens; None for what the server does not report."""

    limit: int | None
    """The most tokens that prompt and answer may have together."""
    prompt: int | None
    """The tokens of this prompt; None if the server says only "at least"."""


class UnreadableReplyError(Exception):
    """A reply that does not fit the API; the message says what it is instead."""


@dataclass(frozen=True)
class ServerReply:
    """A complete HTTP reply."""

    status: int
    """The HTTP status."""
    text: str
    """The body."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers."""

    @cached_property
    def content(self) -> dict[str, Any] | None:
        """The JSON object in the body; None for anything else."""
        try:
            value = json.loads(self.text)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    @cached_property
    def error(self) -> dict[str, Any]:
        """The error object in the body; empty if there is none. Some servers send a string, or the bare object."""
        content = self.content or {}
        found = content.get("error", content if self.status >= 400 else None)
        return found if isinstance(found, dict) else {"message": found} if found else {}

    @property
    def message(self) -> str:
        """The message of an error, or the whole body."""
        message = self.error.get("message") or self.error.get("detail")
        return message if isinstance(message, str) else self.text

    @property
    def overflow(self) -> Overflow | None:
        """The lengths that an error reports, if it is about a prompt that is too long."""
        error = self.error
        if not error and self.status < 400:
            return None
        about = f"{error.get('code')} {error.get('type')} {self.message}" if error else self.message
        text = re.sub(r"(?<=\d),(?=\d{3})", "", about)
        if not _TOO_LONG.search(text):
            return None
        return Overflow(
            limit=_integer(error.get("n_ctx")) or _first_number(_LIMITS, text),
            prompt=_integer(error.get("n_prompt_tokens")) or _first_number(_PROMPTS, text),
        )

    def refuses(self, parameter: str) -> bool:
        """Whether it is an error about a parameter that the server does not accept."""
        unsupported = re.search(
            r"unsupported|not supported|unrecognized|unknown|does not support", self.message, re.I
        )
        named = self.error.get("param") == parameter or re.search(rf"['\"`]{parameter}['\"`]", self.message)
        return self.status in (400, 422) and bool(unsupported and named)


def parse_answer(content: Mapping[str, Any]) -> Answer:
    """Parse the answer in the reply of either API. Raises UnreadableReplyError."""
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
    """Return the text of a message's content: a string, nothing, or a list of parts of which some are text."""
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


def _first_number(patterns: tuple[str, ...], text: str) -> int | None:
    matches = (re.search(pattern, text, re.IGNORECASE) for pattern in patterns)
    return next((int(match[1]) for match in matches if match), None)
