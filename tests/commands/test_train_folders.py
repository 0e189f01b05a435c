"""Whose folders `decabench train` writes to: its own, and never one with other files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")

from decabench.errors import DecabenchError
from decabench.training import train
from decabench.training.resume import is_unstarted

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
    with pytest.raises(DecabenchError, match="has files that do not belong to a run"):
        train(tmp_path / "run", ["sst"], "classifier", SETTINGS, home=home, device="cpu", resume=resume)
    assert [path for path in (tmp_path / "run").rglob("*") if path.is_file()] == [theirs]
    assert theirs.read_text() == "mine = 1\n"


def test_a_run_of_another_version_that_ended_before_its_first_checkpoint_begins_again(
    tmp_path: Path, home: Path
) -> None:
    """Its config.toml lacks settings that were added since; that alone could be anybody's, beside its log it is not."""
    run, quiet = tmp_path / "run", lambda line: None
    train(run, ["sst"], "classifier", SETTINGS, home=home, device="cpu", report=quiet)
    for left in ("checkpoints", "latest.json", "best.json"):
        shutil.rmtree(run / left) if (run / left).is_dir() else (run / left).unlink(missing_ok=True)
    lines = (run / "config.toml").read_text().splitlines(keepends=True)
    older = [line for line in lines if not line.startswith("cooldown = ")]
    assert len(older) == len(lines) - 1
    (run / "config.toml").write_text("".join(older))
    for path in run.iterdir():
        if path.name not in ("config.toml", "train.csv", "validation.csv", "tensorboard"):
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


def test_a_folder_of_somebody_runs_nothing(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its config.toml named a module of the current folder, which was imported to see whose folder it is."""
    (tmp_path / "tempting.py").write_text("open('ran', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.toml").write_text('[model]\nname = "tempting:FAMILY"\n')
    with pytest.raises(DecabenchError, match="has files that do not belong to a run"):
        train(run, ["sst"], "classifier", SETTINGS, home=home, device="cpu")
    (run / "config.toml").write_text("model = 3\n")
    assert not is_unstarted(run)
    assert not (tmp_path / "ran").exists()


def test_a_file_is_no_folder_of_a_run(tmp_path: Path, home: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(DecabenchError, match="is a file: name a folder for the run"):
        train(tmp_path / "run", ["sst"], "classifier", SETTINGS, home=home, device="cpu")
