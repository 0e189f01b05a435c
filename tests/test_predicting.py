"""Predictors run over tasks: what they are given, what they must return, and what is left when they do not."""

import json
import re
import sys
import tomllib
from dataclasses import fields
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from decabench import predicting
from decabench.errors import DecabenchError, MissingDataError, StorageError, UnknownNameError
from decabench.evaluator import evaluate
from decabench.predicting import PART, Run, find_predictor, predict
from decabench.predictor import Predictor, Question
from decabench.predictors import PREDICTORS
from decabench.tasks import TASKS
from decabench.tasks.store import Store


class Spy:
    """Answers with the id, and remembers what it was given."""

    def __init__(self):
        self.batches = []

    def predict(self, questions):
        self.batches.append(questions)
        return [question.id for question in questions]


@pytest.fixture
def outside(monkeypatch):
    """Puts objects into a module `somebodys`, as if a package of theirs were installed."""

    def make(**objects):
        module = ModuleType("somebodys")
        vars(module).update(objects)
        monkeypatch.setitem(sys.modules, "somebodys", module)

    return make


@pytest.fixture
def run(home, tmp_path):
    def make(predictor, tasks=("sst",), **changes):
        chosen = [TASKS[name] for name in tasks]
        return predict(
            Run(
                predictor,
                chosen,
                **{
                    "split": "validation",
                    "output": tmp_path / "s",
                    "store": Store(home),
                    "date": "2026-01-31",
                    **changes,
                },
            )
        )

    return make


def answers(folder, task, split="validation"):
    rows = map(json.loads, (folder / "predictions" / f"{task}.{split}.jsonl").read_text().splitlines())
    return {row["id"]: row["answer"] for row in rows}


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_a_predictor_sees_no_answer(home, run, outside):
    spy = Spy()
    outside(spy=spy)
    run("somebodys:spy")
    given = [question for batch in spy.batches for question in batch]
    rows = list(Store(home).read("sst", "validation"))
    assert [field.name for field in fields(Question)] == ["id", "question", "context"]
    assert all(type(question) is Question for question in given)
    assert [(asked.id, asked.question, asked.context) for asked in given] == [
        (row["id"], row["question"], row["context"]) for row in rows
    ]


@pytest.mark.parametrize("size", [1, 5, 32, 1000])
def test_batches(home, run, outside, size):
    spy = Spy()
    outside(spy=spy)
    folder = run("somebodys:spy", batch_size=size)
    sizes = [len(batch) for batch in spy.batches]
    assert sum(sizes) == 32 and set(sizes[:-1]) <= {size} and sizes[-1] <= size
    assert answers(folder, "sst") == {id: id for id in Store(home).ids("sst", "validation")}


@pytest.mark.parametrize("name", PREDICTORS)
def test_the_size_of_a_batch_changes_no_baseline(run, tmp_path, name):
    tasks = ("schema", "sst", "woz.en")
    one = run(name, tasks, batch_size=1, output=tmp_path / "one")
    all_ = run(name, tasks, batch_size=1000, output=tmp_path / "all")
    assert contents(one) == contents(all_)


def test_what_the_submission_says(home, run):
    folder = run("random", ("sst", "schema"), seed=3, authors=("A",), description="D.", name="N")
    content = tomllib.loads((folder / "submission.toml").read_text())
    assert content["predictor"] == {"name": "random", "seed": 3, "decabench": "0.1.0"}
    assert (content["name"], content["authors"], content["description"]) == ("N", ["A"], "D.")
    assert content["date"] == "2026-01-31"
    assert content["data"] == {
        f"{task}.validation": Store(home).record(task, "validation").fingerprint for task in ("sst", "schema")
    }


def test_a_factory_is_told_the_task(run, outside):
    settings = []

    def factory(setting):
        settings.append(setting)
        return Spy()

    outside(factory=factory)
    run("somebodys:factory", ("sst", "schema"), seed=7)
    assert [(setting.task.name, setting.split, setting.seed) for setting in settings] == [
        ("sst", "validation", 7),
        ("schema", "validation", 7),
    ]
    assert len(list(settings[1].training_answers())) == 80
    assert len(settings[1].gold_answers()) == 82


def test_a_class_is_a_factory(run, outside):
    class Named(Spy):
        def __init__(self, setting):
            super().__init__()

    outside(Named=Named)
    assert answers(run("somebodys:Named"), "sst")


def test_one_model_at_a_time(run, outside):
    """A factory that loads a model for each task must not have all of them in memory at once."""
    events = []

    class Model(Spy):
        def __init__(self, setting):
            super().__init__()
            self.task = setting.task.name
            events.append(("made", self.task))

        def predict(self, questions):
            events.append(("asked", self.task))
            return super().predict(questions)

    outside(Model=Model)
    run("somebodys:Model", ("sst", "schema"), batch_size=1000)
    assert events == [("made", "sst"), ("asked", "sst"), ("made", "schema"), ("asked", "schema")]


class Returns:
    """A predictor that makes its answers with a function of the questions."""

    def __init__(self, make):
        self.make = make

    def predict(self, questions):
        if questions[0].id.startswith("sst"):
            return [question.id for question in questions]
        return self.make(questions)


