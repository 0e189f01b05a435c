import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from decabench.errors import DataError
from decabench.metrics import METRICS, Item
from decabench.scoring import DataUsed, ReadAnswers, Sample, ScoredTask, TaskResult, student_t
from decabench.scoring.significance import Interval
from decabench.tasks import SUITES, TASKS, number_units
from papers.effort import asked_for
from papers.plan import WEIGHTS, Contrast, Measure, Place, Plan, Run, SeededRun
from papers.scores import (
    FIXED,
    Spread,
    compare_rows,
    find_left_out,
    kinds_of_rows,
    seed_spread,
    spread_over_seeds,
    values,
    vary_unlike,
)
from papers.scores import Tested as ContrastResult

PRODUCTS = SUITES["products"].tasks
PLACE = Place(Path("plan.toml"), Path("out"), None, (), "cpu")
MEAN = Measure(suite="products")


def make_scored(task, answers, golds, metric="accuracy", units=None):
    """Score answers like `score_submission`, but without files."""
    from decabench.scoring import score_task

    references = [
        Item([gold], f"{task}.{at}", () if units is None else (units[at],)) for at, gold in enumerate(golds)
    ]
    found = score_task((metric,), answers, references, None)
    sample = Sample.of_levels(
        METRICS[metric].for_data(references),
        found.rows,
        number_units([item.units for item in references]),
        task,
    )
    data = DataUsed("sha256:0", "mirror", True, len(golds), None, "")
    result = TaskResult("scored", metric, found.headline, data, scores=dict(found.scores))
    return ScoredTask(TASKS[task], result, sample, found.rows, read=lambda: ReadAnswers(references, answers))


def make_rows(random, quality, seeds, n=400, shared=0.0, luck=0.0):
    """Return right and wrong answers to four tasks, by row, task and seed.

    `shared` shifts a text's chance for all rows. `luck` shifts each model, and is the variation between seeds.
    """
    scored, right = {}, {}
    drawn = {(row, seed): luck * random.normal() for row in quality for seed in seeds} if luck else {}
    for task in PRODUCTS:
        hard = random.normal(size=n) * shared
        for row, level in quality.items():
            for seed in seeds:
                chance = level + drawn.get((row, seed), 0.0)
                p = np.clip(chance + hard + 0.1 * random.normal(size=n), 0, 1)
                hits = random.random(n) < p
                right[row, task, seed] = hits
                answers = ["positive" if hit else "negative" for hit in hits]
                made = make_scored(task, answers, ["positive"] * n)
                scored.setdefault(row, {}).setdefault(task, {})[seed] = made
    return scored, right


def test_a_mean_over_tasks_and_seeds_by_hand():
    scored, right = make_rows(np.random.default_rng(1), {"b": 0.715, "a": 0.7}, (0, 1, 2), shared=0.3)
    tested = compare_rows(Contrast("b", ("a",), ("mean",)), MEAN, scored, PLACE)
    units = {  # for each text, how many more seeds are right, in points
        task: 100
        * np.mean([right["b", task, s].astype(float) - right["a", task, s] for s in (0, 1, 2)], axis=0)
        for task in PRODUCTS
    }
    difference = np.mean([own.mean() for own in units.values()])
    error = math.sqrt(sum(own.var(ddof=1) / len(own) for own in units.values())) / 4
    assert tested.difference == pytest.approx(difference, abs=1e-9)
    interval = tested.test.interval(0, 1)
    assert interval.low == pytest.approx(difference - 1.96 * error, abs=0.06 * error)
    assert interval.high == pytest.approx(difference + 1.96 * error, abs=0.06 * error)
    p = math.erfc(difference / error / math.sqrt(2))
    assert 0.01 < p < 0.3 and float(tested.test.p[0, 1]) == pytest.approx(p, abs=0.02)
    assert tested.examples == 1_600
    for seed in (0, 1, 2):
        by_hand = 100 * np.mean([right["b", t, seed].mean() - right["a", t, seed].mean() for t in PRODUCTS])
        assert tested.by_seed[seed] == pytest.approx(by_hand)
    figures = values(scored, "b", MEAN, PLACE)
    assert figures[1] == pytest.approx(100 * np.mean([right["b", task, 1].mean() for task in PRODUCTS]))


