"""Running predictors over tasks: their inputs, their outputs, and recovery from faults."""

import importlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType

import pytest

from decabench.errors import DataError, DecabenchError, StorageError, UnknownNameError
from decabench.predictors.protocol import Answer, ModelOptions
from decabench.predictors.schemes import PREDICTORS
from decabench.runs.plan import ALL_VARIANTS, Reading, Run, Selection, plan_run
from decabench.runs.write import HALF_WRITTEN, make_line, run_plan
from decabench.scoring import (
    ScoringOptions,
    evaluate,
    score_submission,
    verify,
)
from decabench.tasks.example import Question
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store
from decabench.tasks.wording import AnswerForm
from tests.folders import contents as all_contents
from tests.runs.untimed import untimed, untimed_line

ROOT = Path(__file__).parents[2]


class Spy:
    """Answers with the id and records its inputs."""

    def __init__(self):
        self.batches = []

    def predict(self, questions):
        self.batches.append(questions)
        return [question.id for question in questions]


@pytest.fixture
def outside(monkeypatch):
    """Put objects into a module `somebodys`, like an installed package."""

    def make(**objects):
        module = ModuleType("somebodys")
        vars(module).update(objects)
        monkeypatch.setitem(sys.modules, "somebodys", module)

    return make


@pytest.fixture
def run(home, tmp_path):
    def make(predictor, tasks=("sst",), **changes):
        options = {name: changes.pop(name) for name in ("seed", "batch_size") if name in changes}
        given = {
            "split": "validation",
            "output": tmp_path / "s",
            "store": Store(home),
            "date": "2026-01-31",
            "options": ModelOptions(**options),
            **changes,
        }
        return run_plan(plan_run(Run(predictor, [TASKS[name] for name in tasks], **given))).folder

    return make


def answers(folder, task, split="validation"):
    rows = map(json.loads, (folder / "predictions" / f"{task}.{split}.jsonl").read_text().splitlines())
    return {row["id"]: row["answer"] for row in rows}


def contents(folder):
    """Return the submission's files, without times and without the journal next to it."""
    return {
        path.relative_to(folder).as_posix(): untimed(path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] != "journal"
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


@pytest.mark.parametrize("name", PREDICTORS)
def test_the_size_of_a_batch_changes_no_baseline(run, tmp_path, name):
    tasks = ("ud.pos",) if name == "most-frequent-tag" else ("schema", "sst", "woz.en")
    one = run(name, tasks, batch_size=1, output=tmp_path / "one")
    all_ = run(name, tasks, batch_size=1000, output=tmp_path / "all")
    assert contents(one) == contents(all_)


def test_the_submission_records_the_predictor_and_the_data(home, run):
    folder = run("random", ("sst", "schema"), seed=3, authors=("A",), description="D.", name="N")
    content = tomllib.loads((folder / "submission.toml").read_text())
    assert re.fullmatch("sha256:[0-9a-f]{64}", content["predictor"].pop("fingerprint"))
    assert content["predictor"] == {
        "name": "random",
        "seed": 3,
        "decabench": "0.1.0",
        "backend": {"decabench": "0.1.0"},
    }
    assert (content["name"], content["authors"], content["description"]) == ("N", ["A"], "D.")
    assert content["date"] == "2026-01-31"
    assert content["data"] == {
        f"{task}.validation": Store(home).record(task, "validation").fingerprint for task in ("sst", "schema")
    }


def test_one_model_at_a_time(run, outside):
    """If a factory loads a model for each task, only one model may be in memory at a time."""
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
    """A predictor that answers with a function of the questions."""

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
            "64 questions in schema. Return a list with one text",
        ),
        (
            divide,
            r"Stopped on schema after 25 failures in a row .* The last failure was: ZeroDivisionError: by nought",
        ),
    ],
)
def test_wrong_answers_leave_no_submission(run, outside, tmp_path, make, sentence):
    outside(it=Returns(make))
    with pytest.raises(DecabenchError, match=sentence):
        run("somebodys:it", ("sst", "schema"))
    assert contents(tmp_path / "s") == {}


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("somebodys:number", "somebodys:number is not a predictor. A predictor must have a method predict"),
        (
            "somebodys:wrong_factory",
            "somebodys:wrong_factory is not a predictor. A predictor must have a method predict",
        ),
    ],
)
def test_what_is_no_predictor(run, outside, tmp_path, reference, sentence):
    outside(number=3, wrong_factory=lambda setting: 3)
    with pytest.raises(UnknownNameError, match=re.escape(sentence)):
        run(reference)
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
    """Otherwise, a score would appear under the wrong predictor's name."""
    folder = run("oracle", ("sst", "schema"))
    run("majority", ("sst",))
    assert [path.name for path in (folder / "predictions").iterdir()] == ["sst.validation.jsonl"]
    assert list(evaluate(folder, home=home).tasks) == ["sst"]


