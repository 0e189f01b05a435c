"""Writing files so that a reader sees the whole new file or the old one, and equal content as equal bytes."""

from __future__ import annotations

import gzip
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

from decabench.errors import StorageError

__all__ = ["SUFFIXES", "Compression", "Writable", "replacing"]

Compression = Literal["gz", "zst"] | None
"""How a file is packed."""

SUFFIXES: dict[Compression, str] = {None: "", "gz": ".gz", "zst": ".zst"}
"""What each packing adds to a file's name."""


class Writable(Protocol):
    """All that a writer of lines needs of a file."""

    def write(self, data: bytes, /) -> int: ...


@contextmanager
def replacing(path: Path, compress: Compression = None) -> Iterator[Writable]:
    """A new file that takes the place of `path` when the block ends well, and vanishes when it does not."""
    # A leading dot hides it from whoever lists the folder meanwhile; open() keeps the usual permissions.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "xb") as handle:
            with _packed(handle, compress) as packed:
                yield packed
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise StorageError(
            f"Could not write {path.name}: {error.strerror or error}. "
            f"Free some space in, or choose another folder than, {path.parent}."
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def _packed(handle: BinaryIO, compress: Compression) -> Iterator[Writable]:
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


def _sync_folder(folder: Path) -> None:
    """Make the rename itself last; where folders cannot be opened (Windows) the system sees to it."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
