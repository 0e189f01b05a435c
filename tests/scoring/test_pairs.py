"""Tests of pairs, compared with scipy and sacrebleu, and simulated boards of equally good systems."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from decabench.metrics import METRICS
from decabench.metrics.base import Item
from decabench.scoring import pairs
from decabench.scoring.pairs import PairTests, compare_pairs, examples_for_one_point, flip_signs, holm
from decabench.scoring.significance import Sample
from decabench.tasks import number_units
from tests.scoring.populations import draw_board, draw_unlike_board, mean_rows, sample
from tests.scoring.test_significance import em_sample


def paired(a: Sample, b: Sample, seed: int = 0) -> PairTests:
    return compare_pairs([flip_signs([a, b], seed)])


def bleu_sample(predictions: list[str], references: list[str]) -> Sample:
    metric = METRICS["bleu"]
    rows = metric.statistics(predictions, [Item([reference]) for reference in references])
    return Sample.of_levels(
        metric, np.array(rows, dtype=float), number_units([()] * len(rows)), "iwslt.en.de"
    )


def translations(number: int, wrong: float, seed: int) -> tuple[list[str], list[str]]:
    """Return references of random words, and answers with a share of the words replaced."""
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
    ours = paired(bleu_sample(first, references), bleu_sample(second, references))
    assert ours.differences[0, 1] == pytest.approx(
        scores["BLEU"][1].score - scores["BLEU"][0].score, abs=1e-6
    )
    assert low <= theirs <= high
    # Both are estimates, from 10,000 and 2,000 resamples: 4 standard errors of the difference of two.
    assert ours.p[0, 1] == pytest.approx(theirs, abs=4 * np.sqrt(6 * theirs * (1 - theirs) / 10_000) + 6e-4)


def test_p_values_of_averages_agree_with_scipy_s_permutation_test():
    generator = np.random.default_rng(11)
    a = generator.random(150) < 0.60
    b = np.where(generator.random(150) < 0.2, generator.random(150) < 0.75, a)
    theirs = stats.permutation_test(
        (100.0 * b, 100.0 * a),
        lambda x, y, axis: np.mean(x, axis=axis) - np.mean(y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=20_000,
        rng=np.random.default_rng(1),
    ).pvalue
    assert 0.0 < theirs < 0.5
    ours = paired(em_sample(a), em_sample(b)).p[0, 1]
    assert ours == pytest.approx(
        theirs, abs=4 * np.sqrt(theirs * (1 - theirs) * (1 / 2_000 + 1 / 20_000)) + 1e-3
    )


@pytest.mark.parametrize("wins", [1, 3, 5, 8])
def test_rare_differences_have_the_sign_test_s_p(wins: int):
    """With few differing units, the normal approximation fails. With 5 wins and no losses, p is 2 / 2^5."""
    right = np.ones(60)
    wrong = right.copy()
    wrong[:wins] = 0
    found = paired(em_sample(wrong), em_sample(right))
    exact = 2 / 2**wins
    assert found.p[0, 1] == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 2_000) + 1e-3)
    assert (found.interval(0, 1).low > 0) == (found.p[0, 1] < 0.05)


def test_a_system_against_itself_is_never_different():
    one = em_sample(np.random.default_rng(0).random(100) < 0.5)
    found = paired(one, one)
    assert (found.differences[0, 1], found.p[0, 1], found.adjusted[0, 1]) == (0.0, 1.0, 1.0)
    assert found.interval(0, 1) is None and found.is_same(0, 1)
    assert examples_for_one_point(found, 0, 1) is None


def test_intervals_and_p_agree_by_construction():
    generator = np.random.default_rng(3)
    shares = np.linspace(0.5, 0.75, 14)
    systems = [em_sample(generator.random(60) < share) for share in shares]
    found = compare_pairs([flip_signs(systems)])
    agreed = [
        (found.interval(a, b).low > 0 or found.interval(a, b).high < 0) == (found.p[a, b] < 0.05)
        for a in range(14)
        for b in range(a)
    ]
    assert all(agreed) and 0.1 < np.mean(found.p[np.triu_indices(14, 1)] < 0.05) < 0.9


def test_a_pair_and_its_mirror_say_the_same():
    generator = np.random.default_rng(4)
    a, b = (em_sample(generator.random(50) < share) for share in (0.4, 0.6))
    found = paired(a, b)
    assert found.differences[1, 0] == -found.differences[0, 1]
    assert found.interval(1, 0).low == -found.interval(0, 1).high
    assert (found.p[0, 1], found.adjusted[0, 1]) == (found.p[1, 0], found.adjusted[1, 0])


def test_other_systems_change_no_pair_s_own_p_and_raise_the_adjusted_one():
    generator = np.random.default_rng(5)
    systems = [em_sample(generator.random(80) < share) for share in (0.5, 0.68, 0.55, 0.6, 0.52)]
    two, five = compare_pairs([flip_signs(systems[:2])]), compare_pairs([flip_signs(systems)])
    assert two.p[0, 1] == two.adjusted[0, 1] == five.p[0, 1]
    assert five.adjusted[0, 1] > two.adjusted[0, 1]
    outside = compare_pairs([flip_signs(systems)], family=[0, 1])
    assert outside.adjusted[0, 1] == two.p[0, 1]  # pairs outside the family do not count
    assert outside.adjusted[3, 4] >= outside.p[3, 4]


def unlike_sizes(units: int, strata: int, systems: int, seed: int) -> list[Sample]:
    """Return systems on units of different sizes. Systems in the second half are almost equal to those in the first."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, 40, units)
    rights = [generator.binomial(sizes, share) for share in np.linspace(0.4, 0.6, systems // 2)]
    rights += [right.copy() for right in rights]
    for right in rights[systems // 2 :]:
        right[0] = sizes[0] - right[0]
    levels = np.repeat(np.stack([np.arange(units) % strata, np.arange(units)], axis=1), sizes, axis=0)
    answers = [np.repeat(right, sizes) > np.concatenate([np.arange(n) for n in sizes]) for right in rights]
    return [
        Sample.of_levels(
            METRICS["em"], np.asarray(mean_rows(one * 1.0, np.ones(len(one)))), levels, f"{units}"
        )
        for one in answers
    ]


def pair_by_itself(
    samples: list[tuple[Sample, Sample]], seed: int, resamples: int
) -> tuple[float, float, float]:
    """Return a difference's variance, its p and the typical unit size, by the formulas in docs/statistics.md."""
    parts, variances = [], []
    for a, b in samples:
        strata = int(a.strata.max()) + 1
        signs = np.concatenate(list(pairs._signs(seed, a.name, resamples, len(a.sizes)))).astype(float)
        for number in range(strata):
            inside = a.strata == number
            count, s = inside.sum(), a.shares[inside]
            x = (b.effects - a.effects)[inside]
            parts.append((signs[:, inside], x, s, (count - 1) / count))
            variances.append(((count - 1) / count * (x / (1 - s)) ** 2).sum())
    difference = sum(b.score - a.score for a, b in samples)
    moved = spread = np.zeros(resamples)
    for (signs, x, s, c), own in zip(parts, variances, strict=True):
        u = x + s * difference * own / sum(variances)
        step = signs @ u
        moved = moved + step
        spread = spread + c * (((signs * u - s * step[:, None]) / (1 - s)) ** 2).sum(axis=1)
    observed = abs(difference) / math.sqrt(sum(variances))
    p = (np.sum(np.abs(moved) / np.sqrt(spread) >= observed * (1 - 1e-4)) + 1) / (resamples + 1)
    units = np.concatenate(
        [
            (b.effects - a.effects) + a.shares * (b.score - a.score) / (int(a.strata.max()) + 1)
            for a, b in samples
        ]
    )
    return sum(variances), p, math.sqrt((units**4).sum() / (units**2).sum())


@pytest.mark.parametrize("tasks", [[(30, 1)], [(60, 3)], [(30, 1), (60, 3), (12, 1)]])
def test_all_pairs_at_once_are_what_each_is_by_itself(tasks: list[tuple[int, int]]):
    systems = [unlike_sizes(units, strata, 8, seed) for seed, (units, strata) in enumerate(tasks)]
    found = compare_pairs([flip_signs(one, 3, 499) for one in systems])
    for a in range(8):
        for b in range(a):
            variance, p, size = pair_by_itself([(one[a], one[b]) for one in systems], 3, 499)
            assert found.errors[a, b] == pytest.approx(math.sqrt(variance), rel=1e-6)
            assert found.p[a, b] == pytest.approx(p)
            assert found.sizes[a, b] == pytest.approx(size, rel=1e-9)


def test_systems_on_other_units_or_without_statistics_are_not_tested():
    a, b, other = em_sample(np.ones(30)), em_sample(np.zeros(30)), em_sample(np.ones(40))
    found = compare_pairs([flip_signs([a, None, b, other])])
    assert [found.is_tested(0, index) for index in range(4)] == [True, False, True, False]
    assert found.interval(0, 1) is None and found.interval(0, 3) is None
    assert np.isnan(found.adjusted[0, 3]) and not found.differ(0, 3)


def test_a_single_unit_is_not_tested():
    a, b = (em_sample(np.array(right), [("a",)] * 2) for right in ([1, 0], [1, 1]))
    assert not paired(a, b).is_tested(0, 1)


def test_a_difference_that_never_varies_is_as_sure_as_its_units_are_many():
    """If all four units have the same difference, p is 2 / 2^4, and the interval has no bounds."""
    a, b = (em_sample(np.full(4, right)) for right in (0, 1))
    found = paired(a, b)
    assert found.p[0, 1] == pytest.approx(2 / 16, abs=0.02)
    assert found.interval(0, 1).low < 0


@pytest.mark.parametrize("count", [10, 400])
def test_the_interval_of_a_constant_difference_has_a_width(count: int):
    """A difference between all right and all wrong is as uncertain as a score of all right."""
    found = paired(em_sample(np.ones(count)), em_sample(np.zeros(count))).interval(0, 1)
    exact = -100 * stats.binomtest(count, count).proportion_ci(method="exact").low
    assert found.low == -100.0 and found.high == pytest.approx(exact, abs=10 * 30 / count)
    assert -100 < found.high < 0


@pytest.mark.parametrize("expected", [1, 2, 4])
@pytest.mark.parametrize("units", [12, 48, 400])
@pytest.mark.parametrize("against", [0.5, 0.3, 0.1])
def test_intervals_of_near_twins_cover_the_truth(units: int, expected: int, against: float, record_property):
    """The parameter is the expected number of differing examples. Pairs without a difference have no interval."""
    generator = np.random.default_rng(units + expected)
    share = expected / units
    true, hits, count = 100 * share * (1 - 2 * against), 0, 0
    for trial in range(100):
        differ, lost = generator.random(units) < share, generator.random(units) < against
        a, b = differ & lost, differ & ~lost
        found = compare_pairs([flip_signs([em_sample(a * 1.0), em_sample(b * 1.0)], trial, 199)]).interval(
            0, 1
        )
        if found is not None:
            count += 1
            hits += found.low <= true <= found.high
    record_property("figure", f"{units} | {expected} | {against} | {100 * hits / count:.1f} of {count}")
    assert hits / count >= 0.92 - 0.05


# Totals over tasks


def test_a_sum_over_tasks_adds_differences_and_variances():
    generator = np.random.default_rng(5)
    pairs = [[em_sample(generator.random(300) < share, name=name) for share in (0.5, 0.55)] for name in "abc"]
    flipped = [flip_signs(pair) for pair in pairs]
    tests, total = [compare_pairs([one]) for one in flipped], compare_pairs(flipped)
    assert total.differences[0, 1] == pytest.approx(sum(test.differences[0, 1] for test in tests))
    assert total.errors[0, 1] == pytest.approx(math.sqrt(sum(test.errors[0, 1] ** 2 for test in tests)))
    normal = 2 * stats.norm.sf(total.differences[0, 1] / total.errors[0, 1])
    assert total.p[0, 1] == pytest.approx(normal, abs=0.03)
    assert total.examples == 900


def test_a_mean_over_tasks_is_the_sum_in_other_units():
    generator = np.random.default_rng(6)
    flipped = [
        flip_signs([em_sample(generator.random(200) < share, name=name) for share in (0.5, 0.55)])
        for name in "abcd"
    ]
    total, mean = compare_pairs(flipped), compare_pairs(flipped, "mean")
    assert mean.p[0, 1] == total.p[0, 1]
    assert mean.differences[0, 1] == pytest.approx(total.differences[0, 1] / 4)
    assert mean.interval(0, 1).low == pytest.approx(total.interval(0, 1).low / 4)


def test_a_sum_is_tested_and_not_the_exchangeability_of_every_task():
    """One system is much better on a small task and worse on a large one. Shuffling tasks jointly gave p = 0.166."""
    generator = np.random.default_rng(8)
    small = [em_sample(generator.random(30) < share, name="small") for share in (0.1, 0.9)]
    large = [em_sample(generator.random(2_000) < share, name="large") for share in (0.9, 0.3)]
    total = compare_pairs([flip_signs(small), flip_signs(large)])
    difference, error = total.differences[0, 1], total.errors[0, 1]
    assert (total.p[0, 1] < 0.05) == (abs(difference) > 2.1 * error)


def test_strata_are_resampled_apart():
    generator = np.random.default_rng(9)
    units = [(f"relation {index // 50}", str(index)) for index in range(300)]
    a, b = (generator.random(300) < np.repeat(np.linspace(0.2, high, 6), 50) for high in (0.8, 0.9))
    found = paired(em_sample(a, units), em_sample(b, units))
    within = [np.var(part, ddof=1) / 50 for part in np.split(100.0 * (b * 1.0 - a), 6)]
    assert found.errors[0, 1] == pytest.approx(math.sqrt(sum(within)) / 6, rel=1e-6)
    normal = 2 * stats.norm.sf(abs(found.differences[0, 1]) / found.errors[0, 1])
    assert found.p[0, 1] == pytest.approx(normal, abs=0.03)


# Corrections and power


def test_holm_by_hand():
    # Holm 1979: the smallest times 4, the next times 3, ...; never below the one before.
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}


def test_examples_for_one_point_is_the_textbook_number():
    # Independent answers, half right: s.e. of the difference is 100 sqrt(0.5 / n) points.
    generator = np.random.default_rng(3)
    found = paired(*[em_sample(generator.random(1_000) < 0.5) for _ in range(2)])
    expected = (1.959964 + 0.841621) ** 2 * 10_000 * 0.5
    assert examples_for_one_point(found, 0, 1) == pytest.approx(expected, rel=0.2)


def test_one_point_takes_at_least_six_examples_that_differ():
    """One of 1,000 examples differs, or all do. Six differing examples are one point out of 600."""
    one = np.zeros(1_000)
    one[3] = 1
    for other in (one, np.ones(1_000)):
        assert examples_for_one_point(paired(em_sample(np.zeros(1_000)), em_sample(other)), 0, 1) == 600


def test_examples_that_come_in_few_units_are_more():
    generator = np.random.default_rng(4)
    right = [np.repeat(generator.random(100) < 0.5, 10) for _ in range(2)]
    whole = paired(*[em_sample(one, [(str(index // 10),) for index in range(1000)]) for one in right])
    alone = paired(*map(em_sample, right))
    ratio = (examples_for_one_point(whole, 0, 1) or 0) / (examples_for_one_point(alone, 0, 1) or 1)
    assert ratio == pytest.approx(10, rel=0.05)


# Simulated boards: (units, examples each) of each task

ONE = {units: ((units, max(4, 2_000 // units)),) for units in (10, 48, 400)}
FOUR = ((48, 220), (200, 4), (80, 1), (20, 50))


def broken(tasks: Sequence[tuple[int, int]], systems: int, trials: int, resamples: int) -> float:
    """Return the share of boards with equally good systems on which any two differ significantly."""
    generator = np.random.default_rng(systems)
    count = 0
    for trial in range(trials):
        flipped = [
            flip_signs(draw_board(generator, systems, *task, name=f"task {number}"), trial, resamples)
            for number, task in enumerate(tasks)
        ]
        count += bool(np.nanmin(compare_pairs(flipped).adjusted) < 0.05)
    return count / trials


@pytest.mark.parametrize(("tasks", "systems"), [(ONE[10], 20), (ONE[48], 10), (ONE[400], 2), (FOUR, 10)])
def test_equal_systems_share_a_rank(tasks: Sequence[tuple[int, int]], systems: int):
    assert broken(tasks, systems, trials=100, resamples=499) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 100)


def test_a_near_copy_of_a_system_does_not_tie_all_others():
    """A system that is submitted twice, with two answers changed, must not tie all others."""
    generator = np.random.default_rng(12)
    n = np.full(60, 20)
    right = [generator.binomial(n, share) for share in (0.5, 0.5, 0.8)]
    twin = right[0].copy()
    twin[:2] += np.where(twin[:2] < 20, 1, -1)
    board = [sample("em", mean_rows(one, n), n) for one in (*right, twin)]
    found = compare_pairs([flip_signs(board)])
    assert found.adjusted[0, 3] > 0.3 and found.adjusted[0, 2] < 0.001


@pytest.mark.simulation
@pytest.mark.parametrize("systems", [2, 10, 20, 40])
@pytest.mark.parametrize("tasks", [*ONE.values(), FOUR], ids=["10 units", "48 units", "400 units", "4 tasks"])
def test_boards_of_equal_systems(tasks: Sequence[tuple[int, int]], systems: int, record_property) -> None:
    share = broken(tasks, systems, trials=500, resamples=999)
    record_property("table", "equal systems")
    record_property("figure", f"{len(tasks)} tasks, {tasks[0][0]} units | {systems} | {100 * share:.1f}")
    assert share <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 500)


@pytest.mark.simulation
@pytest.mark.parametrize("systems", [2, 10, 40])
@pytest.mark.parametrize("units", [20, 48, 100])
def test_boards_of_unlike_systems(units: int, systems: int, record_property) -> None:
    """The test gives no guarantee for such systems (docs/statistics.md). The table shows its error."""
    generator = np.random.default_rng(units + systems)
    count = 0
    for trial in range(200):
        flipped = flip_signs(draw_unlike_board(generator, systems, units, 30), trial, 499)
        count += bool(np.nanmin(compare_pairs([flipped]).adjusted) < 0.05)
    record_property("table", "unlike systems")
    record_property("figure", f"{units} | {systems} | {count / 2:.1f}")
    assert count / 200 <= 0.6


@pytest.mark.simulation
@pytest.mark.parametrize("systems", [2, 10, 40])
@pytest.mark.parametrize("errors", [1, 2, 4])
def test_power(systems: int, errors: int, record_property) -> None:
    """Measure how often the best system beats one that is worse by a number of standard errors."""
    generator = np.random.default_rng(errors)
    found = []
    for trial in range(300):
        board = draw_board(generator, systems, 100, 20, ahead=0.0)
        error = compare_pairs([flip_signs(board[:2], trial, 1)]).errors[0, 1] / 100
        board = draw_board(generator, systems, 100, 20, ahead=errors * error)
        tests = compare_pairs([flip_signs(board, trial, 999)])
        found.append([tests.p[0, 1] < 0.05, tests.adjusted[0, 1] < 0.05])
    own, adjusted = 100 * np.mean(found, axis=0)
    record_property("table", "power")
    record_property("figure", f"{errors} | {systems} | {own:.0f} | {adjusted:.0f}")
    assert own >= {1: 10, 2: 40, 4: 90}[errors]


def systems_with_errors(worst: float) -> list[Sample]:
    """Return four systems with clearly different squared errors, and a fifth with one extreme answer."""
    generator = np.random.default_rng(4)
    found = []
    for number in range(5):
        squares = generator.exponential(size=300) * 2.0**number
        if number == 4:
            squares[7] = worst**2
        rows = np.stack([np.ones(300), squares, np.zeros(300)], axis=1)
        found.append(Sample.of_levels(METRICS["mse"], rows, np.arange(300)[:, None], "sick"))
    return found


@pytest.mark.parametrize("others", [1, 2])
@pytest.mark.parametrize("worst", [1e5, 1e9, 20260714093015.0, 1e20, 1e40, 1e99, 1e150])
def test_one_long_number_leaves_the_tests_of_all_other_pairs_as_they_are(worst: float, others: int) -> None:
    """Before, its squared effects overflowed single precision, and the NaN spread to all adjusted p values."""
    samples = systems_with_errors(worst)
    more = [flip_signs([em_sample(np.arange(20) % 2)] * 5)] * (others - 1)
    found = compare_pairs([flip_signs(samples), *more])
    alone = compare_pairs([flip_signs([*samples[:4], None]), *more])
    for name in ("p", "adjusted", "reach", "wide", "errors"):
        one, other = (getattr(tests, name)[:4, :4] for tests in (found, alone))
        assert np.allclose(one, other, rtol=1e-4, atol=1e-3), name
    assert np.allclose(found.sizes[:4, :4], alone.sizes[:4, :4], rtol=1e-3)
    assert (found.adjusted[np.triu_indices(4, 1)] < 0.01).all()
    assert (found.p[4, :4] > 0.9).all() and (found.adjusted[4, :4] > 0.9).all()
    assert np.isfinite(found.errors).all()
    assert all(examples_for_one_point(found, 4, b) is None or worst < 1e80 for b in range(4))


@pytest.mark.parametrize("worst", [10, 1e150])
def test_adjusted_p_values_do_not_depend_on_intervals(worst: float) -> None:
    tasks = [flip_signs(systems_with_errors(worst)), flip_signs([em_sample(np.arange(20) % 2)] * 5)]
    for chosen in (tasks, tasks[1:]):  # the systems of the second task are equal
        found, quick = (compare_pairs(chosen, family=[0, 1, 2], intervals=each) for each in (True, False))
        for name in ("differences", "errors", "adjusted", "sizes", "highest", "tested", "significant"):
            assert np.array_equal(getattr(found, name), getattr(quick, name), equal_nan=True), name
        assert np.isnan(quick.p).all() and quick.interval(0, 1) is None


def test_large_errors_are_tested_as_small_ones_are() -> None:
    """Multiplying all statistics by a power of two doesn't change p, because it depends on a ratio."""
    small = systems_with_errors(10)
    large = [dataclasses.replace(one, rows=one.rows * [1, 2.0**300, 1]) for one in small]
    one, other = (compare_pairs([flip_signs(samples)]) for samples in (small, large))
    assert np.array_equal(one.p, other.p) and np.array_equal(one.adjusted, other.adjusted)
    assert np.array_equal(np.ldexp(one.errors, 300), other.errors)


def test_a_pair_whose_numbers_are_not_finite_is_not_tested() -> None:
    """Before, it affected the adjusted p of all other pairs."""
    flipped = flip_signs(systems_with_errors(10))
    flipped.blocks[0][0].moved[4, 5] = math.nan
    found = compare_pairs([flipped])
    assert not found.tested[:4, 4].any() and np.isnan(found.adjusted[:4, 4]).all()
    assert (found.adjusted[np.triu_indices(4, 1)] < 0.01).all()
