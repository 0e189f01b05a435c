"""Rank groups: systems whose totals do not differ significantly share a rank. Pure.

The rule: walk down the ranking. A system opens a new rank group when its total differs significantly from that of the
group's first system, else it joins the group; a group's rank is the place of its first system. Every system but the
first is so compared once, and Holm's correction is made over the comparisons of the walk. Since a correction can move
the groups, and the groups decide what is compared, the walk is repeated until nothing moves; the first walk, and the
answer where the walks do not settle, takes Bonferroni's correction, which is stricter.

Totals that are equal as displayed always share a group. Where two systems cannot be compared (no statistics beside the
results), different totals open a new group, and the page says that nothing was tested.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from decabench.significance import holm

__all__ = ["LEVEL", "Place", "Versus", "places"]

LEVEL = 0.05
"""Of significance, two-sided."""

_WALKS = 20


@dataclass(frozen=True)
class Versus:
    """A system against the first of the group that it was compared with."""

    head: int
    """Which system that is, by place in the order."""
    p: float | None
    """Corrected; None where it could not be tested."""


@dataclass(frozen=True)
class Place:
    """Where a system stands."""

    rank: int
    """1, 1, 3: of the group's first system."""
    group: int
    """From 1."""
    versus: Versus | None
    """None for the first of all, and for equals as displayed."""


Compare = Callable[[int, int], float | None]
"""(first, second) -> uncorrected p of the difference of their totals."""


def places(totals: Sequence[str], compare: Compare) -> list[Place]:
    """The places of systems in order of their displayed totals."""
    known: dict[tuple[int, int], float | None] = {}

    def once(head: int, other: int) -> float | None:
        if (head, other) not in known:
            known[head, other] = compare(head, other)
        return known[head, other]

    strict = max(1, len(totals) - 1)
    first = _walk(totals, lambda head, other: _times(once(head, other), strict))
    walked = first
    for _ in range(_WALKS):
        made = _comparisons(walked, once)
        corrected = holm({f"{head} {other}": p for (head, other), p in made.items() if p is not None})
        again = _walk(totals, lambda head, other: _corrected(head, other, corrected, once, strict))  # noqa: B023
        if _comparisons(again, once).keys() == made.keys() and _groups(again) == _groups(walked):
            return again
        walked = again
    return first


def _walk(totals: Sequence[str], p_value: Compare) -> list[Place]:
    placed: list[Place] = []
    head = 0
    for index, total in enumerate(totals):
        if index == 0:
            placed.append(Place(1, 1, None))
            continue
        if total == totals[head]:
            placed.append(Place(head + 1, placed[-1].group, None))
            continue
        p = p_value(head, index)
        versus, is_new = Versus(head, p), p is None or p < LEVEL
        if is_new and total == totals[index - 1]:
            placed.append(Place(placed[-1].rank, placed[-1].group, versus))
            continue
        head = index if is_new else head
        placed.append(Place(head + 1, placed[-1].group + is_new, versus))
    return placed


def _comparisons(placed: Sequence[Place], once: Compare) -> dict[tuple[int, int], float | None]:
    pairs = [(place.versus.head, index) for index, place in enumerate(placed) if place.versus is not None]
    return {pair: once(*pair) for pair in pairs}


def _corrected(
    head: int, other: int, corrected: dict[str, float], once: Compare, strict: int
) -> float | None:
    known = corrected.get(f"{head} {other}")
    return known if known is not None else _times(once(head, other), strict)


def _times(p: float | None, count: int) -> float | None:
    return None if p is None else min(1.0, p * count)


def _groups(placed: Sequence[Place]) -> list[int]:
    return [place.group for place in placed]
