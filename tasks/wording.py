"""The wording of a task's questions: the prompt for language models, and variants of the questions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from decabench.metrics import METRICS
from decabench.tables import TomlTable
from decabench.tasks.outputs import Label, Number, Output, Tags, Text, Tree

# How to find an answer in a language model's text

Kind = Literal["raw", "span", "line", "text", "label", "sql", "state", "tags", "tree", "number"]
"""The form of an answer in a model's output.

- raw: the whole text, unchanged
- span: words on one line
- line: a sentence on one line
- text: all lines
- label: one of a few labels
- sql: a SELECT statement
- state: `slot: value, slot: value; request, request`, or None
- tags: a line for each word, with its number, the word and its tag
- tree: a line for each word, with its number, the word and `head:relation`
- number: a number, alone or in a sentence
"""

KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class AnswerForm:
    """The form of a task's answers, used to find them in a model's output."""

    kind: Kind = "span"
    """How the answer is written: one of `KINDS`."""
    labels: tuple[str, ...] = ()
    """The labels of the kind `label`, or the slots of the kind `state`.

    For `span`, they are answers that may be missing from the context, such as `unanswerable`. For `tags` and `tree`,
    they are the tags or relations; if there are none, any word is allowed.
    """
    constraints: tuple[str, ...] = ()
    """The slots that constraints can have, for the kind `state`. If empty, constraints can have any slot."""
    labels_from_question: bool = False
    """Whether each question names its own labels, as in `Bob or Charlie?`. Used only for the kind `label`."""
    markers: tuple[str, ...] = ()
    """Words that can introduce an answer, such as `Summary:`, in addition to `Answer:`."""
    unquote: bool = False
    """Whether to remove quotation marks around an answer of the kind `span`, `line` or `text`.

    Inside an answer tag, they are always removed from a `line` or `text`, except from a `line` whose
    context is also in quotation marks.
    """
    stop: tuple[str, ...] = ()
    """Strings that mark the start of an invented example after the model's answer. They are copied from the prompt."""
    scale: tuple[float, float] | None = None
    """The lowest and the highest answer of the kind `number`. They are copied from the task's output."""
    reasoning_tags: tuple[tuple[str, str], ...] = ()
    """Additional pairs of tags around a model's reasoning. They are copied from the settings of the run."""


def default_form(output: Output, metric: str) -> AnswerForm:
    """Return the default answer form for a task's output. For free text, the form depends on the metric.

    Metrics from other packages are not loaded, so free text scored by them has the form `span`.
    """
    match output:
        case Label(names=names):
            return AnswerForm("label", names, labels_from_question=True, unquote=True)
        case Text(extractive=True):
            return AnswerForm("span")  # keeps quotation marks, because a span can be a quotation
        case Text():
            return AnswerForm(METRICS[metric].reads if metric in METRICS else "span", unquote=True)
        case Tags(names=names):
            return AnswerForm("tags", names)
        case Tree(relations=names):
            return AnswerForm("tree", names)
        case Number():
            return AnswerForm("number")


# Prompts

