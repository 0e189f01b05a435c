"""Strip markers, introductions, wrappers and invented examples around an answer in a model's output."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from decabench.text import bare

__all__ = [
    "BULLET",
    "after_marker",
    "before_stop",
    "find_json",
    "is_refusal",
    "is_remark",
    "lines_of",
    "unwrapped",
    "without_lead_in",
    "without_tags",
]

# Lines and their markup

_FENCE = re.compile(r"```\w*")
_MARKS = ("```", "**", "__", "``", "`", "*")
_QUOTES = (('"', '"'), ("'", "'"), ("“", "”"), ("\u2018", "\u2019"), ("«", "»"), ("„", "“"))
BULLET = re.compile(r"^(?:[-*•]|\d+[.)])\s+")
_REMARK = re.compile(
    r"[(*_]*(?:note|explanation|reason|rationale|justification|confidence)\b.{0,3}:|let me know|i hope (?:this|that)\b"
    r"|hope (?:this|that) helps|feel free",
    re.IGNORECASE,
)


def lines_of(text: str) -> list[str]:
    """Return the non-empty lines, without code fences."""
    lines = map(bare, text.splitlines())
    return [line for line in lines if line and not _FENCE.fullmatch(line)]


def unwrapped(line: str, quotes: bool) -> str:
    """Remove bold or code markup around a whole line, and also quotation marks if `quotes` is set."""
    pairs = [(mark, mark) for mark in _MARKS] + (list(_QUOTES) if quotes else [])
    for start, end in pairs:
        inner = line[len(start) : len(line) - len(end)].strip()
        is_around = len(line) > len(start) + len(end) and line.startswith(start) and line.endswith(end)
        if is_around and inner and start not in inner and end not in inner:
            return unwrapped(inner, quotes)
    return line


def is_remark(line: str) -> bool:
    """Whether a line is a comment on the answer, such as `Note: …`, `Explanation: …` or `Let me know …`."""
    return bool(_REMARK.match(line))


# Text after an answer, such as another example invented by the model

_ROLES = ("Human:", "User:", "### Instruction", "### Input", "### Question", "### User")
_TRIES = 8
"""The maximum number of stop strings to try. The text before each of them has to be parsed."""


def before_stop(text: str, stops: Sequence[str], markers: Sequence[str], reads: Callable[[str], bool]) -> str:
    """Return the text before the first stop string at the start of a line, if `reads` finds an answer in it.

    A text that starts with a stop string repeats its prompt. That part is skipped, and the answer is expected
    after a marker.
    """
    names = [re.escape(stop.strip()) for stop in (*stops, *_ROLES) if stop.strip()]
    pattern = re.compile(rf"^[ \t>*_]*(?:{'|'.join(names)})", re.MULTILINE)
    begin = 0
    if stops and pattern.match(text):
        marked = _marker(markers).search(text)
        if marked is None:
            return "\n".join(line for line in text.splitlines() if not pattern.match(line)).strip()
        begin = marked.end()
    for count, match in enumerate(pattern.finditer(text, begin)):
        part = text[begin : match.start()].strip()
        if count == _TRIES:
            break
        if part and reads(part):
            return part
    return text[begin:].strip()


# Introductions: markers, lead-ins and wrappers

_DECORATION = r"[ \t>*_#`-]*"
_ANSWER = (
    r"(?:so|therefore|thus|hence)?,?[ ]*(?:the[ ]|my[ ])?(?:final[ ]|correct[ ]|best[ ])?answer(?:[ ]is)?"
)
_SAID = re.compile(
    r"(?:^|(?<=[.!?,;])\s+)(?:so|therefore|thus|hence|and)?,?[ ]*"
    r"(?:the|my)[ ](?:final[ ]|correct[ ]|best[ ])?answer[ ](?:is|would be)[:\uff1a]?\s+"
    r"|(?<=[.!?])\s+(?:final[ ])?answer:\s+",
    re.IGNORECASE | re.MULTILINE,
)
_COLONS = " :\uff1a"
_BOXED = re.compile(r"\\boxed\{(?:\\(?:text|mathrm|textbf)\{)?([^{}]*)\}")


def _marker(markers: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern that matches a marker at the start of a line, optionally in bold.

    A colon within an answer therefore doesn't match. Headings such as `### Answer` don't need a colon. Words
    that also occur in answers, such as `Output:`, match only at the start of the text.
    """
    names = "|".join(
        [_ANSWER, *(re.escape(marker.strip(_COLONS)) for marker in markers if marker.strip(_COLONS))]
    )
    return re.compile(
        rf"^{_DECORATION}(?:{names})(?:[*_]*[ ]?[:\uff1a][*_]*)"
        rf"|\A{_DECORATION}(?:ans|output|response)[*_]*[ ]?[:\uff1a][*_]*"
        rf"|^[ \t]*(?:#+[ ]*[*_]{{0,2}}|\*\*)(?:{names})[*_]*[ \t]*$",
        re.IGNORECASE | re.MULTILINE,
    )


