"""What an interval rests on, in words."""

from __future__ import annotations

from typing import Any

import pytest

from decabench.scoring.results import show_units


@pytest.mark.parametrize(
    ("units", "text"),
    [
        ({}, ""),
        ({"number": 48, "effective": 41.23, "level": "article"}, "48 articles (41.2 effective)"),
        ({"number": 872, "effective": 872.0}, "872 units"),
        ({"number": 1, "effective": 1.0, "level": "talk"}, "1 talk"),
        (
            {"number": 1200, "effective": 1200.0, "level": "sentence", "fixed": 6, "within": "relation"},
            "1,200 sentences in these 6 relations",
        ),
        ({"number": 4, "level": "copy"}, "4 copies"),
        ({"number": 9, "level": "post", "fixed": 2, "within": "essay"}, "9 posts in these 2 essays"),
        ({"number": "<b>", "effective": 1}, ""),
        ({"number": 3, "effective": float("inf")}, ""),
        ({"number": 3, "effective": True, "level": "a\x1b[31m"}, ""),
        ({"number": 3, "level": "a\x1b[31m"}, "3 a\\x1b[31ms"),
    ],
)
def test_units_in_words(units: dict[str, Any], text: str) -> None:
    assert show_units(units) == text
