import sys

import pytest

pytest.importorskip("torch")

from decabench.errors import DecabenchError, UnknownNameError
from decabench.models.classifier import ClassifierConfig
from decabench.training.config import (
    TrainConfig,
    combine_settings,
    from_mapping,
    from_record,
    read_config,
    to_mapping,
    to_toml,
)
from decabench.training.planning import plan_training
from tests.training.conftest import TINY


def with_settings(config, settings):
    return combine_settings(config, None, settings)[0]


@pytest.mark.parametrize(
    "config",
    [
        TrainConfig(),
        TINY,
        TrainConfig(weights={"iwslt.en.de": 2.0}),
        TrainConfig(skip_context={}, cut_context={}),
    ],
)
def test_toml_there_and_back(config, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(to_toml(config))
    assert read_config(path) == config
    assert from_mapping(to_mapping(config)) == config


def test_settings():
    config = with_settings(
        TrainConfig(),
        [
            "model.dimension=64",
            "steps=5",
            "learning_rate=1",
            "weights.woz.en=0.5",
            "vectors=none:8",
            "init=a b",
        ],
    )
    assert (config.model.dimension, config.steps, config.learning_rate) == (64, 5, 1.0)
    assert (config.weights, config.vectors, config.init) == ({"woz.en": 0.5}, ("none:8",), "a b")
    assert config.model.hidden == 150


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("model.dimensoin=4", "Did you mean model.dimension"),
        ("steps=many", "'many', but must be a whole number"),
        ("steps=0", "must be at least 1"),
        ("model.dimension=7", "even number"),
        ("model.dropout=1.0", "less than 1"),
        ("model=4", "a table of settings"),
        ("weights=4", "a table"),
        ("schedule=joined", "Did you mean joint"),
        ("steps", "KEY=VALUE"),
        ("vectors=[]", "'vectors' is empty"),
    ],
)
def test_what_is_refused(setting, words):
    with pytest.raises((DecabenchError, UnknownNameError), match=words):
        with_settings(TrainConfig(), [setting])


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (
            "seed=9223372036854775808",
            "'seed' is 9223372036854775808, but must be at most 9,223,372,036,854,775,807",
        ),
        (
            'tasks=["sst", "schema", "sst"]',
            "'tasks' lists sst more than once",
        ),
        ("epoch_steps=5", "'epoch_steps' is 5, but the length of the run is given in steps"),
        ("beta1=2.0", "'beta1' is 2.0, but must be less than 1"),
        ("iterations.sst=0", "'iterations.sst' is 0, but must be at least 1"),
        ("temperature=0", "'temperature' is 0, but must be greater than 0"),
        ("learning_rate=nan", "'learning_rate' is nan, but must be at least 0"),
        ("weights.ssst=2", "ssst"),
    ],
)
def test_values_that_cannot_be(setting, words):
    with pytest.raises(DecabenchError, match=words):
        with_settings(TrainConfig(tasks=("sst", "schema")), [setting])


def test_a_value_and_a_table_of_one_name():
    with pytest.raises(DecabenchError, match=r"'model' is set to 3, but 'model\.layers' is set too"):
        with_settings(TrainConfig(), ["model=3", "model.layers=1"])


# A file, a model and settings together ----------------------------------------------------------------------------

FILE = """
tasks = ["sst", "woz.en"]
best_by = "sst"
epochs = 2

[weights]
sst = 0.5

[model]
name = "arc-ii"
hidden = 32
l2 = 0.0
segments = 7
"""


def combine(tmp_path, settings=(), content=FILE, **more):
    (tmp_path / "train.toml").write_text(content)
    return combine_settings(TrainConfig(), tmp_path / "train.toml", settings, **more)


def test_settings_that_make_sense_only_together(tmp_path):
    made, left_out = combine(
        tmp_path,
        {"best_by": "schema", "weights": {"schema": 2.0}, "weights.sst": 1.0},
        tasks=("sst", "schema"),
    )
    assert (made.tasks, made.best_by, left_out) == (("sst", "schema"), "schema", [])
    assert made.weights == {"sst": 1.0, "schema": 2.0} and made.model.segments == 7
    made, _ = combine(
        tmp_path, ["tasks=['schema']", "best_by=schema", "weights.schema=1"], FILE.replace("sst = 0.5", "")
    )
    assert made.tasks == ("schema",)
    with pytest.raises(DecabenchError, match=r"score \(best_by\) 'sst'"):
        combine(tmp_path, tasks=("woz.en",), content=FILE.replace("sst = 0.5", ""))


def test_another_model_keeps_what_it_has_too(tmp_path):
    made, left_out = combine(tmp_path, {"model.name": "lstm", "model.initial": 0.1})
    assert (made.model.name, made.model.hidden, made.model.l2) == ("lstm", 32, 0.0)
    assert made.model.initial == 0.1 and left_out == ["model.segments"]
    made, left_out = combine(tmp_path, model="classifier")
    assert made.model == ClassifierConfig("classifier") and left_out == [
        "model.hidden",
        "model.l2",
        "model.segments",
    ]
    made, left_out = combine(tmp_path, {"model.name": "arc-i"}, model="nbow")  # a setting is the stronger one
    assert made.model.name == "arc-i" and made.model.segments == 7 and not left_out
    with pytest.raises(UnknownNameError, match=r"'model\.segments'"):  # asked for, and not there
        combine(tmp_path, {"model.name": "lstm", "model.segments": 3})


def test_a_list_set_twice_is_not_added_up_in_silence():
    """Before, setting a list twice kept only the last value, so a comparison used one set of vectors instead of two."""
    with pytest.raises(DecabenchError, match=r"'vectors' is set to 'a' and again to 'b'"):
        with_settings(TrainConfig(), ["vectors=a", "vectors=b"])
    assert with_settings(TrainConfig(), ["vectors=a", "vectors=a"]).vectors == ("a",)
    assert with_settings(TrainConfig(), ["steps=3", "steps=5"]).steps == 5


def test_a_record_has_the_tables_that_it_was_made_with():
    config = TrainConfig(cut_context={"squad": 300}, skip_context={"sst": 9})
    assert from_record(to_mapping(config)) == config


def test_a_file_of_settings_may_not_choose_what_is_run(tmp_path, monkeypatch):
    (tmp_path / "brought_along.py").write_text("open('ran', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "settings.toml"
    path.write_text('tasks = ["sst"]\n[model]\nname = "brought_along:FAMILY"\n')
    for read in (read_config, lambda path: plan_training(tmp_path / "run", config=path)):
        with pytest.raises(
            DecabenchError,
            match=r"settings\.toml refers to the model brought_along:FAMILY, but a file may not",
        ):
            read(path)
    made, _ = combine_settings(TrainConfig(), path, (), "classifier")  # which is run in its place
    assert made.model.name == "classifier" and made.tasks == ("sst",)
    assert not (tmp_path / "ran").exists()
    with pytest.raises(
        UnknownNameError, match=r"brought_along \(.*\) has no 'FAMILY'"
    ):  # the user names it too
        plan_training(tmp_path / "run", model="brought_along:FAMILY", config=path)
    assert (tmp_path / "ran").exists()
    sys.modules.pop("brought_along", None)
