"""Tables generated from the code when the docs are built, in place of `<!-- generated: NAME -->`."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from functools import partial
from importlib.util import find_spec
from typing import Any

from sphinx.ext.autodoc import mock
from sphinx.pycode import ModuleAnalyzer

from decabench.metrics import METRICS
from decabench.models import FAMILIES, find_family
from decabench.prompts.templates import built_in_tasks, load_template, shipped_text
from decabench.submission.faults import CODES, WARNINGS
from decabench.tasks import TASKS, AnswerForm, PromptTemplate, RemoteFile, Source
from decabench.training.config import TrainConfig

__all__ = ["built_in_text", "filled"]


def table(head: str, rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a Markdown table. `head` contains the headings, separated by ` | `."""
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    return [f"| {head} |", "|---" * (head.count("|") + 1) + "|", *(f"| {line} |" for line in lines)]


def codes() -> Iterator[str]:
    warning = " (a warning)"
    yield from table(
        "code | meaning", ((f"`{code}`", text + warning * (code in WARNINGS)) for code, text in CODES.items())
    )


def metrics() -> Iterator[str]:
    rows = (
        (f"`{name}`", each.definition, f"`{each.signature}`", each.source) for name, each in METRICS.items()
    )
    yield from table("name | definition | signature | source", rows)


def notes() -> Iterator[str]:
    names: dict[str, list[str]] = {}
    for task in TASKS.values():
        names.setdefault(task.notes, []).append(task.name)
    yield from (f"- **{', '.join(each)}**: {note}" for note, each in names.items() if note)


def sources() -> Iterator[str]:
    for task in TASKS.values():
        yield from (f"## {task.name}", "", f"{task.dataset}. {task.citation}. License: {task.licence}.", "")
        for source in task.sources:
            yield f"- {source.name} ({', '.join(source.files)})"
            yield from files_of(source)
        yield ""


def files_of(source: Source) -> Iterator[str]:
    """Yield a line for each file. If more than three files have neither a digest nor a URL, they share a line."""
    files = {file.name: file for files in source.files.values() for file in files}
    bare = [name for name, file in files.items() if not (file.urls or digest_of(file))]
    if len(bare) > 3:
        yield f"  - {len(bare)} files without digests, `{bare[0]}` to `{bare[-1]}`"
    for name, file in files.items():
        if len(bare) <= 3 or name not in bare:
            address = f", <{file.urls[0]}>" if file.urls else ""
            yield f"  - `{name}`: {digest_of(file) or 'no digest'}{address}"


def digest_of(file: RemoteFile) -> str:
    digests = (("sha256", file.sha256), ("md5", file.md5), ("git blob", file.git_blob))
    return next((f"{kind} `{value}`" for kind, value in digests if value), "")


def settings() -> Iterator[str]:
    """Yield the settings of `decabench train`: first those of a run, then those of each model family."""
    yield from setting_table(TrainConfig)
    with mock([] if find_spec("torch") else ["safetensors", "torch"]):
        kinds: dict[Any, list[str]] = {}
        for name in FAMILIES:
            kinds.setdefault(find_family(name).config, []).append(f"`{name}`")
        for kind, names in kinds.items():
            yield from ("", f"`[model]` with `name` {' or '.join(names)}:", "")
            yield from setting_table(kind, "model.")


def setting_table(kind: Any, prefix: str = "") -> list[str]:
    """Return the name, default and docstring of each field. Raises KeyError for a field without a docstring."""
    texts = {
        name: " ".join(lines).strip()
        for owner in reversed(kind.__mro__[:-1])  # a class may inherit fields
        for (of, name), lines in ModuleAnalyzer.for_module(owner.__module__).find_attr_docs().items()
        if of == owner.__name__
    }
    rows = []
    for field in fields(kind):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if prefix or field.name != "model":
            rows.append((f"`{prefix}{field.name}`", f"`{default!r}`", texts[field.name]))
    return table("setting | default | meaning", rows)


def built_in_text(name: str) -> str:
    """Return the TOML text of a built-in set of prompt templates, with a table for each task in `default`."""
    default = load_template(name).default or PromptTemplate()
    tasks = built_in_tasks() if name == "default" else {}
    return shipped_text(name) + "".join(_toml(task, template, default) for task, template in tasks.items())


def _toml(task: str, template: PromptTemplate, default: PromptTemplate) -> str:
    form, shared = template.form or AnswerForm(), default.form or AnswerForm()
    lines = [
        f'instruction = """\n{_wrapped(_escaped(template.instruction))}"""',
        f'input = """\n{_escaped(template.input)}"""',
        *_line("answer", template.answer, default.answer),
        *_line("max_new_tokens", template.max_new_tokens),
        *_line("stop", template.stop, default.stop),
        *_line("form", form.kind),
        *_line("labels", form.labels, shared.labels),
        *_line("constraints", form.constraints, shared.constraints),
        *_line("labels_from_question", form.labels_from_question, shared.labels_from_question),
        *_line("unquote", form.unquote, shared.unquote),
    ]
    key = json.dumps(task) if "." in task else task
    return f"\n[tasks.{key}]\n" + "".join(f"{line}\n" for line in lines)


def _line(key: str, value: Any, shared: Any = None) -> Iterator[str]:
    if value != shared:
        yield f"{key} = {json.dumps(value, ensure_ascii=False)}"  # the same in JSON and TOML


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', '""\\"')


def _wrapped(text: str) -> str:
    return "\n".join(
        " \\\n".join(textwrap.wrap(line, 117, break_long_words=False, break_on_hyphens=False))
        for line in text.split("\n")
    )


def template(name: str) -> Iterator[str]:
    yield f"```toml\n{built_in_text(name)}```"


TABLES = {
    "codes": codes,
    "default_template": partial(template, "default"),
    "metrics": metrics,
    "notes": notes,
    "plain_template": partial(template, "plain"),
    "settings": settings,
    "sources": sources,
}


def filled(text: str) -> str:
    """Return a page with the generated tables inserted."""
    return re.sub(r"<!-- generated: (\w+) -->", lambda match: "\n".join(TABLES[match[1]]()), text)
