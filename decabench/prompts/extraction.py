"""One raw text through the rules of its form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from decabench.prompts.answer_forms import (
    AnswerForm,
    Extracted,
    Kind,
    after_marker,
    find_label,
    find_sql,
    find_state,
    labels_for,
    lines_of,
    unwrapped,
    without_lead_in,
    without_reasoning,
)

__all__ = ["extract", "is_refusal"]

# ---- refusal

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


# ---- extract

_BULLET = re.compile(r"^(?:[-*•]|\d+[.)])\s+")
_REMARK = re.compile(r"\(?(?:\*\*)?note\b.{0,3}:|let me know|i hope (?:this|that)\b", re.IGNORECASE)

_Found = tuple[str, list[str]]
"""An answer and the rules that made it."""


def extract(raw: str, form: AnswerForm, question: str = "", finish: str = "stop") -> Extracted:
    """The answer in a raw text, and the rule that made it. Never raises; the same input gives the same answer.

    `finish` is how the answer ended: `refused` settles the matter, and `length` leaves an open reasoning block,
    of which nothing is an answer.
    """
    text = raw.strip()
    if finish == "refused":
        return Extracted(text, "refused")
    if not text:
        return Extracted("", "empty")
    if form.kind == "raw":
        return Extracted(text, "as-is")
    kept = without_reasoning(text)
    rules = ["reasoning"] if kept != text else []
    if not kept:
        return Extracted("", "reasoning+unparseable")
    return _joined(*_answer(kept, form, question, rules))


def _joined(answer: str, rules: list[str]) -> Extracted:
    return Extracted(answer, "+".join(rules) or "as-is")


def _answer(text: str, form: AnswerForm, question: str, rules: list[str]) -> _Found:
    marked = after_marker(text, form.markers, in_sentences=form.kind not in ("text", "line"))
    found = _found(marked, form, question)
    if found is not None and marked != text:
        rules = [*rules, "marker"]
    elif found is None and marked != text:
        found = _found(text, form, question)
    if found is None:
        return _first_line(text, form)[0], [
            *rules,
            "refused" if is_refusal(text, loosely=True) else "unparseable",
        ]
    answer, own = found
    if form.kind in _WORDS and is_refusal(text):
        return answer, [*rules, *own, "refused"]
    return answer, [*rules, *own]


def _found(text: str, form: AnswerForm, question: str) -> _Found | None:
    """The answer by the rule of its kind; None where the form is not there."""
    if form.kind in _WORDS:
        return _WORDS[form.kind](text, form)
    if form.kind == "label":
        answer = find_label(text, labels_for(form, question))
    else:
        answer = find_sql(text) if form.kind == "sql" else find_state(text, form.labels)
    return None if answer is None else (answer, [] if answer == text else [form.kind])


def _first_line(text: str, form: AnswerForm) -> _Found:
    lines = lines_of(text) or [text]
    line = without_lead_in(lines)[0]
    rules = [] if line == text else ["first-line"]
    answer = unwrapped(line, form.unquote)
    return answer, rules if answer == line else [*rules, "unwrapped"]


def _span(text: str, form: AnswerForm) -> _Found:
    line, rules = _first_line(text, form)
    label = find_label(line, form.labels)
    return (line, rules) if label is None or label == line else (label, [*rules, "label"])


def _whole(text: str, form: AnswerForm) -> _Found:
    lines = without_lead_in(lines_of(text) or [text])
    while len(lines) > 1 and _REMARK.match(lines[-1]):
        lines = lines[:-1]
    if len(lines) > 1 and all(_BULLET.match(line) for line in lines):
        lines = [_BULLET.sub("", line) for line in lines]
    joined = " ".join(lines)
    answer = unwrapped(joined, form.unquote)
    return answer, [] if answer == text else ["text"]


_WORDS: Mapping[Kind, Callable[[str, AnswerForm], _Found]] = {
    "span": _span,
    "line": _first_line,
    "text": _whole,
}
"""The kinds whose form any words have."""
