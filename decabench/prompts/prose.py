"""The protocol `prose`: find the answer in free text, for models that don't write `<answer>` tags.

Each form of answer has its own reader. A reader tries the text after the last `Answer:`, and then the whole text. If it
finds no answer, the text is unparseable, and its first line is kept as a best guess.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from decabench.prompts.enforced import read_json
from decabench.prompts.items import find_items
from decabench.prompts.labels import find_mentions, labels_for, match_label
from decabench.prompts.markup import (
    BOXED,
    BULLET,
    REMARK,
    example_start,
    find_json,
    is_refusal,
    lines_of,
    says_nothing,
    unwrapped,
)
from decabench.prompts.tagged import (
    IN_SENTENCES,
    NUMBER,
    QUERY_GOES_ON,
    introductions,
    plain_number,
    read_state,
    without_scale,
)
from decabench.tasks import AnswerForm
from decabench.text import bare


def find_in_prose(
    text: str, form: AnswerForm, question: str = "", context: str = "", is_finished: bool = True
) -> tuple[str, list[str]]:
    """Return the answer in a text whose reasoning has been removed, and the rules that found it.

    The last rule is `unparseable` or `refused` if no answer was found.
    """
    said = _before_stop(text, form)
    rules = ["stop"] if said != text else []
    tagged = [inner.strip() for _, inner in _TAGGED.findall(said) if inner.strip()]
    inner = tagged[-1] if tagged else said  # the last tag, such as `<answer>…</answer>`
    rules += ["unwrapped"] if inner != said else []
    if (value := _from_json(inner, form)) is not None:
        inner, rules = value, [*rules, "json"]
    if next(iter(lines_of(inner)), "").startswith("{") and find_json(inner) is None:  # broken JSON
        return _first_line(said, form), [*rules, "unparseable"]
    for part in dict.fromkeys((_after_marker(inner, form), inner)):
        if (value := _from_json(part, form)) is not None:
            part = value
        answer = _read(part, form, question, context, is_finished)
        if answer is not None and bare(answer):
            rules += ["marker"] if part != inner else []
            rules += [form.kind] if answer != part else []
            is_refused = form.kind in ("span", "line", "text") and is_refusal(said)
            return answer, [*rules, "refused"] if is_refused else rules
    rule = "refused" if is_refusal(said, loosely=True) else "unparseable"
    return _first_line(said, form), [*rules, rule]


def _read(text: str, form: AnswerForm, question: str, context: str, is_finished: bool) -> str | None:
    match form.kind:
        case "span" | "line" | "text":
            return _free_text(text, form)
        case "label":
            return find_label(text, labels_for(form, question), question, is_finished)
        case "number":
            return find_number(text, form.scale)
        case "sql":
            return _find_query(text)
        case "state":
            return _state(text, form)
        case _:
            return find_items(text, form.kind, form.labels, context.split())


# Text around the answer


def _before_stop(text: str, form: AnswerForm) -> str:
    """Return the text up to the point where the model begins to invent another example.

    If the text begins with a copy of the prompt, the result starts after the prompt's `Answer:`.
    """
    stop, begin = example_start(form.stop), 0
    if form.stop and stop.match(text):
        if (marked := _marker(form).search(text)) is None:
            return "\n".join(line for line in text.splitlines() if not stop.match(line)).strip()
        begin = marked.end()
    ends = (match.start() for match in stop.finditer(text, begin))
    return text[begin : next((end for end in ends if text[begin:end].strip()), len(text))].strip()


_TAG_NAMES = (
    "final_answer|answer|output|response|result|label|span|translation|summary|sql|query|state|solution"
)
_TAGGED = re.compile(rf"<({_TAG_NAMES})>(.*?)(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)


_KEYS = "final answer,answer,label,sentiment,prediction,output,translation,summary,text".split(",")


def _from_json(text: str, form: AnswerForm) -> str | None:
    """Return the only value of a JSON text, or the value of a key such as `answer`; None if there is none."""
    if form.kind in ("state", "tags", "tree"):  # their readers parse JSON themselves
        return None
    value = find_json(text)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        value = value[0]
    while isinstance(value, dict):
        keys = {str(key).casefold().replace("_", " "): found for key, found in value.items()}
        named = next((key for key in (*_KEYS, *introductions(form)) if key in keys), "")
        only = next(iter(keys.values())) if len(keys) == 1 else ""
        value = keys.get(named, only)
        if value is None:
            return _word_for_nothing(form)
    if value == []:
        return _word_for_nothing(form)
    if isinstance(value, list) and value and all(isinstance(item, str | int | float) for item in value):
        value = (" " if form.kind == "text" else ", ").join(map(str, value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value.strip() or None if isinstance(value, str) else None


_ANSWER = (
    r"(?:so|therefore|thus|hence)?,?[ ]*(?:the[ ]|my[ ])?(?:final[ ]|correct[ ]|best[ ])?answer(?:[ ]is)?"
)
_SAID = (
    r"(?:^|(?<=[.!?,;])\s+)(?:so|therefore|thus|hence|and)?,?[ ]*"
    r"(?:the|my)[ ](?:final[ ]|correct[ ]|best[ ])?answer[ ](?:is|would be)[:\uff1a]?\s+"
    r"|(?<=[.!?])\s+(?:final[ ])?answer:\s+"
)


def _marker(form: AnswerForm) -> re.Pattern[str]:
    """Return a pattern for a marker that introduces the answer, such as `Answer:` or a heading, at the start of a line.

    For spans, labels, numbers, queries and states, `the answer is` also counts as a marker.
    """
    marker = "|".join([_ANSWER, *map(re.escape, introductions(form))])
    said = _SAID if form.kind in IN_SENTENCES else "(?!)"
    return re.compile(
        rf"^[ \t>*_#`-]*(?:{marker})[*_]*[ ]?[:\uff1a][*_]*"
        rf"|\A[ \t>*_#`-]*(?:ans|output|response)[*_]*[ ]?[:\uff1a][*_]*"
        rf"|^[ \t]*(?:#+[ ]*[*_]{{0,2}}|\*\*)(?:{marker})[*_]*[ \t]*$|(?P<said>{said})",
        re.IGNORECASE | re.MULTILINE,
    )


def _after_marker(text: str, form: AnswerForm) -> str:
    r"""Return the text in the last \boxed{}, or after the last marker. Without either, return the whole text."""
    if form.kind in IN_SENTENCES and (boxed := BOXED.findall(text)) and boxed[-1].strip():
        return str(boxed[-1]).strip()
    for found in reversed([*_marker(form).finditer(text)]):
        if not (rest := bare(text[found.end() :])):
            continue
        line, _, others = rest.partition("\n")
        if line.count("**") == 1 and line.endswith("**"):  # as in `**Answer: x**`
            rest = f"{line.removesuffix('**')}\n{others}".strip()
        return unwrapped(rest.rstrip("."), quotes=True) if found["said"] else rest
    return text


_LEAD_IN = re.compile(
    r"#{1,6}\s+\S.*|(?:sure|certainly|of course|absolutely|got it|great question)[!.,]*|[a-z].{0,160}[:\uff1a]",
    re.IGNORECASE,
)
"""Matches a line before the answer, such as `Sure!`, but not `Okay.`, which can itself be an answer in German."""
_HERE_IS = re.compile(
    r"(?:(?:sure|certainly|of course)[,.!]+\s+)?here(?:['\u2019]s| is| are)\s[^:\n]{1,80}[:\uff1a]\s+"
    r"|(?:sure|certainly|of course|okay|ok)!\s+",
    re.IGNORECASE,
)
"""Matches an introduction on the same line as the answer, such as `Sure! Here is the answer: `."""


def _answer_lines(text: str) -> list[str]:
    lines = lines_of(text) or [text]
    while len(lines) > 1 and REMARK.match(lines[-1]):
        lines.pop()
    while len(lines) > 1 and _LEAD_IN.fullmatch(lines[0].strip("*_ ")):
        lines.pop(0)
    opening = _HERE_IS.match(lines[0])
    return [(lines[0][opening.end() :] if opening else "") or lines[0], *lines[1:]]


# Spans, sentences and texts


def _first_line(text: str, form: AnswerForm) -> str:
    first, *others = _answer_lines(text)
    # A single line isn't an item of a list, and a span may begin with a number.
    return unwrapped(BULLET.sub("", first) if others else first, form.unquote)


def _free_text(text: str, form: AnswerForm) -> str:
    """Return the answer in free text.

    For the kind `text`, all lines are joined. For `line`, the first line is returned. For `span`, the answer is the
    items of a list, the only bold line or, failing that, the first line.
    """
    lines = _answer_lines(text)
    is_list = len(lines) > 1 and all(map(BULLET.match, lines))
    items = [BULLET.sub("", line) for line in lines] if is_list else lines
    if form.kind == "text":
        return unwrapped(" ".join(items), form.unquote)
    line = _first_line(text, form)
    if form.kind == "line":
        return line
    if is_list:
        return ", ".join(unwrapped(item, form.unquote) for item in items)
    bold = [line for line in lines if line.startswith("**") and unwrapped(line, False) != line]
    if len(lines) > 1 and len(bold) == 1 and not bold[0].endswith(":**"):
        return unwrapped(bold[0], form.unquote)
    if (word := _word_for_nothing(form)) and says_nothing(line):
        return word
    return find_label(line, form.labels) or line


def _word_for_nothing(form: AnswerForm) -> str | None:
    return next((word for word in ("unanswerable", "None") if word in form.labels), None)


# Labels

_LONGEST = 10_000
"""The maximum length of a line, in characters.

