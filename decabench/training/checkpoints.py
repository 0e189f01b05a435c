"""Checkpoints that are whole or not there: a folder is written beside its place and then renamed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from decabench.errors import DataError
from decabench.models.lexicon import Lexicon
from decabench.models.saved import BEST, FORMAT, LATEST, MODEL, RECORD, VOCABULARY, Saved, load_weights
from decabench.tasks.home import atomic_file, make_folder, storage_errors

__all__ = ["latest", "restore", "write_checkpoint", "write_json"]

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
