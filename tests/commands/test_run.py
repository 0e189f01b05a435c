"""`decabench run`, and options from environment variables."""

import json
import sys
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


def test_a_summary(command, file, tmp_path, monkeypatch):
    """A table with the baseline, three wrong answers and the board, in that order."""
    monkeypatch.setenv("COLUMNS", "80")
    done = command("run", str(file), "--set", f"board={tmp_path / 'site'}")
    assert done.exit_code == 0, done.output
    scores, wrong, more = done.stdout.split("\n\n")
    assert scores.startswith("majority against random, validation\n")
    assert "sst" in scores and "24.5 to 59.1" in scores and "difference" in scores
    assert "Scored on the bundled sample" in scores
    assert [line.split(":")[0] for line in wrong.splitlines()[1::2]] == [
        " sst.validation.0",
        " schema.validation.0",
        " sst.validation.2",
    ]
    assert more.splitlines()[-1] == f"Board: {(tmp_path / 'site' / 'index.html').as_uri()}"
    assert (tmp_path / "site" / "index.html").exists()
    advice = [line.split(": decabench ")[1].split() for line in more.splitlines()[:-1]]
    assert [words[0] for words in advice] == ["show", "evaluate"]
    for words in advice:  # paste each command
        assert command(*words).exit_code == 0


def test_wrong_answers_come_from_the_tasks_that_have_any(command, home, tmp_path, monkeypatch):
    """Before, only the first three tasks were searched."""
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "model_that_knows_three_tasks.py").write_text(
        "from decabench.tasks import Store\n"
        "known = {item.id: item.answers[0] for task in ('sst', 'srl', 'zre') "
        f"for item in Store({str(home)!r}).references(task, 'validation')}}\n"
        "class Model:\n    def predict(self, questions):\n"
        "        return [known.get(question.id, 'nobody') for question in questions]\n"
    )
    file = tmp_path / "my.toml"
    file.write_text(
        f"predictor = 'model_that_knows_three_tasks:Model'\noutput = '{tmp_path / 'out'}'\nhome = '{home}'\n"
        "tasks = ['sst', 'schema', 'srl', 'zre']\n"
    )
    done = command("run", str(file))
    assert done.exit_code == 0, done.output
    wrong = done.stdout.split("Wrong answers\n")[1].split("\n\n")[0]
    assert wrong.count("'nobody'") == 3


def test_a_model_next_to_the_file(command, file, tmp_path, monkeypatch):
    """The command runs in another folder, and the file's paths are relative to the file's folder."""
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    model = (
        "class Model:\n    def predict(self, questions):\n        return ['positive' for _ in questions]\n"
    )
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "model_next_to_a_file.py").write_text(model)
    text = file.read_text().replace("'majority'", "'model_next_to_a_file:Model'")
    (tmp_path / "models" / "my.toml").write_text(text.replace(f"'{tmp_path / 'out'}'", "'out'"))
    done = command("run", "models/my.toml")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "submission.toml").exists()


def test_json(command, file):
    done = command("run", str(file), "--json")
    assert str(file.parent) not in sys.path  # only added for a model that the file names
    content = json.loads(done.stdout)
    assert content["format"] == "decabench.outcome/1"
    assert content["results"]["tasks"]["sst"]["score"] == 40.625
    assert content["comparisons"]["random"]["tasks"]["sst"]["b"] == 40.625


def test_a_dry_run(command, file, tmp_path):
    done = command("run", str(file), "--dry-run")
    assert done.exit_code == 0 and "No questions were asked." in done.stdout
    assert not (tmp_path / "out").exists()


def test_a_dry_run_after_a_run_knows_its_speed(command, home, tmp_path):
    """Before, only `decabench predict` wrote run.json, so the time was unknown."""
    settings = [f"--set={pair}" for pair in (f"output={tmp_path / 'a'}", "tasks=sst", f"home={home}")]
    assert command("run", "--set=predictor=majority", *settings).exit_code == 0
    content = json.loads((tmp_path / "a" / "run.json").read_text())
    assert content["format"] == "decabench.run/1"
    assert [(row["task"], row["answered"]) for row in content["tasks"]] == [("sst", 32)]
    done = command("run", "--set=predictor=majority", *settings, "--dry-run")
    assert done.exit_code == 0 and "Time: unknown" not in done.stdout
    assert (
        command("run", "--set=predictor=majority", *settings).exit_code == 0
    )  # sends no questions and prints nothing new
    assert json.loads((tmp_path / "a" / "run.json").read_text()) == content


def test_without_a_file(command, home, tmp_path):
    settings = [f"--set={pair}" for pair in ("predictor=majority", f"output={tmp_path / 'a'}", "tasks=sst")]
    done = command("run", *settings, f"--set=home={home}")
    assert done.exit_code == 0 and (tmp_path / "a" / "run.toml").exists()
    assert command("run").exit_code == 2


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


def test_several_models(command, home, tmp_path):
    path = tmp_path / "models.toml"
    path.write_text(
        f"""output = "{tmp_path / "runs"}"\ntasks = ["sst"]\nhome = "{home}"\npredict = {{ sample = 20 }}
        [[models]]\npredictor = "majority"
        [[models]]\npredictor = "random"\nseeds = [1, 2]"""
    )
    done = command("run", path)
    assert done.exit_code == 0, done.output
    assert "2 models, validation" in done.stdout and done.stdout.count("Partial: sst") == 1
    assert done.stderr.count("Answers: random\n") == 2  # a server's model would be named after its URL
    assert sorted(each.name for each in (tmp_path / "runs").iterdir()) == [
        "majority",
        "random-seed1",
        "random-seed2",
    ]
    assert len(json.loads(command("run", path, "--json").stdout)["rows"]) == 2
    assert command("run", tmp_path / "runs" / "majority" / "run.toml").exit_code == 0  # the run's own file
    path.write_text(path.read_text() + '\n[[models]]\npredictor = "majority"')
    assert "Several models would write to" in command("run", path).stderr


def test_a_model_that_fails_costs_no_other_model(command, home, tmp_path):
    path = tmp_path / "models.toml"
    path.write_text(
        f"""output = '{tmp_path / "out"}'\ntasks = ["sst"]\nhome = '{home}'\njobs = 1
        [[models]]\npredictor = "hf:{tmp_path / "absent"}"
        [[models]]\npredictor = "majority"
        [[models]]\npredictor = "random" """
    )
    done = command("run", path)
    assert done.exit_code == 4
    assert "2 models, validation" in done.stdout and "majority" in done.stdout and "random" in done.stdout
    assert "Failed:" in done.stderr and "there is no folder" in done.stderr
    path.write_text(path.read_text().replace('predictor = "random"', 'predictor = "hf:./nowhere"'))
    assert "majority" in command("run", path).stdout  # only one model is left


def test_a_price_that_the_last_model_lacks_is_reported_before_the_first_answers(command, home, tmp_path):
    (tmp_path / "prices.toml").write_text("[first-choice]\nin = 1\nout = 2\n")
    path = tmp_path / "models.toml"
    path.write_text(
        f"""output = "{tmp_path / "runs"}"\ntasks = ["sst"]\nhome = "{home}"
        predict = {{ prices = "{tmp_path / "prices.toml"}", max_cost = 3 }}
        [[models]]\npredictor = "first-choice"
        [[models]]\npredictor = "random" """
    )
    done = command("run", path)
    assert done.exit_code != 0 and "random" in done.stderr and not (tmp_path / "runs").exists(), done.output