Longer lines are skipped because finding all labels in them would take minutes.
"""
_DOUBTS = re.compile(
    r"\b(?:not|no|never|neither|nor|without|nothing|none|cannot|hardly|rather|instead|unless|if|whether|while|although"
    r"|would|could|should|might|may|must|lacks?|lacking|fails?|failed|refus\w+|despite|word|words|phrase|far|first"
    r"|seems?|initially|hard|difficult|want\w*|hop\w+|expect\w*|suppos\w+|less|anything|ruled?)\b|n['\u2019]t\b|\?",
    re.IGNORECASE,
)
"""Words that may negate the label in a sentence."""
_ENDS = re.compile(r"\s*(?:[!;)\]\n]|\.(?!\d)|[–—-]\s|,(?!\d|\s*(?:or|and)\b)|$)")
_EXPLAINS = re.compile(
    r"\s*(?:[.!;)\n]|[–—-]\s|,\s(?:because|since|as|given|so|not|rather)\b)", re.IGNORECASE
)
_CONCLUDES = re.compile(
    r"\b(?:wait|actually|instead|but|however|correct\w*|final\w*|therefore|overall)\b", re.IGNORECASE
)
_HEAD = re.compile(
    r"\W*[^\W\d_]+(?:[ _][^\W\d_]+){0,3}(?:[ ]\([^()]*\))?[*_\"'`]*\s{0,3}[:=\uff1a]\s*"
    r"|\W*(?:option\s+)?(?:[A-E]|\d)\s*[).:–-]\W*\s",
    re.IGNORECASE,
)
"""A heading or letter before a label, such as `Sentiment:` or `(B)`."""
_UNCHECKED = re.compile(r"[-*\s]*\[\s?\]\s")
"""An unchecked box in a list."""
_WEAK = frozenset({"yes", "no", "maybe", "true", "false", "unknown", "a", "i"})
"""Labels that are also very common words. They aren't recognized within a sentence."""


