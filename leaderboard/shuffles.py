"""The test between two totals: approximate randomization, with the coins of a task tossed once for all pairs.

`decabench.significance.paired_test` does the same for one pair; a board has many, so here the coins are kept (one bit a
group and shuffle) and a task's shuffles are scored in one call.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from decabench.leaderboard.evidence import TaskEvidence
from decabench.significance import Sample

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["SHUFFLES", "Shuffles"]

SHUFFLES = 2_000
"""Of the test between two totals."""

CLEAR, NEAR = 6.0, 1.0
"""Standard errors beyond which, and below which, the normal answer stands without a shuffle."""

_TIE = 1e-4
"""Points that sums in single precision may miss: what is as near as this to the observed difference equals it."""

_CELLS = 4_000_000
"""Coins that are numbers at one time; they take four bytes each."""


class Shuffles:
    """Tests pairs of systems; equal input gives equal p."""

    def __init__(self, shuffles: int = SHUFFLES, seed: int = 0) -> None:
        self._shuffles = shuffles
        self._seed = seed
        self._coins: dict[tuple[str, int], Array] = {}

    def p_of_total(
        self, first: Sequence[TaskEvidence | None], second: Sequence[TaskEvidence | None]
    ) -> float | None:
        """Two-sided p of the difference of two totals; None where a task has no statistics for both."""
        import numpy as np

        pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
        if not pairs or len(pairs) < len(first) or not all(_are_paired(a, b) for a, b in pairs):
            return None
        difference = sum(b.sample.score - a.sample.score for a, b in pairs)
        error = _error(pairs)
        if error:
            distance = abs(difference) / error
            if distance > CLEAR:
                return 1 / (self._shuffles + 1)  # the lowest that shuffles could give
            if distance < NEAR:
                return 2 * NormalDist().cdf(-distance)
        shuffled: Array = np.sum([self._shuffled(a.sample, b.sample) for a, b in pairs], axis=0)
        return _p_value(shuffled, difference)

    def _shuffled(self, a: Sample, b: Sample) -> Array:
        """(shuffles,): the difference where each group's answers are swapped by a fair coin."""
        import numpy as np

        change = (b.rows - a.rows).astype(np.float32)
        moved = np.concatenate([coins @ change for coins in self._tossed(a.name, len(change))]).astype(float)
        with np.errstate(all="ignore"):
            found = b.headline(b.rows.sum(axis=0) - moved) - a.headline(a.rows.sum(axis=0) + moved)
        differences: Array = np.nan_to_num(found)
        return differences

    def _tossed(self, name: str, groups: int) -> Iterator[Array]:
        """Blocks of (shuffles, groups) zeros and ones."""
        import numpy as np

        if (name, groups) not in self._coins:
            key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
            generator = np.random.Generator(np.random.SFC64(np.random.SeedSequence([self._seed, key])))
            shape = (self._shuffles, (groups + 7) // 8)
            self._coins[name, groups] = generator.integers(0, 256, shape, np.uint8)
        coins = self._coins[name, groups]
        step = max(1, _CELLS // groups)
        for start in range(0, self._shuffles, step):
            yield np.unpackbits(coins[start : start + step], axis=1)[:, :groups].astype(np.float32)


def _are_paired(a: TaskEvidence, b: TaskEvidence) -> bool:
    return a.sample.metric.name == b.sample.metric.name and a.sample.rows.shape == b.sample.rows.shape


def _error(pairs: Sequence[tuple[TaskEvidence, TaskEvidence]]) -> float | None:
    """The standard error of the difference of totals; None where a task has too few groups for one."""
    if not all(a.has_errors for a, _ in pairs):
        return None
    return math.sqrt(sum(float(((b.influence - a.influence) ** 2).sum()) for a, b in pairs))


def _p_value(shuffled: Array, difference: float) -> float:
    """The share of shuffles at least as far from 0, the observed one among them; ties count (Noreen 1989)."""
    import numpy as np

    reach = abs(difference) - _TIE
    return float((np.sum(np.abs(shuffled) >= reach) + 1) / (len(shuffled) + 1))
