"""The JSON schema of everything that decabench prints with `--json`, and of the files in a submission.

`python tools/schemas.py` prints it. `docs/conf.py` adds it to the site and inserts `tables` into docs/json.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import msgspec

from decabench import leaderboard, runs, scoring, submission, tasks
from decabench.commands import _documents
from decabench.commands._documents import DOCUMENTS, SubmittedAnswer
from decabench.scoring import ExamplesHead, ScoredExample
from decabench.submission import SubmissionInfo

__all__ = ["schema", "tables"]

FORMATS: Mapping[str, str] = {
    "SubmissionInfo": "decabench.submission/1",
    "ExamplesHead": "decabench.examples/1",
}
"""The formats of files whose types don't include them."""
OPEN = ("SubmittedAnswer", "SubmissionInfo")
"""Types that allow other keys, which are ignored."""


def schema() -> dict[str, Any]:
    """Return a schema (draft 2020-12) for every document and file with a `format`. `$defs` contains all types."""
    for room in (leaderboard, runs, scoring, submission, tasks):  # types that _documents doesn't import
        for name in set(room.__all__) - vars(_documents).keys():
            setattr(_documents, name, getattr(room, name))
    kinds = [*DOCUMENTS.values(), SubmittedAnswer, ExamplesHead, ScoredExample, SubmissionInfo]
    _, parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    for name, format in FORMATS.items():
        parts[name]["properties"]["format"] = {"const": format}
        parts[name]["required"].insert(0, "format")
    for name, part in parts.items():
        part.setdefault("additionalProperties", name in OPEN)
    whole = [{"$ref": f"#/$defs/{name}"} for name, part in parts.items() if "format" in part["properties"]]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "anyOf": whole, "$defs": parts}


def tables() -> Iterator[str]:
    """Yield Markdown lines that describe the fields of each command's document. Needs Sphinx."""
    from sphinx.pycode import ModuleAnalyzer

    parts = schema()["$defs"]
    comments = ModuleAnalyzer.for_module("decabench.commands._documents").find_attr_docs()
    for command, kind in DOCUMENTS.items():
        own = get_args(kind)[-1] if get_args(kind) else kind
        part = parts[own.__name__]
        mapping = "A mapping from names to objects. Each object: " if own is not kind else ""
        yield f"## {command}\n\n{mapping}{part['description']}\n"
        yield "| field | description |\n|---|---|"
        for field, form in part["properties"].items():
            texts = [
                comments[each.__name__, field] for each in own.__mro__ if (each.__name__, field) in comments
            ]
            if field == "format":
                texts = [[f"`{form['enum'][0]}`"]]
            if inner := re.search(r"#/\$defs/(\w+)", json.dumps(form)):
                texts.append(
                    [f"Fields of each: {', '.join(f'`{key}`' for key in parts[inner[1]]['properties'])}."]
                )
            optional = "" if field in part["required"] else " (may be missing)"
            yield f"| `{field}`{optional} | {' '.join(' '.join(text).strip() for text in texts)} |"
        yield ""


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))
