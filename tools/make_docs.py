"""Fills the generated parts of docs/ from the code. `--check` changes nothing and ends with 1 where they differ.

python tools/make_docs.py [--check]
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import click
import json_documents
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
            for name, value, text in fields_of(TrainConfig)
            if name != "model"
        ),
    ]
    for kind in dict.fromkeys(find_family(name).config for name in FAMILIES):
        names = " or ".join(f"`{name}`" for name in FAMILIES if find_family(name).config is kind)
        lines += ["", f"`[model]` with `name` {names}:", "", *head]
        lines += [f"| `model.{name}` | `{value}` | {text} |" for name, value, text in fields_of(kind)]
    return "\n".join(lines)


def fields_of(owner: type) -> Iterator[tuple[str, str, str]]:
    """Name, default and docstring of a dataclass's fields: docstrings of fields are in the source alone."""
    body = ast.parse(inspect.getsource(owner)).body[0].body  # type: ignore[attr-defined]
    for field, after in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr):
            default = ast.unparse(field.value) if field.value else ""
            name = ast.unparse(field.target)
            if default.startswith(("field(default_factory=lambda", "field(default_factory=dict")):
                default = repr(getattr(owner(), name))
            yield name, default, " ".join(ast.literal_eval(after.value).split())


def template(name: str) -> str:
    """A built-in set of prompt templates, as a file that can be copied."""
    return f"```toml\n{built_in_text(name)}```"


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
    made = {path: filled(path.read_text(encoding="utf-8")) for path in sorted(DOCS.glob("*.md"))}
    return {**made, DOCS / "cli.md": cli_page(), DOCS / "json.md": json_documents.page()}


def main(check: bool) -> int:
    stale = []
    for path, text in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if not check:
                path.write_text(text, encoding="utf-8")
    if not json_documents.write(DOCS / "schemas", check):
        stale.append("schemas")
    print(f"{'stale' if check else 'written'}: {', '.join(stale) or 'none'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