def find_label(text: str, labels: Sequence[str], question: str = "", is_finished: bool = True) -> str | None:
    """Return the label stated in a text, or None if it is missing, ambiguous or negated.

    A label counts if it is a whole line, optionally after a heading, or the beginning of the first
    line. If there is no such label, a label within the first or last line counts, unless the line has
    another label or a word that may negate it. A label within a line doesn't count in a truncated
    text, which might have continued with the opposite.
    """
    if question and text.casefold().startswith(question.casefold()) and text[len(question) :].strip():
        text = text[len(question) :]
    if whole := match_label(text, labels):
        return whole
    lines = [line for line in lines_of(text) if len(line) <= _LONGEST and not _UNCHECKED.match(line)]
    while len(lines) > 1 and REMARK.match(lines[-1]):
        lines.pop()
    if not lines or not labels:
        return None
    stated = {label for line in lines if (label := _whole_line(line, labels))}
    if not stated and (first := _opening(lines[0], labels)):
        # If the text lists the options, there are several labels.
        stated = {first, *(label for line in lines[1:] if (label := _opening(line, labels)))}
    if stated:
        corrections = (line for line in lines[1:] if _CONCLUDES.search(line))
        stated.update(label for line in corrections for _, _, label in find_mentions(line, labels))
    elif is_finished:
        for line in {lines[0], lines[-1]}:
            named = {label for _, _, label in find_mentions(line, labels)}
            if len(named) == 1 and _WEAK.isdisjoint(map(str.casefold, named)) and not _DOUBTS.search(line):
                stated |= named
    return stated.pop() if len(stated) == 1 else None


