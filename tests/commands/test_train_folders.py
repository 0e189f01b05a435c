"""Whose folders `decabench train` writes to: its own, and never one with other files."""

from __future__ import annotations

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
    with pytest.raises(DecabenchError, match="has other files than a run's"):
        train(tmp_path / "run", ["sst"], "classifier", SETTINGS, home=home, device="cpu", resume=resume)
    assert [path for path in (tmp_path / "run").rglob("*") if path.is_file()] == [theirs]
    assert theirs.read_text() == "mine = 1\n"


def test_other_files_beside_the_checkpoints_stay(tmp_path: Path, home: Path) -> None:
    run = tmp_path / "run"
    train(run, ["sst"], "classifier", SETTINGS, home=home, device="cpu", report=lambda line: None)
    (run / "checkpoints" / "thesis.txt").write_text("mine")
    longer = {**SETTINGS, "steps": 4}
    train(run, ["sst"], "classifier", longer, home=home, device="cpu", resume=True, report=lambda line: None)
    assert (run / "checkpoints" / "thesis.txt").read_text() == "mine"
    assert not is_unstarted(run)
