import pytest

from decabench.metrics import em, nem, nf1
from decabench.metrics.nf1 import normalize


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


def test_mean_over_examples_and_headlines():
    predictions, references = ["the x", "y", ""], ["x", ["y z", "q"], "x"]
    assert float(nf1(predictions, references)) == pytest.approx((100 + 200 / 3) / 3)
    assert float(nem(predictions, references)) == pytest.approx(100 / 3)
    assert float(em(predictions, references)) == 0
    assert [score.name for score in (nf1(["a"], ["a"]), em(["a"], ["a"]), nem(["a"], ["a"]))] == [
        "nf1",
        "em",
        "nem",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [  # by hand from SQuAD evaluate-v1.1's normalize_answer
        ("The  Cat.", "cat"),
        ("t.h.e. cat", "cat"),
        ("an-other", "another"),
        ("a\tb\n an c", "b c"),
        ("The", ""),
        ("", ""),
        ("theater", "theater"),
        ("b–a", "b–"),
        ("“quoted”", "“quoted”"),
    ],
)
def test_normalize(text, expected):
    assert normalize(text) == expected