def divide(questions):
    raise ZeroDivisionError("by nought")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda questions: ["x"] * (len(questions) - 1),
            "64 questions of schema and must return as many texts",
        ),
        (
            lambda questions: ["x"] * (len(questions) + 1),
            "64 questions of schema and must return as many texts",
        ),
        (lambda questions: [1] * len(questions), "must return as many texts"),
        (lambda questions: [None] * len(questions), "must return as many texts"),
        (lambda questions: "x" * len(questions), "must return as many texts"),
        (lambda questions: None, "must return as many texts"),
        (lambda questions: ["\ud800"] * len(questions), "bad-encoding"),
        (divide, r"somebodys:it failed on schema \(ZeroDivisionError: by nought\): run again with --debug"),
    ],
)
def test_wrong_answers_leave_nothing(run, outside, tmp_path, make, sentence):
    outside(it=Returns(make))
    with pytest.raises(DecabenchError, match=sentence):
        run("somebodys:it", ("sst", "schema"))
    assert not (tmp_path / "s").exists()


def test_a_folder_that_was_there_stays(run, outside, tmp_path):
    (tmp_path / "s").mkdir()
    outside(it=Returns(divide))
    with pytest.raises(DecabenchError, match="by nought"):
        run("somebodys:it", ("sst", "schema"))
    assert list((tmp_path / "s").iterdir()) == []


def test_wrong_answers_leave_the_old_submission(run, outside):
    folder = run("majority", ("sst", "schema"))
    before = contents(folder)
    outside(it=Returns(divide))
    with pytest.raises(DecabenchError, match="by nought"):
        run("somebodys:it", ("sst", "schema"))
    assert contents(folder) == before


def test_any_iterable_of_texts_will_do(run, outside):
    outside(it=Returns(lambda questions: (question.id for question in questions)))
    assert len(answers(run("somebodys:it", ("schema",)), "schema")) == 82


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("majorty", "There is no predictor 'majorty'. Did you mean majority?"),
        ("no_such_package:x", "is its package installed"),
        ("somebodys:nothing", "somebodys has no 'nothing'"),
        ("somebodys:number", "somebodys:number is no predictor: it needs a method predict"),
        ("somebodys:wrong_factory", "somebodys:wrong_factory is no predictor: it needs a method predict"),
    ],
)
def test_what_is_no_predictor(run, outside, tmp_path, reference, sentence):
    outside(number=3, wrong_factory=lambda setting: 3)
    with pytest.raises(UnknownNameError, match=re.escape(sentence)):
        run(reference)
    assert not (tmp_path / "s").exists()


def test_a_class_that_takes_no_setting_is_blamed_itself(run, outside):
    outside(Spy=Spy)
    with pytest.raises(DecabenchError, match=r"The predictor somebodys:Spy failed on sst \(TypeError"):
        run("somebodys:Spy")


def test_an_entry_point(monkeypatch):
    point = EntryPoint("theirs", "decabench.predictors.baselines:lead_3", "decabench.predictors")
    monkeypatch.setattr(predicting, "plugin_names", lambda group: {"theirs": point})
    assert find_predictor("theirs") is PREDICTORS["lead-3"]


def test_the_protocol():
    assert isinstance(Spy(), Predictor)
    assert not isinstance(3, Predictor)


def test_training_data_that_is_not_prepared(run, tmp_path, own_task):
    with pytest.raises(MissingDataError, match="sst, validation, is not prepared"):
        run("majority", store=Store(tmp_path / "empty"))
    assert not (tmp_path / "s").exists()


def test_other_splits_of_the_same_predictor_stay(run):
    folder = run("majority", ("sst",))
    run("majority", ("sst", "schema"), split="test")
    content = tomllib.loads((folder / "submission.toml").read_text())
    assert sorted(content["data"]) == ["schema.test", "sst.test", "sst.validation"]
    assert sorted(path.name for path in (folder / "predictions").iterdir()) == [
        "schema.test.jsonl",
        "sst.test.jsonl",
        "sst.validation.jsonl",
    ]


def test_answers_of_another_predictor_do_not_stay(home, run):
    """Else the score of one would stand under the name of the other."""
    folder = run("oracle", ("sst", "schema"))
    run("majority", ("sst",))
    assert [path.name for path in (folder / "predictions").iterdir()] == ["sst.validation.jsonl"]
    assert list(evaluate(folder, home=home).tasks) == ["sst"]


def test_another_compression_replaces_the_first(run):
    folder = run("majority", ("sst",))
    run("majority", ("sst",), compress="gz")
    assert [path.name for path in (folder / "predictions").iterdir()] == ["sst.validation.jsonl.gz"]


def test_nothing_else_in_the_folder_is_touched_but_results_of_the_old_answers_go(run):
    folder = run("majority", ("sst",))
    (folder / "notes.md").write_text("mine")
    (folder / "results" / "validation").mkdir(parents=True)
    (folder / "results" / "validation" / "results.json").write_text("{}")
    run("oracle", ("schema",))
    assert (folder / "notes.md").read_text() == "mine"
    assert not (folder / "results").exists()


def test_what_a_killed_run_left_is_removed(run, tmp_path):
    left = tmp_path / "s" / PART / "predictions"
    left.mkdir(parents=True)
    (left / "schema.validation.jsonl").write_text("{")
    assert contents(run("majority")).keys() == {"submission.toml", "predictions/sst.validation.jsonl"}


def test_a_folder_that_cannot_be_made(run, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be written"):
        run("majority", output=tmp_path / "file" / "s")
