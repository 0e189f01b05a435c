"""What an interval rests on, in words."""

from __future__ import annotations

import pytest

from decabench.scoring.significance import SampledUnits, show_units


@pytest.mark.parametrize(
    ("units", "text"),
    [
        (None, ""),
        (SampledUnits(48, 41.23, "article"), "48 articles (41.2 effective)"),
        (SampledUnits(872, 872.0), "872 units"),
        (SampledUnits(1, 1.0, "talk"), "1 talk"),
        (SampledUnits(1200, 1200.0, "sentence", 6, "relation"), "1,200 sentences in these 6 relations"),
        (SampledUnits(4, 4.0, "copy"), "4 copies"),
        (SampledUnits(9, 9.0, "post", 2, "essay"), "9 posts in these 2 essays"),
        (SampledUnits(0, 0.0), ""),
        (SampledUnits(-3, 3.0), ""),
        (SampledUnits(3, float("inf")), ""),
        (SampledUnits(3, 3.0, "a\x1b[31m"), "3 a\\x1b[31ms"),
    ],
)
def test_units_in_words(units: SampledUnits | None, text: str) -> None:
    assert show_units(units) == text
