"""The family of docs/how-to/own-network.md, as pasted, and in a run that stops and continues."""

import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

pytest.importorskip("torch")

from decabench.errors import DecabenchError, UnknownNameError
from decabench.models import Checkpoint, find_analysis, find_family, load_weights
from decabench.training.config import from_mapping
from decabench.training.logs import read_rows
from decabench.training.loop import run_training
from tests.sources import ROOT
from tests.training.conftest import TINY
from tests.training.test_loop import same, weights

PAGE = (ROOT / "docs" / "how-to" / "own-network.md").read_text(encoding="utf-8")


def block(language, words):
    """The page's only block of a language with these words in it."""
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    (text,) = [text for text in found if words in text]
    return text


@pytest.fixture
def family(tmp_path, monkeypatch):
    """The file in the current folder, and its model's configuration."""
    (tmp_path / "bag_of_words.py").write_text(block("python", "class BagOfWords"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "bag_of_words", raising=False)
    yield from_mapping({"model": {"name": "bag_of_words:FAMILY", "dimension": 6}}, TINY).model
    sys.modules.pop("bag_of_words", None)


@pytest.mark.slow
def test_the_page_runs_as_pasted(tmp_path):
    shim = tmp_path / "bin" / "decabench"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m decabench "$@"\n')
    shim.chmod(0o755)
    path = f"{shim.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "bag_of_words.py").write_text(block("python", "class BagOfWords"))
    script = block("sh", "bag_of_words:FAMILY")
    done = subprocess.run(
        ["sh", "-eu", "-c", script], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Trained to step" in done.stdout
    assert (folder / "answers" / "results" / "validation" / "results.json").exists()


def test_each_loss_has_a_column(make_run, family):
    run = make_run(model=family, tasks=("sst",), loss_weights={"size": 0.5})
    run_training(run)
    for row in read_rows(run.output / "train.csv"):
        assert float(row["loss"]) == pytest.approx(
            float(row["loss.label"]) + 0.5 * float(row["loss.size"]), rel=1e-4
        )


def test_a_weight_of_zero_only_logs(make_run, family):
    run_training(make_run("without", model=family, tasks=("sst",), loss_weights={"size": 0.0}))
    run_training(make_run("with", model=family, tasks=("sst",), loss_weights={"size": 0.5}))
    runs = {name: make_run(name).output for name in ("without", "with")}
    first = {name: read_rows(output / "train.csv")[0] for name, output in runs.items()}
    assert first["without"]["loss.size"] == first["with"]["loss.size"] != "0"
    assert first["without"]["loss"] == first["without"]["loss.label"]
    assert not same(weights(runs["without"]), weights(runs["with"]))


def test_a_measure_is_logged_and_changes_nothing(make_run, family):
    """The family's second loss as a measure: a column, and the weights of a run with a weight of 0."""
    module = sys.modules["bag_of_words"]
    run_training(make_run("zero", model=family, tasks=("sst",), loss_weights={"size": 0.0}))
    module.FAMILY = replace(module.FAMILY, measures=("size",))
    run_training(make_run("measure", model=family, tasks=("sst",)))
    runs = [make_run(name).output for name in ("zero", "measure")]
    rows = [read_rows(output / "train.csv") for output in runs]
    for one, two in zip(*rows, strict=True):
        assert {**one, "seconds": ""} == {**two, "seconds": ""}
        assert float(two["loss.size"]) > 0
    assert same(*map(weights, runs))
    with pytest.raises(DecabenchError, match="loss"):
        run_training(make_run("other", model=family, tasks=("sst",), loss_weights={"size": 1.0}))


def test_an_unknown_loss_is_refused(make_run, family):
    with pytest.raises(DecabenchError, match="Did you mean size"):
        run_training(make_run(model=family, tasks=("sst",), loss_weights={"sise": 1.0}))


def test_it_resumes_to_the_same_weights(make_run, family):
    run_training(make_run("whole", model=family, tasks=("sst",)))
    run_training(make_run("parts", model=family, tasks=("sst",), steps=3))
    run_training(make_run("parts", model=family, tasks=("sst",), resume=True))
    assert same(weights(make_run("whole").output), weights(make_run("parts").output))


def test_a_task_more_keeps_the_rest(make_run, family):
    """`--init`: a head more is drawn anew, and everything else, the words that both know too, is the checkpoint's."""
    run_training(make_run("first", model=family, tasks=("sst",)))
    origin = str(make_run("first").output)
    second = make_run("second", model=family, tasks=("sst", "multinli.in.out"), init=origin)
    run_training(replace(second, config=replace(second.config, learning_rate=0.0)))
    before, after = Checkpoint.open(origin), Checkpoint.open(second.output)
    old, new = load_weights(before.folder), weights(second.output)
    assert {name for name in new if name not in old} == {
        "heads.multinli/in/out.score.weight",
        "heads.multinli/in/out.score.bias",
    }
    assert all((new[name] == old[name]).all() for name in old if name != "embed.table.weight")
    rows = {word: row for row, word in enumerate(before.lexicon().words)}
    shared = [(row, rows[word]) for row, word in enumerate(after.lexicon().words) if word in rows]
    assert len(shared) > 100
    for row, other in shared:
        assert (new["embed.table.weight"][row] == old["embed.table.weight"][other]).all()


def test_tasks_that_it_cannot_answer_are_refused(make_run, family):
    with pytest.raises(DecabenchError, match=r"answers tasks whose output is Label, not squad \(Text\)"):
        run_training(make_run(model=family, tasks=("squad",)))


def test_it_has_no_analyses(make_run, family):
    run_training(make_run(model=family, tasks=("sst",), steps=1))
    with pytest.raises(UnknownNameError, match="the model bag_of_words:FAMILY has no analyses"):
        find_analysis(Checkpoint.open(make_run().output), "pointers")


def test_an_object_that_is_no_family_is_refused(family):
    with pytest.raises(DecabenchError, match=r"not a decabench\.models\.Family"):
        find_family("bag_of_words:Config")
