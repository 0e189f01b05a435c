"""What commands print with, and `run.json`."""

import io
import json
import re
import time

import pytest

import decabench
from decabench.commands import _console
from decabench.commands._console import (
    Clock,
    PlainConsole,
    TableColumn,
    console,
    echo,
    format_count,
    format_score,
    print_field,
    print_table,
    start_clock,
    write_run_file,
)

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


@pytest.mark.parametrize("width", [62, 80, 140])
def test_a_table_is_laid_out_as_rich_does(width, monkeypatch, capsys):
    from rich.table import Table

    columns = [TableColumn("name"), TableColumn("n", right=True), TableColumn("what it is", is_text=True)]
    rows = [
        ["sst", "6,920", "Sentiment of films"],
        ["\N{CJK UNIFIED IDEOGRAPH-732B}", "7", "\N{CJK UNIFIED IDEOGRAPH-732B} " * 40],
        ["", "", "of many words, one of them " + "long" * 40],
        ["x\x1b[2J", "0", "two\nlines"],
    ]
    table = Table(box=None)
    for column in columns:
        table.add_column(
            column.heading,
            justify="right" if column.right else "left",
            no_wrap=not column.is_text,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*row)
    monkeypatch.setattr(_console, "terminal_width", lambda stream: width)
    console().print(table)
    expected = capsys.readouterr().out
    for out in (console(), PlainConsole()):
        assert print_table(out, columns, rows, totals=1)
        assert capsys.readouterr().out == expected


def test_text_of_strangers_does_not_act_on_the_terminal(capsys):
    from rich.table import Table

    table = Table("a\x1b[2J")
    table.add_row("b\x07\u202e")
    for print_it in (console().print, echo):
        print_it("c\x1b[31m\r\n\x9b")
        assert capsys.readouterr().out == "c\\u001b[31m\\r\n\\u009b\n"
    console().print(table)
    shown = capsys.readouterr().out
    assert r"a\u001b[2J" in shown and r"b\u0007\u202e" in shown
    echo("d\x1b", err=True, nl=False)
    assert capsys.readouterr().err == r"d\u001b"


def test_markup_of_strangers_is_text(capsys):
    console().print("[red]not red[/red] :smile:")
    assert capsys.readouterr().out == "[red]not red[/red] :smile:\n"


@pytest.mark.parametrize(("value", "text"), [(87_599, "87,599"), (0, "0"), (None, "–")])
def test_format_count(value, text):
    assert format_count(value) == text


@pytest.mark.parametrize(("value", "text"), [(75.306, "75.31"), (0.0, "0.00"), (100, "100.00"), (None, "–")])
def test_format_score(value, text):
    assert format_score(value) == text


def test_run_file(tmp_path):
    clock = start_clock()
    content = json.loads(write_run_file(tmp_path / "new", clock).read_text())
    assert (tmp_path / "new" / "run.json").exists()
    assert content["format"] == "decabench.run/1"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", content["started"])
    assert content["decabench"] == decabench.__version__
    assert content["packages"].keys() >= {"numpy", "pyarrow", "sacrebleu", "rouge-score", "datasets"}
    assert 1 < content["peak_memory_mb"] < 1_000_000
    assert content["cpus"] >= 1


def test_seconds_are_counted_from_the_start(tmp_path):
    clock = Clock("2026-01-31T00:00:00Z", time.monotonic() - 5)
    seconds = json.loads(write_run_file(tmp_path, clock).read_text())["seconds"]
    assert 5 <= seconds < 6


def test_fields_break_between_words_on_a_terminal() -> None:
    from rich.console import Console

    said = []
    for is_terminal in (True, False):
        file = io.StringIO()
        out = Console(file=file, width=40, force_terminal=is_terminal, color_system=None, soft_wrap=True)
        print_field(out, "question", "Which of these words break at forty columns?\n\nAnother line.")
        said.append(file.getvalue())
    assert said == [
        "question   Which of these words break at\n           forty columns?\n           \n           Another line.\n",
        "question   Which of these words break at forty columns?\n           \n           Another line.\n",
    ]
