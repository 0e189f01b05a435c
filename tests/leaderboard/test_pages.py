"""Names of pages."""

from __future__ import annotations

import re

import pytest

from decabench.leaderboard.pages import name_submissions, name_tasks


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
    assert name_submissions([path]) == {path: expected}


def test_paths_that_would_share_a_name_do_not() -> None:
    paths = ["a b/results.json", "a-b/results.json", "A-B/results.json", "ä/results.json", "<i>/results.json"]
    made = name_submissions(paths)
    assert len({name.lower() for name in made.values()}) == len(paths)
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in made.values())


def test_names_of_tasks() -> None:
    assert name_tasks(["iwslt.en.de"]) == {"iwslt.en.de": "iwslt-en-de"}
    assert all(len(name) < 80 for name in name_tasks(["x" * 500]).values())
    assert len({*name_tasks(["a.b", "a-b", "a_b"]).values()}) == 3
