"""Families of one file, by the command line alone: trained, killed, resumed, exported, predicted with and scored."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[train]'")

from safetensors.torch import load_file

from decabench.models import Checkpoint
from decabench.tasks import Store
from tests.sources import ROOT

TAGGING = ROOT / "examples" / "tagging"
POS, SUITE = TAGGING / "pos.toml", TAGGING / "suite.toml"
HEAVY = pytest.mark.heavy

SHORT = ("steps=60", "checkpoint_every=4", "validate_every=30", "validation_examples=20", "batch_examples=8")
SHORT += ("rate=constant", "learning_rate=0.01", "model.dimension=16", "best_by=last")


@pytest.fixture
def glove(tmp_path, home):
    """Vectors of words of the sample's reviews, in GloVe's text form."""
    rows = Store(home).read("sst", "train", ("context",))
    words = sorted({word for row in rows for word in row["context"].lower().split()})
    values = np.random.default_rng(0).standard_normal((len(words), 12)).round(3)
    path = tmp_path / "glove.txt"
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(words, values, strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def tagging(command, tmp_path):
    """A home with the example's task."""
    done = command("prepare", "pos", "--include", POS, "--home", tmp_path / "home")
    assert done.exit_code == 0, done.output
    return tmp_path / "home"


def settings(*values):
    return [part for value in (*SHORT, *values) for part in ("--set", value)]


