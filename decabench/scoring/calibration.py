"""Calibration: the probabilities that a model gives to labels, compared with the gold labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from decabench.metrics import Item, fold_label
from decabench.submission import AnswerLine

_BINS = 10
_SMALLEST = 1e-15
"""The smallest probability in the log loss, which would be infinite for 0."""


@dataclass(frozen=True)
class ConfidenceBin:
    """The answers whose highest probability is in one tenth of the scale; one row of a reliability table."""

    n: int
    """The number of answers."""
    confidence: float
    """Their mean highest probability."""
    accuracy: float
    """The share of right answers, 0–1."""


@dataclass(frozen=True)
class Calibration:
    """How well the probabilities of labels agree with the gold labels."""

    n: int
    """The number of answers with probabilities."""
    brier: float
    """The mean squared distance from the gold label's probabilities, 0–2 (Brier 1950)."""
    log_loss: float
    """The mean negative logarithm of the gold label's probability."""
    error: float
    """The expected calibration error over ten bins of equal width, 0–1 (Guo et al. 2017)."""
    bins: tuple[ConfidenceBin, ...]
    """The bins with answers, from the lowest confidence to the highest."""


def calibrate(lines: Mapping[int, AnswerLine], references: Sequence[Item]) -> Calibration | None:
    """Compare answers' probabilities, by place, with the references; None if no answer has probabilities."""
    briers, losses = [], []
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(_BINS)]
    for place, line in lines.items():
        if not line.probabilities:
            continue
        golds = set(map(fold_label, references[place].answers))
        given = [(share, fold_label(label) in golds) for label, share in line.probabilities.items()]
        briers.append(sum((share - is_gold) ** 2 for share, is_gold in given))
        losses.append(-math.log(max(_SMALLEST, sum(share for share, is_gold in given if is_gold))))
        best = max(given, key=lambda pair: pair[0])
        bins[min(_BINS - 1, int(best[0] * _BINS))].append(best)
    if not briers:
        return None
    made = [
        ConfidenceBin(len(held), fmean(share for share, _ in held), fmean(right for _, right in held))
        for held in bins
        if held
    ]
    error = sum(each.n * abs(each.confidence - each.accuracy) for each in made) / len(briers)
    return Calibration(len(briers), fmean(briers), fmean(losses), error, tuple(made))
