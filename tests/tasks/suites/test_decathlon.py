"""The paper's numbers, checked against the paper's own sums."""

from __future__ import annotations

import math

import pytest

from decabench.tasks import DECATHLON, PublishedRow


@pytest.mark.parametrize("row", DECATHLON.published, ids=lambda row: f"{row.name} {row.training}")
def test_sums(row: PublishedRow) -> None:
    assert tuple(row.scores) == DECATHLON.tasks
    if row.training == "single-task":
        assert row.total is None
    else:
        assert row.total is not None
        assert math.isclose(math.fsum(row.scores.values()), row.total, abs_tol=1e-6)