def test_a_baseline_of_several_rows_is_their_mean():
    scored, right = make_rows(np.random.default_rng(2), {"b": 0.8, "a": 0.7, "c": 0.6}, (0,))
    del scored["c"][PRODUCTS[0]]
    contrast = Contrast("b", ("a", "c"), ("mean",))
    assert compare_rows(contrast, MEAN, scored, PLACE) is None  # an incomplete row can't be a baseline
    scored, right = make_rows(np.random.default_rng(2), {"b": 0.8, "a": 0.7, "c": 0.6}, (0,))
    tested = compare_rows(contrast, MEAN, scored, PLACE)
    means = {row: np.mean([right[row, task, 0].mean() for task in PRODUCTS]) for row in "abc"}
    assert tested.difference == pytest.approx(100 * (means["b"] - (means["a"] + means["c"]) / 2))
    assert tested.test.is_tested(0, 1) and tested.test.interval(0, 1).low > 0


def test_the_spread_of_seeds_is_pooled_over_rows():
    random = np.random.default_rng(10)
    groups = [random.normal(size=size) + 50 for size in (3, 5, 2, 1, 0)]
    spread = seed_spread([list(group) for group in groups])
    by_hand = [((group - group.mean()) ** 2).sum() for group in groups if len(group)]
    assert spread.freedom == 2 + 4 + 1
    assert spread.variance == pytest.approx(sum(by_hand) / 7)
    assert seed_spread([[50.0], []]) is None


def test_texts_and_seeds_by_hand():
    from scipy import stats

    scored, right = make_rows(np.random.default_rng(9), {"b": 0.75, "a": 0.7}, (0, 1, 2), n=2_000, luck=0.3)
    contrast = Contrast("b", ("a",), ())
    figures = [
        [100 * np.mean([right[row, task, s].mean() for task in PRODUCTS]) for s in (0, 1, 2)] for row in "ba"
    ]
    spread = seed_spread(figures)
    tested = compare_rows(contrast, MEAN, scored, PLACE, dict.fromkeys("ab", spread))
    expected = stats.ttest_ind(*figures)  # Student's t-test with equal variances
    low, high = expected.confidence_interval()
    assert (tested.over_seeds.low, tested.over_seeds.high) == pytest.approx(
        (low, high), abs=0.03 * (high - low)
    )
    assert tested.over_seeds.p == pytest.approx(expected.pvalue, abs=0.02)

    texts = tested.test.interval(0, 1)
    reach = max(texts.high - tested.difference, tested.difference - texts.low)
    alike = compare_rows(contrast, MEAN, scored, PLACE, dict.fromkeys("ab", Spread(0.0, 4))).over_seeds
    assert (alike.low, alike.high) == pytest.approx((tested.difference - reach, tested.difference + reach))
    for variance in (0.01, 1.0, 100.0):  # never narrower than over texts alone
        found = compare_rows(
            contrast, MEAN, scored, PLACE, dict.fromkeys("ab", Spread(variance, 1_000))
        ).over_seeds
        assert found.high - found.low > 2 * reach


def test_each_source_of_error_has_its_own_degrees_of_freedom():
    from scipy import stats

    scored, _ = make_rows(np.random.default_rng(9), {"b": 0.75, "a": 0.7}, (0, 1))
    contrast = Contrast("b", ("a",), ())
    spreads = {"a": Spread(0.4, 2), "b": Spread(0.9, 3)}
    tested = compare_rows(contrast, MEAN, scored, PLACE, spreads)
    texts = tested.test.interval(0, 1)
    reach = max(texts.high - tested.difference, tested.difference - texts.low)

    def half(alpha):
        normal = reach * stats.norm.isf(alpha / 2) / stats.norm.isf(0.025)
        two, three = stats.t.isf(alpha / 2, 2), stats.t.isf(alpha / 2, 3)
        return math.sqrt(normal**2 + two**2 * 0.4 / 2 + three**2 * 0.9 / 2)

    assert tested.over_seeds.high - tested.difference == pytest.approx(half(0.05), rel=1e-9)
    assert abs(tested.difference) == pytest.approx(half(tested.over_seeds.p), rel=1e-6)
    shared = compare_rows(contrast, MEAN, scored, PLACE, dict.fromkeys("ab", Spread(0.4, 2))).over_seeds
    one_kind = math.hypot(reach, stats.t.isf(0.025, 2) * math.sqrt(0.4 * (1 / 2 + 1 / 2)))
    assert shared.high - tested.difference == pytest.approx(one_kind, rel=1e-9)
    far = replace(
        tested, difference=1e6, test=SimpleNamespace(interval=lambda a, b: Interval(1e6 - reach, 1e6 + reach))
    )
    assert 0 < far.over_seeds.p <= 1e-6
    few = compare_rows(contrast, MEAN, scored, PLACE, dict.fromkeys("ab", Spread(0.4, 1)))
    assert few.over_seeds is None, "two seeds that happen to be alike would pass for seeds that do not matter"


