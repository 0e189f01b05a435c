"""Several sampled answers to each example: their mean is the score, and their agreement is recorded."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from decabench.metrics import Metric


@dataclass(frozen=True)
class SampleScores:
    """The headlines of several samples of a task's answers; the task's own score is their mean."""

    scores: tuple[float, ...]
    """The headline of each sample."""
    majority: float
    """The headline of the most frequent answer to each example; of equally frequent answers, the earliest."""
    pass_at: Mapping[str, float] = field(default_factory=dict)
    """For each k, the chance that at least one of k samples is entirely right, 0–100 (Chen et al. 2021); empty
    for corpus metrics."""
    between_samples: float = 0.0
    """The standard deviation of `scores`."""
    within_examples: float | None = None
    """The standard deviation between samples of the same example; None for corpus metrics."""
    between_examples: float | None = None
    """The standard deviation of the examples' means; None for corpus metrics."""


def vote(series: Sequence[Sequence[str]]) -> list[str]:
    """Return the most frequent answer to each example, given each sample's answers; of equally frequent ones,
    the earliest."""
    return [Counter(answers).most_common(1)[0][0] for answers in zip(*series, strict=True)]


def describe_samples(
    metric: Metric, rows: Sequence[Any], headlines: Sequence[float], majority: float
) -> SampleScores:
    """Describe how well several samples agree, given each sample's metric rows and headline."""
    import numpy as np

    pass_at, within, between = {}, None, None
    if metric.scope == "example" and math.isfinite(metric.range[1]):
        stacked = np.stack([np.asarray(each, dtype=float) for each in rows])
        columns = {name: stacked[..., at] for at, name in enumerate(metric.columns)}
        values = np.asarray(metric.score(columns)[metric.headline])
        count = len(rows)
        best = metric.range[1 if metric.higher_is_better else 0]
        right = np.sum(np.abs(values - best) < 1e-9, axis=0)
        sizes = sorted({1, count, *(2**power for power in range(count.bit_length()) if 2**power <= count)})
        pass_at = {str(k): float(np.mean([_pass(count, int(each), k) for each in right])) for k in sizes}
        within = float(np.sqrt(np.mean(np.var(values, axis=0, ddof=1))))
        between = float(np.std(values.mean(axis=0), ddof=1)) if values.shape[1] > 1 else 0.0
    spread = float(np.std(headlines, ddof=1))
    return SampleScores(tuple(headlines), majority, pass_at, spread, within, between)


def _pass(count: int, right: int, k: int) -> float:
    """Return the chance, 0–100, that at least one of k answers is right, if `right` of `count` are."""
    return 100 * (1 - math.comb(count - right, k) / math.comb(count, k))
