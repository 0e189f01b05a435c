"""Find the answer in a language model's text, by the rules for the form of the answer."""

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
from decabench.prompts.labels import find_label, labels_for, match_label
from decabench.prompts.sequences import find_items, find_number
from decabench.prompts.sql import find_sql
from decabench.prompts.states import find_state
from decabench.prompts.tagged import read_tagged
from decabench.prompts.turns import before_next_turn, find_role_header, read_turn
from decabench.tasks import AnswerForm, Kind, Label, Number, Output
from decabench.text import bare, well_formed

__all__ = ["EXTRACTION_VERSION", "Extracted", "Protocol", "extract", "settle_form", "silent_rule"]

EXTRACTION_VERSION = 6
"""Incremented whenever the same raw text would give a different answer.

2: invented examples and end-of-turn tokens are cut off; JSON and `<answer>` are unwrapped; states are whole or none; a
label that a sentence asserts next to a denial of something else is unparseable.
3: labels that differ only by marks or signs are distinguished, and those that a task declares are not looked for in its
questions; `1,500` is 1500 unless the scale ends before it; half of a surrogate pair in JSON is replaced.
4: reasoning, role headers, tokens of templates and calls of tools are left out in today's forms, the first three from
raw texts too.
`1e-05` and `.5` are numbers; `5:nummod` is the head and relation of the word 5, too.
5: an invented example begins as those of the template; articles, repeated options and `-1` are not labels; numbers keep
their sign, and those on another scale (`3/10`, `1.5 million`) are unparseable.
6: tags between the words of one line, objects about other words, heads in words (`head: 3`), numbers next to a reason
that has numbers, and labels after `but` or `thus` are unparseable.
"""


Protocol = Literal["tag", "choices", "json", "prose"]
"""How a language model is asked for an answer, and how its text is read.

tag: the prompt asks for `<answer>…</answer>`. choices: the label with the highest likelihood. json: the server enforces
a schema. prose: the answer is searched for in the text.
"""


@dataclass(frozen=True, slots=True)
class Extracted:
    """An answer, and the rules that produced it."""

    answer: str
    """The answer; a best effort if the form was not found."""
    rule: str
    """Rules in the order applied, joined with `+`; the last may be `empty`, `unparseable` or `refused`."""


def settle_form(form: AnswerForm, output: Output, words: Mapping[str, str] | None = None) -> AnswerForm:
    """Return the form with the labels and scale that a task's output declares, so that no labels come from questions.

    `words` maps labels to a variant's words. Labels from a template are kept.
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
    """Return the answer in a raw text and the rules that made it. Never raises; equal input gives an equal answer.

    `finish` says how the answer ended. A `refused` answer is empty, because a filter may stop a text after a word that
    would be right. Tags and heads are aligned with the words of the context. `is_opened` says that the prompt ended in
    the opening tag of the protocol `tag`.
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
        if "reasoning" not in rules:  # only tokens that end a turn
            return Extracted("", "template+empty")
        return Extracted("", "+".join([*rules[:-1], silent_rule(finish)]))
    if protocol != "prose":
        answer, rule = read_tagged(turn.text, form, question, context, reading.finished, is_opened)
        return Extracted(
            well_formed(answer), "+".join([*rules, *([rule] if rule != "as-is" else [])]) or "as-is"
        )
    said = reading.without_header(turn.text)
    if said is None:
        return Extracted(_first_line(turn.text, form)[0], "+".join([*rules, "unparseable"]))
    if said != turn.text and "template" not in rules:
        rules.insert(0, "template")
    if form.kind == "raw":
        return Extracted(said, "+".join(rules) or "as-is")
    kept = reading.before_stop(said)
    rules += ["stop"] if kept != said else []
    if not kept:
        return Extracted("", "+".join([*rules, "unparseable"]))
    answer, more = reading.find(kept)
    if not bare(answer) and more[-1:] not in (["unparseable"], ["refused"]):
        more = [*more, "unparseable"]
    # an escape in JSON may be half of a surrogate pair, which no file can hold
    return Extracted(well_formed(bare(answer)), "+".join([*rules, *more]) or "as-is")


def silent_rule(finish: str) -> str:
    """Return the rules of an answer that consists only of reasoning."""
    return f"reasoning+{'cut-in-reasoning' if finish == 'length' else 'reasoning-only'}+unparseable"


_Found = tuple[str, list[str]]
"""An answer and the rules that produced it."""


