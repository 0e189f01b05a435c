"""Names of pages."""

from __future__ import annotations

import re

import pytest

from decabench.leaderboard.pages import file_stem, stems


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("mqan/results/validation/results.json", "mqan-validation"),
        ("mqan/results/validation.json", "mqan-validation"),
        ("mqan/results.json", "mqan"),
        ("results.json", "results"),
        ("a/test.results.json", "a-test"),
    ],
)
def test_it_follows_from_the_path(path: str, expected: str) -> None:
    assert stems([path]) == {path: expected}


def test_paths_that_would_share_a_name_do_not() -> None:
    paths = ["a b/results.json", "a-b/results.json", "A-B/results.json", "ä/results.json", "<i>/results.json"]
    made = stems(paths)
    assert len({name.lower() for name in made.values()}) == len(paths)
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in made.values())


def test_tasks() -> None:
    assert file_stem("iwslt.en.de") == "iwslt-en-de"
    assert len(file_stem("x" * 500)) < 80
