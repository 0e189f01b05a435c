"""Errors about data: exit code 3, unless the name was wrong."""

from typing import ClassVar

from decabench.metrics.errors import DecabenchError

__all__ = ["DataError", "MissingDataError", "StorageError", "UnknownNameError"]


class DataError(DecabenchError):
    """Data is damaged: not in the form, or without the checksum, that it must have."""

    exit_code: ClassVar[int] = 3


class MissingDataError(DataError):
    """Data is not there: not prepared, not in the mirror, not to be downloaded."""


class StorageError(DataError):
    """The home folder cannot be written: no space, no permission."""


class UnknownNameError(DecabenchError, ValueError):
    """A name that no registry has; the message gives the near matches and the list."""
