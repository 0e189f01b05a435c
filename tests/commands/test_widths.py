from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from decabench.tasks.task import NAME_LENGTH
from tests.commands.test__documents import TRAINED
from tests.processes import in_terminal
from tests.test_cli import COMMANDS

ROOT = Path(__file__).parents[2]
WIDTHS = (60, 80, pytest.param(200, marks=pytest.mark.heavy))
LONGEST = "a-task.with_the-longest.name-" + "x" * (NAME_LENGTH - 29)
LONG = "fdu.health_personal_care"
"""The longest name of a built-in task, here for a custom task."""
TASK = """
format = "decabench.taskfile/1"
name = "{name}"
metric = "em"
answer = "answer"
question = "What is {{number}}?"
context = "It is {{number}}, which is as long as a line in a terminal has to be for it to go on in another one."
[files]
train = "rows.jsonl"
validation = "rows.jsonl"
"""


@pytest.fixture(
    scope="module",
    params=[pytest.param(LONG.replace("fdu", "own"), marks=pytest.mark.heavy), LONGEST],
    ids=["long", "longest"],
)
def place(request, tmp_path_factory):
    """A folder with data for sst and a task with a long name, two baseline submissions, and the task's file."""
    from decabench.runs import predict
    from decabench.scoring import ScoringOptions, score_submission
    from decabench.tasks import prepare

    place = tmp_path_factory.mktemp("widths")
    rows = [{"number": number, "answer": "yes" if number % 3 else "no"} for number in range(40)]
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (place / "own.toml").write_text(TASK.format(name=request.param))
    (place / "suite.toml").write_text(
        f'format = "decabench.suite/1"\nname = "pair"\ntitle = "Two"\ntasks = ["{request.param}", "sst"]\n'
    )
    include = [place / "own.toml", place / "suite.toml"]
    prepare(["sst"], sample=True, home=place / "home")
    prepare([request.param], home=place / "home", include=include)
    for name in ("majority", "random"):
        folder = predict(
            name, place / "submissions" / name, ["sst", request.param], home=place / "home", include=include
        )
        options = ScoringOptions(home=place / "home", include=include, tasks=["sst", request.param])
        score_submission(folder, options)[0].write()
    return place


def cases(place: Path, name: str) -> dict[str, list[object]]:
    """The arguments by command, for all commands except those for training, which print no tables."""
    majority, random = (place / "submissions" / each for each in ("majority", "random"))
    data = ["--home", place / "home", "--include", place / "own.toml", "--include", place / "suite.toml"]
    tasks = ["--tasks", f"sst,{name}"]
    settings = [f"output={place / 'run'}", "predictor=majority", f'tasks=["sst", "{name}"]', "suite=pair"]
    settings += [f"home={place / 'home'}", 'baselines=["random"]']
    settings += [f"include={[str(place / each) for each in ('own.toml', 'suite.toml')]}"]
    (place / "answers.txt").write_text("yes\n" * 40)
    (place / "words.txt").write_text("the 0.5 0.25\nsmall 0.125 1.0\n")
    asked = ["predict", "--predictor", "openai:http://localhost:1/v1", "--model", "m", *tasks, *data]
    return {
        "check": ["check", "--submission", majority, *data],
        "compare": ["compare", majority, random, *data, "--suite", "pair"],
        "evaluate": ["evaluate", majority, *data, *tasks, "--all-scores", "--confusion"],
        "export results": ["export", "results", majority],
        "export tasks": ["export", "tasks", name, "--for", "lm-eval", "--output", place / "harness", *data],
        "import": [
            *("import", "text", place / "answers.txt", "--task", name, "--output", place / "imported"),
            *("--name", "imported", "--force", *data),
        ],
        "leaderboard": ["leaderboard", "--submissions", majority.parent, "--output", place / "site", *data],
        "metrics": ["metrics"],
        "metrics selftest": ["metrics", "selftest"],
        "metrics show": ["metrics", "show", "rouge"],
        "predict": ["predict", "--predictor", "majority", *tasks, *data, "--output", place / "new"],
        "predict --dry-run": [*asked, "--dry-run", "--price-in", 1, "--price-out", 2],
        "prepare": ["prepare", "sst", name, "--sample", *data],
        "run": ["run", *(word for one in settings for word in ("--set", one))],
        "show": ["show", majority, "--task", name, "--limit", 2, "--against", random, *data],
        "suites": ["suites", *data],
        "suites show": ["suites", "show", "pair", *data],
        "tasks": ["tasks", *data],
        "tasks overlap": ["tasks", "overlap", *tasks, *data],
        "tasks show": ["tasks", "show", name, *data],
        "tasks validate": ["tasks", "validate", name, *data],
        "vectors convert": [
            *("vectors", "convert", place / "words.txt", "--force"),
            *("--output", place / "vectors.npy"),
        ],
        "verify": ["verify", "--submission", majority, *data],
    }