_PLACEHOLDER = re.compile(r"\{(question|context|words)\}")
_OF_CONTEXT = re.compile(r"\{(?:context|words)\}")
_BRACES = re.compile(r"\{(\w*)\}")
_PART = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class PromptTemplate:
    """The prompt for a task's questions."""

    input: str = "{context}\n\n{question}"
    """The layout of an example.

    `{question}`, `{context}` and `{words}` (the context as numbered words, one per line) are replaced. Other
    braces are kept.
    """
    instruction: str = ""
    """The text before the first example. May be empty."""
    system: str = ""
    """The default system message. If empty, no system message is sent."""
    answer: str = ""
    """The text after the input that introduces the answer, for example `Answer:`."""
    max_new_tokens: int | None = None
    """The maximum number of tokens in an answer. None means `max_tokens` of the task's output."""
    stop: tuple[str, ...] = ()
    """Stop strings for plain-text answers, so that the model doesn't continue with an invented example."""
    form: AnswerForm | None = None
    """The form of the answer. None means that it is derived from the task's output."""

    def layout(self, question: str, context: str) -> str:
        """Return an example as text. If there is no context, the lines for the context are left out."""
        layout = self.input if context else _without_context(self.input)
        values = {"question": question, "context": context}
        if "{words}" in layout:
            values["words"] = numbered(context.split())
        text = _PLACEHOLDER.sub(lambda match: values[match.group(1)], layout)
        return f"{text}\n{self.answer}" if self.answer else text

    def shown(self, context: str, answer: str) -> str:
        """Return an example's answer as a model should write it: tags and heads follow their numbered words."""
        if self.form is None or self.form.kind not in ("tags", "tree"):
            return answer
        pairs = zip(context.split(), answer.split(), strict=False)
        return numbered([f"{word} {item}" for word, item in pairs])

    def completed(self, output: Output, metric: str) -> PromptTemplate:
        """Return the template with missing fields filled in from a task's output and metric."""
        return replace(
            self,
            max_new_tokens=self.max_new_tokens or output.max_tokens,
            form=self.form or default_form(output, metric),
        )


def numbered(items: Sequence[str]) -> str:
    """Number items from 1, one per line."""
    return "\n".join(f"{number} {item}" for number, item in enumerate(items, 1))


def _without_context(layout: str) -> str:
    lines = [line for line in layout.split("\n") if not _OF_CONTEXT.search(line) or "{question}" in line]
    return _OF_CONTEXT.sub("", "\n".join(lines).strip("\n"))


PROMPT_KEYS = (
    *("system", "instruction", "input", "answer", "max_new_tokens", "stop"),
    *("form", "labels", "constraints", "labels_from_question", "markers", "unquote"),
)
"""The keys allowed for a prompt in a TOML file."""


def read_prompt(
    table: TomlTable, shared: PromptTemplate | None = None, forms: tuple[str, ...] = KINDS
) -> PromptTemplate:
    """Read a prompt from a TOML table and note its faults. `shared` provides default values.

    `forms` lists the allowed values of `form`. A value outside `KINDS`, such as `auto`, stands for the form of
    `shared`.
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
        if name not in ("question", "context", "words"):
            table.fault(
                f"{{{name}}} in 'input' is not a placeholder. Use {{question}}, and {{context}} or {{words}}."
            )
    if "question" not in names:
        table.fault("'input' must contain {question}.")
    for name in _PLACEHOLDER.findall(made.instruction) if "instruction" in table else ():
        table.fault(f"{{{name}}} is in 'instruction', but placeholders work only in 'input'.")
    return made


def _read_form(table: TomlTable, shared: AnswerForm, forms: tuple[str, ...]) -> AnswerForm:
    named = table.choice("form", forms, "")
    made = AnswerForm(
        kind=next((kind for kind in KINDS if kind == named), shared.kind),
        labels=table.strings("labels", shared.labels),
        constraints=table.strings("constraints", shared.constraints),
        labels_from_question=table.flag("labels_from_question", shared.labels_from_question),
        markers=table.strings("markers", shared.markers),
        unquote=table.flag("unquote", shared.unquote),
    )
    for key, kinds in _FORMS_OF_KEY.items() if named in KINDS else ():
        if table.content.get(key) and named not in kinds:
            table.fault(
                f"{key!r} has no effect with form = {named!r}, only with {', '.join(map(repr, kinds))}."
            )
    has_labels = made.labels or made.labels_from_question or table.content.get("labels")
    if made.kind == "label" and not has_labels:
        table.fault("form = 'label' requires 'labels', or labels_from_question = true.")
    return made


_FORMS_OF_KEY: Mapping[str, tuple[Kind, ...]] = {
    "labels": ("span", "label", "state", "tags", "tree"),
    "constraints": ("state",),
    "labels_from_question": ("label",),
    "unquote": ("span", "line", "text", "label"),
}
"""The forms that each key of a prompt applies to."""


def word_by_word(instruction: str, item: str) -> PromptTemplate:
    """Return the prompt for a task whose answer has one item per word. The words are numbered, one per line.

    Each word is on its own line, because words may be numbers themselves. Models repeat the word next to its number,
    so a model that skips a line loses only one item.
    """
    return PromptTemplate(
        instruction=(
            f"{instruction} Write one line for each word, and nothing else: the number of the word, the word, and "
            f"{item}."
        ),
        input="{words}\n\n{question}",
        answer="Answer:",
        stop=("\n\n",),
    )


def labelled_prompt(
    label: str, instruction: str, gap: str = "\n\n", answer: str = "Answer:", form: AnswerForm | None = None
) -> PromptTemplate:
    """Return a prompt with a labeled context and a labeled question, as in `Sentence: …` and `Question: …`."""
    return PromptTemplate(
        instruction=instruction,
        input=f"{label}: {{context}}{gap}Question: {{question}}",
        answer=answer,
        stop=("\n\n", f"\n{label}:", "\nQuestion:"),
        form=form,
    )


# Variants of a question

Rewrite = Callable[[str], str]
"""A function that rewords a question. Raises ValueError if the question doesn't have the expected form."""


