"""Metrics of words and labels, compared with values by hand and from scikit-learn."""

import random

import pytest
import sklearn.metrics

from decabench.metrics import accuracy, corpus_f1, nf1


@pytest.mark.parametrize(
    ("prediction", "answers", "expected"),
    [  # (nf1, nf1_empty_match, em, nem) by hand from SQuAD evaluate-v1.1 and decaNLP 2018
        ("the Denver Broncos", ["Denver Broncos"], (100, 100, 0, 100)),
        ("Denver", ["denver broncos", "Denver"], (100, 100, 100, 100)),
        ("Denver Denver", ["Denver Broncos"], (50, 50, 0, 0)),
        ("Denver", ["Denver Broncos"], (200 / 3, 200 / 3, 0, 0)),
        ("", ["Denver"], (0, 0, 0, 0)),
        ("", [""], (0, 100, 100, 100)),  # quirk of 2018: empty against empty
        ("the", ["a"], (0, 100, 0, 100)),
        ("the", ["x", "a"], (0, 100, 0, 100)),
        (" Denver", ["denver"], (100, 100, 0, 100)),  # spaces count for em
        ("x", ["y"], (0, 0, 0, 0)),
    ],
)
def test_nf1(prediction, answers, expected):
    details = nf1([prediction], [answers]).details
    assert tuple(details[name] for name in ("nf1", "nf1_empty_match", "em", "nem")) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("predictions", "references", "expected"),
    [  # (corpus_f1, precision, recall, corpus_f1_any) by hand from Levy et al. 2017, evaluate.py
        (["x y"], ["y, x"], (100, 100, 100, 100)),
        (["the x and y"], ["y x"], (100, 100, 100, 100)),
        (["x x"], ["x"], (100, 100, 100, 100)),  # sets, not bags
        (["unanswerable"], ["unanswerable"], (0, 0, 0, 0)),  # nothing answered, nothing answerable
        (["x"], ["unanswerable"], (0, 0, 0, 0)),
        (["unanswerable"], ["x"], (0, 0, 0, 0)),
        (["unanswerable x"], ["x"], (0, 0, 0, 0)),
        (["x", "y", "unanswerable"], ["x", "unanswerable", "z"], (50, 50, 50, 50)),
        (["x", "x"], ["x", "unanswerable"], (200 / 3, 50, 100, 200 / 3)),
        (["x"], [["x", "y"]], (0, 0, 0, 100)),  # quirk: the union of alternatives
        (["y x"], [["x", "y"]], (100, 100, 100, 0)),
        ([""], ["x"], (0, 0, 0, 0)),
        (["", "x"], ["the", "x"], (100, 100, 100, 100)),  # an empty gold is answerable
    ],
)
def test_corpus_f1(predictions, references, expected):
    details = corpus_f1(predictions, references).details
    names = ("corpus_f1", "precision", "recall", "corpus_f1_any")
    assert tuple(details[name] for name in names) == pytest.approx(expected)


def test_accuracy():
    assert float(
        accuracy([" Positive ", "negative", ""], ["positive", ["x", "Negative"], "y"])
    ) == pytest.approx(200 / 3)


def test_agrees_with_scikit_learn():
    source = random.Random(0)
    predicted, gold = (source.choices(["positive", "negative", "neutral"], k=500) for _ in range(2))
    wanted = 100 * sklearn.metrics.accuracy_score(gold, predicted)
    assert float(accuracy(predicted, gold)) == pytest.approx(wanted, abs=1e-9)
