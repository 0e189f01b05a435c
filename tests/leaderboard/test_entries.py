"""Untrusted text becomes one short line of visible characters, and only real addresses become links."""

from __future__ import annotations

import pytest

from decabench.leaderboard.entries import clean, describe_submission, printable_line
from decabench.scoring import DataUsed, LimitedRun, TaskResult


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://example.org/a?b=c", True),
        ("HTTPS://example.org", True),
        ("javascript:alert(1)", False),
        (" javascript:alert(1)", False),
        ("java\nscript:alert(1)", False),
        ("data:text/html,<script>", False),
        ("https:alert(1)", False),
        ("//example.org", False),
        ("http://[", False),
        ("https://example.org/\u202e", False),
        (7, False),
    ],
)
def test_only_web_addresses_are_kept(url: object, kept: bool) -> None:
    assert describe_submission({"name": "a", "url": url})["url"] == (url if kept else "")


def test_values_of_the_wrong_type_are_dropped() -> None:
    about = {"name": "a\u202e\n\x00b " + "x" * 500, "authors": ["A", 7, ""], "model_size": "big"}
    found = describe_submission(about)
    assert found["name"].startswith("a b xx") and len(found["name"]) == 120
    assert (found["authors"], found["model_size"]) == (("A",), None)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("al\u00adpha\u200b", "alpha"),
        ("alpha\u3164\U000e0061", "alpha"),
        ("al\u200dpha\ufe0f", "alpha"),
        ("\u3164", "unnamed"),
        ("Z" + "\u0301" * 40, "Z" + "\u0301" * 4),
        ("Systém  Ω", "Systém Ω"),
    ],
)
def test_names_that_look_alike_are_the_same(name: str, shown: str) -> None:
    assert describe_submission({"name": name})["name"] == shown


@pytest.mark.parametrize(
    ("variant", "wording"), [(None, ""), (0, ""), (1, "1"), ("1", "1"), (1.5, "1.5"), ([1], "[1]")]
)
@pytest.mark.parametrize("more", [{}, {"name": "m"}])
def test_any_stated_wording_is_another(variant: object, wording: str, more: dict[str, str]) -> None:
    found = describe_submission({"name": "a", "predictor": {**more, "variant": variant}})
    assert found["wording"] == wording


@pytest.mark.parametrize(
    "text", ["plain text", " two  spaces ", "x" * 300, "tab\there", "caf\u00e9", "a\u202eb", "\u2028"]
)
def test_a_line_is_short_and_printable(text: str) -> None:
    assert printable_line(text, 50) == printable_line(f"{text}\u200e", 50)  # invisible characters don't count
    assert printable_line(text, 50).isprintable() and len(printable_line(text, 50)) <= 50


def test_every_text_of_a_result_is_clean() -> None:
    odd = "a\u202e\nb"
    data = DataUsed(odd, odd, True, 1, None, odd)
    scores = {f"{odd}{number}": 1.0 for number in range(99)}
    found = clean(
        TaskResult("partial", odd, odd, data, scores=scores, partial=LimitedRun(1, 2, odd), reason=odd)
    )
    texts = [found.metric, found.headline, found.reason, found.data.note, found.partial.chosen]
    assert set(texts) == {"a b"} and len(found.scores) == 60 and "a b0" in found.scores
