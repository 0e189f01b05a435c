"""ROUGE: worked examples, stemming, memory for long answers, and comparison with the package rouge-score."""

import subprocess
import sys

import pytest
from rouge_score.rouge_scorer import RougeScorer

from decabench.metrics import rouge, rouge_score
from decabench.metrics._rouge155 import stem

# Worked examples, and what the package rouge-score gives.


def test_a_worked_example():
    # by hand: reference "police kill the gunman", candidate "police ended the gunman" (Lin 2004, section 3.1)
    details = rouge(["police ended the gunman"], ["police kill the gunman"]).details
    assert (details["rouge1"], details["rouge2"], details["rougeL"]) == pytest.approx((75.0, 33.333, 75.0))
    assert details["rouge"] == pytest.approx((75 + 33.333 + 75) / 3)


def test_several_references_are_pooled():
    # ROUGE-1.5.5's -f A: hits and counts are summed over references; P = (1 + 2) / 4, R = (1 + 2) / 6
    details = rouge(["a b"], [["a x y z", "a b"]]).details
    assert (details["rouge1_precision"], details["rouge1_recall"]) == (75.0, 50.0)
    assert details["rouge1"] == pytest.approx(60.0)


@pytest.mark.parametrize(("prediction", "reference"), [("", "a b"), ("a b", ""), ("", ""), ("...", "a b")])
def test_empty_texts_score_zero(prediction, reference):
    assert float(rouge([prediction], [reference])) == 0


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


# The stems of Porter and of the script.


@pytest.mark.parametrize(
    ("word", "expected"),
    [  # Porter 1980's own examples of the steps, unless noted
        ("caresses", "caress"), ("ponies", "poni"), ("ties", "ti"), ("caress", "caress"), ("cats", "cat"),
        ("feed", "feed"), ("agreed", "agre"), ("plastered", "plaster"), ("bled", "bled"), ("motoring", "motor"),
        ("sing", "sing"), ("conflated", "conflat"), ("troubled", "troubl"), ("sized", "size"), ("hopping", "hop"),
        ("falling", "fall"), ("hissing", "hiss"), ("fizzed", "fizz"), ("failing", "fail"), ("filing", "file"),
        ("happy", "happi"), ("sky", "sky"), ("relational", "relat"), ("conditional", "condit"),
        ("vietnamization", "vietnam"),
        ("triplicate", "triplic"), ("hopeful", "hope"), ("goodness", "good"), ("revival", "reviv"),
        ("adoption", "adopt"),
        ("replacement", "replac"), ("adjustment", "adjust"), ("dependent", "depend"), ("probate", "probat"),
        ("rate", "rate"), ("cease", "ceas"), ("controll", "control"), ("roll", "roll"), ("is", "is"),
        ("yellowed", "yellow"), ("possibly", "possibl"), ("archaeology", "archaeolog"), ("geology", "geologi"),  # logi
        ("decision", "decis"), ("element", "elem"), ("cement", "cement"),  # ROUGE's own step 4
    ],
)  # fmt: skip
def test_stem(word, expected):
    assert stem(word) == expected


# ROUGE-1.5.5 without Perl.


@pytest.mark.parametrize("how", [True, False])
def test_a_long_answer_takes_little_memory(how):
    """An untrusted answer may be a megabyte long, so the table has rows only for the reference's words."""
    program = f"""
import subprocess
import sys
import resource
from decabench.metrics import _rouge155 as rouge
rouge._compiled &= {how}
rouge.count("a", ["a"], ".")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = rouge.count("word " * 150_000, ["word of a cat"], ".")
assert found == [((1, 150_000, 4), (0, 149_999, 3), (1, 150_000, 4))], found
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100  # MB; a row for each word of the answer took 2,700
