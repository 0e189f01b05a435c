"""Metrics as values: sums of rows, forms of references, errors, and the range of resamples."""

import math
import pickle
import random

import numpy as np
import pandas as pd
import pytest

from decabench.metrics import METRICS, em, joint_goal_em, lfem, nf1, uas_las
from decabench.metrics.base import Item, Metric, MetricError, evaluate, items, score_rows

COUNT = Metric(
    name="count",
    definition="Share of predictions that are not empty.",
    source="none",
    signature="count|v:1",
    columns=("n", "full"),
    headline="count",
    statistics=lambda predictions, references: [(1.0, float(bool(text))) for text in predictions],
    score=lambda totals: {"count": 100 * totals["full"] / totals["n"], "n": totals["n"]},
)


def test_evaluate_sums_rows_and_scores_the_sums():
    score = evaluate(COUNT, ["a", "", "b", "c"], items(["x"] * 4))
    assert (float(score), score.n, score.name, dict(score.details)) == (
        75.0,
        4,
        "count",
        {"count": 75, "n": 4},
    )
    assert str(score) == "count 75.00 (n=4, count|v:1)"


def test_order_and_splitting_change_no_digit():
    rows = [(1.0, 0.1 * k) for k in range(1000)]
    assert score_rows(COUNT, rows) == score_rows(COUNT, rows[::-1])


def test_full_signature_ends_with_versions():
    from dataclasses import replace
    from importlib.metadata import version

    assert COUNT.full_signature == "count|v:1"
    assert replace(COUNT, packages=("pytest",)).full_signature == f"count|v:1|pytest:{version('pytest')}"
    assert replace(COUNT, packages=("no-such-package",)).full_signature == "count|v:1|no-such-package:missing"


def test_items_take_strings_and_lists():
    assert items(["a", ["b", "c"]], id=["1", "2"]) == [Item(["a"], id="1"), Item(["b", "c"], id="2")]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nf1([], []), "without examples"),
        (lambda: nf1(["a"], []), "one prediction per example, but got 1 instead of 0"),
        (
            lambda: nf1("ab", ["a", "b"]),
            "list of strings as predictions, one per example, but got a single string",
        ),
        (lambda: nf1(pd.Series(["a", math.nan]), ["a", "b"]), "item 1 is nan"),
        (lambda: nf1(["a"], [[]]), "non-empty list"),
        (lambda: nf1(["a"], [["a" * 1_000_000, 1]]), r"index 0 is \['a{78}…\.$"),
        (lambda: nf1(["a"], "a"), "References must be .* got a single string"),
        (lambda: nf1(["x"], {"x": ["y"]}), "References must be .* got a value of type dict"),
        (lambda: nf1(pd.DataFrame({"a": ["x"], "b": ["y"]}), ["a", "b"]), "a value of type DataFrame"),
    ],
)
def test_errors_say_what_was_wrong(call, message):
    with pytest.raises(MetricError, match=message):
        call()


@pytest.mark.parametrize("form", [list, tuple, np.array, pd.Series, iter])
def test_predictions_and_references_come_in_any_iterable(form):
    score = em(form(["a", ""]), form(["a", "b"]))
    assert (float(score), score.n) == (50.0, 2)
    assert float(em(form([""]), form(["a"]))) == 0.0  # an array of one empty string is false


def test_columns_of_a_shuffled_frame_are_read_by_place():
    """A pandas Series is indexed by label. Before, a shuffled Series assigned answers to the wrong turns."""
    frame = pd.DataFrame(
        {
            "turn": ["en_0_1", "en_0_2", "en_0_3"],
            "gold": ["food: thai;", "food: dontcare;", "area: north;"],
            "ours": ["food: thai;", "none", "area: north;"],
        },
        index=[1, 2, 0],
    )
    # By hand: after the first turn, the goal lacks `food: dontcare`.
    assert float(joint_goal_em(frame.ours, frame.gold, turns=frame.turn)) == pytest.approx(100 / 3)
    assert float(joint_goal_em(frame.ours, frame.gold, turns=iter(frame.turn))) == pytest.approx(100 / 3)


def test_tables_and_tags_of_a_shuffled_frame_are_read_by_place():
    forms = [{"sql": {"sel": column, "agg": 0, "conds": []}, "header": ["a", "b"]} for column in (0, 1)]
    texts = ["select a from table", "select b from table"]
    assert float(lfem(texts, texts, tables=pd.Series(forms, index=[1, 0]))) == 100.0
    parses = ["2:nsubj 0:root", "0:root 1:punct"]
    tags = pd.Series(["NOUN VERB", "VERB PUNCT"], index=[1, 0])
    assert float(uas_las(["2:nsubj 0:root", "0:root 9:punct"], parses, tags=tags)) == 100.0


def test_statistics_of_one_example_at_a_time_pickle():
    copied = pickle.loads(pickle.dumps(nf1.statistics))
    assert copied(["a"], items(["a b"])) == nf1.statistics(["a"], items(["a b"]))


# No score leaves its range, in any resample, though sums are rounded.

WORDS = "the cat sat on a mat with two dogs and one old hat".split()
SQL = {"sel": 0, "agg": 0, "conds": [[1, 0, "x"]]}


def gold(name):
    """Return valid references for a metric, with many lengths."""
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
