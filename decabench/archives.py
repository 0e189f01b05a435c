"""Read and extract untrusted zip and tar archives within size limits.

Sizes, headers, paths and links in an archive are never trusted.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import stat
import struct
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Literal

from decabench.errors import DataError, DecabenchError
from decabench.files import atomic_file, is_refused_write

DAMAGE = (
    *(EOFError, LookupError, NotImplementedError, OSError, OverflowError, RecursionError, RuntimeError),
    *(ValueError, lzma.LZMAError, struct.error, tarfile.TarError, zipfile.BadZipFile, zlib.error),
)
"""Exceptions that the standard library raises for damaged archives."""
_BUFFER = 1 << 16
_LONGEST_HEADER = 1 << 20
_HEADERS = 16 << 20
"""Bytes allowed for a tar file's headers and padding, in addition to the limit for its members."""


class LargeArchiveError(Exception):
    """An archive exceeds the size limit when unpacked."""


@dataclass(frozen=True)
class Member:
    """A member of an archive."""

    name: str
    """The member's name in the archive."""
    kind: Literal["file", "folder", "other"]
    """The member's type: `other` for links, devices, encrypted files and anything else that isn't a plain file or
    folder.
    """
    read: Callable[[int], bytes]
    """A function that reads up to the given number of bytes. Call it before requesting the next member."""


def is_zip(path: Path) -> bool:
    """Return whether a file starts with a zip signature."""
    with path.open("rb") as file:
        return file.read(4) in (b"PK\3\4", b"PK\5\6")


def archive_members(path: Path, most: int) -> Iterator[Member]:
    """Yield the members of a zip file, or of a tar file with or without gzip, bzip2 or xz compression.

    Raises LargeArchiveError once more than `most` bytes have been unpacked, and one of the DAMAGE exceptions if the
    archive is damaged.
    """
    return _zip_members(path, most) if is_zip(path) else _tar_members(path, most)


class _Counted:
    """A stream that raises LargeArchiveError once more than `left` bytes have been read."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile, left: int) -> None:
        self.stream, self.left = stream, left

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes."""
        block = self.stream.read(size)
        self.left -= len(block)
        if self.left < 0:
            raise LargeArchiveError
        return block


def _zip_members(path: Path, most: int) -> Iterator[Member]:
    with zipfile.ZipFile(path) as opened:
        for info in opened.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            # zipfile truncates names at a NUL and may replace separators, so use the original name.
            name = info.orig_filename
            # zipfile doesn't limit how much it unpacks from bzip2 or LZMA at once, so don't unpack them.
            is_plain = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            if info.flag_bits & 0x41 or kind not in (0, stat.S_IFREG, stat.S_IFDIR) or not is_plain:
                yield Member(name, "other", _nothing)
            elif name.endswith(("/", "\\")):
                yield Member(name, "folder", _nothing)
            else:
                with warnings.catch_warnings():
                    # Python 3.14 warns about overlapping members, whose total size is limited here
                    warnings.simplefilter("ignore", UserWarning)
                    file = opened.open(info)
                with file:
                    stream = _Counted(file, most)
                    yield Member(name, "file", stream.read)
                    most = stream.left


def _nothing(size: int) -> bytes:
    return b""


class _TarInfo(tarfile.TarInfo):
    """A tar header with stricter checks.

    tarfile reads long names and attributes of any size into memory, so their size is limited here.
    tarfile also treats any damaged header after the first as the end of the archive, which would
    silently drop the members that follow.
    """

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> _TarInfo:
        """Read the next header. Raises ReadError if the header is damaged or missing."""
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"invalid header: {error}") from None

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        kinds = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE)
        if self.type in (*kinds, tarfile.SOLARIS_XHDTYPE) and self.size > _LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes is too long")
        return super()._proc_member(archive)  # type: ignore[misc, no-any-return]


def _tar_members(path: Path, most: int) -> Iterator[Member]:
    with _decompressed(path) as file:
        stream = _Counted(file, most + _HEADERS)
        opened = tarfile.open(fileobj=stream, mode="r|", tarinfo=_TarInfo)  # type: ignore[call-overload]
        for info in opened:
            opened.members = []  # otherwise tarfile keeps every header in memory
            member = opened.extractfile(info) if info.type in (b"0", b"\0") and not info.issparse() else None
            if member is None:
                yield Member(info.name, "folder" if info.isdir() else "other", _nothing)
            else:
                with member:
                    counted = _Counted(member, most)
                    yield Member(info.name, "file", counted.read)
                    most = counted.left
        while left := opened.fileobj.read(_BUFFER):  # read to the end, where the checksum is
            if left.strip(b"\0"):
                raise tarfile.ReadError("there is data after its end")


def _decompressed(path: Path) -> IO[bytes] | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile:
    with path.open("rb") as file:
        magic = file.read(6)
    for prefix, opener in ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\0", lzma.open)):
        if magic.startswith(prefix):
            return opener(path, "rb")
    return path.open("rb")


# Extraction

_NESTED = "!"
"""Separator between a nested archive and its member, as in `2016-01/en-de.tgz!en-de/train.en`."""

_BLOCK = 1 << 20


def extract(archive: Path, wanted: Collection[str], folder: Path) -> dict[str, Path]:
    """Extract the wanted members that the archive contains, and return their paths by name.

    Raises DataError if the archive is damaged or a member is unsafe, and StorageError if `folder` can't be written.
    """
    for name in wanted:
        if not all(_is_safe(part) for part in name.split(_NESTED)):
            raise DataError(
                f"The member {name} in {archive.name} was not extracted, because its path points outside the archive."
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
                found.pop(outer).unlink()  # only its members were wanted, not the nested archive itself
    return found


def _extract_flat(archive: Path, wanted: Collection[str], folder: Path) -> dict[str, Path]:
    found = {}
    with archive_errors(archive):
        for member in archive_members(archive, size_limit(archive)):
            # Turn `./data/train` into `data/train`. Unsafe names are never requested.
            name = str(PurePosixPath(member.name)) if _is_safe(member.name) else member.name
            if name not in wanted:
                continue
            if member.kind != "file":
                raise DataError(
                    f"The member {name} in {archive.name} was not extracted, because it is a link or a folder, is "
                    "encrypted, or uses an unsupported compression method."
                )
            found[name] = folder / name
            with atomic_file(found[name]) as target:
                while block := member.read(_BLOCK):
                    target.write(block)
    return found


def _is_safe(name: str) -> bool:
    path = PurePosixPath(name)
    return not (path.is_absolute() or ".." in path.parts or "\\" in name or re.match("[A-Za-z]:", name))


def size_limit(archive: Path) -> int:
    """Return how many bytes a dataset's archive may unpack to. Text usually compresses to a tenth of its size."""
    return max(256 << 20, 200 * archive.stat().st_size)


@contextmanager
def archive_errors(archive: Path) -> Iterator[None]:
    """Turn errors from `archive_members` into DataError, except for lack of space or permission."""
    try:
        yield
    except DecabenchError:
        raise
    except LargeArchiveError as error:
        raise DataError(
            f"The archive {archive.name} unpacks to more than the allowed {size_limit(archive) >> 20:,} MiB, so "
            "it can't be the published file. Download the archive again."
        ) from error
    except DAMAGE as error:
        if is_refused_write(error):
            raise
        reason = str(error) or type(error).__name__
        raise DataError(
            f"The archive {archive.name} is damaged ({reason}). Download it again with --force."
        ) from error
