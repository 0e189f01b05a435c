"""What stands around an answer in a model's text: reasoning, markers, lead-ins, marks of emphasis."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["after_marker", "lines_of", "unwrapped", "without_lead_in", "without_reasoning"]

_TAG = r"think|thinking|reasoning|reason|thought|thoughts"
_OPENING = re.compile(rf"<(?:{_TAG})>", re.IGNORECASE)
_CLOSING = re.compile(rf"</(?:{_TAG})>", re.IGNORECASE)
_FINAL_CHANNEL = "<|channel|>final<|message|>"

_DECORATION = r"[ \t>*_#`-]*"
_ANSWER = (
    r"(?:so|therefore|thus|hence)?,?[ ]*(?:the[ ]|my[ ])?(?:final[ ]|correct[ ]|best[ ])?answer(?:[ ]is)?"
)
_SAID = re.compile(
    r"(?:^|(?<=[.!?])\s+)(?:so|therefore|thus|hence)?,?[ ]*"
    r"(?:the|my)[ ](?:final[ ]|correct[ ])?answer[ ]is[:\uff1a]?\s+",
    re.IGNORECASE | re.MULTILINE,
)
_COLONS = " :\uff1a"
_BOXED = re.compile(r"\\boxed\{(?:\\text\{)?([^{}]*)\}")

_LEAD_IN = re.compile(
    r"(?:sure|certainly|of course|absolutely|okay|ok|here\b|below\b|the following|based on|in summary|this is|"
    r"the (?:\w+ ){0,3}(?:translation|summary|answer|query|change|label)\b).{0,160}[:\uff1a]",
    re.IGNORECASE,
)
# Not "Okay", which is German too: a whole translation, at times.
_AGREED = re.compile(r"(?:sure|certainly|of course|absolutely|got it|great question)[!.,]*", re.IGNORECASE)
_FENCE = re.compile(r"```\w*")
_WRAPS = ("```", "**", "__", "``", "`", "*")
_QUOTES = (('"', '"'), ("'", "'"), ("“", "”"), ("\u2018", "\u2019"), ("«", "»"), ("„", "“"))


def without_reasoning(text: str) -> str:
    """What follows a model's last reasoning block, or else precedes the first; nothing where it never ended."""
    kept = text.rpartition(_FINAL_CHANNEL)[2]
    closings = list(_CLOSING.finditer(kept))
    if closings and kept[closings[-1].end() :].strip():
        kept = kept[closings[-1].end() :]
    elif closings and not _OPENING.search(kept):
        return ""  # the opening tag was part of the prompt
    return _OPENING.split(kept, maxsplit=1)[0].strip()


def after_marker(text: str, markers: Sequence[str], in_sentences: bool) -> str:
    """What follows the last `Answer:` (or one of `markers`) that anything follows; the text where there is none.

    With `in_sentences`, `the answer is` counts as well, and so does \\boxed{}.
    """
    if in_sentences and (boxed := _BOXED.findall(text)) and boxed[-1].strip():
        return str(boxed[-1]).strip()
    names = "|".join(
        [_ANSWER, *(re.escape(marker.strip(_COLONS)) for marker in markers if marker.strip(_COLONS))]
    )
    # A mark is at the start of a line, in bold or not, so that a colon in the answer's own words is none.
    pattern = re.compile(rf"^{_DECORATION}(?:{names})[*_]*[ ]?[:\uff1a][*_]*", re.IGNORECASE | re.MULTILINE)
    ends = {match.end() for match in pattern.finditer(text)}
    if in_sentences:
        ends |= {match.end() for match in _SAID.finditer(text)}
    for end in sorted(ends, reverse=True):
        if rest := _balanced(text[end:].strip()):
            return rest
    return text


def _balanced(text: str) -> str:
    """Without the end of a bold passage that began before the marker: of `**Answer: x**`, `x`."""
    line, _, rest = text.partition("\n")
    if line.count("**") == 1 and line.rstrip().endswith("**"):
        line = line.rstrip().removesuffix("**").rstrip()
    return f"{line}\n{rest}".strip() if rest else line


def lines_of(text: str) -> list[str]:
    """The lines that have anything on them but a code fence."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not _FENCE.fullmatch(line)]


def without_lead_in(lines: list[str]) -> list[str]:
    """Without first lines such as `Sure!` and `Here is the translation:`, where others follow."""
    while len(lines) > 1 and (_AGREED.fullmatch(lines[0]) or _LEAD_IN.fullmatch(lines[0].strip("*_ "))):
        lines = lines[1:]
    return lines


def unwrapped(line: str, quotes: bool) -> str:
    """Without the marks of bold, code or (with `quotes`) quotation that are around all of it."""
    pairs = [(mark, mark) for mark in _WRAPS] + (list(_QUOTES) if quotes else [])
    for start, end in pairs:
        inner = line[len(start) : len(line) - len(end)].strip()
        is_around = len(line) > len(start) + len(end) and line.startswith(start) and line.endswith(end)
        if is_around and inner and start not in inner and end not in inner:
            return unwrapped(inner, quotes)
    return line
