"""Ranks: which systems differ, the groups that share a rank, and the ranks that a system may have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from decabench.scoring import PairTests

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["Place", "Versus", "assign_places", "find_verdicts", "show_ranks"]


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


def find_verdicts(tests: PairTests) -> list[list[int | None]]:
    """Return, by a and b, 1 if b's score is significantly higher than a's, -1 if it is lower, 0 if neither.

    None stands for a pair that was not tested.
    """
    import numpy as np

    signs = np.where(tests.differences > 0, 1, -1)
    verdicts = np.where(tests.significant, signs, 0).astype(object)
    verdicts[~tests.tested] = None
    found: list[list[int | None]] = verdicts.tolist()
    return found


def assign_places(shown: Sequence[str], tests: PairTests | None, indexes: Sequence[int] = ()) -> list[Place]:
    """Return the places of systems that are ordered by their scores, best first.

    Walking down, a system starts a new group if it differs significantly from any system of the current group, so that
    no two systems of a group ever differ. A pair that cannot be tested does not differ: without a test, nobody is above
    anybody.

    Args:
        tests: The tests of all pairs; without them, all systems share one rank.
        indexes: The index in `tests` of each system; by default its own.
    """
    import numpy as np

    count = len(shown)
    number = np.ix_(*2 * [list(indexes) or list(range(count))])
    differ = np.zeros((count, count), dtype=bool)
    p = np.full((count, count), math.nan)
    if tests is not None and count:
        differ, p = tests.significant[number] & tests.tested[number], tests.adjusted[number]
    better, worse = np.triu(differ).sum(axis=0).tolist(), np.triu(differ).sum(axis=1).tolist()

    placed: list[Place] = []
    head, group = 0, 1
    for start, end in _runs(shown, differ):
        above = start  # the end of the group that the run is held against
        if differ[head:start, start:end].any():
            above, head, group = head, start, group + 1
        for index in range(start, end):
            deciding = (above + np.flatnonzero(differ[above:start, index])).tolist()
            if not deciding and index > head:
                deciding = [head]
            against = [_versus(one, p[one, index], differ[one, index]) for one in deciding]
            decided = min(against, key=lambda one: 2.0 if one.p is None else one.p, default=None)
            placed.append(Place(head + 1, group, (1 + better[index], count - worse[index]), decided))
    return placed


def _versus(index: int, p: float, differs: bool) -> Versus:
    return Versus(index, None if math.isnan(p) else float(p), bool(differs))


def _runs(shown: Sequence[str], differ: Array) -> list[tuple[int, int]]:
    """Return (start, end) of the runs of systems whose scores look equal and that no test tells apart."""
    runs: list[tuple[int, int]] = []
    for index, score in enumerate(shown):
        start = runs[-1][0] if runs else 0
        if runs and score == shown[start] and not differ[start:index, index].any():
            runs[-1] = (start, index + 1)
        else:
            runs.append((index, index + 1))
    return runs


def show_ranks(ranks: tuple[int, int] | None) -> str:
    """Format the ranks that a system may have: `4–7`; nothing if there is only one, or no rank at all."""
    return f"{ranks[0]}–{ranks[1]}" if ranks and ranks[0] != ranks[1] else ""
