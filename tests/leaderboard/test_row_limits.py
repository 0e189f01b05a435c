"""Rows that answers may have pass, however odd; those beyond a limit are refused with what is wrong."""

from __future__ import annotations

import random

import numpy as np
import pytest

from decabench.leaderboard.row_limits import (
    LIMITS,
    RowLimits,
    Sum,
    _add,
    _class_limits,
    _describe,
    find_impossible_rows,
)
from decabench.metrics import METRICS, Item, Metric
from tests.leaderboard.odd_answers import odd_answers


@pytest.mark.parametrize("name", METRICS)
def test_what_metrics_make_of_any_answer_is_possible(name: str) -> None:
    for seed in range(25):
        metric, rows = honest(name, seed)
        assert find_impossible_rows(metric, rows) == "", seed
    rows[0] = np.nan
    assert find_impossible_rows(metric, rows) == "some numbers are not finite"


def honest(name: str, seed: int = 0) -> tuple[Metric, np.ndarray]:
    """A metric and its rows of random odd answers."""
    source = random.Random(f"{name} {seed}")
    texts, items = odd_answers(name, source, source.choice((1, 2, 5, 30)) if seed else 30)
    metric = METRICS[name].for_data(items)
    return metric, np.asarray(metric.statistics(texts, items), dtype=float)


