"""Parse the answer in a server's reply, along with its reasoning, finish reason and model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from decabench.predictors.protocol import Answer, Choice, Finish, best_choice
from decabench.text import well_formed


class UnreadableReplyError(Exception):
    """Raised for a reply without an answer. A retry may succeed. The message describes the reply."""


class UnansweredError(Exception):
    """Raised if a question can't be answered, even by retrying. Other questions may still succeed."""


_End = Finish | Literal["failed", "tool"]

_ENDS: Mapping[_End, str] = {
    # content_filter (OpenAI, Azure, Moonshot), content_filtered, guardrail_intervened (Bedrock), refusal (Anthropic),
    # sensitive (Zhipu), ERROR_TOXIC (Cohere), SAFETY, RECITATION, PROHIBITED_CONTENT, BLOCKLIST, SPII (Gemini)
    "refused": "filter|safety|recitation|prohibited|block|spii|refus|guardrail|sensitive|toxic|moderat|policy|censor",
    # load, unload (Ollama), abort (vLLM, SGLang), error (OpenRouter), insufficient_system_resource (DeepSeek),
    # network_error (Zhipu), OTHER, MALFORMED_RESPONSE, FINISH_REASON_UNSPECIFIED (Gemini)
    "failed": "error|abort|fail|load|unknown|unspecified|other|cancel|time_?out|network|resource|malformed|rate_limit"
    "|interrupt|exception|incomplete|unavailable|disconnect|preempt|evict",
    "tool": "tool|function",  # tool_calls, function_call (OpenAI), tool_use (Anthropic)
    # length (OpenAI), max_tokens (Anthropic, Gemini), model_length (Mistral), model_context_window_exceeded (Zhipu)
    "length": "length|max_|limit|window",
    "stop": "stop|end|eos|complete|finish|done",  # stop (OpenAI), end_turn (Anthropic), eos_token (TGI)
}
"""Regular expressions that match a finish_reason, keyed by how the answer ended. The first match is used."""

LARGEST_COUNT = 10**9
"""The largest plausible token count. Larger counts are ignored."""


@dataclass(frozen=True)
class _Parts:
    text: str
    reasoning: str
    refusal: str
    tools: tuple[str, ...]
    others: tuple[str, ...]


