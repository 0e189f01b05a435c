from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from click.testing import CliRunner

from decabench.cli import cli
from decabench.errors import DecabenchError
from tests.mutations import mutate

TIMES = int(os.environ.get("DECABENCH_FUZZ", "6"))
ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
SECONDS = 10 * 3  # three times what is allowed: machines differ

BOARD = "leaderboard --submissions all --output site"
PREDICT = "predict --predictor first-choice --tasks sst --output journaled"
PROMPT = "predict --predictor openai:http://localhost:1 --model m --output new --show-prompt sst --template"
OWN = ["prepare own --home new --include", "tasks show own --home new --include"]
DATA = [
    "tasks",
    "tasks show sst",
    "tasks validate sst",
    "check all/s",
    "evaluate all/s --tasks sst --output new",
]
CASES = {
    "all/s/submission.toml": ["check all/s", "evaluate all/s --tasks sst"],
    "all/s/predictions/sst*": ["check all/s", "evaluate all/s", "compare all/t all/s"],
    "gz/predictions/sst*": ["check gz", "evaluate gz", "compare all/t gz"],
    "zst/predictions/sst*": ["check zst", "evaluate zst", "compare all/t zst"],
    "a.zip": ["check a.zip"],
    "a.tar.gz": ["check a.tar.gz"],
    "all/s/results/validation/results.json": ["verify all/s", BOARD],
    "all/s/results/validation/statistics/sst*": [BOARD],
    "all/s/results/validation/run.json": ["verify all/s", BOARD],
    "home/ledger/**/*": ["evaluate all/s", BOARD],
    "site/site.json": [BOARD],
    "jsonl.toml": ["tasks --include jsonl.toml", *(f"{each} jsonl.toml" for each in OWN)],
    "parquet.toml": [f"{each} parquet.toml" for each in OWN],
    "rows.jsonl": [f"{each} jsonl.toml" for each in OWN],
    "rows.csv": [f"{each} csv.toml" for each in OWN],
    "rows.parquet": [f"{each} parquet.toml" for each in OWN],
    "suite.toml": ["suites --include suite.toml", "suites show mine --include suite.toml"],
    "template.toml": [f"{PROMPT} template.toml"],
    "ids.json": ["check all/s --ids ids.json"],
    "home/tasks/sst/task.json": DATA,
    "home/tasks/sst/validation.parquet": DATA,
    "journaled/journal/*": ["FORGET journaled/predictions", PREDICT],
}
"""A file of the folder, and the commands that read it."""

TASK = """
format = "decabench.taskfile/1"
name = "own"
title = "Own"
metric = "nf1"
secondary = ["em"]
question = "{q}"
context = "number {n}"
answer = "a"
id = "n"
output = "text"
redistributable = true
[files]
validation = "rows.KIND"
[prompt]
instruction = "Answer."
input = "{context} {question}"
max_new_tokens = 5
[context_limit]
tokens = 100
longer = "cut"
[[variants]]
name = "other"
question = "please: {question}"
labels = {yes = "no"}
"""
FILES = {
    **{f"{kind}.toml": TASK.replace("KIND", kind) for kind in ("jsonl", "csv", "parquet")},
    "suite.toml": """
format = "decabench.suite/1"
name = "mine"
title = "Mine"
tasks = ["sst", "schema"]
total = "mean"
total_name = "Mean"
description = "Two tasks."
[[published]]
name = "Somebody"
scores = {sst = 80.5, schema = 50.0}
""",
    "template.toml": """
format = "decabench.template/1"
description = "Short."
[default]
instruction = "Answer."
input = "{context}\\n{question}"
answer = "Answer:"
max_new_tokens = 20
stop = ["\\n"]
form = "span"
[tasks.sst]
form = "label"
labels = ["positive", "negative"]
unquote = true
""",
    "train.toml": """
tasks = ["sst", "schema"]
steps = 10
seed = 3
vectors = ["none:12"]
clip = 1.5
[model]
name = "mqan"
dimension = 8
dropout = 0.2
[weights]
sst = 2.0
[cut_context]
sst = 100
""",
    "ids.json": '{"format": "decabench.ids/1", "splits": [{"task": "sst", "split": "validation", "ids": ["a"]}]}',
    "a.txt": "a\nb\nc\n",
    "glove.txt": "a 1 2 3\nb 4 5 6\nc d 7 8 9\n",
    "wink.json": '{"dimensions":3,"vectors":{"a":[1,2,3,9,1],"b":[4,5,6,9,2]}}',
}


