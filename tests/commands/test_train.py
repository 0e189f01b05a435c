"""`decabench train`, from the command line to a checkpoint."""

import shlex
import warnings

import pytest

pytest.importorskip("torch")

import shutil
from pathlib import Path

import pytest

from decabench.errors import DecabenchError
from decabench.models import newest_checkpoint
from decabench.training import train
from decabench.training.config import read_config
from decabench.training.resume import is_unstarted

SMALL = [
    *("model.dimension=8", "model.hidden=6", "model.layers=1", "model.max_answer_tokens=5", "vectors=none:8"),
    *("steps=3", "train_examples=6", "validation_examples=3", "batch_tokens=200", "warmup=2"),
]


@pytest.fixture
def run(command, home, tmp_path):
    def call(*arguments):
        settings = [part for setting in SMALL for part in ("--set", setting)]
        return command(
            "train", "--home", home, "--device", "cpu", "--output", tmp_path / "run", *settings, *arguments
        )

    return call


@pytest.mark.parametrize(
    "model", ["mqan", "s2s", *(pytest.param(name, marks=pytest.mark.heavy) for name in ("catt", "satt"))]
)
def test_every_model_trains(run, tmp_path, model):
    done = run("--model", model, "--tasks", "sst,schema")
    assert done.exit_code == 0, done.output
    assert "Trained to step 3" in done.output
    config = read_config(tmp_path / "run" / "config.toml")
    assert (config.model.name, config.tasks, config.steps) == (model, ("sst", "schema"), 3)
    assert newest_checkpoint(tmp_path / "run") is not None


@pytest.mark.slow
def test_all_ten_tasks(run, tmp_path):
    done = run(
        "--tasks", "all", "--schedule", "anti-curriculum", "--set", "steps=13", "--set", "first_steps=3"
    )
    assert done.exit_code == 0, done.output
    lines = (tmp_path / "run" / "train.csv").read_text().splitlines()[1:]
    tasks = [line.split(",")[1] for line in lines]
    assert tasks[:3] == ["squad"] * 3
    assert len(set(tasks[3:])) == 10
    assert "total" in done.output


def test_a_folder_is_not_overwritten(run):
    assert run("--tasks", "schema").exit_code == 0
    again = run("--tasks", "schema")
    assert again.exit_code == 2
    assert "already contains a run" in again.output
    on = run("--tasks", "schema", "--resume", "--set", "steps=4")
    assert on.exit_code == 0, on.output
    assert "from step 3" in on.output


def test_a_folder_of_a_run_that_failed_at_once_can_be_used_again(run, tmp_path):
    failed = run("--tasks", "schema", "--set", "learning_rate=1e38", "--set", "warmup=1")
    assert failed.exit_code != 0
    assert "lower 'learning_rate'" in failed.output
    assert newest_checkpoint(tmp_path / "run") is None and (tmp_path / "run" / "config.toml").exists()
    done = run("--tasks", "schema")
    assert done.exit_code == 0, done.output
    rows = (tmp_path / "run" / "train.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows] == ["1", "2", "3"]


def test_the_command_to_answer_with_can_be_pasted(run, command, home, tmp_path):
    done = run("--tasks", "schema")
    line = done.output.rstrip().splitlines()[-1]
    (said, _, rest) = line.partition("decabench predict ")
    assert said == "Answer questions with the model: "
    assert f" --home {home} " in rest
    answered = command("predict", *shlex.split(rest))
    assert answered.exit_code == 0, answered.output
    assert (tmp_path / "run-answers" / "submission.toml").is_file()


def test_a_new_task_from_a_checkpoint(run, command, home, tmp_path):
    assert run("--tasks", "schema").exit_code == 0
    done = command(
        *("train", "--home", home, "--device", "cpu", "--output", tmp_path / "new", "--tasks", "sst"),
        *(
            "--init",
            tmp_path / "run",
            "--freeze",
            "encoder",
            "--set",
            "steps=2",
            "--set",
            "validation_examples=2",
        ),
    )
    assert done.exit_code == 0, done.output
    config = read_config(tmp_path / "new" / "config.toml")
    assert (config.model.dimension, config.vectors, config.freeze) == (8, ("none:8",), ("encoder",))


def test_the_command_line_s_checkpoint_goes_before_the_file_s(run, command, home, tmp_path):
    assert run("--tasks", "schema").exit_code == 0
    file = tmp_path / "more.toml"
    file.write_text('init = "nowhere"\nsteps = 2\nvalidation_examples = 2\n')
    place = ("train", "--home", home, "--device", "cpu", "--output", tmp_path / "more", "--tasks", "schema")
    done = command(*place, "--config", file, "--init", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert read_config(tmp_path / "more" / "config.toml").init == str(tmp_path / "run")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "stepps=3"), "Did you mean steps"),
        (("--tasks", "squid"), "Did you mean squad"),
        (("--init", "nowhere"), "nowhere"),
        (("--stop-after", "nan"), "'nan' is not a finite number"),
        (("--set", "model.dimension=100000000"), "is too large for this machine"),
        (("--freeze", "encoder", "--set", "model.dimension=100000000"), "is too large for this machine"),
        (("--set", "model.hidden=999999999999999999999"), "is too large for this machine"),
        (("--set", "model.layers=100000"), "must be at most 1,000"),
        (("--tasks", "sst", "--schedule", "anti-curriculum"), "has none of these tasks"),
    ],
)
def test_what_is_refused_is_a_sentence(run, arguments, words):
    done = run(*arguments)
    assert done.exit_code in (2, 3)
    assert words in " ".join(done.output.split())
    assert "Traceback" not in done.output


