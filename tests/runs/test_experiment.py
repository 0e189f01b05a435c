"""One run from data to comparison, in Python: what it reads, does, keeps and refuses."""

import re
import shutil
import tomllib
from pathlib import Path

import click
import pytest

import decabench
from decabench.cli import cli
from decabench.errors import DataError, DecabenchError
from decabench.runs import forecast, read_experiment
from decabench.runs.experiment import find_setting, read_experiments
from decabench.tasks.preparation import SAMPLE_FOLDER


@pytest.fixture
def given(tmp_path):
    return {
        "predictor": "majority",
        "output": str(tmp_path / "one"),
        "tasks": ["sst", "schema"],
        "home": str(tmp_path / "home"),
        "prepare": {"sample": True},
        "jobs": 1,
    }


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("run.json", ".lock", "run.toml")
    }


def test_from_data_to_a_comparison(given, tmp_path):
    given["jobs"] = 2
    done = decabench.run(**given, baselines=["random"])
    assert done.exit_code == 0 and done.folder == tmp_path / "one"
    assert set(done.results.tasks) == {"sst", "schema"} and done.results.tasks["sst"].n == 32
    compared = done.comparisons["random"].tasks["sst"]
    assert compared.b == done.results.tasks["sst"].score and compared.interval is not None
    kept = tomllib.loads((done.folder / "run.toml").read_text())
    assert kept == {**given, "baselines": ["random"]}
    assert (tmp_path / "one.baselines" / "random" / "submission.toml").exists()


def test_the_numbers_are_those_of_the_steps_one_by_one(given, tmp_path):
    done = decabench.run(**given)
    home, alone = tmp_path / "other", tmp_path / "alone" / "one"
    decabench.prepare(["sst", "schema"], sample=True, home=home)
    decabench.predict("majority", alone, ["sst", "schema"], home=home)
    results = decabench.evaluate(alone, home=home)
    assert done.results.to_json() == results.to_json()
    written = {name: text for name, text in files(done.folder).items() if "predictions" in name}
    assert written and all((alone / name).read_bytes() == text for name, text in written.items())


def test_a_second_run_asks_nothing_again_and_changes_nothing(given):
    before = files(decabench.run(**given).folder)
    done = decabench.run(**given)
    assert [tally.answered for tally in done.report.tallies] == [0, 0]
    assert files(done.folder) == before


def test_a_submission_is_a_baseline_too(given, tmp_path):
    decabench.run(**{**given, "predictor": "random", "output": tmp_path / "two"})
    done = decabench.run(**given, baselines=[tmp_path / "two"])
    assert set(done.comparisons) == {str(tmp_path / "two")} and not done.not_compared


