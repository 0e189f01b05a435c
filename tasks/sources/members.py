"""Members of zip and tar archives, extracted within limits: no path, link or archive bomb can do harm."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from decabench.archives import DAMAGE, LargeArchiveError, archive_members
from decabench.errors import DataError, DecabenchError
from decabench.files import atomic_file, is_refused_write

_NESTED = "!"
"""Separates an archive inside an archive from its member: `2016-01/en-de.tgz!en-de/train.en`."""

_BUFFER = 1 << 20
_LARGEST_RATIO = 200
_ALWAYS_ALLOWED = 256 << 20


def extract(archive: Path, wanted: Collection[str], folder: Path) -> dict[str, Path]:
    """Extract the wanted members that the archive contains, and return their paths by name.

    Raises DataError and StorageError.
    """
    for name in wanted:
        if not all(_is_safe(part) for part in name.split(_NESTED)):
            raise DataError(
                f"The member {name} of {archive.name} leads out of its folder: it is not extracted."
            )
    inner: dict[str, set[str]] = {}
    for name in wanted:
        outer, nested, rest = name.partition(_NESTED)
        inner.setdefault(outer, set()).update([rest] if nested else ())
    found = _extract_flat(archive, inner.keys(), folder)
    for outer, names in inner.items():
        if names and outer in found:
            below = extract(found[outer], names, folder / f"{outer}{_NESTED}")
            found |= {f"{outer}{_NESTED}{name}": path for name, path in below.items()}
            if outer not in wanted:
                found.pop(outer).unlink()  # it is as large as all that it holds
    return found


def _extract_flat(archive: Path, wanted: Collection[str], folder: Path) -> dict[str, Path]:
    found = {}
    most = max(_ALWAYS_ALLOWED, _LARGEST_RATIO * archive.stat().st_size)  # text shrinks to a tenth
    with _archive_errors(archive, most):
        for member in archive_members(archive, most):
            # `data/train` for `./data/train`; a name that leads elsewhere is never requested.
            name = str(PurePosixPath(member.name)) if _is_safe(member.name) else member.name
            if name not in wanted:
                continue
            if member.kind != "file":
                raise DataError(
                    f"The member {name} of {archive.name} is a link, a folder or encrypted: it is not extracted."
                )
            found[name] = folder / name
            with atomic_file(found[name]) as target:
                while block := member.read(_BUFFER):
                    target.write(block)
    return found


def _is_safe(name: str) -> bool:
    path = PurePosixPath(name)
    return not (path.is_absolute() or ".." in path.parts or "\\" in name or re.match("[A-Za-z]:", name))


@contextmanager
def _archive_errors(archive: Path, most: int) -> Iterator[None]:
    """Turn the many errors of a damaged archive into a DataError; errors of writing pass through."""
    try:
        yield
    except DecabenchError:
        raise
    except LargeArchiveError as error:
        raise DataError(
            f"The archive {archive.name} unpacks to more than the {most >> 20:,} MiB that are allowed, so it can't be "
            "the published file. Get it again."
        ) from error
    except DAMAGE as error:
        if is_refused_write(error):
            raise
        reason = str(error) or type(error).__name__
        raise DataError(
            f"The archive {archive.name} is damaged ({reason}): fetch it again with --force."
        ) from error
