"""Suites: how scores combine, what is wrong in a suite, and suites in TOML files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from decabench.errors import DataError
from decabench.tasks.registry import TASKS, load_included
from decabench.tasks.suite import Combination, PublishedRow, Suite, check_suite
from tests.tasks.fixtures import write_lines

TWO = Suite("two", "Two", ("sst", "schema"), "mean", "average")


@pytest.mark.parametrize(("total", "combined"), [("sum", 150.0), ("mean", 75.0), ("none", None)])
def test_the_total(total: Combination, combined: float | None) -> None:
    suite = replace(TWO, total=total)
    assert suite.combine({"sst": 90, "schema": 60, "squad": 1}) == combined
    assert suite.combine({"sst": 90}) is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"name": "My Suite"},
            "Suite 'My Suite': A name must consist of lower-case letters, digits, dots, - and _",
        ),
        ({"tasks": ()}, "It has no tasks: name at least one."),
        ({"tasks": ("sst", "schema", "sst")}, "It names sst more than once: name each task once."),
        ({"total": "product"}, "Its total must be sum, mean or none, not 'product'."),
        (
            {"published": (PublishedRow("M", "joint", {"sst": 1.0, "squad": 2.0}),)},
            "The published row 'M' has scores of squad, not of its tasks.",
        ),
        ({"source_url": "javascript:alert(1)"}, "Its source_url must begin with https:// or http://"),
        ({"title": "Two\x1b]0;mine"}, "Its title has characters that cannot be printed"),
    ],
)
def test_a_suite_checks_itself(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        replace(TWO, **changes)
    assert sentence in str(caught.value)


def test_a_total_of_metrics_of_mixed_direction_is_refused() -> None:
    tasks = {**TASKS, "error": replace(TASKS["sst"], name="error", metric="mse")}
    mixed = replace(TWO, tasks=("sst", "error"))
    with pytest.raises(
        DataError, match="a mean, but lower is better for the metrics of error, and higher for"
    ):
        check_suite(mixed, tasks)
    check_suite(replace(mixed, total="none"), tasks)
    check_suite(replace(mixed, tasks=("error",)), tasks)
    check_suite(TWO, tasks)


TOML = [
    'format = "decabench.suite/1"',
    'name = "two"',
    'tasks = ["sst", "schema"]',
]


def load_suite(path: Path) -> Suite:
    (suite,) = load_included(path)
    assert isinstance(suite, Suite)
    return suite


def test_a_whole_file(tmp_path: Path) -> None:
    lines = [
        *TOML,
        'title = "Two tasks"\ndescription = "Short."\ntotal = "mean"\ntotal_name = "average"',
        'source = "A paper"\nsource_url = "https://example.org"\nnotes = ["One.", "Two."]',
        '[[published]]\nname = "M"\ntraining = "joint"\ntotal = 75\nsource = "Table 2"',
        "scores = { sst = 90, schema = 60.0 }",
        '[[published]]\nname = "N"',
    ]
    assert load_suite(write_lines(tmp_path / "two.toml", lines)) == Suite(
        name="two",
        title="Two tasks",
        tasks=("sst", "schema"),
        total="mean",
        total_name="average",
        description="Short.",
        source="A paper",
        source_url="https://example.org",
        published=(
            PublishedRow("M", "joint", {"sst": 90.0, "schema": 60.0}, 75.0, "Table 2"),
            PublishedRow("N", "", {}),
        ),
        notes=("One.", "Two."),
        origin="user",
    )


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (TOML[:2], "'tasks' is missing: give a list of strings"),
        ([TOML[0], TOML[2]], "'name' is missing"),
        ([*TOML, 'taks = ["sst"]'], "There is no key 'taks'. Did you mean tasks?"),
        ([*TOML, 'total = "maen"'], "There is no total 'maen'. Did you mean mean?"),
        ([*TOML, "title = 3"], "'title' must be a string"),
        ([*TOML, "notes = 'x'"], "'notes' must be a list of strings"),
        ([*TOML[:2], "tasks = []"], "It has no tasks"),
        ([*TOML[:2], "tasks = ['sst', 'sst']"], "It names sst more than once"),
        ([*TOML, "[[published]]\nscores = { sst = 'x' }"], "[[published]] 1, scores: 'sst' must be a number"),
        ([*TOML, "[[published]]\nname = 'M'\nscores = { squad = 1 }"], "has scores of squad"),
        ([*TOML, "[[published]]\nname = 'M'\nscore = 1"], "[[published]] 1: There is no key 'score'"),
        ([*TOML, "[published]\nname = 'M'"], "'published' must be a list of tables ([[published]])"),
    ],
)
def test_mistakes_in_a_file(tmp_path: Path, lines: list[str], sentence: str) -> None:
    path = write_lines(tmp_path / "two.toml", lines)
    with pytest.raises(DataError) as caught:
        load_suite(path)
    assert str(caught.value).startswith(str(path))
    assert sentence in str(caught.value)
