import json
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[models]'")

from decabench.models.analyses import map_attention, share_pointers
from decabench.models.checkpoint import Checkpoint
from decabench.tasks import TASKS, Store
from decabench.training.loop import run_training
from decabench.training.planning import TrainingRun
from decabench.vectors import detokenize
from tests.training.conftest import TINY

# MQAN: pointers and attention

SCHEMA = TASKS["schema"]


@pytest.fixture(scope="module")
def run(home, tmp_path_factory):
    config, folder = replace(TINY, steps=2), tmp_path_factory.mktemp("analyses") / "run"
    tasks = {name: TASKS[name] for name in config.tasks}
    made = TrainingRun(config, tasks, Store(home), folder, "cpu", report=lambda text: None)
    run_training(made)
    return made


@pytest.fixture
def trained(run):
    return run, Checkpoint.open(run.output).load("cpu")


def force(answerer, gamma, lam):
    """Fix both switches through their biases."""
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
