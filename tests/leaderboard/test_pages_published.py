"""The paper's numbers, checked against the paper's own sums."""

from __future__ import annotations

import math

import pytest

from decabench.leaderboard.pages import PUBLISHED, PublishedRow
from tests.leaderboard.small import NAMES


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row.name} {row.training}")
def test_sums(row: PublishedRow) -> None:
    assert tuple(row.scores) == NAMES
    if row.training == "single-task":
        assert row.decascore is None
    else:
        assert row.decascore is not None
        assert math.isclose(math.fsum(row.scores.values()), row.decascore, abs_tol=1e-6)
