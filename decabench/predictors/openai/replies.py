"""Recognize content filters, failures and overlong prompts in server errors.

Every server words its errors differently. Add a pattern for each new wording, with a comment that names the
servers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from decabench.predictors.openai.choices import first_choice, read_count


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_FILTERED = _any_of(
    r"content[ _-]?(?:filter|policy|moderation|safety)",  # OpenAI, Azure, Moonshot, Zhipu, Anthropic, LiteLLM
    r"content management policy|ResponsibleAI|jailbreak|prompt injection",  # Azure
    r"data_?inspection_?failed|(?:inappropriate|prohibited|unsafe|harmful) content",  # DashScope, Anthropic
    r"content exists risk",  # DeepSeek
    r"high[ -]risk|content risk",  # Moonshot
    r"sensitive[ _]?(?:content|words?|information)|new_sensitive",  # Zhipu, Volcengine, New API, MiniMax
    r"敏感|违规|不安全|审核",  # similar words in Chinese
    r"violat\w+ (?:\w+ ){0,3}(?:usage|use|safety)|SAFETY_CHECK|safety (?:system|filter|check|polic)",  # xAI, OpenAI
    r"\bflagged\b|moderation|censor",  # OpenAI, OpenRouter, Mistral, StepFun
    r"PROHIBITED_CONTENT|block_?reason",  # Gemini
    r"(?:prompt|input|output|response|candidate|content)\b[^.]{0,40} (?:blocked|filtered)",  # Gemini, StepFun
    r"blocked (?:prompt|input|output)|toxic",  # Cohere
    r"guardrail\w* (?:intervened|triggered|check|violat)|guardrail_intervened|violated \w* ?guardrail",  # Bedrock
)
_FILTER_CODES = frozenset({"1301", "1026", "1027"})
"""Error codes of content filters: 1301 for Zhipu, and 1026 (prompts) and 1027 (answers) for MiniMax."""
_FLAGS = ("reasons", "flagged_input")
"""Metadata keys in OpenRouter errors that contain the reason why a prompt was flagged."""
_NOT_THE_PROMPT = _any_of(
    r"(?:account|resource|organi[sz]ation|project|user|key|you)(?: (?:has|have|been|is|are|was|temporarily))*"
    r" (?:blocked|banned|suspended|terminated|disabled|deactivated)",  # Azure, Moonshot
    r"unavailable|timed? ?out|try again later|temporar|failed to (?:call|reach)|serv\w+ error",  # the filter is down
)
"""Phrases in errors that mention a block or a filter, but aren't about the prompt.

Examples are a suspended account and a filter that is temporarily unavailable.
"""

_TOO_LONG = _any_of(
    r"context[ _-]?(?:length|size|window|limit)",  # OpenAI, vLLM, llama.cpp, LM Studio, SGLang, Anthropic, Ollama
    r"context (?:the )?overflow",  # LM Studio
    r"max(?:imum)?[ _](?:model|prompt|input|seq\w*|allowed|total)[ _](?:input )?(?:len|size|tokens)",  # vLLM, xAI
    r"(?:prompt|input|messages?|request)(?: (?!tak|took)\w+){0,3} too (?:long|large|big)",  # Anthropic, Bedrock
    r"too large for model",  # Mistral
    r"(?:input|prompt) token count",  # Gemini, Copilot
    r"(?:input|prompt|inputs)\b[^.]{0,40}\bexceed",  # OpenAI, Zhipu, DeepInfra, watsonx
    r"(?:prompt|input) length\b.{0,40}\b(?:greater|longer|larger)",  # TabbyAPI
    r"too many (?:input |prompt )?tokens|model token limit",  # Cohere, Moonshot
    r"reduce the (?:length|size) of|reduce your prompt|shorten (?:the|your) (?:prompt|input)",  # OpenAI, Groq, Cerebras
    r"range of input length",  # DashScope
    r"`inputs`|inputs tokens",  # TGI, Together
    r"expected maxLength|request_too_large",  # Bedrock, Anthropic
    r"超长|长度超过|超过.{0,10}长度",  # Zhipu, Baidu
)
_RATE = _any_of(r"per minute|per day|\bTPM\b|rate[ _-]?limit|quota|throttl|too many requests")
"""Patterns for errors about account limits, which Groq reports with status 413.

