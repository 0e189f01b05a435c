"""`decabench run`, and options from variables."""

import json
from pathlib import Path

import pytest


@pytest.fixture
def file(tmp_path, home):
    path = tmp_path / "my.toml"
    path.write_text(
        f"predictor = 'majority'\noutput = '{tmp_path / 'out'}'\ntasks = ['sst', 'schema']\nhome = '{home}'\n"
        "baselines = ['random']\n"
    )
    return path


def test_a_summary_that_fits_80_columns(command, file, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = command("run", str(file))
    assert done.exit_code == 0, done.output
    table = done.stdout.split("\n\n")
    assert "sst" in table[0] and "24.5 to 59.1" in table[0] and "Against random" in table[1]
    assert all(len(line) <= 80 for part in table[:2] for line in part.splitlines())
    assert f"Submission: {tmp_path / 'out'}" in done.stdout
    assert "Scored on the bundled sample" in done.stdout
    advice = [
        line.split(": decabench ")[1].split() for line in done.stdout.splitlines() if ": decabench " in line
    ]
    assert [words[0] for words in advice] == ["show", "evaluate", "leaderboard"]
    for words in advice[:2]:  # as pasted
        assert command(*words).exit_code == 0


def test_json(command, file):
    done = command("run", str(file), "--json")
    content = json.loads(done.stdout)
    assert content["format"] == "decabench.outcome/1"
    assert content["results"]["tasks"]["sst"]["score"] == 40.625
    assert content["comparisons"]["random"]["tasks"]["sst"]["b"] == 40.625


def test_a_dry_run(command, file, tmp_path):
    done = command("run", str(file), "--dry-run")
    assert done.exit_code == 0 and "Nothing was asked." in done.stdout
    assert not (tmp_path / "out").exists()


def test_a_dry_run_after_a_run_knows_its_speed(command, home, tmp_path):
    """Only `decabench predict` wrote run.json, so that the time stayed unknown."""
    settings = [f"--set={pair}" for pair in (f"output={tmp_path / 'a'}", "tasks=sst", f"home={home}")]
    assert command("run", "--set=predictor=majority", *settings).exit_code == 0
    content = json.loads((tmp_path / "a" / "run.json").read_text())
    assert content["format"] == "decabench.run/1"
    assert [(row["task"], row["answered"]) for row in content["tasks"]] == [("sst", 32)]
    done = command("run", "--set=predictor=majority", *settings, "--dry-run")
    assert done.exit_code == 0 and "Time: unknown" not in done.stdout
    assert (
        command("run", "--set=predictor=majority", *settings).exit_code == 0
    )  # asks nothing, and says nothing new
    assert json.loads((tmp_path / "a" / "run.json").read_text()) == content


def test_without_a_file(command, home, tmp_path):
    settings = [f"--set={pair}" for pair in ("predictor=majority", f"output={tmp_path / 'a'}", "tasks=sst")]
    done = command("run", *settings, f"--set=home={home}")
    assert done.exit_code == 0 and (tmp_path / "a" / "run.toml").exists()
    assert command("run").exit_code == 2


def test_wrong_settings_and_a_broken_file_are_2(command, file, tmp_path):
    done = command("run", str(file), "--set", "predict.lmit=3")
    assert (done.exit_code, "Did you mean limit" in done.stderr) == (2, True)
    broken = tmp_path / "broken.toml"
    broken.write_text("predictor = ")
    assert command("run", str(broken)).exit_code == 2


def test_any_option_from_a_variable(command, home, tmp_path, monkeypatch):
    values = {
        "PREDICTOR": "majority",
        "TASKS": "sst",
        "OUTPUT": str(tmp_path / "v"),
        "HOME": str(home),
        "LIMIT": "3",
    }
    for name, value in values.items():
        monkeypatch.setenv(f"DECABENCH_PREDICT_{name}", value)
    done = command("predict")
    assert done.exit_code == 0, done.output
    assert len(Path(tmp_path / "v" / "predictions" / "sst.validation.jsonl").read_text().splitlines()) == 3


def test_a_limited_run_says_why_it_is_not_compared(command, file):
    """It advised `decabench compare`, which refuses limited runs."""
    done = command("run", str(file), "--set", "predict.limit=5")
    assert done.exit_code == 0
    assert "Not compared with random: limited runs are compared with nothing." in done.stdout
    assert "decabench compare" not in done.stdout
    assert "Compare it: run this again without predict.limit, which keeps what was answered." in done.stdout
    done = command("run", str(file))
    assert done.exit_code == 0 and "Against random" in done.stdout
