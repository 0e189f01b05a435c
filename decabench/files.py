"""Atomic writes, temporary files, locks, system error messages, file digests and canonical JSON.

Temporary files and folders are named `.decabench-<name>.<8 characters>.tmp` and stay locked while they are in use. If
a process can lock a temporary file, its writer was killed, so the file can be removed. On file systems without locks,
temporary files are removed after a day.
"""

from __future__ import annotations

import errno
import fcntl
import gzip
import hashlib
import io
import json
import math
import os
import re
import shutil
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from json.encoder import encode_basestring
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, cast

from decabench.errors import DecabenchError, StorageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

Paths = str | Path | Iterable[str | Path]
"""A path or several paths."""

Compression = Literal["gz", "zst"] | None
"""A compression format."""

SUFFIXES: dict[Compression, str] = {None: "", "gz": ".gz", "zst": ".zst"}
"""File name suffixes by compression format."""


def as_paths(given: Paths) -> list[Path]:
    """Return one or more paths as a list."""
    return [Path(path) for path in ([given] if isinstance(given, (str, Path)) else given)]


# System errors

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_PERMISSION = (errno.EACCES, errno.EPERM, errno.EROFS)
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
"""Errors from file systems that don't support an operation."""

_ADVICE: Mapping[int | None, str] = {
    errno.EMFILE: "Raise the limit with ulimit -n, or use fewer --jobs or --workers",
    errno.ENFILE: "Close other programs, or raise the system's limit on open files",
    errno.ENOMEM: "Close other programs, or use a machine with more memory",
    errno.EIO: "The disk or its connection failed. Check the system log, and use another disk",
    errno.ESTALE: "The file no longer exists on the network file system. Run the same command again",
    errno.ENAMETOOLONG: "Choose a shorter name",
    errno.ELOOP: "Remove the circular links",
    errno.ETXTBSY: "Stop the program that is running from this file",
    errno.EBUSY: "Close the program that is using this file",
    errno.EXDEV: "Choose a folder that is on a single file system",
    errno.ENOLCK: "Choose a folder on a file system that supports locks",
}
"""Advice by error number, for errors that may also occur in another folder."""

_MISSING = (errno.ENOENT, errno.ENOTDIR)
_OF_MACHINE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE)
_REFUSALS = {
    *(*_NO_SPACE, *_NO_PERMISSION, *_UNSUPPORTED, *_ADVICE),
    *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENXIO, errno.ENODEV, errno.EBADF),
}
"""System errors that concern files, except ENOENT, which is handled separately. Most other errors concern networks
or processes.
"""


def is_refused_write(error: BaseException) -> bool:
    """Return whether a write failed for lack of space or permission."""
    return isinstance(error, OSError) and error.errno in (*_NO_SPACE, *_NO_PERMISSION)


def explain_refusal(error: OSError, verb: str = "used", path: Path | None = None, elsewhere: str = "") -> str:
    """Return a sentence that says which file caused a system error, why, and what to do.

    `path` is the file in use, unless the error names a different file. `elsewhere` is the advice for errors that can be
    fixed by choosing another folder.
    """
    named = Path(os.fsdecode(error.filename)) if isinstance(error.filename, (str, bytes)) else path
    for part in (named, *named.parents) if named else ():
        if is_temporary(part.name):  # its name would mean nothing to a user
            named = path if path is not None and part.parent in (path, path.parent) else part.parent
    if named is None or path is None or (path not in (named, *named.parents) and named not in path.parents):
        verb, elsewhere = "used", ""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _NO_SPACE and named is not None:
        remedy = f"{elsewhere}, or free up disk space" if elsewhere else "Free up disk space"
        return f"No space left to write {named} ({reason}). {remedy}."
    remedy = _ADVICE.get(error.errno) or elsewhere or "Check the path and its permissions"
    return f"{named or 'A file'} can't be {verb} ({reason}). {remedy}."


@contextmanager
def storage_errors(path: Path, option: str = "", creates: bool = False) -> Iterator[None]:
    """Turn system errors from writing `path` into StorageError.

    `option` is the command-line option that sets the path, such as `--html`. Set `creates` if the block doesn't read
    any files, so that a "not found" error means that the path can't be created, as in `/proc`.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _REFUSALS and not (creates and error.errno in _MISSING):
            raise
        elsewhere = f"another place with {option}" if option else "another folder (--home or --output)"
        raise StorageError(explain_refusal(error, "written", path, f"Choose {elsewhere}")) from error


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Turn system errors from reading `path` into StorageError, so that the file isn't reported as damaged.

    A missing file still raises FileNotFoundError, and errors in the file's content are left to the caller.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _REFUSALS or error.errno in _MISSING:
            raise
        raise StorageError(explain_refusal(error, "read", path)) from error


def require_machine(error: BaseException, path: Path) -> None:
    """Raise StorageError if reading failed because of the machine: no memory, too many open files or a bad disk.

    Callers treat all other errors as faults in the file.
    """
    if isinstance(error, OSError) and error.errno in _OF_MACHINE:
        raise StorageError(explain_refusal(error, "read", path)) from error


def remove_file(path: Path) -> None:
    """Remove a file if it exists. Raises StorageError if it can't be removed."""
    with storage_errors(path):
        path.unlink(missing_ok=True)