def test_rows_of_several_models_have_a_spread_of_their_own(tmp_path):
    runs = [Run(f"{row}-{task}", (task,), row=row) for row in ("single", "other") for task in PRODUCTS]
    runs += [Run(row, PRODUCTS) for row in ("joint", "shared", "later")]
    plan = Plan("T", "P", "products", {"mean": MEAN, "books": Measure(PRODUCTS[0])}, tuple(runs))
    random = np.random.default_rng(4)
    quality = dict.fromkeys(plan.trained_rows, 0.8)
    scored, _ = make_rows(random, quality, (0, 1, 2), n=50, luck=0.05)
    for task in PRODUCTS:
        del scored["later"][task][1], scored["later"][task][2]
    found = spread_over_seeds(plan, scored, MEAN, PLACE)
    assert found.keys() == quality.keys()
    figures = {row: list(values(scored, row, MEAN, PLACE).values()) for row in quality}
    of_several = (np.var(figures["single"], ddof=1) + np.var(figures["other"], ddof=1)) / 2
    of_one = (np.var(figures["joint"], ddof=1) + np.var(figures["shared"], ddof=1)) / 2
    assert found["single"] == found["other"] and found["joint"] == found["later"]
    assert (found["single"].variance, found["single"].freedom) == (pytest.approx(of_several), 4)
    assert (found["later"].variance, found["later"].freedom) == (pytest.approx(of_one), 4)
    books = spread_over_seeds(plan, scored, plan.measures["books"], PLACE)
    assert len(set(books.values())) == 1, "of one task, each figure is of one model"

    tested = compare_rows(Contrast("joint", ("single",), ()), MEAN, scored, PLACE, found)
    texts = tested.test.interval(0, 1)
    error = max(texts.high - tested.difference, tested.difference - texts.low) / student_t(math.inf)
    four = student_t(4) ** 2  # each kind has two rows with three seeds
    half = math.sqrt((error * student_t(math.inf)) ** 2 + four * (of_one + of_several) / 3)
    assert tested.over_seeds.high - tested.difference == pytest.approx(half, rel=1e-4)

    for task in PRODUCTS:
        for row in ("single", "other"):
            del scored[row][task][1], scored[row][task][2]
    fewer = spread_over_seeds(plan, scored, MEAN, PLACE)
    assert fewer["single"] == fewer["joint"] == found["joint"], "one seed of each says nothing of its kind"


def test_models_that_begin_with_one_model_share_its_luck():
    tuned = [Run(f"tuned-{task}", (task,), row="tuned", init="joint") for task in PRODUCTS]
    others = [Run(f"own-{task}", (task,), row="own", init=f"first-{task}") for task in PRODUCTS]
    firsts = [Run(f"first-{task}", (task,), row="first") for task in PRODUCTS]
    plan = Plan("T", "P", "products", {"mean": MEAN}, (Run("joint", PRODUCTS), *tuned, *firsts, *others))
    assert kinds_of_rows(plan, MEAN, PLACE) == {False: ["joint", "tuned"], True: ["first", "own"]}


def test_published_weights_stand_for_the_first_seed_alone():
    first = Run("first", seeds=(3, 0))
    second = Run("second", init="first", checkpoint="first", seeds=(0, 3))
    alone = Run("alone", checkpoint="first", seeds=(0,))
    plan = Plan("T", "P", "products", {"mean": MEAN}, (first, second, alone))
    third, zeroth, only = (
        SeededRun(plan, run, seed, PLACE) for run, seed in ((second, 3), (second, 0), (alone, 0))
    )
    assert third.first is None and third.checkpoint == "first"
    assert third.origin == WEIGHTS / "first"
    assert zeroth.first == SeededRun(plan, first, 0, PLACE) and zeroth.checkpoint == ""
    assert zeroth.origin == Path("out/runs/first-seed-0")
    assert only.first is None and only.checkpoint == "first"
    assert zeroth.first.origin == ""
    assert asked_for(third)["init"] == "first"
    assert asked_for(zeroth)["init"] == asked_for(zeroth.first)


