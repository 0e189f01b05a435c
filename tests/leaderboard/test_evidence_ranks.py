"""Rank groups, case by case."""

from __future__ import annotations

from collections.abc import Mapping

from decabench.leaderboard.evidence import assign_places


def groups(totals: str, p_values: Mapping[tuple[int, int], float | None]) -> list[tuple[int, int]]:
    placed = assign_places(totals.split(), lambda head, other: p_values[head, other])
    return [(place.rank, place.group) for place in placed]


def test_nothing_and_one() -> None:
    assert assign_places([], lambda head, other: None) == []
    assert groups("9", {}) == [(1, 1)]


def test_a_group_ends_where_a_system_differs_from_its_first() -> None:
    p_values = {(0, 1): 0.5, (0, 2): 0.0001, (2, 3): 0.9, (0, 3): 0.0001}
    assert groups("9 8 7 6", p_values) == [(1, 1), (1, 1), (3, 2), (3, 2)]


def test_untested_totals_are_ranked_as_they_stand() -> None:
    assert groups("9 8 8 7", {(0, 1): None, (1, 3): None}) == [(1, 1), (2, 2), (2, 2), (4, 3)]


def test_equals_share_a_group_whatever_a_test_says() -> None:
    p_values = {(0, 1): 0.5, (0, 2): 0.0001}
    assert groups("9 8 8", p_values) == [(1, 1), (1, 1), (1, 1)]
    assert groups("9 9", {}) == [(1, 1), (1, 1)]


def test_holm_is_milder_than_bonferroni() -> None:
    # Three comparisons: 0.02 alone would be 0.06 by Bonferroni; by Holm it is the last of three, and stays 0.02.
    p_values = {(0, 1): 0.001, (1, 2): 0.001, (2, 3): 0.02}
    assert groups("9 8 7 6", p_values) == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_holm_corrects() -> None:
    p_values = {(0, 1): 0.04, (0, 2): 0.04, (1, 2): 0.04}
    assert groups("9 8 7", p_values) == [(1, 1), (1, 1), (1, 1)]


def test_the_corrected_p_is_returned() -> None:
    versus = assign_places(["9", "8", "7"], lambda head, other: 0.001 if other == 2 else 0.6)[2].versus
    assert versus is not None and versus.p is not None
    assert (versus.head, round(versus.p, 6)) == (0, 0.002)
