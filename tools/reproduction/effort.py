"""What the runs of a row took: their weights, steps and seconds, and the worked examples of numbers of parameters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median

from decabench.files import by_dotted_key
from decabench.plugins import load_object
from reproduction.plan import Count, Place, Plan, Run, seeded_runs
from reproduction.records import Training, read_training


def count_parameters(count: Count) -> int:
    """Build the modules of a worked example and count their parameters."""
    built = (load_object(name)(*sizes) for name, sizes in count.modules.items())
    return sum(parameter.numel() for module in built for parameter in module.parameters())


@dataclass(frozen=True)
class Effort:
    """What the runs of a row took, for those that are done."""

    done: Mapping[int, int]
    """Seed to the number of runs that are done."""
    runs: int
    """The number of runs for each seed."""
    weights: tuple[int, int] | None
    """The fewest and the most weights of a run, without embeddings."""
    steps: tuple[int, int] | None
    """The fewest and the most steps of a run."""
    seconds: float | None
    """The median over runs of the median of a step's seconds."""
    minutes: float | None
    """Minutes of training for a seed: of those with all runs done."""
    kept: Mapping[int, list[int]] = field(default_factory=dict)
    """Seed to the epoch of each run after which its weights were kept, counted from 1."""
    all_weights: int | None = None
    """The weights of all runs of a seed together, of the first with all runs done."""


def measure_effort(plan: Plan, place: Place, row: str) -> Effort:
    """Read what the runs of a row took from their logs or records."""
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
    """Yield the settings of a row's runs, and what they start from: what all have, and after it that of single runs."""
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
    """Format a setting's value, as `--set` takes it."""
    return _as_toml(value) if isinstance(value, list | dict | bool) else str(value)


def _as_toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_as_toml(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_as_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