def make_folder(path: Path, option: str = "") -> Path:
    """Create a folder if necessary, and return its path.

    Raises StorageError if the folder can't be created. For `option`, see `storage_errors`.
    """
    with storage_errors(path, option, creates=True):
        path.mkdir(parents=True, exist_ok=True)
    return path


def is_within(folder: Path, path: Path) -> bool:
    """Return whether a path is inside a folder after resolving links."""
    inner, outer = (os.path.normcase(os.path.realpath(each)) for each in (path, folder))
    return inner == outer or inner.startswith(os.path.join(outer, ""))


def shown_path(path: Path) -> str:
    """Return a path for messages, relative if it is inside the current folder."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def require_within(folder: Path, *paths: Path) -> None:
    """Raise StorageError if any of the paths leads out of the folder through a link."""
    for path in paths:
        if not is_within(folder, path):
            raise StorageError(
                f"{path} was not written because a link leads out of {folder}. Remove the link, or set "
                "--output to the link's target."
            )


@contextmanager
def atomic_file(
    path: Path, compress: Compression = None, level: int = 9, option: str = ""
) -> Iterator[IO[bytes]]:
    """Open a temporary file that is renamed to `path` when the block succeeds and the data is on disk.

    Raises StorageError if this file can't be written. Errors from other files used in the block are raised unchanged.
    Compressed files are not seekable. `level` is the gzip compression level. For `option`, see `storage_errors`.
    """
    make_folder(path.parent, option)
    _sweep_once(path.parent.absolute())
    with storage_errors(path, option, creates=True):
        handle, temporary = _make_temporary(path)
    try:
        with io.BufferedWriter(_Target(handle, path, option), _BUFFER) as file:
            with _compressing(file, compress, level) as writer:
                yield writer
            with storage_errors(path, option, creates=True):
                file.flush()
                _sync(handle)
                with suppress(PermissionError):  # a file system without permission bits
                    os.chmod(temporary, 0o666 & ~_umask())
                os.replace(temporary, path)  # while it is locked, so that no other process removes it first
                _sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno in _NO_SPACE and error.filename is None:
            with storage_errors(path, option):  # from a library that writes to the file directly
                raise
        raise


def write_file(path: Path, content: str | bytes, compress: Compression = None, option: str = "") -> None:
    """Write a whole file with `atomic_file`. Text is encoded as UTF-8."""
    with atomic_file(path, compress, option=option) as file:
        file.write(content.encode() if isinstance(content, str) else content)


_BUFFER = 1 << 17


class _Target(io.FileIO):
    """A temporary file whose errors name the final file."""

    def __init__(self, handle: int, path: Path, option: str) -> None:
        super().__init__(handle, "wb")
        self._path, self._option = path, option

    def write(self, data: ReadableBuffer, /) -> int:
        with storage_errors(self._path, self._option):
            return os.write(self.fileno(), data)


# Temporary files and folders

_PREFIX, _SUFFIX = ".decabench-", ".tmp"
_TEMPORARY = re.compile(r"\.decabench-.+\.[a-z0-9_]{8}\.tmp", re.DOTALL)

_OLD_SECONDS = 24 * 3600
"""The age at which a temporary file counts as abandoned if files can't be locked."""


def is_temporary(name: str) -> bool:
    """Return whether a name matches the pattern of temporary files, as in `.decabench-results.json.k3_x9a2b.tmp`."""
    return _TEMPORARY.fullmatch(name) is not None


def _prefix_of(name: str) -> str:
    short = os.fsencode(name)[:200].decode("utf-8", "ignore")  # whole file names can have 255 bytes
    return f"{_PREFIX}{short or 'file'}."


def _make_temporary(path: Path) -> tuple[int, str]:
    """Create a locked temporary file next to `path`, and return its descriptor and path."""
    import tempfile

    while True:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=_prefix_of(path.name), suffix=_SUFFIX)
        if _holds_lock(handle, temporary):
            return handle, temporary
        os.close(handle)  # removed by another process before it was locked


