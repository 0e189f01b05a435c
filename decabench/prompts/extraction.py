"""Extract the answer from a language model's output.

Reasoning is removed first. Then the answer is read in the way that the prompt's protocol requires.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from decabench.prompts.prose import find_in_prose
from decabench.prompts.tagged import is_in_context, read_tagged
from decabench.prompts.turns import read_turn
from decabench.tasks import AnswerForm, Label, Number, Output
from decabench.text import bare, well_formed

EXTRACTION_VERSION = 21
"""The version of the extraction rules, incremented whenever the same raw text would give a different answer."""

Protocol = Literal["tag", "choices", "json", "prose"]
"""A way of asking a language model for an answer and reading its reply.

- tag: the prompt asks for `<answer>…</answer>`.
- choices: the most likely label is the answer.
- json: the server or library enforces a JSON schema.
- prose: the answer is searched for in free text.
"""


@dataclass(frozen=True, slots=True)
class Extracted:
    """An answer and the rules that produced it."""

    answer: str
    """The answer. If no answer was recognized, it is a best guess for the protocol `prose`, and empty for other
    protocols."""
    rule: str
    """The rules that were applied, in order and joined with `+`, or `as-is` if no rule was needed.

    The last rule may be `empty`, `unparseable` or `refused`.
    """


def settle_form(form: AnswerForm, output: Output, words: Mapping[str, str] | None = None) -> AnswerForm:
    """Return an answer form with the labels or scale of a task's output added.

    Labels then don't have to be inferred from the questions. Different labels set by a template are kept. `words` maps
    each label to the word that replaces it in a variant.
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
    """Extract the answer from a model's raw output.

    The result is deterministic, and no output raises an error. `finish` is the reason why the output ended: `stop`,
    `length` or `refused`. A `refused` answer becomes empty, because a filter might cut the output off right after a
    correct word. Tags and heads are aligned with the words of the context. `is_opened` is true if the prompt ended with
    the opening tag of the `tag` protocol.
    """
    if finish == "refused":
        return Extracted("", "refused")
    text = bare(raw)
    if not text:
        return Extracted("", "empty")
    is_finished = finish != "length"
    turn = read_turn(text, form.reasoning_tags, is_finished, unwraps=protocol == "prose")
    rules = list(turn.rules)
    if turn.calls_tool and form.kind != "raw":
        return Extracted("", "+".join([*rules, "tool-call", "unparseable"]))
    if not turn.text:
        if "reasoning" not in rules:  # the text has only special tokens
            return Extracted("", "template+empty")
        return Extracted("", "+".join([*rules[:-1], silent_rule(finish)]))
    if protocol != "prose":
        answer, rule = read_tagged(turn.text, form, question, context, is_finished, is_opened)
        rules += [rule] if rule != "as-is" else []
    elif form.kind == "raw":
        answer = turn.text
    else:
        answer, found = find_in_prose(turn.text, form, question, context, is_finished)
        answer, rules = bare(answer), [*rules, *found]
    # JSON escapes may contain half of a surrogate pair, which can't be stored
    return Extracted(well_formed(answer), "+".join(rules) or "as-is")


NOT_IN_CONTEXT = "not-in-context"
"""The rule that flags an answer to an extractive task if it doesn't occur in the context."""


def is_elsewhere(answer: str, form: AnswerForm, context: str) -> bool:
    """Return whether an answer is missing from the context, although it is neither empty nor one of the form's
    labels.
    """
    return bool(answer.strip()) and answer not in form.labels and not is_in_context(answer, context)


def silent_rule(finish: str) -> str:
    """Return the rules to record for output that consists only of reasoning."""
    return f"reasoning+{'cut-in-reasoning' if finish == 'length' else 'reasoning-only'}+unparseable"
