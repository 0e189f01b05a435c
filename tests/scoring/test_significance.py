"""Units and intervals, compared with scipy and survey textbooks, and checked on simulated populations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from decabench.metrics import METRICS
from decabench.metrics.base import Item
from decabench.scoring.significance import (
    Interval,
    Sample,
    SampledUnits,
    describe_units,
    student_t,
    total_interval,
)
from decabench.tasks import number_units
from tests.scoring.populations import SIZES, draw_score

EM = METRICS["em"]
COLUMN = EM.columns.index("em")


def em_sample(right: np.ndarray, units: list[tuple[str, ...]] | None = None, name: str = "task") -> Sample:
    """Return a sample of the em metric, with 1 for each right answer."""
    rows = [
        tuple(1.0 if (column in ("n", "em") and value) or column == "n" else 0.0 for column in EM.columns)
        for value in right
    ]
    return Sample.of_levels(EM, np.array(rows), number_units(units or [()] * len(rows)), name)


def error(sample: Sample) -> float:
    return math.sqrt(sample.spread.variance)


# Units


def test_the_score_of_a_sample_is_the_metric_s():
    assert em_sample(np.array([1, 0, 1, 1])).score == 75.0


def test_interleaved_units_are_one_unit_each():
    sample = em_sample(np.array([1, 0, 1, 0]), [("a",), ("b",), ("a",), ("b",)])
    assert sample.rows.shape[0] == 2 and sample.examples == 4
    assert sample.rows[:, COLUMN].tolist() == [2.0, 0.0]


def nested(outer: int, inner: int, examples: int) -> list[tuple[str, ...]]:
    """Return unit labels of examples. Inner units have the same names in all outer units."""
    return [(f"a{a}", f"p{p}") for a in range(outer) for p in range(inner) for _ in range(examples)]


def test_the_outermost_units_vary_if_there_are_ten():
    units = nested(outer=12, inner=5, examples=2)
    sample = em_sample(np.arange(len(units)) % 3 == 0, units)
    assert (len(sample.sizes), sample.level, sample.fixed) == (12, 0, 0)
    assert describe_units(sample, ("article", "paragraph")) == SampledUnits(12, 12.0, "article")


def test_inner_units_vary_within_outer_ones_that_are_too_few():
    units = nested(outer=6, inner=20, examples=2)
    sample = em_sample(np.arange(len(units)) % 3 == 0, units)
    assert (len(sample.sizes), sample.level, sample.fixed) == (120, 1, 6)
    assert len(set(sample.strata.tolist())) == 6
    found = describe_units(sample, ("relation", "sentence"))
    assert found == SampledUnits(120, 120.0, "sentence", 6, "relation")


@pytest.mark.parametrize(
    ("outer", "varying", "level", "fixed"), [(9, 27, 1, 9), (10, 10, 0, 0), (11, 11, 0, 0)]
)
def test_ten_outer_units_are_enough(outer: int, varying: int, level: int, fixed: int):
    units = nested(outer, inner=3, examples=2)
    sample = em_sample(np.arange(len(units)) % 4 == 0, units)
    assert (len(sample.sizes), sample.level, sample.fixed) == (varying, level, fixed)


def test_without_ten_units_at_any_level_the_innermost_units_vary():
    sample = em_sample(np.arange(8) % 2 == 0, nested(outer=2, inner=2, examples=2))
    assert (len(sample.sizes), sample.level, sample.fixed) == (4, 1, 0)


def test_a_stratum_of_one_unit_joins_others():
    units = [("a", str(n)) for n in range(10)] + [("b", "x"), ("c", "y")]
    assert sorted(np.bincount(em_sample(np.ones(12), units).strata)) == [2, 10]
    assert em_sample(np.ones(11), units[:11]).strata.tolist() == [0] * 11


def test_the_effective_number_is_kish_s():
    sample = em_sample(np.ones(9), [("a",)] * 6 + [("b",)] * 2 + [("c",)])
    assert sample.effective == pytest.approx(81 / (36 + 4 + 1))


# Standard errors


def test_the_error_of_a_mean_is_the_textbook_s():
    right = np.random.default_rng(1).random(300) < 0.7
    assert error(em_sample(right)) == pytest.approx(100 * np.std(right, ddof=1) / np.sqrt(300), rel=1e-9)


def test_units_are_kept_whole_so_that_their_likeness_widens_the_interval():
    generator = np.random.default_rng(2)
    right = np.repeat(generator.random(100) < 0.5, 10)  # ten answers of a dialogue stand or fall together
    whole = em_sample(right, [(f"dialogue {index // 10}",) for index in range(1000)])
    assert error(whole) == pytest.approx(100 * np.std(right[::10], ddof=1) / 10, rel=1e-9)
    assert error(whole) / error(em_sample(right)) == pytest.approx(np.sqrt(10), rel=0.02)


def test_the_error_within_strata_is_the_textbook_s():
    """Cochran 1977, 5.6: the variance of a stratified mean is the sum of W^2 s^2 / n over strata."""
    generator = np.random.default_rng(3)
    shares = np.repeat([0.1, 0.3, 0.5, 0.7, 0.9, 0.95], 40)
    right = generator.random(240) < shares
    sample = em_sample(right, [(f"relation {i // 40}", str(i)) for i in range(240)])
    expected = sum((1 / 6) ** 2 * np.var(part, ddof=1) / 40 for part in np.split(100.0 * right, 6))
    assert error(sample) == pytest.approx(np.sqrt(expected), rel=1e-9)
    assert error(sample) < error(em_sample(right))


def test_the_error_of_a_ratio_is_the_jackknife_s():
    generator = np.random.default_rng(4)
    sample, _ = draw_score("corpus F1", generator, 30, "skewed")
    totals = sample.rows.sum(axis=0)
    without = np.array([float(sample.headline(totals - row)) for row in sample.rows])
    assert error(sample) == pytest.approx(
        np.sqrt(29 / 30 * np.sum((without - without.mean()) ** 2)), rel=0.02
    )


def spearman_sample(predicted: np.ndarray, gold: np.ndarray) -> Sample:
    metric = METRICS["spearman"]
    rows = metric.statistics([str(x) for x in predicted], [Item([str(y)]) for y in gold])
    return Sample.of_levels(metric, np.array(rows), number_units([()] * len(rows)), "sick")


@pytest.mark.parametrize("noise", [0.3, 1.5])
def test_spearman_is_ranked_anew_in_every_sample(noise: float):
    """The reference is the jackknife that ranks the remaining examples again each time."""
    generator = np.random.default_rng(5)
    gold = generator.integers(1, 6, 80).astype(float)
    predicted = np.round(np.exp(gold + generator.normal(0, noise, 80)), 1)
    sample = spearman_sample(predicted, gold)
    assert sample.score == pytest.approx(100 * stats.spearmanr(predicted, gold).statistic)
    without = [
        100 * stats.spearmanr(np.delete(predicted, index), np.delete(gold, index)).statistic
        for index in range(80)
    ]
    slow = np.sqrt(79 / 80 * np.sum((np.array(without) - np.mean(without)) ** 2))
    assert error(sample) == pytest.approx(slow, rel=0.05)


def test_fixed_ranks_underestimate_the_standard_error():
    """With some data, fixed ranks make the standard error a fifth too small."""
    generator = np.random.default_rng(6)
    gold = generator.normal(size=400)
    predicted = np.abs(gold) + 0.3 * gold
    sample = spearman_sample(predicted, gold)
    fixed = Sample(sample.metric, sample.rows, sample.sizes, sample.strata)
    drawn = (generator.integers(0, 400, 400) for _ in range(600))
    slow = np.std([100 * stats.spearmanr(predicted[one], gold[one]).statistic for one in drawn])
    assert error(sample) == pytest.approx(slow, rel=0.12)
    assert error(fixed) < 0.85 * slow


# Intervals


@pytest.mark.parametrize("freedom", [1, 1.5, 3.7, 9, 47, 399, 20_000])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_quantiles_of_student_s_t(freedom: float, confidence: float):
    expected = stats.t.ppf((1 + confidence) / 2, freedom)
    assert student_t(freedom, confidence) == pytest.approx(expected, rel=1e-5)


def test_the_interval_of_a_proportion_is_near_wilson_s():
    right = np.arange(400) < 320
    found = em_sample(right).interval
    theirs = stats.binomtest(320, 400).proportion_ci(method="wilson")
    assert found.low == pytest.approx(100 * theirs.low, abs=0.15)
    assert found.high == pytest.approx(100 * theirs.high, abs=0.15)


def test_the_interval_of_a_correlation_is_fisher_s():
    generator = np.random.default_rng(7)
    x, y = generator.multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], 500).T
    rows = np.stack([np.ones(500), x, y, x * x, y * y, x * y, np.zeros(500)], axis=1)
    sample = Sample.of_levels(METRICS["pearson"], rows, np.arange(500)[:, None])
    found, theirs = sample.interval, stats.pearsonr(x, y).confidence_interval()
    assert found.low == pytest.approx(100 * theirs.low, abs=0.8)
    assert found.high == pytest.approx(100 * theirs.high, abs=0.8)


@pytest.mark.parametrize("count", [2, 10, 400])
def test_a_perfect_score_has_an_interval(count: int):
    found = em_sample(np.ones(count)).interval
    theirs = stats.binomtest(count, count).proportion_ci(method="exact")
    assert (found.low, found.high) == pytest.approx((100 * theirs.low, 100.0))
    none = em_sample(np.zeros(count)).interval
    assert (none.low, none.high) == pytest.approx((0.0, 100 - 100 * theirs.low))


def test_identical_units_have_an_interval():
    found = em_sample(np.arange(40) % 2 == 0, [(str(i // 2),) for i in range(40)]).interval
    assert found.low < 35 and found.high > 65


def test_a_single_unit_has_no_interval():
    assert em_sample(np.array([1, 0]), [("a",), ("a",)]).interval is None


def test_errors_have_intervals_above_zero():
    generator = np.random.default_rng(8)
    squares = generator.exponential(size=12)
    rows = np.stack([np.ones(12), squares, np.zeros(12)], axis=1)
    found = Sample.of_levels(METRICS["mse"], rows, np.arange(12)[:, None]).interval
    assert 0 < found.low < squares.mean() < found.high
    perfect = Sample.of_levels(METRICS["mse"], rows * [1, 0, 0], np.arange(12)[:, None])
    assert perfect.interval is None  # nothing says how large its errors can be


def test_the_total_s_spread_is_the_sum_of_the_tasks():
    generator = np.random.default_rng(9)
    samples = [em_sample(generator.random(400) < 0.5, name=name) for name in ("a", "b", "c")]
    found, mean = total_interval(samples), total_interval(samples, "mean")
    half = 1.962 * np.sqrt(sum(sample.spread.variance for sample in samples))
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.01)
    assert (mean.low, mean.high) == pytest.approx((found.low / 3, found.high / 3))


def test_the_total_s_degrees_of_freedom_are_satterthwaite_s():
    """Two tasks with equal variances and 9 degrees of freedom each have 18. A dominant task keeps its own."""
    generator = np.random.default_rng(10)
    few = em_sample(np.arange(10) % 2 == 0)
    many = em_sample(generator.random(100_000) < 0.5)
    assert total_interval([few, few]).high - 100 == pytest.approx(100 * 2 * 0.2066, rel=0.15)
    alone, both = few.interval, total_interval([few, many])
    assert both.high - both.low == pytest.approx(alone.high - alone.low, rel=0.35)


def test_tasks_that_are_all_right_add_their_own_intervals():
    """Half-widths add up like standard errors, so ten tasks are no more certain than the least certain one."""
    right = [em_sample(np.ones(count), name=str(count)) for count in (10, 20, 4_000)]
    halves = [100 - one.interval.low for one in right]
    found = total_interval(right)
    assert (found.low, found.high) == pytest.approx((300 - math.hypot(*halves), 300))
    mixed = em_sample(np.arange(4_000) % 5 > 0)
    both = total_interval([right[0], mixed])
    assert both.low == pytest.approx(180 - math.hypot(halves[0], 80 - total_interval([mixed]).low), abs=0.1)
    assert both.high - 180 < 1.5  # above, all right leaves nothing open


@pytest.mark.parametrize("combination", ["sum", "mean"])
def test_the_interval_of_a_total_ends_where_its_scale_does(combination):
    """Otherwise, two tasks with 39 of 40 right and one with all right would reach 300.53 of 300."""
    top = [em_sample(np.arange(40) > 0, name=name) for name in "ab"] + [em_sample(np.ones(12), name="c")]
    bottom = [em_sample(np.arange(40) < 1, name=name) for name in "ab"] + [em_sample(np.zeros(12), name="c")]
    highest = 300 if combination == "sum" else 100
    assert total_interval(top, combination).high == highest
    assert total_interval(bottom, combination).low == 0


@pytest.mark.parametrize(
    "tasks",
    [
        [(20, 0.98)] * 9 + [(4_000, 0.8)],
        pytest.param([(41, 0.99)] * 5 + [(4_000, 0.8)] * 5, marks=pytest.mark.simulation),
        pytest.param([(20, 0.97)] + [(4_000, 0.8)] * 9, marks=pytest.mark.simulation),
        [(12, 0.7)] * 10,
        [(20, 0.95)] * 10,
        [(12, 0.5)] + [(1_000, 0.8)] * 9,
    ],
    ids=str,
)
def test_totals_of_nearly_perfect_and_of_small_tasks_cover_the_truth(tasks, record_property):
    generator = np.random.default_rng(22)
    hits = 0
    for _ in range(150):
        right = [generator.random(count) < share for count, share in tasks]
        found = total_interval([em_sample(one, name=str(index)) for index, one in enumerate(right)])
        hits += found.low <= sum(100 * share for _, share in tasks) <= found.high
    record_property("figure", f"{tasks} {hits / 1.5:.1f}")
    assert hits / 150 >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 150)


def test_the_total_of_one_task_is_that_task() -> None:
    sample = em_sample(np.arange(30) % 10 > 0)
    found, own = total_interval([sample]), sample.interval
    assert (found.low, found.high) == pytest.approx((own.low, own.high))


@pytest.mark.parametrize(("clusters", "least"), [(5, 0.91), (8, 0.86), (20, 0.89)])
def test_totals_with_one_task_of_few_clusters(clusters, least, record_property):
    """One task with clusters of 20 texts at 90 and a correlation of 0.5, and nine tasks with 4,000 texts at 80.

    The task alone is covered 90 to 99% of the time, and so is the total. With a symmetric interval, the total
    was covered 80 to 89% of the time.
    """
    generator = np.random.default_rng(23)
    large = [em_sample(generator.random(4_000) < 0.8, name=str(index)) for index in range(36)]
    hits = 0
    for _ in range(200):
        shares = generator.beta(0.9, 0.1, clusters)  # a correlation of 1 / (1 + 0.9 + 0.1) within clusters
        right = (generator.random((clusters, 20)) < shares[:, None]).ravel()
        few = em_sample(right, [(str(number // 20),) for number in range(len(right))])
        found = total_interval([*(large[at] for at in generator.choice(36, 9, replace=False)), few])
        hits += found.low <= 810 <= found.high
    record_property("figure", f"{clusters} clusters {hits / 2:.1f}")
    assert hits / 200 >= least - 3 * math.sqrt(least * (1 - least) / 200)


@pytest.mark.parametrize("wild", [None, 1e6, 1e9, 1e15, 1e60])
def test_one_wild_answer_leaves_pearson_s_jackknife_exact(wild):
    generator = np.random.default_rng(0)
    gold = generator.normal(3, 1, 60)
    predicted = gold + generator.normal(0, 0.7, 60)
    if wild:
        predicted[7] = wild
    rows = METRICS["pearson"].statistics(
        [repr(value) for value in predicted.tolist()], [Item([repr(value)]) for value in gold.tolist()]
    )
    found = Sample.of_levels(METRICS["pearson"], np.array(rows), number_units([()] * 60), "sick")
    without = [stats.pearsonr(np.delete(predicted, one), np.delete(gold, one))[0] for one in range(60)]
    assert error(found) == pytest.approx(100 * math.sqrt(59) * np.std(without), rel=1e-6)


KINDS = ["mean", "rare mean", "corpus F1", "BLEU", "correlation", "macro F1", "Matthews", "chrF", "LAS"]
"""Populations of `draw_score` whose intervals are reliable with ten units."""


def covered(kind: str, units: int, sizes: str, trials: int) -> float:
    generator = np.random.default_rng(units)
    hits = 0
    for _ in range(trials):
        sample, true = draw_score(kind, generator, units, sizes)
        found = sample.interval
        hits += found.low <= true <= found.high
    return hits / trials


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("units", [10, 48])
def test_intervals_cover_the_truth(kind: str, units: int):
    # 0.93 to 0.98, and 3 standard errors of a share of 200
    assert 0.88 <= covered(kind, units, "unequal", 200) <= 1.0


@pytest.mark.simulation
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("units", [10, 20, 48, 100, 400])
def test_intervals_cover_the_truth_of_every_population(
    kind: str, sizes: str, units: int, record_property
) -> None:
    share = covered(kind, units, sizes, 1_000)
    record_property("table", "coverage")
    record_property("figure", f"{kind} | {sizes} | {units} | {100 * share:.1f}")
    assert 0.92 <= share <= 0.99


@pytest.mark.simulation
@pytest.mark.parametrize("kind", ["squared errors", "correlation with wild answers"])
@pytest.mark.parametrize("units", [10, 20, 48, 100, 400])
def test_intervals_with_wild_answers_hold_for_many_units_only(kind: str, units: int, record_property) -> None:
    share = covered(kind, units, "equal", 400)
    record_property("table", "wild answers")
    record_property("figure", f"{kind} | {units} | {100 * share:.1f}")
    assert 0.45 <= share <= 0.99
    assert units < 100 or share >= 0.9


@pytest.mark.parametrize(("worst", "has_interval"), [(1e5, True), (1e30, True), (1e60, True), (1e99, False)])
def test_a_wild_answer_has_an_interval_as_far_as_floats_go(worst: float, has_interval: bool) -> None:
    """Before, an answer of 1e99 made the variance infinite and the interval NaN, which JSON can't represent."""
    squares = np.linspace(0, 1, 50)
    squares[3] = worst**2
    rows = np.stack([np.ones(50), squares, np.zeros(50)], axis=1)
    sample = Sample.of_levels(METRICS["mse"], rows, np.arange(50)[:, None])
    found = sample.interval
    assert (found is not None) == has_interval
    total = total_interval([sample, sample])
    for each in (found, total):
        assert each is None or (math.isfinite(each.low) and math.isfinite(each.high))
    if found is not None:
        assert found.low < sample.score < found.high and sample.spread.freedom == 49


@pytest.mark.parametrize(
    ("ends", "written"),
    [
        ((12.34567, 15.43219), (12.3457, 15.4322)),
        ((0.0123456, 0.0323456), (0.0123, 0.0323)),
        ((0.000123456, 0.000323456), (0.000123, 0.000323)),
        ((0.12345678, 0.12345978), (0.12345678, 0.12345978)),
        ((0.5, 0.5), (0.5, 0.5)),
        ((0.08999999999999965, 0.0900000000000002), (0.09, 0.09)),  # of sums that were added in another order
    ],
)
def test_ends_are_rounded_to_the_width_of_the_interval(ends, written):
    """Before, intervals of small errors were shown as 0.0001 to 0.0003, or 0 to 0."""
    assert Interval(*ends).ends == written