def kill_and_resume(command, arguments, tmp_path, longer="steps=100000"):
    """Train a run whole, and another that is killed in the middle and resumed; return their folders.

    `longer` is the setting of a run that begins in the same way and cannot be done before it is killed.
    """
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = command(*arguments, "--output", whole)
    assert done.exit_code == 0, done.output
    line = [sys.executable, "-m", "decabench", *map(str, arguments), "--output", str(killed)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(torch.get_num_threads())}
    child = subprocess.Popen([*line, "--set", longer], env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while latest_step(killed) < 9 and time.monotonic() < deadline:
        time.sleep(0.002)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    step = latest_step(killed)
    assert 0 < step < 60
    done = command(*arguments, "--output", killed, "--resume")
    assert done.exit_code == 0, done.output
    assert f"from step {step}." in done.output
    return whole, killed


def latest_step(output: Path) -> int:
    try:
        return int(json.loads((output / "latest.json").read_text())["checkpoint"][-8:])
    except FileNotFoundError:
        return 0


def tensors(output, name):
    return load_file(output / json.loads((output / "latest.json").read_text())["checkpoint"] / name)


def assert_same(whole, killed):
    """Weights and the optimizer's state, bit for bit, and the losses in the log."""
    for name in ("model.safetensors", "optimizer.safetensors"):
        first, second = tensors(whole, name), tensors(killed, name)
        assert first.keys() == second.keys()
        assert all(torch.equal(first[key], second[key]) for key in first), name
    logs = [(folder / "train.csv").read_text().splitlines() for folder in (whole, killed)]
    assert [line.split(",")[:7] for line in logs[0]] == [line.split(",")[:7] for line in logs[1]]


def export_and_predict(command, run, tmp_path, tasks, home, *include):
    """Export a run in full precision and predict with both; return the export's answers."""
    done = command("export", "weights", run, "--output", tmp_path / "export", "--full")
    assert done.exit_code == 0, done.output
    answers = []
    for name, checkpoint in (("by-run", run), ("by-export", tmp_path / "export")):
        done = command(
            *("predict", "--predictor", f"trained:{checkpoint}", "--tasks", tasks, "--home", home),
            *("--device", "cpu", "--output", tmp_path / name, *include),
        )
        assert done.exit_code == 0, done.output
        files = sorted((tmp_path / name / "predictions").glob("*.jsonl"))
        answers.append([[json.loads(line) for line in file.read_text().splitlines()] for file in files])
    assert answers[0] == answers[1]
    return answers[1]


@pytest.mark.heavy
def test_the_classifier(command, home, glove, tmp_path):
    arguments = [
        *("train", "--model", "classifier", "--tasks", "sst,multinli.in.out", "--home", home),
        *("--device", "cpu", *settings(f'vectors=["{glove}"]')),
    ]
    whole, killed = kill_and_resume(command, arguments, tmp_path)
    assert_same(whole, killed)
    checkpoint = Checkpoint.open(killed)
    assert checkpoint.outputs["sst"].names == ("negative", "positive")
    answers = export_and_predict(command, killed, tmp_path, "sst,multinli.in.out", home)
    for rows, labels in zip(
        answers, ({"entailment", "neutral", "contradiction"}, {"negative", "positive"}), strict=True
    ):
        assert rows and {row["answer"] for row in rows} <= labels
    done = command("evaluate", "--submission", tmp_path / "by-export", "--tasks", "sst", "--home", home)
    assert done.exit_code == 0, done.output
    done = command(
        *("predict", "--predictor", f"trained:{killed}", "--tasks", "schema", "--home", home),
        *("--device", "cpu", "--output", tmp_path / "none"),
    )
    assert done.exit_code == 2
    assert "leave this task out" in done.output


@pytest.mark.slow
@pytest.mark.parametrize(
    "own", [pytest.param((one,), marks=HEAVY) for one in ("model.train_embeddings=true", "model.crf=false")]
)
def test_the_tagger(command, tagging, tmp_path, own):
    words = ('vectors=["none:12"]',)
    if own == ("model.crf=false",):  # fixed vectors, which an export needs a file for
        path = tmp_path / "glove.txt"
        path.write_text("the 1 0 0 1\nof 0 1 0 1\n, 0 0 1 1\n. 1 1 1 0\n")
        words = (f'vectors=["{path}"]',)
    arguments = [
        *("train", "--model", "tagger", "--tasks", "pos", "--home", tagging, "--include", POS),
        *("--device", "cpu", *settings(*words, *own)),
    ]
    whole, killed = kill_and_resume(command, arguments, tmp_path)
    assert_same(whole, killed)
    (answers,) = export_and_predict(command, killed, tmp_path, "pos", tagging, "--include", POS)
    contexts = {row.id: row.context for row in Store(tagging).examples("pos", "validation")}
    assert len(answers) == len(contexts)
    assert all(len(row["answer"].split()) == len(contexts[row["id"]].split()) for row in answers)
    majority = tmp_path / "majority"
    shared = ("--include", POS, "--include", SUITE, "--suite", "tagging-demo", "--home", tagging)
    assert command("predict", "--predictor", "majority", "--output", majority, *shared).exit_code == 0
    scores = []
    for folder in (majority, tmp_path / "by-export"):
        done = command("evaluate", "--submission", folder, *shared)
        assert done.exit_code == 0, done.output
        (path,) = folder.glob("results/*/results.json")
        scores.append(json.loads(path.read_text())["tasks"]["pos"]["score"])
    assert scores[1] > scores[0] + 10


PAPER = ("optimizer=adagrad", "learning_rate=0.1", "order=random")
SMALL = ("model.hidden=8", "model.meta=6", "model.rank=4", "model.hyper=6", "model.hyper_embedding=3")


def paper_settings(*values):
    """SHORT has the dimension of other families."""
    short = [value for value in SHORT if not value.startswith("model.dimension")]
    return [part for value in (*short, *PAPER, *SMALL, *values) for part in ("--set", value)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [pytest.param(name, marks=HEAVY) for name in ("meta-lstm", "asp-mtl", "hyper-lstm")]
)
def test_meta_lstm_and_its_competitors(command, home, glove, tmp_path, model):
    arguments = [
        *(
            "train",
            "--model",
            model,
            "--tasks",
            "sst,sst.copy",
            "--home",
            home,
            "--include",
            copy_of_sst(tmp_path),
        ),
        *("--device", "cpu", *paper_settings(f'vectors=["{glove}"]')),
    ]
    done = command("prepare", "sst.copy", "--include", tmp_path / "copy.toml", "--home", home)
    assert done.exit_code == 0, done.output
    whole, killed = kill_and_resume(command, arguments, tmp_path)
    assert_same(whole, killed)
    answers = export_and_predict(command, killed, tmp_path, "sst", home)
    assert {row["answer"] for rows in answers for row in rows} <= {"negative", "positive"}
    with (whole / "train.csv").open() as file:
        names = file.readline().strip().split(",")
    assert names[-4:] == ["loss.label", "loss.tags", "loss.adversarial", "loss.orthogonality"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "own"),
    [
        pytest.param("arc-ii", ("together=true", "order=turn", "model.sparse_gradients=true"), marks=HEAVY),
        pytest.param("arc-i", ("model.bidirectional=true",), marks=HEAVY),
        pytest.param("mt-cnn", ("model.sparse_gradients=true",), marks=HEAVY),
        pytest.param("mt-dnn", (), marks=HEAVY),
    ],
)
def test_the_models_with_shared_memory(command, home, glove, tmp_path, model, own):
    task = copy_of_sst(tmp_path)
    done = command("prepare", "sst.copy", "--include", task, "--home", home)
    assert done.exit_code == 0, done.output
    sizes = ("model.hidden=8", "model.segments=5", "model.segment_width=4", "model.shared_layer=6")
    short = [value for value in SHORT if not value.startswith("model.dimension")]
    values = (
        *short,
        "optimizer=adagrad",
        "learning_rate=0.1",
        "order=random",
        *sizes,
        f'vectors=["{glove}"]',
    )
    data = ("--home", home, "--include", task, "--device", "cpu")
    arguments = ["train", "--model", model, "--tasks", "sst,sst.copy", *data]
    arguments += [part for value in (*values, *own) for part in ("--set", value)]
    whole, killed = kill_and_resume(command, arguments, tmp_path)
    assert_same(whole, killed)
    answers = export_and_predict(command, killed, tmp_path, "sst,sst.copy", home, "--include", task)
    assert {row["answer"] for rows in answers for row in rows} <= {"negative", "positive"}
    # Fine-tuned on one of the tasks, as the paper's authors do after joint training.
    tuning = ("steps=4", "optimizer=adagrad", "learning_rate=0.01", "best_by=last", f'vectors=["{glove}"]')
    done = command(
        *("train", "--init", killed, "--tasks", "sst.copy", "--output", tmp_path / "tuned", *data),
        *(part for value in tuning for part in ("--set", value)),
    )
    assert done.exit_code == 0, done.output
    before, after = tensors(killed, "model.safetensors"), tensors(tmp_path / "tuned", "model.safetensors")
    assert not any(name.startswith("heads.sst.") for name in after)
    name = "heads.sst/copy.output.score.weight"
    assert 0 < (before[name] - after[name]).abs().max() < 0.1


