"""Read a model's turn, removing reasoning and remnants of the chat template."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from decabench.errors import DecabenchError
from decabench.prompts.markup import find_json, lines_of
from decabench.text import bare

ReasoningTags = tuple[tuple[str, str], ...]
"""Pairs of tags that open and close a block of reasoning."""

# Reasoning

_TAGS: ReasoningTags = (
    ("[THINK]", "[/THINK]"),  # Magistral, Ministral
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),  # Kimi 1.5, Kimi-VL
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),  # Kimi K3
    ("<|open|>think<|sep|>", "<|open|>response<|sep|>"),
    ("<|START_THINKING|>", "<|START_RESPONSE|>"),  # Command A, Command R7B
    ("<|START_THINKING|>", "<|START_TEXT|>"),  # Command A+
    ("<|begin_of_thought|>", "<|begin_of_solution|>"),  # OpenThinker
    ("<|channel|>analysis", "<|channel|>final"),  # gpt-oss
    ("<|channel|>commentary", "final<|message|>"),
    ("analysis<|message|>", "assistantfinal"),  # gpt-oss, with special tokens left out
    ("assistantanalysis", "assistantfinal"),
    ("assistantcommentary", "assistantfinal"),
    ("<|channel>", "<channel|>"),  # Gemma 4
    ("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    ("<|content_thinking|>", "<|content_text|>"),  # Inkling
    ("<|think|>", "<|content|>"),  # Solar Open
    ("[unused16]", "[unused17]"),  # openPangu
    ("Here is my thought process:", "Here is my response:"),  # Granite 3.2
    ("Here's my thought process:", "Here's my response:"),
    ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),  # Apriel
    ("Thinking...", "...done thinking."),  # ollama run
    ('<details type="reasoning"', "</details>"),  # Open WebUI
)
"""Reasoning tags that can't be recognized by their name. All others match `_NAMED`."""

_NAMED = (
    r"(?:<|&lt;)[|\s]{0,3}(?P<slash>/?)\s{0,3}"
    r"(?P<name>[\w:.-]{0,40}?(?:think|thought|reasoning)[\w:.-]{0,40}"
    r"|(?:reason|reflection|rationale|analysis|scratchpad|(?:inner[_-]?)?monologue)(?=[\s>|&]))"
    r"(?:\s[^<>&]{0,300})?[|\s]{0,3}(?:>|&gt;)"
)
"""Reasoning tags recognized by name, such as `<think>`, `<seed:think>` or `<|END_THINKING|>`."""
_ORDINARY = re.compile(r"\s*(?:here|<\s{0,3}/?\s{0,3}details)", re.IGNORECASE)
"""Matches tags that also occur in ordinary text.

Such a closing tag counts only after an opening tag, or at the start of the text.
"""
_CLOSES = re.compile(r"^end|(?<![a-z])(?:end|close|stop)(?![a-z])", re.IGNORECASE)
_BARE_OPENING = r"\A\s*(?:(?-i:analysis)(?=\w)|(?-i:thought)\n|/think\n)"
"""Opening tags of gpt-oss, Gemma 4 or HyperCLOVA X whose special tokens were left out."""
_BARE_CLOSING = r"\A\s*(?-i:final)(?!(?:s|e\w*|ly|i[stz]\w*)\b)(?=\w)"
"""A closing tag of gpt-oss. It matches in `finalDenver`, but not in `finals` or `finally`."""


def check_reasoning_tags(tags: Sequence[Sequence[str]]) -> ReasoningTags:
    """Check pairs of tags given by the user, and return them without surrounding whitespace.

    Raises DecabenchError for an invalid pair.
    """
    for pair in tags:
        if isinstance(pair, str) or len(pair) != 2:
            raise DecabenchError(
                f"--reasoning-tags requires an opening and a closing tag, as in <plan> </plan>, not {pair!r}."
            )
        if not all(map(str.strip, pair)) or pair[0].strip() == pair[1].strip():
            raise DecabenchError(
                f"--reasoning-tags requires two different tags, not {pair[0]!r} and {pair[1]!r}."
            )
    return tuple((start.strip(), end.strip()) for start, end in tags)


