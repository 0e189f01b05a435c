"""Going on: from where a run was, or from the weights of another checkpoint; and what each must have in common."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import decabench
from decabench.errors import DataError, DecabenchError
from decabench.models import (
    Checkpoint,
    MultitaskNetwork,
    WordTable,
    find_family,
    load_optimizer,
    load_weights,
    output_record,
)
from decabench.tasks import Output, Store
from decabench.training.config import TrainConfig, from_mapping, read_config, to_mapping, to_toml
from decabench.training.data import fingerprints
from decabench.training.optimizers import restore_optimizer
from decabench.training.schedule import Schedule

__all__ = [
    "RunState",
    "check_same_course",
    "check_same_run",
    "check_vectors",
    "copy_weights",
    "describe_run",
    "is_unstarted",
    "restore",
]


def is_unstarted(output: Path) -> bool:
    """Whether a folder holds only what a run leaves that ended before its first checkpoint: another can begin there.

    A `config.toml` counts only if a run wrote it, with every setting: no other is ever overwritten.
    """
    leftovers = {"config.toml", "data", "train.csv", "validation.csv", "tensorboard", "checkpoints"}
    if not {path.name for path in output.iterdir()} <= leftovers:
        return False
    written = output / "config.toml"
    try:
        return not written.exists() or to_toml(read_config(written)) == written.read_text(encoding="utf-8")
    except (DecabenchError, OSError, ValueError):
        return False


def describe_run(
    config: TrainConfig, store: Store, words: WordTable, outputs: Mapping[str, Output], processes: int
) -> dict[str, Any]:
    """Record where a run's checkpoints come from: configuration, data, vectors, versions."""
    record = {
        "config": to_mapping(config),
        "data": {
            **fingerprints(store, config.tasks, "train"),
            **fingerprints(store, config.tasks, "validation"),
        },
        "vectors": words.vectors.digest,
        "dimension": words.dimension,
        "processes": processes,
        "versions": {
            "decabench": decabench.__version__,
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    if find_family(config.model.name).has_heads:
        record["outputs"] = {task: output_record(output) for task, output in outputs.items()}
    return record


@dataclass
class RunState:
    """How far a run is: what a checkpoint keeps beside weights and the optimizer's state."""

    step: int = 0
    """Steps done."""
    best: float | None = None
    """The best score so far, by the configuration's choice; None before the first validation."""
    stale: int = 0
    """Validations since then."""
    scores: dict[str, float] = field(default_factory=dict)
    """The last validation's, by task."""
    positions: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Where each task is in its data: (pass, batch) of what comes next."""

    @classmethod
    def of(cls, checkpoint: Checkpoint, config: TrainConfig) -> RunState:
        """Read a checkpoint's state; the best score counts only where `config` chooses as the run did."""
        state = checkpoint.record["state"]
        before = from_mapping(checkpoint.record["config"])
        comparable = (before.best_by, before.validation_examples) == (
            config.best_by,
            config.validation_examples,
        )
        return cls(
            checkpoint.record["step"],
            state["best"] if comparable else None,
            state["stale"] if comparable else 0,
            state["scores"],
            {task: (epoch, batch) for task, (epoch, batch) in state["positions"].items()},
        )

    def record(self) -> dict[str, Any]:
        """The state as JSON values, without the step."""
        return {
            "positions": {task: list(position) for task, position in self.positions.items()},
            "best": self.best if self.best is not None and math.isfinite(self.best) else None,
            "stale": self.stale,
            "scores": self.scores,
        }


def restore(checkpoint: Checkpoint, network: MultitaskNetwork, optimizer: torch.optim.Optimizer) -> None:
    """Give network and optimizer the state of a checkpoint, bit for bit. Raises DataError."""
    try:
        network.load_state_dict(load_weights(checkpoint.folder))
        restore_optimizer(network, optimizer, load_optimizer(checkpoint.folder))
    except RuntimeError as error:
        raise DataError(
            f"The weights of {checkpoint.folder} do not fit its configuration ({error})."
        ) from error


_MAY_CHANGE = {
    *("steps", "epochs", "cooldown", "patience"),
    *("validate_every", "checkpoint_every", "validation_examples", "best_by"),
    "vectors",
}
"""Settings that may change when a run goes on: they decide how long it is and what it reports, not what it learns.

Vectors may have moved: `check_vectors` compares what they are. `check_same_course` says when the end may move.
"""


def check_same_run(
    checkpoint: Checkpoint, config: TrainConfig, record: Mapping[str, Any], vocabulary: list[str]
) -> None:
    """Refuse to go on with anything that would make it another run. Raises DecabenchError."""
    before, now = to_mapping(from_mapping(checkpoint.record["config"])), to_mapping(config)
    differs = [key for key in now if key not in _MAY_CHANGE and before[key] != now[key]]
    if differs:
        raise DecabenchError(
            f"{checkpoint.folder} was trained with other settings ({', '.join(differs)}): go on with the same, or name "
            "a new folder."
        )
    if checkpoint.record["processes"] != record["processes"]:
        raise DecabenchError(
            f"{checkpoint.folder} was trained in {checkpoint.record['processes']} processes, and {record['processes']} "
            "go on: start as many, as its place in the data counts batches for so many."
        )
    if checkpoint.record["data"] != record["data"] or checkpoint.lexicon().words != vocabulary:
        raise DecabenchError(
            f"The prepared data is not what {checkpoint.folder} was trained on: begin a new run."
        )


def check_same_course(checkpoint: Checkpoint, config: TrainConfig, before: Schedule, now: Schedule) -> None:
    """Refuse another end of a run where the steps that it has done would have been others. Raises DecabenchError."""
    step = checkpoint.record["step"]
    if before.course(min(step, now.steps)) != now.course(min(step, now.steps)):
        raise DecabenchError(
            f"{checkpoint.folder} is at step {step} of {before.steps}, and with {now.steps} steps its tasks would have "
            "come at other times: keep steps and epochs as they were."
        )
    cooldown = from_mapping(checkpoint.record["config"]).cooldown
    if (before.steps, cooldown) != (now.steps, config.cooldown):
        ends = ((before.steps, cooldown), (now.steps, config.cooldown))
        begins = [end - cool for end, cool in ends if cool]
        if begins and step > min(begins):
            raise DecabenchError(
                f"{checkpoint.folder} is at step {step}, and the learning rate cools down after step {min(begins)}: "
                f"keep steps at {before.steps} and cooldown at {cooldown}."
            )


def check_vectors(checkpoint: Checkpoint, words: WordTable) -> None:
    """Refuse other word vectors than a checkpoint was trained with. Raises DecabenchError."""
    fixed = checkpoint.family.has_fixed_vectors(checkpoint.config)
    if fixed and checkpoint.record["vectors"] != words.vectors.digest:
        raise DecabenchError(
            f"{checkpoint.folder} was trained with the vectors {', '.join(checkpoint.vectors)}, and these are others: "
            "name the same with --set vectors=..."
        )


def copy_weights(
    origin: Checkpoint,
    network: MultitaskNetwork,
    words: WordTable,
    outputs: Mapping[str, Output],
    config: Any,
) -> None:
    """Begin with the weights of a checkpoint (section 4.3 of the decathlon paper).

    Parameters with a row for each word get the rows of the words that both vocabularies have; heads of tasks that the
    checkpoint does not have stay as they were drawn. Raises DecabenchError where the networks are of other sizes.
    """
    own, weights = dict(network.state_dict()), load_weights(origin.folder)
    for task in outputs.keys() & origin.outputs.keys():
        if outputs[task] != origin.outputs[task]:
            raise DecabenchError(
                f"{origin.folder} has a head for {task} as {origin.outputs[task]}, which is {outputs[task]} here: "
                "train on the same labels, or without --init."
            )
    unlike = [name for name in own.keys() ^ weights.keys() if not name.startswith("heads.")]
    by_word = [name for name in own.keys() & weights.keys() if name.startswith(network.vocabulary_rows)]
    for name in own.keys() & weights.keys():
        sizes, theirs = own[name].shape, weights[name].shape
        if sizes != theirs and (name not in by_word or sizes[1:] != theirs[1:]):
            unlike.append(name)
    if unlike:
        raise DecabenchError(
            f"{origin.folder} holds {origin.config}, and {config} was asked for, so {', '.join(sorted(unlike)[:3])} "
            "would not fit: give the same sizes."
        )
    old = {word: row for row, word in enumerate(origin.lexicon().words)}
    vocabulary = words.lexicon.words[: words.lexicon.size]
    shared = [(row, old[word]) for row, word in enumerate(vocabulary) if word in old]
    rows, old_rows = (torch.tensor(numbers) for numbers in zip(*shared, strict=True))
    for name in own.keys() & weights.keys():
        if name in by_word:
            own[name] = own[name].clone()
            own[name][rows] = weights[name][old_rows]
        else:
            own[name] = weights[name]
    network.load_state_dict(own)
