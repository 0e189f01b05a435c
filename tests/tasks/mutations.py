"""Seeded damage to published files: in their bytes, in one of their rows, in the archive around them."""

from __future__ import annotations

import io
import json
import random
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["MUTATIONS", "mutate"]

Damage = Callable[[bytes, random.Random, str], bytes]


def _cut(content: bytes, rng: random.Random, name: str) -> bytes:
    return content[: rng.randrange(1, max(2, len(content)))]


def _empty(content: bytes, rng: random.Random, name: str) -> bytes:
    return b""


def _garbage(content: bytes, rng: random.Random, name: str) -> bytes:
    return rng.randbytes(min(len(content), 5000))


def _flip(content: bytes, rng: random.Random, name: str) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.randrange(1, 30)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _other_encoding(content: bytes, rng: random.Random, name: str) -> bytes:
    if rng.random() < 0.5:
        return content.decode("utf-8", "replace").encode("utf-16")
    place = rng.randrange(len(content))
    return content[:place] + "Müller".encode("latin-1") + content[place:]


def _nul_bytes(content: bytes, rng: random.Random, name: str) -> bytes:
    place = rng.randrange(len(content))
    return content[:place] + b"\0" * 100 + content[place:]


def _page(content: bytes, rng: random.Random, name: str) -> bytes:
    return b"<!DOCTYPE html><html><body>Not found</body></html>\n"


def _row(content: bytes, rng: random.Random, name: str) -> bytes:
    """Damage one row of whatever the format calls a row."""
    if name.endswith(".parquet"):
        return _parquet_row(content, rng)
    text = content.decode()
    if name.endswith(".json"):
        return json.dumps(_one_value(json.loads(text), rng)).encode()
    lines = text.splitlines(keepends=True)
    number = rng.randrange(len(lines))
    if name.endswith(".jsonl"):
        lines[number] = json.dumps(_one_value(json.loads(lines[number]), rng)) + "\n"
    else:
        lines[number : number + 1] = _one_line(lines[number], rng)
    return "".join(lines).encode()


def _one_line(line: str, rng: random.Random) -> list[str]:
    mark = next((mark for mark in "\t,/><" if mark in line), " ")
    fields = line.rstrip("\n").split(mark)
    match rng.randrange(6):
        case 0:
            return []
        case 1:
            return [line, line]
        case 2:
            return [mark.join(reversed(fields)) + "\n"]
        case 3:
            return [mark.join(fields[:-1]) + "\n"]
        case 4:
            return [rng.choice(["\n", "{}\n", '"\n', "null\n", "x\n", "\t\t\t\n", "<seg>\n"]), line]
        case _:
            return [line.rstrip("\n") + rng.choice(['"', "\t", ",", "</doc>", "\r", "/", "\ufeff"]) + "\n"]


_OTHERS: list[Any] = [None, 7, -1, 2.5, True, "", "text", [], ["a"], {}, {"a": 1}, [[]], "\ud800", 10**30]


def _one_value(value: Any, rng: random.Random) -> Any:
    """Delete, or replace with another type, one value somewhere below."""
    holders: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        here = waiting.pop()
        keys = list(here) if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else ()
        for key in keys:
            holders.append((here, key))
            waiting.append(here[key])
    if not holders:
        return None
    holder, key = rng.choice(holders)
    if rng.random() < 0.4:
        del holder[key]
    else:
        holder[key] = rng.choice(_OTHERS)
    return value


def _parquet_row(content: bytes, rng: random.Random) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(content))
    column = rng.choice(table.column_names)
    match rng.randrange(4):
        case 0:
            table = table.drop_columns([column])
        case 1:
            values = table.column(column).to_pylist()
            values[rng.randrange(len(values))] = None
            table = table.set_column(table.column_names.index(column), column, pa.array(values))
        case 2:
            other = rng.choice(
                [pa.array(range(len(table))), pa.array([["x"]] * len(table)), pa.nulls(len(table))]
            )
            table = table.set_column(table.column_names.index(column), column, other)
        case _:
            broken = pa.array([b"\xff\xfe"] * len(table), pa.binary())
            broken = pa.Array.from_buffers(pa.string(), len(table), broken.buffers())
            table = table.set_column(table.column_names.index(column), column, broken)
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


MUTATIONS: dict[str, Damage] = {
    "row": _row,
    "cut": _cut,
    "empty": _empty,
    "garbage": _garbage,
    "flip": _flip,
    "encoding": _other_encoding,
    "nul": _nul_bytes,
    "page": _page,
}
"""By name: what is done to a file, or to a member of an archive."""


def mutate(path: Path, kind: str, rng: random.Random, members: str = "") -> str:
    """Damage a file in place, or a member of it if it is an archive; return the name of what was damaged.

    `members` is a pattern for the members that matter.
    """
    damage, content = MUTATIONS[kind], path.read_bytes()
    is_archive = bool(re.search(r"\.(zip|tgz|tar\.\w+)$", path.name))
    if is_archive and (kind == "row" or rng.random() < 0.6):
        packed, name = _mutate_member(content, damage, rng, members, kind)
        path.write_bytes(packed)
        return name
    path.write_bytes(damage(content, rng, path.name))
    return path.name


def _mutate_member(
    content: bytes, damage: Damage, rng: random.Random, members: str, kind: str
) -> tuple[bytes, str]:
    files = _unpack(content)
    name = rng.choice(sorted(name for name in files if re.search(members, name)))
    if kind == "row" or rng.random() < 0.7:
        files[name] = damage(files[name], rng, name)
    else:
        moved = files.pop(name)
        if rng.random() < 0.5:
            files[f"../{name}"] = moved
    return _pack(content, files), Path(name).name


def _unpack(content: bytes) -> dict[str, bytes]:
    if content.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        opened = {info.name: archive.extractfile(info) for info in archive if info.isreg()}
        return {name: file.read() for name, file in opened.items() if file is not None}


def _pack(content: bytes, files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    if content.startswith(b"PK"):
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name, data in files.items():
                zipped.writestr(name, data)
        return out.getvalue()
    mode = "w:bz2" if content.startswith(b"BZh") else "w:gz"
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()
