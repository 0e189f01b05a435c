"""Names of pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from decabench.leaderboard.pages import name_pages, write_comparison_page
from decabench.scoring.comparison import Compared, Comparison


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("mqan/validation", "mqan-validation"),
        ("group/mqan/test/movies", "group-mqan-test-movies"),
        ("iwslt.en.de", "iwslt-en-de"),
    ],
)
def test_a_name_follows_from_the_path(path: str, expected: str) -> None:
    assert name_pages([path]) == {path: expected}


def test_paths_that_would_share_a_name_do_not() -> None:
    paths = ["a b/test", "a-b/test", "A-B/test", "ä/test", "<i>/test", "a.b/test", "a_b/test", "x" * 500]
    made = name_pages(paths)
    assert len({name.lower() for name in made.values()}) == len(paths)
    assert all(re.fullmatch(r"[a-z0-9-]{1,80}", name) for name in made.values())


def test_a_comparison_page_says_in_words_what_has_no_number(tmp_path: Path) -> None:
    same = Compared(80.0, 80.0, 0.0, None, 1.0, 1.0, 100, None, same=True)
    ranks = Compared(80.0, 81.0, 1.0, (-1.0, 3.0), 0.3, 0.6, 100, 900, a_wins=None, b_wins=None)
    found = Comparison("a", "b", "validation", {"sst": same, "sick": ranks}, None, {}, 0)
    write_comparison_page(found, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "no differences" in page and page.count("<td>–</td><td>–</td>") == 1


def test_a_comparison_page_has_as_many_decimals_as_the_scale_needs(tmp_path: Path) -> None:
    small = Compared(0.133, 0.121, -0.012, (-0.02, -0.004), 0.01, 0.01, 100, 5, digits=3)
    long = Compared(50.0, 51.0, 1.0, (-1.0, 3.0), 0.3, 0.3, 100, 900)
    found = Comparison("a", "b", "validation", {"sick": small, "sst": long}, None, {}, 0)
    write_comparison_page(found, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<td>0.133</td><td>0.121</td>" in page and "-0.020 to -0.004" in page
    assert "<td>50.00</td><td>51.00</td>" in page and "-1.00 to +3.00" in page
    assert "-0.020 to -0.004" in repr(found) and "50.00" in repr(found)