def after_marker(text: str, markers: Sequence[str], in_sentences: bool) -> str:
    r"""Return the text after the last `Answer:`, or after the last of `markers`, that is followed by text.

    If there is no marker, the whole text is returned. With `in_sentences`, `the answer is` and \boxed{} also
    count as markers.
    """
    if in_sentences and (boxed := _BOXED.findall(text)) and boxed[-1].strip():
        return str(boxed[-1]).strip()
    ends = {match.end() for match in _marker(markers).finditer(text)}
    said = {match.end() for match in _SAID.finditer(text)} if in_sentences else set()
    for end in sorted(ends | said, reverse=True):
        if rest := _balanced(bare(text[end:])):
            return unwrapped(rest.rstrip("."), quotes=True) if end in said else rest
    return text


def _balanced(text: str) -> str:
    """Remove the end of bold markup that started before the marker, as in `**Answer: x**`."""
    line, _, rest = text.partition("\n")
    if line.count("**") == 1 and line.rstrip().endswith("**"):
        line = line.rstrip().removesuffix("**").rstrip()
    return f"{line}\n{rest}".strip() if rest else line


_LEAD_IN = re.compile(
    r"(?:sure|certainly|of course|absolutely|okay|ok|here\b|below\b|hier ist|the following|based on|in summary|this is"
    r"|let me\b|let['\u2019]s\b|according to\b|looking at\b"
    r"|the (?:\w+ ){0,3}(?:translation|summary|answer|query|change|label|span)\b).{0,160}[:\uff1a]",
    re.IGNORECASE,
)
# "Okay" is missing because it is also German, and sometimes a whole translation.
_AGREED = re.compile(r"(?:sure|certainly|of course|absolutely|got it|great question)[!.,]*", re.IGNORECASE)
_HERE_IS = re.compile(
    r"(?:(?:sure|certainly|of course|okay|ok)[,.!]+\s+)?(?:here(?:['\u2019]s| is| are)\s+(?:the|your|a|an|my)\s+"
    r"(?:[\w-]+\s+){0,3}(?:answer|translation|summary|span|label|query|change)"
    r"(?:\s+(?:of|for|to|in|into)\b[^:\n]{0,80})?[:\uff1a]\s*)?",
    re.IGNORECASE,
)
"""An introduction on the same line as the answer, such as `Sure! Here is the answer:`."""
_HEADING = re.compile(r"#{1,6}\s+\S")


def without_lead_in(lines: Sequence[str]) -> list[str]:
    """Remove introductions such as `Sure!` or `Here is the translation:`, and headings on their own line."""
    kept = list(lines)
    while len(kept) > 1 and _leads_in(kept[0]):
        kept.pop(0)
    opening = _HERE_IS.match(kept[0])
    if (
        opening
        and opening.group().rstrip().endswith(("!", ":", "\uff1a"))
        and kept[0][opening.end() :].strip()
    ):
        kept[0] = kept[0][opening.end() :].strip()
    return kept


