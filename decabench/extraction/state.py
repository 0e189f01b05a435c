"""A change of a dialogue's state in what a model says: `slot: value, slot: value; request, request`, or None."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from decabench.extraction.cleaning import lines_of, unwrapped

__all__ = ["NO_CHANGE", "find_state"]

NO_CHANGE = "None"
"""What stands for a turn that changes nothing."""

_NONE = re.compile(r"(?:none|no changes?|nothing|n/?a|no change in (?:the )?state)", re.IGNORECASE)
_BULLET = re.compile(r"^(?:[-*•]|\d+[.)])\s+")
_REQUESTS = re.compile(r"(?:user )?request(?:s|ed)?(?: slots?)?|asks? for", re.IGNORECASE)
_GOALS = re.compile(r"informs?(?: slots?)?|goals?|change(?: in state)?|state", re.IGNORECASE)
_WORDS = 3
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
    return text.casefold() in known if known else 0 < len(text.split()) <= _WORDS