def copy_of_sst(folder):
    """A second task with labels, as a task file."""
    text = "".join(
        json.dumps({"id": str(at), "text": f"it is {label} {at % 7}", "label": label}) + "\n"
        for at, label in enumerate(["negative", "positive"] * 20)
    )
    (folder / "copy.jsonl").write_text(text)
    (folder / "copy.toml").write_text(
        """format = "decabench.taskfile/1"
name = "sst.copy"
title = "Another"
question = "Is it negative or positive?"
context = "{text}"
answer = "label"
id = "id"
output = {kind = "label", names = ["negative", "positive"]}
files = {train = "copy.jsonl", validation = "copy.jsonl"}
"""
    )
    return folder / "copy.toml"


@pytest.mark.heavy
@pytest.mark.slow
def test_a_bidirectional_meta_lstm_tags(command, tagging, tmp_path):
    arguments = [
        *("train", "--model", "meta-lstm", "--tasks", "pos", "--home", tagging, "--include", POS),
        *(
            "--device",
            "cpu",
            *paper_settings('vectors=["none:12"]', "model.unseen_vectors=false", "model.bidirectional=true"),
        ),
    ]
    assert_same(*kill_and_resume(command, arguments, tmp_path))
    (answers,) = export_and_predict(command, tmp_path / "killed", tmp_path, "pos", tagging, "--include", POS)
    contexts = {row.id: row.context for row in Store(tagging).examples("pos", "validation")}
    assert all(len(row["answer"].split()) == len(contexts[row["id"]].split()) for row in answers)


@pytest.mark.slow
def test_a_meta_network_is_transferred_and_stays_as_it_is(command, home, glove, tmp_path):
    """As the paper transfers it: learned on other tasks, frozen, and a new task learns its own part."""
    task = copy_of_sst(tmp_path)
    assert command("prepare", "sst.copy", "--include", task, "--home", home).exit_code == 0
    shared = ("--home", home, "--include", task, "--device", "cpu")
    settings = paper_settings(f'vectors=["{glove}"]')
    first, second = tmp_path / "first", tmp_path / "second"
    done = command("train", "--model", "meta-lstm", "--tasks", "sst", "--output", first, *shared, *settings)
    assert done.exit_code == 0, done.output
    done = command(
        *("train", "--init", first, "--freeze", "shared", "--tasks", "sst.copy", "--output", second, *shared),
        *settings,
    )
    assert done.exit_code == 0, done.output
    before, after = tensors(first, "model.safetensors"), tensors(second, "model.safetensors")
    shared_names = {name for name in before if name.startswith("shared.")}
    assert shared_names == {"shared.0.weight", "shared.0.bias", "shared.0.project"}
    assert all(torch.equal(before[name], after[name]) for name in shared_names)
    assert {name.split(".")[1] for name in after if name.startswith("heads.")} == {"sst/copy"}
    rows = [json.loads(line) for line in (tmp_path / "copy.jsonl").read_text().splitlines()]
    done = command(
        *("predict", "--predictor", f"trained:{second}", "--tasks", "sst.copy", "--output", tmp_path / "out"),
        *shared,
    )
    assert done.exit_code == 0, done.output
    answers = (tmp_path / "out" / "predictions" / "sst.copy.validation.jsonl").read_text().splitlines()
    right = {row["id"]: row["label"] for row in rows}
    assert all(right[row["id"]] == row["answer"] for row in map(json.loads, answers))


