"""What a checkpoint says of where it came from, and whether a run may go on from it."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import decabench
from decabench.errors import DataError, DecabenchError
from decabench.files import atomic_file, make_folder, storage_errors
from decabench.models import (
    BEST,
    FORMAT,
    LATEST,
    MODEL,
    MQAN,
    RECORD,
    VOCABULARY,
    Lexicon,
    Saved,
    VectorTable,
    load_weights,
)
from decabench.tasks import Store
from decabench.training.config import TrainConfig, from_mapping, to_mapping
from decabench.training.data import fingerprints
from decabench.training.distributed import Processes

__all__ = [
    "adam",
    "check_same",
    "check_vectors",
    "latest",
    "new_model",
    "origin_record",
    "restore",
    "same_scale",
    "wrapped",
    "write_checkpoint",
    "write_json",
]

# ---- checkpoints

OPTIMIZER = "optimizer.safetensors"
FOLDER = "checkpoints"
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes JSON whole or not at all."""
    with atomic_file(path) as file:
        file.write(json.dumps(content, indent=1, sort_keys=True).encode() + b"\n")


def write_checkpoint(
    output: Path,
    record: Mapping[str, Any],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    lexicon: Lexicon,
    is_best: bool,
) -> Path:
    """Writes `checkpoints/step-N`, points `latest.json` (and `best.json`) at it, and removes what neither names."""
    name = f"{FOLDER}/step-{record['step']:08d}"
    target, part = output / name, output / FOLDER / ".partial"
    with storage_errors(target):
        shutil.rmtree(part, ignore_errors=True)  # of a run that was killed
        make_folder(part)
        _save(part / MODEL, {key: value.detach() for key, value in model.state_dict().items()})
        _save(part / OPTIMIZER, _moments(model, optimizer))
        lexicon.write(part / VOCABULARY)
        write_json(part / RECORD, {**record, "format": FORMAT})
        shutil.rmtree(target, ignore_errors=True)  # of a run that was killed after it wrote this one
        os.rename(part, target)
    write_json(output / LATEST, {"checkpoint": name})
    if is_best:
        write_json(output / BEST, {"checkpoint": name})
    kept = {_pointed(output / pointer) for pointer in (LATEST, BEST)}
    for folder in (output / FOLDER).iterdir():
        if f"{FOLDER}/{folder.name}" not in kept:
            shutil.rmtree(folder, ignore_errors=True)
    return target


def _save(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    save_file({key: value.cpu().contiguous() for key, value in tensors.items()}, path)
    with path.open("rb") as file:  # on the disk before anything points at it
        os.fsync(file.fileno())


def _moments(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    names: dict[Any, str] = {parameter: name for name, parameter in model.named_parameters()}
    return {
        f"{names[parameter]}/{key}": value[key]
        for parameter, value in optimizer.state.items()
        for key in _MOMENTS
    }


def _pointed(pointer: Path) -> str | None:
    return json.loads(pointer.read_text(encoding="utf-8"))["checkpoint"] if pointer.exists() else None


def latest(output: Path) -> Saved | None:
    """The checkpoint to go on from; None where there is none yet."""
    return Saved.open(output / str(name)) if (name := _pointed(output / LATEST)) else None


def restore(saved: Saved, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Puts weights and Adam's moments back as they were, bit for bit. Raises DataError."""
    try:
        model.load_state_dict(load_weights(saved.folder / MODEL))
        moments = load_weights(saved.folder / OPTIMIZER)
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and f"{name}/step" in moments:
                state = {key: moments[f"{name}/{key}"] for key in _MOMENTS}
                optimizer.state[parameter] = {
                    key: value if key == "step" else value.to(parameter.device)
                    for key, value in state.items()
                }
    except (RuntimeError, KeyError) as error:
        raise DataError(f"The weights of {saved.folder} do not fit its configuration ({error}).") from error


# ---- beginning


def new_model(config: TrainConfig, table: VectorTable, origin: Saved | None) -> MQAN:
    """A model as its seed makes it, or as a checkpoint has it, with what is frozen frozen."""
    torch.manual_seed(config.seed)
    model = MQAN(config.model, table.vocabulary())
    if origin is not None:
        _begin_with(model, table.lexicon, origin)
    _freeze(model, config.freeze)
    return model


def adam(config: TrainConfig, model: nn.Module) -> torch.optim.Adam:
    """Adam over what is not frozen; each step sets its own learning rate."""
    free = [parameter for parameter in model.parameters() if parameter.requires_grad]
    fused = free[0].device.type in ("cpu", "cuda")
    return torch.optim.Adam(free, 0.0, (config.beta1, config.beta2), config.epsilon, fused=fused)


def wrapped(model: MQAN, config: TrainConfig, group: Processes) -> nn.Module:
    """The model as it is called in training: in parallel where there are processes."""
    if config.compile:
        model.compile_step()
    if group.size == 1:
        return model
    return DistributedDataParallel(model, [group.device.index] if group.device.type == "cuda" else None)


def _begin_with(model: MQAN, lexicon: Lexicon, origin: Saved) -> None:
    """The weights of a checkpoint; of the softmax's rows those of the words that both vocabularies have (4.3)."""
    weights = load_weights(origin.folder / MODEL)
    sizes = replace(origin.model, vocabulary=1, dropout=0.0, max_answer_tokens=1)
    if sizes != replace(model.config, vocabulary=1, dropout=0.0, max_answer_tokens=1):
        raise DecabenchError(
            f"{origin.folder} holds {origin.model}, and {model.config} was asked for: give the same sizes."
        )
    old = {word: row for row, word in enumerate(origin.lexicon().words)}
    shared = [(row, old[word]) for row, word in enumerate(lexicon.words[: lexicon.size]) if word in old]
    rows, old_rows = (torch.tensor(numbers) for numbers in zip(*shared, strict=True))
    made: dict[str, Tensor] = dict(model.state_dict())
    for name, value in weights.items():
        if name.startswith("generate."):
            made[name] = made[name].clone()
            made[name][rows] = value[old_rows]
        else:
            made[name] = value
    model.load_state_dict(made)


def _freeze(model: nn.Module, parts: tuple[str, ...]) -> None:
    names = [name for name, _ in model.named_parameters()]
    for part in parts:
        if not any(name == part or name.startswith(f"{part}.") for name in names):
            tops = sorted(
                {".".join(name.split(".")[:2]) for name in names} | {name.split(".")[0] for name in names}
            )
            raise DecabenchError(
                f"There is no part {part!r} to freeze; parts are {', '.join(tops)}, and theirs."
            )
    for name, parameter in model.named_parameters():
        if any(name == part or name.startswith(f"{part}.") for part in parts):
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise DecabenchError("Everything is frozen: leave a part to train.")


# ---- resuming


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
