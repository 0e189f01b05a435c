"""What commands print with, and `run.json`."""

import io
import json
import re

import decabench
from decabench.commands import _console
from decabench.commands._console import (
    TableColumn,
    console,
    echo,
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


def test_a_table_loses_columns_and_then_becomes_a_list(monkeypatch, capsys):
    columns = [TableColumn("name"), TableColumn("n", right=True), TableColumn("text", rank=1, is_text=True)]
    rows = [["sst", "6,920", SENTENCE], ["x\x1b[2J", "7", "two\nlines"]]
    shown = {}
    for width in (60, 30, 12):
        monkeypatch.setattr(_console, "terminal_width", lambda stream, width=width: width)
        assert print_table(console(), columns, rows, totals=1) == (width != 30)
        shown[width] = capsys.readouterr().out.splitlines()
    assert {len(line) for line in shown[60]} == {60} and " ".join(shown[60]).split().count("words.") == 20
    assert [line.split() for line in shown[30][:3]] == [["name", "n"], ["sst", "6,920"], [r"x\u001b[2J", "7"]]
    assert shown[30][3:] == ["Text: in a wider window, or with --json."]
    assert shown[12][:3] == ["sst", "  n     6,920", f"  text  {SENTENCE.rstrip()} "]


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
