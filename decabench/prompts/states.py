"""Dialogue states: the change that a text describes, in its canonical form `food: thai, area: south; phone, address`.

All of a text's constraints and requests are read, or none, because half a change would score as if it were intended.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from decabench.prompts.clutter import BULLET, find_json, is_remark, lines_of, unwrapped

__all__ = ["NO_CHANGE", "find_state"]

NO_CHANGE = "None"
"""The answer of a turn that changes nothing."""

_NONE = re.compile(
    r"(?:none|(?:there (?:is|are|was) )?no(?: state)? changes?(?: (?:in|to) (?:the )?(?:\w+ )?state)?|nothing"
    r"|n/?a|null|empty|(?:the )?(?:(?:dialogue|dialog|belief) )?state "
    r"(?:(?:does not|doesn['\u2019]t|did not|didn['\u2019]t) change"
    r"|(?:is |has |remains )?(?:the same|unchanged|not changed))"
    r"|(?:not |un)(?:specified|mentioned|stated|given|set|changed)|-|–|\[\]|\{\})",
    re.IGNORECASE,
)
_DONT_CARE = re.compile(
    r"dont[ _-]?care|(?:(?:i|user) )?(?:do(?:es)?n['\u2019]t|does ?nt|do(?:es)?[ _]not)[ _](?:really )?"
    r"(?:care|mind|matter)"
    r"|doesnt matter|no preference|not important",
    re.IGNORECASE,
)
_ANY = re.compile(
    r"any(?:thing|where)?|any (?:kind|type|cuisine|food|area|location|price(?: range)?|part of (?:the )?town)"
    r"(?: of (?:food|cuisine|price))?",
    re.IGNORECASE,
)
"""Synonyms of `dontcare`; no gold value of a constraint slot is one of them."""
_MODERATE = re.compile(r"moderate(?:ly)?(?:[ -]priced?)?", re.IGNORECASE)
_CONSTRAINED = frozenset({"food", "area", "pricerange"})
_REQUESTS = re.compile(
    r"(?:(?:the )?user(?:['\u2019]s)? )?(?:request(?:s|ed)?|ask(?:s|ed|ing)?)(?: (?:slots?|about|for|information))?"
    r"|(?:slots )?(?:to ask|asked|requested)(?: about)?|(?:only )?asked about|questions?|inquir(?:y|ies)",
    re.IGNORECASE,
)
_GOALS = re.compile(
    r"(?:(?:the )?user(?:['\u2019]s)? )?(?:informs?|informed|goals?|constraints?|preferences?|state)(?: slots?)?"
    r"(?: changes?)?"
    r"|(?:only )?constraints?|changes?(?: in (?:the )?state)?|(?:dialogue|dialog|belief) states?|slots",
    re.IGNORECASE,
)
_ACT = re.compile(r"\b(inform|request)\(([^()]*)\)", re.IGNORECASE)
_ARROW = re.compile(r"(?:(?<!\s)\s+)?(?:->|=>|\u2192)\s*")
_SLOT_WORDS = 3
"""An unknown slot has at most this many words."""
_VALUE_WORDS = 6
"""A value has at most this many words: longer ones are sentences."""
_SYNONYMS = {
    **dict.fromkeys(("pricerange", "price", "pricelevel", "budget"), "price range"),
    **dict.fromkeys(("cuisine", "cuisinetype", "foodtype", "typeoffood", "kindoffood"), "food"),
    **dict.fromkeys(("location", "partoftown"), "area"),
    **dict.fromkeys(("phonenumber", "telephone", "telephonenumber"), "phone"),
    **dict.fromkeys(("postalcode", "zipcode", "zip"), "postcode"),
    "restaurantname": "name",
}
"""Other names of slots, without spaces and marks. Each counts only if a task has its slot."""
_ASIDE = frozenset({"reasoning", "explanation", "reason", "rationale", "thought", "thoughts", "note"})
_WRAPPERS = frozenset({"answer", "final answer", "response", "output", "result"})

_Part = Literal["", "goals", "requests"]


class _NotAChangeError(Exception):
    """A part of the text is neither a constraint nor a request."""


@dataclass
class _Change:
    """A partially read change."""

    slots: Mapping[str, str]
    """The task's slots by their names without spaces and marks; empty if any name will do."""
    goals: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    says_none: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.goals or self.requests or self.says_none)

    def __str__(self) -> str:
        goals, requests = ", ".join(self.goals), ", ".join(self.requests)
        if not goals and not requests:
            return NO_CHANGE
        return f"{goals}; {requests}" if requests else f"{goals};"

    def add_goal(self, slot: str, value: str) -> None:
        """Add a constraint. Raises _NotAChangeError."""
        name = self.slot(slot)
        if name is None or not 0 < len(value.split()) <= _VALUE_WORDS or ":" in value:
            raise _NotAChangeError
        if _DONT_CARE.fullmatch(value) or (
            self.slots and _key(name) in _CONSTRAINED and _ANY.fullmatch(value)
        ):
            value = "dontcare"
        elif self.slots and _key(name) == "pricerange" and _MODERATE.fullmatch(value):
            value = value if value.casefold() == "moderate" else "moderate"
        self.goals.append(f"{name}: {value}")

    def add_request(self, slot: str) -> None:
        """Add a slot that is asked about. Raises _NotAChangeError."""
        name = self.slot(slot.rstrip("?").strip())
        if name is None:
            raise _NotAChangeError
        self.requests.append(name)

    def slot(self, text: str) -> str | None:
        """Return the task's name for a slot; None if it is not a slot."""
        if not self.slots:
            return text if 0 < len(text.split()) <= _SLOT_WORDS else None
        key = _key(text)
        key = key.removeprefix("restaurant") if key not in _SYNONYMS and key not in self.slots else key
        if key in self.slots:
            return text if text.casefold() == self.slots[key].casefold() else self.slots[key]
        return self.slots.get(_key(_SYNONYMS.get(key, "")))