def test_rows_that_clearly_vary_unlike_have_their_own_variance():
    figures = {
        "wild": [80.0, 90.0, 70.0],
        "calm": [80.0, 80.2, 79.8],
        "still": [85.0, 85.1, 84.9],
        "two": [81.0, 81.2],
        "same": [82.0, 82.0, 82.0 + 1e-13],
        "one": [79.0],
        "wilder": [60.0, 90.0],
    }
    assert vary_unlike(figures.values())
    assert not vary_unlike([figures["calm"], figures["still"], figures["two"], figures["same"]])
    assert not vary_unlike([figures["wild"], [1.0]]) and not vary_unlike([])
    plan = Plan("T", "P", "products", {"mean": MEAN}, tuple(Run(row, PRODUCTS) for row in figures))
    scored = {
        row: {task: {seed: made_up(figure) for seed, figure in enumerate(own)} for task in PRODUCTS}
        for row, own in figures.items()
    }
    found = spread_over_seeds(plan, scored, MEAN, PLACE)
    expected = {"wild": 100, "calm": 0.04, "still": 0.01, "two": 100, "same": 100, "one": 100}
    assert set(found) == set(expected), "of a row whose two seeds vary more than all others nothing is known"
    for row, variance in expected.items():
        assert (found[row].variance, found[row].freedom) == (pytest.approx(variance), 2), row
    del scored["wilder"]
    del scored["wild"]
    assert len(set(spread_over_seeds(plan, scored, MEAN, PLACE).values())) == 1


def made_up(score):
    """A scored task with nothing except its score."""
    return SimpleNamespace(result=SimpleNamespace(headline="accuracy", scores={"accuracy": score}))


def test_answers_that_are_the_same_and_rows_that_are_not_trained():
    random = np.random.default_rng(9)
    scored, _ = make_rows(random, {"b": 0.75, "a": 0.7}, (0,))
    same = {"b": scored["b"], "a": scored["b"]}
    tested = compare_rows(
        Contrast("b", ("a",), ()), MEAN, same, PLACE, dict.fromkeys("ab", Spread(0.5, 1_000))
    )
    assert tested.difference == 0 and tested.over_seeds.p == pytest.approx(1)
    assert tested.over_seeds.high == pytest.approx(
        1.962 * math.sqrt(2 * 0.5), abs=0.001
    )  # only the variation over seeds
    fixed = {row: {task: {FIXED: own[0]} for task, own in tasks.items()} for row, tasks in scored.items()}
    tested = compare_rows(Contrast("b", ("a",), ()), MEAN, fixed, PLACE)
    texts, reach = tested.test.interval(0, 1), tested.over_seeds.high - tested.difference
    assert reach == pytest.approx(max(texts.high - tested.difference, tested.difference - texts.low))


def test_a_published_mean_is_of_headlines():
    measures = {
        "mean": MEAN,
        **{task: Measure(task) for task in PRODUCTS},
        **{f"{task} F1": Measure(task, "macro_f1") for task in PRODUCTS},
    }
    figures = {name: 10.0 if name.endswith("F1") else 80.0 for name in measures if name != "mean"}
    plan = Plan("t", "p", "products", measures, (Run("a", PRODUCTS),), published={"a": figures})
    assert plan.published_figure("a", "mean", False) == 80


def test_a_score_beside_the_headline_is_tested_by_its_own_statistics():
    random = np.random.default_rng(5)
    golds = ["2:nsubj 0:root 2:obj 3:amod 2:obl"] * 300

    def parse(heads, relations):
        rows = (
            " ".join(
                f"{head if random.random() < heads else 9}:{relation if random.random() < relations else 'dep'}"
                for head, _, relation in (token.partition(":") for token in gold.split())
            )
            for gold in golds
        )
        return make_scored("ud.dep", list(rows), golds, "parsing")

    scored = {"b": {"ud.dep": {0: parse(0.9, 0.5)}}, "a": {"ud.dep": {0: parse(0.7, 0.9)}}}
    contrast = Contrast("b", ("a",), ())
    uas = compare_rows(contrast, Measure("ud.dep", "uas"), scored, PLACE)
    las = compare_rows(contrast, Measure("ud.dep", "las"), scored, PLACE)

    def heads(row):
        tokens = [text.split() for text in scored[row]["ud.dep"][0].predictions]
        gold = golds[0].split()
        return np.array(
            [
                np.mean([a.split(":")[0] == b.split(":")[0] for a, b in zip(t, gold, strict=True)])
                for t in tokens
            ]
        )

    gains = 100 * (heads("b") - heads("a"))
    interval, error = uas.test.interval(0, 1), gains.std(ddof=1) / math.sqrt(300)
    assert uas.difference == pytest.approx(gains.mean())
    assert interval.low == pytest.approx(gains.mean() - 1.96 * error, abs=0.1 * error)
    assert interval.low > 0 > las.test.interval(0, 1).high  # better heads, worse trees


