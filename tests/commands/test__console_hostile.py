"""No command lets text of strangers act on the terminal: escape sequences, bells, carriage returns, directions."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from decabench.cli import cli
from decabench.tasks import Question
from tests.sources import modules

HOSTILE = "\x1b[2J\x1b]0;own\x07\x9b31m\r\t\x08\x7f\u202e\u2066\u2028 good"
ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
TOML_HOSTILE = json.dumps(HOSTILE)  # ASCII escapes, which TOML reads the same way


class Says:
    """Answers alike."""

    def __init__(self, setting: object) -> None: ...

    def predict(self, questions: Sequence[Question]) -> list[str]:
        return [HOSTILE for _ in questions]


class SaysOther(Says):
    """Answers something else, which is as hostile."""

    def predict(self, questions: Sequence[Question]) -> list[str]:
        return ["\x1b[2J other" for _ in questions]


class Fails:
    """Never answers."""

    def __init__(self, setting: object) -> None: ...

    def predict(self, questions: Sequence[Question]) -> list[str]:
        raise ValueError(HOSTILE)


def run(*arguments: object, code: int | None = 0) -> str:
    """Run a command, check what it printed, and return that; a `code` of None is any failure but a bug."""
    done = CliRunner(catch_exceptions=False).invoke(cli, list(map(str, arguments)))
    printed = done.stdout + done.stderr
    assert done.exit_code == code or (code is None and 1 <= done.exit_code <= 4), printed
    found = ACTS.search(printed)
    assert found is None, f"{found[0]!r} in {printed[max(0, found.start() - 200) : found.end() + 80]!r}"
    return printed


@pytest.fixture(autouse=True)
def no_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    """What --debug sets goes away with the test."""
    monkeypatch.setenv("DECABENCH_DEBUG", "")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a hostile task, suite and template, prepared data, and two submissions that answer it."""
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


def test_data(place: Path, options: tuple[object, ...]) -> None:
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


def test_results(place: Path, options: tuple[object, ...], tmp_path: Path) -> None:
    (record,) = (place / "says").rglob("results.json") if (place / "says" / "results").exists() else [None]
    if record is None:
        run("evaluate", "--submission", place / "says", *options)
        (record,) = (place / "says").rglob("results.json")
    content = json.loads(record.read_text())
    content["submission"]["name"] = content["decabench"] = HOSTILE
    content["tasks"]["hostile"]["metric"] = HOSTILE
    (tmp_path / "results.json").write_text(json.dumps(content))
    (tmp_path / f"{HOSTILE}.results.json").write_text("{")
    run("verify", "--submission", place / "says", "--results", tmp_path / "results.json", *options, code=1)
    run(
        "leaderboard", "--submissions", tmp_path, "--output", tmp_path / "board", code=1
    )  # none is of the suite


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


def test_toml(tmp_path: Path) -> None:
    keys = f"{TOML_HOSTILE} = {TOML_HOSTILE}\n"
    for text, code in [
        (f"format = {TOML_HOSTILE}", 2),
        (f'format = "decabench.taskfile/1"\nname = {TOML_HOSTILE}\nmetric = {TOML_HOSTILE}\n{keys}', 3),
        (f'format = "decabench.suite/1"\nname = {TOML_HOSTILE}\ntasks = [{TOML_HOSTILE}]\n{keys}', 3),
        ("x = '\x1b[2J'", 3),
        (f"{TOML_HOSTILE} = 1\n{TOML_HOSTILE} = 1", 3),
    ]:
        (tmp_path / "a.toml").write_text(text)
        run("tasks", "--include", tmp_path / "a.toml", code=code)
        run("tasks", "--include", tmp_path / "a.toml", "--debug", code=code)
    (tmp_path / "suite.toml").write_text(
        f'format = "decabench.suite/1"\nname = "own"\ntitle = "Own"\ntasks = ["sst"]\ndescription = {TOML_HOSTILE}\n'
    )
    done = CliRunner().invoke(cli, ["suites", "show", "own", "--include", str(tmp_path / "suite.toml")])
    assert not ACTS.search(done.output)


def test_a_bug_prints_its_text_safely(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError(HOSTILE)

    monkeypatch.setattr("decabench.tasks.known_tasks", fail)
    for debug in ((), ("--debug",)):
        assert r"Unexpected ZeroDivisionError: \u001b[2J" in run("tasks", *debug, code=70)


def test_commands_print_with_echo_and_console_only() -> None:
    """`click.echo` and `print` write what they are given."""
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
