import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[models]'")

from decabench.errors import DecabenchError
from decabench.models import Checkpoint, TextReader, TrainedModel
from decabench.models.recurrent_modules import FAMILY, RecurrentModules, RecurrentModulesConfig
from decabench.tasks import TASKS, Example, Question, Store
from decabench.vectors import JoinedVectors, Lexicon, NoVectors, WordTable
from papers.figures import (
    LAYERS,
    ROUTES,
    STEPS,
    encoder_activations,
    measure_changes,
    measure_routes,
    shared_use,
    trace_fusion,
)
from tests.models.equations import meta as equations

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
        *(
            "analyze",
            "papers.figures:FUSION",
            train(name),
            "--task",
            "sst",
            "--id",
            example.id,
            "--home",
            home,
        ),
        *("--device", "cpu", "--output", tmp_path / "out"),
    )
    assert done.exit_code == 0, done.output
    content = json.loads((tmp_path / "out" / "fusion.json").read_text())
    assert content["format"] == "decabench.fusion/1"
    assert (content["task"], content["id"], content["model"]) == ("sst", example.id, name)
    assert len(content["words"]) == len(content["probabilities"])
    assert (tmp_path / "out" / "fusion.png").read_bytes().startswith(b"\x89PNG")


# Meta-LSTM: changes of its matrices


def test_changes_are_those_of_the_equations(train, example):
    model = Checkpoint.open(train("meta-lstm", "model.meta=3", "model.rank=2")).load("cpu")
    found = measure_changes(model, SST, example)
    w = {name: value.detach().double() for name, value in model.network.named_parameters()}
    item = model.encode(example, SST)
    x = model.network.embed(model.make_batch(SST, [item]), "text")[0].detach().double()
    h = equations.meta_lstm(x, w, "shared.0", "heads.sst.networks.0")
    W_m, b_m, W_z = w["shared.0.weight"], w["shared.0.bias"], w["shared.0.project"]
    before, own, cell = None, torch.zeros(3).double(), torch.zeros(3).double()
    expected = []
    for t, x_t in enumerate(x):
        u = torch.cat([x_t, h[t - 1] if t else torch.zeros_like(h[0]), own])
        own, cell = equations.advance(equations.gates(W_m @ u + b_m), cell)
        P, Q = w["heads.sst.networks.0.P"], w["heads.sst.networks.0.Q"]
        now = torch.cat([P[gate] @ torch.diag(W_z @ own) @ Q[gate] for gate in range(4)])
        if before is not None:
            ratios = [abs(a - b) / abs(b) for a, b in zip(now.flatten(), before.flatten(), strict=True)]
            expected.append(float(sum(ratios) / len(ratios)))
        before = now
    assert len(found.words) == len(found.norms) + 1
    np.testing.assert_allclose(found.means, expected, rtol=1e-3)  # the states have single precision
    with pytest.raises(DecabenchError, match="Choose a meta-lstm"):
        measure_changes(Checkpoint.open(train("lstm")).load("cpu"), SST, example)


def test_the_command_changes(train, command, home, tmp_path, example):
    folder = train("meta-lstm", "model.bidirectional=true")
    options = ("--task", "sst", "--id", example.id, "--home", home, "--device", "cpu")
    done = command("analyze", "papers.figures:CHANGES", folder, *options, "--output", tmp_path / "out")
    assert done.exit_code == 0, done.output
    content = json.loads((tmp_path / "out" / "changes.json").read_text())
    assert len(content["words"]) == len(content["means"]) + 1 == len(content["probabilities"])
    assert all(0 < value < float("inf") for value in content["means"] + content["norms"])
    assert (tmp_path / "out" / "changes.png").read_bytes().startswith(b"\x89PNG")


# MQAN: activations


def test_activations_are_the_encoders(command, home, train, tmp_path):
    folder = train("mqan", "model.dimension=8", "model.heads=2", "model.layers=1", "model.vocabulary=20")
    example = next(iter(Store(home).examples("sst", "validation")))
    model = Checkpoint.open(folder).load("cpu")
    found = encoder_activations(model, SST, example)
    with torch.inference_mode():
        encoded = model.network.encoder(model.make_batch(SST, [model.encode(example, SST)]))
    assert list(found) == list(LAYERS)
    np.testing.assert_allclose(found["context, before the decoder"], encoded.context[0], atol=1e-6)
    np.testing.assert_allclose(found["question, before the decoder"], encoded.question[0], atol=1e-6)
    assert found["context, after coattention"].shape == encoded.context[0].shape
    options = ("--tasks", "sst", "--examples", "2", "--home", home, "--device", "cpu")
    done = command("analyze", "papers.figures:ACTIVATIONS", folder, *options, "--output", tmp_path / "out")
    assert done.exit_code == 0, done.output
    content = json.loads((tmp_path / "out" / "activations.json").read_text())
    assert content["examples"] == {"sst": example.id}


def test_an_lstm_has_no_such_layers(home, train):
    model = Checkpoint.open(train("lstm")).load("cpu")
    example = next(iter(Store(home).examples("sst", "validation")))
    with pytest.raises(DecabenchError, match="Choose an MQAN model"):
        encoder_activations(model, SST, example)


def test_shared_use_is_the_mean_correlation():
    first, second = np.array([[1.0, -2.0, 3.0]]), np.array([[-2.0, 4.0, -6.0], [2.0, -4.0, 6.0]])
    assert shared_use([first, second]) == pytest.approx(1.0)
    assert shared_use([first, np.array([[3.0, 2.0, 1.0]])]) == pytest.approx(-1.0)


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
    return TrainedModel(FAMILY, config, network, words, {}, {}, torch.device("cpu"))


def gates_of(model, task, text):
    """(words read, m - 1, n), for a single text."""
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
