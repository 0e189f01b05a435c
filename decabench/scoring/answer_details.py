"""Details about answers: malformed items, truncated contexts, several samples and calibration."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from statistics import fmean
from typing import Any

import numpy as np

from decabench.metrics import Item, Metric, count_faults, fold_label
from decabench.prompts import is_in_context
from decabench.scoring.results import Calibration, ConfidenceBin, SampleScores
from decabench.submission import AnswerLine
from decabench.tasks import Tags, Tree

# Tags and trees


def count_item_faults(
    output: Tags | Tree, texts: Sequence[str], golds: Sequence[str], known: Iterable[str]
) -> dict[str, int]:
    """Count malformed items in tag sequences and trees; see `TaskResult.answers`.

    A tag is valid if it occurs in any of the strings in `known`.
    """
    tags = {tag for text in known for tag in text.lower().split()} if isinstance(output, Tags) else None
    faults = [astuple(count_faults(text, gold, tags)) for text, gold in zip(texts, golds, strict=True)]
    kinds = ("missing_items", "extra_items", "unknown_items", "outside_heads")
    return dict(zip(kinds, map(sum, zip(*faults, strict=True)), strict=True))


# Truncated contexts

_ALWAYS = "unanswerable"
"""The gold answer in QA-ZRE if the context contains no answer. Truncating the context can't remove this answer."""


def context_ceiling(
    kept: Mapping[str, tuple[int, int]], references: Sequence[Item], contexts: Iterable[Mapping[str, Any]]
) -> float:
    """Return the percentage of examples whose gold answer wasn't lost when the context was truncated.

    `kept` maps the ids of examples with a truncated context to the range of characters in the prompt. `contexts`
    yields rows with `id` and `context`.
    """
    golds = {item.id: item.answers for item in references if item.id in kept}
    lost = sum(
        not is_reachable(golds[row["id"]], row["context"], kept[row["id"]])
        for row in contexts
        if row["id"] in golds
    )
    return 100 * (1 - lost / len(references))


def is_reachable(golds: Sequence[str], context: str, kept: tuple[int, int]) -> bool:
    """Return whether the kept part of a context contains a gold answer.

    Also returns True if the whole context contains none of the gold answers.
    """
    shown = context[slice(*kept)]
    before = [gold for gold in golds if gold == _ALWAYS or is_in_context(gold, context)]
    return not before or any(gold == _ALWAYS or is_in_context(gold, shown) for gold in before)


# Several samples of an answer, and label probabilities


def vote(series: Sequence[Sequence[str]]) -> list[str]:
    """Return the most frequent sampled answer to each example, or the earliest in case of a tie.

    `series` has shape (samples, examples).
    """
    return [Counter(answers).most_common(1)[0][0] for answers in zip(*series, strict=True)]


def describe_samples(
    metric: Metric, rows: Sequence[Any], headlines: Sequence[float], majority: float
) -> SampleScores:
    """Summarize the scores of several samples.

    `rows` and `headlines` contain the statistics and the headline score of each sample. `majority` is the headline
    score when each example gets its most frequent answer.
    """
    pass_at: dict[str, float] = {}
    within = between = None
    if metric.scope == "example" and math.isfinite(metric.range[1]):
        stacked = np.stack([np.asarray(each, dtype=float) for each in rows])
        columns = {name: stacked[..., at] for at, name in enumerate(metric.columns)}
        values = np.asarray(metric.score(columns)[metric.headline])
        count = len(rows)
        best = metric.range[1 if metric.higher_is_better else 0]
        right = np.sum(np.abs(values - best) < 1e-9, axis=0)
        sizes = sorted({1, count, *(2**power for power in range(count.bit_length()) if 2**power <= count)})
        for k in sizes:
            chances = [1 - math.comb(count - int(each), k) / math.comb(count, k) for each in right]
            pass_at[str(k)] = float(np.mean([100 * chance for chance in chances]))
        within = float(np.sqrt(np.mean(np.var(values, axis=0, ddof=1))))
        between = float(np.std(values.mean(axis=0), ddof=1)) if values.shape[1] > 1 else 0.0
    spread = float(np.std(headlines, ddof=1))
    return SampleScores(tuple(headlines), majority, pass_at, spread, within, between)


_BINS = 10


def calibrate(lines: Mapping[int, AnswerLine], references: Sequence[Item]) -> Calibration | None:
    """Return the calibration of label probabilities, or None if no line has probabilities.

    `lines` maps the index of an example in `references` to the line with its answer.
    """
    briers, losses = [], []
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(_BINS)]
    for place, line in lines.items():
        if not line.probabilities:
            continue
        golds = set(map(fold_label, references[place].answers))
        given = [(share, fold_label(label) in golds) for label, share in line.probabilities.items()]
        briers.append(sum((share - is_gold) ** 2 for share, is_gold in given))
        gold = sum(share for share, is_gold in given if is_gold)
        losses.append(-math.log(max(1e-15, gold)))  # a probability of 0 would have an infinite loss
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
