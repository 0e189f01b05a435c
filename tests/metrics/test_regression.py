import random

import pytest
import scipy.stats

from decabench.metrics import METRICS
from decabench.metrics.base import MetricError
from decabench.metrics.regression import mse, pearson, ranks, spearman


def sample(size, seed):
    source = random.Random(seed)
    gold = [round(source.uniform(1, 5), 1) for _ in range(size)]
    return [round(value + source.gauss(0, 1), 1) for value in gold], gold


@pytest.mark.parametrize(("size", "seed"), [(2, 1), (10, 2), (500, 3)])
def test_correlations_agree_with_scipy(size, seed):
    predicted, gold = sample(size, seed)
    texts = [str(value) for value in predicted], [str(value) for value in gold]
    assert float(pearson(*texts)) == pytest.approx(100 * scipy.stats.pearsonr(predicted, gold)[0], abs=1e-8)
    assert float(spearman(*texts)) == pytest.approx(100 * scipy.stats.spearmanr(predicted, gold)[0], abs=1e-8)


def test_ranks_share_ties():
    assert ranks([3, 1, 3, 2]) == [3.5, 1, 3.5, 2]


def test_mse():
    assert float(mse(["1", "2.5"], ["2", "2"])) == pytest.approx((1 + 0.25) / 2)
    assert not METRICS["mse"].higher_is_better


@pytest.mark.parametrize("text", ["", "two", "nan", "inf", "-inf", "1e200"])
def test_no_number_is_the_worst_answer_of_the_gold_range(text):
    # gold 1..5: at 1 the worst is 5, at 4 it is 1
    assert mse([text, "4", "5"], ["1", "4", "5"]).details == pytest.approx(
        {"mse": 16 / 3, "unreadable": 100 / 3}
    )
    assert float(mse(["1", text, "5"], ["1", "4", "5"])) == pytest.approx(9 / 3)


def test_a_constant_side_correlates_with_nothing():
    assert float(pearson(["3", "3"], ["1", "2"])) == 0
    assert float(spearman(["1", "2"], ["3", "3"])) == 0


def test_a_gold_answer_that_is_no_number():
    with pytest.raises(MetricError, match="'high'"):
        pearson(["1"], ["high"])
