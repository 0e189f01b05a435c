"""Submissions to the bundled sample, made once per session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.leaderboard.synthetic import submissions


@pytest.fixture(scope="session")
def made_up(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six systems, the oracle and a baseline, with answers, intervals and statistics."""
    return submissions(home, tmp_path_factory.mktemp("made-up"), 6)


@pytest.fixture(autouse=True)
def built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Build sites again even if nothing has changed."""
    monkeypatch.setattr("decabench.leaderboard.site._SETTLED", 1e6)
