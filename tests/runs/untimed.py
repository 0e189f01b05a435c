"""The files of a run without its times, which differ between runs."""

from __future__ import annotations

import re

_TIMES = re.compile(rb'\[predictor\.time\."[^\n]+"\]\nanswers = \d+\nseconds = [0-9.e-]+\n\n?')
_SECONDS = re.compile(r',"seconds":[0-9.e-]+(?=\}$)')


def untimed(content: bytes) -> bytes:
    """Return submission.toml without times. Other files have none."""
    return _TIMES.sub(b"", content)


def untimed_line(line: str) -> str:
    """Return a line of a journal without its seconds."""
    return _SECONDS.sub("", line)
