"""Where prepared data lives, and how files get there whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from decabench.tasks.errors import StorageError

__all__ = ["atomic_file", "home_folder", "make_folder", "storage_errors"]


def home_folder(given: str | Path | None = None) -> Path:
    """The folder of prepared data: as given, else $DECABENCH_HOME, else the platform's user data folder."""
    chosen = given or os.environ.get("DECABENCH_HOME")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_data_path

    return user_data_path("decabench", appauthor=False)


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
