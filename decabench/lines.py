"""Lines of a plain, gzip or zstd file that nobody vouches for: streamed, counted, never more than stated."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from decabench.errors import SubmissionError

__all__ = ["BrokenFileError", "Limits", "numbered_lines"]

CHUNK = 1 << 16
ZSTD_CHUNK = 1 << 10
"""A zstd block of 4 bytes can unpack to 128 KiB, so this many bytes at once unpack to 32 MiB at most."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a file is read, unpacked."""

    file_bytes: int = 1 << 32
    """Bytes of the file."""
    file_lines: int = 100_000_000
    """Lines, blank ones too."""
    line_bytes: int = 1 << 20
    """Bytes of one line."""


class BrokenFileError(SubmissionError):
    """A file that cannot be read to its end."""

    def __init__(self, path: Path, code: str, line: int, reason: str) -> None:
        super().__init__(f"{path.parent.name}/{path.name}:{line}: {code}: {reason}")
        self.code = code
        """A key of `decabench.faults.CODES`."""
        self.line = line
        """The line at which reading stopped."""
        self.reason = reason
        """What was wrong there."""


def numbered_lines(path: Path, limits: Limits) -> Generator[tuple[int, bytes | None], None, None]:
    """Every line with its number, from 1, without the newline; None in place of one that is too long.

    Raises `BrokenFileError` where the file is damaged or passes a limit.
    """
    number, total, rest, dropping = 1, 0, b"", False
    with closing(_chunks(path)) as chunks:
        while chunk := _next_chunk(chunks, path, number):
            total += len(chunk)
            if total > limits.file_bytes:
                reason = f"the file unpacks to more than {limits.file_bytes:,} bytes"
                raise BrokenFileError(path, "too-large", number, reason)
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield number, None if dropping or len(line) > limits.line_bytes else line
                dropping = False
                number += 1
                if number > limits.file_lines:
                    reason = f"the file has more than {limits.file_lines:,} lines"
                    raise BrokenFileError(path, "too-large", number, reason)
            if len(rest) > limits.line_bytes:
                rest, dropping = b"", True
    if rest or dropping:
        yield number, None if dropping else rest


def _next_chunk(chunks: Iterator[bytes], path: Path, line: int) -> bytes:
    try:
        return next(chunks, b"")
    except Exception as error:
        raise _broken(path, line, error) from error


def _broken(path: Path, line: int, error: Exception) -> BrokenFileError:
    packing = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
        return BrokenFileError(path, "unreadable-file", line, f"it cannot be read: {error.strerror or error}")
    if packing and isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile, _ZstdDamage)):
        return BrokenFileError(
            path,
            "bad-compression",
            line,
            f"the {packing} data is damaged or cut short ({error}); pack it again",
        )
    raise error


def _chunks(path: Path) -> Generator[bytes, None, None]:
    if path.suffix == ".gz":
        with gzip.open(path, "rb") as packed:
            while chunk := packed.read1(CHUNK):
                yield chunk
    elif path.suffix == ".zst":
        yield from _zstd_chunks(path)
    else:
        with open(path, "rb") as plain:
            while chunk := plain.read(CHUNK):
                yield chunk


class _ZstdDamage(Exception):
    """zstandard's own error, or the end of the file inside a frame, which zstandard passes over."""


def _zstd_chunks(path: Path) -> Iterator[bytes]:
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    frame: zstandard.ZstdDecompressionObj | None = None
    with open(path, "rb") as packed:
        while chunk := packed.read(ZSTD_CHUNK):
            while chunk:
                current = frame = frame or decompressor.decompressobj()
                try:
                    unpacked = current.decompress(chunk)
                except zstandard.ZstdError as error:
                    raise _ZstdDamage(str(error)) from error
                chunk = b""
                if current.eof:
                    frame, chunk = None, current.unused_data
                if unpacked:
                    yield unpacked
        if frame is not None or not packed.tell():
            raise _ZstdDamage("the file ends inside a frame")
