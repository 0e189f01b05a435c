"""Fills the generated parts of docs/ from the code. `--check` changes nothing and ends with 1 where they differ.

python tools/make_docs.py [--check]
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import click
from click.testing import CliRunner

from decabench.cli import cli
from decabench.metrics import METRICS
from decabench.models import FAMILIES, find_family
from decabench.prompts import built_in_text
from decabench.submission.faults import CODES, WARNINGS
from decabench.tasks.registry import TASKS
from decabench.tasks.task import RemoteFile, Source, Task
from decabench.training.config import TrainConfig

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every command and subcommand, as words of the command line."""
    yield path
    for name, child in sorted(command.commands.items()) if isinstance(command, click.Group) else ():
        yield from commands(child, (*path, name))


def cli_page() -> str:
    """docs/cli.md: the help of every command."""
    parts = ["# The command line\n", "The help of every command, as it prints itself.\n"]
    for path in commands(cli, ()):
        result = CliRunner().invoke(cli, [*path, "--help"], prog_name="decabench", terminal_width=100)
        parts.append(f"## {' '.join(('decabench', *path))}\n\n```\n{result.output.rstrip()}\n```\n")
    return "\n".join(parts)


def codes() -> str:
    rows = [
        f"| `{code}` | {text}{' (a warning)' if code in WARNINGS else ''} |" for code, text in CODES.items()
    ]
    return "\n".join(["| code | what |", "|---|---|", *rows])


def metrics() -> str:
    rows = [
        f"| `{name}` | {metric.definition} | `{metric.signature.replace('|', chr(92) + '|')}` | {metric.source} |"
        for name, metric in METRICS.items()
    ]
    return "\n".join(["| name | definition | signature | source |", "|---|---|---|---|", *rows])


def notes() -> str:
    names: dict[str, list[str]] = {}
    for task in TASKS.values():
        if task.notes:
            names.setdefault(task.notes, []).append(task.name)
    return "\n".join(f"- {', '.join(each)}: {note}" for note, each in names.items())


def sources() -> str:
    return "\n".join(line for task in TASKS.values() for line in task_sources(task)).rstrip()


def task_sources(task: Task) -> Iterator[str]:
    yield f"### {task.name}\n"
    yield f"{task.dataset}. {task.citation}. Licence: {task.licence}.\n"
    for source in task.sources:
        hub = f", `{source.hub.repository}` at `{source.hub.revision}`" if source.hub else ""
        yield f"- {source.name}{hub} ({', '.join(source.files)})"
        yield from file_lines(source)
    yield ""


def file_lines(source: Source) -> Iterator[str]:
    files = {file.name: file for files in source.files.values() for file in files}
    bare = [file.name for file in files.values() if not (file.urls or source.hub or any(pins_of(file)))]
    if len(bare) > 3:  # a user's own files, one a section
        yield f"  - {len(bare)} files without digests, `{bare[0]}` to `{bare[-1]}`"
        files = {name: file for name, file in files.items() if name not in bare}
    for file in files.values():
        pin = next((f"{kind} `{value}`" for kind, value in pins_of(file)), "no digest")
        address = f", <{file.urls[0]}>" if file.urls and not source.hub else ""
        yield f"  - `{file.name}`: {pin}{address}"


def pins_of(file: RemoteFile) -> Iterator[tuple[str, str]]:
    for kind, value in (("sha256", file.sha256), ("md5", file.md5), ("git blob", file.git_blob)):
        if value:
            yield kind, value


def settings() -> str:
    """Every setting of `decabench train`: its name, its default, and what its field's docstring says."""
    head = ["| setting | default | what it is |", "|---|---|---|"]
    lines = [
        *head,
        *(
            f"| `{name}` | `{value}` | {text} |"
            for name, value, text in settings_of(TrainConfig)
            if name != "model"
        ),
    ]
    for kind in dict.fromkeys(find_family(name).config for name in FAMILIES):
        names = " or ".join(f"`{name}`" for name in FAMILIES if find_family(name).config is kind)
        lines += ["", f"`[model]` with `name` {names}:", "", *head]
        lines += [f"| `model.{name}` | `{value}` | {text} |" for name, value, text in settings_of(kind)]
    return "\n".join(lines)


def settings_of(kind: Any) -> Iterator[tuple[str, str, str]]:
    """`fields_of` a configuration. Raises SystemExit for a setting without a docstring, which would not be listed."""
    found = list(fields_of(kind))
    if missing := {field.name for field in fields(kind)} - {name for name, _, _ in found}:
        sys.exit(f"{kind.__name__} has settings without a docstring: {', '.join(sorted(missing))}")
    yield from found


def fields_of(owner: Any) -> Iterator[tuple[str, str, str]]:
    """Name, default and docstring of a dataclass's fields: docstrings of fields are in the source alone."""
    body = ast.parse(inspect.getsource(owner)).body[0].body  # type: ignore[attr-defined]
    for field, after in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr):
            default = ast.unparse(field.value) if field.value else ""
            name = ast.unparse(field.target)
            if default.startswith("field(default_factory="):
                default = repr(next(each for each in fields(owner) if each.name == name).default_factory())  # type: ignore[misc]
            yield name, default, " ".join(ast.literal_eval(after.value).split())