@lru_cache(16)
def _marks(tags: ReasoningTags) -> re.Pattern[str]:
    openings = "|".join(dict.fromkeys(_literal(start, is_opening=True) for start, _ in tags))
    closings = "|".join(dict.fromkeys(_literal(end) for _, end in tags))
    return re.compile(
        rf"(?P<opens>{openings}|{_BARE_OPENING})|(?P<closes>{closings}|{_BARE_CLOSING})|{_NAMED}",
        re.IGNORECASE,
    )


def _literal(tag: str, is_opening: bool = False) -> str:
    """Return a pattern for a tag. The pattern ignores case and allows spaces between the tag's parts.

    A tag such as `<name>` may have attributes. A phrase counts as an opening tag only at the start of a text.
    """
    space = r"\s{0,3}"
    if re.fullmatch(r"<[\w:.-]+>", tag):
        return rf"<{space}{re.escape(tag[1:-1])}(?:\s[^<>]{{0,300}})?{space}>"
    pattern = space.join(map(re.escape, re.findall(r"\w+|[^\w\s]", tag))).replace("'", "['\u2019]")
    if tag.isalpha():  # gpt-oss writes these tags without spaces around them, but never in capitals
        return rf"(?-i:{pattern})"
    return rf"\A\s*{pattern}" if is_opening and tag[0].isalpha() else pattern


@dataclass(frozen=True, slots=True)
class _Mark:
    start: int
    end: int
    opens: bool


_HEADERS = ("assistant", "model")
"""Role names that may remain before reasoning if the tokens around them were removed."""
_OPENING_QUOTES = "`'\"\u2018\u201c"
_CLOSING_QUOTES = "`'\"\u2019\u201d"


def _find_marks(text: str, tags: ReasoningTags, is_finished: bool) -> list[_Mark]:
    """Find reasoning tags. Tags in quotation marks or code don't count, unless the text starts with a pair of them."""
    marks, mentions, has_begun = [], [], False
    for match in _marks((*_TAGS, *tags)).finditer(text):
        opens = match["opens"] is not None or (
            match["closes"] is None and not match["slash"] and not _CLOSES.search(match["name"])
        )
        start, end = match.span()
        if _ORDINARY.match(match.group()):
            has_begun = has_begun or opens or not text[:start].strip()
            if not has_begun:
                continue
        before, after = text[start - 1 : start] if start else "", text[end : end + 1]
        if before and after and _OPENING_QUOTES.find(before) == _CLOSING_QUOTES.find(after) != -1:
            mentions.append(_Mark(start - 1, end + 1, opens))
        else:
            marks.append(_Mark(start, end, opens))
    if marks or not mentions:
        return marks
    first = mentions[0]
    if first.opens:
        return [] if text[: first.start].strip() or all(mark.opens for mark in mentions) else mentions
    return [] if is_finished else [_Mark(0, 0, True)]  # the prompt opened the reasoning, which was cut off


def _visible(text: str, marks: Sequence[_Mark]) -> list[str]:
    """Return the parts of a text that are not reasoning, with the last part first.

    The result is empty if the text ends inside reasoning. All text before a closing tag is treated as reasoning,
    because the prompt may have opened the reasoning, or the reasoning may quote another tag.
    """
    parts: list[str] = []
    start, is_inside = 0, bool(marks) and not marks[0].opens
    for mark in marks:
        if mark.opens and not is_inside and bare(part := text[start : mark.start]) not in _HEADERS:
            parts.append(part)
        start, is_inside = mark.end, mark.opens
    rest = text[start:]
    if is_inside and rest.strip():
        return []
    if text.count("```", 0, start) % 2:  # there is a code block around the reasoning or the whole text
        rest = _END_OF_FENCE.sub("", rest, count=1)
    return [rest, *reversed(parts)]


_END_OF_FENCE = re.compile(r"\A\s*```[ \t]*(?:\n|\Z)|\n```\s*\Z")

# Turns and chat template tokens