@pytest.fixture
def evaluated(run, home, tmp_path):
    """Three tasks with results, as written by `decabench evaluate`."""
    folder = run("majority", ("sst", "schema", "squad"))
    _record(folder, home)
    return folder


def _record(folder, home, **more):
    options = ScoringOptions(home=home, **more)
    return score_submission(folder, options)[0].write()


def _results(folder):
    return json.loads((folder / "results" / "validation" / "results.json").read_text())


def test_results_stay_where_no_answer_changes(run, evaluated):
    """Before, a run without new questions deleted all results."""
    before = contents(evaluated)
    run("majority", ("sst",))
    assert contents(evaluated) == before


def test_a_further_task_leaves_the_results_of_the_others(run, home, evaluated):
    before = _results(evaluated)["tasks"]
    run("majority", ("multinli.in.out",))
    assert _results(evaluated)["tasks"] == before
    assert verify(evaluated, home=home) == []


def test_results_of_answers_that_change_go(run, home, outside, monkeypatch):
    flaky = Flaky()
    outside(flaky=flaky)
    folder = run("somebodys:flaky", ("sst", "schema"))
    _record(folder, home)
    monkeypatch.setattr(flaky, "predict", lambda questions: ["new" for _ in questions])
    plan = plan_run(
        Run(
            "somebodys:flaky",
            [TASKS["sst"]],
            "validation",
            folder,
            Store(home),
            fresh=True,
            date="2026-01-31",
        )
    )
    assert run_plan(plan).removed == ("results/validation",)
    assert not (folder / "results").exists()
    _record(folder, home)  # the ledger knows the other task
    assert sorted(_results(folder)["tasks"]) == ["schema", "sst"] and verify(folder, home=home) == []


def test_results_of_another_split_stay(run, home, evaluated):
    run("majority", ("sst",), split="test")
    _record(evaluated, home, split="test")
    run("majority", ("sst",), split="test", selection=Selection(5))
    assert not (evaluated / "results" / "test").exists()
    assert len(_results(evaluated)["tasks"]) == 3


def test_another_predictors_results_go(run, evaluated):
    run("oracle", ("sst",))
    assert not (evaluated / "results").exists()


# --- the run that survives -------------------------------------------------------------------------------------


class Flaky:
    """Fails on chosen ids until it is repaired, and records its questions."""

    def __init__(self, *broken, says="1"):
        self.broken = set(broken)
        self.asked = []
        self.says = says

    def describe(self):
        return {"says": self.says}

    def predict(self, questions):
        self.asked += [question.id for question in questions]
        if any(question.id in self.broken for question in questions):
            raise ValueError("a bad day")
        return [f"{question.id} {self.says}" for question in questions]


def test_the_examples_that_failed_are_marked_and_asked_again(home, run, outside):
    ids = Store(home).ids("sst", "validation")
    flaky = Flaky(ids[3], ids[20])
    outside(flaky=flaky)
    folder = run("somebodys:flaky", batch_size=8)
    assert list(answers(folder, "sst")) == [id_ for id_ in ids if id_ not in flaky.broken]
    content = tomllib.loads((folder / "submission.toml").read_text())
    assert content["incomplete"] == {
        "sst.validation": {"failed": 2, "of": 32, "error": "ValueError: a bad day"}
    }
    result = evaluate(folder, home=home).tasks["sst"]
    assert result.status == "failed" and result.score is None
    assert "2 of 32 examples failed" in result.reason

    broken, flaky.broken, flaky.asked = flaky.broken, set(), []
    whole = run("somebodys:flaky", batch_size=8)
    assert set(flaky.asked) == broken
    assert list(answers(whole, "sst")) == ids
    assert "incomplete" not in tomllib.loads((whole / "submission.toml").read_text())