def run(line: str) -> None:
    """Run a command in the current folder, and check that it ends with a clear message."""
    start = time.process_time()
    done = CliRunner().invoke(cli, line.split())
    printed = done.stdout + done.stderr
    assert 0 <= done.exit_code <= 4, f"exit {done.exit_code}: {printed[-2000:]}"
    assert done.exit_code == 0 or printed.strip()
    assert not ACTS.search(printed), printed[-2000:]
    assert time.process_time() - start < SECONDS


@pytest.fixture(scope="module")
def whole(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of undamaged files."""
    folder = tmp_path_factory.mktemp("fuzz")
    for task in ("sst", "schema"):
        shutil.copytree(home / "tasks" / task, folder / "home" / "tasks" / task)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    rows = [{"n": number, "a": f"answer {number}", "q": "which?"} for number in range(20)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "rows.csv").write_text(
        "n,a,q\n" + "".join(f'{row["n"]},"{row["a"]}",{row["q"]}\n' for row in rows)
    )
    pq.write_table(pa.Table.from_pylist(rows), folder / "rows.parquet")
    np.save(folder / "a.npy", np.ones((3, 4), np.float32))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("DECABENCH_HOME", str(folder / "home"))
        run("predict --predictor first-choice --tasks sst,schema --output all/s")
        for name in ("all/t", "gz", "zst"):
            shutil.copytree("all/s", name)
        for line in ("evaluate all/s", "evaluate all/t", BOARD, PREDICT):
            run(line)
        with (
            zipfile.ZipFile("a.zip", "w", zipfile.ZIP_DEFLATED) as archive,
            tarfile.open("a.tar.gz", "w:gz") as tar,
        ):
            for name in ("submission.toml", "predictions/sst.validation.jsonl"):
                archive.write(f"all/s/{name}", name)
                tar.add(f"all/s/{name}", name)
    for name, pack in (("gz", gzip.compress), ("zst", zstandard.compress)):
        path = folder / name / "predictions" / "sst.validation.jsonl"
        path.with_name(f"{path.name}.{name}").write_bytes(pack(path.read_bytes()))
        path.unlink()
    return folder


def copies(source: Path, target: Path) -> Iterator[Path]:
    """Yield damaged copies of a file."""
    for seed in range(TIMES):
        target.write_bytes(mutate(source.read_bytes(), f"{source.name} {seed}"))
        yield target


@pytest.mark.parametrize("name", CASES)
def test_commands(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    found = sorted(path for path in whole.glob(name) if path.is_file())
    assert found, f"there is no {name}"
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DECABENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DECABENCH_DEBUG", "")
    for _ in copies(found[0], tmp_path / found[0].relative_to(whole)):
        for line in CASES[name]:
            if line.startswith("FORGET"):
                shutil.rmtree(line.split()[1], ignore_errors=True)
            else:
                run(line)


def a_sentence(read: Callable[[], object]) -> None:
    try:
        read()
    except DecabenchError as error:
        assert str(error)


@pytest.mark.parametrize("name", ["a.npy", "a.txt", "glove.txt", "wink.json", "train.toml"])
def test_vectors_and_configurations(whole: Path, tmp_path: Path, name: str) -> None:
    pytest.importorskip("torch")
    from decabench.training.config import read_config
    from decabench.vectors.vector_files import open_vectors

    for other in ("a.npy", "a.txt"):
        shutil.copy(whole / other, tmp_path / other)
    opened = tmp_path / ("a.npy" if name == "a.txt" else name)
    for _ in copies(whole / name, tmp_path / name):
        a_sentence(lambda: read_config(opened) if name == "train.toml" else open_vectors(str(opened)))


@pytest.fixture(scope="module")
def checkpoint(whole: Path, home: Path) -> Path:
    pytest.importorskip("torch")
    from decabench.models.checkpoint import Checkpoint
    from decabench.tasks import TASKS, Store
    from decabench.training.loop import run_training
    from decabench.training.planning import TrainingRun
    from tests.training.conftest import TINY

    settings = {"steps": 1, "validate_every": 1, "checkpoint_every": 1}
    config = replace(TINY, **settings, train_examples=4, validation_examples=1)
    folder, tasks = whole / "run", {name: TASKS[name] for name in config.tasks}
    run_training(TrainingRun(config, tasks, Store(home), folder, "cpu", report=lambda text: None))
    return Checkpoint.open(folder).folder


@pytest.mark.parametrize("name", ["checkpoint.json", "vocabulary.json", "model.safetensors"])
def test_checkpoints(checkpoint: Path, tmp_path: Path, name: str) -> None:
    from decabench.models.checkpoint import Checkpoint

    folder = Path(shutil.copytree(checkpoint, tmp_path / "copy"))
    for _ in copies(checkpoint / name, folder / name):
        a_sentence(lambda: Checkpoint.open(folder).load("cpu"))
