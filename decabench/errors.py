"""Every error that decabench raises on purpose, under one roof."""

from typing import ClassVar

from decabench.metrics.errors import DecabenchError, MetricError
from decabench.tasks.errors import DataError, MissingDataError, StorageError, UnknownNameError

__all__ = [
    "DataError",
    "DecabenchError",
    "LostDeviceError",
    "MetricError",
    "MissingDataError",
    "StorageError",
    "SubmissionError",
    "UnknownNameError",
]


class LostDeviceError(DecabenchError):
    """The accelerator answers this process no more; another process may go on."""


class SubmissionError(DecabenchError):
    """A submission is not in the form that it must have."""

    exit_code: ClassVar[int] = 1
