"""Trackers: the values they receive, and runs that survive their failures. Stubs have the real packages' signatures."""

from __future__ import annotations

import sys
import warnings
from typing import Any
from unittest.mock import MagicMock, call

import pytest

from decabench import evaluate
from decabench.exchange import Trackers, make_trackers, track_results
from decabench.exchange.trackers import result_numbers


class Notes:
    """A custom tracker that records its calls and fails on request."""

    def __init__(self, fails: str = "", error: BaseException | None = None) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.fails, self.error = fails, error or ConnectionError("no network")

    def _note(self, *given: Any) -> None:
        self.calls.append(given)
        if given[0] == self.fails:
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
    with pytest.warns(
        UserWarning, match=f"broken failed to {what} .*. The run continues without broken"
    ) as warned:
        trackers.start("a", {}, tmp_path)
        trackers.log({"x": 1}, 1)
        trackers.log({"x": 2}, 2)
        trackers.finish()
    assert len(warned) == 1
    assert [each[0] for each in whole.calls] == ["start", "log", "log", "finish"]
    assert broken.calls[-1][0] == what


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


# Stubs


@pytest.fixture
def wandb(monkeypatch):
    module = MagicMock()
    module.init.return_value.id = "new"
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
    settings = {"project": "decabench", "name": "run", "config": {"steps": 3, "model": {"size": 2}}}
    wandb.init.assert_called_once_with(**settings, dir=None, reinit="create_new")
    assert wandb.init.return_value.method_calls == [
        call.log({"loss/sst": 0.5}, step=1),
        call.finish(exit_code=1),
    ]
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    make_trackers(["wandb"]).start("run", {}, tmp_path, file, resume=True)
    again = wandb.init.call_args.kwargs
    assert (again["project"], again["id"], again["resume"]) == ("mine", "new", "allow")


def test_mlflow(monkeypatch, tmp_path):
    module, client = MagicMock(), MagicMock()
    module.MlflowClient.return_value = client
    module.entities.Param = module.entities.Metric = lambda *given: given
    client.get_experiment_by_name.return_value = None
    client.create_run.return_value.info.run_id = "r1"
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setitem(sys.modules, "mlflow.entities", module.entities)
    monkeypatch.setattr("decabench.exchange.trackers.find_spec", lambda name: name)
    monkeypatch.setattr("decabench.exchange.trackers.time.time", lambda: 7)
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    file = tmp_path / "tracked.json"
    trackers = make_trackers(["mlflow"])
    trackers.start("run", {"steps": 3, "model": {"size": "x" * 900}}, tmp_path, file)
    trackers.log({"loss/sst": 1, "score/a:b": 1}, 1)
    assert client.method_calls[-1] == call.log_batch("r1", params=[("steps", "3"), ("model.size", "x" * 500)])
    trackers.finish()  # numbers wait for more, or for the end
    assert client.method_calls[-2:] == [
        call.log_batch("r1", metrics=[("loss/sst", 1.0, 7000, 1), ("score/a_b", 1.0, 7000, 1)]),
        call.set_terminated("r1", "FINISHED"),
    ]
    client.reset_mock()
    trackers = make_trackers(["mlflow"])
    trackers.start("run", {}, tmp_path, file, resume=True)
    for step in range(250):
        trackers.log({"loss/sst": 1.0}, step)
    assert [each[0] for each in client.method_calls] == ["update_run", "log_batch"]  # 200 at once
    trackers.finish(failed=True)
    assert client.method_calls[-1] == call.set_terminated("r1", "FAILED")


# Commands


def test_a_tracker_that_fails_loses_no_score(command, home, submit, wandb):
    wandb.init.side_effect = ConnectionError("no network")
    folder = submit("majority", ["sst"])
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        done = command("evaluate", folder, "--tasks", "sst", "--home", home, "--log", "wandb")
    assert done.exit_code == 0
    assert (
        "wandb failed to start (ConnectionError: no network). The run continues without wandb." in done.output
    )
    assert (folder / "results" / "validation" / "results.json").exists()