def test_a_score_that_sums_cannot_give_is_not_tested():
    random = np.random.default_rng(6)
    golds = [f"{value:.3f}" for value in random.uniform(1, 5, 200)]
    noisy = [[f"{float(gold) + random.normal() * sd:.3f}" for gold in golds] for sd in (0.2, 2.0)]
    scored = {
        row: {"sick.relatedness": {0: make_scored("sick.relatedness", answers, golds, "mse")}}
        for row, answers in zip("ba", noisy, strict=True)
    }
    mse = compare_rows(Contrast("b", ("a",), ()), Measure("sick.relatedness", "mse"), scored, PLACE)
    assert mse.test.interval(0, 1).high < 0  # a smaller error
    missing = Measure("sick.relatedness", "bleu")
    with pytest.raises(DataError, match=r"sick\.relatedness has no score 'bleu'"):
        values(scored, "b", missing, PLACE)
    for measure in ("pearson", "spearman"):  # secondary metrics have their own statistics
        for own in scored.values():
            own["sick.relatedness"][0].result.scores.setdefault(measure, 0.0)
        found = compare_rows(Contrast("b", ("a",), ()), Measure("sick.relatedness", measure), scored, PLACE)
        assert found.test.interval(0, 1).low > 0


@pytest.mark.parametrize("score", ["pearson", "spearman", "mse"])
def test_seeds_whose_statistics_are_on_other_scales(score):
    random = np.random.default_rng(8)
    golds = random.uniform(1, 5, 600)
    scored = {}
    for row, sd in (("b", 0.8), ("a", 1.0)):
        for seed, (scale, shift) in enumerate([(1, 0), (9, 30), (0.1, -3)]):
            answers = [f"{(gold + random.normal() * sd) * scale + shift:.6f}" for gold in golds]
            made = make_scored("sick.relatedness", answers, [f"{gold:.6f}" for gold in golds], score)
            scored.setdefault(row, {}).setdefault("sick.relatedness", {})[seed] = made
    tested = compare_rows(Contrast("b", ("a",), ()), Measure("sick.relatedness", score), scored, PLACE)
    assert tested.difference == pytest.approx(np.mean(list(tested.by_seed.values())))
    if score == "pearson":

        def mean_correlation(row, rows):
            found = scored[row]["sick.relatedness"].values()
            numbers = [np.array([float(text) for text in one.predictions])[rows] for one in found]
            return 100 * np.mean([np.corrcoef(own, golds[rows])[0, 1] for own in numbers])

        draws = [random.integers(0, 600, 600) for _ in range(400)]  # the bootstrap
        spread = np.std([mean_correlation("b", rows) - mean_correlation("a", rows) for rows in draws])
        everything = np.arange(600)
        assert tested.difference == pytest.approx(
            mean_correlation("b", everything) - mean_correlation("a", everything), abs=1e-3
        )
        assert float(tested.test.errors[0, 1]) == pytest.approx(spread, rel=0.12)


def test_what_stands_in_training_data_is_left_out(tmp_path):
    import json

    from decabench.tasks import get_task, known_tasks
    from decabench.tasks.preparation import Request, prepare_task

    for name, train, test in (
        ("left", ["one", "two", "three"], ["two", "four", "six", "One"]),
        ("right", ["four", "five"], ["five", "seven"]),
    ):
        for split, texts in (("train", train), ("test", test)):
            lines = [json.dumps({"text": text, "label": "yes"}) for text in texts]
            (tmp_path / f"{name}.{split}.jsonl").write_text("\n".join(lines) + "\n")
        (tmp_path / f"{name}.toml").write_text(
            f'format = "decabench.taskfile/1"\nname = "{name}"\ntitle = "T"\ndataset = "D"\nmetric = "em"\n'
            f'licence = "CC0"\nquestion = "Is it?"\ncontext = "{{text}}"\nanswer = "label"\n'
            f'[files]\ntrain = "{name}.train.jsonl"\ntest = "{name}.test.jsonl"\n'
        )
    (tmp_path / "suite.toml").write_text(
        'format = "decabench.suite/1"\nname = "two"\ntitle = "Two"\ntasks = ["left", "right"]\ntotal = "mean"\n'
    )
    include = tuple(tmp_path / f"{name}.toml" for name in ("left", "right", "suite"))
    for name in ("left", "right"):
        prepare_task(get_task(name, known_tasks(include)), Request(tmp_path / "home", progress=False))
    place = Place(tmp_path / "plan.toml", tmp_path, tmp_path / "home", include, "cpu")
    run = Run("all", ("left", "right"))
    plan = Plan("T", "P", "two", {"mean": Measure(suite="two")}, (run,), overlap=("train",))
    assert find_left_out(plan, place) == {"left": {"left.test.0", "left.test.1"}, "right": {"right.test.0"}}
    near = msgspec.structs.replace(plan, overlap_by="normalised")  # also "One"
    assert find_left_out(near, place)["left"] == {"left.test.0", "left.test.1", "left.test.3"}