def test_a_file_with_settings(given, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(
        'predictor = "majority"\ntasks = "sst, schema"\n[predict]\nseed = 1\nauthor = ["A", "B"]\n'
    )
    found = read_experiment(path, ["output=runs/x", "predict.limit=20", "predict.question-variant=all"])
    assert found.tasks == ("sst", "schema") and found.output == Path("runs/x")
    assert found.predict == {"seed": 1, "authors": ("A", "B"), "limit": 20, "variant": -1}
    assert found.source["predict"]["question-variant"] == "all"
    assert read_experiment(path, {"output": "x", "predict.limit": 3}).predict["limit"] == 3


def test_a_baseline_answers_the_sample_of_a_limited_run(given):
    done = decabench.run(**given, predict={"sample": 5}, baselines=["random"])
    assert {task.status for task in done.results.tasks.values()} == {"partial"}
    assert done.exit_code == 0
    assert all(5 <= task.examples < task.of for task in done.comparisons["random"].tasks.values())


def test_all_faults_at_once():
    with pytest.raises(DecabenchError) as caught:
        read_experiment(
            {
                "tasks": 3,
                "predct": {},
                "split": "tset",
                "predict": {"lmit": 5, "shots": "three", "question-variant": "x"},
                "prepare": True,
                "compare": {"seed": 0.5},
            }
        )
    message = str(caught.value)
    expected = (
        "'tasks' is 3",
        "'predct'",
        "Did you mean test",
        "'lmit'",
        "'predict.shots' is 'three'",
        "'x' is neither",
    )
    expected += (
        "'prepare' is True",
        "'compare.seed' is 0.5",
        "'predictor' is missing",
        "'output' is missing",
    )
    assert [text for text in expected if text not in message] == []


@pytest.mark.parametrize(
    ("source", "path", "message"),
    [
        ({"predictor": "majority"}, "predictor.x", "predictor is a value, not a table"),
        ({"predict": 3}, "predict.limit", "predict is a value, not a table"),
        ({"predict": 0}, "predict.limit", "predict is a value, not a table"),
        ({"predict": {"header": "k: secret"}}, "predict.header.x", "predict.header is a value, not a table"),
    ],
)
def test_a_setting_below_what_is_no_table(source, path, message):
    """These were a ValueError and a TypeError from dict(), with a request to report them."""
    with pytest.raises(DecabenchError, match=message) as caught:
        read_experiment(source, {path: 1})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("given_as", ["api-key: x1y2z3", ["api-key: x1y2z3", "other: env:OTHER"]])
def test_headers_are_settings_whose_values_are_not_kept(given_as):
    """A text was a TypeError, and a list was refused; the value would have been written into run.toml."""
    source = {"predictor": "openai:http://localhost/v1", "output": "x", "predict": {"header": given_as}}
    found = read_experiment(source)
    headers = [(each.name, each.value) for each in found.predict["header"]]
    assert headers == [("api-key", "x1y2z3"), ("other", "env:OTHER")][: len(headers)]
    assert found.source["predict"]["header"] == ["api-key: (not kept)", "other: env:OTHER"][: len(headers)]
    assert source["predict"]["header"] == given_as
    one = read_experiment({**source, "predict": {}}, ["predict.header=api-key: x1y2z3"])
    assert "x1y2z3" not in str(one.source)
    with pytest.raises(DecabenchError, match="the value of api-key is secret and was not stored"):
        read_experiment(found.source)
    with pytest.raises(DecabenchError, match=r"predict\.header: a header must have the form") as caught:
        read_experiment({**source, "predict": {"header": ["x1y2z3"]}})
    assert "x1y2z3" not in str(caught.value)


def test_tags_of_reasoning_are_a_list_of_pairs(given):
    tags = [["<plan>", "</plan>"], ["<why>", "</why>"]]
    found = read_experiment({**given, "predict": {"reasoning-tags": tags}})
    assert found.predict["reasoning_tags"] == tuple(map(tuple, tags))
    assert found.source["predict"] == {"reasoning-tags": tags}
    with pytest.raises(DecabenchError, match=r"predict\.reasoning-tags' is .* must be a list"):
        read_experiment({**given, "predict": {"reasoning-tags": ["<plan>", "</plan>"]}})


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"suite": "fdu"}, DecabenchError, "'tasks' lists sst, schema, but the suite fdu has only"),
        ({"baselines": ["majorty"]}, DecabenchError, "Did you mean majority.*Specify a submission's folder"),
        ({"prepare": {"mirror": "/nowhere"}}, DecabenchError, "folder /nowhere"),
        ({"prepare": {"mirror": ".", "sample": True}}, DecabenchError, "--mirror or --sample, not both"),
        ({"board": __file__}, DecabenchError, "which is a file"),
    ],
)
def test_what_is_refused_before_anything_is_asked(given, tmp_path, changes, kind, message):
    with pytest.raises(kind, match=message):
        decabench.run(**{**given, **changes})
    assert not (tmp_path / "one").exists()


def test_a_mirror_without_the_files_is_refused_even_if_the_sample_is_prepared(given, tmp_path):
    """With any data prepared, the mirror was not looked at, and the sample was scored in its place."""
    (tmp_path / "mirror").mkdir()
    given["prepare"] = {"mirror": str(tmp_path / "mirror")}
    for _ in range(2):
        with pytest.raises(DataError, match="data is missing for 2 of 2 tasks"):
            decabench.run(**given)
        decabench.prepare(["sst", "schema"], sample=True, home=given["home"])
    assert not (tmp_path / "one").exists()