@contextmanager
def temporary_folder(parent: Path | None = None, name: str = "files") -> Iterator[Path]:
    """Provide a temporary folder in `parent`, by default the system's temporary folder.

    The folder is removed when the block ends. Folders left by killed processes are removed the next time a temporary
    folder is created in `parent`. Raises StorageError if the folder can't be created.
    """
    import tempfile

    with storage_errors(Path(os.environ.get("TMPDIR", "/tmp")), "TMPDIR", creates=True):
        parent = Path(tempfile.gettempdir()) if parent is None else parent
    sweep_temporary(parent)
    while True:
        with storage_errors(parent, creates=True):
            made = tempfile.mkdtemp(dir=parent, prefix=_prefix_of(name), suffix=_SUFFIX)
        with _opened(made, os.O_RDONLY) as descriptor:
            if descriptor is not None and not _holds_lock(descriptor, made):
                continue  # removed by another process before it was locked
            try:
                yield Path(made)
                return
            finally:
                shutil.rmtree(made, ignore_errors=True)


@contextmanager
def _opened(path: str | Path, flags: int) -> Iterator[int | None]:
    """Open a file or folder without blocking, and yield its descriptor.

    Yields None if the path is a link or can't be opened.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def names_in(folder: Path) -> set[str]:
    """Return the names in a folder, leaving out temporary files.

    Temporary files left by killed processes are removed. If the folder doesn't exist, returns an empty set.
    """
    sweep_temporary(folder)
    with read_errors(folder), suppress(FileNotFoundError, NotADirectoryError):
        return {name for name in os.listdir(folder) if not is_temporary(name)}
    return set()


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Provide a temporary folder that is renamed to `folder` when the block succeeds.

    Raises DecabenchError if `folder` exists and is not empty, and StorageError if it can't be written.
    """
    folder = folder.resolve()
    if names_in(folder):
        raise DecabenchError(f"{folder} is not empty. Choose another folder.")
    with temporary_folder(make_folder(folder.parent), folder.name) as made:
        yield made
        with storage_errors(folder, creates=True):
            os.chmod(made, 0o777 & ~_umask())
            if folder.is_dir():
                folder.rmdir()
            made.rename(folder)


def sweep_temporary(folder: Path, recursive: bool = False) -> list[Path]:
    """Remove the temporary files and folders that killed processes left in a folder, and return their paths.

    Only files created by this module are removed, and only if no process has locked them. Links are not removed or
    followed, and files that can't be removed are skipped.
    """
    swept = []
    for here, folders, names in os.walk(folder, followlinks=False):
        for name in sorted(filter(is_temporary, (*folders, *names))):
            path = Path(here, name)
            if not path.is_symlink() and _sweep(path):
                swept.append(path)
        folders[:] = sorted(name for name in folders if not is_temporary(name)) if recursive else []
    return swept


@cache
def _sweep_once(folder: Path) -> None:
    """Sweep a folder the first time that this process writes to it."""
    sweep_temporary(folder)


def _sweep(path: Path) -> bool:
    """Remove a temporary file or folder unless a process has locked it, and return whether it was removed."""
    is_folder = path.is_dir()
    if not is_folder and not path.is_file():
        return False
    with _opened(path, os.O_RDONLY if is_folder else os.O_RDWR) as descriptor:
        if descriptor is None:
            return False
        locked = try_lock(descriptor)
        try:
            if locked is None:
                locked = time.time() - os.fstat(descriptor).st_mtime > _OLD_SECONDS
            if locked and is_folder:
                shutil.rmtree(path)
            elif locked:
                path.unlink(missing_ok=True)
        except OSError:
            return False
    return locked


# Locks


