"""The decathlon: the paper's numbers against the paper's own sums, and ten tasks whatever the registry holds."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from decabench.metrics import METRICS
from decabench.tasks import DECATHLON, SUITES, TASKS, PublishedRow
from decabench.tasks.store import Store
from decabench.tasks.suite import check_suite
from tests.sources import ROOT, modules


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


def test_the_authors_own_leaderboard() -> None:
    """github.com/salesforce/decaNLP, README.md at commit 07dd886: two totals above all those of the paper."""
    rows = [row for row in DECATHLON.published if "salesforce/decaNLP" in row.source]
    assert [(row.name, row.total, row.scores["squad"]) for row in rows] == [
        ("MQAN + CoVe", 609.0, 77.0),
        ("MQAN + CoVe", 599.9, 75.5),
    ]


def test_it_is_a_suite_of_the_registry() -> None:
    assert SUITES["decathlon"] is DECATHLON
    for suite in SUITES.values():
        check_suite(suite, TASKS)
    check_suite(DECATHLON, TASKS)
    assert DECATHLON.combine(dict.fromkeys(DECATHLON.tasks, 100.0)) == 1000


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


MAY_NAME_TASKS = (
    "tasks/datasets/",
    "tasks/suites/",
    "tasks/registry.py",
)
"""Where a new dataset is written down."""


IMPORTS = ("decabench/commands/import_.py", "decabench/exchange/")
FORMATS = {"squad"}
"""A format of files that `decabench import` reads has the name of a task."""


def names_of_tasks(path: Path) -> Iterator[str]:
    """Strings of a source file that are the name of a task, with their lines; squad2 is a metric's name too."""
    is_import = path.relative_to(ROOT).as_posix().startswith(IMPORTS)
    names = TASKS.keys() - METRICS.keys() - (FORMATS if is_import else set())
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and node.value in names:
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.value}"


def test_no_other_code_names_a_task() -> None:
    """So that adding a dataset touches its file, the registry and its suite only."""
    files = modules().values()
    named = [
        name
        for path in files
        if not path.relative_to(ROOT).as_posix().startswith(MAY_NAME_TASKS)
        for name in names_of_tasks(path)
    ]
    assert named == []
    assert sum(1 for _ in names_of_tasks(ROOT / "tasks" / "registry.py")) >= len(DECATHLON.tasks)
