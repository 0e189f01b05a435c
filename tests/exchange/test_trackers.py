"""Trackers: what they are sent, and that no run depends on one. Stand-ins have the signatures of the real packages."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from decabench import evaluate
from decabench.errors import DecabenchError, UnknownNameError
from decabench.exchange import Trackers, make_trackers, track_results
from decabench.exchange.trackers import result_numbers
from tests.sources import ROOT


class Notes:
    """A tracker of one's own that notes its calls, and fails where it is told to."""

    def __init__(self, fails: str = "", error: BaseException | None = None) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.fails, self.error = fails, error or ConnectionError("no network")

    def _note(self, *call: Any) -> None:
        self.calls.append(call)
        if call[0] == self.fails:
            raise self.error

    def start(self, name, settings, folder, earlier):
        self._note("start", name, earlier)
        return "run-7"

    def log(self, numbers, step):
        self._note("log", dict(numbers), step)

    def finish(self, failed):
        self._note("finish", failed)


@pytest.mark.parametrize("what", ["start", "log", "finish"])
@pytest.mark.parametrize("error", [ConnectionError("no network"), SystemExit(1)])
def test_a_tracker_that_fails_is_dropped_and_the_others_go_on(tmp_path, what, error):
    broken, whole = Notes(what, error), Notes()
    trackers = Trackers({"broken": broken, "whole": whole})
    with pytest.warns(UserWarning, match=f"broken failed to {what} .*: the run goes on without it") as warned:
        trackers.start("a", {}, tmp_path)
        trackers.log({"x": 1}, 1)
        trackers.log({"x": 2}, 2)
        trackers.finish()
    assert len(warned) == 1
    assert [call[0] for call in whole.calls] == ["start", "log", "log", "finish"]
    assert broken.calls[-1][0] == what


