"""Data files: scripts that can only be data."""

from __future__ import annotations

import json
import math
import re

import pytest

from decabench.leaderboard.datafiles import histogram, script


@pytest.mark.parametrize(
    "text",
    [
        "</script><script>alert(1)</script>",
        "<!--",
        "]]>",
        "\u2028\u2029",
        "\\",
        '"',
        "\\u003c/script",
        "Ä",
        "😀",
    ],
)
def test_a_script_gives_back_what_it_was_given_and_nothing_else(text: str) -> None:
    made = script("examples/x", {"__proto__": text}).decode("ascii")
    assert not re.search(r"[<>\x00-\x09\x0b-\x1f\x7f-\uffff]", made)
    match = re.fullmatch(r'decabench\.put\("examples/x",(".*")\);\n', made)
    assert match is not None
    assert json.loads(json.loads(match[1])) == {"__proto__": text}


def test_histogram() -> None:
    found = histogram([0.0, 9.9, 10.0, 30.0, 99.9, 100.0, math.nan])
    assert found == {"bins": [2, 1, 0, 1, 0, 0, 0, 0, 0, 2], "n": 7, "unscored": 1}