def _key(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.casefold())


def find_state(text: str, slots: Sequence[str]) -> str | None:
    """Return the change in its canonical form; None if no line gives one, or if a part of it cannot be read."""
    known = {key: slot for slot in slots if (key := _key(slot))}
    try:
        value = find_json(text) or find_json(text.replace("'", '"'))
        change = _Change(known)
        if isinstance(value, dict | list):
            _read_json(value, change)
            return str(change)
        if "{" in text:
            return None  # JSON that was cut off
        _read_lines(lines_of(text), change)
    except _NotAChangeError:
        return None
    return None if change.is_empty else str(change)


def _read_lines(lines: Sequence[str], change: _Change) -> None:
    """Read the lines of a change; prose before and after it is skipped unless it contains a constraint."""
    part: _Part = ""
    has_ended = False
    for raw in lines:
        if is_remark(raw) and not change.is_empty:
            break
        line = unwrapped(BULLET.sub("", raw), quotes=True)
        if heading := _heading(line):
            part = heading
            continue
        read = _Change(change.slots)
        try:
            _read_line(line, read, part)
        except _NotAChangeError:
            announced = _split(line)[0]
            if _REQUESTS.fullmatch(announced) or _GOALS.fullmatch(announced) or _has_constraint(line, change):
                raise
            if part and BULLET.match(raw):
                raise  # an item of an announced list
            has_ended = has_ended or not change.is_empty
            continue
        if read.is_empty:
            continue
        if has_ended and not read.says_none:
            raise _NotAChangeError  # continues after prose: another answer, or the rest of this one
        change.goals += read.goals
        change.requests += read.requests
        change.says_none = change.says_none or read.says_none


def _heading(line: str) -> _Part:
    """Return the part of a change that a line without anything else announces: `**Constraints:**`."""
    name = line.strip(" *_`#").rstrip(":").strip(" *_`")
    if not line.rstrip(" *_`").endswith(":") and not line.startswith("#"):
        return ""
    return "requests" if _REQUESTS.fullmatch(name) else "goals" if _GOALS.fullmatch(name) else ""


