"""Digests of files, and what a pinned file has to have."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from decabench.tasks.task import RemoteFile

__all__ = ["Digests", "digests_of", "faults", "pins_of"]

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Digests:
    """What was computed from a file's bytes."""

    size: int
    """Bytes."""
    values: Mapping[str, str]
    """`sha256`, and `md5` and `git_blob` where they were asked for."""

    @property
    def sha256(self) -> str:
        """The digest that every record has."""
        return self.values["sha256"]


def pins_of(file: RemoteFile) -> dict[str, str]:
    """The published digests of a file, by kind."""
    pins = {"sha256": file.sha256, "md5": file.md5, "git_blob": file.git_blob}
    return {kind: value.lower() for kind, value in pins.items() if value is not None}


def digests_of(path: Path, kinds: Iterable[str] = ()) -> Digests:
    """The sha256 and the digests asked for, in one pass."""
    size = path.stat().st_size
    hashes = {"sha256": hashlib.sha256()}
    if "md5" in kinds:
        hashes["md5"] = hashlib.md5(usedforsecurity=False)
    if "git_blob" in kinds:
        hashes["git_blob"] = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            for each in hashes.values():
                each.update(chunk)
    return Digests(size, {kind: each.hexdigest() for kind, each in hashes.items()})


def faults(file: RemoteFile, digests: Digests) -> list[str]:
    """How the bytes differ from what is published; a size counts only where no digest is known."""
    pins = pins_of(file)
    found = [
        f"{kind} {digests.values.get(kind, 'none')}, expected {pin}"
        for kind, pin in pins.items()
        if digests.values.get(kind) != pin
    ]
    if not pins and file.size not in (None, digests.size):
        found.append(f"{digests.size} bytes, expected {file.size}")
    return found
