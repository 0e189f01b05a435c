import pytest

from decabench.metrics import rouge
from decabench.metrics.base import MetricError


def test_a_worked_example():
    # by hand: reference "police kill the gunman", candidate "police ended the gunman" (Lin 2004, section 3.1)
    details = rouge(["police ended the gunman"], ["police kill the gunman"]).details
    assert (details["rouge1"], details["rouge2"], details["rougeL"]) == pytest.approx((75.0, 33.333, 75.0))
    assert details["rouge"] == pytest.approx((75 + 33.333 + 75) / 3)


def test_union_of_subsequences():
    # Lin 2004, section 3.2: reference w1..w5, candidates w1 w2 w6 w7 w8 and w1 w3 w8 w9 w5: union w1 w2 w3 w5
    details = rouge(["w1 w2 w6 w7 w8. w1 w3 w8 w9 w5."], ["w1 w2 w3 w4 w5."]).details
    assert details["rougeL_recall"] == pytest.approx(80.0)


def test_what_ends_a_sentence_matters_for_rouge_l_only():
    prediction, reference = "c d. a b", "a b. c d"
    whole = rouge([prediction], [reference], sentences="\n").details
    split = rouge([prediction], [reference]).details
    assert whole["rouge1"] == split["rouge1"] == 100
    assert (whole["rougeL"], split["rougeL"]) == (50, 100)


def test_several_references_are_pooled():
    # ROUGE-1.5.5's -f A: hits and counts are summed over references; P = (1 + 2) / 4, R = (1 + 2) / 6
    details = rouge(["a b"], [["a x y z", "a b"]]).details
    assert (details["rouge1_precision"], details["rouge1_recall"]) == (75.0, 50.0)
    assert details["rouge1"] == pytest.approx(60.0)


@pytest.mark.parametrize(("prediction", "reference"), [("", "a b"), ("a b", ""), ("", ""), ("...", "a b")])
def test_empty_texts_score_zero(prediction, reference):
    assert float(rouge([prediction], [reference])) == 0


def test_other_separators_are_an_error():
    with pytest.raises(MetricError, match="sentences=';'"):
        rouge(["a"], ["a"], sentences=";")
