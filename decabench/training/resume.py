"""Resuming runs, initializing networks from other checkpoints, and the compatibility checks for both."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor

import decabench
from decabench.errors import DataError, DecabenchError
from decabench.files import names_in
from decabench.models import (
    OPTIMIZER,
    Checkpoint,
    CheckpointRecord,
    MultitaskNetwork,
    find_family,
    load_weights,
    newest_checkpoint,
    output_record,
    part_name,
)
from decabench.tasks import Output
from decabench.training.config import TrainConfig, from_record, to_mapping
from decabench.training.data import TrainingData
from decabench.training.logs import has_steps
from decabench.training.optimizers import is_within, require_part, restore_optimizer
from decabench.training.schedule import Schedule
from decabench.vectors import WordTable

TRACKED = "tracked.json"
"""The file in a run's folder that stores the ids assigned by trackers, for resuming the run."""

_OURS = re.compile(r"step-\d{8}|\.partial")
"""Matches the names of folders that decabench creates in a run's checkpoint folder."""


def is_unstarted(output: Path) -> bool:
    """Return whether a folder is empty, or contains only files of a run that ended before its first checkpoint.

    A `config.toml` counts as a run's file only if there is also a step log. Any other `config.toml` is never
    overwritten.
    """
    found = names_in(output)
    if not found <= {"config.toml", "train.csv", "validation.csv", "tensorboard", "checkpoints", TRACKED}:
        return False
    if any(not _OURS.fullmatch(path.name) for path in output.glob("checkpoints/*")):
        return False
    if newest_checkpoint(output) is not None:
        return False
    return has_steps(output) or not found


