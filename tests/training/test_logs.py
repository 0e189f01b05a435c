"""Logs: what a killed run wrote beyond its checkpoint is dropped, half a line too."""

import pytest

pytest.importorskip("torch")

from decabench.training.logs import TrainingLog, plot_curves, read_rows


def row(step):
    return {
        "step": step,
        "task": "sst",
        "loss": 0.5,
        "learning_rate": 0.1,
        "gradient_norm": 1.0,
        "examples": 2,
        "tokens": 4,
        "seconds": 0.1,
    }


def test_logs_go_on_from_a_checkpoint(tmp_path):
    log = TrainingLog(tmp_path, 0)
    for step in range(1, 13):
        log.step(row(step))
    log.validation(5, {"sst": 50.0, "total": 50.0})
    log.validation(10, {"sst": 60.0, "total": 60.0})
    log.close()
    with (tmp_path / "train.csv").open("a") as file:
        file.write("1")  # of step 13, when the run was killed
    log = TrainingLog(tmp_path, 9)
    log.step(row(10))
    log.close()
    assert [int(row["step"]) for row in read_rows(tmp_path / "train.csv")] == list(range(1, 11))
    assert [row["score"] for row in read_rows(tmp_path / "validation.csv")] == ["50.0000"] * 2
    assert plot_curves(tmp_path).read_bytes().startswith(b"\x89PNG")


def test_a_run_can_be_watched(tmp_path):
    log = TrainingLog(tmp_path, 0)
    log.step(row(1))
    assert len(read_rows(tmp_path / "train.csv")) == 1
    log.close()
