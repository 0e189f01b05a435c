import random

import pytest
import sklearn.metrics

from decabench.metrics import accuracy


def test_accuracy():
    assert float(
        accuracy([" Positive ", "negative", ""], ["positive", ["x", "Negative"], "y"])
    ) == pytest.approx(200 / 3)


def test_agrees_with_scikit_learn():
    source = random.Random(0)
    predicted, gold = (source.choices(["positive", "negative", "neutral"], k=500) for _ in range(2))
    wanted = 100 * sklearn.metrics.accuracy_score(gold, predicted)
    assert float(accuracy(predicted, gold)) == pytest.approx(wanted, abs=1e-9)
