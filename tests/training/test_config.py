"""Configurations: TOML there and back, settings from the command line, refusals."""

import pytest

pytest.importorskip("torch")

from decabench.errors import DecabenchError, UnknownNameError
from decabench.models.classifier import ClassifierConfig
from decabench.training.config import (
    Phase,
    TrainConfig,
    from_mapping,
    read_config,
    to_mapping,
    to_toml,
    with_settings,
)
from decabench.training.schedule import plan_phases
from tests.sources import ROOT
from tests.training.conftest import TINY


@pytest.mark.parametrize("config", [TrainConfig(), TINY, TrainConfig(weights={"iwslt.en.de": 2.0})])
def test_toml_there_and_back(config, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(to_toml(config))
    assert read_config(path) == config
    assert from_mapping(to_mapping(config)) == config


def test_the_defaults_are_the_papers():
    config = TrainConfig()
    model = config.model
    assert (model.dimension, model.hidden, model.heads, model.layers, model.dropout) == (200, 150, 3, 2, 0.2)
    assert (config.beta1, config.beta2, config.epsilon) == (0.9, 0.98, 1e-9)
    assert (config.learning_rate, config.warmup, config.batch_tokens) == (2.5e-3, 800, 10_000)
    assert (model.vocabulary, config.skip_context, config.cut_context) == (
        50_000,
        {"squad": 400},
        {"cnn_dailymail": 400},
    )


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
        ("model.dimensoin=4", "Did you mean dimension"),
        ("stepps=4", "Did you mean steps"),
        ("steps=many", "'many': give a value of type int"),
        ("steps=true", "True: give a value of type int"),
        ("steps=0", "give 1 or more"),
        ("model.dimension=7", "even number"),
        ("model.dropout=1.0", "below 1"),
        ("model=4", "a table of settings"),
        ("weights=4", "a table of names and values"),
        ("schedule=joined", "Did you mean joint"),
        ("steps", "KEY=VALUE"),
        ("vectors=[]", "vectors is empty"),
    ],
)
def test_what_is_refused(setting, words):
    with pytest.raises((DecabenchError, UnknownNameError), match=words):
        with_settings(TrainConfig(), [setting])


def test_a_file_that_is_no_toml(tmp_path):
    (tmp_path / "x.toml").write_text("= 4")
    with pytest.raises(DecabenchError, match="cannot be read as TOML"):
        read_config(tmp_path / "x.toml")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("train_examples=-1", "train_examples is -1: give 0 or more"),
        ("seed=-3", "seed is -3: give 0 or more"),
        ("validation_examples=-1", "validation_examples is -1: give 0 or more"),
        ("clip=-0.1", "clip is -0.1: give 0 or more"),
        ("beta1=2.0", "beta1 is 2.0: give a number of at least 0 and below 1"),
        ("learning_rate=-0.1", "learning_rate is -0.1: give a number of 0 or more"),
        ("learning_rate=nan", "learning_rate is nan: give a number of 0 or more"),
        ("cooldown=200000", "cooldown is 200000: give 0 to 100000, the number of steps"),
        ("cut_context.sst=-3", "cut_context of sst is -3: give 1 or more tokens"),
        ("weights.ssst=2", "ssst"),
        ("iterations.ssst=3", "ssst"),
    ],
)
def test_values_that_cannot_be(setting, words):
    with pytest.raises(DecabenchError, match=words):
        with_settings(TrainConfig(tasks=("sst", "schema")), [setting])


def test_a_value_and_a_table_of_one_name():
    with pytest.raises(DecabenchError, match="model is given as 3 and as a table with layers"):
        with_settings(TrainConfig(), ["model=3", "model.layers=1"])


def test_the_phases_of_the_page(tmp_path):
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    (tmp_path / "phases.toml").write_text(page.partition("```toml\n")[2].partition("```")[0])
    config = read_config(tmp_path / "phases.toml")
    assert config.model == ClassifierConfig(train_embeddings=True)
    assert plan_phases(config) == (
        Phase(("sst",), epochs=1),
        Phase(("sst", "multinli.in.out"), epochs=10, order="sequence", freeze=("embed",)),
    )
    (tmp_path / "again.toml").write_text(to_toml(config))
    assert read_config(tmp_path / "again.toml") == config
