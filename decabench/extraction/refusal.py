"""Whether a text declines to answer."""

from __future__ import annotations

import re

__all__ = ["is_refusal"]

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
    """Whether a text begins as refusals do; `loosely` where it has not the answer's form, so that less is proof."""
    start = text.lstrip("*_\"'“ \n")
    return bool(_STRICT.match(start) or (loosely and _LOOSE.match(start)))
