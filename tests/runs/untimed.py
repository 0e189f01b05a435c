"""The files of a run without the seconds that it took, which no two runs share."""

from __future__ import annotations

import re

_TIMES = re.compile(rb'\[predictor\.time\."[^\n]+"\]\nanswers = \d+\nseconds = [0-9.e-]+\n\n?')
_SECONDS = re.compile(r',"seconds":[0-9.e-]+(?=\}$)')


def untimed(content: bytes) -> bytes:
    """A submission.toml without times; other files have none."""
    return _TIMES.sub(b"", content)


def untimed_line(line: str) -> str:
    """A line of a journal without its seconds."""
    return _SECONDS.sub("", line)