def _whole_line(line: str, labels: Sequence[str]) -> str | None:
    """Return the label if a line consists of a label, optionally after a heading, or None otherwise."""
    head = _HEAD.match(line)
    if head is None or find_mentions(head.group(), labels):
        return match_label(line, labels)
    return match_label(line, labels) or match_label(line[head.end() :], labels)


def _opening(line: str, labels: Sequence[str]) -> str | None:
    """Return the label at the start of a line, before punctuation. Other labels may follow in an explanation."""
    line = line.lstrip("*_`\"'\u201c\u201d\u2018\u2019 ")
    found = find_mentions(line, labels)
    if not found or found[0][0]:
        return None
    rest = line[found[0][1] :].lstrip("*_`\"'\u201d")
    is_alone = len({label for _, _, label in found}) == 1
    is_explained = _EXPLAINS.match(rest) and not _CONCLUDES.search(rest)
    return found[0][2] if _ENDS.match(rest) and (is_alone or is_explained) else None


# Numbers

_HAS_WORDS = re.compile(r"[^\W\d_]{2}")


def find_number(text: str, scale: tuple[float, float] | None = None) -> str | None:
    """Return the number in a text, or None if there is no number or if several numbers contradict each other.

    Only the first and last lines that contain a number are read, or only the first if it has no words.
    A scale such as `out of 5` is ignored, unless it differs from the task's scale. `1,500` is read as
    1500.
    """

    lines = [re.sub(r"(?i)\b(?:minus|negative)\s+(?=\.?\d)", "-", line) for line in lines_of(text)]
    lines = [line for line in (without_scale(line, scale) for line in lines) if NUMBER.search(line)]
    found: set[str] = set()
    for line in lines[:1] + lines[-1:]:
        found.update(map(plain_number, NUMBER.findall(line)))
        if not _HAS_WORDS.search(line):
            break  # the line has only a number, so the rest of the text is an explanation
    return found.pop() if len(found) == 1 else None


# Queries

_BLOCK = re.compile(r"```(?:\w*[ \t]*\n|sql\b[ \t]*)?(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_SELECT = re.compile(
    r"^[ \t>*`\"'(-]*(?P<line>select\b)|(?<=[:`\"'*\uff1a])\s*(?P<quoted>select\b)(?=[^\n]*\bfrom\b)"
    r"|\b(?P<capitals>(?-i:SELECT)\b)",
    re.IGNORECASE | re.MULTILINE,
)
"""The start of a query. Within a sentence, `select` must be in capitals, or follow a colon or quotation mark."""


def _find_query(text: str) -> str | None:
    """Return a SELECT statement as a single line, from the last code block that contains one or from the text."""
    blocks = [block for block in _BLOCK.findall(text) if re.search(r"\bselect\b", block, re.IGNORECASE)]
    part = re.sub(r"^[ \t]*(?:--|#).*\n?", "", blocks[-1], flags=re.MULTILINE) if blocks else text
    starts = list(_SELECT.finditer(part))
    found = next((match for kind in _SELECT.groupindex for match in starts if match[kind]), None)
    if found is None:
        return None
    begin = found.start(found.lastgroup or 0)
    before = part[:begin].rstrip()
    if before.endswith("("):  # a subquery, or one of several queries
        return None
    query, *others = part[begin:].splitlines()
    for line in map(str.strip, others):
        if not line or query.endswith(";") or not (blocks or QUERY_GOES_ON.match(line)):
            break
        query = f"{query.rstrip()} {line}"
    mark = next((mark for mark in ("**", "`", '"', "'") if before.endswith(mark)), "")
    if mark and (quoted := re.match(rf"(.*?\bfrom\s.+?){re.escape(mark)}(?![\w`])", query, re.IGNORECASE)):
        query = quoted[1]
    return query.rstrip(" ;")


# Dialogue states


def _state(text: str, form: AnswerForm) -> str | None:
    """Return the state change in a text, or None.

    The state change must make up the whole text or exactly one of its lines."""
    value = find_json(text)
    said = read_json(json.dumps(value), "state") if isinstance(value, dict) else text
    if said is not None and (state := read_state(said, form)):
        return state
    read = [(line, state) for line in lines_of(text) if (state := read_state(line, form))]
    found = [state for line, state in read if ";" in line or not state.startswith(";")]
    return found[0] if len(found) == 1 else None
