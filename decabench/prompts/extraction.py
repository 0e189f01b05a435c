"""Find the answer in what a language model writes, by the rules for the form of the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from decabench.tasks import AnswerForm, Kind

__all__ = [
    "BULLET",
    "EXTRACTION_VERSION",
    "NO_CHANGE",
    "Extracted",
    "extract",
    "find_label",
    "find_sql",
    "find_state",
    "is_refusal",
    "labels_for",
    "lines_of",
    "options",
    "unwrapped",
]

# Lines and the marks around them

_FENCE = re.compile(r"```\w*")
_MARKS = ("```", "**", "__", "``", "`", "*")
_QUOTES = (('"', '"'), ("'", "'"), ("“", "”"), ("\u2018", "\u2019"), ("«", "»"), ("„", "“"))
BULLET = re.compile(r"^(?:[-*•]|\d+[.)])\s+")


def lines_of(text: str) -> list[str]:
    """Return the lines that hold more than a code fence."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not _FENCE.fullmatch(line)]


def unwrapped(line: str, quotes: bool) -> str:
    """Remove the marks of bold, code or (with `quotes`) quotation that are around the whole line."""
    pairs = [(mark, mark) for mark in _MARKS] + (list(_QUOTES) if quotes else [])
    for start, end in pairs:
        inner = line[len(start) : len(line) - len(end)].strip()
        is_around = len(line) > len(start) + len(end) and line.startswith(start) and line.endswith(end)
        if is_around and inner and start not in inner and end not in inner:
            return unwrapped(inner, quotes)
    return line


# Labels

_NEGATED = re.compile(
    r"(?:\b(?:not|no|never|neither|nor|without|cannot|hardly|rather than|instead of)|n['\u2019]t)"
    r"\W+(?:[\w'\u2019]+\W+){0,2}$",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"(?<=[.?!:;])\s+|\s+--\s+")
_ASKS = re.compile(
    r"(?:is|are|was|were|does|do|did|would|which|what|who|how|can|could|has|have)\b", re.IGNORECASE
)
_ASKS_WHAT = re.compile(r"(?:which|what|who|how)\b", re.IGNORECASE)
_BEFORE = 80
"""Characters before a label that are searched for a negation."""
_ARTICLE = re.compile(r"^(?:an?|the)\s+")
_WORDS = re.compile(r"[^\W_](?:.*[^\W_])?", re.DOTALL)
_ENDS = re.compile(r"\s*(?:[.!;:)\]\n]|[–—-]\s|,(?!\s*(?:or|and)\b)|$)")


def labels_for(form: AnswerForm, question: str) -> tuple[str, ...]:
    """Return the labels that a question offers."""
    if not form.labels_from_question:
        return form.labels
    if form.labels and all(_pattern([label]).search(question) for label in form.labels):
        return form.labels
    return options(question) or form.labels


def options(question: str) -> tuple[str, ...]:
    """Return the options at the end of a question: `Who? Bob or Charlie?`, `-- yes, no, or maybe?`."""
    clause = _CLAUSE.split(question.strip().rstrip("?.! "))[-1]
    before, found, last = clause.rpartition(" or ")
    if not found:
        return ()
    first = [part.strip() for part in before.strip().rstrip(",").split(",")]
    if _ASKS_WHAT.match(first[0]) and len(first) > 1:
        first = first[1:]  # `Which is it, negative or positive?`
    elif _ASKS.match(first[0]):
        first[0] = first[0].split()[-1]  # `Is this review negative or positive?`
    found_all = (*first, last.strip())
    return found_all if all(found_all) else ()


def find_label(text: str, labels: Sequence[str]) -> str | None:
    """Return the label that a text gives as its answer; None if it gives none or several, or denies it."""
    by_key = {_key(label): label for label in labels if label.strip()}
    lines = lines_of(text)
    if not lines or not by_key:
        return None
    for candidate in (text, lines[0], lines[-1]):
        if _key(candidate) in by_key:
            return by_key[_key(candidate)]
    pattern = _pattern(list(by_key.values()))
    opening = pattern.match(lines[0].lstrip("*_`\"'“ "))
    if opening and _ENDS.match(opening.string[opening.end() :].lstrip("*_`\"'”")):
        if not pattern.match(opening.string[opening.end() :].lstrip("*_`\"'”,.;: ")):
            return by_key[_key(opening.group())]
    found = {_only_label(line, pattern, by_key) for line in (lines[0], lines[-1])} - {None}
    return found.pop() if len(found) == 1 else None


def _key(text: str) -> str:
    """Reduce a label to what its spellings share: no case, no marks around it, no article."""
    words = _WORDS.search(text)
    return _ARTICLE.sub("", " ".join(words.group().casefold().split())) if words else text.strip()


def _pattern(labels: Sequence[str]) -> re.Pattern[str]:
    longest_first = sorted(map(_key, labels), key=len, reverse=True)
    words = "|".join(re.escape(label).replace(r"\ ", r"\s+") for label in longest_first)
    return re.compile(rf"(?<![\w-])(?:{words})(?![\w-]|['\u2019]\w)", re.IGNORECASE)


def _only_label(line: str, pattern: re.Pattern[str], by_key: dict[str, str]) -> str | None:
    """Return the label of a line, if it has exactly one and does not deny it."""
    matches = list(pattern.finditer(line))
    if any(_NEGATED.search(line[max(0, match.start() - _BEFORE) : match.start()]) for match in matches):
        return None
    found = {by_key[_key(match.group())] for match in matches}
    return found.pop() if len(found) == 1 else None


