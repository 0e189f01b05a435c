"""Bundles, and the commands of examples/gpu/run.py in miniature: on a CPU, with torch, numpy and safetensors alone."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[train]'")

from click.testing import CliRunner

import decabench
from decabench.cli import cli
from decabench.errors import DataError, DecabenchError
from decabench.models.checkpoint import Checkpoint, TrainedModel, latest_checkpoint
from decabench.models.classifier import ClassifierConfig
from decabench.models.joint_many_task import JointManyTaskConfig
from decabench.models.meta_lstm import MetaLSTMConfig
from decabench.models.mqan_batch import MQANConfig
from decabench.tasks import TASKS, Store
from decabench.training.bundle import Bundle, compare_losses, write_bundle
from decabench.training.config import Phase, TrainConfig, to_mapping
from decabench.training.encoding import encode_tasks
from decabench.training.loop import TrainingRun, run_training
from decabench.training.resume import RunState
from decabench.training.schedule import plan_phases
from decabench.vectors.vector_files import join_vectors, write_matrix
from decabench.vectors.word_vectors import WordTable
from tests.training.conftest import TINY, flip

RUN = Path(__file__).parents[2] / "examples" / "gpu" / "run.py"
TASK_NAMES = ("sst", "woz.en", "cnn_dailymail")
IN, FILES, FILE_SIZE = 3_000_000, 8, 110_000
"""The limits of a command: 60 MB in, 8 files of 16 MB out, in miniature."""

SITE = """
import sys
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

ALLOWED = sys.stdlib_module_names | {
    "torch", "torchgen", "functorch", "numpy", "safetensors",
    "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "filelock", "fsspec", "typing_extensions", "packaging",
}  # the second line: what torch itself installs


class Bare:
    # In place of all other finders, those of installed packages included.

    @staticmethod
    def find_spec(name, path=None, target=None):
        top = name.partition(".")[0]
        if top == "decabench" and path is None:  # from the bundle alone
            path = [place for place in sys.path if "bundle-" in place]
        if top in ALLOWED or top == "decabench" or top.startswith("_"):
            return PathFinder.find_spec(name, path, target)
        return None