These errors don't count as overlong prompts, because shortening the context would only hide the problem.
"""
_LIMITS = (
    r"maximum (?:context|model|prompt|input|allowed)(?: input)?[ _](?:length|limit|size)(?: is| of|:)? ?\(?(\d+)",
    r"with (\d+) maximum context length",  # Mistral
    r"context (?:length|size|window|limit)(?: limit)?(?: is| of)?(?: only)? \(?(\d+)",  # SGLang, LM Studio, llama.cpp
    r"n_ctx: (\d+)",  # LM Studio
    r"> (\d+)\b(?! -)",  # Anthropic
    r"must be <= (\d+)|must have less than (\d+)",  # TGI
    r"(?:tokens allowed|limit of|limit is|supports up to|cannot exceed|token limit:) \(?(\d+)",  # Gemini, Cohere
    r"\[1, ?(\d+)\]",  # DashScope
)
_PROMPTS = (
    r"\((\d+) in (?:the|your) (?:messages|prompt)",  # OpenAI, vLLM, DeepSeek
    r"messages resulted in (\d+) tokens",  # OpenAI
    r"(?:has|have|contains) (\d+) (?:input )?tokens",  # vLLM, xAI, Mistral
    r"(?:request|input) \((\d+) tokens\)",  # llama.cpp, Together
    r"prompt \(length (\d+)\)",  # vLLM
    r"too long: (\d+)",  # Anthropic, Fireworks
    r"context limit: (\d+) \+",  # Anthropic
    r"Given: (\d+)",  # TGI
    r"keep the first (\d+) tokens|n_keep: (\d+)",  # LM Studio
    r"token count(?: of| is)? \(?(\d+)",  # Gemini, Copilot
    r"(?:input|prompt) length \(?(\d+)",  # DeepInfra, SGLang
    r"(\d+) tokens from the input",  # SGLang
    r"current length is (\d+)|received (\d+)|requested: (\d+)",  # Cerebras, Cohere, Moonshot
)

_UNSUPPORTED = _any_of(
    r"unsupported|not supported|does not support|deprecated",  # OpenAI, xAI, Anthropic
    r"unrecognized|unknown|cannot find field|unexpected",  # OpenAI, Gemini
    r"not (?:permitted|allowed)|forbidden",  # Mistral, and servers that use pydantic
    r"cannot both|must be|should be|strictly positive|out of range",  # Anthropic, TGI, Zhipu
)

LONGEST_ERROR = 10_000
"""The maximum number of characters to read from an error. Longer errors usually repeat the request."""

_ECHOES = frozenset({"input", "flagged_input", "ctx", "url", "stack", "trace", "user_id"})
"""Keys of an error that repeat the request or contain no information."""


def _leaves(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            waiting += [item[key] for key in reversed(item) if key not in _ECHOES]
        elif isinstance(item, list):
            waiting += reversed(item)
        elif item:
            yield str(item)


@dataclass(frozen=True)
class Overflow:
    """Lengths that a server reports for an overlong prompt, in tokens. Unreported lengths are None."""

    limit: int | None
    """The maximum number of tokens for prompt and answer together."""
    prompt: int | None
    """The number of tokens in this prompt; None if the server reports only a lower bound."""


@dataclass(frozen=True)
class ServerReply:
    """A complete HTTP reply."""

    status: int
    """The HTTP status code."""
    text: str
    """The response body."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The response headers."""

    @cached_property
    def _json(self) -> Any:
        try:
            return json.loads(self.text, parse_int=_parse_int)
        except (ValueError, RecursionError):
            return None

    @property
    def content(self) -> dict[str, Any] | None:
        """The JSON object in the body, or None if the body isn't a JSON object."""
        return self._json if isinstance(self._json, dict) else None

    @cached_property
    def error(self) -> dict[str, Any]:
        """The error object in the body or its first choice; empty if there is no error.

        Some servers send a string, a bare object, or a list containing the object (Gemini).
        """
        content = self._json[0] if isinstance(self._json, list) and self._json else self._json
        content = content if isinstance(content, dict) else {}
        choice = first_choice(content)
        found = next(
            filter(_says, (content.get("error"), choice.get("error"), _failed_status(content))),
            content if self.status >= 400 or "choices" not in content else {},
        )
        if isinstance(found, dict):
            return found
        code = content.get("code")  # xAI: {"code": "…", "error": "…"}
        return {"message": found} | ({"code": code} if code else {})

    @cached_property
    def _said(self) -> str:
        return " ".join(_leaves(self.error))[:LONGEST_ERROR]

    @cached_property
    def message(self) -> str:
        """The error message with its cause.

        Without a message, this is all text in the error or, if the error has no text, the whole body.
        """
        message = self.error.get("message") or self.error.get("detail")
        if not isinstance(message, str):
            return self._said or self.text
        metadata = self.error.get("metadata")
        raw = metadata.get("raw") if isinstance(metadata, dict) else None  # from the upstream provider
        return f"{message} ({raw})" if raw and isinstance(raw, str) else message

    @property
    def is_filtered(self) -> bool:
        """Whether a content filter blocked the prompt or its answer."""
        if self.status in (401, 402, 404, 429):
            return False
        content = self.content or {}
        feedback = content.get("promptFeedback") or content.get("prompt_feedback")
        if isinstance(feedback, dict) and not first_choice(content):  # Gemini
            return bool(feedback.get("blockReason") or feedback.get("block_reason"))
        metadata = self.error.get("metadata")
        is_flagged = isinstance(metadata, dict) and not metadata.keys().isdisjoint(_FLAGS)
        has_code = str(self.error.get("code")) in _FILTER_CODES
        is_known = is_flagged or has_code or bool(_FILTERED.search(self._said))
        return is_known and not _NOT_THE_PROMPT.search(self._said)

    @property
    def overflow(self) -> Overflow | None:
        """Lengths reported by an error about an overlong prompt, or None for any other error."""
        said = self._said or (self.text[:LONGEST_ERROR] if self.status >= 400 else "")
        text = re.sub(r"(?<=\d),(?=\d{3})", "", said)
        if self.status in (401, 403, 404, 429) or _RATE.search(text):
            return None
        if self.status != 413 and not _TOO_LONG.search(text):
            return None
        return Overflow(
            limit=read_count(self.error.get("n_ctx")) or _first_number(_LIMITS, text),
            prompt=read_count(self.error.get("n_prompt_tokens")) or _first_number(_PROMPTS, text),
        )

    def find_refused(self, sent: Sequence[str]) -> str:
        """Return the parameter in `sent` that the error rejects, or an empty string if there is none."""
        if not sent or self.status not in (400, 422) or not _UNSUPPORTED.search(self._said):
            return ""
        located = [self.error.get("param"), *_locations(self._json)]
        names = "|".join(map(re.escape, sorted(sent, key=len, reverse=True)))
        # `stop` is a common word, so it must be in quotes or named as a parameter.
        bare = rf"\b(?!stop\b)({names})\b|(?:parameter|argument|field|model)s?:? (stop)\b|\b(stop) sequence"
        found = re.search(rf"['\"`]({names})\\?['\"`]", self._said) or re.search(bare, self._said)
        named = found[found.lastindex or 0] if found else ""
        return next((name for name in sent if name in located), named)


def _says(error: object) -> bool:
    """Return whether an error contains any text. Some servers send an empty error with every answer."""
    return error not in (None, False) and any(_leaves(error))


def _failed_status(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the error in a failed MiniMax reply, which has its own format."""
    status = content.get("base_resp")
    if not isinstance(status, dict) or not status.get("status_code"):
        return {}
    return {"code": status["status_code"], "message": status.get("status_msg")}


def _locations(body: object) -> Iterator[str]:
    """Yield field names in pydantic errors at any depth, as in `{"loc": ["body", "seed"]}`."""
    waiting = [body]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            loc = item.get("loc")
            yield from (name for name in (loc if isinstance(loc, list) else ()) if isinstance(name, str))
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


def _parse_int(digits: str) -> int | None:
    """Parse a JSON integer. Returns None if it has more than 20 digits, because parsing it could be slow."""
    return int(digits) if len(digits) <= 20 else None


def _first_number(patterns: tuple[str, ...], text: str) -> int | None:
    matches = (re.search(pattern, text, re.IGNORECASE) for pattern in patterns)
    found = next((match[match.lastindex or 0] for match in matches if match), None)
    return read_count(int(found)) if found and len(found) < 20 else None
