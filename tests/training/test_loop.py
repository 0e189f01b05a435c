import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file

from decabench.errors import DecabenchError, MissingDataError
from decabench.models import checkpoint
from decabench.models.checkpoint import Checkpoint, latest_checkpoint, newest_checkpoint
from decabench.models.mqan_batch import MQANConfig
from decabench.training.config import TrainConfig, read_config, to_toml
from decabench.training.logs import read_rows
from decabench.training.loop import run_training
from decabench.training.optimizers import learning_rate as rate_of
from decabench.training.planning import check_run
from tests.sources import ROOT
from tests.training.conftest import TINY


def learning_rate(config, step):
    return rate_of(config, step, config.steps, 0)


def weights(output):
    return load_file(newest_checkpoint(output) / "model.safetensors")


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)


def test_sizes_that_somebody_could_mean_are_taken(make_run, monkeypatch):
    model = MQANConfig(layers=100, dimension=512, hidden=1024, heads=8)
    state = torch.random.get_rng_state()
    monkeypatch.setattr(checkpoint, "_memory", lambda: 64 * 10**9)
    check_run(make_run(model=model))
    assert torch.equal(torch.random.get_rng_state(), state)
    monkeypatch.setattr(
        checkpoint, "_memory", lambda: 24 * 10**9
    )  # its 4e9 weights take 16 GB, and as much again
    with pytest.raises(DecabenchError, match=r"too large for this machine \([\d,]+ weights\)"):
        check_run(make_run(model=model))


def test_what_a_run_leaves(make_run):
    run = make_run()
    finished = run_training(run)
    assert finished.step == 6
    assert read_config(run.output / "config.toml") == run.config
    rows = read_rows(run.output / "train.csv")
    assert [(row["step"], row["task"]) for row in rows] == [
        (str(n + 1), ("sst", "schema")[n % 2]) for n in range(6)
    ]
    assert [row["step"] for row in read_rows(run.output / "validation.csv")] == ["3"] * 3 + ["6"] * 3
    record = Checkpoint.open(run.output).record
    splits = ("train", "validation")
    assert record.data.keys() == {f"{task}.{split}" for task in run.config.tasks for split in splits}
    assert all(value.startswith("sha256:") for value in record.data.values())
    assert record.versions.keys() == {"decabench", "torch", "numpy", "python"}
    assert record.vectors == "none:12"
    kept = {path.name for path in (run.output / "checkpoints").iterdir()}
    assert kept == {newest_checkpoint(run.output).name, Checkpoint.open(run.output).folder.name}


def test_a_run_in_three_parts_is_the_run_in_one(make_run):
    run_training(make_run("whole"))
    run_training(make_run("parts", steps=2))
    run_training(make_run("parts", steps=5, resume=True))
    run_training(make_run("parts", resume=True))
    whole, parts = make_run("whole").output, make_run("parts").output
    assert same(weights(whole), weights(parts))

    def curve(output):
        return [(row["step"], row["task"], row["loss"]) for row in read_rows(output / "train.csv")]

    assert curve(whole) == curve(parts)


