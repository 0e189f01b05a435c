"""The files of a source on disk: their digests, and how adapters read them, also from archives and parquet."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import shutil
import stat
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, Any, Literal
from uuid import uuid4

from decabench.errors import DataError, MissingDataError
from decabench.files import atomic_file, file_digests, is_refused_write
from decabench.tasks.task import RemoteFile, Source
from decabench.text import describe_error, short_list
from decabench.untrusted import open_parquet

__all__ = [
    "CHECKSUMS",
    "Digests",
    "FileRecord",
    "LocalFiles",
    "Provider",
    "SourceFiles",
    "Status",
    "find_faults",
    "make_record",
    "new_scratch",
    "open_source",
    "parse_checksums",
    "published_digests",
    "read_folder",
]


@dataclass(frozen=True)
class Digests:
    """The size and the digests of a file's bytes."""

    size: int
    """In bytes."""
    values: Mapping[str, str]
    """By kind, in hex: `sha256`, and `md5` and `git_blob` if requested."""

    @classmethod
    def compute(cls, path: Path, kinds: Iterable[str] = ()) -> Digests:
        """Read a file once and compute its sha256 and the other requested kinds."""
        return cls(path.stat().st_size, file_digests(path, kinds))


def published_digests(file: RemoteFile) -> dict[str, str]:
    """Return the published digests of a file by kind; there may be none."""
    published = {"sha256": file.sha256, "md5": file.md5, "git_blob": file.git_blob}
    return {kind: value.lower() for kind, value in published.items() if value is not None}


def find_faults(file: RemoteFile, digests: Digests) -> list[str]:
    """Describe how bytes differ from the published file; the size counts only if no digest is published."""
    published = published_digests(file)
    faults = [
        f"{kind} {digests.values.get(kind, 'none')}, expected {value}"
        for kind, value in published.items()
        if digests.values.get(kind) != value
    ]
    if not published and file.size not in (None, digests.size):
        faults.append(f"{digests.size} bytes, expected {file.size}")
    return faults


Status = Literal["verified", "unpinned", "mirror-differs"]
"""Whether a file equals the published one, is published without a digest, or differs and comes from a mirror, as
requested."""


@dataclass(frozen=True)
class FileRecord:
    """A file that a split was read from, as `task.json` records it."""

    name: str
    """Its published name."""
    url: str
    """The address that it came from, `mirror:<name>` or `local:<name>`."""
    sha256: str
    """Computed from the bytes that were read."""
    size: int
    """In bytes."""
    status: Status
    """How it compares with what is published."""


def make_record(file: RemoteFile, url: str, digests: Digests) -> FileRecord:
    """Record a file with these digests, which came from this address."""
    status: Status = "verified" if published_digests(file) else "unpinned"
    if find_faults(file, digests):
        status = "mirror-differs"
    return FileRecord(file.name, url, digests.values["sha256"], digests.size, status)


