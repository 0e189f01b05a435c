"""How a task's questions are put into words: the prompt for language models, and other wordings of each question."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from decabench.tables import TomlTable
from decabench.tasks.outputs import Label, Output, Text

__all__ = [
    "KINDS",
    "KIND_OF_METRIC",
    "PROMPT_KEYS",
    "AnswerForm",
    "Exactly",
    "Kind",
    "Matched",
    "PromptTemplate",
    "Rewrite",
    "Variant",
    "Wrapped",
    "default_form",
    "fixed",
    "matched",
    "read_prompt",
    "wrapped",
]

# The form of an answer in the text of a language model

Kind = Literal["raw", "span", "line", "text", "label", "sql", "state"]
"""How an answer looks in a model's text.

raw: all of it, unchanged. span: words on one line. line: a sentence on one line. text: every line. label: one of a few.
sql: a SELECT statement. state: `slot: value, slot: value; request, request`, or None.
"""

KINDS: tuple[Kind, ...] = get_args(Kind)

KIND_OF_METRIC: Mapping[str, Kind] = {
    **dict.fromkeys(("nf1", "em", "nem", "accuracy", "corpus_f1"), "span"),
    **dict.fromkeys(
        ("bleu", "rouge", "rouge_lines", "rouge_perl", "rouge_perl_lines", "rouge_score"), "text"
    ),
    **dict.fromkeys(("tag_accuracy", "sequence_f1", "parsing", "pearson", "spearman", "mse"), "line"),
    "lfem": "sql",
    "joint_goal_em": "state",
}
"""What a metric reads of a free text; the metrics of other packages read a span."""


@dataclass(frozen=True)
class AnswerForm:
    """How the answer to a task looks, so that it can be found in what a model writes."""

    kind: Kind = "span"
    """One of `KINDS`."""
    labels: tuple[str, ...] = ()
    """label: the labels. state: the slots. span: answers that stand for a whole line, as `unanswerable` does."""
    labels_from_question: bool = False
    """label: whether the question names its own (`Bob or Charlie?`); `labels` serve where it names none."""
    markers: tuple[str, ...] = ()
    """What may introduce an answer, besides `Answer:` and the like: `Summary:`."""
    unquote: bool = False
    """span, line, text: whether quotation marks around the answer are removed."""


def default_form(output: Output, metric: str) -> AnswerForm:
    """Return the form of an answer that follows from a task's output, and from its metric where that is free text."""
    match output:
        case Label(names=names):
            return AnswerForm("label", names, labels_from_question=True, unquote=True)
        case Text(extractive=True):
            return AnswerForm("span")  # with its quotation marks: a span may be a quotation
        case Text():
            return AnswerForm(KIND_OF_METRIC.get(metric, "span"), unquote=True)
        case _:
            return AnswerForm("line", unquote=True)


# Prompts

_PLACEHOLDER = re.compile(r"\{(question|context)\}")
_BRACES = re.compile(r"\{(\w*)\}")
_PART = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class PromptTemplate:
    """How the questions of one task are put to a language model."""

    input: str = "{context}\n\n{question}"
    """The layout of an example; `{question}` and `{context}` are replaced as text, other braces stay."""
    instruction: str = ""
    """What is said before the first example; nothing where empty."""
    system: str = ""
    """The system message, unless the user gives one; none where empty."""
    answer: str = ""
    """What introduces the answer, after the input: `Answer:`."""
    max_new_tokens: int | None = None
    """The most tokens that an answer may have; None for `max_tokens` of the task's output."""
    stop: tuple[str, ...] = ()
    """What ends an answer in plain text, so that a model does not go on with an example of its own."""
    form: AnswerForm | None = None
    """What the answer looks like; None for what follows from the task's output."""

    def layout(self, question: str, context: str) -> str:
        """Return an example as text. Lines that hold only the context are left out where there is none."""
        layout = self.input if context else _without_context(self.input)
        values = {"question": question, "context": context}
        text = _PLACEHOLDER.sub(lambda match: values[match.group(1)], layout)
        return f"{text}\n{self.answer}" if self.answer else text

    def completed(self, output: Output, metric: str) -> PromptTemplate:
        """Return the template with what it leaves open filled in from a task's output and metric."""
        return replace(
            self,
            max_new_tokens=self.max_new_tokens or output.max_tokens,
            form=self.form or default_form(output, metric),
        )


def _without_context(layout: str) -> str:
    lines = [line for line in layout.split("\n") if "{context}" not in line or "{question}" in line]
    return "\n".join(lines).strip("\n").replace("{context}", "")


PROMPT_KEYS = (
    *("system", "instruction", "input", "answer", "max_new_tokens", "stop"),
    *("form", "labels", "labels_from_question", "markers", "unquote"),
)
"""The keys of a prompt in a TOML file."""


