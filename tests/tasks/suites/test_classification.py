"""The suites of classification: means, and published rows against the gains that the paper prints beside them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from decabench.tasks import SUITES
from decabench.tasks.suite import PublishedRow, Suite
from decabench.tasks.suites.classification import FDU_SUITE, MOVIES, PRODUCTS_SUITE


@pytest.mark.parametrize(("suite", "tasks"), [(FDU_SUITE, 16), (MOVIES, 5), (PRODUCTS_SUITE, 4)])
def test_they_are_means_of_accuracies(suite: Suite, tasks: int) -> None:
    assert SUITES[suite.name] is suite
    assert (suite.total, len(suite.tasks)) == ("mean", tasks)
    assert suite.combine(dict.fromkeys(suite.tasks, 50.0)) == 50


def gain(suite: Suite, name: str, over: str) -> float:
    rows: dict[str, PublishedRow] = {row.name: row for row in suite.published}
    gains = [rows[name].scores[task] - rows[over].scores[task] for task in rows[over].scores]
    return math.fsum(gains) / len(gains)


@pytest.mark.parametrize(
    ("suite", "name", "over", "printed"),
    [  # the last columns of Tables 3 and 4
        (MOVIES, "ARC-I", "LSTM", 1.8),
        (MOVIES, "ARC-I", "ME-LSTM", 1.9),
        (MOVIES, "ARC-II", "LSTM", 2.9),
        (MOVIES, "ARC-II", "ME-LSTM", 3.0),
        (PRODUCTS_SUITE, "ARC-I", "LSTM", 2.9),
        (PRODUCTS_SUITE, "ARC-I", "ME-LSTM", 2.6),
        (PRODUCTS_SUITE, "ARC-II", "LSTM", 3.7),
        (PRODUCTS_SUITE, "ARC-II", "ME-LSTM", 3.5),
    ],
)
def test_gains(suite: Suite, name: str, over: str, printed: float) -> None:
    assert abs(gain(suite, name, over) - printed) <= 0.1  # it cuts where it does not round


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
