import pytest

from decabench.metrics import nf1
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