def _leads_in(line: str) -> bool:
    return bool(_AGREED.fullmatch(line) or _LEAD_IN.fullmatch(line.strip("*_ ")) or _HEADING.match(line))


_TAG_NAMES = (
    "final_answer|answer|final|output|response|result|label|span|translation|summary|sql|query|state|solution"
)
_TAGGED = re.compile(
    rf"<\s?({_TAG_NAMES})(?:\s[^<>]{{0,300}})?>(?P<inner>.*?)(?:<\s?/\s?\1\s{{0,3}}>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_TAGS = re.compile(rf"<\s?/?\s?(?:{_TAG_NAMES})(?:\s[^<>]{{0,300}})?>", re.IGNORECASE)
_IN_BOX = re.compile(r"<\|begin_of_box\|>(?P<inner>.*?)(?:<\|end_of_box\|>|\Z)", re.DOTALL)
_BOX = re.compile(r"<\|(?:begin|end)_of_box\|>")


def without_tags(text: str) -> str:
    """Return the content of the last `<answer>…</answer>`, and of GLM's last box in it.

    A text without tags is returned unchanged.
    """
    for tags, tagged in ((_TAGS, _TAGGED), (_BOX, _IN_BOX)):
        if tags.search(text):
            found = [inner for match in tagged.finditer(text) if (inner := match["inner"].strip())]
            text = found[-1] if found else tags.sub("", text).strip()
    return text


_BEFORE_JSON = re.compile(r"(?:```(?:json)?\s*|^)(?=[{\[])", re.IGNORECASE | re.MULTILINE)
_SINGLE_QUOTE = re.compile(r"(?<=[{\[,:])'|(?<=[{\[,:] )'|'(?=\s*[,:}\]])")


def find_json(text: str) -> Any:
    """Return the object or list that makes up a text, a line or a code block, or None.

    It can be JSON or a Python literal with single quotes.
    """
    places = [match.end() for match, _ in zip(_BEFORE_JSON.finditer(text), range(20 * _TRIES), strict=False)]
    for spelling in (text, _SINGLE_QUOTE.sub('"', text)) if places else ():
        for start in places:
            try:
                value, end = json.JSONDecoder().raw_decode(spelling, start)
            except (ValueError, RecursionError):
                continue
            if not spelling[end:].partition("\n")[0].strip("`;. "):
                return value
    return None


# Refusals

_I_CANNOT = (
    r"i (?:can['\u2019]?t|cannot|can not|am unable to|am not able to|won['\u2019]t|will not|must decline)"
    r"|i['\u2019]m (?:un|not )able to"
)
_STRICT = re.compile(
    rf"(?:i['\u2019]m|i am|we['\u2019]re)? ?(?:very |really |so )?sorry,? (?:but )?(?:{_I_CANNOT}|as an ai\b)"
    r"|as an? (?:ai|artificial intelligence|(?:large )?language model)\b"
    rf"|(?:{_I_CANNOT}) (?:(?:assist|help)(?: you)? with|comply with|fulfil+ (?:this|that|your)|"
    r"(?:provide|answer|complete|process|continue with) (?:that|this|your|the question))\b",
    re.IGNORECASE,
)
_LOOSE = re.compile(
    rf"(?:i['\u2019]m|i am) (?:very |really |so )?sorry\b|sorry\b|unfortunately,? (?:{_I_CANNOT})|(?:{_I_CANNOT})\b",
    re.IGNORECASE,
)


def is_refusal(text: str, loosely: bool = False) -> bool:
    """Whether a text starts like a refusal.

    With `loosely`, vaguer phrases count as well, for texts that contain no answer.
    """
    start = text.lstrip("*_\"'“ \n")
    return bool(_STRICT.match(start) or (loosely and _LOOSE.match(start)))