def try_lock(descriptor: int) -> bool | None:
    """Try to lock a file or folder, and return whether it worked, or None if locking isn't supported.

    The lock lasts until the descriptor is closed or the process ends.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return None
    return True


def _holds_lock(descriptor: int, path: str | Path) -> bool:
    """Try to lock an open file, and return whether the lock protects `path`.

    Returns False if another process holds the lock, or if the open file is no longer the file at
    `path`. On file systems without locks, only the second condition is checked.
    """
    if try_lock(descriptor) is False:
        return False
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno != errno.ESTALE:  # the file was removed from a network file system
            raise
        return False


@contextmanager
def lock_file(path: Path, message: str, patience: float = 0.0, option: str = "") -> Iterator[None]:
    """Hold the write lock for `path`, which only one process can hold at a time.

    Raises DecabenchError with `message` if another process still holds the lock after `patience` seconds. If `patience`
    is infinite, issues `message` as a warning after two seconds and keeps waiting. Raises StorageError if locking
    fails. For `option`, see `storage_errors`.
    """
    make_folder(path.parent, option)
    lock = path.with_name(f"{_prefix_of(path.name)}recorded{_SUFFIX}")  # so that a sweep recognizes it
    require_within(path.parent, lock)
    if lock.is_dir():
        raise StorageError(f"{lock} must be a lock file, but is a folder. Remove the folder.")
    begun, is_told = time.monotonic(), math.isfinite(patience)
    while True:
        with storage_errors(path.parent, option, creates=True):
            descriptor = _open_lock(lock)
            try:
                is_held = _holds_lock(descriptor, lock)
            except BaseException:
                os.close(descriptor)
                raise
        if is_held:
            break
        os.close(descriptor)
        waited = time.monotonic() - begun
        if waited >= patience:
            raise DecabenchError(message)
        if waited > 2.0 and not is_told:
            warnings.warn(message, stacklevel=3)
            is_told = True
        time.sleep(0.1)
    try:
        yield
    finally:
        with suppress(OSError):  # the folder may belong to another user
            lock.unlink(missing_ok=True)  # while it is locked, so that no other process's lock is removed
        os.close(descriptor)


def _open_lock(lock: Path) -> int:
    try:
        return os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError as error:
        try:
            return os.open(lock, os.O_RDONLY)  # created by another user, but it can still be locked
        except FileNotFoundError:  # it doesn't exist and can't be created here
            raise error from None


@contextmanager
def _compressing(file: IO[bytes], compress: Compression, level: int) -> Iterator[IO[bytes]]:
    if compress is None:
        yield file
    elif compress == "gz":
        # The header has no time or name, so the same content gives the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=level, mtime=0) as packed:
            yield cast(IO[bytes], packed)
    else:
        zstd = import_zstd()
        parameter = zstd.CompressionParameter
        options = {parameter.compression_level: 10, parameter.checksum_flag: 1}
        start = file.tell()
        with zstd.ZstdFile(file, "w", options=options) as writer:
            yield cast(IO[bytes], writer)
        if (
            file.tell() == start
        ):  # some versions write no frame for empty content, which gives an unreadable file
            file.write(zstd.compress(b"", options=options))


def import_zstd() -> Any:
    """Import zstd from the standard library, or from `backports` before Python 3.14."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


def _sync_folder(folder: Path) -> None:
    """Flush a rename to disk."""
    with _opened(folder, os.O_RDONLY) as descriptor:
        if descriptor is not None:
            _sync(descriptor)


def file_digest(*paths: Path) -> str:
    """Return the `sha256:…` digest of a file, or of several files concatenated."""
    digest = hashlib.sha256()
    for path in paths:
        _feed(path, digest)
    return f"sha256:{digest.hexdigest()}"


def cached_digest(path: Path) -> str:
    """Return `file_digest` of a file, which is computed again only if the file's inode, size or times have changed."""
    at = path.stat()
    return _digest(path, at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns)


@lru_cache(maxsize=10_000)
def _digest(path: Path, *trace: int) -> str:
    return file_digest(path)


def file_digests(path: Path, kinds: Iterable[str] = ()) -> dict[str, str]:
    """Return a file's `sha256` in hex, along with its `md5` and `git_blob` ID if `kinds` includes them."""
    hashes = {"sha256": hashlib.sha256()}
    if "md5" in kinds:
        hashes["md5"] = hashlib.md5(usedforsecurity=False)
    if "git_blob" in kinds:
        hashes["git_blob"] = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    for digest in hashes.values():
        _feed(path, digest)
    return {kind: digest.hexdigest() for kind, digest in hashes.items()}


def _feed(path: Path, digest: hashlib._Hash) -> None:
    try:
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    except OSError as error:
        error.filename = str(path)  # errors from a failing disk don't name the file
        raise


def by_dotted_key(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Flatten nested tables, joining their keys with dots, as in `model.dimension`."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{above}{key}"
        found |= by_dotted_key(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return found


def canonical_json(value: Any, allow_nan: bool = True) -> str:
    """Serialize a value as JSON with sorted keys, without spaces or unnecessary escapes."""
    return (_CANONICAL if allow_nan else _CANONICAL_FINITE).encode(value)


_CANONICAL, _CANONICAL_FINITE = (
    json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=allow_nan)
    for allow_nan in (True, False)
)


def canonical_texts(texts: Iterable[str]) -> str:
    """Serialize strings like `canonical_json`, but eight times faster."""
    return f"[{','.join(map(encode_basestring, texts))}]"


def fingerprint(content: Mapping[str, Any]) -> str:
    """Return the `sha256:…` digest of a mapping's canonical JSON. The order of keys doesn't matter."""
    return f"sha256:{hashlib.sha256(canonical_json(content, allow_nan=False).encode()).hexdigest()}"