def test_a_resumed_submission_has_the_bytes_of_an_uninterrupted_one(home, run, outside, tmp_path):
    ids = Store(home).ids("schema", "validation")
    outside(flaky=Flaky(ids[40]), sound=Flaky())
    again = run("somebodys:flaky", ("sst", "schema"))
    sys.modules["somebodys"].flaky.broken.clear()
    again = run("somebodys:flaky", ("sst", "schema"))
    straight = run("somebodys:flaky", ("sst", "schema"), output=tmp_path / "straight")
    assert contents(again) == contents(straight)


def test_the_time_of_answering_is_that_of_all_parts(home, run, outside, tmp_path, monkeypatch):
    """Each call of the clock is a second later. A question is answered or fails between two calls."""
    ids = Store(home).ids("sst", "validation")
    monkeypatch.setattr("time.monotonic", itertools.count().__next__)
    outside(flaky=Flaky(*ids[:3]))

    def times(folder):
        return tomllib.loads((folder / "submission.toml").read_text())["predictor"]["time"]

    first = times(run("somebodys:flaky", ("sst",)))["sst.validation"]
    assert first["answers"] == 29 and first["seconds"] > 32
    sys.modules["somebodys"].flaky.broken.clear()
    second = times(run("somebodys:flaky", ("sst",)))["sst.validation"]
    assert second["answers"] == 32 and second["seconds"] > first["seconds"] + 3
    both = run("somebodys:flaky", ("schema",))
    assert times(both)["sst.validation"] == second and times(both)["schema.validation"]["answers"] == 82
    results = evaluate(both, home=home)
    assert "time" not in results.submission["predictor"]
    (journal,) = (both / "journal").glob("sst*.jsonl")
    journal.write_text("\n".join(map(untimed_line, journal.read_text().splitlines())) + "\n")
    assert "sst.validation" not in times(run("somebodys:flaky", ("sst",)))  # journals of earlier versions


def test_baselines_have_no_times(run):
    assert b"time" not in (run("majority") / "submission.toml").read_bytes()


@pytest.mark.parametrize(
    "changes", [{"seed": 1}, {"split": "test"}, {"variant": 1}, {"options": ModelOptions(revision="2")}]
)
def test_no_run_reads_the_entries_of_another(run, outside, changes):
    flaky = Flaky()
    outside(flaky=flaky)
    run("somebodys:flaky")
    first, flaky.asked = len(flaky.asked), []
    run("somebodys:flaky", **changes)
    assert len(flaky.asked) == first
    flaky.asked = []
    run("somebodys:flaky", **changes)
    assert flaky.asked == []


def test_code_that_changed_is_another_model(run, tmp_path, monkeypatch):
    path = tmp_path / "changing_model.py"
    monkeypatch.syspath_prepend(tmp_path)
    for answer in ("one", "two"):
        path.write_text(
            f"class Model:\n    def predict(self, questions):\n        return ['{answer}'] * len(questions)\n"
            "model = Model()\n"
        )
        sys.modules.pop("changing_model", None)
        importlib.invalidate_caches()
        monkeypatch.setattr(
            sys, "dont_write_bytecode", True
        )  # a file of the same second would be taken as unchanged
        folder = run("changing_model:model")
        assert set(answers(folder, "sst").values()) == {answer}


def test_a_limited_run_is_partial_until_it_is_whole(home, run, outside):
    flaky = Flaky()
    outside(flaky=flaky)
    folder = run("somebodys:flaky", selection=Selection(10))
    content = tomllib.loads((folder / "submission.toml").read_text())
    assert content["partial"] == {"sst.validation": {"answered": 10, "of": 32, "chosen": "limit 10"}}
    assert evaluate(folder, home=home).tasks["sst"].status == "partial"
    folder = run("somebodys:flaky")
    assert len(flaky.asked) == 32
    assert "partial" not in tomllib.loads((folder / "submission.toml").read_text())
    assert evaluate(folder, home=home).tasks["sst"].status == "scored"


