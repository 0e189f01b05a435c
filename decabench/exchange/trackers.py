"""Send a run's metrics to W&B, MLflow or TensorBoard.

A tracker is any object with the three methods of `Tracker`. Its package is imported only when the tracker is
used. If a tracker fails, it is dropped with a warning, so runs and scores never depend on it.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from decabench.errors import DecabenchError, require_name
from decabench.files import by_dotted_key, write_file
from decabench.scoring import Results
from decabench.text import describe_error
from decabench.untrusted import read_json

FORMAT = "decabench.tracked/1"
PROJECT = "decabench"
"""The name of the W&B project or MLflow experiment, unless WANDB_PROJECT or MLFLOW_EXPERIMENT_NAME is set."""


class Tracker(Protocol):
    """Interface for experiment trackers. Implement these methods to add a tracker."""

    def start(self, name: str, settings: Mapping[str, Any], folder: Path, earlier: str) -> str:
        """Start a run, or resume the run with the identifier `earlier`, and return the run's identifier."""

    def log(self, numbers: Mapping[str, float], step: int | None) -> None:
        """Log named values at a training step, or for the whole run if `step` is None."""

    def finish(self, failed: bool) -> None:
        """End the run."""


class Trackers:
    """A group of trackers. A tracker that fails is dropped with a warning, and the run continues."""

    def __init__(self, trackers: Mapping[str, Tracker]) -> None:
        self._trackers = dict(trackers)

    def __bool__(self) -> bool:
        return bool(self._trackers)

    def start(
        self,
        name: str,
        settings: Mapping[str, Any],
        folder: Path,
        tracked: Path | None = None,
        resume: bool = False,
    ) -> None:
        """Start a run in every tracker, and save the run ids to the file `tracked`, if given.

        With `resume`, continue the runs whose ids are stored in that file.
        """
        if not self._trackers:
            return
        earlier: dict[str, Any] = {}
        if tracked is not None and resume:
            with suppress(OSError, ValueError):
                runs = read_json(tracked, format=FORMAT).get("runs")
                earlier = runs if isinstance(runs, dict) else {}
        made = {key: value for key, value in earlier.items() if isinstance(value, str)}

        def begin(which: str, tracker: Tracker) -> None:
            made[which] = str(tracker.start(name, settings, folder, made.get(which, "")))

        self._each("start", begin)
        if tracked is None:
            return
        try:
            write_file(tracked, json.dumps({"format": FORMAT, "runs": made}, indent=1) + "\n")
        except DecabenchError as error:
            warnings.warn(
                f"The trackers' run identifiers were not saved, so a resumed run will appear as a new run: {error}",
                stacklevel=2,
            )

    def log(self, numbers: Mapping[str, float], step: int | None = None) -> None:
        """Log named values to every tracker."""
        given = {key: float(value) for key, value in numbers.items()}
        self._each("log", lambda which, tracker: tracker.log(given, step))

    def finish(self, failed: bool = False) -> None:
        """End the run in every tracker."""
        self._each("finish", lambda which, tracker: tracker.finish(failed))
        self._trackers.clear()

    def _each(self, what: str, call: Callable[[str, Tracker], None]) -> None:
        for which, tracker in list(self._trackers.items()):
            try:
                call(which, tracker)
            except (Exception, SystemExit) as error:
                del self._trackers[which]
                warnings.warn(
                    f"{which} failed to {what} ({describe_error(error)}). The run continues without {which}.",
                    stacklevel=3,
                )


def make_trackers(names: Iterable[str]) -> Trackers:
    """Create trackers by name, without starting them.

    Raises UnknownNameError for an unknown tracker and DecabenchError for a missing package.
    """
    chosen = list(dict.fromkeys(names))
    for name in chosen:
        package, _ = TRACKERS[require_name(name, TRACKERS, "tracker")]
        if find_spec(package) is None:
            raise DecabenchError(f"{name} is not installed. Run pip install {package}.")
    return Trackers({name: TRACKERS[name][1]() for name in chosen})


# Results


def result_numbers(results: Results) -> dict[str, float]:
    """Return scores and interval bounds by name, such as `score/sst`, `low/sst` and `high/sst`.

    Failed tasks are left out. The suite total is included only if all of its tasks have scores.
    """
    numbers: dict[str, float] = {}

    def add(name: str, score: float | None, interval: tuple[float, float] | None) -> None:
        if score is not None:
            numbers[f"score/{name}"] = score
            if interval is not None:
                numbers[f"low/{name}"], numbers[f"high/{name}"] = interval

    for name, task in results.tasks.items():
        add(f"{name} (partial)" if task.status == "partial" else name, task.score, task.interval)
    if results.total.complete:
        add(results.suite.total_name, results.total.score, results.interval)
    return numbers


