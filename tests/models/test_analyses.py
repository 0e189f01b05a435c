"""Analyses: what they say of a model, against the model itself, and the files that they leave."""

import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[models]'")

from decabench.errors import DecabenchError
from decabench.models.analyses import (
    ROUTES,
    STEPS,
    map_attention,
    measure_routes,
    share_pointers,
    trace_fusion,
)
from decabench.models.batches import TextReader
from decabench.models.checkpoint import Checkpoint, TrainedModel
from decabench.models.recurrent_modules import FAMILY, RecurrentModules, RecurrentModulesConfig
from decabench.tasks import TASKS, Example, Question, Store
from decabench.training.loop import run_training
from decabench.vectors import JoinedVectors, Lexicon, NoVectors, WordTable, detokenize

# MQAN: pointers and attention

SCHEMA = TASKS["schema"]


@pytest.fixture
def trained(make_run):
    run = make_run(steps=2)
    run_training(run)
    return run, Checkpoint.open(run.output).load("cpu")


def force(answerer, gamma, lam):
    """Fixes both switches by their biases."""
    decoder = answerer.network.decoder
    for switch, value in ((decoder.vocabulary_switch, gamma), (decoder.context_switch, lam)):
        switch.weight.data.zero_()
        switch.bias.data.fill_(value)


@pytest.mark.parametrize(
    ("gamma", "lam", "source"), [(9, 0, "vocabulary"), (-9, 9, "context"), (-9, -9, "question")]
)
def test_pointing_follows_the_switches(trained, gamma, lam, source):
    run, answerer = trained
    force(answerer, gamma, lam)
    found = share_pointers(answerer, SCHEMA, list(run.store.examples("schema", "validation"))[:6])
    assert found.words > 0
    assert found.chosen[source] == 1
    assert found.weight[source] > 0.99
    assert sum(found.weight.values()) == pytest.approx(1)


def test_a_map_is_of_the_examples_own_tokens(trained):
    run, answerer = trained
    example = next(run.store.examples("schema", "validation"))
    found = map_attention(answerer, SCHEMA, example)
    assert detokenize(found.context[1:-1]) == example.context.lower()
    assert [len(row) for row in found.context_attention] == [len(found.context)] * len(found.answer)
    assert all(sum(row) == pytest.approx(1, abs=1e-4) for row in found.question_attention)


def test_the_commands_pointers_and_attention(trained, command, home, tmp_path):
    run, _ = trained
    shared = (run.output, "--home", home, "--device", "cpu", "--output", tmp_path / "out")
    done = command("analyze", "pointers", *shared, "--examples", 4)
    assert done.exit_code == 0, done.output
    content = json.loads((tmp_path / "out" / "pointers.json").read_text())
    assert content["tasks"].keys() == {"sst", "schema"}
    done = command("analyze", "attention", *shared, "--task", "sst")
    assert done.exit_code == 0, done.output
    content = json.loads((tmp_path / "out" / "attention.json").read_text())
    assert len(content["answer"]) == len(content["weights"]) == len(content["context_attention"])
    for name in ("pointers.png", "attention.png"):
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")


# Recurrent classifiers: fusion

SST = TASKS["sst"]


@pytest.fixture
def train(command, home, tmp_path):
    def run(name, *settings):
        folder = tmp_path / name
        values = ("vectors=['none:8']", "steps=4", "batch_examples=4", "model.hidden=6", *settings)
        options = [part for value in values for part in ("--set", value)]
        done = command(
            *("train", "--model", name, "--tasks", "sst", "--home", home, "--device", "cpu"),
            *("--output", folder, *options),
        )
        assert done.exit_code == 0, done.output
        return folder

    return run


@pytest.fixture
def example(home):
    return next(row for row in Store(home).examples("sst", "validation") if len(row.context.split()) > 4)


def test_models_and_texts_that_cannot_be_traced(train, example):
    model = Checkpoint.open(train("nbow")).load("cpu")
    with pytest.raises(DecabenchError, match="does not read word by word"):
        trace_fusion(model, SST, example)
    model = Checkpoint.open(train("arc-i")).load("cpu")
    with pytest.raises(DecabenchError, match="has no words"):
        trace_fusion(model, SST, replace(example, context=" "))


