"""Several samples of each answer: the score is their mean, and they are parts of examples in the interval."""

import json
from math import comb

import numpy as np
import pytest

from decabench.errors import DecabenchError
from decabench.metrics import METRICS
from decabench.predictors import ModelOptions
from decabench.scoring import compare, evaluate
from decabench.scoring.significance import Sample, score_interval
from decabench.tasks.store import Store


def write(submission, answers):
    """Replace the answers to sst by these lists of samples."""
    path = submission / "predictions" / "sst.validation.jsonl"
    ids = [json.loads(line)["id"] for line in path.read_text().splitlines()]
    lines = [
        {"id": id_, "answer": each[0], "samples": each[1:]} for id_, each in zip(ids, answers, strict=True)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_scores_by_hand(submit, home):
    folder = submit("majority", ["sst"])
    gold = [row["answers"][0] for row in Store(home).read("sst", "validation", ("answers",))]
    other = {"positive": "negative", "negative": "positive"}
    right = [
        (number * 7) % 4 for number in range(len(gold))
    ]  # of three samples: 0 to 3, the wrong ones first
    write(folder, [[other[text]] * (3 - c) + [text] * c for text, c in zip(gold, right, strict=True)])
    found = evaluate(folder, tasks=["sst"], home=home).tasks["sst"]
    n = len(gold)
    assert found.score == pytest.approx(100 * sum(right) / (3 * n))
    assert found.samples.scores == pytest.approx(
        [100 * sum(c > 2 - at for c in right) / n for at in range(3)]
    )
    assert found.samples.majority == pytest.approx(100 * sum(c >= 2 for c in right) / n)
    expected = {k: 100 * np.mean([1 - comb(3 - c, k) / comb(3, k) for c in right]) for k in (1, 2, 3)}
    assert {int(k): value for k, value in found.samples.pass_at.items()} == pytest.approx(expected)
    assert found.samples.between_examples == pytest.approx(np.std([100 * c / 3 for c in right], ddof=1))
    again = compare(folder, folder, home=home).tasks["sst"]
    assert again.difference == 0 and again.examples == n


def test_a_refused_sample_is_wrong_where_an_empty_answer_is_right(submit, home):
    folder = submit("majority", ["squad2"])
    path = folder / "predictions" / "squad2.validation.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    scores = {}
    for sample in ("", None):
        written = [{"id": line["id"], "answer": "", "samples": [sample]} for line in lines]
        path.write_text("".join(json.dumps(line) + "\n" for line in written))
        scores[sample] = evaluate(folder, tasks=["squad2"], home=home).tasks["squad2"].samples.scores
    assert scores[""][0] == scores[""][1] == scores[None][0] > 0 and scores[None][1] == 0


@pytest.mark.parametrize("samples", ["x", [1], ["\ud800"]])
def test_samples_that_are_no_texts_are_a_fault(submit, home, samples):
    folder = submit("majority", ["sst"])
    path = folder / "predictions" / "sst.validation.jsonl"
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps({**json.loads(first), "samples": samples}), *rest]) + "\n")
    assert evaluate(folder, tasks=["sst"], home=home).tasks["sst"].status == "failed"


def test_predict_samples_with_seeds_that_follow(submit, home):
    folder = submit("random", ["sst"], "k", samples=3, options=ModelOptions(seed=5))
    alone = [submit("random", ["sst"], str(seed), options=ModelOptions(seed=seed)) for seed in (5, 6, 7)]
    lines, *others = (
        [
            json.loads(line)
            for line in (each / "predictions" / "sst.validation.jsonl").read_text().splitlines()
        ]
        for each in (folder, *alone)
    )
    assert [[line["answer"], *line["samples"]] for line in lines] == [
        [line["answer"] for line in each] for each in zip(*others, strict=True)
    ]
    found = evaluate(folder, home=home).tasks["sst"]
    scores = [evaluate(each, home=home).tasks["sst"].score for each in alone]
    assert found.samples.scores == pytest.approx(scores) and found.score == pytest.approx(np.mean(scores))
    with pytest.raises(DecabenchError, match="--samples is for one wording"):
        submit("random", ["sst"], "v", samples=2, variant=-1)


def test_the_interval_covers_with_samples_inside_examples():
    """Examples of different difficulty, five answers to each: 95 % intervals of the mean cover its expectation."""
    generator = np.random.default_rng(1)
    covered, runs, n = 0, 400, 60
    metric = METRICS["em"]
    for _ in range(runs):
        rows = generator.binomial(5, generator.beta(0.7, 0.7, n)) / 5  # the population's mean is 50
        columns = np.stack([np.ones(n) if name == "n" else rows for name in metric.columns], axis=1)
        interval = score_interval(Sample.of_levels(metric, columns, np.arange(n)[:, None]))
        covered += interval.low <= 50 <= interval.high
    assert 0.92 <= covered / runs <= 0.98
