import pytest

pytest.importorskip("torch")

from decabench.training.logs import ProgressReport, TrainingLog, plot_curves, read_rows


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


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("decabench.training.logs.time.monotonic", lambda: now[0])
    return now


def test_progress_without_a_terminal(clock):
    lines = []
    progress = ProgressReport(40, 1_000, False, lines.append)
    for step, (task, loss) in enumerate([("sst", 2.0), ("squad", 4.0), ("sst", 1.0), ("squad", 4.0)], 41):
        clock[0] += 20.0
        progress.step({**row(step), "task": task, "loss": str(loss), "tokens": 600})
    progress.close()
    # A line after 60 seconds: losses as running means, tokens and time by what this process has done.
    assert lines == [
        "step 43 of 1,000: loss sst 1.900, squad 4.000; 0.1 steps and 30 target tokens per second; 5 h 19 min left"
    ]
