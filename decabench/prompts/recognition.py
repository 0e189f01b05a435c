"""Recognise structured answers: one of a few labels, an SQL query, or a change of a dialogue's state."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from decabench.tasks import AnswerForm

__all__ = [
    "BULLET",
    "NO_CHANGE",
    "find_label",
    "find_sql",
    "find_state",
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
