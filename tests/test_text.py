import json

import pytest

from decabench.text import terminal_safe


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\nGröße 東京 👩‍👩‍👧", "plain\nGröße 東京 👩‍👩‍👧"),
        ("\x1b[31mred\x1b]0;title\x07", r"\u001b[31mred\u001b]0;title\u0007"),
        ("a\tb\rc\x9b1m\x7f", r"a\tb\rc\u009b1m\u007f"),
        ("\u202eabc\u2066\u200f\u2028", r"\u202eabc\u2066\u200f\u2028"),
        ("\ud800\udcff", r"\ud800\udcff"),
    ],
)
def test_terminal_safe(text, shown):
    assert terminal_safe(text) == shown
    shown.encode()


def test_json_that_is_safe_for_a_terminal_means_the_same():
    value = {"".join(map(chr, range(0x300))): "\u202e\u2028\ufeff"}
    for indent in (None, 1):
        assert json.loads(terminal_safe(json.dumps(value, ensure_ascii=False, indent=indent))) == value
