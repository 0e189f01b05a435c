"""Write YAML that every parser reads alike: block mappings and lists, every text in double quotes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["Tagged", "dump_yaml"]


class Tagged(str):
    """A text to write without quotes, such as `!function utils.load`."""


def dump_yaml(value: Mapping[str, Any]) -> str:
    """Return a mapping as YAML. Values are texts, numbers, truth values, None, lists and mappings."""
    return "".join(f"{line}\n" for line in _lines(value))


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _entry(f"{_key(key)}:", inner, indent="  ")
    else:
        for inner in value:
            nested = list(_lines(inner)) if _is_block(inner) else [_scalar(inner)]
            yield f"- {nested[0]}"
            yield from (f"  {line}" for line in nested[1:])


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    if _is_block(value):
        yield head
        yield from (f"{indent}{line}" for line in _lines(value))
    else:
        yield f"{head} {_scalar(value)}"


def _is_block(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple) and bool(value)


_PLAIN_KEY = re.compile(r"(?!(?:y|n|yes|no|on|off|true|false|null)$)[a-z][a-z_-]*")
"""Keys that need no quotes; the words left out are truth values to some parsers."""


def _key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else _quoted(key)


def _scalar(value: Any) -> str:
    if isinstance(value, Tagged):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    return "{}" if isinstance(value, Mapping) else "[]"


def _number(value: float) -> str:
    """Return a float as YAML 1.1 has it, which wants a point before an exponent."""
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    text = repr(value)
    whole, e, exponent = text.partition("e")
    return f"{whole if '.' in whole else f'{whole}.0'}{e}{exponent}"


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def _quoted(text: str) -> str:
    return f'"{"".join(_ESCAPES.get(char) or _escaped(char) for char in text)}"'


def _escaped(char: str) -> str:
    if char.isprintable() and not "\ud800" <= char <= "\udfff":
        return char
    if "\ud800" <= char <= "\udfff":
        return "\\uFFFD"  # half of a character, which YAML cannot hold
    code = ord(char)
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
