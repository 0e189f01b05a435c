"""One did-you-mean."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar

from decabench.metrics import DecabenchError, MetricError

__all__ = [
    "DataError",
    "DecabenchError",
    "LostDeviceError",
    "MetricError",
    "MissingDataError",
    "StorageError",
    "SubmissionError",
    "UnknownNameError",
    "require_name",
]

# ---- errors


class LostDeviceError(DecabenchError):
    """The accelerator answers this process no more; another process may go on."""


class SubmissionError(DecabenchError):
    """A submission is not in the form that it must have."""

    exit_code: ClassVar[int] = 1


# ---- errors


class DataError(DecabenchError):
    """Data is damaged: not in the form, or without the checksum, that it must have."""

    exit_code: ClassVar[int] = 3


class MissingDataError(DataError):
    """Data is not there: not prepared, not in the mirror, not to be downloaded."""


class StorageError(DataError):
    """The home folder cannot be written: no space, no permission."""


class UnknownNameError(DecabenchError, ValueError):
    """A name that no registry has; the message gives the near matches and the list."""


# ---- names


def require_name(name: str, known: Iterable[str], kind: str) -> str:
    """`name` if it is known. Raises UnknownNameError with the near matches and the list."""
    names = list(known)
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise UnknownNameError(f"There is no {kind} {name!r}.{hint} Known: {', '.join(names)}.")
