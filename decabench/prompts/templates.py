"""Sets of templates as TOML files: those that come with decabench, and anybody's."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from decabench.errors import DecabenchError, UnknownNameError, require_name
from decabench.files import canonical_json
from decabench.prompts.answer_forms import KINDS, AnswerForm, Kind
from decabench.tasks import Task

__all__ = [
    "BUILT_IN",
    "FORMAT",
    "KEYS",
    "KIND_OF_METRIC",
    "PLACEHOLDERS",
    "TaskTemplate",
    "TemplateError",
    "TemplateSet",
    "built_in_text",
    "load_template",
    "sha256_of",
]

# ---- template

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


# ---- files

FORMAT = "decabench.template/1"
BUILT_IN = ("default", "plain")
"""The sets that come with decabench."""

AUTO = "auto"
"""The form that follows from a task's metric; for [default] alone."""

KEYS: Mapping[str, type] = {
    "system": str,
    "instruction": str,
    "input": str,
    "answer": str,
    "max_new_tokens": int,
    "stop": list,
    "form": str,
    "labels": list,
    "labels_from_question": bool,
    "markers": list,
    "unquote": bool,
}
"""The keys of a table, and what each holds."""
_NEEDED = ("input", "max_new_tokens", "form")
_TOP = ("format", "description", "default", "tasks")
_BRACES = re.compile(r"\{(\w*)\}")
_KINDS: Mapping[type, str] = {
    str: "a text",
    int: "a whole number above 0",
    list: "a list of texts",
    bool: "true or false",
}


class TemplateError(DecabenchError, ValueError):
    """A template file is not in the form that it must have; the message lists all that is wrong."""


def built_in_text(name: Literal["default", "plain"] | str) -> str:
    """The file of a built-in set, as it is shipped. Raises UnknownNameError."""
    file = resources.files(__package__) / "templates" / f"{require_name(name, BUILT_IN, 'template')}.toml"
    return file.read_text(encoding="utf-8")


def load_template(name_or_path: str | Path) -> TemplateSet:
    """The set of a built-in name, or of a TOML file. Raises TemplateError with all faults, UnknownNameError."""
    if str(name_or_path) in BUILT_IN:
        return _read(built_in_text(str(name_or_path)), str(name_or_path), str(name_or_path))
    path = Path(name_or_path)
    if path.suffix != ".toml" and not path.exists():
        require_name(str(name_or_path), BUILT_IN, "template (nor a .toml file of that name)")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise TemplateError(f"The template {path} cannot be read ({error}).") from error
    return _read(text, path.stem, str(path))


def _read(text: str, name: str, place: str) -> TemplateSet:
    try:
        content = tomllib.loads(text)
    except ValueError as error:
        raise TemplateError(f"The template {place} is not TOML ({error}).") from error
    if content.get("format") != FORMAT:
        raise TemplateError(f"{place} has format {content.get('format')!r}: write format = {FORMAT!r}.")
    faults = list(_set_faults(content))
    if faults:
        raise TemplateError(
            f"The template {place} has {len(faults)} fault{'s' * (len(faults) > 1)}:\n"
            + "\n".join(f"- {fault}" for fault in faults)
        )
    shared = content.get("default", {})
    return TemplateSet(
        name=name,
        tasks={task: _template({**shared, **table}) for task, table in content.get("tasks", {}).items()},
        default=_template(shared) if shared else None,
        auto_form=shared.get("form") == AUTO,
        description=content.get("description", ""),
    )


def _template(values: Mapping[str, Any]) -> TaskTemplate:
    return TaskTemplate(
        input=_shaped(values["input"]),
        instruction=_shaped(values.get("instruction", "")),
        system=_shaped(values.get("system", "")),
        answer=values.get("answer", ""),
        max_new_tokens=values["max_new_tokens"],
        stop=tuple(values.get("stop", ())),
        form=AnswerForm(
            kind="span" if values["form"] == AUTO else values["form"],
            labels=tuple(values.get("labels", ())),
            labels_from_question=values.get("labels_from_question", False),
            markers=tuple(values.get("markers", ())),
            unquote=values.get("unquote", False),
        ),
    )


def _shaped(text: str) -> str:
    return text.strip("\n")


def _set_faults(content: Mapping[str, Any]) -> Sequence[str]:
    """Everything that is wrong in a file, each in a sentence."""
    faults = [
        f"{key!r} is no key of a template; the keys are {', '.join(_TOP)}."
        for key in content
        if key not in _TOP
    ]
    if not isinstance(content.get("description", ""), str):
        faults.append("'description' must be a text.")
    default, tasks = content.get("default", {}), content.get("tasks", {})
    if not isinstance(default, dict) or not isinstance(tasks, dict):
        return [*faults, "[default] and [tasks] must be tables."]
    if not default and not tasks:
        faults.append("It has neither [default] nor a [tasks.<name>]: there is nothing to send.")
    if default:
        faults += _table_faults("[default]", default, default)
    for name, table in tasks.items():
        if not isinstance(table, dict):
            faults.append(f"[tasks.{name}] must be a table.")
            continue
        faults += _table_faults(
            f'[tasks."{name}"]' if "." in name else f"[tasks.{name}]", table, {**default, **table}
        )
    return faults


def _table_faults(title: str, table: Mapping[str, Any], whole: Mapping[str, Any]) -> Sequence[str]:
    """The faults of one table, and of what it makes together with [default]."""
    faults = [
        f"{title} has {key!r}, which is no key; the keys are {', '.join(KEYS)}."
        for key in table
        if key not in KEYS
    ]
    faults += [
        f"{title} has {key} = {value!r}, and must have {_KINDS[KEYS[key]]}."
        for key, value in table.items()
        if key in KEYS and not _is(value, KEYS[key])
    ]
    faults += [f"{title} lacks {key!r}, and so does [default]." for key in _NEEDED if key not in whole]
    if isinstance(table.get("input"), str):
        faults += _layout_faults(title, table["input"])
    if isinstance(table.get("instruction"), str) and _BRACES.search(table["instruction"]):
        known = [name for name in _BRACES.findall(table["instruction"]) if name in PLACEHOLDERS]
        faults += [
            f"{title}: {{{name}}} stands in the instruction; it is filled in `input` alone." for name in known
        ]
    return [*faults, *_form_faults(title, table, whole)]


def _is(value: Any, kind: type) -> bool:
    if kind is int:
        return type(value) is int and value > 0
    if kind is list:
        return isinstance(value, list) and all(isinstance(item, str) and item for item in value)
    return isinstance(value, kind)


def _layout_faults(title: str, layout: str) -> Sequence[str]:
    found = _BRACES.findall(layout)
    faults = [
        f"{title}: {{{name}}} is no placeholder; there are {{question}} and {{context}}."
        for name in found
        if name not in PLACEHOLDERS
    ]
    return faults if "question" in found else [*faults, f"{title}: the input has no {{question}}."]


def _form_faults(title: str, table: Mapping[str, Any], whole: Mapping[str, Any]) -> Sequence[str]:
    form = whole.get("form")
    if not isinstance(form, str):
        return []
    if form == AUTO:
        return [] if title == "[default]" else [f"{title} must say its form: {', '.join(KINDS)}."]
    if form not in KINDS:
        return (
            [f"{title}: there is no form {form!r}; the forms are {', '.join(KINDS)}, and auto for [default]."]
            if "form" in table
            else []
        )
    if form == "label" and not whole.get("labels") and not whole.get("labels_from_question"):
        return [f"{title}: a label needs labels, or labels_from_question = true."]
    return []