def describe_run(config: TrainConfig, data: TrainingData, words: WordTable) -> CheckpointRecord:
    """Return the record for a run's checkpoints: its settings, digests of its inputs, and software versions."""
    outputs = {task: output_record(output) for task, output in data.outputs.items()}
    return CheckpointRecord(
        config=to_mapping(config),
        data=dict(data.fingerprints),
        vectors=words.vectors.digest,
        step=0,
        dimension=words.dimension,
        versions={
            "decabench": decabench.__version__,
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        outputs=outputs if find_family(config.model.name).has_heads else None,
    )


def config_of(checkpoint: Checkpoint) -> TrainConfig:
    """Return the configuration that a checkpoint was trained with.

    Raises DataError if this version does not accept its settings.
    """
    try:
        return from_record(checkpoint.record.config)
    except DecabenchError as error:
        raise DataError(
            f"{checkpoint.folder} has settings that this version of decabench does not accept ({error}). To continue "
            f"the run, use {_version(checkpoint) or 'the version that started it'}."
        ) from error


@dataclass
class RunState:
    """The progress of a run. Checkpoints store it together with the weights and optimizer state."""

    step: int = 0
    """The number of completed steps."""
    best: float | None = None
    """The best score of all validations, according to `best_by`; None before the first validation."""
    best_step: int | None = None
    """The step of the best checkpoint; None if there is none yet."""
    stale: int = 0
    """The number of validations since the best score."""
    scores: dict[str, float] = field(default_factory=dict)
    """The scores of the last validation, by task."""
    positions: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The 0-based indexes of the pass and batch to train on next, by task."""
    unvalidated: bool = False
    """Whether a validation was due after this step but could not be completed."""

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> RunState:
        """Read the state in a checkpoint. Raises DataError if the state is missing or invalid."""
        try:
            if checkpoint.record.state is None:
                raise ValueError("its record contains no state")
            state = msgspec.convert({**checkpoint.record.state, "step": checkpoint.record.step}, cls)
            if min(state.step, state.stale, *(min(position) for position in state.positions.values())) < 0:
                raise ValueError("its state contains a negative number")
        except (KeyError, ValueError, TypeError) as error:
            raise DataError(
                f"{checkpoint.folder} can't be resumed ({error}). Start a new run in another folder."
            ) from error
        return state

    def record(self) -> dict[str, Any]:
        """Return the state as JSON values, without the step."""
        return {key: value for key, value in asdict(self).items() if key != "step"}


def restore(checkpoint: Checkpoint, network: MultitaskNetwork, optimizer: torch.optim.Optimizer) -> None:
    """Restore the network and optimizer from a checkpoint, bit for bit.

    Raises DataError if the checkpoint is damaged or does not match the network.
    """
    checkpoint.check_files(optimizer=True)
    try:
        network.load_state_dict(load_weights(checkpoint.folder))
        restore_optimizer(network, optimizer, load_weights(checkpoint.folder, OPTIMIZER))
    except RuntimeError as error:
        raise DataError(
            f"The weights in {checkpoint.folder} do not match the checkpoint's configuration ({error}). Use an "
            "unmodified copy of the checkpoint."
        ) from error


_MAY_CHANGE = {"steps", "epochs", "cooldown", "patience", "validate_every", "checkpoint_every", "vectors"}
"""Settings that can change when a run is resumed.

Most of them affect only the length of the run and how often it validates and writes checkpoints. `check_same_course`
checks whether the length can change. Vector files may have moved, so `check_vectors` compares their content instead of
their names.
"""


def differences(before: Any, now: Any, name: str) -> list[str]:
    """Describe the differences between two values of a setting. Tables are compared key by key."""
    if before == now:
        return []
    if isinstance(before, Mapping) and isinstance(now, Mapping) and before and now:
        return [
            text
            for key in dict.fromkeys((*before, *now))
            for text in differences(before.get(key, "not set"), now.get(key, "not set"), f"{name}.{key}")
        ]
    return [f"{name} was {before} and is now {now}"]


def check_same_run(
    checkpoint: Checkpoint, config: TrainConfig, record: CheckpointRecord, vocabulary: list[str]
) -> None:
    """Raise DecabenchError if a resumed run's settings or data differ from its checkpoint's.

    Settings in `_MAY_CHANGE` are checked by `check_same_course` and `check_vectors` instead.
    """
    old, new = (to_mapping(each) for each in (config_of(checkpoint), config))
    compared = [key for key in new if key not in _MAY_CHANGE]
    if differs := [text for key in compared for text in differences(old[key], new[key], key)]:
        raise DecabenchError(
            f"{checkpoint.folder} was trained with other settings ({'; '.join(differs)}). Resume with the same "
            f"settings (--config {checkpoint.folder.parent.parent / 'config.toml'}), or use a new folder."
        )
    before = checkpoint.record
    if before.data != record.data or checkpoint.lexicon().words != vocabulary:
        other = [
            split
            for split in {**before.data, **record.data}
            if before.data.get(split) != record.data.get(split)
        ]
        named = (f"{task} ({split})" for task, _, split in (name.rpartition(".") for name in other))
        version = _version(checkpoint)
        older = f", use {version}" if version not in ("", f"decabench {decabench.__version__}") else ""
        raise DecabenchError(
            f"The prepared data differs from the data that {checkpoint.folder} was trained on "
            f"({', '.join(named) or 'the vocabulary'}). Use the same --home as before{older}, or start a new run."
        )


def _version(checkpoint: Checkpoint) -> str:
    found = (checkpoint.record.versions or {}).get("decabench")
    return f"decabench {found}" if found else ""


def check_same_course(checkpoint: Checkpoint, config: TrainConfig, before: Schedule, now: Schedule) -> None:
    """Raise DecabenchError if the run's new length or `cooldown` would have changed the completed steps."""
    step = checkpoint.record.step
    if before.course(min(step, now.steps)) != now.course(min(step, now.steps)):
        raise DecabenchError(
            f"{checkpoint.folder} is at step {step} of {before.steps}, but a run of {now.steps} steps "
            "would have trained the tasks in a different order. Leave 'steps' and 'epochs' unchanged."
        )
    cooldown = config_of(checkpoint).cooldown
    if (before.steps, cooldown) != (now.steps, config.cooldown):
        ends = ((before.steps, cooldown), (now.steps, config.cooldown))
        begins = [end - cool for end, cool in ends if cool]
        if begins and step > min(begins):
            raise DecabenchError(
                f"{checkpoint.folder} is at step {step}, after the start of the cooldown at step {min(begins)}. "
                f"Leave 'steps' at {before.steps} and 'cooldown' at {cooldown}."
            )


def check_vectors(checkpoint: Checkpoint, words: WordTable) -> None:
    """Raise DecabenchError if a checkpoint's network reads word vectors that differ from the run's."""
    fixed = checkpoint.family.has_fixed_vectors(checkpoint.config)
    if fixed and checkpoint.record.vectors != words.vectors.digest:
        raise DecabenchError(
            f"{checkpoint.folder} was trained with the vectors {', '.join(checkpoint.vectors)}, but this run has "
            "different vectors. Set 'vectors' to the same vectors, or pass the run's config.toml with --config."
        )


def copy_weights(
    origin: Checkpoint,
    network: MultitaskNetwork,
    words: WordTable,
    outputs: Mapping[str, Output],
    config: TrainConfig,
) -> None:
    """Initialize a network, or its `init_parts`, with the weights of a checkpoint.

    This follows section 4.3 of the decathlon paper. Buffers used only in training are not copied, because training sets
    them before using them, and exports don't contain them. In tables with a row for each word or n-gram, only the rows
    that are in both vocabularies are copied. Heads of tasks that are not in the checkpoint keep their random values.
    Raises DecabenchError if a part is unknown, the networks differ in size, or a copied task has a different output.
    """
    origin.check_files()
    left_out = find_family(config.model.name).training_only
    everything = network.state_dict()
    for part in config.init_parts:
        require_part(part, everything, "to copy")
    own, weights = (
        {
            name: value
            for name, value in values.items()
            if is_within(name, config.init_parts) and not name.startswith(left_out)
        }
        for values in (everything, load_weights(origin.folder))
    )
    for task in outputs.keys() & origin.outputs.keys():
        copied = own.keys() | weights.keys()
        heads = (f"heads.{part_name(task)}", f"labels.{part_name(task)}")
        is_copied = not config.init_parts or any(is_within(name, heads) for name in copied)
        if is_copied and outputs[task] != origin.outputs[task]:
            raise DecabenchError(
                f"The checkpoint {origin.folder} was trained on {task} with the output {origin.outputs[task]}, but the "
                f"output is now {outputs[task]}. Train with the same labels, or without --init."
            )
    unlike = [name for name in own.keys() ^ weights.keys() if not name.startswith("heads.")]
    by_word = [name for name in own.keys() & weights.keys() if name.startswith(network.vocabulary_rows)]
    lexicon = origin.lexicon()
    tables, old_tables = network.table_rows(words.lexicon), network.table_rows(lexicon)
    for name in own.keys() & weights.keys():
        sizes, theirs = own[name].shape, weights[name].shape
        if sizes != theirs and (name not in {*by_word, *tables} or sizes[1:] != theirs[1:]):
            unlike.append(name)
    if unlike:
        other = differences(vars(origin.config), vars(config.model), "model")
        raise DecabenchError(
            f"The checkpoint {origin.folder} does not match this model: "
            f"{'; '.join(other) or 'the settings are the same, but the weights differ'}. Some weights are missing or "
            f"differ in size, such as {', '.join(sorted(unlike)[:3])}. Use the same settings, or copy only matching "
            "parts with 'init_parts'."
        )
    old = {word: row for row, word in enumerate(lexicon.words)}
    new = {word: row for row, word in enumerate(words.lexicon.words[: words.lexicon.size])}
    for name in own.keys() & weights.keys():
        if name in by_word:
            own[name] = _copy_rows(own[name], new, weights[name], old)
        elif name in tables:
            own[name] = _copy_rows(own[name], tables[name], weights[name], old_tables[name])
        else:
            own[name] = weights[name]
    network.load_state_dict({**everything, **own})


def _copy_rows(own: Tensor, rows: Mapping[str, int], other: Tensor, other_rows: Mapping[str, int]) -> Tensor:
    shared = [key for key in rows if key in other_rows]
    made = own.clone()
    made[[rows[key] for key in shared]] = other[[other_rows[key] for key in shared]]
    return made