sys.meta_path[:] = [BuiltinImporter, FrozenImporter, Bare]
"""


@pytest.fixture(scope="module")
def config(home: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainConfig:
    """A run with vectors from a file."""
    folder = tmp_path_factory.mktemp("vectors")
    tasks = {name: TASKS[name] for name in TASK_NAMES}
    run = replace(
        TINY,
        model=replace(MQANConfig(), dimension=20, hidden=12, heads=2, layers=1, max_answer_tokens=6),
        tasks=TASK_NAMES,
        steps=8,
        batch_tokens=600,
        train_examples=0,
        cut_context={"cnn_dailymail": 40},
        best_by="decascore",
    )
    lexicon = encode_tasks(Store(home), run, tasks).lexicon
    words = sorted({word.strip() for word in lexicon.words[4:]} - {""})
    words = [word for word in words if "\n" not in word and "\r" not in word]
    write_matrix(folder / "own.npy", words, np.random.default_rng(0).standard_normal((len(words), 20)))
    return replace(run, vectors=(str(folder / "own.npy"),))


def write(config: TrainConfig, home: Path, folder: Path, limit: int = IN) -> Any:
    tasks = {name: TASKS[name] for name in config.tasks}
    return write_bundle(config, tasks, Store(home), folder, limit, lambda text: None)


@pytest.fixture(scope="module")
def folder(config: TrainConfig, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bundle") / "bundle"
    assert write(config, home, made).cut == ()
    return made


def test_a_bundle_holds_the_data_of_the_run(config: TrainConfig, home: Path, folder: Path) -> None:
    bundle = Bundle.open(folder)
    before = encode_tasks(Store(home), config, {name: TASKS[name] for name in config.tasks})
    size = before.lexicon.size
    assert bundle.data.lexicon.words[:size] == before.lexicon.words[:size]
    assert bundle.data.lexicon.size == size
    for task, own in before.tasks.items():
        assert len(bundle.data.tasks[task]) == len(own)
        for row in range(len(own)):
            old, new = own.item(row), bundle.data.tasks[task].item(row)
            for name in old:
                words = [
                    [lexicon.words[number] for number in numbers]
                    for lexicon, numbers in ((before.lexicon, old[name]), (bundle.data.lexicon, new[name]))
                ]
                assert words[0] == words[1]
    words = bundle.data.lexicon.words
    ours, theirs = (join_vectors(vectors).rows(words) for vectors in (bundle.config.vectors, config.vectors))
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-6)


def test_validation_questions_are_whole_and_have_no_answers(home: Path, folder: Path) -> None:
    bundle = Bundle.open(folder)
    for task in TASK_NAMES:
        ids, kept = bundle.questions(task)
        rows = list(Store(home).read(task, "validation", ("id", "question", "context")))
        assert ids == [row["id"] for row in rows]
        assert set(bundle.validation[task].columns) == {"context", "question"}
        for row, end, number in zip(rows, kept, range(len(rows)), strict=True):
            item = bundle.validation[task].item(number)
            context = bundle.data.lexicon.decode(item["context"][1:].tolist())
            assert context == row["context"][:end].lower()
    assert any(bundle.questions("cnn_dailymail")[1])


def test_a_run_on_a_bundle_learns_as_on_the_data(
    config: TrainConfig, home: Path, folder: Path, tmp_path: Path
) -> None:
    """The same batches and the same words: only the vectors are rounded to half precision."""
    bundle = Bundle.open(folder)
    tasks = {name: TASKS[name] for name in config.tasks}
    losses = []
    for number, own in enumerate((None, bundle)):
        settings = replace(config if own is None else bundle.config, validate_every=99, validation_examples=1)
        output = tmp_path / str(number)
        run_training(
            TrainingRun(settings, tasks, Store(home), output, "cpu", report=lambda text: None, bundle=own)
        )
        rows = (output / "train.csv").read_text().splitlines()[1:]
        losses.append([float(row.split(",")[2]) for row in rows])
        tasks_seen = [row.split(",")[1] for row in rows]
    assert tasks_seen == [*TASK_NAMES, *TASK_NAMES, *TASK_NAMES[:2]]
    np.testing.assert_allclose(losses[0], losses[1], rtol=2e-3)


def test_a_run_stops_in_time_and_goes_on_with_the_same_weights(
    config: TrainConfig, folder: Path, tmp_path: Path
) -> None:
    bundle = Bundle.open(folder)

    def run(name: str, stop_after: float = 0.0) -> Checkpoint:
        output = tmp_path / name
        run_training(
            TrainingRun(
                bundle.config,
                bundle.tasks,
                Store(tmp_path),
                output,
                "cpu",
                resume=True,
                report=lambda text: None,
                bundle=bundle,
                stop_after=stop_after,
            )
        )
        return Checkpoint.open(output)

    whole = run("whole")
    parts = [run("parts", 1e-9).record.step for _ in range(3)]
    assert parts == [1, 2, 3]
    last = run("parts")
    assert last.record.step == whole.record.step == 8
    assert last.digest() == whole.digest()


def test_what_does_not_fit_is_cut_and_said(
    config: TrainConfig, home: Path, folder: Path, tmp_path: Path
) -> None:
    weights = Bundle.open(folder)
    with torch.device("meta"):
        table = WordTable(weights.data.lexicon, join_vectors(weights.config.vectors))
        network = weights.family.build(weights.config.model, weights.data.outputs, table)
    state = 2 * sum(parameter.numel() for parameter in network.parameters())
    others = sum(sizes(folder / "validation")) + sum(
        (folder / name).stat().st_size for name in ("code.zip", "words.json.xz")
    )
    examples = sum(sizes(folder / "train"))
    limit = int(
        (state + others + 1.5 * examples) / 0.975
    )  # half of the rest is for vectors, half for examples
    made = write(config, home, tmp_path / "small", limit)
    assert made.size == sum(sizes(tmp_path / "small"))
    assert made.size + made.state <= limit
    assert any("training examples" in sentence for sentence in made.cut), made
    assert any("vectors of" in sentence for sentence in made.cut), made
    bundle = Bundle.open(tmp_path / "small")
    assert all(len(own) for own in bundle.data.tasks.values())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"init": "run"}, "begins with random weights: leave --init out"),
        ({"target_forms": {"sst": "short"}}, "sst has no target forms: leave target_forms.sst out"),
        ({"validation_words": True}, "leave validation_words out"),
        ({"model": MQANConfig(dimension=400, vocabulary=50_000)}, "give a smaller model.vocabulary"),
    ],
)
def test_what_no_bundle_can_hold(
    changes: dict[str, Any], reason: str, config: TrainConfig, home: Path, tmp_path: Path
) -> None:
    with pytest.raises(DecabenchError, match=reason):
        write(replace(config, **changes), home, tmp_path / "out")
    assert not list(tmp_path.glob("out/*"))  # the same folder can be named again


def test_a_bundle_of_a_family_with_several_kinds_of_outputs(home: Path, tmp_path: Path) -> None:
    """Such as labels and tags, of which a task has one: its columns were once asked of every task."""
    config = replace(
        TINY, model=MetaLSTMConfig(name="lstm", hidden=8, train_embeddings=False), tasks=("sst",)
    )
    write(config, home, tmp_path / "out")
    assert Bundle.open(tmp_path / "out").data.tasks["sst"].columns.keys() == {"text", "label"}
    trees = replace(TINY, model=JointManyTaskConfig(), tasks=("ud.dep",))
    with pytest.raises(DecabenchError, match="jmt also learns trees and ratings"):
        write(trees, home, tmp_path / "trees")


def test_a_bundle_that_lacks_a_file(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a bundle of decabench train"):
        Bundle.open(tmp_path)


Record = dict[str, Any]
SHARD = "train/sst.safetensors.xz"


def repack(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path, Record], None]:
    """Change the arrays of a shard."""

    def apply(folder: Path, record: Record) -> None:
        arrays = load(lzma.decompress((folder / SHARD).read_bytes()))
        change(arrays)
        (folder / SHARD).write_bytes(lzma.compress(save(arrays)))

    return apply


def put(name: str, content: bytes) -> Callable[[Path, Record], None]:
    """Put other content, compressed, in place of a file."""
    return lambda folder, record: (folder / name).write_bytes(lzma.compress(content, preset=1)) and None


def change(*path: str, to: Any) -> Callable[[Path, Record], None]:
    """Change a value in bundle.json."""

    def apply(folder: Path, record: Record) -> None:
        for key in path[:-1]:
            record = record[key]
        record[path[-1]] = to

    return apply


def link_vectors(folder: Path, record: Record) -> None:
    (folder / "vectors.npy").unlink()
    (folder / "vectors.npy").symlink_to("/etc/hostname")


FORGED = {
    "another module": (change("config", "model", "name", to="forged_family:FAMILY"), "There is no model"),
    "a task outside": (change("config", "tasks", to=["../../x"]), "There is no task"),
    "no tasks": (change("config", "tasks", to=[]), "it has no tasks"),
    "a task twice": (change("config", "tasks", to=["sst", "sst"]), "tasks has sst more than once"),
    "vectors outside": (change("config", "vectors", to=["/etc/hostname"]), "are not inside it"),
    "vectors by a link": (link_vectors, "are not inside it"),
    "huge vectors": (change("config", "vectors", to=["none:1000000000"]), "are not inside it"),
    "a start": (change("config", "init", to="/tmp/x"), "weights of a checkpoint"),
    "a list for config": (change("config", to=[1]), "not a bundle"),
    "a list for outputs": (change("outputs", to=[1]), "its outputs are not those"),
    "a list for an output": (change("outputs", "sst", to=[1]), "not a bundle"),
    "no data": (change("data", to={}), "not a bundle"),
    "a negative vocabulary": (change("vocabulary", to=-5), "its vocabulary has -5 of"),
    "another digest": (change("code", to="sha256:0"), "code.zip is not the one"),
    "deep words": (put("words.json.xz", b"[" * 100_000), "more than lists of words"),
    "words in an object": (put("words.json.xz", b'{"a": 1}'), "not a list of words"),
    "a word twice": (put("words.json.xz", json.dumps(["a"] * 99_999).encode()), "a word twice"),
    "a bomb of words": (put("words.json.xz", b'["' + bytes(1 << 28) + b'"]'), "expands to more than"),
    "a bomb of examples": (put(SHARD, bytes(1 << 28)), "expands to more than"),
    "a bomb of ids": (put("validation/sst.json.xz", b'["' + bytes(1 << 28) + b'"]'), "expands to more than"),
    "deep ids": (put("validation/sst.json.xz", b"[" * 100_000), "more than lists of words"),
    "few ids": (put("validation/sst.json.xz", b'{"ids": ["a"], "kept": []}'), "1 ids for"),
    "garbage": (put(SHARD, b"garbage" * 10), "does not hold tensors"),
    "half a shard": (
        lambda folder, record: (folder / SHARD).write_bytes((folder / SHARD).read_bytes()[:100]) and None,
        "not one complete xz file",
    ),
    "huge lengths": (
        repack(lambda own: own.update({"answer/lengths": own["answer/lengths"].astype("int64") * 1000})),
        "it has lengths from",
    ),
    "lengths that wrap around": (
        repack(lambda own: own.update({"answer/lengths": own["answer/lengths"].astype("int64") - 2**62})),
        "it has lengths from",
    ),
    "huge numbers": (
        repack(lambda own: own.update({"answer/values": own["answer/values"].astype("int64") * 0 + 10**9})),
        "numbers from 1,000,000,000",
    ),
    "negative numbers": (
        repack(lambda own: own.update({"answer/values": own["answer/values"].astype("int32") * 0 - 1})),
        "numbers from -1",
    ),
    "floats": (
        repack(lambda own: own.update({"answer/values": own["answer/values"].astype("float32")})),
        "not lists of whole numbers",
    ),
    "columns of another model": (
        change("columns", "sst", to=["context", "question", "tags"]),
        "has the columns",
    ),
    "columns of no sense": (change("columns", "sst", to={"context": 1}), "not a list of names"),
    "broken off": (lambda folder, record: record.pop("losses") and None, "not written to its end"),
    "no column": (repack(lambda own: own.pop("answer/values")), "not answer/lengths, answer/values"),
    "fewer rows": (
        repack(
            lambda own: own.update({f"answer/{part}": np.ones(1, "uint16") for part in ("values", "lengths")})
        ),
        "columns of different lengths",
    ),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_bundle_is_refused_in_a_sentence(
    case: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forge, reason = FORGED[case]
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (tmp_path / "forged_family.py").write_text("raise SystemExit('code was run')")
    monkeypatch.syspath_prepend(tmp_path)
    record = json.loads((copy / "bundle.json").read_text())
    forge(copy, record)
    (copy / "bundle.json").write_text(json.dumps(record))
    with pytest.raises(DataError, match=reason) as caught:
        Bundle.open(copy).questions("sst")
    assert "not a bundle of decabench train" in str(caught.value) or "not of a bundle" in str(caught.value)


def test_code_that_nobody_vouched_for_is_not_run(folder: Path, tmp_path: Path) -> None:
    """The script needs the digest of the code, and a forged record does not replace it."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    with zipfile.ZipFile(copy / "code.zip", "w") as archive:
        archive.writestr("decabench/__init__.py", "raise SystemExit('code was run')")
    forged = trust(copy)[1]
    for options, said in (
        ([], "would be run"),
        (trust(folder), "is not the code"),
        (["--trust", forged[:4]], "not the code"),
    ):
        done = subprocess.run(
            [sys.executable, str(RUN), "joint", str(copy), *options, "--out", str(tmp_path / "out")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        text = " ".join(done.stderr.split())  # it is wrapped
        assert said in text
        assert "Run only a bundle that you made" in text
        assert "code was run" not in text


def refuse(*arguments: str | Path, columns: int = 200) -> tuple[int, str]:
    """Run the script without a bundle, as far as it gets; return its exit code and what it says, on one line."""
    done = subprocess.run(
        [sys.executable, str(RUN), *map(str, arguments)],
        env={**os.environ, "COLUMNS": str(columns)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert all(
        len(line) <= 80 or " " not in line.strip() for line in (done.stdout + done.stderr).splitlines()
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_results_that_cannot_be_written_are_refused_first(tmp_path: Path) -> None:
    """Even before the bundle is looked at; it once trained for its whole time and lost the state."""
    file = tmp_path / "README.md"
    file.write_text("text")
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").write_text("text")
    cases = {file: "cannot be written", file / "j": "cannot be written", full: "is not empty: name another"}
    if Path("/proc/self").exists():  # where nobody can write, root included
        cases[Path("/proc/none/j")] = "cannot be written"
    for out, said in cases.items():
        for command in ("joint", "single", "smoke", "answer"):
            code, text = refuse(command, tmp_path / "bundle", "--out", out)
            assert code == 1
            assert f"--out {out}" in text and said in text
            assert "name" in text
    out = tmp_path / "new" / "folder"
    assert "There is no folder" in refuse("joint", tmp_path / "bundle", "--out", out)[1]
    assert not out.parent.exists()


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("joint", ("--minutes", "-1"), "argument --minutes: it is '-1': give a number above 0"),
        ("joint", ("--minutes", "0"), "it is '0': give a number above 0"),
        ("joint", ("--minutes", "nan"), "it is 'nan': give a number above 0"),
        ("joint", ("--minutes", "soon"), "it is 'soon': give a number above 0"),
        ("joint", ("--file-size", "1"), "it is '1': give a whole number, 100,000 or more"),
        ("joint", ("--files", "0"), "it is '0': give a whole number, 1 or more"),
        ("joint", ("--checkpoint-every", "0"), "it is '0': give a whole number"),
        ("answer", ("--window", "0"), "it is '0': give a whole number"),
        ("answer", ("--batch-tokens", "-5"), "it is '-5': give a whole number"),
        ("smoke", ("--steps", "1.5"), "it is '1.5': give a whole number"),
        ("smoke", ("--modes", "gpu"), "--modes 'gpu' names gpu: give one or more of float32, bfloat16"),
        ("smoke", ("--modes", "graph"), "names graph (did you mean graphs?)"),
        ("smoke", ("--modes", ","), "names nothing: give one or more of"),
        ("joint", ("--mode", "gpu"), "invalid choice: 'gpu'"),
        ("single", ("--set", "lr=3"), "--set lr=3 is not a JSON object: give settings by name, such as"),
        ("smoke", ("--set", "lr=3"), "--set lr=3 is not a JSON object"),
        ("single", ("--set", "[1]"), "is not a JSON object"),
        ("single", ("--set", "null"), "is not a JSON object"),
        ("single", ("--set", "[" * 100_000), "is not a JSON object"),
        ("single", ("--set", '{"tasks": ["squad"]}'), "changes tasks, which the bundle was written for"),
        ("single", ("--set", '{"model": {"name": "lstm"}}'), "changes model.name, which the bundle"),
        ("single", ("--set", '{"model.name": "lstm"}'), "changes model.name, which the bundle"),
        (
            "single",
            ("--mode", "float32", "--set", '{"sst": {"precision": "bfloat16"}}'),
            "--mode float32 and --set both say precision: leave it out of one of the two",
        ),
        ("single", ("--set", f'{{"seed": {2**64}}}'), "give one below"),
    ],
)
def test_options_without_sense_are_refused_before_anything_is_done(
    command: str, options: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    code, text = refuse(command, tmp_path, "--out", tmp_path / "out", *options)
    assert code in (1, 2)
    assert said in text
    assert "digest" not in text.partition(said)[2]  # the bundle was not looked at


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_help_fits_the_terminal(columns: int) -> None:
    code, text = refuse("--help", columns=columns)
    assert code == 0
    assert "float32, bfloat16, compiled" in text and "{," not in text


def load_run() -> Any:
    """Import the script."""
    spec = spec_from_file_location("gpu_run", RUN)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def options_of(out: Path, **changes: Any) -> SimpleNamespace:
    """Make the options of a joint run on a CPU, or of another command with some that differ."""
    usual = {
        "command": "joint",
        "state": None,
        "last": False,
        "mode": "",
        "device": "cpu",
        "precision": "float32",
        "checkpoint_every": 2,
        "file_size": FILE_SIZE,
        "tasks": "",
        "answered": None,
    }
    return SimpleNamespace(**{**usual, "out": out, **changes})


def but(options: SimpleNamespace, **changes: Any) -> SimpleNamespace:
    """Copy options, some of them changed."""
    return SimpleNamespace(**{**vars(options), **changes})


def train_single(
    run: Any,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: str,
    minutes: float,
    mode: str = "",
    answers_in_time: bool = True,
) -> Path:
    """Train sst alone with settings, as far as `minutes` allow, and answer; return the folder of the results.

    There is always time for answers: how long they take on a busy machine is not to decide a test.
    """
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    if answers_in_time:
        monkeypatch.setattr(run.Clock, "has", lambda clock, seconds: True)
    options = options_of(
        tmp_path / "out",
        command="single",
        tasks="sst",
        mode=mode,
        set=settings,
        window=100,
        batch_tokens=10_000,
    )
    run.single(Bundle.open(folder), options, run.Clock(minutes), tmp_path / "work")
    made: Path = options.out
    return made


def test_a_single_run_has_settings_of_its_own_and_cools_down_in_its_time(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = load_run()
    given = {
        "warmup": 2,
        "steps": 100_000,
        "batch_tokens": 500,
        "sst": {"batch_tokens": 300},
        "woz.en": {"batch_tokens": 400},
    }
    out = train_single(run, folder, tmp_path, monkeypatch, json.dumps(given), minutes=0.1, mode="graphs")
    record = Checkpoint.open(out / "weights").record
    config = record.config
    assert (config["warmup"], config["batch_tokens"], config["graphs"]) == (2, 300, True)
    assert 0 < config["cooldown"] < config["steps"] < 100_000
    rates = [float(row.split(",")[3]) for row in (out / "run/train.csv").read_text().splitlines()[1:]]
    assert len(rates) == record.step > config["steps"] - config["cooldown"] > 0
    assert rates[-1] < rates[config["steps"] - config["cooldown"] - 1]
    assert (out / "submissions/single-sst/predictions/sst.validation.jsonl").is_file()


def test_a_single_run_that_is_in_its_own_cooldown_goes_on_with_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = load_run()
    out = train_single(
        run, folder, tmp_path, monkeypatch, '{"steps": 100000, "cooldown": 99999, "warmup": 1}', minutes=0.1
    )
    record = Checkpoint.open(out / "weights").record
    assert record.config["cooldown"] == 99_999 and record.step > 2


def test_a_single_run_without_time_for_its_answers_says_so(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = load_run()
    monkeypatch.setattr(run.Clock, "has", lambda clock, seconds: False)
    with pytest.raises(SystemExit, match="no time for all questions of sst: give more --minutes"):
        train_single(run, folder, tmp_path, monkeypatch, '{"steps": 2}', minutes=2, answers_in_time=False)
    assert (tmp_path / "out" / "weights").is_dir()


def test_a_single_run_that_has_time_for_its_steps_makes_them(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = load_run()
    out = train_single(run, folder, tmp_path, monkeypatch, '{"steps": 4, "cooldown": 2}', minutes=2)
    record = Checkpoint.open(out / "weights").record
    assert (record.step, record.config["steps"], record.config["cooldown"]) == (4, 4, 2)


def test_settings_of_a_task_are_refused_unless_they_have_names(folder: Path) -> None:
    run, bundle = load_run(), Bundle.open(folder)
    for given, said in {
        '{"sst": 3}': "gives 3 for sst: give the settings of a task by name",
        '{"sst": {"stepss": 3}}': "cannot be used for sst",
        '{"sst": {"vectors": []}}': "changes vectors, which the bundle was written for",
        '{"zre": {"steps": 3}}': "settings of zre, which the bundle does not have",
        '{"woz.en": 3}': "gives 3 for woz.en",
    }.items():
        with pytest.raises(SystemExit, match=said):
            run.reduce_bundle(bundle, "sst", given)
    for whole, own in product(
        ({"model.dropout": 0.37}, {"model": {"dropout": 0.37}}),
        ({"model.hidden": 9}, {"model": {"hidden": 9}}),
    ):
        made = run.reduce_bundle(bundle, "sst", json.dumps({**whole, "sst": own})).config.model
        assert (made.dropout, made.hidden) == (0.37, 9)
    assert run.reduce_bundle(bundle, "sst", '{"woz.en": {"steps": 3}}').config.steps == bundle.config.steps


def test_a_smoke_may_try_the_modes_alone(folder: Path, tmp_path: Path) -> None:
    run, bundle = load_run(), Bundle.open(folder)
    options = options_of(
        tmp_path / "out", command="smoke", tasks="none", modes="float32", steps=2, set="{}", files=8
    )
    assert run.smoke(bundle, options, run.Clock(2), tmp_path / "work") == []
    report = json.loads((options.out / "report.json").read_text())
    assert report["modes"]["float32"]["steps"] == 2
    assert report["single"] == {}
    assert [path.name for path in options.out.iterdir()] == ["report.json"]


def test_a_joint_run_that_fails_leaves_the_state_of_its_last_checkpoint(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, bundle = load_run(), Bundle.open(folder)
    options = options_of(tmp_path / "out")
    train = run.train

    def fail(bundle: Bundle, folder: Path, seconds: float, options: Any, **settings: Any) -> None:
        train(bundle, folder, seconds, options, **{**settings, "steps": begun + 4})
        raise MemoryError("as on a GPU")

    monkeypatch.setattr(run, "train", fail)
    begun = 0
    with pytest.raises(MemoryError):
        run.joint(bundle, options, run.Clock(5), tmp_path / "work")
    assert Checkpoint.open(options.out).record.step == 4 and len(log_of(options.out)) == 5
    again = but(options, state=options.out, out=tmp_path / "again")
    begun = 4
    with pytest.raises(MemoryError):
        run.joint(bundle, again, run.Clock(5), tmp_path / "work-2")
    assert Checkpoint.open(again.out).record.step == 8 and len(log_of(again.out)) == 9

    def fail_at_once(*given: Any, **settings: Any) -> None:
        raise MemoryError("before anything was done")

    monkeypatch.setattr(run, "train", fail_at_once)
    third = but(again, out=tmp_path / "third")
    with pytest.raises(MemoryError):
        run.joint(bundle, third, run.Clock(5), tmp_path / "work-3")
    assert not third.out.exists()


def test_answers_go_on_where_the_time_was_over(
    folder: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In windows of three questions and with time for few of them, the answers are those of one command."""
    run, bundle = load_run(), Bundle.open(folder)
    options = options_of(tmp_path / "state", command="answer", window=3, batch_tokens=2_000)
    train = run.train
    monkeypatch.setattr(run, "train", lambda *given, **settings: train(*given, **{**settings, "steps": 2}))
    run.joint(bundle, options, run.Clock(5), tmp_path / "work")

    class Windows:
        """A clock of so many windows."""

        def __init__(self, count: int) -> None:
            self.count = count

        def has(self, seconds: float) -> bool:
            self.count -= 1
            return self.count >= 0

    def answer(out: str, windows: int, **settings: Any) -> tuple[Path, dict[str, bytes]]:
        own = but(options, state=tmp_path / "state", out=tmp_path / out, **settings)
        run.answer_all(bundle, own, Windows(windows), tmp_path / f"work-{out}")
        path = own.out / "submission.zip"
        if not path.exists():
            return own.out, {}
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.startswith("predictions/")]
            return own.out, {name: archive.read(name) for name in names}

    whole, answers = answer("whole", 10_000)
    assert len(answers) == len(TASK_NAMES) and not (whole / "answered.json.gz").exists()
    earlier, rounds = None, []
    while len(rounds) < 100 and (not rounds or rounds[-1].keys() != answers.keys()):
        earlier, found = answer(f"part-{len(rounds)}", 2, answered=earlier)
        rounds.append(found)
    assert rounds[-1] == answers
    assert rounds[0] == {} and len(rounds) == -(
        -sum(-(-len(own) // 3) for own in bundle.validation.values()) // 2
    )
    check_submission(earlier / "submission.zip", home, TASK_NAMES)
    with pytest.raises(SystemExit, match="Leave --answered out"):
        answer("none", 1, answered=whole)
    with pytest.raises(SystemExit, match=r"other precision \(float32\)"):
        answer("other", 1, answered=tmp_path / "part-0", precision="bfloat16")
    path = tmp_path / "part-0" / "answered.json.gz"
    raw = path.read_bytes()
    record = json.loads(gzip.decompress(raw))
    (first, one), (second, other) = list(record["lines"]["sst"].items())[:2]
    swapped = {**record["lines"]["sst"], first: other, second: one}
    forged = {
        "other weights": {"weights": "sha256:0"},
        "its questions of squad are not": {"lines": {"squad": {}}},
        "its questions of sst are not": {"lines": {"sst": {"another": {}}}},
        "its lines of sst are not of the questions": {"lines": {"sst": swapped}},
        "cannot be gone on from": {"lines": 7},
    }
    for said, changed in forged.items():
        path.write_bytes(gzip.compress(json.dumps({**record, **changed}).encode()))
        with pytest.raises(SystemExit, match=said):
            answer("forged", 1, answered=path.parent)
    path.write_bytes(raw[:-9])
    with pytest.raises(SystemExit, match="cannot be gone on from"):
        answer("forged", 1, answered=path.parent)
    path.write_bytes(raw)

    # An error in the middle of it loses nothing that was answered before.
    real, calls = TrainedModel.answer_items, []

    def fail(*given: Any, **settings: Any) -> Any:
        calls.append(1)
        if len(calls) == len(rounds) + 3:
            raise MemoryError("as on a GPU")
        return real(*given, **settings)

    monkeypatch.setattr(TrainedModel, "answer_items", fail)
    with pytest.raises(MemoryError):
        answer("failed", 10_000)
    monkeypatch.undo()
    lines = json.loads(gzip.decompress((tmp_path / "failed" / "answered.json.gz").read_bytes()))["lines"]
    assert len(rounds) < sum(map(len, lines.values()))
    assert (tmp_path / "failed" / "submission.zip").exists()  # of the tasks that were done
    assert answer("mended", 10_000, answered=tmp_path / "failed")[1] == answers


def test_single_runs_end_with_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes too long is ended, so that the others' figures are not lost with it."""
    run = load_run()
    sleeper = tmp_path / "python"
    sleeper.write_text("#!/bin/sh\nexec sleep 600\n")
    sleeper.chmod(0o755)
    monkeypatch.setattr(run.sys, "executable", str(sleeper))
    options = SimpleNamespace(
        bundle=tmp_path, device="cpu", file_size=1, trust="", precision="auto", set="{}", mode=""
    )
    found = run.train_beside(["sst", "woz.en"], options, run.Clock(0.02), tmp_path / "work")
    assert found == {"sst": {"exit": -15}, "woz.en": {"exit": -15}}


def test_a_run_at_its_end_says_so(
    config: TrainConfig, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(replace(config, schedule="sequential", steps=6), home, tmp_path / "bundle")
    run, bundle = load_run(), Bundle.open(tmp_path / "bundle")
    options = options_of(tmp_path / "one", checkpoint_every=50)
    run.joint(bundle, options, run.Clock(5), tmp_path / "work")
    for changed, said in (
        ({}, "No step was made after step 6"),
        ({"last": True}, "leave --last out"),
        ({"mode": "bfloat16"}, "trained in another mode .precision "),
        ({"mode": "float32"}, "No step was made after step 6"),  # which is what auto is
    ):
        again = but(options, state=options.out, out=tmp_path / "two", **changed)
        with pytest.raises(SystemExit, match=said):
            run.joint(bundle, again, run.Clock(5), tmp_path / f"work-{len(os.listdir(tmp_path))}")
        assert not again.out.exists()


@pytest.mark.parametrize("changes", [{"epochs": 1}, {"phases": (Phase(epochs=1),)}])
def test_a_run_in_epochs_ends_by_itself(
    config: TrainConfig, home: Path, tmp_path: Path, changes: Any
) -> None:
    """With --last it was to cool down, and did not: the steps that it set counted for nothing."""
    write(replace(config, **changes), home, tmp_path / "bundle")
    run, bundle = load_run(), Bundle.open(tmp_path / "bundle")
    options = options_of(tmp_path / "one", checkpoint_every=50)
    run.joint(bundle, options, run.Clock(5), tmp_path / "work")
    last = but(options, state=options.out, out=tmp_path / "two", last=True)
    with pytest.raises(SystemExit, match=r"counted in epochs or phases, .* ends by itself: leave --last out"):
        run.joint(bundle, last, run.Clock(5), tmp_path / "again")


@pytest.mark.parametrize("changes", [{"order": "score"}, {"phases": (Phase(steps=4, order="score"),)}])
def test_an_order_by_scores_is_refused(
    config: TrainConfig, home: Path, tmp_path: Path, folder: Path, changes: Any
) -> None:
    """A bundle's run is not validated: it trained each task alike, and its record said otherwise."""
    with pytest.raises(DecabenchError, match="no scores to choose tasks by"):
        write(replace(config, **changes), home, tmp_path / "bundle")
    forged = shutil.copytree(folder, tmp_path / "forged")
    record = json.loads((forged / "bundle.json").read_text())
    record["config"] |= to_mapping(replace(config, **changes)) | {"vectors": record["config"]["vectors"]}
    (forged / "bundle.json").write_text(json.dumps(record))
    with pytest.raises(DataError, match="chooses tasks by scores"):
        Bundle.open(forged)


def make_state(
    run: Any, bundle: Bundle, out: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any
) -> SimpleNamespace:
    """Write the state of a joint run of two steps; return its options."""
    options = options_of(out)
    train = run.train
    with monkeypatch.context() as patch:
        patch.setattr(
            run, "train", lambda *given, **own: train(*given, **{**own, "steps": 2, "cooldown": 0, **changes})
        )
        run.joint(bundle, options, run.Clock(5), out.with_name(f"work-{out.name}"))
    return options


def test_a_state_that_cannot_be_used_is_refused_by_its_own_name(
    folder: Path, config: TrainConfig, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, bundle = load_run(), Bundle.open(folder)
    options = make_state(run, bundle, tmp_path / "state", monkeypatch)
    make_state(run, bundle, tmp_path / "ended", monkeypatch, cooldown=1)

    def copy(name: str, change: Callable[[Path], Any]) -> Path:
        shutil.copytree(options.out, tmp_path / name)
        change(tmp_path / name)
        return tmp_path / name

    def as_answered(path: Path) -> None:
        record = json.loads((path / "checkpoint.json").read_text())
        del record["state"]
        (path / "checkpoint.json").write_text(json.dumps(record))

    def of_other_data(path: Path) -> None:
        record = json.loads((path / "checkpoint.json").read_text())
        record["data"]["sst.train"] = "sha256:0"
        (path / "checkpoint.json").write_text(json.dumps(record))

    def of_other_settings(path: Path) -> None:
        record = json.loads((path / "checkpoint.json").read_text())
        record["config"]["learning_rate"] = 7.0
        (path / "checkpoint.json").write_text(json.dumps(record))

    states = {
        tmp_path / "none": "There is no folder .*none: give a state.*leave --state out to begin anew",
        folder: "is not a state, as it has no checkpoint.json: give the folder that run.py joint wrote",
        options.out / "checkpoint.json": "There is no folder",
        tmp_path / "ended": r"ended is the state of a run that has ended \(--last\): answer with it",
        copy(
            "bare", lambda path: (path / "optimizer.safetensors").unlink()
        ): "bare lacks optimizer.safetensors",
        copy(
            "logless", lambda path: (path / "train.csv.gz").unlink()
        ): "logless lacks train.csv.gz: copy all",
        copy("weights", as_answered): "has the weights that run.py answer wrote",
        copy("broken", lambda path: (path / "train.csv.gz").write_bytes(b"no")): "broken is damaged",
        copy("data", of_other_data): "data was trained on other data than the bundle",
        copy("settings", of_other_settings): r"trained with other settings .*\(learning_rate\)",
    }
    for state, said in states.items():
        again = but(options, state=state, out=tmp_path / "again")
        with pytest.raises(SystemExit, match=said) as caught:
            run.joint(bundle, again, run.Clock(5), tmp_path / "work" / state.name)
        assert str(state) in str(caught.value)
        assert str(tmp_path / "work") not in str(caught.value)
        assert not again.out.exists()
    flipped = copy("flipped", lambda path: flip(path / "optimizer.safetensors"))
    with pytest.raises(DataError, match=r"optimizer\.safetensors is not the file that was saved"):
        run.joint(
            bundle,
            but(options, state=flipped, out=tmp_path / "again"),
            run.Clock(5),
            tmp_path / "work-flipped",
        )
    for state in (tmp_path / "none", folder):
        again = but(options, state=state, out=tmp_path / "again")
        with pytest.raises(SystemExit, match=r"no folder|is not a state"):
            run.answer_all(bundle, again, run.Clock(5), tmp_path / "work")
    for changed, said in (
        (
            {"tasks": "sts"},
            r"--tasks 'sts' names sts \(did you mean sst\?\): give one or more of sst, woz.en, cnn",
        ),
        ({"answered": tmp_path / "none"}, "There is no folder .*none: give the one that run.py answer wrote"),
    ):
        again = but(options, state=tmp_path / "ended", out=tmp_path / "again", **changed)
        with pytest.raises(SystemExit, match=said):
            run.answer_all(bundle, again, run.Clock(5), tmp_path / "work")
        assert not again.out.exists()


def test_tasks_and_settings_of_single_runs_are_checked_before_the_smoke(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, bundle = load_run(), Bundle.open(folder)
    options = SimpleNamespace(modes="float32", tasks="", set="{}", device="cpu", out=tmp_path / "out")
    for changed, said in (
        ({"tasks": "sst,sts"}, r"names sts \(did you mean sst\?\)"),
        ({"modes": "gpu"}, "--modes 'gpu' names gpu"),
        ({"set": '{"lr": 3}'}, "cannot be used for sst: There is no setting 'lr'"),
    ):
        with pytest.raises(SystemExit, match=said):
            run.smoke(bundle, but(options, **changed), run.Clock(1), tmp_path)
        assert not options.out.exists()
    for tasks, said in (("", "names nothing"), ("nope", "names nope"), ("sst,woz.en", "trains one task")):
        with pytest.raises(SystemExit, match=said):
            run.single(bundle, but(options, tasks=tasks), run.Clock(1), tmp_path)


def test_a_smoke_of_which_a_part_fails_says_so_at_the_end(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its report is whole, its exit code 1; and what it prints is for people."""
    run = load_run()
    measured = {
        "steps": 500,
        "steps a second": 12.345678901234567,
        "examples a second": 1234.567,
        "target tokens a second": 98765.4321,
        "first losses": [3.4] * 10,
        "mean loss of the second half": 2.786253658899027,
    }

    def try_mode(bundle: Any, mode: str, *given: Any) -> None:
        given[-1]["difference from the CPU"] = {"sst": {"loss": -1.23456e-5, "gradient_norm": 0.5}}
        if mode == "compiled":
            raise RuntimeError("no compiler " * 30)
        given[-1].update(measured)

    monkeypatch.setattr(run, "try_mode", try_mode)
    monkeypatch.setattr(
        run, "train_beside", lambda *given: {"sst": {"exit": 143}, "woz.en": {"exit": 0, **measured}}
    )
    monkeypatch.setattr(run, "use_code", lambda *given: None)
    monkeypatch.setenv("COLUMNS", "200")
    for modes, failed in (("float32,compiled", "compiled, sst"), ("float32", "sst")):
        out = tmp_path / modes
        monkeypatch.setattr(
            "sys.argv",
            ["run.py", "smoke", str(folder), "--out", str(out), "--modes", modes, "--device", "cpu"],
        )
        monkeypatch.setattr(run, "end_on_signals", lambda: None)
        with pytest.raises(SystemExit) as caught:
            run.main()
        assert caught.value.code == 1
        printed, said = capsys.readouterr()
        assert f"Failed: {failed}." in " ".join(said.split())
        report = json.loads((out / "report.json").read_text())
        assert report["modes"]["float32"]["steps a second"] == measured["steps a second"]
        assert report["single"].keys() == {"sst", "woz.en"}
        lines = [line for line in (printed + said).splitlines() if str(tmp_path) not in line]
        assert max(map(len, lines)) <= 80
        assert not any(len(word) > 12 and "." in word and word[0].isdigit() for word in printed.split())
        rows = [line.split() for line in printed.splitlines()]
        assert ["float32", "500", "12.3", "1,235", "98,770", "2.79", "1.23e-05", "-"] in rows
        assert ["sst", "-", "-", "-", "-", "-", "143"] in rows


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_joint_run_that_is_interrupted(number: int, folder: Path, tmp_path: Path) -> None:
    """It finishes its step: raised within one, the exception had left a lock taken, and the process did not end.

    With nothing but torch, numpy, safetensors and the standard library, in which the state is read again.
    """
    out, site = tmp_path / "out", make_site(tmp_path / "site")
    command = [sys.executable, str(RUN), "joint", str(folder), *trust(folder), "--out", str(out)]
    child = subprocess.Popen(
        [*command, "--device", "cpu", "--checkpoint-every", "10000"],
        env={**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(
            number, signal.SIG_DFL
        ),  # nohup has it ignored, and so would the child
    )
    try:
        assert child.stdout is not None
        first = child.stdout.readline()
        while first and "training on" not in first and "from step" not in first:
            first = child.stdout.readline()
        time.sleep(2)
        child.send_signal(number)
        text = " ".join(child.communicate(timeout=120)[0].split())
    finally:
        child.kill()
    assert child.returncode == 128 + number, text
    assert "Traceback" not in text
    by = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
    assert "a checkpoint is written after the next step" in text
    assert f"The state of step {Checkpoint.open(out).record.step:,} is in {out}." in text
    assert f"Ended by {by}: go on with --state {out}." in text


def test_one_task_of_a_bundle_leaves_the_settings_of_the_others_out(
    config: TrainConfig, home: Path, tmp_path: Path
) -> None:
    """Iterations of other tasks, and a schedule of several, ended each of the smoke's single runs at once."""
    many = replace(
        config,
        schedule="anti-curriculum",
        first_tasks=("woz.en",),
        first_steps=3,
        iterations={"woz.en": 2, "sst": 3},
        clips={"cnn_dailymail": 0.5},
        best_by="woz.en",
    )
    write(many, home, tmp_path)
    own = Bundle.open(tmp_path).only("sst", {"steps": 5, "iterations": {}}).config
    assert (own.tasks, own.schedule, own.first_tasks, own.steps) == (("sst",), "joint", (), 5)
    assert (own.iterations, own.clips) == ({}, {})
    plan_phases(own)


def test_the_second_interrupt_ends_the_processes_beside_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in sessions of their own, where no Ctrl-C reaches them, and kept the GPU until their time was over."""
    run = load_run()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    run.CHILDREN.append(child)
    ended: list[int] = []
    monkeypatch.setattr(run.os, "_exit", ended.append)
    run.end_at_once(signal.SIGTERM, None)  # which others than a person send too
    assert child.poll() is None and not ended
    run.end_at_once(signal.SIGINT, None)
    assert child.wait(60) == -signal.SIGKILL and ended == [130]


def test_a_checkpoint_is_read_without_other_packages(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the borrowed machine a stand-in converts JSON; a check that it did not know had made the script useless."""
    run, bundle = load_run(), Bundle.open(folder)
    run.train(bundle, tmp_path / "run", 60.0, options_of(tmp_path / "out"), steps=2, checkpoint_every=1)
    saved = latest_checkpoint(tmp_path / "run")
    monkeypatch.setitem(sys.modules, "msgspec", run._msgspec())
    for name, module in list(sys.modules.items()):
        if name.startswith(("decabench.models.", "decabench.training.")) and hasattr(module, "msgspec"):
            monkeypatch.setattr(module, "msgspec", sys.modules["msgspec"])
    again = Checkpoint.open(saved.folder)
    assert (again.record, again.config, again.outputs) == (saved.record, saved.config, saved.outputs)
    state = RunState.of(again, bundle.config)
    assert (state.step, state.positions.keys()) == (2, set(TASK_NAMES))


def test_a_state_is_small_and_near() -> None:
    """Squared gradients of rank one come back as they were, as in Adafactor; others with the same means."""
    script = vars(load_run())
    random = np.random.default_rng(0)
    exact = torch.from_numpy(np.outer(random.random(30), random.random(20)))
    noisy = torch.from_numpy(random.random((30, 20)))
    state = {"step": torch.tensor(7.0), "exp_avg": torch.ones(30, 20), "exp_avg_sq": exact}
    full = {f"{name}/{key}": value for name in ("one", "two") for key, value in state.items()}
    full |= {"two/exp_avg_sq": noisy, "bias/exp_avg_sq": torch.ones(5), "bias/exp_avg": torch.ones(5)}
    small = script["shrink"](full)
    assert sum(value.numel() for value in small.values()) == 2 * (30 + 20 + 1) + 5
    back = script["grow"](small, {"one": exact, "two": noisy, "bias": torch.ones(5)}, "adam")
    assert back.keys() == full.keys()
    torch.testing.assert_close(back["one/exp_avg_sq"], exact)
    for axis in (0, 1):
        torch.testing.assert_close(back["two/exp_avg_sq"].mean(axis), noisy.mean(axis))
    assert torch.equal(back["bias/exp_avg_sq"], torch.ones(5))
    assert not back["one/exp_avg"].any()
    assert float(back["one/step"]) == 7


def trust(bundle: Path) -> list[str]:
    return ["--trust", hashlib.sha256((bundle / "code.zip").read_bytes()).hexdigest()[:16]]


def make_site(site: Path) -> Path:
    """Make a folder that hides all other packages from a Python which has it in PYTHONPATH."""
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(SITE)
    return site


def start(site: Path, command: str, bundle: Path, *arguments: str) -> str:
    """Run examples/gpu/run.py where nothing but torch, numpy, safetensors and the standard library can be imported."""
    make_site(site)
    done = subprocess.run(
        [
            sys.executable,
            str(RUN),
            command,
            str(bundle),
            *trust(bundle),
            *arguments,
            "--device",
            "cpu",
            "--file-size",
            str(FILE_SIZE),
        ],
        env={**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def sizes(*folders: Path) -> list[int]:
    return [path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file()]


def check_out(out: Path) -> None:
    assert len(sizes(out)) <= FILES
    assert max(sizes(out)) <= FILE_SIZE
    assert all(path.is_file() for path in out.iterdir())


@pytest.mark.heavy
def test_the_three_commands_in_miniature(config: TrainConfig, home: Path, tmp_path: Path) -> None:
    site, bundle = tmp_path / "site", tmp_path / "bundle"
    # Runs on one task leave out what is set for others.
    of_tasks = {"iterations": {"woz.en": 2}, "clips": {"cnn_dailymail": 0.5}}
    write(replace(config, steps=100_000, cooldown=90_000, **of_tasks), home, bundle)
    assert sum(sizes(bundle)) <= IN

    # 1. Smoke, and two tasks side by side.
    one = tmp_path / "one"
    said = start(
        site,
        "smoke",
        bundle,
        "--out",
        str(one),
        "--steps",
        "4",
        "--modes",
        "float32,bfloat16,graphs",
        "--tasks",
        "sst,woz.en",
        "--minutes",
        "20",
        "--set",
        '{"steps": 6, "cooldown": 0}',
    )
    check_out(one)
    report = json.loads((one / "report.json").read_text())
    assert set(report["modes"]) == {"float32", "bfloat16", "graphs"}, said
    for mode, tolerance in (("float32", 1e-4), ("bfloat16", 0.1), ("graphs", 0.1)):
        found = report["modes"][mode]
        assert "error" not in found
        assert found["steps"] == (20 if mode == "graphs" else 4)
        assert found["examples a second"] > 0
        for task in TASK_NAMES:
            assert abs(found["difference from the CPU"][task]["loss"]) < tolerance
    with zipfile.ZipFile(join(one, tmp_path / "runs.zip")) as archive:
        archive.extractall(tmp_path / "runs")
    for task in ("sst", "woz.en"):
        assert report["single"][task]["exit"] == 0
        assert report["single"][task]["answered"]
        assert 0 < report["single"][task]["steps"] <= 6  # as far as its time allowed
        check_submission(tmp_path / "runs" / task / "submissions" / f"single-{task}", home, [task])

    # 2. The joint run, twice: the second time from the state of the first.
    two, three = tmp_path / "two", tmp_path / "three"
    start(site, "joint", bundle, "--out", str(two), "--minutes", "0.5")
    check_out(two)
    assert sum(sizes(bundle, two)) <= IN
    start(site, "joint", bundle, "--out", str(three), "--state", str(two), "--minutes", "0.5")
    check_out(three)
    steps = [Checkpoint.open(path).record.step for path in (two, three)]
    assert 0 < steps[0] < steps[1]
    rows = log_of(three)[1:]
    assert [int(row.split(",")[0]) for row in rows] == list(range(1, steps[1] + 1))

    # Once more, to its end: a cooldown of as many steps as fit.
    ended = tmp_path / "ended"
    with pytest.raises(AssertionError, match="There is no run to finish"):
        start(site, "joint", bundle, "--out", str(ended), "--last")
    start(site, "joint", bundle, "--out", str(ended), "--state", str(three), "--minutes", "0.5", "--last")
    check_out(ended)
    record = Checkpoint.open(ended).record
    assert record.config["steps"] - record.config["cooldown"] == steps[1] < record.step
    rates = [float(row.split(",")[3]) for row in log_of(ended)[1:]]
    assert rates[-1] < rates[steps[1]]

    # 3. Weights and answers.
    four = tmp_path / "four"
    start(site, "answer", bundle, "--out", str(four), "--state", str(three), "--minutes", "20")
    check_out(four)
    assert sum(sizes(bundle, three)) <= IN
    check_submission(four / "submission.zip", home, TASK_NAMES)
    # With the bundle's vectors beside them, the weights are a checkpoint that answers alike.
    for path in bundle.glob("vectors*"):
        (four / path.name).write_bytes(path.read_bytes())
    checkpoint = Checkpoint.open(four)
    with zipfile.ZipFile(four / "submission.zip") as archive:
        lines = archive.read("predictions/sst.validation.jsonl").decode().splitlines()
        assert checkpoint.digest() in archive.read("submission.toml").decode()
    examples = list(Store(home).examples("sst", "validation"))
    replies = checkpoint.load("cpu").answer(TASKS["sst"], examples)
    assert [json.loads(line)["answer"] for line in lines] == [reply.text for reply in replies]


def log_of(state: Path) -> list[str]:
    return gzip.decompress((state / "train.csv.gz").read_bytes()).decode().splitlines()


def join(out: Path, made: Path) -> Path:
    """`cat runs.zip* > runs.zip`"""
    parts = sorted(
        out.glob("runs.zip*"), key=lambda path: int(path.suffix[1:]) if path.suffix[1:].isdigit() else 0
    )
    made.write_bytes(b"".join(path.read_bytes() for path in parts))
    return made


def check_submission(path: Path, home: Path, tasks: Sequence[str]) -> None:
    """Score a submission as `decabench evaluate` does."""
    results = decabench.evaluate(path, home=home)
    assert set(results.tasks) == set(tasks)
    assert all(found.status == "scored" and found.faults == 0 for found in results.tasks.values())


def test_the_command(home: Path, config: TrainConfig, tmp_path: Path) -> None:
    arguments = [
        "train",
        "--home",
        str(home),
        "--tasks",
        "sst",
        "--set",
        "vectors=none:8",
        "--set",
        "model.dimension=8",
    ]
    arguments += ["--set", "model.layers=1", "--set", "train_examples=20"]
    done = CliRunner().invoke(cli, [*arguments, "--bundle", str(tmp_path / "b"), "--bundle-size", "5M"])
    assert done.exit_code == 0, done.output
    assert "in half precision the weights will be" in done.output
    assert f"--trust {trust(tmp_path / 'b')[1]} --out one" in " ".join(done.output.split())
    assert Bundle.open(tmp_path / "b").record["examples"] == {"sst": [20, 20]}
    again = CliRunner().invoke(cli, [*arguments, "--bundle", str(tmp_path / "b")])
    assert again.exit_code == 2 and "is not empty: name another folder" in again.output
    neither = CliRunner().invoke(cli, arguments)
    assert neither.exit_code == 2
    assert "Give a folder for the run as --output" in neither.output


def test_losses_are_compared_without_dropout_whatever_the_model(home: Path, tmp_path: Path) -> None:
    """A classifier's own dropout stayed, so that the CPU's losses were another draw than the GPU's."""
    found = []
    for dropout in (0.0, 0.6):
        model = ClassifierConfig(dimension=8, dropout=dropout)
        write(replace(TINY, model=model, tasks=("sst",)), home, tmp_path / str(dropout))
        bundle = Bundle.open(tmp_path / str(dropout))
        found.append(compare_losses(bundle, torch.device("cpu"), "float32"))
    assert found[0] == found[1]