def _has_constraint(line: str, change: _Change) -> bool:
    """Return whether a line gives a slot of the task a value."""
    names = (re.split(r"[,;.(]|\band\b", before)[-1] for before in re.split(r"[:=]", line)[:-1][:50])
    return bool(change.slots) and any(
        change.slot(" ".join(words[-count:])) is not None
        for name in names
        if (words := name.strip(" *_`\"'").split())
        for count in (1, 2)
    )


def _read_line(line: str, change: _Change, part: _Part = "") -> None:
    """Add the change that a line gives. Raises _NotAChangeError if any part of it is something else."""
    if _NONE.fullmatch(line.strip(" .;")):
        change.says_none = True
        return
    line = _ACT.sub(lambda act: f"{act[1]}: {act[2]};", _ARROW.sub(": ", line))
    for number, piece in enumerate(line.rstrip(".").split(";")):
        if number:
            part = "requests" if part != "goals" or _has_header(line) else part
        for item in filter(None, (item.strip() for item in piece.split(","))):
            part = _read_item(item, change, part)


def _has_header(line: str) -> bool:
    return bool(_GOALS.match(line.lstrip(" *_`\"'")))


def _read_item(item: str, change: _Change, part: _Part) -> _Part:
    """Add one constraint or request; return the part of the change that the next item belongs to."""
    slot, colon, value = _split(item)
    if colon and _REQUESTS.fullmatch(slot) and change.slot(slot) is None:
        part, slot, colon, value = "requests", value, "", ""
    elif colon and _GOALS.fullmatch(slot):
        part = "goals"
        slot, colon, value = _split(value)
    if not slot or _NONE.fullmatch(slot) or (colon and _NONE.fullmatch(value)):
        change.says_none = True
    elif colon and value in ("?", "requested", "asked"):
        change.add_request(slot)
    elif colon:
        change.add_goal(slot, value)
    elif part == "requests" or (change.slots and not part):
        for name in re.split(r"(?<!\s)\s+and\s+", slot.removeprefix("and ")):
            change.add_request(name)
    else:
        raise _NotAChangeError
    return part


def _split(item: str) -> tuple[str, str, str]:
    """Split `slot: value`, or `slot = value`, and remove the marks around both."""
    match = re.search(r"[:=]", item)
    if match is None:
        return item.strip(" *`\"'"), "", ""
    before, after = item[: match.start()], item[match.end() :]
    return before.strip(" *`\"'"), ":", after.strip(" *`\"'")


# JSON


def _read_json(value: Any, change: _Change, part: _Part = "") -> None:
    """Add the change that a JSON value gives. Raises _NotAChangeError."""
    if isinstance(value, str):
        _read_line(value, change, part)
    elif isinstance(value, list):
        for item in value:
            _read_json(item, change, part)
        change.says_none = change.says_none or not value
    elif isinstance(value, dict):
        keys = {str(key).casefold().replace("_", " "): found for key, found in value.items()}
        if "slot" in keys:
            _read_pair(str(keys["slot"]), keys.get("value"), change, part)
            return
        for key, found in keys.items():
            if _NONE.fullmatch(key) or key in _ASIDE:
                continue
            if key in _WRAPPERS:
                _read_json(found, change, part)
            elif _REQUESTS.fullmatch(key):
                _read_json(found or [], change, "requests")
            elif _GOALS.fullmatch(key):
                _read_json(found or [], change, "goals")
            else:
                _read_pair(key, found, change, part)
        change.says_none = change.says_none or not keys
    elif value is not None:
        raise _NotAChangeError


def _read_pair(slot: str, value: Any, change: _Change, part: _Part) -> None:
    """Add a slot with a JSON value; one without a value changes nothing."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is True or value == "?" or (part == "requests" and value in (None, "")):
        change.add_request(slot)
    elif value in (None, False, "", []) or (isinstance(value, str) and _NONE.fullmatch(value.strip())):
        if change.slot(slot) is None:
            raise _NotAChangeError
        change.says_none = True
    elif isinstance(value, str | int | float) and part != "requests":
        change.add_goal(slot, str(value).strip())
    else:
        raise _NotAChangeError
