"""The metric regression."""

import random

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from decabench.metrics import METRICS, items
from decabench.metrics.base import MetricError
from decabench.metrics.regression import mse, pearson, relatedness, spearman


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


@pytest.mark.parametrize("text", ["", "two", "nan", "inf", "-inf", "1e200", "9" * 400])
def test_no_number_is_the_worst_answer_of_the_gold_range(text):
    # gold 1..5: at 1 the worst is 5, at 4 it is 1
    assert mse([text, "4", "5"], ["1", "4", "5"]).details == pytest.approx(
        {"mse": 16 / 3, "unreadable": 100 / 3}
    )
    assert float(mse(["1", text, "5"], ["1", "4", "5"])) == pytest.approx(9 / 3)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("3", 3), (" 3.5\n", 3.5), ("+3", 3), ("1e0", 1), ("20e-1", 2), (".5", 0.5), ("3.", 3)),
        ("\u00a03.5\u3000", 3.5),
        *(
            (text, None)
            for text in ("3_5", "1_0e1", "0x3", "3,5", "inf", "-Infinity", "nan", "1e999", "3 5", "")
        ),
        *((text, None) for text in ("\uff13", "\uff13.\uff15", "٣", "१२", "1\u0660")),
    ],
)
def test_odd_forms_of_numbers(text, number):
    """Numbers are read like numpy and JSON. Only Python's float accepts underscores and other scripts' digits."""
    details = mse([text, "1", "5"], ["3", "1", "5"]).details
    assert details["unreadable"] == (pytest.approx(100 / 3) if number is None else 0)
    if number is not None:
        assert details["mse"] == pytest.approx((number - 3) ** 2 / 3)


def test_a_gold_answer_that_is_no_number():
    with pytest.raises(MetricError, match="'high'"):
        pearson(["1"], ["high"])
    with pytest.raises(MetricError) as caught:
        mse(["1"], ["9" * 1_000_000])
    assert len(str(caught.value)) < 200 and "9…" in str(caught.value)


def drawn(size, resamples, seed=0):
    """Return the number of times that each example is drawn, (resamples, examples)."""
    return np.random.default_rng(seed).multinomial(size, [1 / size] * size, resamples)


def resampled(metric, predicted, gold, counts):
    """Return the headline score of each resample, from the rows of the full data."""
    rows = np.asarray(metric.statistics([repr(value) for value in predicted], items(list(map(repr, gold)))))
    totals = np.asarray(counts) @ rows
    return metric.score(dict(zip(metric.columns, totals.T, strict=True)))[metric.headline]


@pytest.mark.parametrize("offset", [0.0, 1e8, 1e9, -1e9])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3])
def test_pearson_far_from_zero_agrees_with_scipy_in_resamples_too(offset, scale):
    source = np.random.default_rng(1)
    gold = source.normal(size=300)
    predicted = gold + source.normal(size=300) / 2
    counts = drawn(300, 20)
    for left, right in ((offset, offset), (offset, 0.0), (0.0, offset)):
        ours, theirs = predicted * scale + left, gold * scale + right
        found = resampled(METRICS["pearson"], ours.tolist(), theirs.tolist(), [[1] * 300, *counts])
        if scale >= 1:  # below that scipy's own mean rounds too much
            assert found[0] == pytest.approx(100 * scipy.stats.pearsonr(ours, theirs)[0], abs=1e-6)
        ours, theirs = ours - left, theirs - right  # exact
        assert found[0] == pytest.approx(100 * scipy.stats.pearsonr(ours, theirs)[0], abs=1e-6)
        wanted = [
            scipy.stats.pearsonr(np.repeat(ours, count), np.repeat(theirs, count))[0] for count in counts
        ]
        assert found[1:] == pytest.approx(100 * np.asarray(wanted), abs=1e-6)


@pytest.mark.parametrize("digits", [0, 1, 6])
def test_spearman_s_influence_is_that_of_ranking_anew(digits):
    """Resamples ranked again by scipy follow the first-order sum; resamples with fixed ranks do not."""
    source = np.random.default_rng(2)
    gold = source.normal(size=400).round(digits)
    predicted = (abs(gold) + gold / 3).round(digits)
    counts, metric = drawn(400, 150), METRICS["spearman"]
    rows = np.asarray(metric.statistics(list(map(str, predicted)), items(list(map(str, gold)))))
    score = 100 * scipy.stats.spearmanr(predicted, gold)[0]
    anew = [
        100 * scipy.stats.spearmanr(np.repeat(predicted, count), np.repeat(gold, count))[0]
        for count in counts
    ]
    linear = score + (counts - 1) @ metric.influence(rows)
    fixed = resampled(metric, predicted.tolist(), gold.tolist(), counts)
    assert np.std(linear - anew) < 0.15 * np.std(anew) < 2 * np.std(fixed - anew)
    assert np.std(linear) == pytest.approx(np.std(anew), rel=0.1)


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_mse_agrees_with_scikit_learn(offset):
    predicted, gold = ((np.asarray(values) + offset).tolist() for values in sample(300, 6))
    wanted = sklearn.metrics.mean_squared_error(gold, predicted)
    assert float(mse(list(map(repr, predicted)), list(map(repr, gold)))) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("text", ["", "two", "3.5"])
def test_relatedness_is_the_three_metrics_together(text):
    predicted, gold = ([str(value) for value in values] for values in sample(50, 4))
    predicted[7] = text
    together = relatedness(predicted, gold).details
    assert float(relatedness(predicted, gold)) == float(mse(predicted, gold))
    for metric in (mse, pearson, spearman):
        assert metric(predicted, gold).details.items() <= together.items()