def template(name: str) -> str:
    """A built-in set of prompt templates, as a file that can be copied."""
    return f"```toml\n{built_in_text(name)}```"


FACES = (
    *("decabench", "decabench.metrics", "decabench.tasks", "decabench.submission", "decabench.prompts"),
    *("decabench.scoring", "decabench.predictors", "decabench.runs", "decabench.leaderboard"),
)
"""The packages whose public names docs/reference/python.md lists."""


def python_page() -> str:
    """docs/reference/python.md: the public names of each package, with signatures and docstrings."""
    parts = [
        "# Python",
        "The public names of each package, with what their docstrings say. `decabench` itself has what most scripts\n"
        "need; `decabench.metrics` works alone, and importing it loads the standard library only. What is not listed\n"
        "here is internal.",
    ]
    for face in FACES:
        package = importlib.import_module(face)
        parts += [f"## {face}", inspect.getdoc(package) or ""]
        for name in sorted(package.__all__, key=str.lower):
            value = getattr(package, name)
            owner = getattr(value, "__module__", face)
            if callable(value) and hasattr(value, "__qualname__") and owner.startswith("decabench"):
                parts += [f"### {face}.{name}", *python_entry(name, value, face == owner_of(name, value))]
    return "\n\n".join(part for part in parts if part) + "\n"


def owner_of(name: str, value: object) -> str:
    """The first package that lists a name: the others point to it."""
    return next(
        face
        for face in FACES
        if name in (package := importlib.import_module(face)).__all__ and getattr(package, name) is value
    )


def python_entry(name: str, value: Any, whole: bool) -> Iterator[str]:
    """Signature, docstring and fields of a function or class; a name that stands above has its first line only."""
    text = inspect.getdoc(value) or ""
    if not whole:
        yield f"{text.partition(chr(10))[0]} The same as `{owner_of(name, value)}.{name}`."
        return
    kind = "class " if inspect.isclass(value) else ""
    yield f"```python\n{kind}{name}{signature_of(value)}\n```"
    if not text.startswith(f"{name}("):  # which is what dataclasses without a docstring have
        yield text
    if is_dataclass(value) and (rows := list(fields_of(value))):
        yield "\n".join(["| field | default | what it is |", "|---|---|---|", *map(field_row, rows)])


def signature_of(value: Any) -> str:
    """Parameters with their types, one a line where they are many."""
    if inspect.isclass(value) and (is_dataclass(value) or issubclass(value, (BaseException, Protocol))):
        return ""
    try:
        signature = inspect.signature(value)
    except ValueError:
        return ""
    parts = [parameter_text(each) for each in signature.parameters.values()]
    kinds = [each.kind for each in signature.parameters.values()]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parts.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    given = signature.return_annotation
    ends = "" if given is signature.empty or inspect.isclass(value) else f" -> {type_text(given)}"
    line = f"({', '.join(parts)}){ends}"
    return line if len(line) < 90 else "(\n" + "".join(f"    {part},\n" for part in parts) + f"){ends}"


def parameter_text(parameter: inspect.Parameter) -> str:
    """A parameter as it is written, without a default too long to read."""
    star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    empty = parameter.empty
    kind = "" if parameter.annotation is empty else f": {type_text(parameter.annotation)}"
    default = "" if parameter.default is empty else f" = {shortened(repr(parameter.default))}"
    return f"{star}{parameter.name}{kind}{default}"


def type_text(annotation: object) -> str:
    """A type as it is written in the source, where annotations are text."""
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def shortened(default: str) -> str:
    """A default that fits a line and is the same on every machine."""
    return "…" if len(default) > 60 or " at 0x" in default else default


def field_row(row: tuple[str, str, str]) -> str:
    """A row of a table; the bars of a type or default are no columns."""
    name, default, text = (cell.replace("|", "\\|") for cell in row)
    return f"| `{name}` | {f'`{shortened(default)}`' if default else ''} | {text} |"


PARTS = {
    "codes": codes,
    "default_template": partial(template, "default"),
    "metrics": metrics,
    "notes": notes,
    "plain_template": partial(template, "plain"),
    "settings": settings,
    "sources": sources,
}


def filled(text: str) -> str:
    """A page with its generated parts made anew."""

    def part(match: re.Match[str]) -> str:
        return f"{match.group(1)}\n{PARTS[match.group(2)]()}\n{match.group(3)}"

    return re.sub(r"(<!-- generated: (\w+) -->)\n.*?(<!-- end -->)", part, text, flags=re.DOTALL)


def pages() -> dict[Path, str]:
    """Every page as it should be."""
    made = {path: filled(path.read_text(encoding="utf-8")) for path in sorted(DOCS.rglob("*.md"))}
    reference = DOCS / "reference"
    return {
        **made,
        DOCS / "cli.md": cli_page(),
        reference / "python.md": python_page(),
    }


def main(check: bool) -> int:
    stale = []
    for path, text in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    print(f"{'stale' if check else 'written'}: {', '.join(stale) or 'none'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
