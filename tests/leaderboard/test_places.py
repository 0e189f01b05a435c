"""Rank groups and the possible ranks of a system, case by case."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from decabench.leaderboard.ranking import assign_places
from decabench.scoring import PairTests


def made_tests(
    p: Mapping[tuple[int, int], float | None], scores: list[float], others: float = 1.0
) -> PairTests:
    """Return tests of systems with these scores, given the adjusted p of each pair, or None if it can't be tested."""
    count = len(scores)
    adjusted = np.full((count, count), others)
    for (a, b), value in p.items():
        adjusted[a, b] = adjusted[b, a] = math.nan if value is None else value
    differences = np.subtract.outer(np.array(scores), np.array(scores)).T
    ones = np.ones_like(adjusted)
    return PairTests(differences, ones, adjusted, adjusted, ones, ones, ones, span=100.0, examples=10)


def places(scores: str, p: Mapping[tuple[int, int], float | None]) -> list[tuple[int, int, str]]:
    shown = scores.split()
    placed = assign_places(shown, shown, made_tests(p, [float(score) for score in shown]))
    return [(place.rank, place.group, place.span) for place in placed]


def test_no_systems_and_one_system() -> None:
    assert assign_places([], [], None) == []
    assert places("9", {}) == [(1, 1, "")]


def test_a_group_ends_where_a_system_differs_from_its_first() -> None:
    assert places("9 8 7 6", {(0, 2): 0.001, (0, 3): 0.001}) == [
        (1, 1, "1–2"),
        (1, 1, "1–4"),
        (3, 2, "2–4"),
        (3, 2, "2–4"),
    ]


def test_no_two_systems_of_a_group_differ() -> None:
    """The first and third don't differ, but the second and third do, so not all three can share a rank."""
    assert [place[:2] for place in places("9 8 7", {(1, 2): 0.01})] == [(1, 1), (1, 1), (3, 2)]


def test_clearly_apart() -> None:
    p = {(0, 1): 0.01, (0, 2): 0.01, (1, 2): 0.01}
    assert places("9 8 7", p) == [(1, 1, ""), (2, 2, ""), (3, 3, "")]


def test_the_level_is_five_percent() -> None:
    assert [place[1] for place in places("9 8", {(0, 1): 0.05})] == [1, 1]
    assert [place[1] for place in places("9 8", {(0, 1): 0.0498})] == [1, 2]


def test_without_a_test_nobody_is_above_anybody() -> None:
    p = dict.fromkeys([(a, b) for b in range(4) for a in range(b)])
    assert places("9 8 8 7", p) == [(1, 1, "1–4")] * 4
    placed = assign_places("9 8 8 7".split(), "abcd", None)
    assert [(place.rank, place.span) for place in placed] == [(1, "1–4")] * 4


def test_one_that_cannot_be_tested_changes_no_group_of_others() -> None:
    p: dict[tuple[int, int], float | None] = {(1, 2): 0.01, (1, 3): 0.01, (2, 3): 0.01}
    p |= dict.fromkeys([(0, 1), (0, 2), (0, 3)])
    assert places("9 8 7 6", p) == [(1, 1, "1–4"), (1, 1, "1–2"), (3, 2, "2–3"), (4, 3, "3–4")]


def test_a_system_without_statistics_may_have_any_rank() -> None:
    p = {(0, 1): None, (1, 2): None, (0, 2): 0.01}
    assert places("9 8 7", p) == [(1, 1, "1–2"), (1, 1, "1–3"), (3, 2, "2–3")]


def test_a_test_decides_whatever_the_digits_shown() -> None:
    """The displayed scores are equal, but the adjusted p is 0.005, so rank, verdict and rank interval all differ."""
    assert places("9 9", {(0, 1): 0.005}) == [(1, 1, ""), (2, 2, "")]
    assert [place[:2] for place in places("9 8 8", {(1, 2): 0.005, (0, 2): 0.005})] == [
        (1, 1),
        (1, 1),
        (3, 2),
    ]


def test_tied_systems_move_to_a_new_group_together() -> None:
    """If one of two tied systems differs from the first, both move to a new group."""
    assert [place[:2] for place in places("9 8 8", {(0, 2): 0.001})] == [(1, 1), (2, 2), (2, 2)]


def test_the_comparison_that_decided_is_kept() -> None:
    shown = ["9", "8", "7", "6"]
    tests = made_tests({(1, 2): 0.02, (0, 2): 0.03}, [9, 8, 7, 6], others=0.6)
    placed = assign_places(shown, "abcd", tests)
    assert [place.versus.partition(" (")[0] for place in placed] == [
        "",
        "no significant difference from a",
        "differs from b",
        "no significant difference from c",
    ]