def track_results(trackers: Trackers, results: Results, folder: Path) -> None:
    """Log results as a separate run named after the submission."""
    described = results.submission
    settings = {
        "submission": described.get("name"),
        "split": results.split,
        "suite": results.suite.name,
        "predictor": described.get("predictor"),
        "decabench": results.decabench,
        "data": {name: task.data.fingerprint for name, task in results.tasks.items()},
        "signature": {name: task.signature for name, task in results.tasks.items()},
    }
    trackers.start(str(described["name"]), settings, folder)
    trackers.log(result_numbers(results))
    trackers.finish()


# W&B


class _WeightsAndBiases:
    """A W&B run, configured by WANDB_MODE, WANDB_PROJECT and W&B's other environment variables."""

    def start(self, name: str, settings: Mapping[str, Any], folder: Path, earlier: str) -> str:
        import wandb

        given = {"id": earlier, "resume": "allow"} if earlier else {}
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            name=name,
            config=dict(settings),
            dir=os.environ.get("WANDB_DIR"),
            reinit="create_new",  # separate from any run that the calling program has started
            **given,
        )
        return str(self._run.id)

    def log(self, numbers: Mapping[str, float], step: int | None) -> None:
        self._run.log(dict(numbers), step=step)

    def finish(self, failed: bool) -> None:
        self._run.finish(exit_code=int(failed))


# MLflow

_HELD = 200
"""The number of values to buffer, to avoid a request for every training step."""
_SECONDS = 10.0
"""The maximum time to buffer values, in seconds."""
_NOT_IN_NAMES = re.compile(r"[^\w./ -]", re.ASCII)


class _Mlflow:
    """An MLflow run, configured by MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME and MLflow's other environment
    variables.
    """

    def start(self, name: str, settings: Mapping[str, Any], folder: Path, earlier: str) -> str:
        from mlflow import MlflowClient
        from mlflow.entities import Param

        self._client: Any = MlflowClient()
        self._held: list[Any] = []
        self._sent = time.monotonic()
        if earlier:
            self._id = earlier
            self._client.update_run(earlier, status="RUNNING")
            return earlier
        title = os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
        found = self._client.get_experiment_by_name(title)
        experiment = self._client.create_experiment(title) if found is None else found.experiment_id
        self._id = str(self._client.create_run(experiment, run_name=name).info.run_id)
        flat = by_dotted_key(settings).items()
        params = [Param(_NOT_IN_NAMES.sub("_", key)[:250], str(value)[:500]) for key, value in flat]
        for at in range(0, len(params), 100):  # all servers accept requests and values of these sizes
            self._client.log_batch(self._id, params=params[at : at + 100])
        return self._id

    def log(self, numbers: Mapping[str, float], step: int | None) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        for key, value in numbers.items():
            self._held.append(Metric(_NOT_IN_NAMES.sub("_", key)[:250], value, now, step or 0))
        if len(self._held) >= _HELD or time.monotonic() - self._sent >= _SECONDS:
            self._send()

    def _send(self) -> None:
        held, self._held, self._sent = self._held, [], time.monotonic()
        for at in range(0, len(held), 1_000):
            self._client.log_batch(self._id, metrics=held[at : at + 1_000])

    def finish(self, failed: bool) -> None:
        try:
            self._send()
        finally:
            self._client.set_terminated(self._id, "FAILED" if failed else "FINISHED")


# TensorBoard


class _TensorBoard:
    def start(self, name: str, settings: Mapping[str, Any], folder: Path, earlier: str) -> str:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer: Any = EventFileWriter(str(folder / "tensorboard"))
        return "tensorboard"

    def log(self, numbers: Mapping[str, float], step: int | None) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [
            Summary.Value(tag=key, simple_value=value)
            for key, value in numbers.items()
            if not math.isnan(value)
        ]
        self._writer.add_event(Event(wall_time=time.time(), step=step or 0, summary=Summary(value=values)))

    def finish(self, failed: bool) -> None:
        self._writer.close()


TRACKERS: Mapping[str, tuple[str, Callable[[], Tracker]]] = {
    "wandb": ("wandb", _WeightsAndBiases),
    "mlflow": ("mlflow", _Mlflow),
    "tensorboard": ("tensorboard", _TensorBoard),
}
"""Trackers by name, each with the package that it requires and its class."""
