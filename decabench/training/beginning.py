"""The model and its optimizer as a run begins with them."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from decabench.errors import DecabenchError
from decabench.models.batches import VectorTable
from decabench.models.lexicon import Lexicon
from decabench.models.mqan import MQAN
from decabench.models.saved import MODEL, Saved, load_weights
from decabench.training.config import TrainConfig
from decabench.training.distributed import Processes

__all__ = ["adam", "new_model", "wrapped"]


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
