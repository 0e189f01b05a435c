"""Every file that somebody can hand us, damaged at random: a sentence and an exit code of 0 to 4, never a bug.

`DECABENCH_FUZZ=300` damages each file that often, instead of a few times.
"""

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
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class Place:
    """What the cases damage and read."""

    home: Path
    """Prepared sample data, a copy."""
    folder: Path
    """Whole files."""
    submission: Path
    """A scored submission."""

    def run(self, *arguments: object) -> None:
        """Run a command and check that it ends in a sentence."""
        start = time.process_time()
        done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
        printed = done.stdout + done.stderr
        assert 0 <= done.exit_code <= 4, f"exit {done.exit_code}: {printed[-2000:]}"
        assert done.exit_code == 0 or printed.strip()
        assert not ACTS.search(printed), printed[-2000:]
        assert time.process_time() - start < 10 * 3  # three times what is allowed: machines differ

    def board(self, folder: Path) -> None:
        """Build a board of the submissions in `all`."""
        self.run(
            *(
                "leaderboard",
                "--submissions",
                folder / "all",
                "--output",
                folder / "board",
                "--home",
                self.home,
            )
        )


@pytest.fixture(scope="module")
def place(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    base = tmp_path_factory.mktemp("fuzz")
    for task in ("sst", "schema"):
        shutil.copytree(home / "tasks" / task, base / "home" / "tasks" / task)
    place = Place(base / "home", base / "files", base / "submissions" / "one")
    place.folder.mkdir()
    predict = ("predict", "--predictor", "first-choice", "--tasks", "sst,schema", "--home", place.home)
    place.run(*predict, "--output", place.submission)
    place.run("evaluate", "--submission", place.submission, "--home", place.home)
    write_files(place)
    return place


def write_files(place: Place) -> None:
    answers = (place.submission / "predictions" / "sst.validation.jsonl").read_bytes()
    (place.folder / "answers.jsonl").write_bytes(answers)
    (place.folder / "answers.jsonl.gz").write_bytes(gzip.compress(answers, mtime=0))
    (place.folder / "answers.jsonl.zst").write_bytes(zstandard.compress(answers))
    with zipfile.ZipFile(place.folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        with tarfile.open(place.folder / "a.tar.gz", "w:gz") as tar:
            for name in ("submission.toml", "predictions/sst.validation.jsonl"):
                archive.write(place.submission / name, name)
                tar.add(place.submission / name, name)
    rows = [{"n": number, "a": f"answer {number}", "q": "which?"} for number in range(20)]
    (place.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (place.folder / "rows.csv").write_text(
        "n,a,q\n" + "".join(f'{row["n"]},"{row["a"]}",{row["q"]}\n' for row in rows)
    )
    pq.write_table(pa.Table.from_pylist(rows), place.folder / "rows.parquet")
    for kind in ("jsonl", "csv", "parquet"):
        (place.folder / f"{kind}.toml").write_text(TASK.replace("KIND", kind))
    (place.folder / "suite.toml").write_text(SUITE)
    (place.folder / "template.toml").write_text(TEMPLATE)
    (place.folder / "train.toml").write_text(TRAIN)
    (place.folder / "ids.json").write_text(
        json.dumps(
            {
                "format": "decabench.ids/1",
                "splits": [{"task": "sst", "split": "validation", "ids": ["a", "b"]}],
            }
        )
    )
    np.save(place.folder / "a.npy", np.ones((3, 4), np.float32))
    (place.folder / "a.txt").write_text("a\nb\nc\n")
    (place.folder / "glove.txt").write_text("a 1 2 3\nb 4 5 6\nc d 7 8 9\n")
    (place.folder / "wink.json").write_text('{"dimensions":3,"vectors":{"a":[1,2,3,9,1],"b":[4,5,6,9,2]}}')


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
SUITE = """
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
"""
TEMPLATE = """
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
"""
TRAIN = """
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
"""


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECABENCH_DEBUG", "")


def copies(place: Place, source: Path, target: Path) -> Iterator[Path]:
    """Damage a copy of a file again and again."""
    whole = source.read_bytes()
    for seed in range(TIMES):
        target.write_bytes(mutate(whole, f"{source.name} {seed}"))
        yield target


def test_metadata(place: Place, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(place.submission, tmp_path / "s"))
    for _ in copies(place, place.submission / "submission.toml", folder / "submission.toml"):
        place.run("check", "--submission", folder, "--home", place.home)
        place.run("evaluate", "--submission", folder, "--home", place.home, "--tasks", "sst")


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_answers(place: Place, tmp_path: Path, suffix: str) -> None:
    folder = Path(shutil.copytree(place.submission, tmp_path / "s"))
    (folder / "predictions" / "sst.validation.jsonl").unlink()
    target = folder / "predictions" / f"sst.validation.jsonl{suffix}"
    for _ in copies(place, place.folder / f"answers.jsonl{suffix}", target):
        place.run("check", "--submission", folder, "--home", place.home)
        place.run("evaluate", "--submission", folder, "--home", place.home)
        place.run("compare", place.submission, folder, "--home", place.home)


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_archives(place: Place, tmp_path: Path, name: str) -> None:
    for path in copies(place, place.folder / name, tmp_path / name):
        place.run("check", "--submission", path, "--home", place.home)


def build_board(place: Place, folder: Path) -> None:
    submissions, board = folder / "all", folder / "board"
    place.run("leaderboard", "--submissions", submissions, "--output", board, "--home", place.home)


def test_results(place: Place, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(place.submission, tmp_path / "all" / "s"))
    (target,) = folder.glob("results/validation/results.json")
    (source,) = place.submission.glob("results/validation/results.json")
    for _ in copies(place, source, target):
        place.run("verify", "--submission", folder, "--home", place.home)
        build_board(place, tmp_path)


def test_statistics(place: Place, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(place.submission, tmp_path / "all" / "s"))
    shutil.copytree(place.submission, tmp_path / "all" / "t")
    (source,) = place.submission.glob("results/validation/statistics/sst.parquet")
    for _ in copies(place, source, folder / source.relative_to(place.submission)):
        build_board(place, tmp_path)


@pytest.mark.parametrize("name", ["manifest.json", "run.json"])
def test_records_beside_results(place: Place, tmp_path: Path, name: str) -> None:
    folder = Path(shutil.copytree(place.submission, tmp_path / "all" / "s"))
    for source in place.submission.rglob(name):
        for _ in copies(place, source, folder / source.relative_to(place.submission)):
            place.run("verify", "--submission", folder, "--home", place.home)
            build_board(place, tmp_path)


def test_boards(place: Place, tmp_path: Path) -> None:
    command = ("leaderboard", "--submissions", place.submission.parent, "--output", tmp_path / "board")
    place.run(*command, "--home", place.home)
    (tmp_path / "site.json").write_bytes((tmp_path / "board" / "site.json").read_bytes())
    for _ in copies(place, tmp_path / "site.json", tmp_path / "board" / "site.json"):
        place.run(*command, "--home", place.home)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_tasks(place: Place, tmp_path: Path, kind: str) -> None:
    shutil.copy(place.folder / f"rows.{kind}", tmp_path / f"rows.{kind}")
    for path in copies(place, place.folder / f"{kind}.toml", tmp_path / "task.toml"):
        place.run("tasks", "--include", path, "--home", place.home)
        place.run("prepare", "own", "--include", path, "--home", tmp_path / "home")
        place.run("tasks", "show", "own", "--include", path, "--home", tmp_path / "home")


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_tables(place: Place, tmp_path: Path, kind: str) -> None:
    shutil.copy(place.folder / f"{kind}.toml", tmp_path / "task.toml")
    for _ in copies(place, place.folder / f"rows.{kind}", tmp_path / f"rows.{kind}"):
        place.run("prepare", "own", "--include", tmp_path / "task.toml", "--home", tmp_path / "home")
        place.run("tasks", "show", "own", "--include", tmp_path / "task.toml", "--home", tmp_path / "home")


def test_suites(place: Place, tmp_path: Path) -> None:
    for path in copies(place, place.folder / "suite.toml", tmp_path / "suite.toml"):
        place.run("suites", "--include", path, "--home", place.home)
        place.run("suites", "show", "mine", "--include", path, "--home", place.home)


def test_templates(place: Place, tmp_path: Path) -> None:
    predict = ("predict", "--predictor", "openai:http://localhost:1", "--model", "m", "--home", place.home)
    for path in copies(place, place.folder / "template.toml", tmp_path / "template.toml"):
        place.run(*predict, "--output", tmp_path / "out", "--template", path, "--show-prompt", "sst")


def test_id_lists(place: Place, tmp_path: Path) -> None:
    for path in copies(place, place.folder / "ids.json", tmp_path / "ids.json"):
        place.run("check", "--submission", place.submission, "--ids", path, "--home", place.home)


@pytest.mark.parametrize("name", ["task.json", "validation.parquet", "inputs.json"])
def test_prepared_data(place: Place, tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    folder = Path(shutil.copytree(place.home / "tasks" / "sst", home / "tasks" / "sst"))
    if not (folder / name).exists():
        pytest.skip(f"there is no {name}")
    for _ in copies(place, place.home / "tasks" / "sst" / name, folder / name):
        place.run("tasks", "--home", home)
        place.run("tasks", "show", "sst", "--home", home)
        place.run("tasks", "validate", "sst", "--home", home)
        place.run("check", "--submission", place.submission, "--home", home)
        place.run(
            "evaluate",
            "--submission",
            place.submission,
            "--home",
            home,
            "--tasks",
            "sst",
            "--output",
            tmp_path / "o",
        )


def test_journals(place: Place, tmp_path: Path) -> None:
    predict = ("predict", "--predictor", "first-choice", "--tasks", "sst", "--home", place.home, "--output")
    folder = tmp_path / "out"
    place.run(*predict, folder)
    (journal,) = [path for path in folder.rglob("*journal*") if path.is_file()] or [None]
    if journal is None:
        (journal,) = [path for path in folder.rglob("*.jsonl") if path.parent.name != "predictions"]
    (tmp_path / "whole").write_bytes(journal.read_bytes())
    for _ in copies(place, tmp_path / "whole", journal):
        place.run(*predict, folder)


def a_sentence(read: Callable[[], object]) -> None:
    try:
        read()
    except DecabenchError as error:
        assert str(error)


@pytest.mark.parametrize("name", ["a.npy", "a.txt", "glove.txt", "wink.json"])
def test_vectors(place: Place, tmp_path: Path, name: str) -> None:
    pytest.importorskip("torch")
    from decabench.vectors.vector_files import open_vectors

    for other in ("a.npy", "a.txt"):
        shutil.copy(place.folder / other, tmp_path / other)
    opened = "a.npy" if name == "a.txt" else name
    for _ in copies(place, place.folder / name, tmp_path / name):
        a_sentence(lambda: open_vectors(str(tmp_path / opened)))


def test_training(place: Place, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from decabench.training.config import read_config

    path = tmp_path / "train.toml"
    for _ in copies(place, place.folder / "train.toml", path):
        a_sentence(lambda: read_config(path))


@pytest.fixture(scope="module")
def checkpoint(place: Place, home: Path) -> Path:
    pytest.importorskip("torch")
    from decabench.models.checkpoint import Checkpoint
    from decabench.tasks import TASKS, Store
    from decabench.training.loop import TrainingRun, run_training
    from tests.training.conftest import TINY

    config = replace(
        TINY, steps=1, validate_every=1, checkpoint_every=1, train_examples=4, validation_examples=1
    )
    folder, tasks = place.folder / "run", {name: TASKS[name] for name in config.tasks}
    run_training(TrainingRun(config, tasks, Store(home), folder, "cpu", report=lambda text: None))
    return Checkpoint.open(folder).folder


@pytest.mark.parametrize("name", ["checkpoint.json", "vocabulary.json", "model.safetensors"])
def test_checkpoints(place: Place, checkpoint: Path, tmp_path: Path, name: str) -> None:
    from decabench.models.checkpoint import Checkpoint

    folder = Path(shutil.copytree(checkpoint, tmp_path / "copy"))
    for _ in copies(place, checkpoint / name, folder / name):
        a_sentence(lambda: Checkpoint.open(folder).load("cpu"))
