"""Text of others, made fit for a sentence and for a file."""

import pytest

from decabench.text import describe_error, excerpt, well_formed


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("short", "short"),
        ("  two\r\n\tlines  ", "two lines"),
        ("\x1b[31mred\x07\x00", "[31mred"),
        ("Größe \u202e 東京", "Größe 東京"),
        ("x" * 20, "x" * 10 + "…"),
        ("x" * 10, "x" * 10),
    ],
)
def test_excerpt(text, shown):
    assert excerpt(text, 10) == shown


def test_an_excerpt_of_a_flood_is_quick():
    assert excerpt("a " * 500_000, 5) == "a a a…"


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("plain", "plain"),
        ("Größe 🎉", "Größe 🎉"),
        ("\ud83d\ude00", "\U0001f600"),
        ("a\ud83db", "a\ufffdb"),
        ("\ude00", "\ufffd"),
    ],
)
def test_well_formed(text, whole):
    assert well_formed(text) == whole
    well_formed(text).encode()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no"), "ValueError: no"),
        (ValueError(), "ValueError"),
        (SystemExit(3), "SystemExit: 3"),
        (OSError("two\nlines \ud800"), "OSError: two lines"),
        (ValueError("x" * 400), "ValueError: " + "x" * 300 + "…"),
    ],
)
def test_of_error(error, said):
    assert describe_error(error) == said