@pytest.mark.parametrize("name", ["arc-ii", "lstm"])
def test_the_command_fusion(train, command, home, tmp_path, example, name):
    done = command(
        *("analyze", "fusion", train(name), "--task", "sst", "--id", example.id, "--home", home),
        *("--device", "cpu", "--output", tmp_path / "out"),
    )
    assert done.exit_code == 0, done.output
    content = json.loads((tmp_path / "out" / "fusion.json").read_text())
    assert content["format"] == "decabench.fusion/1"
    assert (content["task"], content["id"], content["model"]) == ("sst", example.id, name)
    assert len(content["words"]) == len(content["probabilities"])
    assert (tmp_path / "out" / "fusion.png").read_bytes().startswith(b"\x89PNG")


# Recurrent modules: routes

TEXTS = ["a b c d e f g h", "c", "b a", "h h h h h h h"]
EXAMPLES = [Example(str(at), "?", text, ("",), (str(at),)) for at, text in enumerate(TEXTS)]


def make(task="hien.pos", extension="rmn", **settings):
    words = WordTable(Lexicon([f" {letter} " for letter in "abcdefgh"]), JoinedVectors((NoVectors(4),)))
    config = RecurrentModulesConfig(
        extension=extension, hidden=4, module_size=4, modules=2, cells=2, unseen_vectors=False, **settings
    )
    torch.manual_seed(0)
    network = RecurrentModules(config, {task: TASKS[task].output}, words)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    return TrainedModel(FAMILY, config, network, words, {}, {}, torch.device("cpu"), "float32")


def gates_of(model, task, text):
    """(words read, m - 1, n), of one text alone."""
    reader = TextReader(TASKS[task], model.words.lexicon)
    item = FAMILY.encode(Question("", "?", text), None, TASKS[task], reader)
    batch = FAMILY.make_batch(task, [item], model.words, model.config)
    with torch.no_grad():
        return model.network.eval().represent(batch).decoder.chosen.view(-1, 2, 2).numpy()


def test_shares_of_tags():
    model = make()
    found = measure_routes(model, TASKS["hien.pos"], EXAMPLES)
    alone = [gates_of(model, "hien.pos", text) for text in TEXTS]
    assert found.words == sum(map(len, alone)) == 18
    assert found.texts == [4, 3, 2, 2, 2, 2]
    np.testing.assert_allclose(found.sub_encoders, np.concatenate(alone).mean(0), rtol=1e-6)
    for step in range(STEPS):
        there = [gates[step] for gates in alone if len(gates) > step]
        np.testing.assert_allclose(found.steps[step], np.mean(there, 0), rtol=1e-6)
    assert 0 < np.mean(found.sub_encoders) < 1


def test_labels_are_read_at_the_last_word():
    model = make("sst")
    found = measure_routes(model, TASKS["sst"], EXAMPLES)
    assert found.words == 4
    assert found.texts == [1, 1, 0, 0, 0, 0]  # texts of one and two words; the others are longer than STEPS
    alone = np.concatenate([gates_of(model, "sst", text) for text in TEXTS])
    np.testing.assert_allclose(found.sub_encoders, alone.mean(0), rtol=1e-6)
    assert found.steps[5] == [[0, 0], [0, 0]]


def test_files_and_messages(tmp_path):
    model = make(gates="open")
    (told, *written) = ROUTES.run(model, {"hien.pos": (TASKS["hien.pos"], EXAMPLES)}, tmp_path)
    assert told.startswith(
        "hien.pos: 100.0% of connections to the decoder open (100.0% to 100.0% by sub-encoder)"
    )
    assert "100.0% within the encoder, at 18 words" in told
    content = json.loads((tmp_path / "routes.json").read_text())
    assert content["format"] == "decabench.routes/1"
    assert content["tasks"]["hien.pos"]["sub_encoders"] == [[1, 1], [1, 1]]
    assert content["shares"] == {"hien.pos": [[1, 1], [1, 1]]}
    assert (tmp_path / "routes.png").read_bytes().startswith(b"\x89PNG")
    assert len(written) == 2