MODULES = (
    *("model.hidden=8", "model.module_size=6", "model.policy_size=4", "model.gate_size=4"),
    *("model.temperature=4", "model.unseen_vectors=false", "optimizer=adam", "learning_rate=0.01"),
)


@pytest.fixture
def two_tagging_tasks(command, tagging, tmp_path):
    """The example's task, and its posts in small letters as a second one."""
    text = POS.read_text().replace('name = "pos"', 'name = "pos.low"')
    for path in POS.parent.glob("*"):
        if path.is_file() and path != POS:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "low.toml").write_text(text)
    done = command("prepare", "pos.low", "--include", tmp_path / "low.toml", "--home", tagging)
    assert done.exit_code == 0, done.output
    return tagging, ("--include", POS, "--include", tmp_path / "low.toml")


@pytest.mark.slow
@pytest.mark.parametrize(
    "model, extension, counted",
    [
        pytest.param("girnet", "rmn", "epochs=6", marks=HEAVY),
        pytest.param("ns-mtl", "rrn", "steps=60", marks=HEAVY),
        pytest.param("sluice", "direct", "steps=60", marks=HEAVY),
    ],
)
def test_recurrent_modules(command, two_tagging_tasks, tmp_path, model, extension, counted):
    """The temperature of the gates and their noise go on where they stopped."""
    home, include = two_tagging_tasks
    short = [value for value in SHORT if not value.startswith(("model.", "steps="))]
    values = (*short, *MODULES, f"model.extension={extension}", "model.primary=pos", counted)
    values += ('vectors=["none:12"]', "together=true", "train_examples=64")
    arguments = [
        *("train", "--model", model, "--tasks", "pos,pos.low", "--home", home, *include, "--device", "cpu"),
        *(part for value in values for part in ("--set", value)),
    ]
    longer = "epochs=10000" if counted.startswith("epochs") else "steps=100000"
    whole, killed = kill_and_resume(command, arguments, tmp_path, longer)
    assert_same(whole, killed)
    if extension == "direct":
        return
    weights = tensors(killed, "model.safetensors")
    assert weights["shared.router.temperature"] == 0.5
    done = command(
        *(
            "analyze",
            "papers.figures:ROUTES",
            killed,
            "--home",
            home,
            "--device",
            "cpu",
            "--output",
            tmp_path / "figures",
        ),
        *include,
    )
    assert done.exit_code == 0, done.output
    assert (tmp_path / "figures" / "routes.png").exists()
    done = command("analyze", "papers.figures:ROUTES", killed, "--home", home, "--output", tmp_path / "none")
    assert done.exit_code and "There is no task 'pos'" in done.output and "--include" in done.output
    answers = export_and_predict(command, killed, tmp_path, "pos,pos.low", home, *include)
    assert all(rows for rows in answers)


@pytest.mark.slow
def test_a_new_task_learns_on_modules_of_others(command, two_tagging_tasks, tmp_path):
    """RMN_tr: the encoder and its policies stay as they are; the new task has an LSTM and a decoder of its own."""
    home, include = two_tagging_tasks
    short = [value for value in SHORT if not value.startswith(("model.", "steps="))]
    values = (*short, *MODULES, "model.extension=rmn", 'vectors=["none:12"]', "steps=12", "train_examples=64")
    shared = ("--model", "ns-mtl", "--home", home, *include, "--device", "cpu")
    shared += tuple(part for value in values for part in ("--set", value))
    first, second = tmp_path / "first", tmp_path / "second"
    done = command("train", "--tasks", "pos", "--output", first, *shared)
    assert done.exit_code == 0, done.output
    done = command(
        *("train", "--init", first, "--freeze", "shared", "--tasks", "pos.low", "--output", second), *shared
    )
    assert done.exit_code == 0, done.output
    before, after = tensors(first, "model.safetensors"), tensors(second, "model.safetensors")
    names = {name for name in before if name.startswith("shared.") and "temperature" not in name}
    assert {name.split(".")[1] for name in names} == {"cells", "layers"}
    assert all(torch.equal(before[name], after[name]) for name in names)
    assert {name.split(".")[1] for name in after if name.startswith("heads.")} == {"pos/low"}


