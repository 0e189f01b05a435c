"""A change of a dialogue's state in what a model says: `slot: value, slot: value; request, request`, or None."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

__all__ = [
    "EXTRACTION_VERSION",
    "KINDS",
    "NO_CHANGE",
    "AnswerForm",
    "Extracted",
    "Kind",
    "after_marker",
    "find_label",
    "find_sql",
    "find_state",
    "labels_for",
    "lines_of",
    "options",
    "unwrapped",
    "without_lead_in",
    "without_reasoning",
]

# ---- form

EXTRACTION_VERSION = 1
"""Raised whenever the same raw text would give another answer."""

Kind = Literal["raw", "span", "line", "text", "label", "sql", "state"]

KINDS: tuple[Kind, ...] = get_args(Kind)
"""raw: as it is. span: words on one line. line: a sentence on one line. text: all of it. label: one of a few.
sql: a SELECT. state: `slot: value, slot: value; request, request`, or None."""


@dataclass(frozen=True)
class AnswerForm:
    """How the answer to a task looks, so that it can be found in what a model says."""

    kind: Kind = "span"
    """One of `KINDS`."""
    labels: tuple[str, ...] = ()
    """label: the labels. state: the slots. span: answers that stand for a whole line, as `unanswerable` does."""
    labels_from_question: bool = False
    """label: the question names its own (`Bob or Charlie?`); `labels` serve where it does not."""
    markers: tuple[str, ...] = ()
    """What may introduce an answer, beside `Answer:` and its kin: `Summary:`."""
    unquote: bool = False
    """span, line: quotation marks around all of it are taken away; not where an answer may be a quotation."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """An answer, and the rules that made it."""

    answer: str
    """The answer; the best effort where the form was not found."""
    rule: str
    """Rules in the order applied, joined with `+`; the last may be `empty`, `unparseable` or `refused`."""


# ---- cleaning

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


# ---- labels

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
_NEAR = 80
"""How many characters before a label may deny it."""
_ARTICLE = re.compile(r"^(?:an?|the)\s+")
_WORDS = re.compile(r"[^\W_](?:.*[^\W_])?", re.DOTALL)
_ENDS = re.compile(r"\s*(?:[.!;:)\]\n]|[–—-]\s|,(?!\s*(?:or|and)\b)|$)")


def labels_for(form: AnswerForm, question: str) -> tuple[str, ...]:
    """The labels among which a question asks to choose."""
    if not form.labels_from_question or (form.labels and all(_mentions(question, form.labels))):
        return form.labels
    return options(question) or form.labels


def _mentions(text: str, labels: Sequence[str]) -> list[bool]:
    return [bool(_pattern([label]).search(text)) for label in labels]


def options(question: str) -> tuple[str, ...]:
    """What a question gives to choose from at its end: `Who? Bob or Charlie?`, `-- yes, no, or maybe?`."""
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


def _key(text: str) -> str:
    """What two spellings of a label share: no case, no marks around it, no article."""
    words = _WORDS.search(text)
    return _ARTICLE.sub("", " ".join(words.group().casefold().split())) if words else text.strip()


def _pattern(labels: Sequence[str]) -> re.Pattern[str]:
    longest_first = sorted(map(_key, labels), key=len, reverse=True)
    words = "|".join(re.escape(label).replace(r"\ ", r"\s+") for label in longest_first)
    return re.compile(rf"(?<![\w-])(?:{words})(?![\w-]|['\u2019]\w)", re.IGNORECASE)


def find_label(text: str, labels: Sequence[str]) -> str | None:
    """The label that a text gives as its answer; None where it gives none, several, or one that it denies."""
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
    found = {_only(line, pattern, by_key) for line in (lines[0], lines[-1])} - {None}
    return found.pop() if len(found) == 1 else None


def _only(line: str, pattern: re.Pattern[str], by_key: dict[str, str]) -> str | None:
    """The one label of a line, where no other is there and none is denied."""
    matches = list(pattern.finditer(line))
    if any(_NEGATED.search(line[max(0, match.start() - _NEAR) : match.start()]) for match in matches):
        return None
    found = {by_key[_key(match.group())] for match in matches}
    return found.pop() if len(found) == 1 else None


# ---- sql

_BLOCK = re.compile(r"```(?:\w+)?[ \t]*\n?(.*?)(?:```|\Z)", re.DOTALL)
_SELECT = re.compile(r"\bselect\b", re.IGNORECASE)
_SELECT_LINE = re.compile(r"^[ \t>*`\"'-]*\bselect\b", re.IGNORECASE | re.MULTILINE)
_GOES_ON = re.compile(
    r"(?:from|where|and|or|group|order|having|limit|(?:inner |left |right |outer |cross )*join|on|union)\b|[),]",
    re.IGNORECASE,
)
_IS_OPEN = re.compile(r"(?:\b(?:select|distinct|from|where|and|or|by|on|having)|[=<>,(])\s*$", re.IGNORECASE)
_WRAPS__sql = ("**", "`", '"', "'")


def find_sql(text: str) -> str | None:
    """The statement on one line, from SELECT to its end; of code blocks, the last that has one. None where none is."""
    blocks = [block for block in _BLOCK.findall(text) if _SELECT.search(block)]
    if blocks:
        return _statement(_uncommented(blocks[-1]), in_block=True)
    return _statement(text, in_block=False)


def _uncommented(block: str) -> str:
    return "\n".join(line for line in block.splitlines() if not line.lstrip().startswith(("--", "#")))


def _statement(text: str, in_block: bool) -> str | None:
    start = _SELECT_LINE.search(text) or _SELECT.search(text)
    if start is None:
        return None
    begin = start.end() - len("select")
    before = text[:begin].rpartition("\n")[2].strip()
    lines = text[begin:].splitlines()
    kept = [lines[0].rstrip()]
    for line in lines[1:]:
        ended = kept[-1].endswith(";") or not line.strip()
        if ended or not (in_block or _GOES_ON.match(line.strip()) or _IS_OPEN.search(kept[-1])):
            break
        kept.append(line.strip())
    statement = " ".join(kept)
    statement = statement.removesuffix(";").rstrip() if statement.endswith(";") else statement
    return _without_end_of(before, statement)


def _without_end_of(before: str, statement: str) -> str:
    """Without the second of a pair of marks whose first stands before the statement."""
    for mark in _WRAPS__sql:
        if before.endswith(mark) and statement.endswith(mark):
            return statement.removesuffix(mark).rstrip().removesuffix(";").rstrip()
    return statement


# ---- state

NO_CHANGE = "None"
"""What stands for a turn that changes nothing."""

_NONE = re.compile(r"(?:none|no changes?|nothing|n/?a|no change in (?:the )?state)", re.IGNORECASE)
_BULLET = re.compile(r"^(?:[-*•]|\d+[.)])\s+")
_REQUESTS = re.compile(r"(?:user )?request(?:s|ed)?(?: slots?)?|asks? for", re.IGNORECASE)
_GOALS = re.compile(r"informs?(?: slots?)?|goals?|change(?: in state)?|state", re.IGNORECASE)
_WORDS__state = 3
"""A slot that is not known by name has no more words than this."""
_VALUE_WORDS = 6
"""Nor a value: longer ones are sentences."""


@dataclass
class _Change:
    """What was read so far."""

    goals: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    says_none: bool = False


def find_state(text: str, slots: Sequence[str]) -> str | None:
    """The change in its one form; None where no line gives one. With `slots`, no other slot counts."""
    known, change, begun = {slot.casefold() for slot in slots}, _Change(), False
    for line in lines_of(text):
        read = _read_line(unwrapped(_BULLET.sub("", line), quotes=True), known)
        if read is None and begun:
            break
        if read is not None:
            begun = True
            change.goals += read.goals
            change.requests += read.requests
            change.says_none |= read.says_none
    if not begun:
        return None
    goals, requests = ", ".join(change.goals), ", ".join(change.requests)
    if not goals and not requests:
        return NO_CHANGE
    return f"{goals}; {requests}" if requests else f"{goals};"


def _read_line(line: str, known: set[str]) -> _Change | None:
    """The change that a line gives; None where any piece of it is something else."""
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
            elif (
                colon
                and _is_slot(slot, known)
                and 0 < len(value.split()) <= _VALUE_WORDS
                and ":" not in value
            ):
                change.goals.append(f"{slot}: {value}")
            elif not colon and (asking or after_semicolon or known) and _is_slot(slot, known):
                change.requests.append(slot)
            else:
                return None
        after_semicolon = True
    return change if change.goals or change.requests or change.says_none else None


def _is_slot(text: str, known: set[str]) -> bool:
    return text.casefold() in known if known else 0 < len(text.split()) <= _WORDS__state
