"""Exceptions, with a class for each case that callers may want to handle differently."""

from __future__ import annotations

from typing import ClassVar

from decabench.metrics import DecabenchError, MetricError, UnknownNameError, near_matches, require_name

__all__ = [
    "DataError",
    "DecabenchError",
    "LostDeviceError",
    "MetricError",
    "MissingDataError",
    "ModelError",
    "StorageError",
    "SubmissionError",
    "UnknownNameError",
    "install_hint",
    "near_matches",
    "require_name",
    "require_package",
    "require_torch",
]


class DataError(DecabenchError):
    """Data is damaged: its format or checksum is wrong."""

    exit_code: ClassVar[int] = 3


class MissingDataError(DataError):
    """Data is not prepared, not in the mirror, or not available for download."""


class StorageError(DataError):
    """A file or folder can't be read or written, for example for lack of space or permission."""


class SubmissionError(DecabenchError):
    """A submission is missing or invalid."""

    exit_code: ClassVar[int] = 1


class ModelError(DecabenchError):
    """A model, or the server or program that runs it, failed."""

    exit_code: ClassVar[int] = 4


class LostDeviceError(ModelError):
    """The accelerator stopped responding to this process. A new process may be able to continue."""


def install_hint(extra: str) -> str:
    """Return advice on how to install an extra, for error messages about a missing package."""
    return f"run pip install 'decabench[{extra}]', or in a clone pip install -e '.[{extra}]'"


def require_package(what: str, extra: str, *packages: str) -> None:
    """Raise DecabenchError if any of the packages is not installed.

    `what` names the feature that requires them, and `extra` is the extra that installs them.
    """
    from importlib.util import find_spec

    if missing := [name for name in packages if find_spec(name) is None]:
        are = "is" if len(missing) == 1 else "are"
        raise DecabenchError(
            f"{what} requires {' and '.join(missing)}, which {are} not installed. To fix this, {install_hint(extra)}."
        )


def require_torch(what: str = "This command") -> None:
    """Raise DecabenchError if torch or safetensors is not installed."""
    require_package(what, "train", "torch", "safetensors")
