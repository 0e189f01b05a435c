from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from decabench.cli import cli
from decabench.metrics import METRICS
from decabench.tasks import SUITES, TASKS
from tests.test_cli import HEAVY

ROOT = Path(__file__).parents[2]


def completed(line: str) -> list[str]:
    """Return the completions of the last word of a line."""
    *words, incomplete = line.split(" ")[1:]
    found = ShellComplete(cli, {}, "decabench", "_DECABENCH_COMPLETE").get_completions(words, incomplete)
    return [each.value for each in found]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("decabench e", ["evaluate", "export"]),
        ("decabench tasks v", ["validate"]),
        ("decabench evaluate --all-s", ["--all-scores"]),
        ("decabench predict --pric", ["--prices", "--price-in", "--price-out"]),
        ("decabench --js", ["--json"]),
        ("decabench prepare wiki", ["wikisql"]),
        ("decabench tasks show multinli", ["multinli.in.out"]),
        ("decabench evaluate --tasks squ", ["squad", "squad2"]),
        ("decabench evaluate --tasks sst,squ", ["sst,squad", "sst,squad2"]),
        ("decabench evaluate --suite deca", ["decathlon"]),
        ("decabench suites show jmt", ["jmt", "jmt.ptb"]),
        ("decabench predict --predictor maj", ["majority"]),
        ("decabench predict --predictor h", ["hf:"]),
        ("decabench tasks show nonsense", []),
    ],
)
def test_completions(line: str, expected: list[str]) -> None:
    assert completed(line) == expected


def test_all_names_are_offered() -> None:
    assert completed("decabench tasks show ") == list(TASKS)
    assert completed("decabench suites show ") == list(SUITES)
    assert completed("decabench metrics show ") == list(METRICS)


def test_tasks_of_your_own(own_task, monkeypatch) -> None:
    path = own_task(["a"])
    assert completed(f"decabench tasks show --include {path} own") == ["own"]
    monkeypatch.setenv("DECABENCH_INCLUDE", str(path))
    assert completed("decabench tasks show own") == ["own"]
    path.write_text("not TOML [")
    assert completed("decabench tasks show own") == []


def ask_bash(line: str) -> str:
    """Return bash's completions of a line, using the script that the README's line evaluates."""
    script = (
        f'eval "$(_DECABENCH_COMPLETE=bash_source decabench)"; COMP_WORDS=({line}); '
        'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _decabench_completion decabench; echo "${COMPREPLY[@]}"'
    )
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_in_bash(tmp_path, monkeypatch) -> None:
    code = "import sys; sys.argv[0] = 'decabench'; from decabench.cli import main; main()"
    shim = tmp_path / "decabench"
    shim.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -c "{code}" "$@"\n')
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert ask_bash("decabench ev").split() == ["evaluate"]
    assert ask_bash("decabench evaluate --tasks sst,wiki").split() == ["sst,wikisql"]
    for shell in ("zsh", "fish"):
        environment = {**os.environ, "_DECABENCH_COMPLETE": f"{shell}_source"}
        done = subprocess.run(["decabench"], env=environment, capture_output=True, text=True, check=True)
        assert "_DECABENCH_COMPLETE" in done.stdout


def test_completion_loads_nothing_heavy() -> None:
    code = (
        "import json, sys\nfrom click.shell_completion import ShellComplete\nfrom decabench.cli import cli\n"
        "for line in sys.argv[1:]:\n"
        "    *words, last = line.split(' ')\n"
        "    assert ShellComplete(cli, {}, 'decabench', '_DECABENCH_COMPLETE').get_completions(words, last)\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    command = [sys.executable, "-c", code, "e", "prepare sq", "predict --predictor m"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert {name.partition(".")[0] for name in json.loads(done.stdout)} & HEAVY == set()
