"""Text of unknown origin, made fit for a message, a terminal or a file."""

import json

import pytest

from decabench.text import describe_error, excerpt, printable, quoted, short_list, terminal_safe, well_formed


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
def test_describe_error(error, said):
    assert describe_error(error) == said


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain", "'plain'"), ("a\nb\x1b", r"'a\nb\x1b'"), ("x" * 10, "'" + "x" * 7 + "…'")],
)
def test_quoted(text, shown):
    assert quoted(text, 8) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [("Größe.txt", "Größe.txt"), ("a\x1b[31m", r"a\x1b[31m"), ("a\udcff", r"a\udcff")],
)
def test_printable(name, shown):
    assert printable(name) == shown


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


def test_long_lists_of_files_are_cut() -> None:
    assert short_list(["a", "b", "c"]) == "a, b, c"
    assert short_list([f"wsj_{number:02}" for number in range(25)]) == "wsj_00, wsj_01, …, wsj_24 (25 files)"
