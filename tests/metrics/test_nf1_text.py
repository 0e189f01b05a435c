import pytest

from decabench.metrics.nf1 import normalize


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