REVIEWED = ("review", "review queue", "review request")
"""Commands that need a repository or a queue."""


def test_the_cases_are_all_commands(place):
    commands = {name.removeprefix("decabench ") for name, found in COMMANDS.items() if found.callback}
    assert commands - {"decabench", "export", "vectors", *REVIEWED, *TRAINED} <= cases(place, "x").keys()


WITHOUT_TASKS = (
    "verify",
    "leaderboard",
    "metrics",
    "metrics selftest",
    "metrics show",
    "vectors convert",
    "export results",
)
"""Commands whose output doesn't contain the task's name as it is."""


@pytest.mark.parametrize("width", WIDTHS)
def test_tables_fit_and_names_are_whole(command, monkeypatch, place, width):
    monkeypatch.setattr("decabench.commands._console.terminal_width", lambda stream: width)
    name = re.search(r'name = "(.*)"', (place / "own.toml").read_text())[1]
    for case, arguments in cases(place, name).items():
        done = command(*arguments)
        assert done.exit_code in (0, 1) or "which is not installed" in done.output, (case, done.output)
        for line in done.stdout.splitlines():
            is_row = re.match(r" \S.* {2,}\S", line)  # sentences, which the terminal wraps, are not indented
            assert len(line.rstrip()) <= width or not is_row, (case, line)
        if case not in WITHOUT_TASKS:
            assert name in done.stdout, (case, done.stdout)
        if case in ("compare", "run", "evaluate", "tasks", "suites show", "prepare"):
            assert re.search(r"\bsst\b", done.stdout), (case, done.stdout)


@pytest.mark.parametrize("width", WIDTHS)
def test_figures_are_whole(command, monkeypatch, place, width):
    monkeypatch.setattr("decabench.commands._console.terminal_width", lambda stream: width)
    name = re.search(r'name = "(.*)"', (place / "own.toml").read_text())[1]
    arguments = cases(place, name)["compare"]
    shown = command(*arguments).stdout
    found = json.loads(command(*arguments, "--json").stdout)
    for one in found["tasks"].values():
        for figure in (
            f"{one['p']:.4f}",
            f"{one['p_holm']:.4f}",
            f"{one['a']:.2f}",
            f"{one['difference']:+.2f}",
        ):
            assert re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", shown), (figure, shown)
        if one["interval"]:
            assert "{:+.2f} to {:+.2f}".format(*one["interval"]) in shown
    scores = json.loads(command(*cases(place, name)["evaluate"], "--json").stdout)["results"]["tasks"]
    shown = command(*cases(place, name)["evaluate"]).stdout
    for task in scores.values():
        assert f"{task['score']:.2f}" in shown and "{:.1f} to {:.1f}".format(*task["interval"]) in shown


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_real_terminal(place):
    shown = shown_in(60, "tasks", "--home", place / "home")
    rows = [line for line in shown.splitlines() if line.startswith(" ")]
    assert rows and [line for line in rows if len(line.rstrip()) > 60] == []
    shown = shown_in(80, "tasks", "show", "sqaud")
    assert 2 <= len(shown.splitlines()) <= 8 and max(map(len, shown.splitlines())) <= 80
    piped = subprocess.run(
        [sys.executable, "-m", "decabench", "tasks", "show", "sqaud"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert piped.stderr.count("\n") == 1 and " ".join(shown.split()) == " ".join(piped.stderr.split())


def shown_in(width: int, *arguments: object, **environment: str) -> str:
    """Return decabench's output in a terminal of this width."""
    command = [sys.executable, "-m", "decabench", *arguments]
    return in_terminal(command, width, ROOT, **environment)[1].decode().replace("\r\n", "\n")


def test_styles_come_and_go(place):
    arguments = ("tasks", "show", "schema", "--home", place / "home")
    assert "\x1b[" in shown_in(80, "metrics")
    for shown in (
        shown_in(80, "metrics", "--no-color"),
        shown_in(80, "metrics", NO_COLOR="1"),
        shown_in(80, "--no-color", "suites", "show", "decathlon", *arguments[3:], FORCE_COLOR="1"),
    ):
        assert "\x1b" not in shown
    piped = subprocess.run(
        [sys.executable, "-m", "decabench", "suites", "show", "decathlon"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "FORCE_COLOR": "1", "NO_COLOR": ""},
    )
    assert "\x1b[1m" in piped.stdout