def test_every_wording(home, run, outside):
    class Echo(Spy):
        def predict(self, questions):
            return [question.question for question in questions]

    outside(echo=Echo())
    folder = run("somebodys:echo", variant=ALL_VARIANTS)
    sst = TASKS["sst"]
    assert set(answers(folder, "sst").values()) == {"Is this review negative or positive?"}
    for number, variant in enumerate(sst.variants, start=1):
        assert (folder / "variants" / str(number)).exists() is not variant.retired
        if not variant.retired:
            said = set(answers(folder / "variants" / str(number), "sst").values())
            assert said == {variant.rewrite("Is this review negative or positive?")}


def test_answers_to_a_wording_that_was_retired_since_stay_and_are_scored_as_such(
    run, home, tmp_path, outside
):
    """An earlier version had four wordings of sst, two of which changed words and order together."""

    class Copier(Spy):
        def predict(self, questions):
            super().predict(questions)
            return [question.question.split()[-3] for question in questions]  # the first of two labels

    copier = Copier()
    outside(copier=copier)
    before = replace(
        TASKS["sst"], variants=tuple(replace(each, retired=False) for each in TASKS["sst"].variants[:4])
    )
    old = Run("somebodys:copier", [before], "validation", tmp_path / "s", Store(home), variant=ALL_VARIANTS)
    run_plan(plan_run(old))
    earlier = contents(tmp_path / "s")
    assert set(answers(tmp_path / "s" / "variants" / "2", "sst").values()) == {"positive"}
    share = evaluate(tmp_path / "s", home=home).tasks["sst"].score
    copier.batches.clear()
    folder = run("somebodys:copier", variant=ALL_VARIANTS, date="")
    assert {question.question for batch in copier.batches for question in batch} == {
        "Is this review angry or happy?",
        "Is this review unsupportive or supportive?",
    }
    now = contents(folder)
    assert {name: now[name] for name in earlier if name != "run.json"} == earlier
    found = evaluate(folder, home=home).tasks["sst"].variants
    assert found.scores == {"0": share, "1": 100 - share, "4": share, "5": share, "6": share}
    assert found.retired == {"2": 100 - share, "3": 100 - share}
    assert (found.worst, found.spread) == (min(share, 100 - share), abs(100 - 2 * share))


def test_what_a_killed_run_left_half_written_is_not_put_in_place(run, tmp_path):
    stale = tmp_path / "s" / HALF_WRITTEN / "predictions" / "schema.validation.jsonl"
    stale.parent.mkdir(parents=True)
    stale.touch()
    folder = run("majority")
    assert os.listdir(folder / "predictions") == ["sst.validation.jsonl"]


