"""Suites other than the decathlon: their columns, scales, directions and totals."""

from __future__ import annotations

import math
from typing import Any

import pytest

from decabench.leaderboard.entries import Board, Column, State
from decabench.leaderboard.ranking import rank_suite, suite_columns
from decabench.metrics import METRICS
from decabench.tasks import TASKS, Suite
from tests.leaderboard.small import alike, entry, ranking, suite_results

MIXED = Suite("mixed", "Mixed", ("tags", "errors", "correlation"))
ERRORS = Suite("errors", "Errors", ("errors", "more"), total="mean", total_name="mean error")
POINTS = Suite("points", "Points", ("tags", "more"), total="mean", total_name="mean accuracy")
USED = {"tags": "tag_accuracy", "errors": "mse", "correlation": "pearson"}


def board(suite: Suite, *files: dict[str, Any]) -> Board:
    entries = [entry(file, f"{number}/x", find=alike) for number, file in enumerate(files)]
    return rank_suite(suite, entries, TASKS)


def errors(name: str, *scores: float) -> dict[str, Any]:
    used = dict.fromkeys(ERRORS.tasks, "mse")
    return suite_results(name, ERRORS, dict(zip(ERRORS.tasks, scores, strict=False)), used)


def mixed(name: str, *scores: float) -> dict[str, Any]:
    return suite_results(name, MIXED, dict(zip(MIXED.tasks, scores, strict=False)), USED)


def points(name: str, *scores: float) -> dict[str, Any]:
    used = dict.fromkeys(POINTS.tasks, "em")
    return suite_results(name, POINTS, dict(zip(POINTS.tasks, scores, strict=False)), used)


def test_lower_totals_are_ranked_first_where_lower_is_better() -> None:
    (table,) = board(ERRORS, errors("bad", 3.0, 5.0), errors("good", 0.25, 0.5), errors("part", 0.1)).tables
    assert ranking(table) == [(1, "good"), (2, "bad"), (None, "part")]
    assert [row.total for row in table.rows] == ["0.375", "4.000", ""]
    assert (table.total_name, table.total_unit) == ("mean error", "mean of 2")
    assert table.rows[2].remarks == ("0.100 (mean of 1 of 2 tasks)", "missing: more")


def test_partial_results_are_in_the_order_of_their_errors() -> None:
    (table,) = board(ERRORS, errors("bad", 3.0), errors("good", 0.5)).tables
    assert ranking(table) == [(None, "good"), (None, "bad")]


def test_a_mean_is_a_total() -> None:
    (table,) = board(
        POINTS, points("low", 10.0, 20.0), points("high", 90.0, 80.0), points("half", 50.0)
    ).tables
    assert ranking(table) == [(1, "high"), (2, "low"), (None, "half")]
    assert (table.rows[0].total, table.total_unit) == ("85.0", "mean of 2")
    assert table.rows[2].remarks[0] == "50.0 (mean of 1 of 2 tasks)"


def test_a_suite_without_a_total_has_no_ranks() -> None:
    (table,) = board(
        MIXED, mixed("b", 90.0, 0.5, -12.0), mixed("a", 10.0, 3.0, 99.0), mixed("c", 99.0)
    ).tables
    assert ranking(table) == [(None, "a"), (None, "b"), (None, "c")]
    assert [row.state for row in table.rows] == [State.COMPLETE, State.COMPLETE, State.PARTIAL]
    assert (table.total_name, table.total_unit, table.rows[0].total) == ("", "", "")
    assert [row.remarks for row in table.rows] == [(), (), ("1 of 3 tasks", "only tags")]


def test_the_split_on_which_most_tasks_are_scored_is_first() -> None:
    """Most zero-shot tasks only have a test split, so a validation table would be full of dashes."""
    test = mixed("one", 80.0, 0.5) | {"split": "test"}
    assert [table.split for table in board(MIXED, mixed("one", 70.0), test).tables] == ["test", "validation"]
    assert [table.split for table in board(MIXED, mixed("one", 70.0, 0.5), test).tables] == [
        "validation",
        "test",
    ]


def test_scores_are_shown_on_their_own_scale() -> None:
    (table,) = board(MIXED, mixed("a", 90.0, 0.5, -12.0), mixed("b", 80.0, 0.75, 50.0)).tables
    assert [cell.text for cell in table.rows[0].cells] == ["90.0", "0.500", "-12.0"]


@pytest.mark.parametrize(
    ("metric", "scale", "digits"),
    [
        ("em", "0 to 100", 1),
        ("mse", "0 and up, lower is better", 3),
        ("pearson", "−100 to 100", 1),  # noqa: RUF001
        ("nobody knows", "any number", 3),
    ],
)
def test_scales(metric: str, scale: str, digits: int) -> None:
    results = entry(suite_results("a", ERRORS, {"errors": 1.0}, {"errors": metric}))
    column = suite_columns(ERRORS, TASKS, METRICS, [results])[0]
    assert (column.metric, column.scale, column.digits) == (metric, scale, digits)


def test_a_task_that_is_known_has_its_own_title_and_metric() -> None:
    (column,) = suite_columns(Suite("one", "One", ("sst",)), TASKS, METRICS, [])
    assert (column.name, column.title, column.metric) == ("sst", "Sentiment analysis", TASKS["sst"].metric)


def test_intervals_of_scales_with_negative_numbers_are_readable() -> None:
    column = Column("r", "R", "pearson", low=-100.0)
    assert column.show_interval((-12.04, 3.0)) == "-12.0 to 3.0"
    assert Column("e", "E", "mse", high=math.inf).show_interval((0.1, 0.25)) == "0.100–0.250"


@pytest.mark.parametrize(
    ("suite", "unit"),
    [
        (Suite("s", "S", ("squad", "sst"), total="sum"), "of 200"),
        (Suite("s", "S", ("squad", "sst"), total="mean"), "mean of 2"),
        (Suite("s", "S", ("sst",), total="mean"), "of 100"),
        (Suite("s", "S", ("squad", "sst")), ""),
    ],
)
def test_units_of_totals(suite: Suite, unit: str) -> None:
    assert rank_suite(suite, [], TASKS).unit(len(suite.tasks)) == unit


def test_a_sum_of_other_scales_is_out_of_nothing() -> None:
    suite = Suite("s", "S", ("errors", "more"), total="sum")
    file = suite_results("a", suite, {"errors": 1.0, "more": 2.0}, dict.fromkeys(suite.tasks, "mse"))
    (table,) = board(suite, file).tables
    assert (table.rows[0].total, table.total_unit) == ("3.000", "")
