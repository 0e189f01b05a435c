"""Training effort: a run's notes, a row's weights, steps and minutes, and worked examples of parameter counts."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from math import prod
from pathlib import Path
from statistics import mean, median
from typing import Any

import msgspec
from safetensors import safe_open

from decabench.files import by_dotted_key, write_file
from decabench.plugins import load_object
from decabench.training.logs import read_rows
from papers.plan import Count, Place, Plan, Run, SeededRun, seeded_runs

TRAINING = "training.json"
LAST_STEPS = 200
"""The number of final log steps over which loss terms are averaged."""

EMBEDDINGS = re.compile(r"(^|\.)embed\.")
"""Matches embedding parameters in every model family, shared or for a single task (`heads.TASK.embed`)."""

REFERENCES = "reference/"
"""The prefix of tensors that are not weights but snapshots for successive regularization."""


@dataclass(frozen=True)
class Training:
    """The training of a completed run."""

    weights: int | None
    """The number of weights, not counting embeddings."""
    steps: int
    """The number of training steps."""
    seconds: float
    """The total time of all steps, in seconds."""
    step_seconds: float | None
    """The median time of a step, in seconds."""
    by_epoch: bool
    """Whether validation ran at the end of each epoch."""
    validations: list[tuple[float, str, float]]
    """The step, the task and the score of each validation."""
    kept: int | None = None
    """The epoch whose weights were kept, counted from 1, or None if epochs were not counted."""
    terms: dict[str, float] = field(default_factory=dict)
    """The mean of each logged value, for example a loss term, over the last steps."""
    versions: dict[str, str] = field(default_factory=dict)
    """The versions of Python, torch, numpy and decabench used in training. Older records don't have them."""


def read_training(one: SeededRun) -> Training | None:
    """Return the training of a completed run, or None if it isn't done. The logs are read once, then cached."""
    if not one.is_scored:
        return None
    note = one.submission / TRAINING
    if not note.exists():
        content = {**asdict(_read_logs(one.folder)), "asked": asked_for(one)}
        del content["kept"]  # it can be computed from the results
        write_file(note, json.dumps(content, indent=1, sort_keys=True) + "\n")
    training = msgspec.json.decode(note.read_bytes(), type=Training)
    steps = sorted({step for step, _, _ in training.validations})
    answered = msgspec.json.decode(one.results().read_bytes())["submission"]["predictor"]["backend"]["step"]
    by_epoch = training.by_epoch and answered in steps
    return replace(training, kept=steps.index(answered) + 1 if by_epoch else None)


def asked_for(one: SeededRun) -> dict[str, Any]:
    """Return everything that determines a run: tasks, settings, configuration and starting point."""
    config = one.run.config or one.plan.config
    path = one.place.plan.parent / config
    return {
        "tasks": list(one.run.tasks),
        "settings": {**one.plan.settings, **one.run.settings},
        "config": tomllib.loads(path.read_text(encoding="utf-8")) if config else {},
        "split": one.plan.split,
        "init": asked_for(one.first) if one.first else one.checkpoint or None,
    }


def has_changed(one: SeededRun) -> bool:
    """Return whether a run was completed with settings that differ from the plan's current settings."""
    note = one.submission / TRAINING
    if not note.exists():
        return False
    asked = json.loads(note.read_bytes())["asked"]
    if isinstance(asked["init"], str):  # older records contain a path
        asked["init"] = Path(asked["init"]).name
    return bool(asked != asked_for(one))


def _read_logs(folder: Path) -> Training:
    lines = read_rows(folder / "train.csv")
    seconds = [float(line["seconds"]) for line in lines]
    terms: dict[str, list[float]] = {}
    for line in lines[-LAST_STEPS:]:
        for name, figure in line.items():
            if name.startswith("loss.") and figure:
                terms.setdefault(name, []).append(float(figure))
    config = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    return Training(
        weights=count_weights(folder),
        steps=len(seconds),
        seconds=sum(seconds),
        step_seconds=median(seconds) if seconds else None,
        by_epoch=bool(config.get("epochs")) and not config.get("validate_every"),
        validations=[
            (float(one["step"]), one["task"], float(one["score"]))
            for one in read_rows(folder / "validation.csv")
        ],
        terms={name: round(mean(own), 4) for name, own in terms.items()},
        versions=_read_versions(folder),
    )


