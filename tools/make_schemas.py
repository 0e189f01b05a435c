"""JSON schemas of the files that others write and read, made from the types that decabench reads them with.

`tools/make_docs.py` writes them to docs/schemas/files/.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import pairwise
from typing import Any

import msgspec

from decabench import scoring, submission, tasks
from decabench.scoring import Comparison, ExamplesHead, Manifest, ScoredExample, SuiteTotal, TaskResult
from decabench.submission import SubmissionInfo
from decabench.tasks import Suite

__all__ = ["FORMATS", "FileFormat", "schemas"]

TEXT, NUMBER, COUNT = {"type": "string"}, {"type": "number"}, {"type": "integer", "minimum": 0}
INTERVAL = {"type": ["array", "null"], "items": NUMBER, "minItems": 2, "maxItems": 2}
SPLIT = {"enum": ["validation", "test"]}


@dataclass(frozen=True)
class FileFormat:
    """A format that is described by a schema."""

    name: str
    """As files name it, or what a line is."""
    file: str
    """Where such a file is."""
    what: str
    """What it holds."""
    kind: type
    """The type that it is read with, or whose fields it has."""
    more: Mapping[str, Any]
    """Properties beside, or in place of, the fields of the type."""
    required: Sequence[str]
    """Keys that are always there."""
    without: Sequence[str] = ()
    """Fields of the type that are not in the file."""
    open: bool = False
    """Whether other keys are allowed: they are ignored."""

    @property
    def path(self) -> str:
        """The name of the schema's file."""
        return f"{self.name.removeprefix('decabench.').replace('/', '-').replace(' ', '-')}.schema.json"


def named(name: str) -> dict[str, Any]:
    """The key that names a format."""
    return {"format": {"const": name}}


FORMATS = (
    FileFormat(
        "decabench.submission/1",
        "`submission.toml`",
        "who made the answers, how, and for what data",
        SubmissionInfo,
        named("decabench.submission/1"),
        ("format", "name"),
        open=True,
    ),
    FileFormat(
        "answer line",
        "each line of `predictions/<task>.<split>.jsonl`",
        "one answer",
        Suite,
        {
            "id": TEXT,
            "answer": TEXT,
            "raw": TEXT,
            "rule": TEXT,
            "finish": {"enum": ["stop", "length", "refused"]},
            "context_kept": {"type": "array", "items": COUNT, "minItems": 2, "maxItems": 2},
            "reasoning": TEXT,
        },
        ("id", "answer"),
        without=tuple(field.name for field in fields(Suite)),
        open=True,
    ),
    FileFormat(
        "decabench.results/1",
        "`results/<split>/results.json`",
        "scores and what they rest on",
        TaskResult,
        {
            **named("decabench.results/1"),
            "decabench": TEXT,
            "split": SPLIT,
            "answers": {"enum": ["extracted", "raw"]},
            "decascore": {"type": ["number", "null"]},
            "interval": INTERVAL,
            "submission": {"$ref": "#/$defs/SubmissionInfo"},
            "suite": {"$ref": "#/$defs/Suite"},
            "tasks": {"type": "object", "additionalProperties": {"$ref": "#/$defs/TaskResult"}},
            "total": {"$ref": "#/$defs/SuiteTotal"},
        },
        ("format", "decabench", "split", "submission", "tasks", "total"),
        without=tuple(field.name for field in fields(TaskResult)),
    ),
    FileFormat(
        "decabench.examples/1",
        "the first line of `results/<split>/examples/<task>.jsonl.gz`",
        "what was scored, and how",
        ExamplesHead,
        {**named("decabench.examples/1"), "split": SPLIT},
        ("format", "task", "split", "metric", "headline", "columns"),
    ),
    FileFormat(
        "example line",
        "the other lines of that file",
        "one example: what was answered and how it scored",
        ScoredExample,
        {},
        ("id", "score", "right", "statistics"),
    ),
    FileFormat(
        "decabench.manifest/1",
        "`manifest.json`",
        "digests that bind results to answers, data and metrics",
        Manifest,
        named("decabench.manifest/1"),
        ("format", "decabench", "results"),
    ),
    FileFormat(
        "decabench.comparison/1",
        "`decabench compare A B --json`",
        "differences of two submissions, with tests",
        Comparison,
        {
            **named("decabench.comparison/1"),
            "suite": TEXT,
            "decascore": {"anyOf": [{"$ref": "#/$defs/Compared"}, {"type": "null"}]},
        },
        ("format", "a", "b", "split", "tasks"),
    ),
)


def schemas() -> dict[str, str]:
    """Every schema, as text, by the name of its file."""
    return {each.path: json.dumps(schema(each), indent=1) + "\n" for each in FORMATS}


def schema(format: FileFormat) -> dict[str, Any]:
    """The schema of one format."""
    types = [format.kind, SubmissionInfo, Suite, SuiteTotal]
    _, parts = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    for name, part in parts.items():
        part["additionalProperties"] = False
        part.pop("required", None)  # files leave out what is empty
        for field, text in docstrings(name).items():
            part["properties"].get(field, {}).setdefault("description", text)
    own = {
        name: value
        for name, value in parts[format.kind.__name__]["properties"].items()
        if name not in format.without
    }
    found = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format.name,
        "description": f"{format.what[0].upper()}{format.what[1:]}.",
        "type": "object",
        "properties": {
            **format.more,
            **{name: value for name, value in own.items() if name not in format.more},
        },
        "required": list(format.required),
        "additionalProperties": format.open,
    }
    if used := used_parts(found, parts):
        found["$defs"] = used
    return found


def used_parts(value: object, parts: Mapping[str, Any]) -> dict[str, Any]:
    """The definitions that a schema refers to, directly or not."""
    used: dict[str, Any] = {}
    rest = [json.dumps(value)]
    while rest:
        text = rest.pop()
        for name, part in parts.items():
            if f'"#/$defs/{name}"' in text and name not in used:
                used[name] = part
                rest.append(json.dumps(part))
    return dict(sorted(used.items()))


def docstrings(name: str) -> dict[str, str]:
    """The docstring of each field of a type that a schema is made from."""
    kind = next((getattr(room, name) for room in (scoring, submission, tasks) if hasattr(room, name)), None)
    if kind is None or not is_dataclass(kind):
        return {}
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body  # type: ignore[attr-defined]
    return {
        ast.unparse(field.target): " ".join(ast.literal_eval(after.value).split())
        for field, after in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr)
    }
