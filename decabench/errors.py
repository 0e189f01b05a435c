"""Every error that decabench raises on purpose, under one roof."""

from typing import ClassVar

from decabench.metrics.errors import DecabenchError, MetricError
from decabench.tasks.errors import DataError, MissingDataError, StorageError, UnknownNameError

__all__ = [
    "DataError",
    "DecabenchError",
    "MetricError",
    "MissingDataError",
    "StorageError",
    "SubmissionError",
    "UnknownNameError",
]


class SubmissionError(DecabenchError):
    """A submission is not in the form that it must have."""

    exit_code: ClassVar[int] = 1
