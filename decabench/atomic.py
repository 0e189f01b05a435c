"""Packed files: equal content gives equal bytes, and a reader sees the whole new file or the old one."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, Protocol

from decabench.tasks.home import atomic_file

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
