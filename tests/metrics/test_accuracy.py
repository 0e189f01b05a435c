import pytest

from decabench.metrics import accuracy
from decabench.metrics.accuracy import tag_accuracy


def test_accuracy():
    assert float(
        accuracy([" Positive ", "negative", ""], ["positive", ["x", "Negative"], "y"])
    ) == pytest.approx(200 / 3)


@pytest.mark.parametrize(
    ("prediction", "answer", "expected"),
    [
        ("DT NN VB", "DT NN VB", 100),
        ("dt nn", "DT NN VB NN", 50),  # missing tags are wrong
        ("DT NN VB X Y", "DT NN VB", 100),  # extra ones are passed over
        ("NN DT", "DT NN", 0),
        ("", "DT", 0),
        ("", "", 0),
    ],
)
def test_tag_accuracy(prediction, answer, expected):
    assert float(tag_accuracy([prediction], [answer])) == expected


def test_tag_accuracy_is_over_tokens_not_sentences():
    assert float(tag_accuracy(["A", "B B B"], ["A", "A A A"])) == 25
