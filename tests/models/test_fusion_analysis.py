"""What a trace says of every word, against the model's answers to the beginnings of a text."""

import json
from dataclasses import replace

import pytest

pytest.importorskip("torch")

import torch

from decabench.errors import DecabenchError
from decabench.models.checkpoint import Checkpoint
from decabench.models.fusion_analysis import trace_fusion
from decabench.tasks import TASKS, Store

TASK = TASKS["sst"]


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


@pytest.mark.parametrize("name", ["arc-i", "arc-ii", "lstm"])
def test_each_word_is_the_end_of_a_shorter_text(train, example, name):
    model = Checkpoint.open(train(name)).load("cpu")
    found = trace_fusion(model, TASK, example)
    words = example.context.lower().split()
    assert list(found.words) == words
    assert list(found.labels) == ["negative", "positive"]
    for n in (1, 3, len(words)):
        short = trace_fusion(model, TASK, replace(example, context=" ".join(words[:n])))
        assert found.probabilities[n - 1] == pytest.approx(short.probabilities[-1], abs=1e-6)
        assert short.answer == short.labels[int(torch.tensor(short.probabilities[-1]).argmax())]
    assert model.answer(TASK, [example])[0].text == found.answer
    assert all(sum(row) == pytest.approx(1) for row in found.probabilities)
    if name == "lstm":
        assert not found.gates
    else:
        assert [len(row) for row in found.gates] == [6] * len(words)
        assert all(0 < value < 1 for row in found.gates for value in row)


def test_both_directions(train, example):
    """A text of one word is read alike in both."""
    model = Checkpoint.open(train("arc-i", "model.bidirectional=true")).load("cpu")
    found = trace_fusion(model, TASK, example)
    assert [len(row) for row in found.gates] == [12] * len(found.words)
    short = trace_fusion(model, TASK, replace(example, context=found.words[0]))
    assert short.answer == short.labels[int(torch.tensor(short.probabilities[0]).argmax())]
    assert short.gates[0][:6] == pytest.approx(found.gates[0][:6], abs=1e-6)  # forwards
    assert short.gates[0][6:] != pytest.approx(found.gates[0][6:], abs=1e-6)


def test_models_and_texts_that_cannot_be_traced(train, example):
    model = Checkpoint.open(train("nbow")).load("cpu")
    with pytest.raises(DecabenchError, match="does not read word by word"):
        trace_fusion(model, TASK, example)
    model = Checkpoint.open(train("arc-i")).load("cpu")
    with pytest.raises(DecabenchError, match="has no words"):
        trace_fusion(model, TASK, replace(example, context=" "))


@pytest.mark.parametrize("name", ["arc-ii", "lstm"])
def test_the_command(train, command, home, tmp_path, example, name):
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


def test_the_command_says_what_ids_look_like(train, command, home, tmp_path):
    done = command(
        *("analyze", "fusion", train("arc-i"), "--task", "sst", "--id", "455", "--home", home),
        *("--device", "cpu", "--output", tmp_path / "out"),
    )
    assert done.exit_code == 3
    assert "has no example '455': its ids look like 'sst.validation." in " ".join(done.output.split())
