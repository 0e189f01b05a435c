"""Tells the errors of a disk from those of damaged data, which share a class."""

from __future__ import annotations

import errno

__all__ = ["is_refused_write"]

_REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS)


def is_refused_write(error: BaseException) -> bool:
    """Whether the operating system would not write: no space, no permission."""
    return isinstance(error, OSError) and error.errno in _REFUSALS