class LocalFiles:
    """Local files under their published names. Implements the protocol `Files`; closing removes what it extracted."""

    def __init__(
        self, paths: Mapping[str, Path], scratch: Path, members: tuple[str, ...] = (), is_own: bool = False
    ) -> None:
        self._paths = dict(paths)
        self._remedy = _OWN_REMEDY if is_own else _REMEDY
        self._scratch = scratch
        self._members = members
        self._extracted: dict[str, dict[str, Path]] = {}

    def path(self, name: str) -> Path:
        """Return the local path of a file."""
        if name not in self._paths:
            raise MissingDataError(
                f"{name} is not among the files of the requested splits ({', '.join(self._paths)}): "
                "prepare its split too."
            )
        return _require_content(self._paths[name], name, self._remedy)

    def member(self, name: str, member: str) -> Path:
        """Return the local path of a member of an archive; `outer!inner` is one of an archive inside it.

        The first call extracts all members that the source declares, in one pass.
        """
        archive = self.path(name)
        extracted = self._extracted.setdefault(name, {})
        if member not in extracted:
            wanted = {member} if extracted else {member, *self._members}
            extracted |= _extract(archive, wanted, self._scratch / name.replace("/", "_"))
        if member not in extracted:
            raise DataError(
                f"The archive {name} has no member {member}: it is not the file that upstream publishes; "
                f"{self._remedy}."
            )
        return _require_content(extracted[member], f"The member {member} of {name}", self._remedy)

    def rows(self, name: str, columns: tuple[str, ...] = ()) -> Iterator[Mapping[str, Any]]:
        """Stream the rows of a parquet file, with these columns or all; about a thousand are in memory at once."""
        import pyarrow as arrow

        path = self.path(name)
        try:
            # A small buffer, so that memory does not grow with the row groups, which may be as large as the file.
            with open_parquet(path, buffer_size=1 << 20, pre_buffer=False) as file:
                present = file.schema_arrow.names
                if absent := [column for column in columns if column not in present]:
                    raise DataError(
                        f"{name} has no column {', '.join(absent)} (it has {', '.join(present)}): "
                        "it is not the file that upstream publishes."
                    )
                read = 0
                for batch in file.iter_batches(1024, columns=list(columns or present)):
                    try:
                        rows = batch.to_pylist()
                    except (
                        ValueError,
                        OverflowError,
                    ) as error:  # text that is not UTF-8, a date out of range
                        place = f"rows {read + 1} to {read + len(batch)}"
                        raise DataError(
                            f"{name}, {place}, cannot be read ({describe_error(error)})."
                        ) from error
                    yield from rows
                    read += len(rows)
        except (arrow.ArrowException, OSError) as error:
            raise DataError(
                f"{name} is not a complete parquet file ({type(error).__name__}): {self._remedy}."
            ) from error

    def close(self) -> None:
        """Remove what was extracted."""
        self._extracted.clear()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> LocalFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_REMEDY = "fetch it again with --force, or choose another --mirror"
_OWN_REMEDY = "write it again"
"""What to do about a damaged file that is the user's own, and was never fetched."""


def _require_content(path: Path, name: str, remedy: str) -> Path:
    """Return the path. Raises DataError for an empty file: upstream publishes none."""
    if path.exists() and path.stat().st_size == 0:
        raise DataError(f"{name} is empty: {remedy}.")
    return path


@dataclass(frozen=True)
class SourceFiles:
    """The local files of one source of a task."""

    files: LocalFiles
    """What the source's reader reads; close it afterwards."""
    source: Source
    """The source that worked."""
    records: tuple[FileRecord, ...]
    """The digests and origin of each file."""
    missing: tuple[str, ...] = ()
    """Requested splits that this source does not have."""
    forget: Callable[[], bool] = lambda: False
    """Called if the files could not be read: drops unverified downloads, and tells whether an earlier run made one."""


Provider = Callable[[Source, list[RemoteFile]], list[tuple[Path, FileRecord]]]
"""(source, the files needed) -> the path and the record of each. Raises MissingDataError if one is not there."""


def open_source(
    sources: Sequence[Source], splits: Sequence[str], provide: Provider, folder: Path, is_own: bool = False
) -> SourceFiles:
    """Open the first source whose files can be provided; archives are extracted into a scratch folder in `folder`.

    `is_own` says that the files are the user's own: what is damaged cannot be fetched again.
    Raises MissingDataError with the reason for each source, and DataError for a damaged file.
    """
    failures = []
    for source in sources:
        missing = tuple(split for split in splits if split not in source.files)
        files = {file.name: file for split in splits for file in source.files.get(split, ())}
        try:
            if len(missing) == len(splits):
                raise MissingDataError(f"it has no split {', '.join(missing)}")
            provided = provide(source, list(files.values()))
        except MissingDataError as error:
            failures.append(f"'{source.name}': {error}")
        else:
            paths = {record.name: path for path, record in provided}
            records = tuple(record for _, record in provided)
            files_there = LocalFiles(paths, new_scratch(folder), source.members, is_own)
            return SourceFiles(files_there, source, records, missing)
    raise MissingDataError("; ".join(failures) or "it has no sources")


