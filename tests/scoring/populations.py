"""Synthetic populations of units with known true scores, for simulations of intervals and tests.

A unit (an article, a dialogue) has its own number of examples and its own difficulty, the same for all systems.
Systems differ by noise and skill.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from decabench.metrics import METRICS, items
from decabench.scoring.significance import Sample

SIZES = {
    "equal": lambda generator, units, mean: np.full(units, mean),
    "unequal": lambda generator, units, mean: np.maximum(
        1, np.round(mean * np.exp(generator.normal(-0.25, 0.7, units)))
    ).astype(int),
    "skewed": lambda generator, units, mean: np.maximum(
        1, np.round(mean * np.exp(generator.normal(-0.6, 1.1, units)))
    ).astype(int),
}
"""The number of examples per unit: equal, or with a standard deviation of 0.8 or 1.5 times the mean."""


def sample(metric: str, rows: np.ndarray, sizes: np.ndarray, name: str = "task") -> Sample:
    """Return a sample from sums of rows, in one stratum."""
    return Sample(METRICS[metric], rows, sizes, np.zeros(len(sizes), dtype=int), name)


def mean_rows(right: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return rows of the accuracy metric."""
    return _by_name("em", {"n": sizes, "em": right})


def draw_score(kind: str, generator: np.random.Generator, units: int, sizes: str) -> tuple[Sample, float]:
    """Return the sample of one system on newly drawn units, and its score in the whole population."""
    n = SIZES[sizes](generator, units, 30)
    if kind == "mean":
        return sample("em", mean_rows(generator.binomial(n, generator.beta(8, 2, units)), n), n), 80.0
    if kind == "rare mean":
        return sample("em", mean_rows(generator.binomial(n, generator.beta(1, 19, units)), n), n), 5.0
    if kind == "corpus F1":
        return _draw_f1(generator, units, n)
    if kind == "BLEU":
        return _draw_bleu(generator, units, n)
    if kind == "correlation":
        return _draw_correlation(generator, units, n)
    if kind in ("macro F1", "Matthews"):
        return _draw_classes(kind, generator, units, n)
    if kind == "chrF":
        return _draw_chrf(generator, units, n)
    if kind == "LAS":
        return _draw_las(generator, units, n)
    if kind in ("squared errors", "correlation with wild answers"):
        return _draw_wild(kind, generator, units)
    raise ValueError(kind)


def _draw_f1(generator: np.random.Generator, units: int, n: np.ndarray) -> tuple[Sample, float]:
    """Draw counts of answered, answerable and correctly answered questions."""
    answerable = generator.binomial(n, generator.beta(5, 5, units))
    rightly = generator.binomial(answerable, 0.8)
    answered = rightly + generator.binomial(n - answerable, 0.6)
    found = {
        "n": n,
        "right": generator.binomial(rightly, 0.75),
        "answered": answered,
        "answerable": answerable,
    }
    # In the long run 0.3 of the questions are right, 0.7 answered, 0.5 answerable: 2 x 0.3 / (0.7 + 0.5).
    return sample("corpus_f1", _by_name("corpus_f1", found), n), 50.0


def _draw_bleu(generator: np.random.Generator, units: int, n: np.ndarray) -> tuple[Sample, float]:
    """Draw sentences of 20 words, 10% too short, whose n-grams match with a probability given by the unit's quality."""
    words, short = 20 * n, 18 * n
    quality = generator.beta(12, 8, units)
    found = {"system_length": short, "reference_length": words}
    for order in range(1, 5):
        total = short - (order - 1) * n
        found |= {f"total{order}": total, f"right{order}": generator.binomial(total, quality**order)}
    # E q = 12/20, E q^2 = 12 13/(20 21), ...; the brevity penalty is exp(1 - 10/9)
    precisions = [np.prod([(12 + k) / (20 + k) for k in range(order)]) for order in range(1, 5)]
    true = 100 * np.exp(np.mean(np.log(precisions)) + 1 - 10 / 9)
    return sample("bleu", _by_name("bleu", found), n), float(true)


CLASSES = {"often": 0.5, "sometimes": 0.3, "seldom": 0.15, "rarely": 0.05}
"""The gold classes and their frequencies."""


def _draw_classes(
    kind: str, generator: np.random.Generator, units: int, n: np.ndarray
) -> tuple[Sample, float]:
    """Draw labels: two thirds right, the others random. Units have preferred classes and vary in quality."""
    frequent, guessed = np.array(list(CLASSES.values())), np.array([0.4, 0.2, 0.2, 0.2])
    metric = METRICS["macro_f1" if kind == "macro F1" else "mcc"].for_data(items(list(CLASSES)))
    quality = generator.beta(8, 4, units)
    found = {name: np.zeros(units) for name in metric.columns}
    drawn = generator.multinomial(n, generator.dirichlet(10 * frequent, units))
    for label, gold in zip(CLASSES, drawn.T, strict=True):
        guesses = generator.binomial(gold, 1 - quality)
        predicted = dict(zip(CLASSES, generator.multinomial(guesses, guessed).T, strict=True))
        predicted[label] = predicted[label] + gold - guesses
        found["n"] += gold
        found["right"] += predicted[label]
        found[f"gold:{label}"] += gold
        found[f"right:{label}"] += predicted[label]
        for other, times in predicted.items():
            found[f"predicted:{other}"] += times
    rows = np.stack(list(found.values()), axis=1)
    # The shares of (gold, predicted) in the long run, and what scikit-learn's definitions make of them
    shares = frequent[:, None] * (np.eye(4) * 2 / 3 + guessed / 3)
    gold, predicted, both = shares.sum(axis=1), shares.sum(axis=0), shares.diagonal()
    if kind == "macro F1":
        true = 100 * np.mean(2 * both / (gold + predicted))
    else:
        spread = (1 - np.sum(gold**2)) * (1 - np.sum(predicted**2))
        true = 100 * (both.sum() - gold @ predicted) / np.sqrt(spread)
    return Sample(metric, rows, n, np.zeros(units, dtype=int), "task"), float(true)


