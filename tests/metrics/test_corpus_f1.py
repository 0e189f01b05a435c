import pytest

from decabench.metrics import corpus_f1


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