@pytest.mark.simulation
@pytest.mark.parametrize("luck", [0.0, 0.01, 0.03])
@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_errors_and_coverage_of_a_suites_mean(seeds, luck):
    """Simulate new texts and models. Each text has its own chance with each model and seed, and each model its luck.

    The two compared rows have a varying number of seeds and four other rows have three. The spread is pooled over all.
    """
    random = np.random.default_rng(7)
    tests, inside, below, over_texts = 500, 0, 0, 0
    for _ in range(tests):
        effect = random.choice([0.0, 0.03])
        scored, _ = make_rows(random, {"b": 0.7 + effect, "a": 0.7}, range(seeds), n=100, luck=luck)
        others = [100 * (0.7 + luck * random.normal(size=3)) for _ in range(4)]
        texts = math.sqrt(0.7 * 0.3 / 400) * 100  # the deviation between seeds due to texts alone
        others = [own + texts * random.normal(size=3) for own in others]
        figures = [list(values(scored, row, MEAN, PLACE).values()) for row in "ba"]
        spread = seed_spread([*figures, *others])
        tested = compare_rows(Contrast("b", ("a",), ()), MEAN, scored, PLACE, dict.fromkeys("ab", spread))
        found, texts_only = tested.over_seeds, tested.test.interval(0, 1)
        inside += found.low <= 100 * effect <= found.high
        over_texts += texts_only.low <= 100 * effect <= texts_only.high
        below += (found.low > 100 * effect) + (found.high < 100 * effect)
    print(
        f"{seeds} seeds, luck {luck}: coverage {inside / tests:.3f} (texts alone {over_texts / tests:.3f}), "
        f"missed by {below / tests:.3f}"
    )
    # At 95%, 500 tests have a standard error of 1.0 points. Interactions of seeds and texts are counted twice, so the
    # interval is somewhat wide if seeds have no other effect.
    assert 0.925 <= inside / tests <= 1.0
    if luck >= 0.03 and seeds == 1:
        assert over_texts / tests < 0.85, "one model of each kind says little of the ways to train"


@pytest.mark.simulation
def test_coverage_where_kinds_of_rows_vary_unlike():
    """Use the deviations on products: 0.66 for two rows of four single models, 0.1 for five joint rows, with two seeds.

    Texts have a standard error of 0.6. For rows of single models, the interval is too narrow if the spread is pooled
    over all rows, but not if it is pooled over rows of the same kind.
    """
    random, tests, reach = np.random.default_rng(13), 4_000, 0.6 * student_t(math.inf)
    inside = {"own": 0, "pooled": 0}
    for _ in range(tests):
        single, joint = (deviation * random.normal(size=(n, 2)) for deviation, n in ((0.66, 2), (0.1, 5)))
        difference = single[0].mean() - single[1].mean() + 0.6 * random.normal()
        over_texts = SimpleNamespace(interval=lambda a, b, at=difference: Interval(at - reach, at + reach))
        kinds = {"own": seed_spread(single), "pooled": seed_spread([*single, *joint])}
        for kind, spread in kinds.items():
            models, known = dict.fromkeys("ab", 1 / 2), dict.fromkeys("ab", spread)
            found = ContrastResult(difference, over_texts, {}, {"a": 2, "b": 2}, models, 0, 0, 0.0, known)
            inside[kind] += found.over_seeds.low <= 0 <= found.over_seeds.high
    print({kind: f"{count / tests:.3f}" for kind, count in inside.items()})
    assert 0.94 <= inside["own"] / tests <= 0.99
    assert inside["pooled"] / tests < 0.93


"""Approximate deviations of rows on the related tasks."""