# SQL

_BLOCK = re.compile(r"```(?:\w+)?[ \t]*\n?(.*?)(?:```|\Z)", re.DOTALL)
_SELECT = re.compile(r"\bselect\b", re.IGNORECASE)
_SELECT_LINE = re.compile(r"^[ \t>*`\"'-]*\bselect\b", re.IGNORECASE | re.MULTILINE)
_GOES_ON = re.compile(
    r"(?:from|where|and|or|group|order|having|limit|(?:inner |left |right |outer |cross )*join|on|union)\b|[),]",
    re.IGNORECASE,
)
_IS_OPEN = re.compile(r"(?:\b(?:select|distinct|from|where|and|or|by|on|having)|[=<>,(])\s*$", re.IGNORECASE)


def find_sql(text: str) -> str | None:
    """Return a SELECT statement on one line, from the last code block that has one, else from the text itself."""
    blocks = [block for block in _BLOCK.findall(text) if _SELECT.search(block)]
    if not blocks:
        return _find_statement(text, in_block=False)
    uncommented = [line for line in blocks[-1].splitlines() if not line.lstrip().startswith(("--", "#"))]
    return _find_statement("\n".join(uncommented), in_block=True)


def _find_statement(text: str, in_block: bool) -> str | None:
    start = _SELECT_LINE.search(text) or _SELECT.search(text)
    if start is None:
        return None
    begin = start.end() - len("select")
    lines = text[begin:].splitlines()
    kept = [lines[0].rstrip()]
    for line in lines[1:]:
        ended = kept[-1].endswith(";") or not line.strip()
        if ended or not (in_block or _GOES_ON.match(line.strip()) or _IS_OPEN.search(kept[-1])):
            break
        kept.append(line.strip())
    statement = " ".join(kept)
    if statement.endswith(";"):
        statement = statement.removesuffix(";").rstrip()
    before = text[:begin].rpartition("\n")[2].strip()
    for mark in ("**", "`", '"', "'"):
        if before.endswith(mark) and statement.endswith(mark):  # a pair of marks around the statement
            return statement.removesuffix(mark).rstrip().removesuffix(";").rstrip()
    return statement


# The change of a dialogue's state

NO_CHANGE = "None"
"""The answer of a turn that changes nothing."""

_NONE = re.compile(r"(?:none|no changes?|nothing|n/?a|no change in (?:the )?state)", re.IGNORECASE)
_REQUESTS = re.compile(r"(?:user )?request(?:s|ed)?(?: slots?)?|asks? for", re.IGNORECASE)
_GOALS = re.compile(r"informs?(?: slots?)?|goals?|change(?: in state)?|state", re.IGNORECASE)
_SLOT_WORDS = 3
"""An unknown slot has at most this many words."""
_VALUE_WORDS = 6
"""A value has at most this many words: longer ones are sentences."""


@dataclass
class _Change:
    """The part of a change that has been read so far."""

    goals: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    says_none: bool = False


def find_state(text: str, slots: Sequence[str]) -> str | None:
    """Return the change in its canonical form; None if no line gives one. If `slots` are given, others are ignored."""
    known = {slot.casefold() for slot in slots}
    read: list[_Change] = []
    for line in lines_of(text):
        change = _read_line(unwrapped(BULLET.sub("", line), quotes=True), known)
        if change is not None:
            read.append(change)
        elif read:
            break
    if not read:
        return None
    goals = ", ".join(goal for change in read for goal in change.goals)
    requests = ", ".join(request for change in read for request in change.requests)
    if not goals and not requests:
        return NO_CHANGE
    return f"{goals}; {requests}" if requests else f"{goals};"


def _read_line(line: str, known: set[str]) -> _Change | None:
    """Read the change that a line gives; None if any part of it is something else."""
    if _NONE.fullmatch(line.strip(" .;")):
        return _Change(says_none=True)
    change, after_semicolon, asking = _Change(), False, False
    for part in line.rstrip(".").split(";"):
        for piece in filter(None, (piece.strip() for piece in part.split(","))):
            slot, colon, value = (text.strip(" *`\"'") for text in piece.partition(":"))
            if colon and _REQUESTS.fullmatch(slot):
                slot, colon, asking = value, "", True
            elif colon and _GOALS.fullmatch(slot):
                slot, colon, value = (text.strip() for text in value.partition(":"))
            if _NONE.fullmatch(slot) or (colon and _NONE.fullmatch(value)):
                change.says_none = True
            elif colon and _is_slot(slot, known) and _is_value(value):
                change.goals.append(f"{slot}: {value}")
            elif not colon and (asking or after_semicolon or known) and _is_slot(slot, known):
                change.requests.append(slot)
            else:
                return None
        after_semicolon = True
    return change if change.goals or change.requests or change.says_none else None


def _is_slot(text: str, known: set[str]) -> bool:
    return text.casefold() in known if known else 0 < len(text.split()) <= _SLOT_WORDS


def _is_value(text: str) -> bool:
    return 0 < len(text.split()) <= _VALUE_WORDS and ":" not in text


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
    refused = ["refused"] if form.kind in _BY_KIND and is_refusal(text) else []
    return answer, [*rules, *own, *refused]


def _read_form(text: str, form: AnswerForm, question: str) -> _Found | None:
    """Read the answer by the rule for its kind; None if the text does not have that form."""
    if form.kind in _BY_KIND:
        return _BY_KIND[form.kind](text, form)
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


_BY_KIND: Mapping[Kind, Callable[[str, AnswerForm], _Found]] = {
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
