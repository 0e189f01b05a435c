"""JSON answers with a schema enforced by a server or library, such as `{"answer": "positive"}`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from decabench.prompts.markup import consistent_keys
from decabench.tasks import AnswerForm, Kind

_SHAPES: Mapping[Kind, str] = {
    "tags": '{"answer": ["…", "…"]}, with one tag for each word, in order',
    "tree": '{"answer": ["…", "…"]}, with one head:relation for each word, in order',
    "number": '{"answer": number}',
    "state": '{"answer": {"constraints": {"slot": "value"}, "requests": ["slot"]}}',
}


def json_request(kind: Kind) -> str:
    """Return the sentence in a prompt that asks for JSON."""
    shape = _SHAPES.get(kind, '{"answer": "…"}')
    return f"Write the answer as JSON, and nothing else: {shape}."


def answer_schema(
    form: AnswerForm, labels: Sequence[str], context: str, is_escaped: bool = False
) -> dict[str, Any]:
    """Return the JSON schema for the answer to a question with these labels.

    With `is_escaped`, patterns describe JSON strings as they are written, with escapes. llama.cpp and xgrammar read
    patterns in this way, and would otherwise allow quotation marks that end the string.
    """
    return _object({"answer": _value_schema(form, labels, context, is_escaped)}, ["answer"])


def _object(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


_COLUMNS = re.compile(r"The table has columns (.+?) and key words ", re.DOTALL)


def _query_pattern(context: str, is_escaped: bool) -> str | None:
    """Return a regular expression for WikiSQL queries over the columns listed in the context.

    Returns None if the context lists no columns. A column name with a comma counts as several columns, so
    only its parts are accepted.
    """
    if not (named := _COLUMNS.match(context)):
        return None
    columns = "|".join(map(_escaped, dict.fromkeys(" ".join(named[1].split()).split(", "))))
    value = r'([^\n"\\]|\\")+' if is_escaped else r"[^\n]+"
    condition = rf"({columns}) [=<>] {value}"
    return (
        rf"^SELECT ((MAX|MIN|COUNT|SUM|AVG) )?({columns}) FROM table( WHERE {condition}( AND {condition})*)?$"
    )


def _escaped(text: str) -> str:
    """Escape a string for use in a regular expression, in a way that all servers understand."""
    return re.sub(r"([\\.^$*+?()\[\]{}|])", r"\\\1", text)


def _value_schema(form: AnswerForm, labels: Sequence[str], context: str, is_escaped: bool) -> dict[str, Any]:
    words = len(context.split())
    text: dict[str, Any] = {"type": "string"}
    names = {**text, "enum": list(form.labels)} if form.labels else text
    match form.kind:
        case "label" if labels:
            return {**text, "enum": list(labels)}
        case "sql" if pattern := _query_pattern(context, is_escaped):
            return {**text, "pattern": pattern}
        case "number":
            ends = zip(("minimum", "maximum"), form.scale or (), strict=False)
            return {"type": "number", **dict(ends)}
        case "tags" | "tree":
            item = names if form.kind == "tags" else {**text, "pattern": "^[0-9]+:[A-Za-z:_-]+$"}
            return {"type": "array", "items": item, "minItems": words, "maxItems": words}
        case "state":
            constraints = _object(dict.fromkeys(form.constraints or form.labels, text), ())
            if not form.labels:
                constraints = {"type": "object", "additionalProperties": text}
            parts = {"constraints": constraints, "requests": {"type": "array", "items": names}}
            return _object(parts, ["constraints", "requests"])
        case _:
            return text


def write_json(answer: str, kind: Kind) -> str:
    """Return the answer of a worked example as JSON, in the form that the prompt asks for."""
    value: Any = answer
    if kind in ("tags", "tree"):
        value = answer.split()
    elif kind == "number":
        value = json.loads(answer)
    elif kind == "state":
        goals, _, requests = ("" if answer == "None" else answer).partition(";")
        pairs = (item.partition(":") for item in goals.split(",") if item.strip())
        value = {
            "constraints": {slot.strip(): text.strip() for slot, _, text in pairs},
            "requests": [item.strip() for item in requests.split(",") if item.strip()],
        }
    return json.dumps({"answer": value}, ensure_ascii=False)


def read_json(text: str, kind: Kind, names: Sequence[str] = ("answer",)) -> str | None:
    """Convert a JSON answer to the task's form, or return None if the string has no answer in the expected form.

    The answer is the value of the key `answer` or, without that key, of the only key that is in `names`. Numbers such
    as `1.50` keep their digits.
    """
    try:
        found = json.loads(
            text,
            parse_float=str,
            parse_int=str,
            parse_constant=_refuse_constant,
            object_pairs_hook=consistent_keys,
        )
        named = [value for key, value in found.items() if key.casefold() in names]
        (value,) = [found["answer"]] if "answer" in found else named or [found] * (kind == "state")
        if kind in ("tags", "tree"):
            are_items = isinstance(value, list) and all(
                isinstance(item, str) and item.split() == [item] for item in value
            )
            return " ".join(value) if are_items else None
        if kind == "state" and not isinstance(value, str):
            asked, goals = value.pop("requests", []), value.pop("constraints", {}) | value
            goals = {slot: said for slot, said in goals.items() if said not in ("", None)}
            texts = [*goals.values(), *asked]
            if isinstance(asked, str) or any(re.search("[,;:]", said) for said in texts):
                return None
            constraints = ", ".join(f"{slot}: {said}" for slot, said in goals.items())
            requests = ", ".join(asked)
            return f"{constraints};{' ' * bool(requests)}{requests}" if texts else "None"
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
    return value if isinstance(value, str) else None


def _refuse_constant(name: str) -> str:
    raise ValueError(f"{name} is not JSON")
