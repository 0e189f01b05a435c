"""Members of zip and tar archives, and of archives inside archives, extracted in one pass each."""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from decabench.errors import DataError
from decabench.files import atomic_file

__all__ = ["NESTED", "extract", "is_refused_write"]

# ---- writing

_REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS)


def is_refused_write(error: BaseException) -> bool:
    """Whether the operating system would not write: no space, no permission."""
    return isinstance(error, OSError) and error.errno in _REFUSALS


# ---- archive

NESTED = "!"
"""Between an archive inside an archive and its member: `2016-01/en-de.tgz!en-de/train.en`."""

_BUFFER = 1 << 20
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    NotImplementedError,
)

BinaryStream = IO[bytes] | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile

Found = tuple[str, IO[bytes]]
"""(name, stream) of a member; the stream is good until the next one is asked for."""


def extract(archive: Path, wanted: Collection[str], folder: Path) -> dict[str, Path]:
    """The wanted members that the archive has, by name. Raises DataError and StorageError."""
    for name in wanted:
        _require_safe(archive, name)
    inner: dict[str, set[str]] = {}
    for name in wanted:
        outer, nested, rest = name.partition(NESTED)
        inner.setdefault(outer, set()).update([rest] if nested else ())
    found = _one_pass(archive, inner.keys(), folder)
    for outer, names in inner.items():
        if names and outer in found:
            below = extract(found[outer], names, folder / f"{outer}{NESTED}")
            found |= {f"{outer}{NESTED}{name}": path for name, path in below.items()}
            if outer not in wanted:
                found.pop(outer).unlink()  # as large as all that it holds
    return found


def _one_pass(archive: Path, wanted: Collection[str], folder: Path) -> dict[str, Path]:
    found = {}
    with _damage(archive):
        for name, stream in _members(archive)(archive, wanted):
            found[name] = folder / name
            with atomic_file(found[name]) as target:
                shutil.copyfileobj(stream, target, _BUFFER)
    return found


def _members(archive: Path) -> Callable[[Path, Collection[str]], Iterator[Found]]:
    with archive.open("rb") as file:
        return _zip_members if file.read(4) in (b"PK\3\4", b"PK\5\6") else _tar_members


def _zip_members(archive: Path, wanted: Collection[str]) -> Iterator[Found]:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            name = _plain_name(info.filename)
            if name in wanted:
                is_link = stat.S_ISLNK(info.external_attr >> 16)
                _require_file(archive, name, not is_link and not info.is_dir() and not info.flag_bits & 1)
                with opened.open(info) as stream:
                    yield name, stream


def _tar_members(archive: Path, wanted: Collection[str]) -> Iterator[Found]:
    with _decompressed(archive) as stream, tarfile.open(fileobj=stream, mode="r|") as opened:
        for info in opened:
            name = _plain_name(info.name)
            if name in wanted:
                _require_file(archive, name, info.isreg())
                member = opened.extractfile(info)
                if member is not None:
                    with member:
                        yield name, member
        while stream.read(_BUFFER):  # the checksum of the whole stands at its end
            pass


def _decompressed(archive: Path) -> BinaryStream:
    with archive.open("rb") as file:
        magic = file.read(6)
    for prefix, opener in ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\0", lzma.open)):
        if magic.startswith(prefix):
            return opener(archive, "rb")
    return archive.open("rb")


def _is_safe(name: str) -> bool:
    path = PurePosixPath(name)
    return not (path.is_absolute() or ".." in path.parts or "\\" in name or re.match("[A-Za-z]:", name))


def _plain_name(name: str) -> str:
    """`data/train` for `./data/train`; a name that leads elsewhere stays as it is and is never asked for."""
    return str(PurePosixPath(name)) if _is_safe(name) else name


def _require_safe(archive: Path, name: str) -> None:
    if not all(_is_safe(part) for part in name.split(NESTED)):
        raise DataError(f"The member {name} of {archive.name} leads out of its folder: it is not extracted.")


def _require_file(archive: Path, name: str, is_file: bool) -> None:
    if not is_file:
        raise DataError(
            f"The member {name} of {archive.name} is a link, a folder or locked: it is not extracted."
        )


@contextmanager
def _damage(archive: Path) -> Iterator[None]:
    """One sentence for the many errors of a broken archive; those of writing pass through."""
    try:
        yield
    except _DAMAGE as error:
        if is_refused_write(error):
            raise
        told = str(error) or type(error).__name__
        raise DataError(
            f"The archive {archive.name} is damaged ({told}): fetch it again with --force."
        ) from error
