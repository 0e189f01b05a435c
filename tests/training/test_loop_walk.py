"""From the batch to the checkpoint: a step of training crosses few of the project's files."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from decabench.models import write_checkpoint
from decabench.models.classifier import ClassifierConfig
from decabench.training.loop import _Trainer, run_training
from tests.sources import ROOT
from tests.training.conftest import TINY

AT_MOST = 20
FOLDERS = {"decabench", "metrics", "tasks", "leaderboard"}


@pytest.mark.parametrize(
    "model", [TINY.model, ClassifierConfig(dimension=8, train_embeddings=True)], ids=["mqan", "classifier"]
)
def test_from_the_batch_to_the_checkpoint(make_run, monkeypatch, model):
    """The second step of three: nothing is imported on the way any more, and nothing is validated yet."""
    entered = set()

    def note(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            file = path.resolve().relative_to(ROOT)
            if file.parts[0] in FOLDERS:
                entered.add(file.as_posix())

    original = _Trainer._step

    def step(trainer):
        if trainer.state.step == 1:
            sys.setprofile(note)
        return original(trainer)

    def checkpoint(*arguments):
        written = write_checkpoint(*arguments)
        sys.setprofile(None)
        return written

    monkeypatch.setattr(_Trainer, "_step", step)
    monkeypatch.setattr("decabench.training.loop.write_checkpoint", checkpoint)
    before = sys.getprofile()
    try:
        run_training(make_run(model=model, tasks=("sst",), steps=3, validate_every=3, checkpoint_every=2))
    finally:
        sys.setprofile(before)
    assert "decabench/training/loop.py" in entered and "decabench/models/checkpoint.py" in entered
    assert "decabench/training/validator.py" not in entered
    assert len(entered) <= AT_MOST, sorted(entered)
