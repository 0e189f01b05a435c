"""Data files: scripts that can only be data."""

from __future__ import annotations

import json
import re

import pytest

from decabench.leaderboard.datafiles import _csv_value, make_script


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
    made = make_script("examples/x", {"__proto__": text}).decode("ascii")
    assert not re.search(r"[<>\x00-\x09\x0b-\x1f\x7f-\uffff]", made)
    match = re.fullmatch(r'decabench\.put\("examples/x",(".*")\);\n', made)
    assert match is not None
    assert json.loads(json.loads(match[1])) == {"__proto__": text}


@pytest.mark.parametrize("name", ["=1+1", "\uff1dcmd|'/C calc'!A0", " \uff0bx", "@x", "-2"])
def test_no_name_is_a_formula(name: str) -> None:
    """Spreadsheets of East Asian languages read full-width signs as the usual ones."""
    assert _csv_value(name) == f"'{name}"
    assert _csv_value("mqan=1") == "mqan=1"
