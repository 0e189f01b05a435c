"""Read answers inside the tag that the prompt asked for, or texts that contain nothing but an answer.

Prose isn't searched. Any other text is unparseable and results in an empty answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from decabench.prompts.enforced import read_json
from decabench.prompts.items import find_items
from decabench.prompts.labels import labels_for, match_label
from decabench.prompts.markup import is_refusal, lines_of, unwrapped
from decabench.tasks import AnswerForm
from decabench.text import bare

__all__ = [
    "CLOSING",
    "NO_CHANGE",
    "OPENING",
    "TAG_REQUEST",
    "is_in_context",
    "read_state",
    "read_tagged",
]

OPENING, CLOSING = "<answer>", "</answer>"

TAG_REQUEST = f"Write the answer itself, and nothing else, between tags: {OPENING}…{CLOSING}"
"""The sentence in a prompt that asks for the tag."""

_COMPLETE = re.compile(rf"{OPENING}((?:(?!{OPENING}).)*?){CLOSING}", re.DOTALL | re.IGNORECASE)
_OPEN = re.compile(rf"{OPENING}((?:(?!</?answer>).)*)\Z", re.DOTALL | re.IGNORECASE)
_PLACEHOLDER = re.compile(r"[\s.\u2026]*")


def read_tagged(
    text: str, form: AnswerForm, question: str, context: str, is_finished: bool, is_opened: bool
) -> tuple[str, str]:
    """Return the answer in a text without reasoning, and the rule that found it.

    The last complete tag is used. In a finished text, an unclosed tag extends to the end. If the prompt ended
    with an opening tag (`is_opened`), the text continues it. JSON in the task's schema is accepted too.
    """
    if (value := read_json(text, form.kind)) is not None:
        is_list = form.kind in ("tags", "tree", "state")
        answer = value if is_list else _answer_in(bare(value), form, question, context, is_tagged=True)
        return (answer, "json") if answer else ("", "json+unparseable")
    if is_opened and OPENING not in text.casefold():
        text = f"{OPENING}{text}"
    found = [inner for inner in _COMPLETE.findall(text) if not _PLACEHOLDER.fullmatch(inner)]
    if not found and is_finished and (left := _OPEN.search(text)) and not _PLACEHOLDER.fullmatch(left[1]):
        found = [left[1]]
    if found:
        answer = _answer_in(bare(found[-1]), form, question, context, is_tagged=True)
        return (answer, "tag") if answer else ("", "tag+unparseable")
    plain = bare(re.sub("</?answer>", "", text, flags=re.IGNORECASE)) if is_opened else text
    plain = _introduced(plain, form.markers)
    if answer := _answer_in(plain, form, question, context, is_tagged=False):
        return answer, "as-is" if answer == plain else form.kind
    return "", "refused" if is_refusal(text, loosely=True) else "unparseable"


def _introduced(text: str, markers: Sequence[str]) -> str:
    names = "|".join(re.escape(name.strip(" :")) for name in ("answer", *markers) if name.strip(" :"))
    return bare(re.sub(rf"\A[*_#\s]*(?:{names})[*_]*:[*_]*", "", text, flags=re.IGNORECASE))


def _answer_in(text: str, form: AnswerForm, question: str, context: str, is_tagged: bool) -> str | None:
    """Return the answer if the whole text is an answer, or None.

    Free text must be in a tag, because any introduction could be part of it.
    """
    lines = [unwrapped(line, form.kind != "span" or not is_tagged or form.unquote) for line in lines_of(text)]
    line = " ".join(lines)
    match form.kind:
        case "raw":
            return text
        case "label":
            return match_label(line, labels_for(form, question))
        case "number":
            return _number(line, form.scale)
        case "sql":
            return line.removesuffix(";").rstrip() if is_tagged else _query(text)
        case "state":
            return read_state(line, form.labels)
        case "tags" | "tree":
            return find_items(text, form.kind, form.labels, context.split())
        case "span":
            if label := match_label(line, form.labels):
                return label
            if is_tagged or is_in_context(text, context):
                return line if is_tagged else text
            return next((each for each in (line, line.rstrip(".")) if is_in_context(each, context)), None)
        case _:
            return line if is_tagged else None


def is_in_context(answer: str, context: str) -> bool:
    """Whether an answer, or every part of a comma-separated list, occurs in the context as whole words.

    Case and whitespace are ignored.
    """
    words = " ".join(context.split()).casefold()
    folded = " ".join(answer.split()).casefold()
    return bool(folded) and (_has(words, folded) or all(_has(words, part) for part in folded.split(", ")))


def _has(words: str, part: str) -> bool:
    start = words.find(part) if part else -1
    while start >= 0:
        end = start + len(part)
        glued = (words[start - 1 : start] + part[0]).isalnum() and start > 0
        if not glued and not (end < len(words) and (part[-1] + words[end]).isalnum()):
            return True
        start = words.find(part, start + 1)
    return False


_NUMBER = re.compile(r"[-+\u2212]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?")


def _number(text: str, scale: tuple[float, float] | None) -> str | None:
    number = text.rstrip(".").replace("\u2212", "-").lstrip("+")
    if not _NUMBER.fullmatch(number) or (scale and not scale[0] <= float(number) <= scale[1]):
        return None
    return number


_QUERY = re.compile(r"select\s[^();#\n]*?(?:\([^();#\n]*\)[^();#\n]*?)?\sfrom\s[^();#\n]+", re.IGNORECASE)
_GOES_ON = re.compile(r"--|/\*|[.:!?]\s+[A-Z][a-z]|[`*]")


def _query(text: str) -> str | None:
    """Return the query that makes up a text, on a single line or in a single code block, or None.

    A second sentence, a comment or a remark in parentheses would be read as part of the last value.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    is_block = len(lines) > 2 and lines[0].startswith("```") and lines[-1].strip() == "```"
    query = " ".join(line.strip() for line in (lines[1:-1] if is_block else lines)).removesuffix(";").rstrip()
    is_one = is_block or len(lines) == 1
    return query if is_one and _QUERY.fullmatch(query) and not _GOES_ON.search(query) else None


NO_CHANGE = "None"
"""The answer for a turn that changes nothing."""
_VALUE = re.compile(r"[\w'\u2019&/-]+(?:\.\w+)*(?: [\w'\u2019&/-]+(?:\.\w+)*){0,3}")
_NO_VALUE = frozenset("yes no true false none null unknown any unchanged requested asked".split())


def read_state(text: str, slots: Sequence[str]) -> str | None:
    """Return a state change in canonical form, `slot: value, slot: value; slot`, or None for any other text.

    Without `slots`, any name is accepted as a slot. Words such as `yes` or `unknown` are not values.
    """
    if match_label(text, (NO_CHANGE,)):
        return NO_CHANGE
    goals, _, requests = text.rstrip(".").partition(";")
    known = {slot.casefold(): slot for slot in slots}
    constraints, asked = [], []
    for item in filter(None, map(str.strip, goals.split(","))):
        slot, colon, value = (part.strip() for part in item.partition(":"))
        if not colon or not _VALUE.fullmatch(value) or value.casefold() in _NO_VALUE:
            return None
        if not (slot if not slots else known.get(slot.casefold())):
            return None
        constraints.append(f"{slot}: {value}")
    for item in filter(None, map(str.strip, requests.split(","))):
        if (not slots and not _VALUE.fullmatch(item)) or (slots and item.casefold() not in known):
            return None
        asked.append(item)
    if not constraints and not asked:
        return None
    return f"{', '.join(constraints)};{' ' * bool(asked)}{', '.join(asked)}"
