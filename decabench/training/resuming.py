"""What a checkpoint says of where it came from, and whether a run may go on from it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

import decabench
from decabench.errors import DecabenchError
from decabench.models.batches import VectorTable
from decabench.models.lexicon import Lexicon
from decabench.models.saved import Saved
from decabench.tasks.store import Store
from decabench.training.config import TrainConfig, from_mapping, to_mapping
from decabench.training.data import fingerprints

__all__ = ["check_same", "check_vectors", "origin_record", "same_scale"]


def origin_record(config: TrainConfig, store: Store, table: VectorTable, count: int) -> dict[str, Any]:
    """What a checkpoint of a run in `count` processes says of where it came from."""
    tasks = config.tasks
    return {
        "config": to_mapping(config),
        "data": {**fingerprints(store, tasks, "train"), **fingerprints(store, tasks, "validation")},
        "vectors": table.vectors.digest,
        "processes": count,
        "versions": {
            "decabench": decabench.__version__,
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


_MAY_CHANGE = {
    "steps",
    "cooldown",
    "validate_every",
    "checkpoint_every",
    "patience",
    "validation_examples",
    "best_by",
    "vectors",
}
"""Settings that a run may go on with otherwise: they decide how long it is and what it says, not what it does.

Vectors may lie elsewhere: `check_vectors` compares what they are; `_check_other_end` says when the end may move.
"""


def check_same(saved: Saved, config: TrainConfig, record: Mapping[str, Any], lexicon: Lexicon) -> None:
    """Refuses to go on with anything that would make another run of it."""
    before, now = to_mapping(from_mapping(saved.record["config"])), to_mapping(config)
    differs = [key for key in now if key not in _MAY_CHANGE and before[key] != now[key]]
    if differs:
        raise DecabenchError(
            f"{saved.folder} was trained with other settings ({', '.join(differs)}): go on with the same, or "
            "name a new folder."
        )
    if (config.steps, config.cooldown) != (before["steps"], before["cooldown"]):
        _check_other_end(saved, before["steps"], before["cooldown"], config)
    if saved.record["processes"] != record["processes"]:
        raise DecabenchError(
            f"{saved.folder} was trained in {saved.record['processes']} processes, and {record['processes']} go on: "
            "start as many, for its place in the data counts batches of so many."
        )
    vocabulary = lexicon.words[: lexicon.size]
    if saved.record["data"] != record["data"] or saved.lexicon().words != vocabulary:
        raise DecabenchError(f"The prepared data is not what {saved.folder} was trained on: begin a new run.")


def _check_other_end(saved: Saved, steps: int, cooldown: int, config: TrainConfig) -> None:
    """Refuses another number of steps, or another cooldown, where what was trained hangs on it."""
    if steps != config.steps and config.schedule == "sequential" and len(config.tasks) > 1:
        raise DecabenchError(
            f"{saved.folder} trains one task after the other in {steps} steps, not {config.steps}: keep steps."
        )
    begins = [end - cool for end, cool in ((steps, cooldown), (config.steps, config.cooldown)) if cool]
    if begins and saved.record["step"] > min(begins):
        raise DecabenchError(
            f"{saved.folder} is at step {saved.record['step']}, and the learning rate cools down after step "
            f"{min(begins)}: keep steps at {steps} and cooldown at {cooldown}."
        )


def check_vectors(saved: Saved, table: VectorTable) -> None:
    if saved.record["vectors"] != table.vectors.digest:
        raise DecabenchError(
            f"{saved.folder} was trained with the vectors {', '.join(saved.vectors)}, and these are others: name the "
            "same with --set vectors=..."
        )


def same_scale(saved: Saved, config: TrainConfig) -> bool:
    """Whether the best score so far can be compared with those to come."""
    before = from_mapping(saved.record["config"])
    return (before.best_by, before.validation_examples) == (config.best_by, config.validation_examples)
