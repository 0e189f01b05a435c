"""What a predictor is handed: questions, and training data that is not the split that it predicts."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path

import pytest

from decabench.errors import DecabenchError, MissingDataError
from decabench.predictors import OracleSetting, Setting, make_backend
from decabench.predictors.protocol import ModelOptions
from decabench.runs.plan import Run, plan_run
from decabench.runs.write import predict
from decabench.tasks import TASKS, Question, Store


@pytest.fixture
def setting(home: Path, tmp_path: Path):
    def make(predictor: str, task: str, split: str = "validation") -> Setting:
        run = Run(predictor, [TASKS[task]], split, tmp_path / "out", Store(home))
        (planned,) = plan_run(run).tasks
        return planned.setting

    return make


def test_training_examples_are_those_of_the_data_in_its_order(setting, home: Path) -> None:
    made = setting("majority", "schema")
    pairs = [
        (Question(example.id, example.question, example.context), example.answers[0])
        for example in Store(home).examples("schema", "train")
    ]
    for each in (made, pickle.loads(pickle.dumps(made))):
        assert list(each.training_examples()) == pairs
        assert list(each.training_answers()) == [answer for _, answer in pairs]


def test_the_answers_of_the_training_split_are_not_handed_out_when_it_is_asked(setting) -> None:
    made = setting("majority", "sst", "train")
    for handed in (made.training_answers, made.training_examples):
        with pytest.raises(MissingDataError, match="are the ones to predict"):
            list(handed())


def test_the_oracle_alone_is_handed_gold(setting, home: Path, tmp_path: Path) -> None:
    made = setting("oracle", "sst")
    assert isinstance(made, OracleSetting) and len(made.gold_answers()) == 32
    other = setting("majority", "sst")
    assert type(other) is Setting
    with make_backend("oracle", ModelOptions()).open() as make:
        with pytest.raises(DecabenchError, match="only runs under its own name"):
            make(other)
    with pytest.raises(DecabenchError, match="only runs under its own name"):
        predict("decabench.predictors:oracle", tmp_path / "out", ["sst"], home=home)


def test_a_program_is_not_told_where_the_data_is(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DECABENCH_HOME", str(home))
    monkeypatch.setenv("KEPT", "1")
    program = tmp_path / "program.py"
    program.write_text(
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        "    row = json.loads(line)\n"
        "    answer = json.dumps([sorted(row), [k for k in os.environ if k in ('DECABENCH_HOME', 'KEPT')]])\n"
        "    print(json.dumps({'id': row['id'], 'answer': answer}), flush=True)\n"
    )
    folder = predict(f"command:{sys.executable} {program}", tmp_path / "out", ["sst"], home=home)
    lines = (folder / "predictions" / "sst.validation.jsonl").read_text().splitlines()
    told = {json.loads(line)["answer"] for line in lines}
    assert told == {json.dumps([["context", "id", "question", "split", "task"], ["KEPT"]])}
