"""Ranks: which systems differ, the groups that share a rank, and the ranks that a system may have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from decabench.scoring import PairTests

__all__ = ["Place", "Versus", "assign_places", "find_verdict", "show_ranks"]


Verdict = Callable[[int, int], int | None]
"""(a, b) -> 1 or -1 if they differ, 0 if not, None if they could not be tested."""


@dataclass(frozen=True)
class Versus:
    """The comparison that decided a system's rank group."""

    index: int
    """The index of the system that it was compared with."""
    p: float | None
    """The p of the pair, adjusted for all pairs of the table; None if it could not be tested."""
    differs: bool
    """Whether the two differ significantly."""


@dataclass(frozen=True)
class Place:
    """The place of a system in a ranking."""

    rank: int
    """The rank that its group shares: 1, 1, 3."""
    group: int
    """The number of its rank group, from 1."""
    ranks: tuple[int, int]
    """The ranks it may have: those of systems that differ from it significantly are ruled out, and no other."""
    versus: Versus | None = None
    """The comparison that decided its group; None for the first system."""


def find_verdict(tests: PairTests, a: int, b: int) -> int | None:
    """Return 1 if b's score is significantly higher than a's, -1 if it is lower, 0 if neither; None if not tested."""
    if not tests.is_tested(a, b):
        return None
    if not tests.differ(a, b):
        return 0
    return 1 if tests.differences[a, b] > 0 else -1


def assign_places(shown: Sequence[str], tests: PairTests | None, indexes: Sequence[int] = ()) -> list[Place]:
    """Return the places of systems that are ordered by their scores, best first.

    Walking down, a system starts a new group if it differs significantly from any system of the current group, so that
    no two systems of a group ever differ. A pair that cannot be tested does not differ: without a test, nobody is above
    anybody.

    Args:
        tests: The tests of all pairs; without them, all systems share one rank.
        indexes: The index in `tests` of each system; by default its own.
    """
    number = list(indexes) or list(range(len(shown)))

    def verdict(a: int, b: int) -> int | None:
        return None if tests is None else find_verdict(tests, number[a], number[b])

    def versus(a: int, b: int) -> Versus:
        p = float(tests.adjusted[number[a], number[b]]) if tests and verdict(a, b) is not None else None
        return Versus(a, p, bool(verdict(a, b)))

    placed: list[Place] = []
    head, group = 0, 1
    for start, end in _runs(shown, verdict):
        deciding = [
            (one, other) for other in range(start, end) for one in range(head, start) if verdict(one, other)
        ]
        if deciding:
            head, group = start, group + 1
        for index in range(start, end):
            against = [versus(one, other) for one, other in deciding if other == index]
            if not against and index > head:
                against = [versus(head, index)]
            decided = min(against, key=lambda one: 2.0 if one.p is None else one.p, default=None)
            placed.append(Place(head + 1, group, _possible_ranks(index, len(shown), verdict), decided))
    return placed


def _runs(shown: Sequence[str], verdict: Verdict) -> list[tuple[int, int]]:
    """Return (start, end) of the runs of systems whose scores look equal and that no test tells apart."""
    runs: list[tuple[int, int]] = []
    for index, score in enumerate(shown):
        start = runs[-1][0] if runs else 0
        if runs and score == shown[start] and not any(verdict(one, index) for one in range(start, index)):
            runs[-1] = (start, index + 1)
        else:
            runs.append((index, index + 1))
    return runs


def _possible_ranks(index: int, count: int, verdict: Verdict) -> tuple[int, int]:
    """Return 1 and the number of systems that are better, and the number of all less those that are worse."""
    better = sum(bool(verdict(other, index)) for other in range(index))
    worse = sum(bool(verdict(index, other)) for other in range(index + 1, count))
    return 1 + better, count - worse


def show_ranks(ranks: tuple[int, int] | None) -> str:
    """Format the ranks that a system may have: `4–7`; nothing if there is only one, or no rank at all."""
    return f"{ranks[0]}–{ranks[1]}" if ranks and ranks[0] != ranks[1] else ""
