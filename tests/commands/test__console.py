"""What commands print with."""

import pytest

from decabench.commands._console import console, format_count, format_score

SENTENCE = "A sentence of many words. " * 20


def test_a_sentence_is_one_line_in_a_pipe(capsys):
    console().print(SENTENCE)
    console(stderr=True).print(SENTENCE)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (f"{SENTENCE}\n", f"{SENTENCE}\n")


def test_a_table_is_not_wider_than_a_page(capsys):
    from rich.table import Table

    table = Table("a", "b", box=None)
    table.add_row("x", SENTENCE)
    console().print(table)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 3 and max(map(len, lines)) <= 140


def test_markup_of_strangers_is_text(capsys):
    console().print("[red]not red[/red] :smile:")
    assert capsys.readouterr().out == "[red]not red[/red] :smile:\n"


@pytest.mark.parametrize(("value", "text"), [(87_599, "87,599"), (0, "0"), (None, "–")])
def test_format_count(value, text):
    assert format_count(value) == text


@pytest.mark.parametrize(("value", "text"), [(75.306, "75.31"), (0.0, "0.00"), (100, "100.00"), (None, "–")])
def test_format_score(value, text):
    assert format_score(value) == text