_SPEAKER = r"(?:assistant|model|bot|ai|gpt|user|human|system|developer|tool|ipython)\b"
_TURN = re.compile(
    r"(?P<header>(?:<\|(?:im_start|start_header_id|header_start|start_of_role|role_start|BOT|START_OF_TURN_TOKEN"
    r"|im_(?:assistant|user|system))\|>|<\|turn>|<start_of_turn>|<extra_id_\d>|\]~b\])\s{0,3}"
    rf"(?:(?P<speaker>{_SPEAKER})\s{{0,3}}"
    r"(?:<\|(?:end_header_id|header_end|end_of_role|role_end|im_middle|im_sep)\|>)?)?"
    r"|<[|\uff5c](?P<token>assistant|user|system|bot|human|observation|(?:CHATBOT|USER|SYSTEM)_TOKEN"
    r"|message_user)[|\uff5c]>|\[\|(?P<bracket>assistant|user|system)\|\]|<role>(?P<role>\w{1,20})</role>"
    r"|<longcat_(?P<longcat>assistant|user|system)>|\[(?P<inst>/?INST)\])"
    r"|<\|(?:im_end|eot_id|eom_id|eot|eom|EOT|endoftext|end_of_text|endofturn|end_of_turn|END_OF_TURN_TOKEN|return|eos"
    r"|role_end|end_of_msg|end_of_message)\|>"
    r"|</?s>|<(?:end_of_turn|eos|bos|sep)>|<turn\|>|</?longcat_s>|</longcat_(?:assistant|user|system)>|\[\|endofturn\|\]|\[(?:EOS|EOT|BOS)\]|\[e~\[|\]~!b\["
    r"|<\uff5c(?:begin|end)\u2581of\u2581sentence\uff5c>",
    re.IGNORECASE,
)
"""The header of a turn, or a token that ends a turn."""
_MODEL = frozenset({"assistant", "model", "bot", "ai", "gpt", "chatbot_token", "/inst"})


def _own_turn(text: str) -> str:
    """Return the model's first non-empty turn. The text may also repeat the prompt or contain invented turns."""
    start, is_own = 0, True
    for match in _TURN.finditer(text):
        if is_own and (turn := text[start : match.start()]).strip():
            return turn
        if match["header"]:
            speaker = next(filter(None, (match[name] for name in _SPEAKERS)), "assistant")
            is_own = speaker.lower() in _MODEL
        start = match.end()
    return text[start:] if is_own else ""


_SPEAKERS = ("speaker", "token", "bracket", "role", "longcat", "inst")

_MESSAGE = re.compile(
    rf"<\|(?:start|begin)\|>\s{{0,3}}(?:{_SPEAKER})?"
    r"|<\|(?:end|call|message|message_model|content_model_end_sampling)\|>"
    r"|<\|constrain\|>\s{0,3}\w*|<\|close\|>\s{0,3}\w+\s{0,3}<\|sep\|>",
    re.IGNORECASE,
)
"""Tokens between the messages of a turn."""
_END_OF_ANSWER = re.compile(
    r"<\|(?:END_RESPONSE|END_TEXT|end_of_solution|end_message)\|>|\[END FINAL RESPONSE\]", re.IGNORECASE
)
"""Tokens that end an answer. The rest of the text is left out."""
_TOKEN = re.compile(
    r"<\|[^\s<>|][^<>|\n]{0,40}\|>|<\uff5c[^\s<>\uff5c][^<>\uff5c\n]{0,40}\uff5c>|<(?:pad|unk|mask|SPECIAL_\d+)>"
    r"|\[(?:PAD|UNK|CLS|SEP|MASK|gMASK|sop)\]|<</?SYS>>"
)
"""Any other template token. It is removed only at the start or end of a text."""
_BOX = re.compile(r"<\|(?:begin|end)_of_box\|>")
_RESPONSE = re.compile(r"\A<(answer|response)>(?P<inner>.*?)(?:</\1>)?\Z", re.IGNORECASE | re.DOTALL)
"""Matches tags around everything after the reasoning, as written by Hunyuan, Granite or Ernie."""
_BOXED = re.compile(r"\A<\|begin_of_box\|>(?P<inner>.*?)(?:<\|end_of_box\|>)?\Z", re.DOTALL)
"""Matches GLM's box if it contains the whole output."""


