"""Atomic writes, digests of files, and canonical JSON."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import re
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from json.encoder import encode_basestring
from pathlib import Path
from typing import IO, Any, Literal, Protocol, cast

from decabench.errors import DecabenchError, StorageError

__all__ = [
    "SUFFIXES",
    "Compression",
    "Paths",
    "Writable",
    "as_paths",
    "atomic_file",
    "by_dotted_key",
    "canonical_json",
    "canonical_texts",
    "file_digest",
    "file_digests",
    "fingerprint",
    "holds_lock",
    "import_zstd",
    "is_refused_write",
    "is_within",
    "lock_file",
    "make_folder",
    "remove_file",
    "require_within",
    "shown_path",
    "storage_errors",
    "sweep_temporary",
    "try_lock",
    "wait_for_lock",
]

Paths = str | Path | Iterable[str | Path]
"""One path, or several."""

Compression = Literal["gz", "zst"] | None
"""How a file is compressed."""

SUFFIXES: dict[Compression, str] = {None: "", "gz": ".gz", "zst": ".zst"}
"""What each compression adds to a file's name."""

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_PERMISSION = (errno.EACCES, errno.EPERM, errno.EROFS)


class Writable(Protocol):
    """The part of a file that a writer of lines uses."""

    def write(self, data: bytes, /) -> int: ...


def as_paths(given: Paths) -> list[Path]:
    """Return paths as a list; one alone, which Python would read letter by letter, is a list of one."""
    return [Path(path) for path in ([given] if isinstance(given, (str, Path)) else given)]


def is_refused_write(error: BaseException) -> bool:
    """Tell whether the operating system refused to write: no space, or no permission."""
    return isinstance(error, OSError) and error.errno in (*_NO_SPACE, *_NO_PERMISSION)


@contextmanager
def storage_errors(path: Path, option: str = "", creates: bool = False) -> Iterator[None]:
    """Turn the operating system's refusals to write `path` into a StorageError.

    `option` names the one that says where to write, as `--html`. With `creates`, nothing is read: a path that is not
    found is then one that cannot be made, as in `/proc`.
    """
    elsewhere = (
        f"choose another place with {option}" if option else "choose another folder (--home or --output)"
    )
    refusals = (*_NO_PERMISSION, errno.ENOTDIR, errno.EEXIST, *([errno.ENOENT] if creates else []))
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise StorageError(f"No space left to write {path}: free some, or {elsewhere}.") from error
        if error.errno in refusals:
            raise StorageError(f"{path} cannot be written ({error.strerror}): {elsewhere}.") from error
        raise


@contextmanager
def lock_file(path: Path, refusal: str) -> Iterator[None]:
    """Hold a lock that one process at a time can have. Raises DecabenchError, of `refusal`, if another has it.

    Raises ImportError without filelock, which everything but a bundle on a borrowed machine has.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(make_folder(path.parent) / path.name)
    try:
        with storage_errors(path.parent):
            lock.acquire(timeout=0)
    except Timeout:
        raise DecabenchError(refusal) from None
    try:
        yield
    finally:
        lock.release()


def remove_file(path: Path) -> None:
    """Remove a file if it is there. Raises StorageError."""
    with storage_errors(path):
        path.unlink(missing_ok=True)


def make_folder(path: Path, option: str = "") -> Path:
    """Create a folder unless it exists, and return it; `option` is as in `storage_errors`. Raises StorageError."""
    with storage_errors(path, option, creates=True):
        path.mkdir(parents=True, exist_ok=True)
    return path


def is_within(folder: Path, path: Path) -> bool:
    """Return whether a path, its links followed, is inside a folder."""
    inner, outer = (os.path.normcase(os.path.realpath(each)) for each in (path, folder))
    return inner == outer or inner.startswith(os.path.join(outer, ""))


def shown_path(path: Path) -> str:
    """Return a path for a message: relative if it lies below the current folder."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def require_within(folder: Path, *paths: Path) -> None:
    """Raise StorageError for the first path that a link leads out of the folder, before anything is written there."""
    for path in paths:
        if not is_within(folder, path):
            raise StorageError(
                f"{path} is behind a link that leads out of {folder}, and is not written: remove the link, or give "
                f"the folder that is meant with --output."
            )


@contextmanager
def atomic_file(
    path: Path, compress: Compression = None, level: int = 9, option: str = ""
) -> Iterator[IO[bytes]]:
    """Open a new file that is renamed to `path` once the block has succeeded and the data is on disk.

    Raises StorageError. A compressed file can be written but not seeked; `level` is gzip's, and `option` is as in
    `storage_errors`.
    """
    make_folder(path.parent, option)
    with storage_errors(path, option, creates=True):
        handle, temporary = _make_temporary(path)
    with storage_errors(path, option):
        try:
            with os.fdopen(handle, "wb") as file:
                with _compressing(file, compress, level) as writer:
                    yield writer
                file.flush()
                os.fsync(file.fileno())
                os.chmod(temporary, 0o666 & ~_umask())
                if os.name == "posix":  # while it is locked, so that no sweep removes it just before
                    os.replace(temporary, path)
            if os.name != "posix":  # where open files cannot be renamed
                os.replace(temporary, path)
            _sync_folder(path.parent)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


_PREFIX, _SUFFIX = ".decabench-", ".tmp"
_TEMPORARY = re.compile(r"\.decabench-.+\.[a-z0-9_]{8}\.tmp", re.DOTALL)
"""The names of what `atomic_file` has not finished: `.decabench-results.json.k3_x9a2b.tmp`."""

_OLD_SECONDS = 24 * 3600
"""Where files cannot be locked, a temporary file of this age belongs to nobody."""


