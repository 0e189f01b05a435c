"""Extract answers from a language model's output, with rules for each form of answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from decabench.prompts.clutter import (
    BULLET,
    after_marker,
    before_stop,
    find_json,
    is_refusal,
    is_remark,
    lines_of,
    unwrapped,
    without_lead_in,
    without_tags,
)
from decabench.prompts.labels import find_label, labels_for
from decabench.prompts.sequences import find_items, find_number
from decabench.prompts.tagged import find_state, read_tagged
from decabench.prompts.turns import read_turn
from decabench.tasks import AnswerForm, Kind, Label, Number, Output
from decabench.text import bare, well_formed

__all__ = ["EXTRACTION_VERSION", "Extracted", "Protocol", "extract", "settle_form", "silent_rule"]

EXTRACTION_VERSION = 8
"""Incremented whenever the same raw text would result in a different answer."""

Protocol = Literal["tag", "choices", "json", "prose"]
"""How to ask a language model for an answer and read its reply.

tag: the prompt asks for `<answer>…</answer>`. choices: the most likely label is chosen. json: the server
enforces a schema. prose: the answer is found in free text.
"""


@dataclass(frozen=True, slots=True)
class Extracted:
    """An answer and the rules that produced it."""

    answer: str
    """The answer, or a best guess if none was recognized."""
    rule: str
    """Rules in the order applied, joined with `+`.

    The last rule may be `empty`, `unparseable` or `refused`.
    """


def settle_form(form: AnswerForm, output: Output, words: Mapping[str, str] | None = None) -> AnswerForm:
    """Return the form with the labels and scale of a task's output.

    This way, labels don't have to be inferred from the questions. `words` maps each label to the word that replaces it
    in a variant. Labels from a template are kept.
    """
    if form.kind == "number" and isinstance(output, Number):
        return replace(form, scale=(output.low, output.high))
    if form.kind != "label" or not isinstance(output, Label) or not output.names:
        return form
    labels = tuple((words or {}).get(label, label) for label in output.names)
    if set(form.labels) not in (set(output.names), set(labels)):
        return form
    return replace(form, labels=labels, labels_from_question=False)


def extract(
    raw: str,
    form: AnswerForm,
    question: str = "",
    finish: str = "stop",
    context: str = "",
    protocol: Protocol = "prose",
    is_opened: bool = False,
) -> Extracted:
    """Extract the answer from a raw text. Never raises, and the same input always gives the same answer.

    `finish` says how the answer ended. A `refused` answer becomes empty because a filter might cut a text off
    right after a correct word. Tags and heads are aligned with the words of the context. `is_opened` says
    that the prompt ended with the opening tag of the `tag` protocol.
    """
    if finish == "refused":
        return Extracted("", "refused")
    text = bare(raw)
    if not text:
        return Extracted("", "empty")
    reading = _Reading(form, question, finish != "length", context)
    turn = read_turn(text, form.reasoning_tags, reading.finished, unwraps=protocol == "prose")
    rules = list(turn.rules)
    if turn.calls_tool and form.kind != "raw":
        return Extracted("", "+".join([*rules, "tool-call", "unparseable"]))
    if not turn.text:
        if "reasoning" not in rules:  # only special tokens
            return Extracted("", "template+empty")
        return Extracted("", "+".join([*rules[:-1], silent_rule(finish)]))
    if protocol != "prose":
        answer, rule = read_tagged(turn.text, form, question, context, reading.finished, is_opened)
        return Extracted(
            well_formed(answer), "+".join([*rules, *([rule] if rule != "as-is" else [])]) or "as-is"
        )
    said = turn.text
    if form.kind == "raw":
        return Extracted(said, "+".join(rules) or "as-is")
    kept = reading.before_stop(said)
    rules += ["stop"] if kept != said else []
    if not kept:
        return Extracted("", "+".join([*rules, "unparseable"]))
    answer, more = reading.find(kept)
    if not bare(answer) and more[-1:] not in (["unparseable"], ["refused"]):
        more = [*more, "unparseable"]
    # JSON escapes may contain half of a surrogate pair, which can't be stored
    return Extracted(well_formed(bare(answer)), "+".join([*rules, *more]) or "as-is")


def silent_rule(finish: str) -> str:
    """Return the rules for an answer that consists only of reasoning."""
    return f"reasoning+{'cut-in-reasoning' if finish == 'length' else 'reasoning-only'}+unparseable"


_Found = tuple[str, list[str]]
"""An answer and the rules that produced it."""


@dataclass(frozen=True)
class _Reading:
    form: AnswerForm
    question: str
    finished: bool
    context: str

    def before_stop(self, text: str) -> str:
        return before_stop(text, self.form.stop, self.form.markers, lambda part: self._says(part))

    def _says(self, part: str) -> bool:
        """Whether a text contains an answer, in which case any following text isn't part of it."""
        if self.form.kind in _BY_KIND:
            return len(without_lead_in([*lines_of(part), ""])) > 1
        return self.find(part)[1][-1:] not in (["unparseable"], ["refused"])

    def find(self, text: str) -> _Found:
        inner = without_tags(text)
        rules = ["unwrapped"] if inner != text else []
        if self.form.kind not in _OWN_JSON and (value := _from_json(inner, self.form)) is not None:
            inner, rules = value, ["json"]
        in_sentences = self.form.kind not in ("text", "line", "tags", "tree")
        marked = after_marker(inner, (*self.form.markers, *_NAMES.get(self.form.kind, ())), in_sentences)
        if marked != inner and self.form.kind not in _OWN_JSON:
            value = _from_json(marked, self.form)
            marked = marked if value is None else value
        found = self._read(marked)
        own = ["marker"] if found is not None and marked != inner else []
        if found is None and marked != inner:
            found = self._read(inner)
        if found is None:
            rule = "refused" if is_refusal(text, loosely=True) else "unparseable"
            return _first_line(text, self.form)[0], [rule]
        refused = ["refused"] if self.form.kind in _BY_KIND and is_refusal(text) else []
        return found[0], [*rules, *own, *found[1], *refused]

    def _read(self, text: str) -> _Found | None:
        if self.form.kind in _BY_KIND:
            return _BY_KIND[self.form.kind](text, self.form)
        if self.form.kind in ("tags", "tree"):
            answer = find_items(text, self.form.kind, self.form.labels, self.context.split())
        elif self.form.kind == "number":
            answer = find_number(text, self.form.scale)
        elif self.form.kind == "label":
            answer = find_label(text, labels_for(self.form, self.question), self.question, self.finished)
        else:
            answer = find_sql(text) if self.form.kind == "sql" else find_state(text, self.form.labels)
        return None if answer is None else (answer, [] if answer == text else [self.form.kind])


