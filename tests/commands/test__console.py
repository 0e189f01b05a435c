import ast
import importlib.util
import io
import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

import decabench
from decabench.cli import cli
from decabench.commands import _console
from decabench.commands._console import (
    TableColumn,
    console,
    echo,
    print_field,
    print_table,
    write_run_file,
)
from decabench.errors import DecabenchError, UnknownNameError
from decabench.tasks import DECATHLON, Question, choose_tasks
from tests.sources import modules

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
    assert " ".join(shown[30][3:]) == "Not shown: text (widen the window, or use --json)."
    assert shown[12][:3] == ["sst", "  n     6,920", f"  text  {SENTENCE.rstrip()} "]


def test_a_long_word_next_to_a_label_is_indented(monkeypatch, capsys):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setattr(_console, "terminal_width", lambda stream: 60)
    address = f"(https://example.org/{'a' * 80})"
    print_field(console(), "sources", f"SST {address}")
    assert capsys.readouterr().out.splitlines() == ["sources    SST", f"           {address}"]


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


def test_run_file(tmp_path, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 10.5)  # the clock may be set during a run
    content = json.loads(write_run_file(tmp_path / "new", time.monotonic() - 9).read_text())
    assert (tmp_path / "new" / "run.json").exists()
    assert content["format"] == "decabench.run/1"
    assert content["started"] == "1970-01-01T00:00:01Z" and 9 <= content["seconds"] < 9.5
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


# No command lets untrusted text act on the terminal: escape sequences, bells, carriage returns, directions


HOSTILE = "\x1b[2J\x1b]0;own\x07\x9b31m\r\t\x08\x7f\u202e\u2066\u2028 good"
ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
TOML_HOSTILE = json.dumps(HOSTILE)  # ASCII escapes, which TOML reads the same way


class Says:
    """Always gives the same answer."""

    def __init__(self, setting: object) -> None: ...

    def predict(self, questions: Sequence[Question]) -> list[str]:
        return [HOSTILE for _ in questions]


class SaysOther(Says):
    """Gives another hostile answer."""

    def predict(self, questions: Sequence[Question]) -> list[str]:
        return ["\x1b[2J other" for _ in questions]


class Fails:
    """Fails on every question."""

    def __init__(self, setting: object) -> None: ...

    def predict(self, questions: Sequence[Question]) -> list[str]:
        raise ValueError(HOSTILE)


def run(*arguments: object, code: int | None = 0) -> str:
    """Run a command, check its output and return it. With `code` None, any failure except a bug is accepted."""
    done = CliRunner(catch_exceptions=False).invoke(cli, list(map(str, arguments)))
    printed = done.stdout + done.stderr
    assert done.exit_code == code or (code is None and 1 <= done.exit_code <= 4), printed
    found = ACTS.search(printed)
    assert found is None, f"{found[0]!r} in {printed[max(0, found.start() - 200) : found.end() + 80]!r}"
    return printed


@pytest.fixture(autouse=True)
def no_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo the effects of --debug after the test."""
    monkeypatch.setenv("DECABENCH_DEBUG", "")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a hostile task, suite and template, prepared data, and two submissions."""
    place = tmp_path_factory.mktemp("hostile")
    rows = [
        {"key": f"{number}", "q": HOSTILE, "c": f"{HOSTILE} {number}", "a": HOSTILE} for number in range(30)
    ]
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    about = "".join(
        f"{key} = {TOML_HOSTILE}\n" for key in ("title", "dataset", "licence", "citation", "notes")
    )
    variant = f'[[variants]]\nname = "other"\nquestion = {json.dumps(HOSTILE + "{question}")}\n'
    (place / "task.toml").write_text(
        f'format = "decabench.taskfile/1"\nname = "hostile"\nmetric = "nf1"\nid = "key"\nquestion = "{{q}}"\n'
        f'context = "{{c}}"\nanswer = "a"\n{about}[files]\nvalidation = "rows.jsonl"\n{variant}'
    )
    include, home = ("--include", place / "task.toml"), ("--home", place / "home")
    run("prepare", "hostile", "--split", "validation", *include, *home)
    for name, predictor in (("says", f"{__name__}:Says"), ("other", f"{__name__}:SaysOther")):
        run(
            "predict",
            "--tasks",
            "hostile",
            "--predictor",
            predictor,
            "--output",
            place / name,
            *include,
            *home,
        )
    return place


@pytest.fixture
def options(place: Path) -> tuple[object, ...]:
    return "--include", place / "task.toml", "--home", place / "home"


