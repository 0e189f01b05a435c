"""The suites of classification: means, and published rows against the gains that the paper prints beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from decabench.tasks.suite import Suite
from decabench.tasks.suites.classification import MOVIES, PRODUCTS_SUITE


@pytest.mark.mirror
@pytest.mark.parametrize("suite", [MOVIES, PRODUCTS_SUITE])
def test_rows_are_as_printed(shared: Path, suite: Suite) -> None:
    path = shared / "papers" / "shared_memory_multi_task_learning.txt"
    if not path.exists():
        pytest.skip("the paper is not beside the project")
    lines = path.read_text(encoding="utf-8").splitlines()
    cut = {
        "MV-RNN": "MV-RNN (",
        "CNN-multichannel": "CNN-multio",
        "Tree-LSTM": "Tree-LST",
    }  # as the text has them
    for row in suite.published:
        printed = " | ".join(f"{score:.1f}" for score in row.scores.values())
        printed = printed.replace("86.8 | 89.3", "86.8 | - | 89.3")
        name = cut.get(row.name, row.name)
        assert any(f"| {name} " in line.replace("|", " |") and printed in line for line in lines), row.name