@pytest.mark.parametrize("fails", ["", "log"])
def test_a_tracker_gets_the_numbers_and_loses_no_run(run, tmp_path, monkeypatch, fails):
    calls = []

    class Notes:
        def start(self, name, settings, folder, earlier):
            self.note("start", name, settings["steps"], earlier)
            return "run-7"

        def log(self, numbers, step):
            self.note("log", step, sorted(numbers))

        def finish(self, failed):
            self.note("finish", failed)

        def note(self, *call):
            calls.append(call)
            if call[0] == fails:
                raise ConnectionError("no network")

    monkeypatch.setattr("decabench.exchange.trackers.TRACKERS", {"wandb": ("json", Notes)})
    warnings.simplefilter("default")  # the command line prints warnings
    done = run("--tasks", "schema", "--log", "wandb")
    assert done.exit_code == 0, done.output
    assert ("The run continues without" in done.stderr) == bool(fails)
    assert newest_checkpoint(tmp_path / "run") is not None
    if not fails:
        assert calls[0] == ("start", "run", 3, "")
        assert calls[1] == ("log", 1, ["gradient_norm/schema", "learning_rate", "loss/schema"])
        assert ("log", 3, ["score/schema", "score/total"]) in calls
        assert calls[-1] == ("finish", False)
        calls.clear()
        assert run("--tasks", "schema", "--log", "wandb", "--resume").exit_code == 0
        assert calls[0] == ("start", "run", 3, "run-7")


def test_a_task_of_ones_own_without_training_data_says_so(run, command, home, own_task):
    file = own_task(["one", "two"])
    file.write_text(file.read_text().replace('train = "rows.jsonl"\n', ""))
    done = run("--tasks", "own", "--include", file)
    assert done.exit_code == 3 and "Training requires train data, but own has no train split" in done.stderr


# `decabench train` only writes to its own folders, never to a folder with other files


pytest.importorskip("torch")


SETTINGS = {
    "steps": 2,
    "vectors": ["none:8"],
    "model.dimension": 8,
    "validation_examples": 4,
    "checkpoint_every": 1,
}


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize(
    "file", ["checkpoints/epoch-3/model.pt", "config.toml", "data.csv", "checkpoints/notes.txt"]
)
def test_folders_of_others_are_refused(tmp_path: Path, home: Path, file: str, resume: bool) -> None:
    theirs = tmp_path / "run" / file
    theirs.parent.mkdir(parents=True)
    theirs.write_text("mine = 1\n")
    with pytest.raises(DecabenchError, match="contains files that are not from a training run"):
        train(tmp_path / "run", ["sst"], "classifier", SETTINGS, home=home, device="cpu", resume=resume)
    assert [path for path in (tmp_path / "run").rglob("*") if path.is_file()] == [theirs]
    assert theirs.read_text() == "mine = 1\n"


def test_a_run_of_another_version_that_ended_before_its_first_checkpoint_begins_again(
    tmp_path: Path, home: Path
) -> None:
    """Its config.toml lacks settings added since then. The log next to it shows that it is a run."""
    run, quiet = tmp_path / "run", lambda line: None
    train(run, ["sst"], "classifier", SETTINGS, home=home, device="cpu", report=quiet)
    shutil.rmtree(run / "checkpoints")
    lines = (run / "config.toml").read_text().splitlines(keepends=True)
    older = [line for line in lines if not line.startswith("cooldown = ")]
    assert len(older) == len(lines) - 1
    (run / "config.toml").write_text("".join(older))
    for path in run.iterdir():
        if path.name not in ("config.toml", "train.csv", "validation.csv"):
            path.unlink()
    assert is_unstarted(run)
    train(run, ["sst"], "classifier", SETTINGS, home=home, device="cpu", resume=True, report=quiet)
    log = (run / "train.csv").read_text()
    shutil.rmtree(run / "checkpoints")
    for path in run.glob("*.json"):
        path.unlink()
    (run / "config.toml").write_text("".join(older))
    (run / "train.csv").write_text("mine,yours\n" + log)
    assert not is_unstarted(run)


def test_other_files_beside_the_checkpoints_stay(tmp_path: Path, home: Path) -> None:
    run = tmp_path / "run"
    train(run, ["sst"], "classifier", SETTINGS, home=home, device="cpu", report=lambda line: None)
    (run / "checkpoints" / "thesis.txt").write_text("mine")
    longer = {**SETTINGS, "steps": 4}
    train(run, ["sst"], "classifier", longer, home=home, device="cpu", resume=True, report=lambda line: None)
    assert (run / "checkpoints" / "thesis.txt").read_text() == "mine"
    assert not is_unstarted(run)


def test_a_file_is_no_folder_of_a_run(tmp_path: Path, home: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(DecabenchError, match=r"is a file\. Choose a folder"):
        train(tmp_path / "run", ["sst"], "classifier", SETTINGS, home=home, device="cpu")
