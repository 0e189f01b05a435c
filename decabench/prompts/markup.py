"""Split a model's output into lines, and find markup, JSON or a refusal in it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import islice
from typing import Any

from decabench.text import bare

BULLET = re.compile(r"^(?:[-*•]|\d+[.)])\s+")
REMARK = re.compile(
    r"[(*_]*(?:note|explanation|reason|rationale|justification|confidence|word count)\b.{0,3}:|let me know"
    r"|i hope (?:this|that)\b|hope (?:this|that) helps|feel free",
    re.IGNORECASE,
)
"""A line after the answer, such as `Note: …` or `Let me know …`."""
_FENCE = re.compile(r"```\w*")
_MARKS = ("```", "**", "__", "``", "`", "*")
BOXED = re.compile(r"\\boxed\{(?:\\(?:text|mathrm|textbf)\{)?([^{}]*)\}")
_QUOTES = (('"', '"'), ("'", "'"), ("“", "”"), ("\u2018", "\u2019"), ("«", "»"), ("„", "“"))


def lines_of(text: str) -> list[str]:
    """Return the non-empty lines, without code fences."""
    lines = map(bare, text.splitlines())
    return [line for line in lines if line and not _FENCE.fullmatch(line)]


def plain_digits(text: str) -> str:
    """Replace digits of other scripts, such as full-width digits, with 0 to 9, because metrics read only ASCII
    digits.
    """
    return re.sub(r"\d", lambda digit: str(int(digit[0])), text)


def unwrapped(line: str, quotes: bool) -> str:
    """Remove bold or code markup around a whole line. If `quotes` is set, quotation marks are removed too."""
    if boxed := re.fullmatch(rf"\$*{BOXED.pattern}\}}?\$*\.?", line):
        return unwrapped(boxed[1].strip(), quotes)
    for start, end in (*((mark, mark) for mark in _MARKS), *(_QUOTES if quotes else ())):
        inner = line[len(start) : len(line) - len(end)].strip()
        is_around = len(line) > len(start) + len(end) and line.startswith(start) and line.endswith(end)
        if is_around and inner and start not in inner and end not in inner:
            return unwrapped(inner, quotes)
    return line


_SPEAKERS = ("Human:", "User:", "### Instruction", "### Input", "### Question", "### User")


def example_start(stops: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern for the start of another example, which begins with a stop string or another speaker."""
    names = "|".join(re.escape(stop.strip()) for stop in (*stops, *_SPEAKERS) if stop.strip())
    return re.compile(rf"^[ \t>*_#]*(?:{names})", re.MULTILINE)


_BEFORE_JSON = re.compile(r"(?:```(?:json)?\s*|^)(?=[{\[])", re.IGNORECASE | re.MULTILINE)
_SINGLE_QUOTE = re.compile(r"(?<=[{\[,:])'|(?<=[{\[,:] )'|'(?=\s*[,:}\]])")
_MOST_TRIES = 160


def consistent_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a dict.

    Raises ValueError if a key is repeated with a different value.
    """
    value = dict(pairs)
    if any(value[key] != said for key, said in pairs):
        raise ValueError("a key is repeated with another value")
    return value


def find_json(text: str) -> Any:
    """Return the JSON object or list that makes up an entire text, line or code block, or None.

    Python literals with single quotes are accepted too.
    """
    decoder = json.JSONDecoder(object_pairs_hook=consistent_keys)
    places = [match.end() for match in islice(_BEFORE_JSON.finditer(text), _MOST_TRIES)]
    for spelling in (text, _SINGLE_QUOTE.sub('"', text)) if places else ():
        for start in places:
            try:
                value, end = decoder.raw_decode(spelling, start)
            except (ValueError, RecursionError):
                continue
            if not spelling[end:].partition("\n")[0].strip("`;. "):
                return value
    return None


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
    """Return whether a text starts like a refusal.

    With `loosely`, vaguer phrases count too. Use it only for texts that contain no answer.
    """
    start = text.lstrip("*_\"'“ \n")
    return bool(_STRICT.match(start) or (loosely and _LOOSE.match(start)))


_SAYS_NOTHING = re.compile(
    r"(?:the (?:\w+ )?(?:sentence|text|passage|context)|it) (?:does(?:n['\u2019]t| not)|never) (?:\w+ )?"
    r"(?:say|mention|specify|state|provide|contain|tell|indicate|include|give)"
    r"|(?:(?:[\w'\u2019-]+ ){1,7}?(?:is|are|was|were)(?:n['\u2019]t| not) |not )(?:\w+ly )?"
    r"(?:mentioned|specified|stated|provided|given|answerable|enough information)"
    r"(?=\W*$|[.,;:]|\s+(?:in|by|from|here)\b)"
    r"|no (?:[\w'\u2019-]+ ){1,5}(?:is|are|was|were) (?:\w+ly )?(?:mentioned|specified|stated|given|provided)\b"
    r"|(?:there is )?no (?:answer|information)\b|(?:there is )?no mention of\b"
    r"|(?:(?:this|it|the question) )?(?:cannot|can['\u2019]t) be (?:answered|determined)"
    r"|i (?:do not|don['\u2019]t) know|(?:there (?:are|is) )?(?:n/a|none)\.?$",
    re.IGNORECASE,
)
_BUT = re.compile(r"\b(?:but|however|though|although)\b", re.IGNORECASE)


def says_nothing(line: str) -> bool:
    """Return whether a line states that there is no answer, as in `The passage does not say`."""
    return bool(_SAYS_NOTHING.match(line)) and not _BUT.search(line)
