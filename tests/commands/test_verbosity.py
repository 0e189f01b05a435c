from __future__ import annotations

import json
from unittest.mock import Mock

import pytest


def test_quiet_prints_the_result_alone(command, home, tmp_path):
    prepare = ["prepare", "sst", "--sample", "--home", tmp_path / "home", "--force"]
    loud, quiet = command(*prepare), command(*prepare, "--quiet")
    assert "Preparing sst" in loud.stderr and quiet.stderr == ""
    assert quiet.stdout and quiet.stdout == loud.stdout
    predict = ["predict", "--predictor", "majority", "--tasks", "sst", "--home", home]
    loud, quiet = (
        command(*predict, "--output", tmp_path / "a"),
        command("--quiet", *predict, "--output", tmp_path / "b"),
    )
    assert "sst: 32 of 32" in loud.stderr and quiet.stderr == ""
    assert "sst" in quiet.stdout
    run = ["run"]
    for one in (f"output={tmp_path / 'r'}", "predictor=majority", 'tasks=["sst"]', f"home={home}"):
        run += ["--set", one]
    loud, quiet = command(*run), command(*run, "--quiet")
    assert "decabench show" in loud.stdout and "decabench show" not in quiet.stdout
    assert "40.62" in quiet.stdout and quiet.stderr == ""


def test_quiet_says_nothing_of_columns_left_out(command, monkeypatch, home, submit):
    monkeypatch.setattr("decabench.commands._console.terminal_width", lambda stream: 80)
    pair = ["compare", submit("majority", ["sst"]), submit("random", ["sst"]), "--home", home, "--flips", 0]
    assert "Not shown: " in command(*pair).stdout
    assert "Not shown: " not in command(*pair, "--quiet").stdout


def test_quiet_keeps_errors_and_what_was_asked_for(command, home, submit):
    done = command("--quiet", "tasks", "show", "sqaud")
    assert done.exit_code == 2 and "Did you mean squad" in done.stderr
    pair = ["compare", submit("oracle", ["sst"]), submit("majority", ["sst"]), "--home", home, "--quiet"]
    done = command(*pair, "--fail-on-regression", "sst:1")
    assert done.exit_code == 1 and "Regression: on sst" in done.stderr


def test_warnings_are_quiet_too(command, monkeypatch, home, submit):
    import warnings

    folder = submit("majority", ["sst"])

    def warn(*arguments, **options):
        warnings.simplefilter("default")
        warnings.warn("It is old.", stacklevel=1)
        raise KeyboardInterrupt

    monkeypatch.setattr("decabench.scoring.score_submission", warn)
    assert "It is old" in command("evaluate", folder, "--home", home).stderr
    assert "It is old" not in command("evaluate", folder, "--home", home, "--quiet").stderr


def test_settings_do_not_outlive_a_call(command):
    command("metrics", "--json")
    command("metrics", "--quiet", "--no-color")
    assert not command("metrics").stdout.startswith("{")


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (ZeroDivisionError("by \x1b nought"), 70)]
)
def test_an_interruption_and_a_bug_are_json_too(command, monkeypatch, home, submit, error, code):
    monkeypatch.setattr("decabench.scoring.score_submission", Mock(side_effect=error))
    done = command("evaluate", submit("majority", ["sst"]), "--home", home, "--json")
    assert done.exit_code == code and "\x1b" not in done.output
    kind = "Interrupted" if code == 130 else "ZeroDivisionError"
    assert json.loads(done.stdout)["error"]["kind"] == kind


def test_quiet_gives_no_advice(command, home, tmp_path):
    given = ["--home", home, "--quiet"]
    done = command("export", "tasks", "sst", "--for", "lm-eval", "--output", tmp_path / "t", *given)
    assert done.exit_code == 0 and "To run the tasks" not in done.output
    folder = tmp_path / "s"
    done = command("predict", "--predictor", "majority", "--tasks", "sst", "--output", folder, *given)
    assert done.exit_code == 0 and "Peak memory" not in done.output and "Wrote majority" in done.output


def test_the_variable_that_names_a_file_is_named(command, monkeypatch):
    monkeypatch.setenv("DECABENCH_INCLUDE", "nofile.toml")
    assert "The variable DECABENCH_INCLUDE refers to nofile.toml, which does not" in command("tasks").stderr
    monkeypatch.delenv("DECABENCH_INCLUDE")
    assert "--include refers to nofile.toml" in command("tasks", "--include", "nofile.toml").stderr