def limits_of(name: str) -> list[tuple[Sum, Sum]]:
    return [*LIMITS[name].at_most, *_class_limits(honest(name)[0])]


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name in METRICS for number in range(len(limits_of(name)))]
)
def test_each_limit_refuses_a_row_beyond_it(name: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    metric, rows = honest(name)
    left, right = limits_of(name)[number]
    before = rows.copy()
    columns = dict(zip(metric.columns, rows.T, strict=True))  # views of the rows
    excess = float(_add(columns, right)[4] if has_columns(right) else _add(columns, right))
    excess -= float(_add(columns, left)[4] if has_columns(left) else _add(columns, left))
    terms, sign = (left, 1) if has_columns(left) else (right, -1)
    changed = terms if isinstance(terms, str) else next(term for term in terms if isinstance(term, str))
    columns[changed][4] += sign * (excess + 1)
    assert find_impossible_rows(metric, rows) != ""
    alone = RowLimits(((left, right),), fractions=None, one="", signed=True)
    monkeypatch.setitem(LIMITS, name, alone)  # type: ignore[arg-type]
    monkeypatch.setattr("decabench.leaderboard.row_limits._class_limits", lambda metric: ())
    assert find_impossible_rows(metric, before) == ""
    assert find_impossible_rows(metric, rows) == f"{_describe(left)} exceeds {_describe(right)} in 1 rows"


def has_columns(terms: Sum) -> bool:
    return isinstance(terms, str) or any(isinstance(term, str) for term in terms)


@pytest.mark.parametrize("name", METRICS)
def test_counts_are_whole_and_products_are_products(name: str) -> None:
    metric, rows = honest(name)
    limits = LIMITS[name]
    products = [product for product, _, _ in limits.products]
    for index, column in enumerate(metric.columns):
        forged = rows.copy()
        forged[4, index] += 0.5
        if column in products or (limits.fractions is not None and column not in limits.fractions):
            assert find_impossible_rows(metric, forged) != "", column
        forged[4, index] = -1.0
        if not limits.signed:
            assert find_impossible_rows(metric, forged) == f"{column} is negative in 1 rows"


@pytest.mark.parametrize(
    ("row", "column", "value", "expected"),
    [
        (1, "right:b", 1, "right:b exceeds predicted:b"),
        (1, "right:a", 1, "right:a exceeds gold:a"),
        (1, "gold:a", 1, "gold:a + gold:b exceeds n"),
        (1, "gold:b", 0, "n exceeds gold:a + gold:b"),
        (1, "predicted:b", 1, "predicted:a + predicted:b exceeds n"),
        (1, "right", 1, "right exceeds right:a + right:b"),
        (0, "right", 0, "right:a + right:b exceeds right"),
        (0, "predicted:a", 1.5, "predicted:a is no whole number"),
    ],
)
def test_counts_of_classes_add_up(row: int, column: str, value: float, expected: str) -> None:
    references = [Item([label]) for label in "ab"]
    metric = METRICS["macro_f1"].for_data(references)
    rows = np.asarray(metric.statistics(["a", "a"], references))
    assert find_impossible_rows(metric, rows) == ""
    rows[row, metric.columns.index(column)] = value
    assert find_impossible_rows(metric, rows) == f"{expected} in 1 rows"


@pytest.mark.parametrize(
    ("name", "column", "value", "expected"),
    [
        ("nf1", "n", 2.0, "n is not 1 in every row"),
        ("nf1", "nf1", 1.5, "nf1 exceeds n in 1 rows"),
        ("bleu", "right2", 9.0, "right2 exceeds total2 in 1 rows"),
        ("corpus_f1", "right", 1.0, "right exceeds answered in 1 rows"),
        ("sequence_f1", "right", 3.0, "right exceeds predicted in 1 rows"),
        ("mse", "squares", -1.0, "squares is negative in 1 rows"),
        ("lfem", "executed_right", 1.0, "executed_right exceeds n_executed in 1 rows"),
        ("accuracy", "right", 0.8, "right is no whole number in 1 rows"),
        ("mse", "unreadable", 0.3, "unreadable is no whole number in 1 rows"),
        ("joint_goal_em", "joint_goal", 0.8, "joint_goal is no whole number in 1 rows"),
        ("nf1", "em", 0.8, "em is no whole number in 1 rows"),
        ("em", "em", 1.0, "em exceeds nem in 1 rows"),
        ("nf1", "nf1", 0.5, "nf1 exceeds nf1_empty_match in 1 rows"),
        ("nem", "nem", 1.0, "nem exceeds nf1_empty_match in 1 rows"),
        ("lfem", "lfem", 1.0, "lfem exceeds lfem_unordered in 1 rows"),
        ("bleu", "right1", 0.5, "right1 is no whole number in 1 rows"),
        ("bleu", "system_length", 3.0, "system_length exceeds total1 in 1 rows"),
        ("sequence_f1", "gold", 1.0, "gold exceeds tags in 1 rows"),
        ("joint_goal_em", "turn_request", 1.0, "turn_request exceeds turn_request_corrected in 1 rows"),
        ("corpus_f1", "answerable", 1.0, "answerable exceeds answerable_any in 1 rows"),
        ("tag_macro_f1", "unknown", 1.0, "right + missing + unknown exceeds n in 1 rows"),
        ("dialogue_f1", "slot_gold", 1.0, "slot_gold exceeds state_gold in 1 rows"),
        ("rouge", "rouge2_f", 0.5, "rouge2_f + rouge2_f exceeds rouge2_precision + rouge2_recall in 1 rows"),
        ("rouge_perl", "n", 2.0, "n exceeds 1.5 in 1 rows"),
        ("pearson", "xy", 0.5, "xy is not x times y in 1 rows"),
        ("relatedness", "rank_xx", 0.5, "rank_xx is not rank_x times rank_x in 1 rows"),
    ],
)
def test_impossible_rows(name: str, column: str, value: float, expected: str) -> None:
    metric = METRICS[name]
    rows = np.zeros((2, len(metric.columns)))
    if "n" in metric.columns and name != "tag_macro_f1":
        rows[:, metric.columns.index("n")] = 1
    assert find_impossible_rows(metric, rows) == ""
    rows[1, metric.columns.index(column)] = value
    assert find_impossible_rows(metric, rows) == expected


def test_a_question_has_an_answer_or_none() -> None:
    metric = METRICS["squad2"]
    assert find_impossible_rows(metric, np.array([[1.0, 1, 1, 1, 0], [1, 0, 0, 0, 1]])) == ""
    both = np.array([[1.0, 1, 1, 1, 1]])
    assert find_impossible_rows(metric, both) == "answerable + no_answer_right exceeds n in 1 rows"


def test_rows_of_a_run_query_agree() -> None:
    metric = METRICS["lfem"]
    assert find_impossible_rows(metric, np.array([[1.0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])) == ""
    found = find_impossible_rows(metric, np.array([[1.0, 1, 1, 1, 1, 0]]))
    assert found == "lfem + n_executed exceeds executed_right + 1 in 1 rows"


def test_every_metric_has_limits() -> None:
    """Without an entry, forged rows of the metric would pass."""
    assert set(METRICS) == set(LIMITS)
