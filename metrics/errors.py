"""The base of every error that decabench raises on purpose, and those of the metrics."""

from typing import ClassVar

__all__ = ["DecabenchError", "MetricError"]


class DecabenchError(Exception):
    """One sentence: what was wrong, what was given, what to do.

    The command line prints it without a traceback and ends with `exit_code`:
    1 the thing checked has faults, 2 wrong usage, 3 data missing or damaged.
    """

    exit_code: ClassVar[int] = 2


class MetricError(DecabenchError, ValueError):
    """A metric was called with something it cannot score."""
