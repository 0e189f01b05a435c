"""What the runs of a row took: their weights, steps and seconds, and the worked examples of numbers of parameters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from statistics import median

from decabench.plugins import load_object
from reproduction.curves import read_log
from reproduction.plan import Count, Place, Plan

EMBEDDINGS = "embed."
"""How the names of parameters of embeddings begin, in all families."""

REFERENCES = "reference/"
"""How the names of what is no weight begin: the snapshots of successive regularization."""


def count_weights(run: Path) -> int | None:
    """Return the number of weights of a run's last checkpoint, without embeddings; None if there is none."""
    files = sorted(run.glob("checkpoints/*/model*.safetensors"))
    latest = [file for file in files if file.parent == files[-1].parent]
    shapes = [
        entry["shape"]
        for file in latest
        for name, entry in _read_header(file).items()
        if name != "__metadata__" and not name.startswith((EMBEDDINGS, REFERENCES))
    ]
    return sum(prod(shape) for shape in shapes) if latest else None


def _read_header(file: Path) -> Mapping[str, Mapping[str, list[int]]]:
    """Read the header of a safetensors file: tensor name to its description."""
    with file.open("rb") as handle:
        length = int.from_bytes(handle.read(8), "little")
        header: Mapping[str, Mapping[str, list[int]]] = json.loads(handle.read(length))
        return header


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
    """The median of a step's seconds."""
    minutes: float | None
    """Minutes of training for a seed: of those with all runs done."""


def measure_effort(plan: Plan, place: Place, row: str) -> Effort:
    """Read what the runs of a row took from their logs and checkpoints."""
    runs = plan.runs_of(row)
    seeds = sorted({seed for run in runs for seed in plan.seeds_of(run)})
    done = {seed: [run for run in runs if place.results(plan, run, seed).exists()] for seed in seeds}
    weights, steps, seconds, minutes = [], [], [], []
    for seed, own in done.items():
        spent = 0.0
        for run in own:
            folder = place.run(run.name, seed)
            if (count := count_weights(folder)) is not None:
                weights.append(count)
            if (folder / "train.csv").exists():
                taken = [float(line["seconds"]) for line in read_log(folder / "train.csv")]
                steps.append(len(taken))
                seconds += taken
                spent += sum(taken)
        if own and len(own) == len(runs):
            minutes.append(spent / 60)
    return Effort(
        done={seed: len(own) for seed, own in done.items()},
        runs=len(runs),
        weights=_range(weights),
        steps=_range(steps),
        seconds=median(seconds) if seconds else None,
        minutes=sum(minutes) / len(minutes) if minutes else None,
    )


def _range(numbers: list[int]) -> tuple[int, int] | None:
    return (min(numbers), max(numbers)) if numbers else None


def settings_of(plan: Plan, row: str) -> Iterator[str]:
    """Yield the settings of a row's runs: those that all have, and after them those of single runs."""
    runs = plan.runs_of(row)
    shared = {
        key: value
        for key, value in runs[0].settings.items()
        if all(r.settings.get(key) == value for r in runs)
    }
    yield from (f"`{key}={_show(value)}`" for key, value in shared.items())
    for run in runs:
        rest = ", ".join(
            f"`{key}={_show(value)}`" for key, value in run.settings.items() if key not in shared
        )
        if rest:
            yield f"{run.name}: {rest}"


def _show(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict | bool) else str(value)
