"""Data files: scripts that can only be data."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest

from decabench.leaderboard.datafiles import _csv_value, count_scores, make_script, score_edges
from decabench.leaderboard.standings import Column


@pytest.mark.parametrize(
    "text",
    [
        "</script><script>alert(1)</script>",
        "<!--",
        "]]>",
        "\u2028\u2029",
        "\\",
        '"',
        "\\u003c/script",
        "Ä",
        "😀",
    ],
)
def test_a_script_gives_back_what_it_was_given_and_nothing_else(text: str) -> None:
    made = make_script("examples/x", {"__proto__": text}).decode("ascii")
    assert not re.search(r"[<>\x00-\x09\x0b-\x1f\x7f-\uffff]", made)
    match = re.fullmatch(r'decabench\.put\("examples/x",(".*")\);\n', made)
    assert match is not None
    assert json.loads(json.loads(match[1])) == {"__proto__": text}


PERCENT = Column("x", "X", "em")


def test_scores_are_counted_in_ten_bins() -> None:
    edges = score_edges(PERCENT, [])
    assert edges == [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    found = count_scores([0.0, 9.9, 10.0, 30.0, 99.9, 100.0, math.nan], edges)
    assert found == {"bins": [2, 1, 0, 1, 0, 0, 0, 0, 0, 2], "n": 7, "unscored": 1}


def test_bins_fit_a_range_that_does_not_begin_at_zero() -> None:
    edges = score_edges(replace(PERCENT, low=-100.0), [])
    assert (edges[0], edges[5], edges[-1]) == (-100, 0, 100)
    assert count_scores([-100.0, 0.0, 100.0], edges)["bins"] == [1, 0, 0, 0, 0, 1, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("scores", "last"), [([[0.0, 3.7], [1.0]], 5.0), ([[0.013]], 0.02), ([[0.0]], 1.0), ([], 1.0)]
)
def test_bins_of_an_open_range_fit_the_scores(scores: list[list[float]], last: float) -> None:
    edges = score_edges(replace(PERCENT, high=math.inf, higher_is_better=False), scores)
    assert (edges[0], edges[-1]) == pytest.approx((0.0, last))
    for one in scores:
        assert sum(count_scores(one, edges)["bins"]) == len(one)


@pytest.mark.parametrize("name", ["=1+1", "\uff1dcmd|'/C calc'!A0", " \uff0bx", "@x", "-2"])
def test_no_name_is_a_formula(name: str) -> None:
    """Spreadsheets of East Asian languages read full-width signs as the usual ones."""
    assert _csv_value(name) == f"'{name}"
    assert _csv_value("mqan=1") == "mqan=1"
