"""Intervals and tests against independent implementations (scipy, sacrebleu) and on simulated data."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import stats

from decabench.errors import DecabenchError
from decabench.metrics import METRICS
from decabench.metrics.base import Item
from decabench.scoring.significance import (
    Sample,
    bootstrap,
    combine,
    combine_differences,
    examples_for_one_point,
    holm,
    interval,
    p_value,
    paired_test,
)

EM = METRICS["em"]
COLUMN = EM.columns.index("em")


def em_sample(right: np.ndarray, groups: list[str] | None = None, name: str = "task") -> Sample:
    """A sample of the em metric with a 1 for each right answer."""
    rows = [
        tuple(1.0 if (column in ("n", "em") and value) or column == "n" else 0.0 for column in EM.columns)
        for value in right
    ]
    return Sample.of(EM, rows, [(group,) for group in groups or map(str, range(len(rows)))], name)


def test_the_score_of_a_sample_is_the_metric_s():
    assert em_sample(np.array([1, 0, 1, 1])).score == 75.0


def test_intervals_agree_with_scipy_s_percentile_bootstrap():
    right = np.random.default_rng(1).random(800) < 0.7
    ours = interval(bootstrap(em_sample(right), resamples=4_000, seed=3))
    theirs = stats.bootstrap(
        (100.0 * right,), np.mean, n_resamples=4_000, method="percentile", rng=np.random.default_rng(5)
    ).confidence_interval
    assert ours.low == pytest.approx(theirs.low, abs=0.25)
    assert ours.high == pytest.approx(theirs.high, abs=0.25)


def test_95_percent_intervals_cover_the_truth_95_percent_of_the_time():
    generator = np.random.default_rng(7)
    truth, trials, covered = 40.0, 400, 0
    for trial in range(trials):
        found = interval(bootstrap(em_sample(generator.random(300) < truth / 100), resamples=400, seed=trial))
        covered += found.low <= truth <= found.high
    # 95 % of 400 is 380; a fair interval stays within 4 standard errors (4 x 4.4) of it.
    assert 362 <= covered <= 398


def test_groups_are_kept_whole_so_that_their_likeness_widens_the_interval():
    generator = np.random.default_rng(2)
    right = np.repeat(generator.random(100) < 0.5, 10)  # ten answers of a dialogue stand or fall together
    groups = [f"dialogue {index // 10}" for index in range(1000)]
    alone, together = (interval(bootstrap(em_sample(right, given))) for given in (None, groups))
    ratio = (together.high - together.low) / (alone.high - alone.low)
    assert ratio == pytest.approx(np.sqrt(10), rel=0.15)


def test_interleaved_groups_are_one_group_each():
    sample = em_sample(np.array([1, 0, 1, 0]), ["a", "b", "a", "b"])
    assert sample.rows.shape[0] == 2 and sample.examples == 4
    assert sample.rows[:, COLUMN].tolist() == [2.0, 0.0]


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_workers_change_no_digit(jobs: int):
    right = np.random.default_rng(0).random(257) < 0.3
    first, second = em_sample(right), em_sample(~right)
    assert np.array_equal(bootstrap(first, 330, seed=4, jobs=jobs), bootstrap(first, 330, seed=4))
    one, many = paired_test(first, second, 330, 330), paired_test(first, second, 330, 330, jobs=jobs)
    assert (one.p, one.interval) == (many.p, many.interval)


def test_seeds_and_names_draw_anew():
    right = np.random.default_rng(0).random(200) < 0.3
    drawn = [
        bootstrap(em_sample(right, name=name), seed=seed) for name, seed in (("a", 0), ("a", 1), ("b", 0))
    ]
    assert not np.array_equal(drawn[0], drawn[1]) and not np.array_equal(drawn[0], drawn[2])


def bleu_sample(predictions: list[str], references: list[str]) -> Sample:
    metric = METRICS["bleu"]
    rows = metric.statistics(predictions, [Item([reference]) for reference in references])
    return Sample.of(metric, rows, [(str(index),) for index in range(len(rows))], "iwslt.en.de")


def translations(number: int, wrong: float, seed: int) -> tuple[list[str], list[str]]:
    """References of random words, and the same with a share of the words replaced."""
    generator = np.random.default_rng(99)
    words = [f"wort{index}" for index in range(200)]
    references = [" ".join(generator.choice(words, 12)) for _ in range(number)]
    noise = np.random.default_rng(seed)
    predictions = [
        " ".join(noise.choice(words) if noise.random() < wrong else word for word in text.split())
        for text in references
    ]
    return predictions, references


@pytest.mark.parametrize(("wrong", "low", "high"), [(0.105, 0.1, 1.0), (0.13, 0.0, 0.5), (0.3, 0.0, 0.001)])
def test_p_values_of_bleu_agree_with_sacrebleu_s_paired_randomization(
    wrong: float, low: float, high: float, monkeypatch: pytest.MonkeyPatch
):
    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest

    first, references = translations(200, 0.1, seed=1)
    second, _ = translations(200, wrong, seed=2)
    monkeypatch.setenv("SACREBLEU_SEED", "12345")
    test = PairedTest(
        [("first", first), ("second", second)],
        {"BLEU": BLEU(lowercase=True, references=[references])},
        references=None,
        test_type="ar",
        n_samples=10_000,
    )
    _, scores = test()
    theirs = scores["BLEU"][1].p_value
    ours = paired_test(bleu_sample(first, references), bleu_sample(second, references))
    assert ours.difference == pytest.approx(scores["BLEU"][1].score - scores["BLEU"][0].score, abs=1e-6)
    assert low <= theirs <= high
    # Both are estimates from 10,000 shuffles: 4 standard errors of the difference of two.
    assert ours.p == pytest.approx(theirs, abs=4 * np.sqrt(2 * theirs * (1 - theirs) / 10_000) + 2e-4)


def test_p_values_of_averages_agree_with_scipy_s_permutation_test():
    generator = np.random.default_rng(11)
    a = generator.random(150) < 0.60
    b = np.where(generator.random(150) < 0.3, generator.random(150) < 0.8, a)
    theirs = stats.permutation_test(
        (100.0 * b, 100.0 * a),
        lambda x, y, axis: np.mean(x, axis=axis) - np.mean(y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=20_000,
        rng=np.random.default_rng(1),
    ).pvalue
    ours = paired_test(em_sample(a), em_sample(b)).p
    assert 0.0 < theirs < 0.5
    assert ours == pytest.approx(
        theirs, abs=4 * np.sqrt(theirs * (1 - theirs) * (1 / 10_000 + 1 / 20_000)) + 1e-3
    )


def test_a_system_against_itself_is_never_different():
    sample = em_sample(np.random.default_rng(0).random(100) < 0.5)
    found = paired_test(sample, sample)
    assert (found.difference, found.p, found.interval.low, found.interval.high) == (0.0, 1.0, 0.0, 0.0)


def test_false_alarms_are_as_rare_as_stated():
    generator = np.random.default_rng(21)
    alarms = 0
    for trial in range(300):
        pair = (em_sample(generator.random(80) < 0.5), em_sample(generator.random(80) < 0.5))
        alarms += paired_test(*pair, resamples=50, shuffles=400, seed=trial).p < 0.05
    assert alarms <= 27  # 15 expected; 3 standard errors above


def test_p_is_never_zero_and_ties_count():
    assert p_value(np.zeros(99), 5.0) == pytest.approx(1 / 100)
    assert p_value(np.array([5.0 + 1e-12, -5.0, 1.0]), 5.0) == pytest.approx(3 / 4)


def test_the_sum_over_tasks_is_stratified():
    generator = np.random.default_rng(5)
    samples = [em_sample(generator.random(400) < 0.5, name=name) for name in ("a", "b", "c")]
    parts = [bootstrap(sample) for sample in samples]
    spread = float(np.std(combine(parts)))
    assert spread == pytest.approx(np.sqrt(sum(np.var(part) for part in parts)), rel=0.1)
    found = combine_differences([paired_test(sample, sample) for sample in samples])
    assert found.p == 1.0 and found.examples == 1200


def test_a_mean_over_tasks_is_the_sum_in_other_units():
    generator = np.random.default_rng(6)
    pairs = [
        [em_sample(generator.random(200) < share, name=name) for share in (0.5, 0.55)] for name in "abcd"
    ]
    tests = [paired_test(*pair) for pair in pairs]
    total, mean = combine_differences(tests), combine_differences(tests, "mean")
    assert mean.p == total.p
    assert mean.difference == pytest.approx(total.difference / 4)
    assert mean.interval.low == pytest.approx(total.interval.low / 4)
    assert combine([np.array([1.0, 3.0]), np.array([3.0, 3.0])], "mean").tolist() == [2.0, 3.0]


def test_holm_by_hand():
    # Holm 1979: the smallest times 4, the next times 3, ...; never below the one before.
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}


def test_examples_for_one_point_is_the_textbook_number():
    # Independent answers, half right: s.e. of the difference is 100 sqrt(0.5 / n) points.
    generator = np.random.default_rng(3)
    pair = [em_sample(generator.random(1_000) < 0.5) for _ in range(2)]
    expected = (1.959964 + 0.841621) ** 2 * 10_000 * 0.5
    assert examples_for_one_point(paired_test(*pair)) == pytest.approx(expected, rel=0.2)


def test_unlike_samples_are_refused():
    with pytest.raises(DecabenchError, match="the same examples"):
        paired_test(em_sample(np.ones(3)), em_sample(np.ones(4)))
    with pytest.raises(DecabenchError, match="give units for each row"):
        Sample.of(EM, [], [], "squad")


@pytest.mark.slow
def test_all_ten_tasks_at_published_test_sizes_take_seconds():
    sizes = {"nf1": (9_616, 2_201), "bleu": (1_305,), "rouge": (11_490,), "em": (20_000, 1_821, 100)}
    sizes |= {"corpus_f1": (12_000,), "joint_goal_em": (1_646,), "lfem": (15_878,)}
    generator = np.random.default_rng(0)
    samples = [
        Sample(
            METRICS[name], generator.random((number, len(METRICS[name].columns))), number, f"{name}.{number}"
        )
        for name, numbers in sizes.items()
        for number in numbers
    ]
    begun = time.process_time()
    interval(combine([bootstrap(sample, jobs=2) for sample in samples]))
    assert time.process_time() - begun < 6  # seconds of two threads
