"""Each model family on the command line: train, kill, resume, export, predict and evaluate."""

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

from decabench.models import newest_checkpoint
from decabench.tasks import Label, Number, Store, known_tasks
from tests.sources import ROOT

TAGGING = ROOT / "examples" / "tagging"
POS = TAGGING / "pos.toml"

SHORT = ("checkpoint_every=4", "validate_every=30", "validation_examples=20", "batch_examples=8")
SHORT += ("rate=constant", "learning_rate=0.01", "best_by=last")


@pytest.fixture
def glove(tmp_path, home):
    """Word vectors for the sample's reviews, in GloVe's text format."""
    rows = Store(home).read("sst", "train", ("context",))
    words = sorted({word for row in rows for word in row["context"].lower().split()})
    values = np.random.default_rng(0).standard_normal((len(words), 12)).round(3)
    path = tmp_path / "glove.txt"
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(words, values, strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def tagging(command, tmp_path):
    """A home with the data of the example's task."""
    done = command("prepare", "pos", "--include", POS, "--home", tmp_path / "home")
    assert done.exit_code == 0, done.output
    return tmp_path / "home"


def settings(*values):
    length = () if "epochs=" in str(values) else ("steps=60",)
    return [part for value in (*SHORT, *length, *values) for part in ("--set", value)]


def kill_and_resume(command, arguments, tmp_path, longer="steps=100000"):
    """Train one run without interruption, and kill and resume another. Return their folders.

    `longer` is a setting that makes the second run too long to finish before it is killed.
    """
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = command(*arguments, "--output", whole)
    assert done.exit_code == 0, done.output
    line = [sys.executable, "-m", "decabench", *map(str, arguments), "--output", str(killed)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(torch.get_num_threads())}
    child = subprocess.Popen([*line, "--set", longer], env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 600
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
    newest = newest_checkpoint(output)
    return 0 if newest is None else int(newest.name[-8:])


def tensors(output, name):
    return load_file(newest_checkpoint(output) / name)


def assert_same(whole, killed):
    """Compare weights, the optimizer's state and the logged losses exactly."""
    for name in ("model.safetensors", "optimizer.safetensors"):
        first, second = tensors(whole, name), tensors(killed, name)
        assert first.keys() == second.keys()
        assert all(torch.equal(first[key], second[key]) for key in first), name
    logs = [(folder / "train.csv").read_text().splitlines() for folder in (whole, killed)]
    assert [line.split(",")[:7] for line in logs[0]] == [line.split(",")[:7] for line in logs[1]]


def export_and_predict(command, run, tmp_path, tasks, home, *include):
    """Export a run in full precision, predict with both, and return the export's answers by task."""
    done = command("export", "weights", run, "--output", tmp_path / "export", "--full")
    assert done.exit_code == 0, done.output
    answers = []
    for name, checkpoint in (("by-run", run), ("by-export", tmp_path / "export")):
        done = command(
            *("predict", "--predictor", f"trained:{checkpoint}", "--tasks", tasks, "--home", home),
            *("--device", "cpu", "--output", tmp_path / name, *include),
        )
        assert done.exit_code == 0, done.output
        files = (tmp_path / name / "predictions").glob("*.jsonl")
        answers.append(
            {
                file.name.removesuffix(".validation.jsonl"): list(
                    map(json.loads, file.read_text().splitlines())
                )
                for file in files
            }
        )
    assert answers[0] == answers[1]
    return answers[1]


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


PAPER = ("optimizer=adagrad", "learning_rate=0.1", "order=random")
SMALL = ("model.hidden=8", "model.meta=6", "model.rank=4", "model.hyper=6", "model.hyper_embedding=3")


MODULES = (
    *("model.hidden=8", "model.module_size=6", "model.policy_size=4", "model.gate_size=4"),
    *("model.temperature=4", "model.unseen_vectors=false", "optimizer=adam", "learning_rate=0.01"),
)


@pytest.fixture
def two_tagging_tasks(command, tagging, tmp_path):
    """The example's task, and a second task with the same posts in lower case."""
    text = POS.read_text().replace('name = "pos"', 'name = "pos.low"')
    for path in POS.parent.glob("*"):
        if path.is_file() and path != POS:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "low.toml").write_text(text)
    done = command("prepare", "pos.low", "--include", tmp_path / "low.toml", "--home", tagging)
    assert done.exit_code == 0, done.output
    return tagging, ("--include", POS, "--include", tmp_path / "low.toml")


JMT = {
    "pos": ("{words}", 'kind = "tags"'),
    "chunk": ("{words}", 'kind = "tags"\nscheme = "IOB2"'),
    "dep": ("{words}", 'kind = "tree"'),
    "rel": ("{words}\\n{other}", 'kind = "number"\nlow = 1\nhigh = 5'),
    "ent": ("{words}\\n{other}", 'kind = "label"\nnames = ["yes", "no"]'),
}


@pytest.fixture
def levels(command, tmp_path):
    """Prepare five small tasks that build on each other. Return the `--include` options and the home."""
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


# Every family, killed and resumed

MEMORY = (*PAPER, "model.hidden=8", "model.segments=5", "model.segment_width=4", "model.shared_layer=6")
ROUTED = (*MODULES, "model.primary=pos", "together=true", "train_examples=64")
WIDE = "model.dimension=16"
JOINT = (
    *("optimizer=sgd", "learning_rate=0.5", "order=sequence", "model.word_dimension=8", "model.hidden=8"),
    "epochs=5",
)
FAMILIES = {
    "classifier": ("labels", "glove", (WIDE,)),
    "classifier, tags": ("tags", "none:12", (WIDE, "model.train_embeddings=true")),
    "classifier, fixed vectors": ("tags", "few", (WIDE, "model.crf=false")),
    "meta-lstm": ("two labels", "glove", (*PAPER, *SMALL)),
    "meta-lstm, both directions": (
        *("tags", "none:12"),
        (*PAPER, *SMALL, "model.unseen_vectors=false", "model.bidirectional=true"),
    ),
    "asp-mtl": ("two labels", "glove", (*PAPER, *SMALL)),
    "hyper-lstm": ("two labels", "glove", (*PAPER, *SMALL)),
    "arc-ii": (
        "two labels",
        "glove",
        (*MEMORY, "together=true", "order=turn", "model.sparse_gradients=true"),
    ),
    "arc-i": ("two labels", "glove", (*MEMORY, "model.bidirectional=true")),
    "mt-cnn": ("two labels", "glove", (*MEMORY, "model.sparse_gradients=true")),
    "mt-dnn": ("two labels", "glove", MEMORY),
    "girnet": ("two tags", "none:12", (*ROUTED, "model.extension=rmn", "epochs=6")),
    "ns-mtl": ("two tags", "none:12", (*ROUTED, "model.extension=rrn")),
    "sluice": ("two tags", "none:12", (*ROUTED, "model.extension=direct")),
    "jmt": ("levels", "none:8", (*JOINT, "model.sparse_gradients=true")),
    "jmt, dense gradients": ("levels", "none:8", (*JOINT, "model.sparse_gradients=false")),
}
"""The tasks, vectors and settings in addition to SHORT. With epochs, the kill happens between passes over a task."""


def prepare_tasks(request, command, home, tmp_path, kind):
    """Return the names of the tasks of a kind, and the options for their files and data."""
    match kind:
        case "labels":
            return "sst,multinli.in.out", (), home
        case "two labels":
            include = ("--include", copy_of_sst(tmp_path))
            assert command("prepare", "sst.copy", *include, "--home", home).exit_code == 0
            return "sst,sst.copy", include, home
        case "tags":
            return "pos", ("--include", POS), request.getfixturevalue("tagging")
        case "two tags":
            own, include = request.getfixturevalue("two_tagging_tasks")
            return "pos,pos.low", include, own
        case "levels":
            include, own = request.getfixturevalue("levels")
            return ",".join(JMT), include, own


def is_answer(text, example, output):
    """Return whether a text is a possible answer for a task."""
    match output:
        case Label(names=names):
            return text in names
        case Number(low=low, high=high):
            return low <= float(text) <= high
        case _:  # a tag or a head for each word
            return len(text.split()) == len(example.context.split())


@pytest.mark.heavy
@pytest.mark.parametrize("case", FAMILIES)
def test_a_family(request, command, home, glove, tmp_path, case):
    """A resumed run reaches the same weights, and its export gives the same answers without the vector files."""
    kind, vectors, own = FAMILIES[case]
    if vectors == "few":  # fixed vectors, whose file an export needs
        glove.write_text("the 1 0 0 1\nof 0 1 0 1\n, 0 0 1 1\n. 1 1 1 0\n")
    vectors = vectors if vectors.startswith("none") else glove
    tasks, include, home = prepare_tasks(request, command, home, tmp_path, kind)
    arguments = [
        *("train", "--model", case.partition(",")[0], "--tasks", tasks, "--home", home, *include),
        *("--device", "cpu", *settings(f'vectors=["{vectors}"]', *own)),
    ]
    longer = "epochs=300" if "epochs" in str(own) else "steps=100000"
    assert_same(*kill_and_resume(command, arguments, tmp_path, longer))
    answers = export_and_predict(command, tmp_path / "killed", tmp_path, tasks, home, *include)
    known = known_tasks([path for path in include if path != "--include"])
    assert answers.keys() == set(tasks.split(","))
    for name, rows in answers.items():
        examples = list(Store(home).examples(name, "validation"))
        assert [row["id"] for row in rows] == [example.id for example in examples]
        for row, example in zip(rows, examples, strict=True):
            assert is_answer(row["answer"], example, known[name].output), row


@pytest.mark.slow
def test_a_meta_network_is_transferred_and_stays_as_it_is(command, home, glove, tmp_path):
    """As in the paper, the meta network is trained on other tasks and frozen, and a new task learns its own part."""
    task = copy_of_sst(tmp_path)
    assert command("prepare", "sst.copy", "--include", task, "--home", home).exit_code == 0
    shared = ("--home", home, "--include", task, "--device", "cpu")
    own = settings(*PAPER, *SMALL, f'vectors=["{glove}"]')
    first, second = tmp_path / "first", tmp_path / "second"
    done = command("train", "--model", "meta-lstm", "--tasks", "sst", "--output", first, *shared, *own)
    assert done.exit_code == 0, done.output
    done = command(
        *("train", "--init", first, "--freeze", "shared", "--tasks", "sst.copy", "--output", second, *shared),
        *own,
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
