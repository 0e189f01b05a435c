"""JSON with one reading only: no key twice, no NaN, nothing that Python alone would take."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, NoReturn, Protocol

from decabench.errors import StorageError

__all__ = [
    "SUFFIXES",
    "Compression",
    "Writable",
    "atomic_file",
    "canonical_json",
    "file_digest",
    "fingerprint",
    "make_folder",
    "parse_json",
    "replacing",
    "storage_errors",
]

# ---- home


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turns the operating system's refusals to write into one sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageError(
                f"No space is left for {path}: free some, or choose another folder (--home or --output)."
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise StorageError(
                f"{path} cannot be written ({error.strerror}): choose another folder (--home or --output)."
            ) from error
        raise


def make_folder(path: Path) -> Path:
    """The folder, made if it was not there. Raises StorageError."""
    with storage_errors(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when it is whole and on the disk."""
    make_folder(path.parent)
    with storage_errors(path):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
            _sync_folder(path.parent)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def _sync_folder(folder: Path) -> None:
    """Makes the rename itself last; where folders cannot be opened (Windows) the system sees to it."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# ---- atomic

Compression = Literal["gz", "zst"] | None
"""How a file is packed."""

SUFFIXES: dict[Compression, str] = {None: "", "gz": ".gz", "zst": ".zst"}
"""What each packing adds to a file's name."""


class Writable(Protocol):
    """All that a writer of lines needs of a file."""

    def write(self, data: bytes, /) -> int: ...


@contextmanager
def replacing(path: Path, compress: Compression = None) -> Iterator[Writable]:
    """A new file, packed or not, that takes the place of `path` when the block ends well. Raises StorageError."""
    with atomic_file(path) as handle, _packed(handle, compress) as packed:
        yield packed


@contextmanager
def _packed(handle: IO[bytes], compress: Compression) -> Iterator[Writable]:
    if compress is None:
        yield handle
    elif compress == "gz":
        # Neither a time nor a name in the header: equal content, equal bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=handle, compresslevel=9, mtime=0) as packed:
            yield packed
    else:
        import zstandard

        compressor = zstandard.ZstdCompressor(level=10, write_checksum=True)
        with compressor.stream_writer(handle, closefd=False) as writer:
            yield writer


# ---- fingerprint


def canonical_json(value: Any) -> str:
    """One spelling for one value."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def fingerprint(content: Mapping[str, Any]) -> str:
    """`sha256:` over canonical JSON: the order of keys does not matter, every value does."""
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def file_digest(path: Path) -> str:
    """`sha256:` over the bytes of a file, read a block at a time."""
    with open(path, "rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


# ---- strict_json


def parse_json(text: str) -> Any:
    """The value of a JSON text; `ValueError` says in words what is wrong with it."""
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice[:60]!r} stands twice in one object")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)