@dataclass(frozen=True)
class _Reading:
    """Reads the texts of one question."""

    form: AnswerForm
    question: str
    finished: bool
    context: str

    def without_header(self, text: str) -> str | None:
        """Return the text without the words of role headers; None if such a word might be the answer."""
        for _ in range(_MOST_HEADERS):
            if (header := find_role_header(text)) is None:
                break
            if header.form == "line" and self._may_answer(header.word):
                is_about = is_remark(header.rest) or header.word.casefold() in header.rest.casefold()
                return text if is_about else None
            if header.form == "prefix" and self.form.kind == "span" and lines_of(text)[0] in self.context:
                return text
            text = header.rest
        return before_next_turn(text, self._words())

    def _words(self) -> Sequence[str]:
        """Return the words that may be an answer or a line of it."""
        return labels_for(self.form, self.question) if self.form.kind == "label" else self.form.labels

    def _may_answer(self, word: str) -> bool:
        if word.casefold() in map(str.casefold, self._words()):
            return True
        return self.form.kind == "span" and bool(re.search(rf"(?i)\b{word}\b", self.context))

    def before_stop(self, text: str) -> str:
        """Return the text without an example that the model invented after its answer."""
        return before_stop(text, self.form.stop, self.form.markers, lambda part: self._says(part))

    def _says(self, part: str) -> bool:
        """Return whether a text holds an answer, so that any following text is not part of it."""
        if self.form.kind in _BY_KIND:
            return len(without_lead_in([*lines_of(part), ""])) > 1
        return self.find(part)[1][-1:] not in (["unparseable"], ["refused"])

    def find(self, text: str) -> _Found:
        """Find the answer in a text without reasoning."""
        inner = without_tags(text)
        rules = ["unwrapped"] if inner != text else []
        if self.form.kind not in _OWN_JSON and (value := _from_json(inner, self.form)) is not None:
            inner, rules = value, ["json"]
        in_sentences = self.form.kind not in ("text", "line", "tags", "tree")
        marked = after_marker(inner, (*self.form.markers, *self._names()), in_sentences)
        if marked != inner and self.form.kind not in _OWN_JSON:
            value = _from_json(marked, self.form)
            marked = marked if value is None else value
        found = self._read(marked)
        own = ["marker"] if found is not None and marked != inner else []
        if found is None and marked != inner:
            found = self._read(inner)
        if found is None or self._contradicts(inner, found[0]):
            rule = "refused" if is_refusal(text, loosely=True) else "unparseable"
            return _first_line(text, self.form)[0], [rule]
        refused = ["refused"] if self.form.kind in _BY_KIND and is_refusal(text) else []
        return found[0], [*rules, *own, *found[1], *refused]

    def _names(self) -> Sequence[str]:
        """Return other names that models use for such an answer, besides `answer`: `Span:`, `The German translation
        is:`."""
        if self.form.kind == "span" and "None" in self.form.labels:
            kinds = _KINDS.findall(self.question)
            return [
                name for kind in (*kinds, "entities") for name in (kind, f"The {kind} are", f"The {kind}")
            ]
        if self.form.kind in _NAMES:
            return _NAMES[self.form.kind]
        if self.form.kind != "line" or not (languages := _LANGUAGE.findall(self.question)):
            return ()
        language = languages[-1]
        own = (
            language,
            f"{language} translation",
            f"The {language} translation",
            f"The {language} translation is",
        )
        return (*own, *_TRANSLATION_NAMES)

    def _read(self, text: str) -> _Found | None:
        """Read the answer by the rule for its kind; None if the text does not have that form."""
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

    def _contradicts(self, text: str, answer: str) -> bool:
        """Return whether the first line is a different label, perhaps of an invented example."""
        lines = lines_of(text)
        if self.form.kind != "label" or len(lines) < 2:
            return False
        first = after_marker(lines[0], self.form.markers, in_sentences=True)
        return match_label(first, labels_for(self.form, self.question)) not in (None, answer)


_MOST_HEADERS = 8
"""The maximum number of role headers to read at the beginning of a text."""
_OWN_JSON = ("state", "tags", "tree")
"""Forms that read JSON themselves."""
_NAMES: Mapping[Kind, Sequence[str]] = {
    "span": ("Span", "The span is", "Shortest span", "The shortest span is", "Words", "The words are"),
    "tags": ("Tags", "The tags are", "Tagged words", "Tagged sentence", "Part-of-speech tags", "Chunk tags"),
    "tree": (
        "Parse",
        "The parse is",
        "Dependency parse",
        "Heads and relations",
        "The heads and relations are",
    ),
    "number": ("Score", "Rating", "The score is", "Relatedness", "Similarity"),
}
_TRANSLATION_NAMES = (
    *(
        "Translation",
        "The translation",
        "The translation is",
        "\u00dcbersetzung",
        "Die \u00dcbersetzung lautet",
    ),
    *("Deutsche \u00dcbersetzung", "Die deutsche \u00dcbersetzung lautet", "Die \u00dcbersetzung ist"),
)
_KINDS = re.compile(r"\bentities\b.*? (?:are|that are) ([\w -]+?)(?: are mentioned)?[?.]")
"""The entities that a question asks for: `Which entities are persons?`."""
_LANGUAGE = re.compile(r"\b[Tt]ranslat\w+\b.*?\b(?:to|into|in) ([A-Z][a-z]+)")
"""The language that a question asks for: `Translate from English to German`."""
_VALUE_KEYS = (
    *("final answer", "answer", "label", "sentiment", "classification", "class", "relation", "relationship"),
    *("prediction", "result", "output", "response", "choice", "span", "translation", "german", "summary"),
    *("sql", "query", "text", "value"),
)


