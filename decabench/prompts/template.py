"""A prompt's template: what is said around a question and its context, and what form the answer has."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from decabench.errors import UnknownNameError
from decabench.extraction import AnswerForm, Kind
from decabench.tasks import Task
from decabench.tasks.store import canonical_json

__all__ = ["KIND_OF_METRIC", "PLACEHOLDERS", "TaskTemplate", "TemplateSet", "sha256_of"]

PLACEHOLDERS = ("question", "context")
"""What a layout may name in braces."""

_PLACEHOLDER = re.compile(r"\{(question|context)\}")
KIND_OF_METRIC: Mapping[str, Kind] = {
    **dict.fromkeys(("nf1", "em", "nem", "accuracy", "corpus_f1"), "span"),
    **dict.fromkeys(
        ("bleu", "rouge", "rouge_lines", "rouge_perl", "rouge_perl_lines", "rouge_score"), "text"
    ),
    **dict.fromkeys(("tag_accuracy", "sequence_f1", "parsing", "pearson", "spearman", "mse"), "line"),
    "lfem": "sql",
    "joint_goal_em": "state",
}
"""What form a metric reads, for tasks without a template of their own."""


@dataclass(frozen=True)
class TaskTemplate:
    """How the questions of one task are put."""

    input: str = "{context}\n\n{question}"
    """The layout of an example; `{question}` and `{context}` are replaced as text, other braces stay."""
    instruction: str = ""
    """What is said before the first example; nothing where empty."""
    system: str = ""
    """The system's text, where the user gives none; none where empty."""
    answer: str = ""
    """What introduces the answer, after the input: `Answer:`."""
    max_new_tokens: int = 128
    """The most tokens that an answer may have."""
    stop: tuple[str, ...] = ()
    """What ends an answer in plain text, so that a model does not go on with an example of its own."""
    form: AnswerForm = field(default_factory=AnswerForm)
    """What the answer looks like."""

    def layout(self, question: str, context: str) -> str:
        """The example as text. Lines that hold only the context are left out where there is none."""
        layout = self.input if context else _without_context(self.input)
        values = {"question": question, "context": context}
        text = _PLACEHOLDER.sub(lambda match: values[match.group(1)], layout)
        return f"{text}\n{self.answer}" if self.answer else text

    def sent(self) -> dict[str, Any]:
        """All that decides what a model is sent, as JSON values: the form is not part of it."""
        return {key: value for key, value in _plain(self).items() if key != "form"}


def _plain(template: TaskTemplate) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(asdict(template)))
    return plain


def _without_context(layout: str) -> str:
    lines = [line for line in layout.split("\n") if "{context}" not in line or "{question}" in line]
    return "\n".join(lines).strip("\n").replace("{context}", "")


def sha256_of(value: Any) -> str:
    """The sha256 of a JSON value in its one spelling."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class TemplateSet:
    """Templates for tasks by name, and one for every other."""

    name: str
    """`default`, or the stem of the file it was read from."""
    tasks: Mapping[str, TaskTemplate]
    """The template of a task by its name."""
    default: TaskTemplate | None = None
    """For tasks that are not named; None refuses them."""
    auto_form: bool = False
    """Whether the form of a task that is not named follows from its metric."""
    description: str = ""
    """What it is for."""

    @property
    def sha256(self) -> str:
        """Of all that it says, wherever it was read from."""
        tasks = {name: _plain(template) for name, template in self.tasks.items()}
        default = None if self.default is None else _plain(self.default)
        return sha256_of({"tasks": tasks, "default": default, "auto_form": self.auto_form})

    def for_task(self, task: Task) -> TaskTemplate:
        """The template of a task. Raises UnknownNameError where there is neither one of its own nor a default."""
        if task.name in self.tasks:
            return self.tasks[task.name]
        if self.default is None:
            raise UnknownNameError(
                f"{self.name} has no template for {task.name}, and no [default]; it has {', '.join(self.tasks)}."
            )
        if not self.auto_form:
            return self.default
        return replace(
            self.default, form=replace(self.default.form, kind=KIND_OF_METRIC.get(task.metric, "span"))
        )