def test_ctrl_c_is_not_swallowed(tmp_path):
    trackers = Trackers({"own": Notes("log", KeyboardInterrupt())})
    trackers.start("a", {}, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        trackers.log({"x": 1})


def test_a_resumed_run_continues_its_run_at_the_tracker(tmp_path):
    file = tmp_path / "tracked.json"
    for resume, earlier in ((False, ""), (True, "run-7"), (False, "")):
        own = Notes()
        Trackers({"own": own}).start("a", {}, tmp_path, file, resume)
        assert own.calls == [("start", "a", earlier)]
    file.write_text("[")
    own = Notes()
    Trackers({"own": own}).start("a", {}, tmp_path, file, True)
    assert own.calls == [("start", "a", "")]


def test_names_and_missing_packages_are_told_before_anything_is_run(monkeypatch):
    with pytest.raises(UnknownNameError, match=r"Did you mean wandb\?"):
        make_trackers(["wandbb"])
    monkeypatch.setattr("decabench.exchange.trackers.find_spec", lambda name: None)
    with pytest.raises(DecabenchError, match="mlflow is not installed: run pip install mlflow"):
        make_trackers(["mlflow"])
    assert not make_trackers([])


def test_nothing_is_loaded_that_is_not_named():
    code = (
        "import sys, decabench.exchange\n"
        "print([name for name in ('wandb', 'mlflow', 'tensorboard', 'inspect_ai', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "[]\n"


def test_results_with_their_intervals(home, submit, tmp_path):
    results = evaluate(submit("majority", ["sst", "schema"]), home=home)
    numbers = result_numbers(results)
    sst = results.tasks["sst"]
    assert (numbers["score/sst"], numbers["low/sst"], numbers["high/sst"]) == (sst.score, *sst.interval)
    assert "score/decaScore" not in numbers  # two of ten
    own = Notes()
    track_results(Trackers({"own": own}), results, tmp_path)
    assert own.calls == [("start", "majority", ""), ("log", numbers, None), ("finish", False)]
    assert list(tmp_path.glob("tracked.json")) == []


# Stand-ins


@pytest.fixture
def wandb(monkeypatch):
    """A stand-in for wandb 0.31."""
    module: Any = ModuleType("wandb")
    module.made = []

    class Run:
        def __init__(self, settings: dict[str, Any]) -> None:
            self.id, self.settings, self.rows, self.ended = settings.get("id") or "new", settings, [], None

        def log(self, data, step=None, commit=None):
            self.rows.append((data, step))

        def finish(self, exit_code=None):
            self.ended = exit_code

    def init(entity=None, project=None, dir=None, id=None, name=None, config=None, reinit=None, resume=None):
        assert reinit == "create_new"
        module.made.append(
            Run({"project": project, "id": id, "name": name, "config": config, "resume": resume})
        )
        return module.made[-1]

    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.setattr("decabench.exchange.trackers.find_spec", lambda name: name)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    return module


def test_wandb(wandb, tmp_path, monkeypatch):
    file = tmp_path / "tracked.json"
    trackers = make_trackers(["wandb"])
    trackers.start("run", {"steps": 3, "model": {"size": 2}}, tmp_path, file)
    trackers.log({"loss/sst": 0.5}, 1)
    trackers.finish(failed=True)
    (made,) = wandb.made
    assert (made.settings["project"], made.settings["name"]) == ("decabench", "run")
    assert made.settings["config"] == {"steps": 3, "model": {"size": 2}}
    assert (made.rows, made.ended) == ([({"loss/sst": 0.5}, 1)], 1)
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    make_trackers(["wandb"]).start("run", {}, tmp_path, file, resume=True)
    again = wandb.made[-1].settings
    assert (again["project"], again["id"], again["resume"]) == ("mine", "new", "allow")


@pytest.fixture
def mlflow(monkeypatch):
    """A stand-in for mlflow 3.17."""
    module: Any = ModuleType("mlflow")
    entities: Any = ModuleType("mlflow.entities")
    module.calls = []

    class Param:
        def __init__(self, key, value):
            self.key, self.value = key, value

    class Metric:
        def __init__(self, key, value, timestamp, step):
            self.key, self.value, self.step = key, value, step

    class MlflowClient:
        def get_experiment_by_name(self, name):
            module.calls.append(("experiment", name))

        def create_experiment(self, name):
            return "5"

        def create_run(self, experiment_id, start_time=None, tags=None, run_name=None):
            module.calls.append(("run", experiment_id, run_name))
            return SimpleNamespace(info=SimpleNamespace(run_id="r1"))

        def update_run(self, run_id, status=None, name=None):
            module.calls.append(("continue", run_id, status))

        def log_batch(self, run_id, metrics=(), params=(), tags=(), synchronous=None):
            assert len(metrics) <= 1_000
            assert len(params) <= 100
            module.calls.append(("params", {each.key: each.value for each in params}) if params else None)
            module.calls.append(("metrics", [(each.key, each.value, each.step) for each in metrics]))
            module.calls[:] = [call for call in module.calls if call and call[1:] != ([],)]

        def set_terminated(self, run_id, status=None, end_time=None):
            module.calls.append(("end", run_id, status))

    module.MlflowClient, entities.Param, entities.Metric = MlflowClient, Param, Metric
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    monkeypatch.setattr("decabench.exchange.trackers.find_spec", lambda name: name)
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    return module


def test_mlflow(mlflow, tmp_path):
    file = tmp_path / "tracked.json"
    trackers = make_trackers(["mlflow"])
    trackers.start("run", {"steps": 3, "model": {"size": "x" * 900}}, tmp_path, file)
    for step in (1, 2):
        trackers.log({"loss/sst": step, "score/a:b": 1}, step)
    assert mlflow.calls[-1][0] == "params"  # numbers wait for more
    trackers.finish()
    assert mlflow.calls == [
        ("experiment", "decabench"),
        ("run", "5", "run"),
        ("params", {"steps": "3", "model.size": "x" * 500}),
        (
            "metrics",
            [("loss/sst", 1.0, 1), ("score/a_b", 1.0, 1), ("loss/sst", 2.0, 2), ("score/a_b", 1.0, 2)],
        ),
        ("end", "r1", "FINISHED"),
    ]
    mlflow.calls.clear()
    trackers = make_trackers(["mlflow"])
    trackers.start("run", {}, tmp_path, file, resume=True)
    for step in range(250):
        trackers.log({"loss/sst": 1.0}, step)
    assert [call[0] for call in mlflow.calls] == ["continue", "metrics"]  # 200 at once
    trackers.finish(failed=True)
    assert mlflow.calls[-1] == ("end", "r1", "FAILED")


# The real packages


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trackers = make_trackers(["tensorboard"])
    trackers.start("run", {}, tmp_path)
    trackers.log({"score/sst": 50.0}, 3)
    trackers.log({"score/sst": float("nan")}, 4)
    trackers.finish()
    read = EventAccumulator(str(tmp_path / "tensorboard"))
    read.Reload()
    assert [(event.step, event.value) for event in read.Scalars("score/sst")] == [(3, 50.0)]


def run(code: str, folder: Path, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:decabench", "-c", code],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


TRACK = """
from pathlib import Path
from decabench.exchange import make_trackers
for resume in (False, True):
    trackers = make_trackers(["{name}"])
    trackers.start("run", {{"steps": 3, "model": {{"size": 2}}}}, Path("."), Path("tracked.json"), resume)
    assert trackers
    for step in (1, 2):
        trackers.log({{"loss/sst": 0.5, "learning_rate": 0.1}}, step + 2 * resume)
    assert trackers
    trackers.finish()
"""


@pytest.mark.heavy
def test_the_real_wandb_offline(tmp_path):
    pytest.importorskip("wandb", reason="wandb is not installed beside the project: nothing was run in it")
    run(TRACK.format(name="wandb"), tmp_path, WANDB_MODE="offline", WANDB_SILENT="true")
    runs = list(tmp_path.glob("wandb/offline-run-*"))
    assert runs
    assert all(list(each.glob("run-*.wandb")) for each in runs)


@pytest.mark.heavy
def test_the_real_mlflow(tmp_path):
    pytest.importorskip("mlflow", reason="mlflow is not installed beside the project: nothing was run in it")
    variables = {"MLFLOW_TRACKING_URI": f"file:{tmp_path / 'store'}", "MLFLOW_ALLOW_FILE_STORE": "true"}
    run(TRACK.format(name="mlflow"), tmp_path, **variables)
    code = (
        "from mlflow import MlflowClient\n"
        "client = MlflowClient()\n"
        "(run,) = client.search_runs([client.get_experiment_by_name('decabench').experiment_id])\n"
        "steps = [each.step for each in client.get_metric_history(run.info.run_id, 'loss/sst')]\n"
        "print(run.info.status, sorted(run.data.params.items()), steps)"
    )
    out = run(code, tmp_path, **variables)
    assert out == "FINISHED [('model.size', '2'), ('steps', '3')] [1, 2, 3, 4]\n"


# Commands


def test_a_tracker_that_fails_loses_no_score(command, home, submit, wandb, monkeypatch):
    def init(**settings):
        raise ConnectionError("no network")

    monkeypatch.setattr(wandb, "init", init)
    folder = submit("majority", ["sst"])
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        done = command("evaluate", folder, "--tasks", "sst", "--home", home, "--log", "wandb")
    assert done.exit_code == 0
    assert "wandb failed to start (ConnectionError: no network): the run goes on without it." in done.output
    assert (folder / "results" / "validation" / "results.json").exists()


def test_run_sends_its_scores(command, home, tmp_path, wandb):
    done = command(
        *("run", "--set", "predictor=majority", "--set", f"output={tmp_path / 'out'}", "--set", "tasks=sst"),
        *("--set", f"home={home}", "--set", "log=wandb"),
    )
    assert done.exit_code == 0, done.output
    (made,) = wandb.made
    assert made.settings["name"] == "majority"
    assert set(made.rows[0][0]) == {"score/sst", "low/sst", "high/sst"}
