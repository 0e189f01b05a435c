"""Unpack untrusted .zip and .tar.gz files: only regular files and folders, inside one folder, up to a limit.

Nothing an archive claims about itself is trusted: sizes are counted while bytes come out, and modes, owners,
times and links are ignored.
"""

from __future__ import annotations

import gzip
import io
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from decabench.errors import StorageError, SubmissionError
from decabench.files import explain_refusal, read_errors
from decabench.text import quoted

__all__ = ["ARCHIVE_SUFFIXES", "LIMIT_BYTES", "LIMIT_MEMBERS", "is_archive", "unpack"]

ARCHIVE_SUFFIXES = (".zip", ".tar.gz", ".tgz")
"""The suffixes of archives that `unpack` accepts."""
LIMIT_BYTES = 2 << 30
"""The maximum size of an unpacked archive, in bytes."""
LIMIT_MEMBERS = 10_000
"""The maximum number of files and folders in an archive."""

_CHUNK = 1 << 16
_HEADER_LIMIT = 1 << 20
_DAMAGE = (
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    OverflowError,
    RecursionError,
    RuntimeError,
    ValueError,
    struct.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What zipfile, tarfile and gzip raise for damaged archives."""


def is_archive(path: Path) -> bool:
    """Return whether `unpack` accepts an archive of this name."""
    return path.name.lower().endswith(ARCHIVE_SUFFIXES)


def unpack(
    path: Path, into: Path, limit_bytes: int = LIMIT_BYTES, limit_members: int = LIMIT_MEMBERS
) -> None:
    """Unpack an archive into a folder, which should be new: on errors, anything already unpacked is left there.

    Raises SubmissionError if the archive is damaged, too large or holds anything but files and folders, StorageError
    if the folder cannot be written.
    """
    if not is_archive(path):
        raise SubmissionError(f"{path.name} is not an archive: give one of {', '.join(ARCHIVE_SUFFIXES)}.")
    target = _Target(path.name, into, limit_bytes, limit_members)
    try:
        with read_errors(path):
            if _is_zip(path):
                _unpack_zip(path, target)
            else:
                _unpack_tar(path, target)
    except _DAMAGE as error:
        reason = str(error) or "it ends too early"
        raise SubmissionError(
            f"{path.name} is damaged or not the kind of archive its name says ({reason}): pack it again."
        ) from error


_SIGNATURES = (
    (b"PK", ""),
    (b"\x1f\x8b", ""),
    (b"Rar!", "a RAR archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"\xfd7zXZ", "packed by xz"),
    (b"BZh", "packed by bzip2"),
    (b"\x28\xb5\x2f\xfd", "packed by zstd"),
    (b"version https://git-lfs", "a Git LFS pointer: run git lfs pull"),
    (b"<", "a web page, such as one that asks to sign in"),
)
"""The first bytes of a zip, of a .tar.gz, and of files that are given by mistake, with descriptions."""


def _is_zip(path: Path) -> bool:
    """Return whether an archive is a zip, by its first bytes, because the suffix may be wrong. Raises ValueError."""
    with open(path, "rb") as file:
        head = file.read(512)
    kind = next((kind for start, kind in _SIGNATURES if head.startswith(start)), "")
    if not head or head[257:262] == b"ustar":
        kind = "a tar archive that is not packed by gzip" if head else "empty"
    if kind:
        raise ValueError(f"it is {kind}")
    return head.startswith(b"PK") or (head[:2] != b"\x1f\x8b" and path.name.lower().endswith(".zip"))


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Target:
    """The folder to unpack into, and a count of what has been unpacked."""

    def __init__(self, archive: str, folder: Path, limit_bytes: int, limit_members: int) -> None:
        self.archive = archive
        self.folder = folder
        self.limit_bytes = limit_bytes
        self.limit_members = limit_members
        self.bytes = 0
        self.members = 0
        self.files: set[str] = set()
        self.folders: set[str] = set()

    def refusal(self, why: str) -> SubmissionError:
        return SubmissionError(f"{self.archive} was not unpacked: {why}.")

    def count_member(self) -> None:
        self.members += 1
        if self.members > self.limit_members:
            raise self.refusal(f"it has more than {self.limit_members:,} members")

    def count_bytes(self, size: int) -> None:
        self.bytes += size
        if self.bytes > self.limit_bytes:
            raise self.refusal(f"it unpacks to more than {self.limit_bytes:,} bytes")

    def add_folder(self, name: str) -> None:
        parts = _parts(self, name)
        self._claim(parts, is_file=False)
        with self._writing():
            self.folder.joinpath(*parts).mkdir(parents=True, exist_ok=True)

    def add_file(self, name: str, source: _Readable) -> None:
        parts = _parts(self, name)
        if not parts:
            raise self.refusal("it holds a file without a name")
        self._claim(parts, is_file=True)
        path = self.folder.joinpath(*parts)
        with self._writing():
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = open(path, "xb", buffering=0)  # so that closing it writes nothing
        with handle:
            while chunk := source.read(_CHUNK):
                self.count_bytes(len(chunk))
                with self._writing():
                    while chunk:
                        chunk = chunk[handle.write(chunk) :]

    def _claim(self, parts: list[str], is_file: bool) -> None:
        """Record a name, ignoring case, so that an archive unpacks alike on every system."""
        paths = ["/".join(parts[: end + 1]).casefold() for end in range(len(parts))]
        folders = paths[:-1] if is_file else paths
        clash = self.files.intersection(folders)
        if is_file:
            clash |= self.files.intersection(paths[-1:]) | self.folders.intersection(paths[-1:])
            self.files.add(paths[-1])
        if clash:
            raise self.refusal(f"it holds the name {quoted(min(clash))} twice")
        self.folders.update(folders)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = explain_refusal(error, "written", self.folder, "set TMPDIR to another folder")
            raise StorageError(f"{self.archive} was not unpacked. {reason}") from error


def _parts(target: _Target, name: str) -> list[str]:
    """Split a member's name into its parts. Refuses names that could leave the folder on any system."""
    name = name.replace("\\", "/")  # as some programs on Windows write it
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or any(re.match("[A-Za-z]:", part) for part in parts):
        raise target.refusal(
            f"the member {quoted(name)} could climb out of its folder; pack it from inside the submission's folder, "
            "so that names begin there, such as predictions/sst.validation.jsonl"
        )
    if not name.isprintable() or len(name) > 1000 or any(len(part.encode()) > 200 for part in parts):
        raise target.refusal(f"the member {quoted(name)} has a name that is too long or not plain text")
    return parts


def _unpack_zip(path: Path, target: _Target) -> None:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            target.count_member()
            _check_zip_member(member, target)
            # zipfile cuts names at a NUL and may replace separators, so the original name is checked.
            if member.orig_filename.endswith(("/", "\\")):
                target.add_folder(member.orig_filename)
            else:
                with archive.open(member) as source:
                    target.add_file(member.orig_filename, source)


def _check_zip_member(member: zipfile.ZipInfo, target: _Target) -> None:
    name = quoted(member.orig_filename)
    if member.flag_bits & 0x41:
        raise target.refusal(f"the member {name} is encrypted; pack it without a password")
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise target.refusal(f"the member {name} is a link or a device; pack plain files only")
    # zipfile unpacks bzip2 and LZMA without limiting how much comes out at once.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise target.refusal(f"the member {name} is packed in an unusual way; use plain zip (deflate)")


def _unpack_tar(path: Path, target: _Target) -> None:
    with gzip.open(path, "rb") as unzipped:
        stream = _TarStream(unzipped, target)
        with tarfile.open(fileobj=stream, mode="r:", encoding="utf-8", errors="strict") as archive:
            for member in archive:
                target.count_member()
                _unpack_tar_member(archive, member, target)
        stream.check_end()


def _unpack_tar_member(archive: tarfile.TarFile, member: tarfile.TarInfo, target: _Target) -> None:
    if member.isdir():
        target.add_folder(member.name)
        return
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
        raise target.refusal(
            f"the member {quoted(member.name)} is a link, a device or a sparse file; pack plain files only"
        )
    source = archive.extractfile(member)
    if source is not None:
        with source:
            target.add_file(member.name, source)


class _TarStream(io.RawIOBase):
    """The stream that tarfile reads: forward only, in small pieces, counted.

    tarfile reads a long name or a pax header in one piece of the size that the archive claims, and skips over
    members of any claimed size; both would let a small archive take up all memory or time.
    """

    def __init__(self, source: gzip.GzipFile, target: _Target) -> None:
        super().__init__()
        self.source = source
        self.target = target
        self.position = 0
        self.last = b""

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= _HEADER_LIMIT:
            raise self.target.refusal("it has a header of more than 1 MiB")
        self.last = self.source.read(size)
        self.position += len(self.last)
        # tarfile keeps every header that it reads; 4 KiB a member is more than honest archives need.
        if self.position - self.target.bytes > 4096 * (self.target.limit_members + 256):
            raise self.target.refusal("its headers and padding are far larger than they can be")
        return self.last

    def tell(self) -> int:
        return self.position

    def seek(self, position: int, whence: int = 0, /) -> int:
        if whence or position < self.position:
            raise tarfile.ReadError("its members overlap")
        while self.position < position and self.read(min(_CHUNK, position - self.position)):
            pass
        return self.position

    def check_end(self) -> None:
        """Check that the archive ends in zeros: tarfile mistakes a damaged header for the end."""
        if not self.last or self.last.strip(b"\0"):
            raise tarfile.ReadError("it does not end as a tar archive does")
        while chunk := self.read(_CHUNK):
            if chunk.strip(b"\0"):
                raise tarfile.ReadError("something follows its end")
