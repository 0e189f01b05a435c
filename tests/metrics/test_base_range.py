"""No score leaves its range, in any resample, though sums are rounded."""

import random

import numpy as np
import pytest

from decabench.metrics import METRICS, items

WORDS = "the cat sat on a mat with two dogs and one old hat".split()
SQL = {"sel": 0, "agg": 0, "conds": [[1, 0, "x"]]}


def gold(name):
    """References on which the metric is defined, of many lengths."""
    source = random.Random(name)
    texts = [" ".join(source.choices(WORDS, k=source.randint(5, 30))) for _ in range(61)]
    if name in ("pearson", "spearman", "mse", "relatedness"):
        texts = [repr(source.gauss(1e3, 1e-3)) for _ in texts]
    elif name in ("parsing", "parsing_ud"):
        texts = [" ".join(f"{source.randint(0, 4)}:det" for _ in range(source.randint(1, 9))) for _ in texts]
    elif name == "sequence_f1":
        texts = [" ".join(source.choices(["B-NP", "I-NP", "O"], k=source.randint(1, 9))) for _ in texts]
    elif name in ("joint_goal_em", "dialogue_f1"):
        texts = [f"food: {word};" for word in (texts)]
    elif name.startswith("lfem"):
        texts = ["select a from table where b = x"] * len(texts)
        return texts, items(texts, meta=[{"sql": SQL, "header": ["a", "b"]}] * len(texts))
    return texts, items(texts, id=[f"en_{number // 3}_{number % 3}" for number in range(len(texts))])


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("kind", ["gold", "others"])
def test_scores_of_resamples_are_in_range(name, kind):
    answers, references = gold(name)
    metric = METRICS[name].for_data(references)
    if kind == "others":
        random.Random(1).shuffle(answers)
    rows = np.asarray(metric.statistics(answers, references), float)
    counts = np.random.default_rng(0).multinomial(len(rows), [1 / len(rows)] * len(rows), 2_000)
    totals = counts @ rows
    found = metric.score(dict(zip(metric.columns, totals.T, strict=True)))[metric.headline]
    low, high = metric.range
    assert ((low <= found) & (found <= high)).all()
    if kind == "gold":
        assert found == pytest.approx(np.full(2_000, high if metric.higher_is_better else low), abs=1e-6)
