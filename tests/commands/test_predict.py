"""`decabench predict`."""

import json
import tomllib

import pytest

from decabench.predicting import PART
from decabench.predictors import PREDICTORS
from decabench.tasks import DECATHLON


@pytest.mark.parametrize("name", PREDICTORS)
def test_every_predictor(command, home, tmp_path, name):
    options = ["--tasks", "sst,schema", "--home", home, "--output", tmp_path / "s"]
    done = command("predict", "--predictor", name, *options)
    assert done.exit_code == 0
    assert f"Wrote {name}'s answers to 2 tasks (validation)" in done.stdout
    assert command("check", "--submission", tmp_path / "s", "--home", home).exit_code == 0


def test_the_test_split_has_fewer_tasks(command, home, tmp_path):
    done = command(
        "predict", "--predictor", "lead-3", "--split", "test", "--home", home, "--output", tmp_path / "s"
    )
    assert done.exit_code == 0
    names = {path.name.removesuffix(".test.jsonl") for path in (tmp_path / "s" / "predictions").iterdir()}
    assert names == set(DECATHLON) - {"squad", "multinli.in.out"}


def test_what_it_is_told_of_the_submission(command, home, tmp_path):
    options = ["--tasks", "sst", "--home", home, "--output", tmp_path / "s"]
    about = ["--name", "N", "--author", "A", "--author", "B", "--description", "D.", "--seed", "5"]
    assert command("predict", "--predictor", "random", *options, *about).exit_code == 0
    content = tomllib.loads((tmp_path / "s" / "submission.toml").read_text())
    assert (content["name"], content["authors"], content["description"]) == ("N", ["A", "B"], "D.")
    assert content["predictor"]["seed"] == 5


@pytest.mark.parametrize("compress", ["gz", "zst"])
def test_compressed(command, home, tmp_path, compress):
    options = ["--tasks", "sst", "--home", home, "--output", tmp_path / "s", "--compress", compress]
    assert command("predict", "--predictor", "majority", *options).exit_code == 0
    assert (tmp_path / "s" / "predictions" / f"sst.validation.jsonl.{compress}").exists()


def test_a_folder_that_is_not_empty_is_asked_for(command, home, tmp_path):
    options = ["--tasks", "sst", "--home", home, "--output", tmp_path / "s"]
    assert command("predict", "--predictor", "majority", *options).exit_code == 0
    done = command("predict", "--predictor", "oracle", *options)
    assert done.exit_code == 2
    assert "is not empty: name another folder, or replace it with --force" in done.stderr
    assert command("predict", "--predictor", "oracle", *options, "--force").exit_code == 0
    assert tomllib.loads((tmp_path / "s" / "submission.toml").read_text())["name"] == "oracle"


def test_after_a_killed_run_the_same_command_goes_on(command, home, tmp_path):
    (tmp_path / "s" / PART / "predictions").mkdir(parents=True)
    options = ["--tasks", "sst", "--home", home, "--output", tmp_path / "s"]
    assert command("predict", "--predictor", "majority", *options).exit_code == 0
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == ["predictions", "submission.toml"]


def test_data_that_is_not_prepared_is_3(command, tmp_path):
    options = ["--tasks", "sst", "--home", tmp_path / "home", "--output", tmp_path / "s"]
    done = command("predict", "--predictor", "majority", *options)
    assert done.exit_code == 3
    assert "sst, validation, is not prepared in" in done.stderr and "decabench prepare sst" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_ones_own(command, home, tmp_path, monkeypatch):
    (tmp_path / "my_shouting_model.py").write_text(
        "class Shouting:\n"
        "    def __init__(self, setting):\n"
        "        self.task = setting.task.name\n"
        "    def predict(self, questions):\n"
        "        return [f'{self.task}: {question.context}'.upper() for question in questions]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    options = ["--tasks", "schema", "--home", home, "--output", tmp_path / "s"]
    assert command("predict", "--predictor", "my_shouting_model:Shouting", *options).exit_code == 0
    first = (tmp_path / "s" / "predictions" / "schema.validation.jsonl").read_text().splitlines()[0]
    assert json.loads(first)["answer"].startswith("SCHEMA: ")
