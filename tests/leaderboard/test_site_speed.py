"""Fifty submissions: built in seconds, and an overview that is light."""

from __future__ import annotations

import re
from pathlib import Path
from time import process_time

import pytest

from decabench.leaderboard import write_leaderboard
from tests.leaderboard.synthetic import submissions

SECONDS = 10
"""CPU seconds, because other processes slow down the wall clock."""
BYTES = 300_000


@pytest.mark.heavy
@pytest.mark.slow
def test_fifty_submissions(home: Path, tmp_path: Path) -> None:
    submissions(home, tmp_path / "submissions", 50)
    before = process_time()
    page = write_leaderboard(tmp_path / "submissions", tmp_path / "site", home=home)
    assert process_time() - before < SECONDS
    assert weight(page) < BYTES
    assert len(list((tmp_path / "site" / "submissions").iterdir())) == 52


def weight(page: Path) -> int:
    """Return the bytes of a page and of everything it loads."""
    text = page.read_text(encoding="utf-8")
    names = re.findall(r'<(?:script|link)[^>]* (?:src|href)="([^"]+)"', text)
    return len(text.encode()) + sum((page.parent / name).stat().st_size for name in names)