@pytest.mark.heavy
def test_a_killed_run_goes_on_to_the_same_weights(make_run, home, tmp_path):
    run = make_run("killed", steps=60, checkpoint_every=5, validate_every=1000)
    run_training(make_run("whole", steps=60, checkpoint_every=60, validate_every=1000))
    (tmp_path / "config.toml").write_text(to_toml(run.config))
    command = [
        *(sys.executable, "-m", "decabench", "train", "--output", run.output, "--home", home),
        *("--config", tmp_path / "config.toml", "--device", "cpu", "--resume"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(list(map(str, command)), env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while read_latest(run.output) < 20 and time.monotonic() < deadline:
        time.sleep(0.003)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert 0 < read_latest(run.output) < 60
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert same(weights(run.output), weights(make_run("whole").output))
    assert [int(row["step"]) for row in read_rows(run.output / "train.csv")] == list(range(1, 61))


def read_latest(output):
    newest = newest_checkpoint(output)
    return 0 if newest is None else int(newest.name[-8:])


def test_it_does_not_go_on_with_other_settings(make_run):
    run_training(make_run(steps=2))
    for changes, words in (
        ({"seed": 3}, "other settings .seed."),
        ({"vectors": ("none:8",)}, "this run has different vectors"),
        ({"tasks": ("sst",)}, "other settings .tasks."),
    ):
        with pytest.raises(DecabenchError, match=words):
            run_training(make_run(resume=True, **changes))


def test_the_learning_rate_cools_down():
    config = TrainConfig(steps=1000, warmup=100, learning_rate=1.0, cooldown=200)
    assert learning_rate(config, 100) == 1.0
    assert learning_rate(config, 800) == pytest.approx((100 / 800) ** 0.5)
    assert learning_rate(config, 900) == pytest.approx((100 / 900) ** 0.5 * 101 / 201)
    assert learning_rate(config, 1000) == pytest.approx((100 / 1000) ** 0.5 / 201)


def test_the_last_checkpoint_where_none_is_chosen(make_run):
    run = make_run(steps=6, learning_rate=0.0, validate_every=2, best_by="last")
    assert run_training(run).step == 6
    assert Checkpoint.open(run.output).record.step == 6


def test_it_stops_when_nothing_gets_better(make_run):
    run = make_run(steps=60, learning_rate=0.0, validate_every=2, patience=3)
    finished = run_training(run)
    assert finished.step == 8  # the first validation is the best, and three more are not
    assert Checkpoint.open(run.output).record.step == 2


def test_a_weight_scales_a_tasks_gradient(make_run):
    run_training(make_run("one", steps=1, tasks=("sst",)))
    run_training(make_run("two", steps=1, tasks=("sst",), weights={"sst": 2.0}))
    one, two = (read_rows(make_run(name).output / "train.csv")[0] for name in ("one", "two"))
    assert one["loss"] == two["loss"]
    assert float(two["gradient_norm"]) == pytest.approx(2 * float(one["gradient_norm"]), rel=1e-3)


def test_what_is_frozen_stays(make_run):
    first = make_run("first")
    run_training(first)
    run = make_run("second", init=str(first.output), freeze=("encoder", "decoder.lstm"))
    run_training(run)
    before, after = load_file(Checkpoint.open(first.output).folder / "model.safetensors"), weights(run.output)
    frozen = {key for key in before if key.startswith(("encoder.", "decoder.lstm."))}
    assert {key for key in before if torch.equal(before[key], after[key])} == frozen
    with pytest.raises(DecabenchError, match="no part 'encodr'"):
        run_training(make_run("third", freeze=("encodr",)))
    with pytest.raises(DecabenchError, match="All parts of the network are frozen"):
        run_training(make_run("fourth", freeze=("encoder", "decoder", "generate")))


def test_a_new_task_begins_with_what_was_learned(make_run):
    first = make_run("first")
    run_training(first)
    run = make_run("second", init=str(first.output), tasks=("woz.en",), steps=1, learning_rate=0.0)
    run_training(run)
    old, new = Checkpoint.open(first.output), Checkpoint.open(run.output)
    before, after = load_file(old.folder / "model.safetensors"), weights(run.output)
    assert all(torch.equal(before[key], after[key]) for key in before if not key.startswith("generate."))
    words = {word: row for row, word in enumerate(old.lexicon().words)}
    assert old.lexicon().words != new.lexicon().words
    for row, word in enumerate(new.lexicon().words):
        if word in words:
            assert torch.equal(after["generate.weight"][row], before["generate.weight"][words[word]])
    with pytest.raises(
        DecabenchError,
        match=r"does not match this model: model\.dimension was 8 and is now 10\. Some weights",
    ):
        run_training(make_run("third", init=str(first.output), model=replace(TINY.model, dimension=10)))
    with pytest.raises(DecabenchError, match="'init_parts' lists encoder, but there is no checkpoint"):
        run_training(make_run("fourth", init_parts=("encoder",)))


def test_only_some_parts_of_a_checkpoint_are_copied(make_run):
    first = make_run("first")
    run_training(first)
    other = {"tasks": ("woz.en",), "steps": 1, "learning_rate": 0.0, "seed": 7}
    run_training(make_run("drawn", **other))
    run = make_run("second", init=str(first.output), init_parts=("encoder", "decoder.lstm"), **other)
    run_training(run)
    before, after = load_file(Checkpoint.open(first.output).folder / "model.safetensors"), weights(run.output)
    drawn = weights(make_run("drawn").output)
    for key, value in after.items():
        expected = before if key.startswith(("encoder.", "decoder.lstm.")) else drawn
        assert torch.equal(value, expected[key]), key
    with pytest.raises(DecabenchError, match="no part 'encodr' to copy"):
        run_training(make_run("third", init=str(first.output), init_parts=("encodr",)))


@pytest.mark.heavy
def test_it_learns_by_heart(make_run):
    model = replace(TINY.model, dimension=64, hidden=64, dropout=0.0, max_answer_tokens=40)
    run = make_run(
        model=model,
        tasks=("sst", "woz.en"),
        steps=120,
        train_examples=8,
        batch_tokens=1_000,
        warmup=40,
        validate_every=120,
        checkpoint_every=120,
        vectors=("none:64",),
    )
    run_training(run)
    answerer = Checkpoint.open(run.output).load("cpu")
    for task in run.config.tasks:
        examples = list(run.store.examples(task, "train"))[:8]
        replies = answerer.answer(run.tasks[task], examples)
        right = sum(
            reply.text == example.answers[0].lower() for reply, example in zip(replies, examples, strict=True)
        )
        assert right == len(examples), task


def test_weights_that_are_not_finite_are_not_saved(make_run):
    run = make_run(epsilon=0.0, steps=1, validate_every=1)
    with pytest.raises(
        DecabenchError, match=r"After step 1, the weights in \S+ are not finite, so no checkpoint was saved"
    ):
        run_training(run)
    assert latest_checkpoint(run.output) is None


def test_a_loss_that_is_not_finite_is_shown(make_run):
    run = make_run(loss_weights={"loss": 1e300}, steps=1, validate_every=1)
    shown = r"^At step 1 \(\S+\), the loss is inf and the gradient norm is \S+, before any update\. Check for"
    with pytest.raises(DecabenchError, match=shown):
        run_training(run)


def test_vectors_that_are_missing_are_noticed_before_any_data_is_read(make_run, monkeypatch, tmp_path):
    monkeypatch.setattr("decabench.training.loop.encode_tasks", None)
    with pytest.raises(MissingDataError, match="The word-vector file"):
        run_training(make_run(vectors=("none:12", str(tmp_path / "glove.txt"))))
