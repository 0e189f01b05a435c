import pytest
from rouge_score.rouge_scorer import RougeScorer

from decabench.metrics.rouge import rouge_score

PAIRS = [
    ("the cats were running home\nit rained", "a cat ran home\nit was raining hard"),
    ("", "x"),
    ("police killed the gunman", "police kill the gunman"),
]


def test_is_the_package_s_mean():
    scorer = RougeScorer(["rouge1", "rouge2", "rougeLsum"], use_stemmer=True)
    found = [scorer.score(reference, prediction) for prediction, reference in PAIRS]
    details = rouge_score(*map(list, zip(*PAIRS, strict=True))).details
    for ours, theirs in (("rouge1", "rouge1"), ("rouge2", "rouge2"), ("rougeL", "rougeLsum")):
        assert details[ours] == pytest.approx(sum(score[theirs].fmeasure for score in found) / 3 * 100)


def test_the_best_of_several_references():
    assert float(rouge_score(["a b c"], [["x", "a b c"]])) == 100
