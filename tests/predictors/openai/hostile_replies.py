"""Replies of real servers, with the expected outcome, text and log message of each.

In each case, the server gives the same reply to every question. Error messages are quoted from real
servers and shortened.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["CASES", "Case"]


@dataclass(frozen=True)
class Case:
    """A reply and its expected outcome."""

    name: str
    outcome: Literal["answered", "refused", "cut", "empty", "failed", "stopped"]
    """The outcome. `stopped` means that the whole run stops."""
    body: Any
    """The reply, as JSON or as raw bytes."""
    status: int = 200
    text: str = ""
    """The answer, or part of the error message."""
    reasoning: str | None = None
    """The reasoning, if the reply has a separate field for it."""
    tries: int = 1
    """The number of requests for one question, with at most one retry."""
    warning: str = ""
    """Part of the log message. Empty if nothing is logged."""


def chat(content: Any, finish: Any = "stop", tokens: Any = 3, /, **message: Any) -> dict[str, Any]:
    """Return a reply of the chat API. `tokens` is the usage or the number of tokens in the answer."""
    usage = {"prompt_tokens": 50, "completion_tokens": tokens} if isinstance(tokens, int) else tokens
    said = {"role": "assistant", "content": content, **message}
    return {"choices": [{"index": 0, "message": said, "finish_reason": finish}], "usage": usage}


def choice(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, **fields}]}


def error(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


THOUGHT = "The review praises it."
CALL = {"id": "1", "type": "function", "function": {"name": "classify", "arguments": "{}"}}
NEVER = "A content filter on the server blocked a prompt, so the answer counts as refused"

CASES = (
    # Refused by a content filter: counted, scored as wrong, and never retried
    Case(
        "Azure, prompt",
        "refused",
        error("Filtered.", code="content_filter", param="prompt"),
        400,
        warning=NEVER,
    ),
    Case("Azure, answer", "refused", chat("", "content_filter")),
    Case("Azure, half an answer", "refused", chat("posi", "content_filter"), text="posi"),
    Case("no message", "refused", choice(message=None, finish_reason="content_filter")),
    Case("nothing else", "refused", choice(finish_reason="content_filter")),
    Case("Zhipu, answer", "refused", chat("", "sensitive", 0)),
    Case("xAI", "refused", {"code": "x", "error": "Content violates usage guidelines."}, 403, warning=NEVER),
    Case(
        "OpenRouter, in a choice", "refused", choice(error={"code": 403, "message": "flagged"}), warning=NEVER
    ),
    Case("Gemini, prompt", "refused", {"promptFeedback": {"blockReason": "SAFETY"}}, warning=NEVER),
    *(
        Case(reason, "refused", chat(None, reason, 0))
        for reason in (
            *(
                "SAFETY",
                "RECITATION",
                "PROHIBITED_CONTENT",
                "BLOCKLIST",
                "SPII",
                "content_filter: SAFETY",
            ),  # Gemini
            *("refusal", "guardrail_intervened", "content_filtered", "content-filter", "ERROR_TOXIC"),
        )
    ),
    Case("a refusal", "refused", chat("I can't help.", "refusal"), text="I can't help."),
    Case("OpenAI's refusal", "refused", chat(None, refusal="I will not."), text="I will not."),
    Case("a part", "refused", chat([{"type": "refusal", "refusal": "I will not."}]), text="I will not."),
    # Rejected keys, accounts and parameters affect every prompt
    Case("no key", "stopped", error("Incorrect API key"), 401, text="Set DECABENCH_API_KEY"),
    Case(
        "no rights",
        "stopped",
        error("You are not allowed to sample from this model"),
        403,
        text="(status 403: ",
    ),
    Case(
        "blocked", "stopped", error("Your resource was blocked: content policy."), 403, text="(status 403: "
    ),
    Case("seed", "stopped", error('Unknown name "seed": Cannot find field.'), 400, text="--omit seed"),
    Case(
        "top_p",
        "stopped",
        {"detail": [{"loc": ["body", "stop"], "msg": "forbidden"}]},
        422,
        text="--omit stop",
    ),
    Case("limit", "stopped", error("Unsupported parameter: 'max_tokens'"), 400, text="--omit max_tokens"),
    Case("no money", "stopped", error("Insufficient Balance"), 402, text="requires payment"),
    # An error with status 200 is retried
    Case("Ollama", "failed", chat(None, "stop", 0), text="0 tokens", tries=2),
    Case("Ollama loads", "failed", chat("", "load", {}), text="'load'", tries=2),
    Case("OpenRouter", "failed", chat("posi", "error"), text="'error'", tries=2),
    Case("Zhipu", "failed", chat("", "network_error", 0), text="network_error", tries=2),
    Case("unspecified", "failed", chat("", "FINISH_REASON_UNSPECIFIED"), text="UNSPECIFIED", tries=2),
    Case("no reason", "failed", chat(None, None, {}), text="its finish_reason does not say why", tries=2),
    Case(
        "half", "failed", choice(message={"content": "posi"}, error={"message": "gone"}), text="gone", tries=2
    ),
    Case(
        "beside", "failed", {**chat("posi"), "error": {"code": 502, "message": "gone"}}, text="gone", tries=2
    ),
    Case("status", "failed", {**chat("posi"), "base_resp": {"status_code": 1000}}, text="1000", tries=2),
    Case("a text", "failed", {**chat("posi"), "error": "overloaded"}, text="overloaded", tries=2),
    Case("rate", "failed", error("Rate limit exceeded", code=429), text="Rate limit", tries=2),
    Case("no choices", "failed", {"id": "x", "choices": []}, text="no choices", tries=2),
    Case(
        "a stream",
        "failed",
        b'data: {"choices": [{"delta": {"content": "positive"}}]}\n\n',
        text="data: ",
        tries=2,
    ),
    Case("a chunk", "failed", choice(delta={"content": "positive"}), text="neither a message", tries=2),
    Case("cut", "failed", b'{"id":"x","choices":[{"index"', text="not a JSON object", tries=2),
    Case("a page", "failed", b"<html>Bad gateway</html>", text="<html>", tries=2),
    Case("a string", "failed", b'"Internal Server Error"', text="Internal Server Error", tries=2),
    Case("not UTF-8", "failed", json.dumps(chat("x")).encode().replace(b"x", b"\xff"), text="UTF-8", tries=2),
    Case("a list", "failed", chat("positive", ["stop"]), text="finish_reason", tries=2),
    Case("a tool", "failed", chat(None, "tool_calls", tool_calls=[CALL]), text="called a tool (classify)"),
    Case("a function", "failed", chat(None, "stop", function_call={"name": "f"}), text="called a tool (f)"),
    Case(
        "Anthropic's tool", "failed", chat([{"type": "tool_use", "name": "f"}], "tool_use"), text="tool (f)"
    ),
    Case("an image", "failed", chat([{"type": "image_url"}]), text="of the type image_url", tries=2),
    # A valid answer in an unusual reply
    Case("plain", "answered", chat("positive"), text="positive"),
    Case(
        "no usage", "answered", choice(message={"content": "positive"}, finish_reason="stop"), text="positive"
    ),
    Case("no reason", "answered", chat("positive", None), text="positive"),
    *(
        Case(reason, "answered", chat("positive", reason), text="positive")
        for reason in ("STOP", "end_turn", "eos_token", "stop_sequence", "COMPLETE", "tool_calls")
    ),
    Case("an unknown reason", "answered", chat("positive", "ready"), text="positive", warning="'ready'"),
    Case("an empty error", "answered", {**chat("positive"), **error("", code=None)}, text="positive"),
    Case("a good status", "answered", {**chat("positive"), "base_resp": {"status_code": 0}}, text="positive"),
    Case("output_text", "answered", chat([{"type": "output_text", "text": "positive"}]), text="positive"),
    Case("strings", "answered", chat(["posi", "tive"]), text="positive"),
    Case("one part", "answered", chat({"type": "text", "text": "positive"}), text="positive"),
    Case("a tool too", "answered", chat("positive", "tool_calls", tool_calls=[CALL]), text="positive"),
    Case("too many", "answered", chat("positive", "stop", 10**20), text="positive"),
    Case("usage", "answered", chat("positive", "stop", ["x"]), text="positive"),
    Case(
        "5,000 digits",
        "answered",
        json.dumps(chat("positive")).replace("50", "5" * 5000).encode(),
        text="positive",
    ),
    Case(
        "a name", "answered", {**chat("positive"), "model": "other-1b"}, text="positive", warning="other-1b"
    ),
    Case("a date", "answered", {**chat("positive"), "model": "m-2024-08-06"}, text="positive"),
    Case("a path", "answered", {**chat("positive"), "model": "/models/M.gguf"}, text="positive"),
    Case("no name", "answered", {**chat("positive"), "model": [1]}, text="positive"),
    # Empty answers that the model ended itself, which is one token if tokens are counted
    Case("one token", "empty", chat("", "stop", 1)),
    Case("not counted", "empty", chat(None, "stop", {})),
    # Reasoning in its own field
    Case(
        "DeepSeek",
        "answered",
        chat("positive", reasoning_content=THOUGHT),
        text="positive",
        reasoning=THOUGHT,
    ),
    Case("OpenRouter", "answered", chat("positive", reasoning=THOUGHT), text="positive", reasoning=THOUGHT),
    Case("Ollama", "answered", chat("positive", thinking=THOUGHT), text="positive", reasoning=THOUGHT),
    Case(
        "details",
        "answered",
        chat("positive", reasoning_details=[{"type": "reasoning.text", "text": THOUGHT}]),
        text="positive",
        reasoning=THOUGHT,
    ),
    Case(
        "Mistral",
        "answered",
        chat(
            [
                {"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]},
                {"type": "text", "text": "positive"},
            ]
        ),
        text="positive",
        reasoning=THOUGHT,
    ),
    Case(
        "Anthropic",
        "answered",
        chat([{"type": "thinking", "thinking": THOUGHT}, {"type": "text", "text": "positive"}]),
        text="positive",
        reasoning=THOUGHT,
    ),
    Case("only reasoning", "empty", chat(None, reasoning_content=THOUGHT), reasoning=THOUGHT),
    Case("only reasoning, uncounted", "empty", chat(None, "stop", {}, reasoning=THOUGHT), reasoning=THOUGHT),
    Case(
        "cut while reasoning",
        "cut",
        chat(None, "length", reasoning_content=THOUGHT),
        reasoning=THOUGHT,
        tries=2,
        warning="while reasoning",
    ),
    Case("cut, and kept to itself", "cut", chat("", "length", 16)),
    Case("cut", "cut", chat("posi", "MAX_TOKENS"), text="posi"),
    Case("Mistral", "cut", chat("posi", "model_length"), text="posi"),
    Case("Zhipu", "cut", chat("posi", "model_context_window_exceeded"), text="posi"),
)
