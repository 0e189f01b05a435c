"""Members of zip and tar archives, extracted within bounds: no path, link or bomb of an archive does harm."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from decabench.errors import DataError
from decabench.files import atomic_file, is_refused_write

__all__ = ["extract"]

_NESTED = "!"
"""Separates an archive inside an archive from its member: `2016-01/en-de.tgz!en-de/train.en`."""

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

_LARGEST_RATIO = 200
_ALWAYS_ALLOWED = 256 << 20


class _Budget:
    """The limit of an archive's unpacked size: 200 times its size, or 256 MiB. Text shrinks to a tenth."""

    def __init__(self, archive: Path) -> None:
        self._name = archive.name
        self._most = max(_ALWAYS_ALLOWED, _LARGEST_RATIO * archive.stat().st_size)
        self._left = self._most

    def spend(self, size: int) -> None:
        """Count bytes. Raises DataError when there are more than an honest archive of that size has."""
        self._left -= size
        if self._left < 0:
            raise DataError(
                f"The archive {self._name} unpacks to more than {self._most >> 20:,} MiB, {_LARGEST_RATIO} times its "
                "size: it is not a file that upstream publishes."
            )


class _Metered:
    """A stream whose bytes are counted as they are read."""

    def __init__(
        self, stream: IO[bytes] | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile, budget: _Budget
    ) -> None:
        self._stream = stream
        self._budget = budget

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes."""
        block = self._stream.read(size)
        self._budget.spend(len(block))
        return block


_LONGEST_HEADER = 1 << 20


class _TarInfo(tarfile.TarInfo):
    """A header of a tar archive, whose long names and attributes are read into memory whatever size they claim."""

    def _proc_member(self, tarfile_: tarfile.TarFile) -> tarfile.TarInfo:
        kinds = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE)
        if self.type in (*kinds, tarfile.SOLARIS_XHDTYPE) and self.size > _LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        return super()._proc_member(tarfile_)  # type: ignore[misc, no-any-return]


_Member = tuple[str, IO[bytes]]
"""(name, stream); the stream is valid until the next member is requested."""


def extract(archive: Path, wanted: Collection[str], folder: Path) -> dict[str, Path]:
    """Extract those of the wanted members that the archive has, and return their paths by name.

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
    budget = _Budget(archive)
    with _archive_errors(archive):
        with archive.open("rb") as file:
            is_zip = file.read(4) in (b"PK\3\4", b"PK\5\6")
        for name, stream in (_zip_members if is_zip else _tar_members)(archive, wanted):
            found[name] = folder / name
            with atomic_file(found[name]) as target:
                while block := stream.read(_BUFFER):
                    budget.spend(len(block))
                    target.write(block)
    return found


def _zip_members(archive: Path, wanted: Collection[str]) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            name = _plain_name(info.filename)
            if name in wanted:
                is_link = stat.S_ISLNK(info.external_attr >> 16)
                _require_file(archive, name, not is_link and not info.is_dir() and not info.flag_bits & 1)
                with opened.open(info) as stream:
                    yield name, stream


def _tar_members(archive: Path, wanted: Collection[str]) -> Iterator[_Member]:
    with _decompressed(archive) as file:
        stream = _Metered(file, _Budget(archive))
        opened = tarfile.open(fileobj=stream, mode="r|", tarinfo=_TarInfo)  # type: ignore[call-overload]
        for info in opened:
            name = _plain_name(info.name)
            if name in wanted:
                _require_file(archive, name, info.isreg())
                member = opened.extractfile(info)
                if member is not None:
                    with member:
                        yield name, member
        while stream.read(_BUFFER):  # the checksum of the whole is at its end
            pass


def _decompressed(archive: Path) -> IO[bytes] | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile:
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
    """Return `data/train` for `./data/train`; a name that leads elsewhere is never requested and stays unchanged."""
    return str(PurePosixPath(name)) if _is_safe(name) else name


def _require_file(archive: Path, name: str, is_file: bool) -> None:
    if not is_file:
        raise DataError(
            f"The member {name} of {archive.name} is a link, a folder or encrypted: it is not extracted."
        )


@contextmanager
def _archive_errors(archive: Path) -> Iterator[None]:
    """Turn the many errors of a damaged archive into one DataError; those of writing pass through."""
    try:
        yield
    except _DAMAGE as error:
        if is_refused_write(error):
            raise
        reason = str(error) or type(error).__name__
        raise DataError(
            f"The archive {archive.name} is damaged ({reason}): fetch it again with --force."
        ) from error
