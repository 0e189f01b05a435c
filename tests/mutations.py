"""Seeded damage to files: bytes, cuts, and values in the place of other values."""

from __future__ import annotations

import json
import random
import re
from typing import Any

__all__ = ["mutate"]

HOSTILE: list[Any] = [
    *(None, True, -1, 0, 2**53 + 1, 10**30, 0.5, -1e300, 1e308),
    *(
        "",
        " ",
        "\0",
        "\x1b[2J\u202e",
        "\ud800",
        "a" * 5000,
        "../../etc/passwd",
        "/dev/zero",
        "{question}",
        "1e400",
        "NaN",
    ),
    *([], {}, [[]], [None], {"a": 1}, ["a", "a"], [1, "a", {}], {"": {}}, {"a.b": [1]}, {"\ud800": "\0"}),
]
RAW = [
    "1e400",
    "NaN",
    "-Infinity",
    "9" * 5000,
    "[" * 2000,
    "{" * 2000,
    '"\\ud800"',
    '"a":1,"a":1',
    "\0",
    "\ufeff",
    "\n" * 50,
]
TOML = [
    *(
        "1e400",
        "nan",
        "9" * 5000,
        "[" * 2000,
        "{a=" * 300,
        '"""',
        "'",
        "[]",
        "{}",
        "[[]]",
        "[{}]",
        '"\\u0000"',
        "true",
        "-1",
    ),
    *(
        "1979-05-27",
        '"\\u001b[2J"',
        '""',
        '["a", 1]',
        "{a = {b = {}}}",
        "0x" + "f" * 5000,
        "9999999999999999999999",
    ),
    ".".join(["a"] * 3000) + " = 1",
]


def mutate(data: bytes, seed: object) -> bytes:
    """Return `data` damaged in one of many ways, always the same for a seed."""
    chosen = random.Random(str(seed))
    ways = [_flip, _cut, _drop, _repeat, _insert]
    text = _text(data)
    if text is not None and text.lstrip()[:1] in ("{", "["):
        ways += [_json] * 8
    elif text is not None and re.search(r"^\s*[\w\"'.-]+ *=|^\[", text, re.M):
        ways += [_toml] * 8
    for _ in range(chosen.choice([1, 1, 1, 2, 4])):
        data = chosen.choice(ways)(data, chosen)
    return data


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _flip(data: bytes, chosen: random.Random) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(chosen.choice([1, 3, 20])):
        changed[chosen.randrange(len(changed))] = chosen.randrange(256)
    return bytes(changed)


def _cut(data: bytes, chosen: random.Random) -> bytes:
    return data[
        : chosen.choice([0, 1, 4, len(data) // 2, max(0, len(data) - 1), chosen.randrange(len(data) + 1)])
    ]


def _drop(data: bytes, chosen: random.Random) -> bytes:
    start = chosen.randrange(len(data) + 1)
    return data[:start] + data[start + chosen.choice([1, 4, 16, 200]) :]


def _repeat(data: bytes, chosen: random.Random) -> bytes:
    start = chosen.randrange(len(data) + 1)
    end = start + chosen.choice([1, 8, 100])
    return data[:end] + data[start:end] * chosen.choice([1, 3, 50]) + data[end:]


def _insert(data: bytes, chosen: random.Random) -> bytes:
    start = chosen.randrange(len(data) + 1)
    return (
        data[:start]
        + chosen.choice([b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"[" * 2000])
        + data[start:]
    )


def _json(data: bytes, chosen: random.Random) -> bytes:
    """Put another value, or another text, in the place of one value of a JSON text or of one of its lines."""
    lines = [data] if _load(data) is not None else data.split(b"\n")
    at = chosen.randrange(len(lines))
    value = _load(lines[at])
    if value is None:
        return _flip(data, chosen)
    mark = "a mark that no file has"
    places = list(_places(value))
    if not places:
        return _flip(data, chosen)
    holder, key = chosen.choice(places)
    match chosen.randrange(4):
        case 0 if isinstance(holder, dict):
            holder[f"{key}x"] = holder.pop(key)
        case 1:
            del holder[key]
        case _:
            holder[key] = mark
    raw = json.dumps(chosen.choice(HOSTILE)) if chosen.random() < 0.8 else chosen.choice(RAW)
    indent = 1 if len(lines) == 1 else None
    text = json.dumps(value, indent=indent).replace(json.dumps(mark), raw)
    lines[at] = text.encode("utf-8", "surrogatepass")
    return b"\n".join(lines)


def _load(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _places(value: Any) -> Any:
    """Yield every (container, key) in a value."""
    for key in (
        list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    ):
        yield value, key
        yield from _places(value[key])


def _toml(data: bytes, chosen: random.Random) -> bytes:
    lines = data.decode("utf-8", "replace").split("\n")
    at = chosen.randrange(len(lines))
    key, equals, _ = lines[at].partition("=")
    match chosen.randrange(6):
        case 0:
            del lines[at]
        case 1:
            lines.insert(chosen.randrange(len(lines) + 1), lines[at])
        case 2:
            lines.insert(at, chosen.choice(TOML))
        case 3 if equals:
            lines[at] = f"{key.strip()}x = 1"
        case _:
            lines[at] = f"{key}= {chosen.choice(TOML)}" if equals else chosen.choice(TOML)
    return "\n".join(lines).encode()