JMT = {
    "pos": ("{words}", 'kind = "tags"'),
    "chunk": ("{words}", 'kind = "tags"\nscheme = "IOB2"'),
    "dep": ("{words}", 'kind = "tree"'),
    "rel": ("{words}\\n{other}", 'kind = "number"\nlow = 1\nhigh = 5'),
    "ent": ("{words}\\n{other}", 'kind = "label"\nnames = ["yes", "no"]'),
}


@pytest.fixture
def levels(command, tmp_path):
    """Files of five small tasks that build on each other, prepared in a home: `--include` options, and the home."""
    random, includes = np.random.default_rng(0), []
    for name, (context, output) in JMT.items():
        for split, size in (("train", 24), ("validation", 8)):
            rows = []
            for number in range(size):
                words, other = (
                    random.choice(["The", "cat", "sat", "On"], random.integers(1, 7)) for _ in "ab"
                )
                answer = {
                    "pos": " ".join("DT" if word == "The" else "NN" for word in words),
                    "chunk": " ".join(
                        "B-NP" if word == "The" or not at else "I-NP" for at, word in enumerate(words)
                    ),
                    "dep": " ".join(f"{at}:{'dep' if at else 'root'}" for at in range(len(words))),
                    "rel": str(1 + 4 * float(words[0] == other[0])),
                    "ent": "yes" if words[0] == other[0] else "no",
                }[name]
                row = {
                    "id": str(number),
                    "words": " ".join(words),
                    "other": " ".join(other),
                    "answer": answer,
                }
                rows.append(json.dumps(row))
            (tmp_path / f"{name}.{split}.jsonl").write_text("\n".join(rows) + "\n")
        (tmp_path / f"{name}.toml").write_text(
            f'format = "decabench.taskfile/1"\nname = "{name}"\nquestion = "Which?"\ncontext = "{context}"\n'
            f'answer = "answer"\nid = "id"\n[output]\n{output}\n'
            f'[files]\ntrain = "{name}.train.jsonl"\nvalidation = "{name}.validation.jsonl"\n'
        )
        includes += ["--include", tmp_path / f"{name}.toml"]
    done = command("prepare", *JMT, *includes, "--home", tmp_path / "home")
    assert done.exit_code == 0, done.output
    return includes, tmp_path / "home"


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("sparse", ["true", pytest.param("false", marks=HEAVY)])
def test_the_joint_many_task_model(command, levels, tmp_path, sparse):
    """An epoch is 15 steps, so that the kill falls inside one, after some of its passes."""
    includes, home = levels
    arguments = [
        *("train", "--model", "jmt", "--tasks", ",".join(JMT), "--home", home, *includes, "--device", "cpu"),
        *("--set", 'vectors=["none:8"]', "--set", "model.word_dimension=8", "--set", "model.hidden=8"),
        *(
            "--set",
            "optimizer=sgd",
            "--set",
            "rate=constant",
            "--set",
            "learning_rate=0.5",
            "--set",
            "order=sequence",
        ),
        *("--set", "batch_examples=8", "--set", "best_by=last", "--set", "checkpoint_every=4"),
        *("--set", "validate_every=30", "--set", f"model.sparse_gradients={sparse}", "--set", "epochs=5"),
    ]
    whole, killed = kill_and_resume(command, arguments, tmp_path, "epochs=300")
    assert_same(whole, killed)
    weights = tensors(killed, "model.safetensors")
    assert not torch.equal(
        weights["layers.0.lstm.weight_ih_l0"], weights["reference/layers/0/lstm/weight_ih_l0"]
    )
    assert not any(weights[name].any() for name in weights if "bias_hh" in name)
    answers = export_and_predict(command, killed, tmp_path, ",".join(JMT), home, *includes)
    for name, rows in zip(sorted(JMT), answers, strict=True):
        texts = {row.id: row.context.split("\n")[0] for row in Store(home).examples(name, "validation")}
        for row in rows:
            parts = row["answer"].split()
            match name:
                case "rel":
                    assert 1 <= float(row["answer"]) <= 5
                case "ent":
                    assert row["answer"] in ("yes", "no")
                case _:
                    assert len(parts) == len(texts[row["id"]].split())
