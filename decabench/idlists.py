"""Id lists: which examples each split has, so that a submission can be checked without the data."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from decabench import strict_json
from decabench.atomic import replacing
from decabench.errors import DataError, MissingDataError
from decabench.faults import shown
from decabench.tasks.example import SPLITS

__all__ = ["FORMAT", "IdList", "read_id_list", "write_id_list"]

FORMAT = "decabench.ids/1"
LIMIT_BYTES = 1 << 30


@dataclass(frozen=True)
class IdList:
    """The ids of some splits, and which data they are from."""

    ids: Mapping[tuple[str, str], tuple[str, ...]]
    """(task, split) to the ids in the order of the data."""
    fingerprints: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(task, split) to the fingerprint of that data, where it was given."""


def write_id_list(
    path: str | Path,
    ids: Mapping[tuple[str, str], Iterable[str]],
    fingerprints: Mapping[tuple[str, str], str] | None = None,
) -> None:
    """Write an id list as `.json` or `.json.gz`; equal input gives equal bytes, and order of ids is kept."""
    path = Path(path)
    splits = []
    for (task, split), of_split in sorted(ids.items(), key=lambda item: _position(item[0])):
        fingerprint = (fingerprints or {}).get((task, split))
        head = {"task": task, "split": split}
        splits.append(head | ({"fingerprint": fingerprint} if fingerprint else {}) | {"ids": list(of_split)})
    text = json.dumps({"format": FORMAT, "splits": splits}, ensure_ascii=False, indent=0) + "\n"
    _parsed(path, text)
    with replacing(path, "gz" if _is_packed(path) else None) as handle:
        handle.write(text.encode())


def read_id_list(path: str | Path) -> IdList:
    """An id list; `MissingDataError` where there is none, `DataError` where it is damaged."""
    path = Path(path)
    packed = _is_packed(path)
    try:
        with gzip.open(path, "rb") if packed else open(path, "rb") as handle:
            raw = handle.read(LIMIT_BYTES + 1)
    except FileNotFoundError as error:
        raise MissingDataError(f"There is no id list {path}: give the path of one.") from error
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(path, f"it cannot be read ({error})") from error
    if len(raw) > LIMIT_BYTES:
        raise _damaged(path, f"it has more than {LIMIT_BYTES:,} bytes")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise _damaged(path, "it is not UTF-8") from error
    return _parsed(path, text)


def _parsed(path: Path, text: str) -> IdList:
    try:
        record = strict_json.loads(text)
    except ValueError as error:
        raise _damaged(path, f"it is not JSON: {error}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise _damaged(path, f"its format is not {FORMAT!r}")
    ids: dict[tuple[str, str], tuple[str, ...]] = {}
    fingerprints: dict[tuple[str, str], str] = {}
    for entry in _list(record, "splits", path):
        pair = _pair(entry, path)
        if pair in ids:
            raise _damaged(path, f"it has {'.'.join(pair)} twice")
        ids[pair] = tuple(_list(entry, "ids", path))
        if not all(isinstance(id_, str) for id_ in ids[pair]) or len(set(ids[pair])) < len(ids[pair]):
            raise _damaged(path, f"the ids of {'.'.join(pair)} are not different strings")
        try:
            "".join(ids[pair]).encode()
        except UnicodeEncodeError as error:
            raise _damaged(path, f"an id of {'.'.join(pair)} has half of a surrogate pair") from error
        fingerprint = entry.get("fingerprint")
        if fingerprint is not None and not isinstance(fingerprint, str):
            raise _damaged(path, f"the fingerprint of {'.'.join(pair)} is not a string")
        if fingerprint:
            fingerprints[pair] = fingerprint
    return IdList(ids, fingerprints)


def _pair(entry: Any, path: Path) -> tuple[str, str]:
    if not isinstance(entry, dict):
        raise _damaged(path, "one of its splits is not an object")
    task, split = entry.get("task"), entry.get("split")
    if not isinstance(task, str) or not task or split not in SPLITS:
        raise _damaged(path, f"one of its splits is called {shown(f'{task}.{split}')}")
    return task, split


def _list(record: dict[str, Any], key: str, path: Path) -> list[Any]:
    value = record.get(key)
    if not isinstance(value, list):
        raise _damaged(path, f"{key!r} is not a list")
    return value


def _position(pair: tuple[str, str]) -> tuple[str, int]:
    task, split = pair
    return task, SPLITS.index(split) if split in SPLITS else len(SPLITS)


def _is_packed(path: Path) -> bool:
    name = path.name.lower()
    if not name.endswith((".json", ".json.gz")):
        raise DataError(f"{path.name} cannot be an id list: its name must end in .json or .json.gz.")
    return name.endswith(".gz")


def _damaged(path: Path, why: str) -> DataError:
    return DataError(f"{path.name} is no valid id list: {why}. Get or write it again.")