def _draw_chrf(generator: np.random.Generator, units: int, n: np.ndarray) -> tuple[Sample, float]:
    """Draw sentences of 100 characters, 10% too short, whose n-grams match with the unit's probability."""
    quality = generator.beta(12, 8, units)
    found, precision, recall, match = {}, [], [], 1.0
    for order in range(1, 7):
        predicted, gold = 90 - (order - 1), 100 - (order - 1)
        found |= {f"char{order}_predicted": predicted * n, f"char{order}_gold": gold * n}
        found[f"char{order}_right"] = generator.binomial(predicted * n, quality**order)
        match *= (12 + order - 1) / (20 + order - 1)  # E q^order
        precision.append(match)
        recall.append(match * predicted / gold)
    p, r = np.mean(precision), np.mean(recall)
    return sample("chrf2", _by_name("chrf2", found), n), float(100 * 5 * p * r / (4 * p + r))


def _draw_las(generator: np.random.Generator, units: int, n: np.ndarray) -> tuple[Sample, float]:
    """Draw sentences of 18 words on average: 90% have the right head, and 95% of these the right relation."""
    words = n + generator.poisson(17 * n)
    heads = generator.binomial(words, generator.beta(18, 2, units))
    found = {"words": words, "uas": heads, "las": generator.binomial(heads, 0.95)}
    return sample("parsing_ud", _by_name("parsing_ud", found), n), 85.5


def _by_name(metric: str, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return rows of a metric from some of its columns. The others are 0."""
    columns = METRICS[metric].columns
    rows = np.zeros((len(next(iter(values.values()))), len(columns)))
    for name, value in values.items():
        rows[:, columns.index(name)] = value
    return rows


def _draw_correlation(generator: np.random.Generator, units: int, n: np.ndarray) -> tuple[Sample, float]:
    """Draw pairs with a Pearson correlation of 0.8. Examples of a unit share a tenth of the variance."""
    metric = METRICS["pearson"]
    unit = np.repeat(np.arange(units), n)
    common = generator.normal(size=(units, 2)) @ np.linalg.cholesky([[1, 0.8], [0.8, 1]]).T
    own = generator.normal(size=(len(unit), 2)) @ np.linalg.cholesky([[1, 0.8], [0.8, 1]]).T
    x, y = (np.sqrt(0.1) * common[unit] + np.sqrt(0.9) * own).T
    rows = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y, np.zeros_like(x)], axis=1)
    return Sample.of_levels(metric, rows, unit[:, None], "task"), 80.0


def _draw_wild(kind: str, generator: np.random.Generator, units: int) -> tuple[Sample, float]:
    """Draw errors with a standard deviation of 0.5, or 3 for one in twenty. Each unit has one example."""
    gold = generator.normal(size=units)
    wild = generator.random(units) < 0.05
    missed = np.where(wild, generator.choice([-3.0, 3.0], units), generator.normal(0, 0.5, units))
    squares = 0.95 * 0.25 + 0.05 * 9
    if kind == "squared errors":
        found = {"n": np.ones(units), "squares": missed**2}
        return sample("mse", _by_name("mse", found), np.ones(units, dtype=int)), squares
    x = gold + missed
    found = {"n": np.ones(units), "x": x, "y": gold, "xx": x * x, "yy": gold**2, "xy": x * gold}
    true = 100 / np.sqrt(1 + squares)
    return sample("pearson", _by_name("pearson", found), np.ones(units, dtype=int)), float(true)


def draw_unlike_board(
    generator: np.random.Generator, systems: int, units: int, mean: int, name: str = "task"
) -> list[Sample]:
    """Return equally good systems that are not interchangeable. Each has half of the examples right in the long run.

    Half of the systems have half of each unit right. The others have all of a tenth of the units right and 44.4% of
    the rest, which makes differences skewed.
    """
    n = SIZES["unequal"](generator, units, mean)
    board = []
    for number in range(systems):
        chance = np.full(units, 0.5) if number % 2 else np.where(generator.random(units) < 0.1, 1.0, 4 / 9)
        board.append(sample("em", mean_rows(generator.binomial(n, chance), n), n, name))
    return board


def draw_board(
    generator: np.random.Generator,
    systems: int,
    units: int,
    mean: int,
    name: str = "task",
    ahead: float = 0.0,
) -> list[Sample]:
    """Return systems on units of unequal size and difficulty. All but the first are worse by `share`."""
    n = SIZES["unequal"](generator, units, mean)
    difficulty = generator.beta(6, 2, units)
    board = []
    for number in range(systems):
        chance = difficulty + generator.normal(0, 0.06, units) + (0.0 if number == 0 else -ahead)
        board.append(sample("em", mean_rows(generator.binomial(n, np.clip(chance, 0, 1)), n), n, name))
    return board
