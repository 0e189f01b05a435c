"""What is known of a file that was fetched, and the note beside a download that spares hashing it again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from decabench.files import atomic_file
from decabench.tasks.task import RemoteFile

__all__ = [
    "Digests",
    "FileRecord",
    "Origin",
    "Status",
    "digests_of",
    "faults",
    "pins_of",
    "read_origin",
    "record_of",
    "write_origin",
]

# ---- digests

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


# ---- record

Status = Literal["verified", "unpinned", "mirror-differs"]


@dataclass(frozen=True)
class FileRecord:
    """A file that a split was read from."""

    name: str
    """Its name at upstream."""
    url: str
    """The address that it came from, or `mirror:<name>`."""
    sha256: str
    """Computed from the bytes that were read."""
    size: int
    """Bytes."""
    status: Status
    """`verified`: equals what is published. `unpinned`: no digest is published.
    `mirror-differs`: differs from what is published, used because a mirror was asked for."""

    def to_dict(self) -> dict[str, Any]:
        """The record as plain JSON values."""
        return asdict(self)


def record_of(file: RemoteFile, url: str, digests: Digests) -> FileRecord:
    """The record of a file with these digests."""
    status: Status = "verified" if pins_of(file) else "unpinned"
    if faults(file, digests):
        status = "mirror-differs"
    return FileRecord(file.name, url, digests.sha256, digests.size, status)


@dataclass(frozen=True)
class Origin:
    """Where a download came from and what it was when it was verified."""

    url: str
    """Its address."""
    digests: Digests
    """Those of its bytes."""


def _note(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def write_origin(path: Path, origin: Origin, kept_as: Path) -> None:
    """Notes the origin of the file at `path`, which is about to be moved to `kept_as`."""
    content = {
        "format": 1,
        "url": origin.url,
        "size": origin.digests.size,
        "modified": path.stat().st_mtime_ns,
        "digests": dict(origin.digests.values),
    }
    with atomic_file(_note(kept_as)) as note:
        note.write(json.dumps(content, indent=1).encode())


def read_origin(path: Path, file: RemoteFile) -> Origin | None:
    """The origin of a download that is whole and as it was; None where it has to be fetched anew."""
    try:
        content = json.loads(_note(path).read_text(encoding="utf-8"))
        noted = Digests(int(content["size"]), dict(content["digests"]))
        url, modified, stat = str(content["url"]), content["modified"], path.stat()
        kinds = pins_of(file).keys()
        if (stat.st_size, stat.st_mtime_ns) == (noted.size, modified) and kinds <= noted.values.keys():
            return Origin(url, noted)
        fresh = digests_of(path, kinds)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Origin(url, fresh) if fresh.sha256 == noted.values.get("sha256") else None
