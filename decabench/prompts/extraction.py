"""Find the answer in what a language model writes, by the rules for the form of the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from decabench.prompts.recognition import (
    BULLET,
    find_label,
    find_sql,
    find_state,
    labels_for,
    lines_of,
    unwrapped,
)
from decabench.tasks import AnswerForm, Kind

__all__ = ["EXTRACTION_VERSION", "Extracted", "extract", "is_refusal"]

EXTRACTION_VERSION = 1
"""Incremented whenever the same raw text would give a different answer."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """An answer, and the rules that produced it."""

    answer: str
    """The answer; a best effort if the form was not found."""
    rule: str
    """Rules in the order applied, joined with `+`; the last may be `empty`, `unparseable` or `refused`."""


def extract(raw: str, form: AnswerForm, question: str = "", finish: str = "stop") -> Extracted:
    """Return the answer in a raw text and the rules that made it. Never raises; equal input gives an equal answer.

    `finish` says how the answer ended: `refused` settles the matter, whatever the text.
    """
    text = raw.strip()
    if finish == "refused":
        return Extracted(text, "refused")
    if not text:
        return Extracted("", "empty")
    if form.kind == "raw":
        return Extracted(text, "as-is")
    kept = _without_reasoning(text)
    if not kept:
        return Extracted("", "reasoning+unparseable")
    answer, rules = _find_answer(kept, form, question)
    rules = [*(["reasoning"] if kept != text else []), *rules]
    return Extracted(answer, "+".join(rules) or "as-is")


_Found = tuple[str, list[str]]
"""An answer and the rules that produced it."""


def _find_answer(text: str, form: AnswerForm, question: str) -> _Found:
    marked = _after_marker(text, form.markers, in_sentences=form.kind not in ("text", "line"))
    found = _read_form(marked, form, question)
    rules = ["marker"] if found is not None and marked != text else []
    if found is None and marked != text:
        found = _read_form(text, form, question)
    if found is None:
        rule = "refused" if is_refusal(text, loosely=True) else "unparseable"
        return _first_line(text, form)[0], [rule]
    answer, own = found
    refused = ["refused"] if form.kind in _WORDS and is_refusal(text) else []
    return answer, [*rules, *own, *refused]


def _read_form(text: str, form: AnswerForm, question: str) -> _Found | None:
    """Read the answer by the rule for its kind; None if the text does not have that form."""
    if form.kind in _WORDS:
        return _WORDS[form.kind](text, form)
    if form.kind == "label":
        answer = find_label(text, labels_for(form, question))
    else:
        answer = find_sql(text) if form.kind == "sql" else find_state(text, form.labels)
    return None if answer is None else (answer, [] if answer == text else [form.kind])


# Free-form answers

_REMARK = re.compile(r"\(?(?:\*\*)?note\b.{0,3}:|let me know|i hope (?:this|that)\b", re.IGNORECASE)


def _first_line(text: str, form: AnswerForm) -> _Found:
    line = _without_lead_in(lines_of(text) or [text])[0]
    rules = [] if line == text else ["first-line"]
    answer = unwrapped(line, form.unquote)
    return answer, rules if answer == line else [*rules, "unwrapped"]


def _span(text: str, form: AnswerForm) -> _Found:
    line, rules = _first_line(text, form)
    label = find_label(line, form.labels)
    return (line, rules) if label is None or label == line else (label, [*rules, "label"])


def _all_lines(text: str, form: AnswerForm) -> _Found:
    lines = _without_lead_in(lines_of(text) or [text])
    while len(lines) > 1 and _REMARK.match(lines[-1]):
        lines = lines[:-1]
    if len(lines) > 1 and all(BULLET.match(line) for line in lines):
        lines = [BULLET.sub("", line) for line in lines]
    answer = unwrapped(" ".join(lines), form.unquote)
    return answer, [] if answer == text else ["text"]


_WORDS: Mapping[Kind, Callable[[str, AnswerForm], _Found]] = {
    "span": _span,
    "line": _first_line,
    "text": _all_lines,
}

# What may precede an answer: reasoning, a marker, a lead-in

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
# Not "Okay", which is also German, and sometimes a whole translation.
_AGREED = re.compile(r"(?:sure|certainly|of course|absolutely|got it|great question)[!.,]*", re.IGNORECASE)


def _without_reasoning(text: str) -> str:
    """Return what follows the last reasoning block, or else what precedes the first; nothing if it never ends."""
    kept = text.rpartition(_FINAL_CHANNEL)[2]
    closings = list(_CLOSING.finditer(kept))
    if closings and kept[closings[-1].end() :].strip():
        kept = kept[closings[-1].end() :]
    elif closings and not _OPENING.search(kept):
        return ""  # the opening tag was part of the prompt
    return _OPENING.split(kept, maxsplit=1)[0].strip()


def _after_marker(text: str, markers: Sequence[str], in_sentences: bool) -> str:
    """Return what follows the last `Answer:`, or one of `markers`, that is not at the end; by default the whole text.

    With `in_sentences`, `the answer is` and \\boxed{} count as well.
    """
    if in_sentences and (boxed := _BOXED.findall(text)) and boxed[-1].strip():
        return str(boxed[-1]).strip()
    names = "|".join(
        [_ANSWER, *(re.escape(marker.strip(_COLONS)) for marker in markers if marker.strip(_COLONS))]
    )
    # A marker is at the start of a line, in bold or not, so that a colon in the answer's own words is not one.
    pattern = re.compile(rf"^{_DECORATION}(?:{names})[*_]*[ ]?[:\uff1a][*_]*", re.IGNORECASE | re.MULTILINE)
    ends = {match.end() for match in pattern.finditer(text)}
    if in_sentences:
        ends |= {match.end() for match in _SAID.finditer(text)}
    for end in sorted(ends, reverse=True):
        if rest := _balanced(text[end:].strip()):
            return rest
    return text


def _balanced(text: str) -> str:
    """Remove the end of a bold passage that began before the marker: `**Answer: x**` leaves `x`."""
    line, _, rest = text.partition("\n")
    if line.count("**") == 1 and line.rstrip().endswith("**"):
        line = line.rstrip().removesuffix("**").rstrip()
    return f"{line}\n{rest}".strip() if rest else line


def _without_lead_in(lines: list[str]) -> list[str]:
    """Drop leading lines such as `Sure!` and `Here is the translation:`, if others follow."""
    while len(lines) > 1 and (_AGREED.fullmatch(lines[0]) or _LEAD_IN.fullmatch(lines[0].strip("*_ "))):
        lines = lines[1:]
    return lines


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
    """Tell whether a text begins like a refusal; `loosely` if it is not in the form of an answer."""
    start = text.lstrip("*_\"'“ \n")
    return bool(_STRICT.match(start) or (loosely and _LOOSE.match(start)))
