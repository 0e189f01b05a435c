"""JSON schemas and the page of the documents that `--json` prints, from the dataclasses that describe them."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from decabench.commands._documents import DOCUMENTS
from decabench.commands._formats import ErrorDocument

__all__ = ["documents", "page", "schema_of", "schemas"]

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def documents() -> dict[str, Any]:
    """Every document by the name of its schema's file: `check`, `predict.estimate`."""
    found: dict[str, Any] = {"error": ErrorDocument}
    for command, kinds in DOCUMENTS.items():
        for at, kind in enumerate(kinds):
            own = command.replace(" ", "-")
            found[own if not at else f"{own}.{format_of(kind).partition('/')[0].rpartition('.')[2]}"] = kind
    return found


def format_of(kind: Any) -> str:
    """The format that a document states; empty for the lists that state none."""
    hint = get_type_hints(kind).get("format") if is_dataclass(kind) else None
    return str(get_args(hint)[0]) if hint else ""


def schemas() -> dict[str, str]:
    """The schemas by the name of their file."""
    return {
        f"{name}.schema.json": json.dumps(schema_of(kind, name), indent=1, ensure_ascii=False) + "\n"
        for name, kind in documents().items()
    }


def schema_of(kind: Any, name: str) -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a document; unknown fields are not allowed."""
    shared: dict[str, Any] = {}
    whole = _schema(kind, shared)
    if "$ref" in whole:
        whole = shared.pop(kind.__name__)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"decabench {name}"}
    return {**head, **whole, **({"$defs": dict(sorted(shared.items()))} if shared else {})}


def _schema(hint: Any, shared: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if origin is Literal:
        return {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
    if origin in (Union, UnionType):
        return {"anyOf": [_schema(each, shared) for each in arguments]}
    if origin is tuple and arguments[-1] is not ...:
        items = [_schema(each, shared) for each in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin in (tuple, list, Sequence):
        return {"type": "array", "items": _schema(arguments[0], shared)}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _schema(arguments[1], shared)}
    if is_dataclass(hint) and isinstance(hint, type):
        if hint.__name__ not in shared:
            shared[hint.__name__] = {}  # so that one that holds itself ends
            shared[hint.__name__] = _object(hint, shared)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    raise TypeError(f"{hint} has no JSON form here")


def _object(kind: type, shared: dict[str, Any]) -> dict[str, Any]:
    hints, texts = get_type_hints(kind), field_texts(kind)
    properties, required = {}, []
    for each in fields(kind):
        key = each.name.rstrip("_")
        text = {"description": texts[each.name]} if texts.get(each.name) else {}
        properties[key] = {**text, **_schema(hints[each.name], shared)}
        if key == "format" or (each.default is MISSING and each.default_factory is MISSING):
            required.append(key)
    return {
        "description": inspect.getdoc(kind),
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


@cache
def field_texts(kind: type) -> dict[str, str]:
    """The docstring below each field, those of the classes above included."""
    found = {
        name: text
        for base in kind.__bases__
        if is_dataclass(base)
        for name, text in field_texts(base).items()
    }
    (node,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(node, ast.ClassDef)
    for above, below in zip(node.body, node.body[1:], strict=False):
        if isinstance(above, ast.AnnAssign) and isinstance(above.target, ast.Name):
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                found[above.target.id] = " ".join(str(below.value.value).split())
    return found


def page() -> str:
    """docs/json.md."""
    parts = [_HEAD]
    for name, kind in documents().items():
        parts += _section(name, kind)
    return "\n".join(parts).rstrip() + "\n"


_HEAD = """# JSON from every command

With `--json`, each command prints one JSON document on standard output and nothing else there: progress, warnings and
what your own code prints go to standard error. The exit status is the same as without it.

```sh
decabench evaluate ./tour/submissions/majority --json | jq '.results.tasks | map_values(.score)'
```

If a command fails before it has a result, the document is an error, and the sentence is on standard error, too:

```json
{
  "format": "decabench.error/1",
  "error": {"kind": "UnknownNameError", "message": "There is no task 'sqaud'. …", "exit_code": 2}
}
```

Each document below has a JSON schema in [schemas/output/](schemas/output), which the tests hold against what the
commands print. The schemas of files are beside them ([file formats](reference/formats.md)).
Formats are stable: fields are added, but never renamed or removed. Numbers that are not known are `null`.
"""


def _section(name: str, kind: Any) -> Iterator[str]:
    yield f"## {name}\n"
    schema = schema_of(kind, name)
    fields_of = schema.get("properties")
    link = f"Schema: [{name}](schemas/output/{name}.schema.json)."
    if fields_of is None:
        inner = schema["$defs"][schema["additionalProperties"]["$ref"].rpartition("/")[2]]
        yield f"An object by name; in each: {inner['description']} {link}\n"
        fields_of, required = inner["properties"], inner["required"]
    else:
        yield f"{schema['description']} {link}\n"
        required = schema["required"]
    yield "| field | what |\n|---|---|"
    for key, each in fields_of.items():
        if key == "format":
            yield f"| `format` | `{each['const']}` |"
            continue
        optional = "" if key in required else " May be missing."
        text = re.sub(r"\|", r"\\|", each.get("description", ""))
        yield f"| `{key}` | {text}{_inside(each, schema)}{optional} |"
    yield ""


def _inside(field: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """The keys of the objects in a field: ` (name, passed, detail)`."""
    found = re.search(r'"#/\$defs/(\w+)"', json.dumps(field))
    if not found:
        return ""
    return f" In each: {', '.join(f'`{key}`' for key in schema['$defs'][found[1]]['properties'])}."


def write(folder: Path, check: bool) -> bool:
    """Write the schemas, remove those of no document, and return whether all was up to date. `check` writes nothing."""
    wanted = schemas()
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.schema.json")}
    if wanted == there or check:
        return wanted == there
    folder.mkdir(parents=True, exist_ok=True)
    for name in there.keys() - wanted.keys():
        (folder / name).unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")
    return False