def count_weights(run: Path) -> int | None:
    """Return the number of weights in a run's last checkpoint, not counting embeddings.

    Returns None if there is no checkpoint.
    """
    files = sorted(run.glob("checkpoints/*/model*.safetensors"))
    latest = [file for file in files if file.parent == files[-1].parent]
    weights = 0
    for file in latest:
        with safe_open(file, "numpy") as tensors:
            for name in tensors.keys():
                if not EMBEDDINGS.search(name) and not name.startswith(REFERENCES):
                    weights += prod(tensors.get_slice(name).get_shape())
    return weights if latest else None


def _read_versions(run: Path) -> dict[str, str]:
    """Return the versions of packages recorded in the last checkpoint, if there is one."""
    versions: dict[str, str] = {}
    for record in sorted(run.glob("checkpoints/*/checkpoint.json"))[-1:]:
        versions = json.loads(record.read_bytes())["versions"]
    return versions


def count_parameters(count: Count) -> int:
    """Build a worked example's modules and count their parameters."""
    built = (load_object(name)(*sizes) for name, sizes in count.modules.items())
    return sum(parameter.numel() for module in built for parameter in module.parameters())


@dataclass(frozen=True)
class Effort:
    """The weights, steps and time of a row's completed runs."""

    done: Mapping[int, int]
    """The number of completed runs for each seed."""
    runs: int
    """The number of runs for each seed."""
    weights: tuple[int, int] | None
    """The lowest and highest number of weights in a run, not counting embeddings."""
    steps: tuple[int, int] | None
    """The lowest and highest number of steps in a run."""
    seconds: float | None
    """The median over runs of each run's median step time, in seconds."""
    minutes: float | None
    """The mean training minutes per seed, over seeds whose runs are all done."""
    kept: Mapping[int, list[int]] = field(default_factory=dict)
    """The epochs whose weights were kept, counted from 1, for each seed's runs."""
    all_weights: int | None = None
    """The total weights of all runs of a seed, for the first seed whose runs are all done."""


def measure_effort(plan: Plan, place: Place, row: str) -> Effort:
    """Return the weights, steps and time of a row's runs, from their logs or records."""
    runs = plan.runs_of(row)
    seeded = sorted(seeded_runs(plan, place, runs), key=lambda one: one.seed)
    found: dict[int, list[Training]] = {one.seed: [] for one in seeded}
    for one in seeded:
        if (training := read_training(one)) is not None:
            found[one.seed].append(training)
    every = [training for own in found.values() for training in own]
    logged = [training for training in every if training.steps]
    whole = [own for own in found.values() if own and len(own) == len(runs)]
    minutes = [sum(one.seconds for one in own) / 60 for own in whole]
    weights = [one.weights for one in whole[0]] if whole else []
    return Effort(
        done={seed: len(own) for seed, own in found.items()},
        runs=len(runs),
        weights=_range([one.weights for one in every if one.weights is not None]),
        steps=_range([one.steps for one in logged]),
        all_weights=sum(filter(None, weights)) if weights and None not in weights else None,
        seconds=median([one.step_seconds or 0.0 for one in logged]) if logged else None,
        minutes=sum(minutes) / len(minutes) if minutes else None,
        kept={seed: [one.kept for one in own if one.kept is not None] for seed, own in found.items()},
    )


def _range(numbers: list[int]) -> tuple[int, int] | None:
    return (min(numbers), max(numbers)) if numbers else None


def settings_of(plan: Plan, row: str) -> Iterator[str]:
    """Yield the settings and starting points of a row's runs, with settings common to all runs first."""
    own = {run.name: _with_origin(run) for run in plan.runs_of(row)}
    first, *others = own.values()
    shared = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    yield from (f"`{key}={show_setting(value)}`" for key, value in shared.items())
    for name, settings in own.items():
        rest = ", ".join(
            f"`{key}={show_setting(value)}`" for key, value in settings.items() if key not in shared
        )
        if rest:
            yield f"{name}: {rest}"


def _with_origin(run: Run) -> dict[str, object]:
    origin = {"init": run.init, "checkpoint": run.checkpoint}
    return {key: value for key, value in origin.items() if value} | by_dotted_key(run.settings)


def show_setting(value: object) -> str:
    """Format a setting's value for `--set`."""
    return _as_toml(value) if isinstance(value, list | dict | bool) else str(value)


def _as_toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_as_toml(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_as_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
