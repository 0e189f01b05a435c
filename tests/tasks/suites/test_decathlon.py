"""The decathlon: the paper's numbers against the paper's own sums, and ten tasks whatever the registry holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from decabench.tasks import DECATHLON, PublishedRow
from decabench.tasks.store import Store


@pytest.mark.parametrize("row", DECATHLON.published, ids=lambda row: f"{row.name} {row.training}")
def test_sums(row: PublishedRow) -> None:
    assert tuple(row.scores) == DECATHLON.tasks
    if row.training == "single-task":
        assert row.total is None
    else:
        assert row.total is not None
        rounding = (
            0.2 if row.source else 1e-6
        )  # the authors' leaderboard adds before it rounds, the paper after
        assert math.isclose(DECATHLON.combine(row.scores) or 0, row.total, abs_tol=rounding + 1e-6)


def test_commands_without_tasks_mean_the_decathlon(
    command: Callable[..., Result], home: Path, tmp_path: Path
) -> None:
    """Though the sample of other tasks is prepared too."""
    assert Store(home).records("subj")
    out, options = tmp_path / "out", ("--home", home)
    assert command("predict", "--predictor", "majority", "--output", out, *options).exit_code == 0
    assert {path.name for path in (out / "predictions").iterdir()} == {
        f"{name}.validation.jsonl" for name in DECATHLON.tasks
    }
    done = command("prepare", "--sample", "--home", tmp_path / "fresh")
    assert done.exit_code == 0, done.output
    assert {path.name for path in (tmp_path / "fresh" / "tasks").iterdir() if path.is_dir()} == set(
        DECATHLON.tasks
    )


"""Where a new dataset is written down."""


"""A format of files that `decabench import` reads has the name of a task."""