def test_two_runs_in_one_folder(run, outside, tmp_path):
    class Nested(Spy):
        def predict(self, questions):
            with pytest.raises(DecabenchError, match="Another process is writing to"):
                run("majority")
            return super().predict(questions)

    outside(nested=Nested())
    assert len(answers(run("somebodys:nested"), "sst")) == 32


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is of POSIX systems")
def test_a_killed_run_continues(home, tmp_path):
    """After kill -9, the same command continues, and the submission equals that of an uninterrupted run."""
    (tmp_path / "slow_model.py").write_text(
        "import os, pathlib, signal\n"
        "class Model:\n"
        "    def predict(self, questions):\n"
        "        with open('asked', 'a') as file:\n"
        "            file.writelines(question.id + '\\n' for question in questions)\n"
        "        if len(pathlib.Path('asked').read_text().split()) in (40, 80) and 'KILL' in os.environ:\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return [question.context[::-1] for question in questions]\n"
        "model = Model()\n"
    )
    command = [sys.executable, "-m", "decabench", "predict", "--predictor", "slow_model:model"]
    command += ["--tasks", "sst,schema", "--home", str(home), "--batch-size", "4", "--output"]

    def start(output, **more):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]), **more}
        return subprocess.run(
            [*command, output], cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    assert start("s", KILL="1").returncode == -9
    assert not (tmp_path / "s" / "submission.toml").exists()
    assert start("s", KILL="1").returncode == -9
    done = start("s")
    assert done.returncode == 0, done.stderr
    asked = (tmp_path / "asked").read_text().split()
    assert len(asked) == 32 + 82 + 2 * 4  # the two batches in flight were asked twice, and nothing else
    (tmp_path / "asked").unlink()
    assert start("straight").returncode == 0
    assert contents(tmp_path / "s").keys() == contents(tmp_path / "straight").keys()
    for name, content in contents(tmp_path / "straight").items():
        if name != "run.json":
            assert contents(tmp_path / "s")[name] == content, name


# --- what a rerun must not lose --------------------------------------------------------------------------------


def test_fresh_asks_everything_again_and_goes_on_without_it(run, outside, home):
    ids = Store(home).ids("sst", "validation")
    flaky = Flaky()
    outside(flaky=flaky)
    folder = run("somebodys:flaky")
    before, flaky.broken = answers(folder, "sst"), set(ids)
    with pytest.raises(DecabenchError, match="failures in a row"):
        run("somebodys:flaky", fresh=True)
    assert answers(folder, "sst") == before  # the submission stays until the run is complete
    flaky.broken, flaky.asked = set(), []
    assert answers(run("somebodys:flaky"), "sst") == before and len(flaky.asked) == 32


def test_fresh_replaces_a_damaged_journal_as_the_error_advises(run, outside):
    flaky = Flaky()
    outside(flaky=flaky)
    folder = run("somebodys:flaky")
    (path,) = (folder / "journal").glob("*.jsonl")
    lines = path.read_bytes().split(b"\n")
    damaged = b"\n".join([*lines[:3], bytes(len(lines[3])), *lines[4:]])
    path.write_bytes(damaged)
    with pytest.raises(DataError, match=r"jsonl:4 is damaged .*ask all questions again, use --fresh"):
        run("somebodys:flaky")
    flaky.asked = []
    assert len(answers(run("somebodys:flaky", fresh=True), "sst")) == len(flaky.asked) == 32
    assert path.with_name(f"{path.name}.old").read_bytes() == damaged
    flaky.asked = []
    assert len(answers(run("somebodys:flaky"), "sst")) == 32 and flaky.asked == []


def test_a_fresh_run_without_an_answer_leaves_the_journal(run, outside, monkeypatch):
    flaky = Flaky()
    outside(flaky=flaky)
    folder = run("somebodys:flaky")
    (path,) = (folder / "journal").glob("*.jsonl")
    before = path.read_bytes()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(flaky, "predict", interrupt)
        run("somebodys:flaky", fresh=True)
    assert path.read_bytes() == before


def interrupt(questions):
    raise KeyboardInterrupt


def test_files_of_somebody_else_stay(run):
    folder = run("majority", ("sst",), variant=ALL_VARIANTS)
    mine = ["results/paper.csv", "variants/code/main.py", "variants/1/notes.md", "predictions/README"]
    for name in mine:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine")
    (folder / "results" / "validation").mkdir(parents=True)
    (folder / "results" / "validation" / "results.json").write_text("{}")
    run("oracle", ("schema",))
    assert [(folder / name).read_text() for name in mine] == ["mine"] * 4
    assert not (folder / "results" / "validation").exists()
    assert not (folder / "variants" / "1" / "predictions").exists()


@pytest.mark.parametrize("name", ["a\nb", "x" * 70_000])
def test_what_could_not_be_written_is_refused_before_anything_is_asked(run, outside, name):
    spy = Spy()
    outside(spy=spy)
    with pytest.raises(DecabenchError):
        run("somebodys:spy", name=name)
    assert spy.batches == []


# From outcomes to lines


QUESTION = Question("1", "Is this review negative or positive?", "Fine.")


def test_a_text_as_it_is():
    assert make_line(QUESTION, Answer(" Positive.\n")) == {"id": "1", "answer": " Positive.\n"}


def test_lines_have_the_finish_and_the_kept_context():
    answer = Answer("x", "length", (0, 3), 5, 6)
    assert make_line(QUESTION, answer) == {
        "id": "1",
        "answer": "x",
        "finish": "length",
        "context_kept": [0, 3],
    }


@pytest.mark.parametrize("form", [None, AnswerForm(kind="label", labels=("negative", "positive"))])
@pytest.mark.parametrize("text", ["", "positive", "I can't help."])
def test_a_refused_answer_is_never_right(form, text):
    """A filter can stop an answer anywhere, even after a word that would be right."""
    line = make_line(QUESTION, Answer(text, "refused"), Reading(form))
    raw = {"raw": text} if text else {}
    assert line == {"id": "1", "answer": "", **raw, "rule": "refused", "finish": "refused"}


def test_an_extracted_answer_keeps_its_text():
    form = AnswerForm(kind="label", labels=("negative", "positive"))
    line = make_line(QUESTION, Answer("<think>Hm.</think>\nIt is Positive!"), Reading(form))
    assert (line["answer"], line["raw"]) == ("positive", "<think>Hm.</think>\nIt is Positive!")
    assert "label" in line["rule"] and "reasoning" in line["rule"]


def test_a_variants_label_becomes_the_datasets():
    (variant,) = (variant for variant in TASKS["sst"].variants if variant.name == "angry-happy")
    line = make_line(QUESTION, Answer("Happy"), Reading(wording=variant))
    assert line == {"id": "1", "answer": "positive", "raw": "Happy", "rule": "relabelled"}


def test_tags_are_aligned_with_the_words():
    question = Question("1", "What are the part-of-speech tags?", "Fine , 2 of them")
    line = make_line(
        question,
        Answer("1 Fine ADJ\n2 , PUNCT\n4 of ADP\n5 them OTHER"),
        Reading(AnswerForm("tags", ("ADJ", "ADP", "PUNCT"))),
    )
    assert (line["answer"], line["rule"]) == ("ADJ PUNCT _ ADP OTHER", "tags")


@pytest.mark.parametrize(("finish", "rule"), [("stop", "reasoning-only"), ("length", "cut-in-reasoning")])
def test_reasoning_that_arrives_apart_is_no_answer_either(finish, rule):
    line = make_line(
        QUESTION, Answer("", finish, reasoning="It is positive."), Reading(AnswerForm("label", ("positive",)))
    )
    assert (line["answer"], line["rule"]) == ("", f"reasoning+{rule}+unparseable")
    alone = make_line(
        QUESTION, Answer("positive", finish, reasoning="It is."), Reading(AnswerForm("label", ("positive",)))
    )
    assert (alone["answer"], alone["rule"]) == ("positive", "as-is")


# A run neither writes nor removes anything through a link leads out of the submission's folder


@pytest.fixture
def scored(home: Path, submit: Callable[..., Path]) -> Path:
    folder = submit("majority", ["sst", "schema"], "s")
    options = ScoringOptions(home=home)
    score_submission(folder, options)[0].write()
    return folder


@pytest.mark.parametrize(
    "link",
    [
        "results",
        "results/validation",
        "results/validation/statistics",
        "results/validation/examples",
        "predictions",
        "journal",
        "variants",
    ],
)
def test_folders_that_are_links(scored: Path, tmp_path: Path, submit: Callable[..., Path], link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    (scored / link).mkdir(exist_ok=True)
    shutil.move(scored / link, elsewhere)
    (scored / link).symlink_to(elsewhere)
    (elsewhere / "mine.jsonl").write_text("mine")
    before = all_contents(elsewhere)
    with pytest.raises(StorageError, match="a link leads out of"):
        submit("majority", ["sst"], "s")
    with pytest.raises(StorageError, match="a link leads out of"):
        submit("random", ["sst"], "s")
    assert all_contents(elsewhere) == before


def test_a_journal_that_is_a_link(scored: Path, tmp_path: Path, submit: Callable[..., Path]) -> None:
    """Otherwise, answers would be appended to the link's target."""
    journal = next((scored / "journal").glob("sst*.jsonl"))
    shutil.move(journal, tmp_path / "mine.jsonl")
    journal.symlink_to(tmp_path / "mine.jsonl")
    before = (tmp_path / "mine.jsonl").read_bytes()
    with pytest.raises(StorageError, match="a link leads out of"):
        submit("majority", ["sst"], "s")
    assert (tmp_path / "mine.jsonl").read_bytes() == before


def test_a_link_that_stays_inside_is_fine(scored: Path, submit: Callable[..., Path]) -> None:
    (scored / "predictions").rename(scored / "answers")
    (scored / "predictions").symlink_to("answers")
    submit("majority", ["sst", "schema"], "s")
    assert sorted(path.name for path in (scored / "answers").iterdir()) == [
        "schema.validation.jsonl",
        "sst.validation.jsonl",
    ]
