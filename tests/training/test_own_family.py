import re
import sys
from dataclasses import replace

import pytest

pytest.importorskip("torch")

from decabench.errors import DecabenchError
from decabench.models import Checkpoint, load_weights
from decabench.training.config import from_mapping
from decabench.training.logs import read_rows
from decabench.training.loop import run_training
from tests.sources import ROOT
from tests.training.conftest import TINY
from tests.training.test_loop import same, weights

PAGE = (ROOT / "docs" / "how-to" / "own-network.md").read_text(encoding="utf-8")


def block(language, words):
    """Return the page's only block in this language that contains these words."""
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    (text,) = [text for text in found if words in text]
    return text


@pytest.fixture
def family(tmp_path, monkeypatch):
    (tmp_path / "bag_of_words.py").write_text(block("python", "class BagOfWords"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "bag_of_words", raising=False)
    yield from_mapping({"model": {"name": "bag_of_words:FAMILY", "dimension": 6}}, TINY).model
    sys.modules.pop("bag_of_words", None)


def test_a_weight_of_zero_only_logs(make_run, family):
    run_training(make_run("without", model=family, tasks=("sst",), loss_weights={"size": 0.0}))
    run_training(make_run("with", model=family, tasks=("sst",), loss_weights={"size": 0.5}))
    runs = {name: make_run(name).output for name in ("without", "with")}
    first = {name: read_rows(output / "train.csv")[0] for name, output in runs.items()}
    assert first["without"]["loss.size"] == first["with"]["loss.size"] != "0"
    assert first["without"]["loss"] == first["without"]["loss.label"]
    assert not same(weights(runs["without"]), weights(runs["with"]))


def test_a_measure_is_logged_and_changes_nothing(make_run, family):
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


def test_a_task_more_keeps_the_rest(make_run, family):
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