def read_folder(
    task: str, sources: Sequence[Source], splits: Sequence[str], folder: Path, scratch: Path, origin: str
) -> SourceFiles:
    """Open the first source whose files are all in `folder`, and read them in place.

    If no source has them all, open the first that has those of some split, with the others as missing. `origin`, for
    their records, is `mirror` or `local`. A SHA256SUMS file beside a mirror's folder for the task must agree with them.
    Raises MissingDataError, and DataError for a damaged file.
    """
    listed = _read_checksums(folder.parent / CHECKSUMS) if origin == "mirror" else {}

    def provide(_: Source, files: list[RemoteFile]) -> list[tuple[Path, FileRecord]]:
        if absent := [file.name for file in files if not (folder / file.name).is_file()]:
            raise MissingDataError(f"no {short_list(absent)}")
        return [(folder / file.name, record(file)) for file in files]

    def record(file: RemoteFile) -> FileRecord:
        try:
            digests = Digests.compute(folder / file.name, published_digests(file))
        except OSError as error:
            raise MissingDataError(f"{file.name} cannot be read ({error.strerror})") from error
        expected = listed.get(f"{task}/{file.name}", digests.values["sha256"])
        if digests.values["sha256"] != expected:
            raise DataError(
                f"{folder / file.name} is damaged: its sha256 is {digests.values['sha256']}, but {CHECKSUMS} has "
                f"{expected}; copy it again, or correct {CHECKSUMS}."
            )
        return make_record(file, f"{origin}:{file.name}", digests)

    try:
        return open_source(sources, splits, provide, scratch, origin == "local")
    except MissingDataError as error:
        for source in sources:
            there = [
                split
                for split in splits
                if (files := source.files.get(split))
                and all((folder / file.name).is_file() for file in files)
            ]
            if there:
                rest = tuple(split for split in splits if split not in there)
                opened = open_source([source], there, provide, scratch, origin == "local")
                return replace(opened, missing=rest)
        advice = "add them" if len(sources) == 1 else "add those of one of these sources"
        raise MissingDataError(
            f"{folder} does not contain the files for {task}: {error}; {advice}."
        ) from error


CHECKSUMS = "SHA256SUMS"
"""The name of the file at the top of a mirror that lists its files, as sha256sum writes it."""

_CHECKSUM_LINE = re.compile(r"([0-9A-Fa-f]{64}) [ *](?:\./)?(.+)")
_LONGEST_LIST = 16 << 20


def _read_checksums(path: Path) -> dict[str, str]:
    try:
        if path.stat().st_size > _LONGEST_LIST:
            raise DataError(f"{path} has more than {_LONGEST_LIST >> 20} MiB: it is not a list of checksums.")
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}): make it readable, or remove it."
        ) from error
    return parse_checksums(content, str(path))


def parse_checksums(content: bytes, name: str) -> dict[str, str]:
    """Parse what `sha256sum */*` writes in a mirror: the digest of each file by `<task>/<name>`. Raises DataError."""
    listed: dict[str, str] = {}
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        found = _CHECKSUM_LINE.fullmatch(line.rstrip())
        if found is None and line.strip() and not line.startswith("#"):
            raise DataError(
                f"{name}, line {number}, is not a checksum: each line has 64 hexadecimal digits, two spaces and a "
                "name, as sha256sum writes it."
            )
        if found is not None and listed.setdefault(found[2], found[1].lower()) != found[1].lower():
            raise DataError(f"{name}, line {number}, gives another checksum for a file that is listed above.")
    return listed


_SCRATCH = ".extract-"
_STALE_SECONDS = 24 * 3600


def new_scratch(folder: Path) -> Path:
    """Name a new scratch folder in `folder`, and remove those left by killed runs at least a day ago."""
    for old in folder.glob(f"{_SCRATCH}*"):
        if old.is_dir() and time.time() - old.stat().st_mtime > _STALE_SECONDS:
            shutil.rmtree(old, ignore_errors=True)
    return folder / f"{_SCRATCH}{uuid4().hex[:12]}"


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
    """What an archive may hold, unpacked: 200 times its size, or 256 MiB. Text shrinks to a tenth, a bomb to less."""

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


def _extract(archive: Path, wanted: Collection[str], folder: Path) -> dict[str, Path]:
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
            below = _extract(found[outer], names, folder / f"{outer}{_NESTED}")
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