def _from_json(text: str, form: AnswerForm) -> str | None:
    """Return the answer inside a JSON object or list; None if the text is not JSON."""
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
    """Return the line of an answer: without the mark of a list, bold and quotation marks."""
    if len(lines) == 1:
        return unwrapped(_NUMBER_ONE.sub("", lines[0]), form.unquote)  # a span may begin with a dash
    is_list = not lines[0].startswith("1.") or _NUMBER_TWO.match(lines[1]) or not _ORDINAL.match(lines[0])
    return unwrapped(BULLET.sub("", lines[0]) if is_list else lines[0], form.unquote)


_ORDINALS = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|j[a\u00e4]n(?:ner|uar)|feb(?:er|ruar)|m\u00e4rz|mai|juni|juli|oktober|dezember|advent"
    r"|fc|ffc|fsv|sc|sv|hfc|vfl|vfb|tsv|fck|(?:\w+-)?(?:bundes)?liga|division|mannschaft|platz|preis|rang|stock|etage|klasse"
    r"|runde|tag|woche|monat|jahr|jahrhundert|(?:\w+)?weltkrieg|kapitel|teil|akt|buch|mal|person|generation"
    r"|armee|korps|regiment|brigade|bataillon|panzer\w*|infanterie\w*)\b"
)
_ORDINAL = re.compile(rf"1\.\s+{_ORDINALS}", re.IGNORECASE)
"""`1. FC Nürnberg`, `1. Januar`: the number is a part of the name, not the mark of a list."""
_NUMBER_ONE = re.compile(rf"^(?!1\.\s+{_ORDINALS})1[.)]\s+", re.IGNORECASE)
_NUMBER_TWO = re.compile(r"2[.)]\s")


def _lines(text: str) -> list[str]:
    """Return the lines of an answer, without its lead-in and remarks after it."""
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
    """Return whether a line means `unanswerable`."""
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
    r"(?:the (?:given |provided )?(?:sentence|text|passage|context)|it) (?:does(?:n['\u2019]t| not)|never) "
    r"(?:\w+ )?(?:say|mention|specify|state|provide|contain|tell|indicate|include|give)"
    r"|(?:it is )?not (?:(?:mentioned|specified|stated|provided|given|answerable)"
    r"(?=\W*$|[.,;:]|\s+(?:in|by|from|here|at|within|anywhere)\b)|enough information)"
    r"|(?:there is )?no (?:answer|information)\b|there is no mention of\b|no mention of [^,;]*\.?$"
    r"|(?:the |an? |his |her |its |their )?(?:[\w'\u2019-]+ ){1,6}(?:is|are|was|were)(?:n['\u2019]t| not) (?:\w+ly )?"
    r"(?:mentioned|specified|stated|given|provided)\b[^,;:]*$"
    r"|no (?:[\w'\u2019-]+ ){1,5}(?:is|are|was|were) (?:\w+ly )?(?:mentioned|specified|stated|given|provided)\b[^,;:]*$"
    r"|(?:this|it|the question) cannot be (?:answered|determined)"
    r"|(?:cannot|can['\u2019]t) be (?:answered|determined)|i (?:do not|don['\u2019]t) know|(?:n/a|none)\.?$",
    re.IGNORECASE,
)
"""Sentences that mean `unanswerable`."""
_ENTITIES = (
    "(?:entit(?:y|ies)|persons?|people|organi[sz]ations?|locations?|facilities|products|events|artworks|languages|dates"
    "|times|percentages)"
)
_NAMES_NONE = re.compile(
    r"(?:there (?:are|were|is) |(?:the|this) (?:sentence|text) (?:contains?|mentions?|names?|has) )?"
    rf"(?:no|none of the|not any) (?:[\w-]+ ){{0,3}}{_ENTITIES}\b(?: of th(?:is|at) (?:kind|type))?"
    r"(?: (?:(?:is|are|were) )?(?:mentioned|found|named|present|listed|given)\b)?"
    r"(?: in (?:the|this|it)\b[^,;:]{0,40})?\.?$"
    r"|(?:the|this) (?:sentence|text) (?:does(?:n['\u2019]t| not)) (?:contain|mention|name|have|include) any\b"
    r"[^,;:]{0,60}$"
    r"|(?:there (?:are|is) )?none\b(?: (?:are|is|were) (?:mentioned|found|named))?(?: in the (?:sentence|text))?\.?$"
    r"|n/a\.?$",
    re.IGNORECASE,
)
"""Sentences that mean `None` in answers about entities."""
_BUT = re.compile(r"\b(?:but|however|though|although)\b", re.IGNORECASE)
"""The sentence goes on, perhaps to an answer."""


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