_OWN_JSON = ("state", "tags", "tree")
"""Kinds of answers with their own rules for JSON."""
_NAMES: Mapping[Kind, Sequence[str]] = {
    "span": ("Span", "The span is", "Shortest span"),
    "line": ("Translation", "The translation is"),
    "tags": ("Tags",),
    "tree": ("Parse",),
    "number": ("Score", "Rating", "The score is"),
}
"""Phrases that models use to introduce each kind of answer, in addition to `Answer:`."""
_VALUE_KEYS = (
    *("final answer", "answer", "label", "sentiment", "classification", "class", "relation", "relationship"),
    *("prediction", "result", "output", "response", "choice", "span", "translation", "german", "summary"),
    *("sql", "query", "text", "value"),
)


def _from_json(text: str, form: AnswerForm) -> str | None:
    value = find_json(text)
    if "None" in form.labels and (value == [] or (isinstance(value, dict) and list(value.values()) == [[]])):
        return "None"
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        value = value[0]
    while isinstance(value, dict):
        keys = {str(key).casefold().replace("_", " "): found for key, found in value.items()}
        own = [marker.casefold().strip(" :") for marker in form.markers]
        named = [key for key in (*_VALUE_KEYS, *own) if key in keys]
        value = keys[named[0]] if named else next(iter(keys.values())) if len(keys) == 1 else None
        if named and value is None and "unanswerable" in form.labels:
            return "unanswerable"
    if isinstance(value, list) and value and all(isinstance(item, str | int | float) for item in value):
        value = (" " if form.kind == "text" else ", ").join(map(str, value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value.strip() or None if isinstance(value, str) else None


# Free-form answers


def _tidied(lines: list[str], form: AnswerForm) -> str:
    if len(lines) == 1:
        return unwrapped(lines[0], form.unquote)  # a span may start with a dash or number
    return unwrapped(BULLET.sub("", lines[0]), form.unquote)


def _lines(text: str) -> list[str]:
    lines = lines_of(text) or [text]
    while len(lines) > 1 and is_remark(lines[-1]):
        lines.pop()
    return without_lead_in(lines)


def _first_line(text: str, form: AnswerForm) -> _Found:
    lines = _lines(text)
    rules = [] if lines[0] == text else ["first-line"]
    answer = _tidied(lines, form)
    return answer, rules if answer == lines[0] else [*rules, "unwrapped"]


def says_nothing(line: str) -> bool:
    """Whether a line means `unanswerable`."""
    return bool(_SAYS_NOTHING.match(line)) and not _BUT.search(line)


def _span(text: str, form: AnswerForm) -> _Found:
    lines = _lines(text)
    if len(lines) > 1 and all(BULLET.match(line) for line in lines):
        return ", ".join(unwrapped(BULLET.sub("", line), form.unquote) for line in lines), ["list"]
    bold = [line for line in lines if line.startswith("**") and unwrapped(line, False) != line]
    if len(lines) > 1 and len(bold) == 1 and not unwrapped(bold[0], False).endswith(":"):
        text = bold[0]
    line, rules = _first_line(text, form)
    if "unanswerable" in form.labels and says_nothing(line):
        return "unanswerable", [*rules, "label"]
    if "None" in form.labels and _NAMES_NONE.match(line) and not _BUT.search(line):
        return "None", [*rules, "label"]
    label = find_label(line, form.labels)
    return (line, rules) if label is None or label == line else (label, [*rules, "label"])


_SAYS_NOTHING = re.compile(
    r"(?:the (?:\w+ )?(?:sentence|text|passage|context)|it) (?:does(?:n['\u2019]t| not)|never) (?:\w+ )?"
    r"(?:say|mention|specify|state|provide|contain|tell|indicate|include|give)"
    r"|(?:(?:[\w'\u2019-]+ ){1,7}?(?:is|are|was|were)(?:n['\u2019]t| not) |not )(?:\w+ly )?"
    r"(?:mentioned|specified|stated|provided|given|answerable|enough information)"
    r"(?=\W*$|[.,;:]|\s+(?:in|by|from|here)\b)"
    r"|no (?:[\w'\u2019-]+ ){1,5}(?:is|are|was|were) (?:\w+ly )?(?:mentioned|specified|stated|given|provided)\b"
    r"|(?:there is )?no (?:answer|information)\b|(?:there is )?no mention of\b"
    r"|(?:(?:this|it|the question) )?(?:cannot|can['\u2019]t) be (?:answered|determined)"
    r"|i (?:do not|don['\u2019]t) know|(?:n/a|none)\.?$",
    re.IGNORECASE,
)
"""Matches sentences that mean `unanswerable`."""
_NAMES_NONE = re.compile(
    r"(?:there (?:are|is) )?none\b(?: in the (?:sentence|text))?\.?$|n/a\.?$"
    r"|(?:the (?:sentence|text) \w+ not \w+ any|(?:there (?:are|is) )?no) (?:[\w-]+ ){0,3}"
    r"(?:entit(?:y|ies)|persons?|people|organi[sz]ations?|locations?|facilities|products|events|artworks|languages|dates"
    r"|times|percentages)\b[^,;:]{0,60}$",
    re.IGNORECASE,
)
"""Matches sentences that mean `None` for questions about entities."""
_BUT = re.compile(r"\b(?:but|however|though|although)\b", re.IGNORECASE)
"""Matches words after which an answer may follow."""


def _all_lines(text: str, form: AnswerForm) -> _Found:
    lines = _lines(text)
    if len(lines) > 1 and all(BULLET.match(line) for line in lines):
        lines = [BULLET.sub("", line) for line in lines]
    answer = unwrapped(" ".join(lines), form.unquote)
    return answer, [] if answer == text else ["text"]


_BY_KIND: Mapping[Kind, Callable[[str, AnswerForm], _Found]] = {
    "span": _span,
    "line": _first_line,
    "text": _all_lines,
}


# Queries

_BLOCK = re.compile(r"```(?:\w*[ \t]*\n|sql\b[ \t]*)?(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_SELECT = re.compile(
    r"^[ \t>*`\"'(-]*(?P<line>select\b)|(?<=[:`\"'*\uff1a])\s*(?P<quoted>select\b)(?=[^\n]*\bfrom\b)"
    r"|\b(?P<capitals>(?-i:SELECT)\b)",
    re.IGNORECASE | re.MULTILINE,
)
"""Matches the start of a query.

Within a sentence, `select` must be in capitals, or follow a colon or quotation mark.
"""
_GOES_ON = re.compile(
    r"(?:from|where|and|or|group|order|having|limit|(?:\w+ )?join|on|union)\b|[),]", re.IGNORECASE
)
_IS_OPEN = re.compile(r"(?:\b(?:select|distinct|from|where|and|or|by|on|having)|[=<>,(])\s*$", re.IGNORECASE)


def find_sql(text: str) -> str | None:
    """Return a SELECT statement as a single line.

    It is taken from the last code block that contains one, or else from the text.
    """
    blocks = [block for block in _BLOCK.findall(text) if re.search(r"\bselect\b", block, re.IGNORECASE)]
    part = blocks[-1] if blocks else text
    part = re.sub(r"^[ \t]*(?:--|#).*\n?", "", part, flags=re.MULTILINE) if blocks else part
    found = next(
        (match for kind in _SELECT.groupindex for match in _SELECT.finditer(part) if match[kind]), None
    )
    if found is None:
        return None
    begin = found.start(found.lastgroup or 0)
    before = part[:begin].rpartition("\n")[2].strip()
    if re.search(r"\bas\s*\(", part[:begin], re.IGNORECASE):  # a named subquery rather than the statement
        return None
    kept, *others = part[begin:].splitlines()
    for line in map(str.strip, others):
        if (
            not line
            or kept.endswith(";")
            or not (blocks or _GOES_ON.match(line) or _IS_OPEN.search(kept[-40:]))
        ):
            break
        kept = f"{kept.rstrip()} {line}"
    kept = kept.rstrip(" ;")
    for opening, closing in {"(": ")", "**": "**", "`": "`", '"': '"', "'": "'"}.items():
        if before.endswith(opening) and closing in kept:  # the statement itself may contain pairs
            ends = [match.start() for match in re.finditer(re.escape(closing), kept)]
            inner = [kept[:end] for end in ends if kept.count(closing, 0, end) % 2 == 0 or closing == ")"]
            whole = next((each for each in inner if re.search(r"\bfrom\s+\S", each, re.IGNORECASE)), kept)
            rest = kept[len(whole) + 1 :]
            return None if closing == ")" and rest.strip(" .;`*") else whole.rstrip(" ;")
    return kept
