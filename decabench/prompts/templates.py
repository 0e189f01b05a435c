"""Load sets of prompt templates: the built-in sets `default` and `plain`, or TOML files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from decabench.errors import DecabenchError, UnknownNameError, require_name
from decabench.files import canonical_json
from decabench.tables import TomlTable, read_toml
from decabench.tasks import (
    DECATHLON,
    KINDS,
    TASKS,
    AnswerForm,
    PromptTemplate,
    Tags,
    Task,
    Text,
    Tree,
    default_form,
    read_prompt,
)
from decabench.untrusted import parse_toml

FORMAT = "decabench.template/1"

BUILT_IN = ("default", "plain")
"""Template sets that come with decabench."""

_AUTO = "auto"
"""The value of `form` that derives the form from the task's metric. It is allowed only in [default]."""


class TemplateError(DecabenchError, ValueError):
    """Raised for an invalid template file, with a message that lists every fault."""


@dataclass(frozen=True)
class TemplateSet:
    """A set of templates for individual tasks, and a default for all other tasks."""

    name: str
    """The name of the built-in set, or the stem of the file name."""
    tasks: Mapping[str, PromptTemplate] = field(default_factory=dict)
    """Templates by task name."""
    default: PromptTemplate | None = None
    """The template for all other tasks. If None, other tasks are rejected."""
    auto_form: bool = False
    """Whether the form for all other tasks is derived from their metric."""
    prefers_own: bool = False
    """Whether a task's own prompt takes precedence over the set."""

    @property
    def sha256(self) -> str:
        """A digest of all templates in the set, independent of their location."""
        default = None if self.default is None else _plain(self.default)
        tasks = {name: _plain(template) for name, template in self.tasks.items()}
        return sha256_of({"tasks": tasks, "default": default, "auto_form": self.auto_form})

    def for_task(self, task: Task) -> PromptTemplate:
        """Return the template for a task, with its form and token limit.

        Raises UnknownNameError if there is no template.
        """
        if self.prefers_own and task.prompt:
            return task.prompt.completed(task.output, task.metric)
        if task.name in self.tasks:
            return self.tasks[task.name]
        if self.default is None:
            raise UnknownNameError(
                f"The template {self.name} has no table for {task.name} and no [default]. Its tables are for "
                f"{', '.join(self.tasks)}. Add [tasks.{task.name}] or [default], or choose another template."
            )
        if self.prefers_own:
            general = replace(self.default, form=None, max_new_tokens=None)
            if isinstance(task.output, Tags | Tree):  # the answers refer to words by number
                general = replace(general, input=general.input.replace("{context}", "\n{words}"))
            return general.completed(task.output, task.metric)
        return self._general(task)

    def including(self, tasks: Iterable[Task]) -> TemplateSet:
        """Return the set with the prompts of `tasks` added, so that they are part of its digest."""
        own = {}
        for task in tasks if self.prefers_own else ():
            template = self.for_task(task)
            if template not in (self.tasks.get(task.name), self._general(task)):
                own[task.name] = template
        return replace(self, tasks={**self.tasks, **own})

    def _general(self, task: Task) -> PromptTemplate:
        default = self.default or PromptTemplate()
        if not self.auto_form:
            return default
        form = replace(default.form or AnswerForm(), kind=default_form(Text(), task.metric).kind)
        return replace(default, form=form)


def describe_template(template: PromptTemplate) -> dict[str, Any]:
    """Return all fields of a template except its form, as JSON-compatible data."""
    return {key: value for key, value in _plain(template).items() if key != "form"}


def _plain(template: PromptTemplate) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(asdict(template)))
    if plain["form"]:
        del plain["form"]["stop"]  # already in the template
        del plain["form"]["scale"]  # set by the task
        del plain["form"]["reasoning_tags"]  # set by the run
    return plain


def sha256_of(value: Any) -> str:
    """Return the SHA-256 of a JSON value in canonical form."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def load_template(name_or_path: str | Path) -> TemplateSet:
    """Load a built-in template set or a TOML file.

    Raises TemplateError with all faults of an invalid file, or UnknownNameError if there is no such template set.
    """
    if (name := str(name_or_path)) in BUILT_IN:
        read = _read(parse_toml(shipped_text(name)), name, name)
        return replace(read, tasks=built_in_tasks(), prefers_own=True) if name == "default" else read
    path = Path(name_or_path)
    if path.suffix != ".toml" and not path.exists():
        require_name(name, BUILT_IN, "built-in template or .toml file")
    return _read(read_toml(path, TemplateError), path.stem, str(path))


def built_in_tasks() -> dict[str, PromptTemplate]:
    """Return the templates of the decathlon tasks in the `default` set."""
    return {
        name: task.prompt.completed(task.output, task.metric)
        for name in DECATHLON.tasks  # no other tasks, so that new tasks don't change the set's digest
        if (task := TASKS[name]).prompt is not None
    }


def _read(content: Mapping[str, Any], name: str, place: str) -> TemplateSet:
    if content.get("format") != FORMAT:
        given = f"format {content['format']!r:.60}" if "format" in content else "no format"
        raise TemplateError(f"{place} has {given}. Write format = {FORMAT!r}.")
    file = TomlTable(content)
    file.refuse_unknown(("format", "description", "default", "tasks"))
    file.string("description", "")
    default, tasks = file.table("default"), file.table("tasks")
    if not content.get("default") and not content.get("tasks"):
        file.fault("a [default] or [tasks.<name>] table is required, but the file has neither.")
    shared = None
    if default.content:
        _require_keys(default, default, "")
        shared = read_prompt(default, forms=(*KINDS, _AUTO))
    auto_form = default.content.get("form") == _AUTO
    templates = {}
    for task in tasks.content:
        table = tasks.table(task, f'[tasks."{task}"]' if "." in task else f"[tasks.{task}]")
        _require_keys(table, default, " here and in [default]")
        templates[task] = read_prompt(table, shared)
        if auto_form and "form" not in table:
            table.fault(f"'form' is missing. It must be one of {', '.join(KINDS)}.")
    file.raise_faults(f"The template {place}", TemplateError)
    return TemplateSet(name, templates, shared, auto_form)


def _require_keys(table: TomlTable, default: TomlTable, where: str) -> None:
    for key in ("input", "max_new_tokens", "form"):
        if key not in table and key not in default:
            table.fault(f"{key!r} is missing{where}.")


def shipped_text(name: str) -> str:
    """Return the TOML source of a built-in set. The source of `default` doesn't contain the tasks' templates."""
    return (resources.files(__package__) / "templates" / f"{name}.toml").read_text(encoding="utf-8")