def first_choice(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choice with index 0, or the first choice if none has that index.

    Only one choice is requested, but a server may send several, in order of completion. Returns an empty dict if
    there are no choices.
    """
    choices = content.get("choices")
    given = [each for each in choices if isinstance(each, dict)] if isinstance(choices, list) else []
    numbered = [each for each in given if each.get("index") == 0]
    return (numbered or given or [{}])[0]


def parse_answer(content: Mapping[str, Any]) -> tuple[Answer, str]:
    """Parse the answer in a reply of the chat or completions API.

    Returns the answer, and the finish_reason if it isn't recognized, else an empty string. An answer with an
    unrecognized finish_reason is treated as complete. Raises UnreadableReplyError for a reply without an answer and
    UnansweredError for a reply that calls a tool.
    """
    choice = first_choice(content)
    if not choice:
        raise UnreadableReplyError("it has no choices")
    end, unknown = _read_end(choice)
    parts = _read_parts(choice, optional=end == "refused")
    counts, prompt, made = _read_usage(content)
    details = counts.get("completion_tokens_details") or counts.get("output_tokens_details")
    reasoned = read_count(details.get("reasoning_tokens")) if isinstance(details, dict) else None
    if parts.refusal:
        end = "refused"
    if end == "failed":
        raise UnreadableReplyError(f"its finish_reason is {choice.get('finish_reason')!r}")
    if end != "refused" and not parts.text.strip():
        _require_empty_answer(parts, end, made)
    finish: Finish = "refused" if end == "refused" else "length" if end == "length" else "stop"
    answer = Answer(
        text=well_formed(parts.text or parts.refusal),
        finish=finish,
        prompt_tokens=prompt,
        completion_tokens=made,
        reasoning_tokens=reasoned,
        reasoning=well_formed(parts.reasoning) or None,
        served_by=_served_by(content),
    )
    return answer, unknown


def _read_usage(content: Mapping[str, Any]) -> tuple[Mapping[str, Any], int | None, int | None]:
    """Return a reply's usage, with the numbers of prompt and generated tokens."""
    usage = content.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    prompt = read_count(counts.get("prompt_tokens", counts.get("input_tokens")))
    return counts, prompt, read_count(counts.get("completion_tokens", counts.get("output_tokens")))


def _served_by(content: Mapping[str, Any]) -> str | None:
    """Return the model that a reply names, with its fingerprint in parentheses."""
    model, fingerprint = (
        given if isinstance(given := content.get(key), str) else "" for key in ("model", "system_fingerprint")
    )
    return " ".join(filter(None, [model, fingerprint and f"({fingerprint})"])) or None


def parse_likelihoods(
    content: Mapping[str, Any], labels: Sequence[str], alone: Mapping[str, float]
) -> tuple[Answer, str]:
    """Parse the likelihoods of labels from a reply that repeats the prompts with log-probabilities.

    Each prompt ends with a label. `alone` contains the log-likelihoods of labels without the prompt. Returns the
    answer and an empty string, which stands for a recognized finish_reason as in `parse_answer`. Raises
    UnreadableReplyError if log-probabilities are missing.
    """
    replies = content.get("choices")
    given = [each for each in replies if isinstance(each, dict)] if isinstance(replies, list) else []
    ordered = {each.get("index", at): each for at, each in enumerate(given)}
    found = []
    for at, label in enumerate(labels):
        values = _label_values(ordered.get(at, {}), label)
        found.append(Choice(label.strip(), sum(values), len(values), alone.get(label.strip())))
    _, prompt, made = _read_usage(content)
    answer = Answer(
        best_choice(found), "stop", None, prompt, made, served_by=_served_by(content), choices=tuple(found)
    )
    return answer, ""


def _label_values(reply: Mapping[str, Any], label: str) -> list[float]:
    """Return the log-probabilities of the label's tokens at the end of the prompt, before any generated token."""
    text, logprobs = reply.get("text"), reply.get("logprobs")
    record = logprobs if isinstance(logprobs, dict) else {}
    tokens, values = record.get("tokens"), record.get("token_logprobs")
    if isinstance(tokens, list) and isinstance(values, list) and len(tokens) == len(values):
        for end in (len(tokens) - 1, len(tokens)):
            begin = end
            while begin > 0 and len("".join(map(str, tokens[begin:end]))) < len(label):
                begin -= 1
            own = values[begin:end]
            if "".join(map(str, tokens[begin:end])).endswith(label) and all(
                isinstance(value, int | float) for value in own
            ):
                # llama-cpp-python 0.3.36 gives each token the value of the next position if the tokenizer adds no
                # token at the beginning. The generated token then gets no value, although it is in the text.
                if end == len(tokens) and isinstance(text, str) and text and not text.endswith(label):
                    raise UnreadableReplyError("its log-probabilities are shifted by a token")
                return [float(value) for value in own]
    raise UnreadableReplyError("it has no log-probabilities for the prompt")


def _read_end(choice: Mapping[str, Any]) -> tuple[_End | None, str]:
    reason = choice.get("finish_reason") or choice.get("stop_reason")
    if not reason:
        return None, ""
    if not isinstance(reason, str):
        raise UnreadableReplyError(f"its finish_reason is {reason!r}")
    word = re.sub(r"[- ]", "_", reason)
    end = next((end for end, words in _ENDS.items() if re.search(words, word, re.IGNORECASE)), None)
    return end, "" if end else reason


def _require_empty_answer(parts: _Parts, end: _End | None, made: int | None) -> None:
    """Raise an error for a reply without text, unless an empty answer is plausible.

    An empty answer is accepted if the model wrote reasoning. It is also accepted if it ended normally
    or at the token limit and the server didn't report 0 tokens, because a model needs at least one
    token to end an answer.
    """
    if parts.tools or end == "tool":
        named = f" ({', '.join(parts.tools[:3])})" if parts.tools else ""
        raise UnansweredError(
            f"The model called a tool{named} and wrote no answer. Turn off tools on the server."
        )
    if parts.others:
        raise UnreadableReplyError(f"its message has no text, only {', '.join(parts.others[:3])}")
    if parts.reasoning.strip():
        return
    if made == 0:
        raise UnreadableReplyError("it is empty, and the server counted 0 tokens")
    if end not in ("stop", "length"):
        raise UnreadableReplyError("it is empty, and its finish_reason does not say why")


_REASONING = ("reasoning_content", "reasoning", "thinking", "reasoning_details", "thinking_blocks")
"""Keys that may contain a message's reasoning, in order of preference.

The servers that use them are, in the same order: DeepSeek and vLLM, OpenRouter, Ollama, OpenRouter, LiteLLM.
"""


def _read_parts(choice: Mapping[str, Any], optional: bool) -> _Parts:
    message = choice.get("message")
    said: Mapping[str, Any] = message if isinstance(message, dict) else {"content": choice.get("text", 0)}
    content = said.get("content")
    if content is None and "text" in choice:
        content = choice["text"]
    if not isinstance(content, (str, list, dict, type(None))):
        if not optional:
            raise UnreadableReplyError("its first choice has neither a message nor text")
        content = None
    kinds: dict[str, list[str]] = {"text": [], "reasoning": [], "refusal": [], "tool": [], "other": []}
    for part in content if isinstance(content, list) else [content]:
        if part is not None:
            kind, text = _read_part(part)
            kinds[kind].append(text)
    for place in (said, choice):
        if not any(map(str.strip, kinds["reasoning"])):
            kinds["reasoning"] = next(
                ([text] for name in _REASONING if (text := _joined(place.get(name))).strip()), []
            )
    refusal = said.get("refusal")
    kinds["refusal"] += [refusal] if isinstance(refusal, str) else []
    calls = said.get("tool_calls")
    for call in [*(calls if isinstance(calls, list) else []), said.get("function_call")]:
        kinds["tool"] += [_tool_name(call)] if call else []
    text, reasoning, refused = ("".join(kinds[kind]) for kind in ("text", "reasoning", "refusal"))
    return _Parts(text, reasoning, refused, tuple(kinds["tool"]), tuple(kinds["other"]))


def _read_part(part: object) -> tuple[str, str]:
    """Return the kind of a message part, and its text or name.

    The answer is in parts of type text or output_text. Parts of type thinking or reasoning, and parts marked as
    `thought` by Gemini, contain reasoning.
    """
    if isinstance(part, str):
        return "text", part
    if not isinstance(part, dict):
        return "other", f"a {type(part).__name__}"
    kind = part.get("type", "text")
    name = kind if isinstance(kind, str) else repr(kind)
    if re.search("think|reason", name) or part.get("thought") is True:
        return "reasoning", _joined(part)
    if "refus" in name:
        return "refusal", _joined(part)
    if re.search("tool|function", name):
        return "tool", _tool_name(part)
    if name.endswith("text") and isinstance(part.get("text"), str):
        return "text", part["text"]
    return "other", f"a part of the type {name}" if "type" in part else "an object"


def _joined(value: object) -> str:
    if isinstance(value, str):
        return value
    texts = []
    for part in value if isinstance(value, list) else [value]:
        inner = next((part[key] for key in _TEXTS if part.get(key)), "") if isinstance(part, dict) else part
        for each in inner if isinstance(inner, list) else [inner]:
            text = each.get("text") if isinstance(each, dict) else each
            texts += [text] if isinstance(text, str) else []
    return "".join(texts)


_TEXTS = ("thinking", "reasoning", "refusal", "text", "content", "summary")
"""Keys that may contain a part's text."""


def _tool_name(call: object) -> str:
    function = call.get("function", call) if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else "unnamed"


_SNAPSHOT = re.compile(
    r"(?:[-_@:.](?:latest|free|beta|\d{4}-\d{2}-\d{2}|\d{2}-\d{4}|\d{2}-\d{2}|\d{8}|\d{6}|\d{4}|\d{3}|v\d+(?:\.\d+)*))+$"
)
"""A version suffix in a model name, such as `-2024-08-06`, `-0613` or `:latest`."""


def is_same_model(asked: str, served: str) -> bool:
    """Return whether the server's model name can refer to the requested model.

    Case and folders are ignored. A suffix such as a date or `:free` may be added or left out, but different dates
    mean different models. A request for `any` or `default` accepts every model.
    """
    wanted, given = (
        re.split(r"[/\\]", name.lower().strip())[-1].removesuffix(".gguf") for name in (asked, served)
    )
    if wanted in (given, "any", "default"):
        return True
    dated = _SNAPSHOT.sub("", wanted), _SNAPSHOT.sub("", given)
    return dated[0] == dated[1] and (wanted in dated or given in dated or wanted.endswith("latest"))


def read_count(value: object) -> int | None:
    """Return a number as an int if it is a plausible count, or None for any other value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value <= LARGEST_COUNT and value == int(value) else None