def test_data(place: Path, options: tuple[object, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    assert r"\u001b[2J" in run("tasks", *options)
    shown = run("tasks", "show", "hostile", *options)
    assert r"question   \u001b[2J\u001b]0;own\u0007\u009b31m\r\t\u0008\u007f\u202e\u2066\u2028 good" in shown
    run("tasks", "validate", "hostile", *options, code=1)  # all answers are the same


def test_prompts(place: Path, options: tuple[object, ...]) -> None:
    predict = (
        "predict",
        "--predictor",
        "openai:http://localhost:1",
        "--model",
        "m",
        "--output",
        place / "none",
    )
    assert r"\u001b[2J" in run(*predict, "--show-prompt", "hostile", *options)


def test_answers(place: Path, options: tuple[object, ...]) -> None:
    a, b = place / "says", place / "other"
    assert r"A        \u001b[2J" in run("compare", a, b, "--flips", "3", *options)
    content = run("compare", a, b, "--json", *options)
    assert json.loads(content)["tasks"]["hostile"]["worst"][0]["a"] == HOSTILE
    for folder in (a, b):
        run("check", "--submission", folder, *options)
        run("evaluate", "--submission", folder, *options)
        run("verify", "--submission", folder, *options)


def test_submissions(place: Path, options: tuple[object, ...], tmp_path: Path) -> None:
    folder = tmp_path / "bad\x1b[2J\u202e"
    (folder / "predictions").mkdir(parents=True)
    (folder / "submission.toml").write_text(
        f"format = {TOML_HOSTILE}\nname = {TOML_HOSTILE}\nurl = {TOML_HOSTILE}\n{TOML_HOSTILE} = 1\n"
        f"[predictor]\n{TOML_HOSTILE} = inf\n[data]\n{TOML_HOSTILE} = 1\n[partial.{TOML_HOSTILE}]\n{TOML_HOSTILE} = 1\n"
    )
    lines = [
        json.dumps({"id": HOSTILE, "answer": HOSTILE}),
        json.dumps({HOSTILE: 1}),
        json.dumps(HOSTILE),
        HOSTILE,
    ]
    lines += [json.dumps({"id": "1", "answer": HOSTILE, "finish": HOSTILE, "context_kept": HOSTILE})]
    lines += [f"{{{TOML_HOSTILE}: 1, {TOML_HOSTILE}: 1}}"]
    for name in ("hostile.validation.jsonl", f"{HOSTILE}.validation.jsonl", f"{HOSTILE}.jsonl", HOSTILE):
        (folder / "predictions" / name).write_text("\n".join(lines) + "\n")
    (folder / HOSTILE).write_text("")
    assert r"\x1b[2J" in run("check", "--submission", folder, *options, code=1)
    assert json.loads(run("check", "--submission", folder, "--json", *options, code=1))["ok"] is False
    run("evaluate", "--submission", folder, *options, code=1)
    run("verify", "--submission", folder, *options, code=3)
    run("check", "--submission", folder / "predictions" / HOSTILE, *options, code=1)


def test_failures(place: Path, options: tuple[object, ...], tmp_path: Path) -> None:
    predict = ("predict", "--tasks", "hostile", *options)
    run(*predict, "--predictor", f"{__name__}:Fails", "--output", tmp_path / "a", code=None)
    program = tmp_path / "program.py"
    program.write_text(f"print({HOSTILE!r})")
    run(*predict, "--predictor", f"command:python {program}", "--output", tmp_path / "b", code=None)
    run(*predict, "--predictor", HOSTILE, "--output", tmp_path / "c", code=None)
    run("tasks", "show", HOSTILE, code=None)
    run("check", "--submission", tmp_path / HOSTILE, code=None)
    run(HOSTILE, code=None)
    run("tasks", "show", "hostile", "--include", tmp_path / f"{HOSTILE}.toml", code=None)
    run("tasks", "show", "hostile", "--home", tmp_path / HOSTILE, "--include", place / "task.toml")


def test_a_bug_prints_its_text_safely(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError(HOSTILE)

    monkeypatch.setattr("decabench.tasks.known_tasks", fail)
    for debug in ((), ("--debug",)):
        assert r"Unexpected ZeroDivisionError: \u001b[2J" in run("tasks", *debug, code=70)


def test_commands_print_with_echo_and_console_only() -> None:
    found = []
    for module, path in modules().items():
        if module.startswith("decabench.commands.") and path.name != "_console.py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                name = (
                    ast.unparse(node.func)
                    if isinstance(node, ast.Call)
                    else ast.unparse(node)
                    if isinstance(node, ast.Attribute)
                    else ""
                )
                if name in ("print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write"):
                    found.append(f"{module}: {name}")
    assert found == []


def test_the_tasks_that_are_chosen(tmp_path: Path) -> None:
    assert choose_tasks(()) is None
    assert choose_tasks(("all",)) is None
    assert choose_tasks(("sst, squad", "sst")) == ["sst", "squad"]
    assert choose_tasks((), "decathlon") == list(DECATHLON.tasks)
    assert choose_tasks(("all",), "decathlon") == list(DECATHLON.tasks)
    assert choose_tasks(("zre,sst",), "decathlon") == ["zre", "sst"]
    path = tmp_path / "two.toml"
    path.write_text('format = "decabench.suite/1"\nname = "two"\ntasks = ["sst", "schema"]\n')
    assert choose_tasks((), "two", [path]) == ["sst", "schema"]
    with pytest.raises(
        DecabenchError, match="--tasks lists squad, zre, but the suite two contains only sst, schema"
    ):
        choose_tasks(("squad,sst,zre",), "two", [path])
    with pytest.raises(DecabenchError, match="--tasks is empty"):
        choose_tasks((" ,",))
    with pytest.raises(UnknownNameError, match=r"no suite 'tow'\. Did you mean two"):
        choose_tasks((), "tow", [path])
    with pytest.raises(UnknownNameError, match=r"no task 'ssst'\. Did you mean sst"):
        choose_tasks(("ssst",), "two", [path])


def test_help_of_the_commands_loads_no_room_of_the_options() -> None:
    program = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from decabench.cli import cli\n"
        "assert 'predict' in CliRunner().invoke(cli, ['--help']).output\n"
        "assert 'decabench.runs' not in sys.modules\n"
        "assert '--temperature' in CliRunner().invoke(cli, ['predict', '--help']).output\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    "arguments", [("train", "--output", "run"), ("analyze", "pointers", ".", "--output", "x")]
)
def test_a_missing_extra_is_wrong_usage_everywhere(command, monkeypatch, arguments):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = command(*arguments)
    assert done.exit_code == 2 and "requires torch and safetensors, which are not installed. " in done.stderr