@dataclass(frozen=True)
class Variant:
    """Another wording of a task's questions.

    It changes one thing: the label words, their order, or the words around them. The dataset's own wording has number 0
    and is not a variant.
    """

    name: str
    """A short name, for example `happy-angry`."""
    rewrite: Rewrite
    """The function that rewords a question, which must be picklable and deterministic."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """A mapping from label words to the dataset's labels. Empty if the words are unchanged."""
    retired: bool = False
    """Whether the variant is no longer used, because it changes more than one thing.

    `--question-variant all` doesn't include retired variants, and their answers are scored separately.
    """

    @property
    def words(self) -> dict[str, str]:
        """A mapping from the dataset's labels to this variant's label words."""
        return {label: word for word, label in self.labels.items()}

    def relabel(self, answer: str) -> str:
        """Map a label word to the dataset's label, ignoring case. Other answers are returned unchanged."""
        folded = {word.casefold(): label for word, label in self.labels.items()}
        return folded.get(answer.strip().casefold(), answer)


@dataclass(frozen=True)
class Rewording:
    """A `Rewrite` that splits a question into parts and rearranges them."""

    pattern: str
    """A regular expression that matches the whole question, with named groups."""
    template: str
    """The new question, with group names in braces. All other braces are plain text."""

    def __call__(self, question: str) -> str:
        found = re.fullmatch(self.pattern, question, re.DOTALL)
        if found is None:
            raise ValueError(f"The question {question!r:.200} does not match {self.pattern}.")
        parts = found.groupdict()
        return _PART.sub(lambda match: parts.get(match[1], match[0]), self.template)


def fixed(
    name: str, question: str, instead: str, labels: Mapping[str, str] | None = None, *, retired: bool = False
) -> Variant:
    """Return a variant for a task that asks the same question about every context."""
    return Variant(name, Rewording(re.escape(question), instead), labels or {}, retired)


def wrapped(name: str, template: str) -> Variant:
    """Return a variant with words around each question.

    Raises ValueError if the template lacks `{question}` or has other names in braces.
    """
    if set(_PART.findall(template)) != {"question"}:
        raise ValueError(f"The template {template!r} must contain {{question}} and no other braces.")
    return Variant(name, Rewording(r"(?P<question>.*\S.*)", template))


def matched(
    name: str, pattern: str, template: str, labels: Mapping[str, str] | None = None, *, retired: bool = False
) -> Variant:
    """Return a variant that rearranges the named groups of `pattern` in each question.

    Raises ValueError unless the template uses exactly these names.
    """
    groups, named = set(re.compile(pattern).groupindex), set(_PART.findall(template))
    if groups != named:
        raise ValueError(
            f"The template {template!r} must use exactly the groups of the pattern: {', '.join(sorted(groups))}."
        )
    return Variant(name, Rewording(pattern, template), labels or {}, retired)