def _make_temporary(path: Path) -> tuple[int, str]:
    """Create a temporary file beside `path` that is locked for as long as it is open, and return its descriptor."""
    import tempfile

    while True:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{_PREFIX}{path.name}.", suffix=_SUFFIX)
        if holds_lock(handle):
            return handle, temporary
        os.close(handle)  # a sweep came between creating and locking


def sweep_temporary(folder: Path, recursive: bool = False) -> list[Path]:
    """Remove the temporary files that killed processes left in a folder, and return their paths.

    Only files with the names that `atomic_file` gives are touched, and only if no process is writing them. Links are
    neither removed nor followed. What cannot be removed stays.
    """
    swept = []
    for here, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(folders) if recursive else []
        for name in sorted(names):
            path = Path(here, name)
            if _TEMPORARY.fullmatch(name) and not path.is_symlink() and path.is_file() and _sweep(path):
                swept.append(path)
    return swept


def _sweep(path: Path) -> bool:
    """Remove a temporary file unless a process holds it, and return whether it was removed."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        locked = try_lock(descriptor)
        if locked is None:
            locked = time.time() - os.fstat(descriptor).st_mtime > _OLD_SECONDS
        if locked:
            path.unlink(missing_ok=True)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return locked


def try_lock(descriptor: int) -> bool | None:
    """Lock a file until it is closed, its process killed included; None where files cannot be locked."""
    if os.name != "posix":
        return None
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def holds_lock(descriptor: int) -> bool:
    """Lock an open file, and tell whether it still has a name: one that was removed meanwhile locks nothing."""
    try:
        return try_lock(descriptor) is not False and os.fstat(descriptor).st_nlink > 0
    except OSError as error:
        if error.errno != errno.ESTALE:  # it was removed, on a network file system
            raise
        return False


_WAIT_SECONDS = 0.1
_WAITS_IN_SILENCE = 20


@contextmanager
def wait_for_lock(path: Path, notice: str, option: str = "") -> Iterator[None]:
    """Hold a lock for what is written at and around `path`; wait for a process that has it. Raises StorageError.

    `option` is as in `storage_errors`. A wait of some seconds is told as the warning `notice`.
    The lock is named as temporary files are, so that a sweep removes that of a killed process.
    """
    if os.name != "posix":  # where files cannot be locked, nobody waits
        yield
        return
    lock = path.with_name(f"{_PREFIX}{path.name}.recorded{_SUFFIX}")
    require_within(path.parent, lock)
    if lock.is_dir():
        raise StorageError(f"{lock} is a folder where a lock belongs: remove it.")
    for waits in count():
        with storage_errors(path.parent, option, creates=True):
            try:
                descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
            except PermissionError as error:
                try:
                    descriptor = os.open(
                        lock, os.O_RDONLY
                    )  # another user's, which can be locked all the same
                except FileNotFoundError:  # there is none, and none can be made here
                    raise error from None
        if holds_lock(descriptor):
            break
        os.close(descriptor)
        if waits == _WAITS_IN_SILENCE:
            warnings.warn(notice, stacklevel=2)
        time.sleep(_WAIT_SECONDS)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)  # while it is locked, so that nobody's new lock is removed
        os.close(descriptor)


@contextmanager
def _compressing(file: IO[bytes], compress: Compression, level: int) -> Iterator[IO[bytes]]:
    if compress is None:
        yield file
    elif compress == "gz":
        # Neither a time nor a name in the header: equal content gives equal bytes.
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
        ):  # some versions write no frame for no content, and then nothing can read the file
            file.write(zstd.compress(b"", options=options))


def import_zstd() -> Any:
    """Import the standard library's zstd, or before Python 3.14 the same module as a package."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable; where folders cannot be opened (Windows), the system does that."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def file_digest(*paths: Path) -> str:
    """Compute `sha256:…` over the bytes of a file, or of several as if they were one."""
    digest = hashlib.sha256()
    for path in paths:
        _feed(path, [digest])
    return f"sha256:{digest.hexdigest()}"


def file_digests(path: Path, kinds: Iterable[str] = ()) -> dict[str, str]:
    """Compute the `sha256`, and on request the `md5` and the `git_blob` id, of a file in one pass, in hex."""
    hashes = {"sha256": hashlib.sha256()}
    if "md5" in kinds:
        hashes["md5"] = hashlib.md5(usedforsecurity=False)
    if "git_blob" in kinds:
        hashes["git_blob"] = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    _feed(path, hashes.values())
    return {kind: digest.hexdigest() for kind, digest in hashes.items()}


def _feed(path: Path, digests: Iterable[hashlib._Hash]) -> None:
    digests = list(digests)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            for digest in digests:
                digest.update(block)


def by_dotted_key(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return the values of nested tables by their keys, joined with dots: `model.dimension`."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{above}{key}"
        found |= by_dotted_key(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return found


def canonical_json(value: Any, allow_nan: bool = True) -> str:
    """Serialize to canonical JSON: sorted keys, no spaces, and only the escapes that JSON requires."""
    return (_CANONICAL if allow_nan else _CANONICAL_FINITE).encode(value)


_CANONICAL, _CANONICAL_FINITE = (
    json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=allow_nan)
    for allow_nan in (True, False)
)


def canonical_texts(texts: Iterable[str]) -> str:
    """Serialize texts to the same canonical JSON, in an eighth of the time."""
    return f"[{','.join(map(encode_basestring, texts))}]"


def fingerprint(content: Mapping[str, Any]) -> str:
    """Compute `sha256:…` over canonical JSON: values matter, the order of keys does not."""
    return f"sha256:{hashlib.sha256(canonical_json(content, allow_nan=False).encode()).hexdigest()}"