def test_data_comes_from_the_mirror_that_is_named(given, tmp_path):
    """A home prepared from the sample kept it, though the run file named a mirror; and the other way round."""
    decabench.prepare("sst", sample=True, home=given["home"])
    shutil.copytree(SAMPLE_FOLDER / "sst", tmp_path / "mirror" / "sst")
    given |= {"tasks": ["sst"], "prepare": {"mirror": str(tmp_path / "mirror")}}
    assert forecast(read_experiment(given)).missing == {"sst": ("train", "validation", "test")}
    assert decabench.run(**given).results.tasks["sst"].data.origin == "mirror"
    assert forecast(read_experiment(given)).missing == {}
    with pytest.raises(
        DataError, match=r"already contains the full data of sst \(origin: mirror\)\. Choose another folder"
    ):
        decabench.run(**{**given, "prepare": {"sample": True}})
    shutil.rmtree(tmp_path / "mirror")  # or is not mounted: the data prepared from it stays
    assert decabench.run(**given).results.tasks["sst"].data.origin == "mirror"
    given["prepare"] = {}
    assert decabench.run(**given).results.tasks["sst"].data.origin == "mirror"


def test_a_predictor_is_named_because_its_name_is_recorded(home, tmp_path):
    with pytest.raises(DecabenchError, match="must be a name such as majority"):
        decabench.predict(len, tmp_path / "s", ["sst"], home=home)  # type: ignore[arg-type]


def test_another_predictors_submission_is_not_replaced(given):
    decabench.run(**given)
    with pytest.raises(DecabenchError, match="contains the submission majority"):
        decabench.run(**{**given, "predictor": "random"})
    done = decabench.run(**{**given, "predictor": "random", "force": True})
    assert done.results.submission["name"] == "random"


def test_a_failing_baseline_loses_no_scores(given):
    done = decabench.run(**given, baselines=["most-frequent-tag"])
    assert done.results.tasks["sst"].score is not None and done.exit_code == 1
    assert "a tag or a head for each word" in done.not_compared["most-frequent-tag"]


def test_a_forecast_writes_nothing(given, tmp_path):
    found = forecast(read_experiment(given))
    assert found.missing == {
        "sst": ("train", "validation", "test"),
        "schema": ("train", "validation", "test"),
    }
    assert list(found.estimates) == [] and list(tmp_path.iterdir()) == []
    decabench.prepare(["sst", "schema"], sample=True, home=given["home"])
    assert [each.examples for each in forecast(read_experiment(given)).estimates] == [32, 82]
    assert not (tmp_path / "one").exists()


def test_every_option_of_predict_is_a_setting():
    command = cli.commands["predict"]
    names = {
        parameter.opts[-1].removeprefix("--").replace("-", "_")
        for parameter in command.get_params(click.Context(command))
    }
    above = {"predictor", "tasks", "suite", "split", "output", "home", "include", "force"}
    printed = {"dry_run", "show_prompt", "price_in", "price_out", "help"}
    printed |= {"json", "quiet", "no_color", "debug"}
    options = names - above - printed
    assert {name: find_setting(name) for name in options} == {name: f"predict.{name}" for name in options}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"predict.limit": "ten"}, "'predict.limit' is 'ten', but must be a whole number"),
        ({"force": 1}, "'force' is 1, but must be true or false"),
        (
            {"board": "C:\new"},
            "'board' contains a line break or another control character",
        ),
        (
            {"predict.split": "test"},
            "'predict.split' must be given as 'split' above all tables, or as --set split=VALUE",
        ),
    ],
)
def test_types_and_places_are_those_of_a_file(settings, sentence):
    """It said `expected int | null, got str`, and proposed limit for split (found by a reader)."""
    with pytest.raises(DecabenchError, match=re.escape(sentence)):
        read_experiment({"predictor": "majority", "output": "s"}, settings)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ({"seeds": 3}, "'seeds' is 3, but must be a list of numbers"),
        ({"predict": "hf:gpt2"}, "'predict' is 'hf:gpt2', but must be a table"),
    ],
)
def test_values_of_a_wrong_type_in_a_list_of_models(model, sentence):
    with pytest.raises(DecabenchError, match=re.escape(sentence)):
        read_experiments({"predictor": "majority", "output": "s", "models": [model]})