_HEADER = re.compile(r"\A(?:assistant[ \t]*\n\s*|ASSISTANT: \s*)+(?=\S)")
"""The name of the model's role, if the tokens around it were removed."""


def _without_tokens(text: str) -> str:
    message = next((part for piece in _MESSAGE.split(text) if (part := bare(piece))), "")
    start, end = 0, len(message)
    tokens = [match.span() for match in _TOKEN.finditer(message) if not _BOX.match(match.group())]
    for first, last in tokens:
        if bare(message[start:first]):
            break
        start = last
    for first, last in reversed(tokens):
        if first < start or bare(message[last:end]):
            break
        end = first
    return bare(message[start:end])


@dataclass(frozen=True, slots=True)
class Turn:
    """A model's turn."""

    text: str
    """The text without reasoning, role headers and tokens. It may be empty."""
    rules: tuple[str, ...]
    """The rules that removed something: `template`, `reasoning` or both."""
    calls_tool: bool
    """Whether the model calls a tool. Such a call isn't an answer, because the prompt offers no tools."""


def read_turn(text: str, tags: ReasoningTags = (), is_finished: bool = True, unwraps: bool = True) -> Turn:
    """Return a model's first turn, without its reasoning.

    The text is the last non-empty part outside the reasoning, usually the part after the last block. If the
    reasoning never ends, the text is empty. `tags` contains additional pairs of reasoning tags.
    `is_finished` is false for a text that was cut off. If `unwraps` is set, tags around everything after the
    reasoning are removed.
    """
    turn = _own_turn(text)
    marks = _find_marks(turn, tags, is_finished)
    said, is_cleaned, is_call = "", len(turn) < len(text), False
    if marks and bare(turn[: marks[0].start]) in _HEADERS:
        is_cleaned = True
    for part in _visible(turn, marks):
        part = bare(_END_OF_ANSWER.split(part, maxsplit=1)[0])
        if (said := _without_tokens(part)) and lines_of(said):
            is_cleaned = is_cleaned or said != part
            is_call = bool(_CALL.search(part)) or _is_call(said)
            break
    else:
        said = "" if marks else said
        is_call = bool(marks) and bool(_CALL_IN_CHANNEL.search(turn))
    while (header := _HEADER.match(said)) and lines_of(rest := _without_tokens(said[header.end() :])):
        said, is_cleaned = rest, True
    for wrapper in (_RESPONSE, _BOXED) if marks and unwraps else (_BOXED,):
        if wrapped := wrapper.match(said):
            said = _without_tokens(bare(wrapped["inner"]))
    return Turn(said, ("template",) * is_cleaned + ("reasoning",) * bool(marks), is_call)


# Tool calls

_CALL = re.compile(
    r"<[|\uff5c/\s]{0,3}[\w:.\u2581-]{0,40}?(?:tool[_\u2581-]?(?:call|use|code)|function[_\u2581-]?call|python_tag"
    r"|start_action|call_start|tools_prefix|invoke_tool|dsml)[\w:.\u2581-]{0,40}[|\uff5c\s/>]"
    r"|<function=|<(?:function|invoke)\s+name=|\[TOOL_CALLS?\]|<\|open\|>\s{0,3}tools|\bto=functions?\.|^```tool_code",
    re.IGNORECASE | re.MULTILINE,
)
_CALL_IN_CHANNEL = re.compile(r"\b(?:commentary|analysis)\s+to=")
_CALL_KEYS = ("tool_calls", "tool_call", "function_call")


def _is_call(text: str) -> bool:
    value = find_json(text) if any(key in text for key in (*_CALL_KEYS, "arguments", "parameters")) else None
    value = value[0] if isinstance(value, list) and value else value
    value = value.get("function", value) if isinstance(value, dict) else value
    return isinstance(value, dict) and (
        any(key in value for key in _CALL_KEYS)
        or ("name" in value and ("arguments" in value or "parameters" in value))
    )