def read_prompt(
    table: TomlTable, shared: PromptTemplate | None = None, forms: tuple[str, ...] = KINDS
) -> PromptTemplate:
    """Read a prompt from a TOML table, noting its faults there; `shared` has what the table leaves out.

    A form that is not one of `KINDS` (`auto`) is read as a span, where `forms` allows it.
    """
    shared = shared or PromptTemplate()
    table.refuse_unknown(PROMPT_KEYS)
    made = PromptTemplate(
        input=table.string("input", shared.input).strip("\n"),
        instruction=table.string("instruction", shared.instruction).strip("\n"),
        system=table.string("system", shared.system).strip("\n"),
        answer=table.string("answer", shared.answer),
        max_new_tokens=table.positive("max_new_tokens")
        if "max_new_tokens" in table
        else shared.max_new_tokens,
        stop=table.strings("stop", shared.stop),
        form=_read_form(table, shared.form or AnswerForm(), forms),
    )
    names = _BRACES.findall(made.input) if "input" in table else ["question"]
    for name in names:
        if name not in ("question", "context"):
            table.fault(
                f"{{{name}}} in 'input' is not a placeholder: there are {{question}} and {{context}}."
            )
    if "question" not in names:
        table.fault("'input' has no {question}.")
    for name in _PLACEHOLDER.findall(made.instruction) if "instruction" in table else ():
        table.fault(f"{{{name}}} is in 'instruction', and is filled in only in 'input'.")
    return made


def _read_form(table: TomlTable, shared: AnswerForm, forms: tuple[str, ...]) -> AnswerForm:
    named = table.choice("form", forms, "")
    made = AnswerForm(
        kind=next((kind for kind in KINDS if kind == named), shared.kind),
        labels=table.strings("labels", shared.labels),
        labels_from_question=table.flag("labels_from_question", shared.labels_from_question),
        markers=table.strings("markers", shared.markers),
        unquote=table.flag("unquote", shared.unquote),
    )
    has_labels = made.labels or made.labels_from_question or table.content.get("labels")
    if made.kind == "label" and not has_labels:
        table.fault("a label needs 'labels', or labels_from_question = true.")
    return made


# Other wordings of a question

Rewrite = Callable[[str], str]
"""Puts a question in other words. Raises ValueError for a question of another form than it expects."""


@dataclass(frozen=True)
class Variant:
    """One other wording of all questions of a task. The dataset's own wording is not a variant: it is number 0."""

    name: str
    """Short: `happy-angry`."""
    rewrite: Rewrite
    """Makes the question; it can be pickled, and gives the same text for the same question."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """From its label words to the dataset's; empty where they are the same."""

    def relabel(self, answer: str) -> str:
        """Return the dataset's label for one of its label words, in any case; other answers unchanged."""
        folded = {word.casefold(): label for word, label in self.labels.items()}
        return folded.get(answer.strip().casefold(), answer)


@dataclass(frozen=True)
class Exactly:
    """Replaces the one question that a task asks about every context."""

    question: str
    """What the dataset asks."""
    instead: str
    """What is asked in its place."""

    def __call__(self, question: str) -> str:
        if question != self.question:
            raise ValueError(f"The question is {question!r:.200}, not {self.question!r}.")
        return self.instead


@dataclass(frozen=True)
class Wrapped:
    """Puts words around any question."""

    template: str
    """With `{question}` in it."""

    def __call__(self, question: str) -> str:
        if not question.strip():
            raise ValueError("The question is empty.")
        return _filled(self.template, {"question": question})


@dataclass(frozen=True)
class Matched:
    """Takes a question apart and puts its parts together in another way."""

    pattern: str
    """A regular expression for the whole question, with named groups."""
    template: str
    """With the groups' names in braces."""

    def __call__(self, question: str) -> str:
        found = re.fullmatch(self.pattern, question, re.DOTALL)
        if found is None:
            raise ValueError(f"The question {question!r:.200} does not match {self.pattern}.")
        return _filled(self.template, found.groupdict())


def _filled(template: str, parts: Mapping[str, str]) -> str:
    """Fill the braces of the template alone: those of a question are text."""
    return _PART.sub(lambda match: parts[match[1]], template)


def fixed(name: str, question: str, instead: str, labels: Mapping[str, str] | None = None) -> Variant:
    """Make a variant for a task that asks the same question of every context."""
    return Variant(name, Exactly(question, instead), labels or {})


def wrapped(name: str, template: str) -> Variant:
    """Make a variant with words around each question. Raises ValueError for a template without `{question}`."""
    if set(_PART.findall(template)) != {"question"}:
        raise ValueError(f"The template {template!r} must have {{question}} in it, and no other braces.")
    return Variant(name, Wrapped(template))


def matched(name: str, pattern: str, template: str, labels: Mapping[str, str] | None = None) -> Variant:
    """Make a variant for questions that have parts. Raises ValueError for a template that uses other parts."""
    groups, named = set(re.compile(pattern).groupindex), set(_PART.findall(template))
    if groups != named:
        raise ValueError(
            f"The template {template!r} must use the parts {', '.join(sorted(groups))}, and no other."
        )
    return Variant(name, Matched(pattern, template), labels or {})
