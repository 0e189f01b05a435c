"""Optimizers, their state in checkpoints, and the learning rate at each step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import cast

import torch
from torch import Tensor, nn

from decabench.errors import DataError, DecabenchError
from decabench.training.config import TrainConfig


def make_optimizer(config: TrainConfig, network: nn.Module) -> torch.optim.Optimizer:
    """Create an optimizer for all parameters outside the parts that `freeze` names.

    The learning rate is set later, at each step.
    """
    free = [
        parameter
        for name, parameter in network.named_parameters()
        if not (config.freeze and is_within(name, config.freeze))
    ]
    decay = config.weight_decay
    match config.optimizer:
        case "adam":
            fused = free[0].device.type in ("cpu", "cuda")
            betas = (config.beta1, config.beta2)
            return torch.optim.Adam(free, 0.0, betas, config.epsilon, decay, fused=fused)
        case "adagrad":
            # PyTorch's default of 0 would move every weight by the full learning rate in the first step.
            first = config.accumulator
            return torch.optim.Adagrad(
                free, 0.0, weight_decay=decay, initial_accumulator_value=first, eps=config.epsilon
            )
        case _:
            return torch.optim.SGD(free, 0.0, momentum=config.momentum, weight_decay=decay)


def clip_gradients(parameters: Iterable[nn.Parameter], limit: float) -> Tensor:
    """Clip dense and sparse gradients to a total norm of at most `limit`.

    Returns the norm before clipping.
    """
    own = [parameter for parameter in parameters if parameter.grad is not None]
    if not any(cast(Tensor, parameter.grad).is_sparse for parameter in own):
        return nn.utils.clip_grad_norm_(own, limit)
    values: list[Tensor] = []
    for parameter in own:
        gradient = cast(Tensor, parameter.grad)
        if gradient.is_sparse:  # add up entries for the same row
            parameter.grad = gradient = gradient.coalesce()
            gradient = gradient.values()
        values.append(gradient)
    norm: Tensor = torch.stack([torch.linalg.vector_norm(value) for value in values]).norm()
    factor = (limit / (norm + 1e-6)).clamp(max=1.0)
    for value in values:
        value.mul_(factor)
    return norm


def optimizer_state(network: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of an optimizer, with `PARAMETER/KEY` as keys."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in network.named_parameters()}
    return {
        f"{names[parameter]}/{key}": value
        for parameter, state in optimizer.state.items()
        for key, value in state.items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(
    network: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Tensor]
) -> None:
    """Restore an optimizer from the state returned by `optimizer_state`.

    Raises DataError if the state contains a parameter that the network does not have.
    """
    parameters = dict(network.named_parameters())
    counts_on_device = bool(optimizer.defaults.get("fused"))
    for name, value in state.items():
        parameter, _, key = name.rpartition("/")
        if parameter not in parameters:
            raise DataError(
                f"The optimizer's state has an entry for the parameter {parameter}, but the network has no such "
                "parameter. Use an unmodified copy of the checkpoint."
            )
        own = parameters[parameter]
        if key == "step":
            optimizer.state[own][key] = value.to(own.device) if counts_on_device else value
        else:
            optimizer.state[own][key] = value.to(own.device, own.dtype)


def learning_rate(config: TrainConfig, step: int, steps: int, epoch: int) -> float:
    """Return the learning rate of a step in a run of `steps` steps.

    Steps and epochs are counted from 1; `epoch` is 0 if the phase's length is set in steps. `inverse-root` is from
    Appendix D of the decathlon paper and `epoch-decay` from Hashimoto et al. 2017 (section 5.2). `cooldown` is in
    neither paper. It lowers the rate linearly, to reach 0 one step after the last.
    """
    rate = config.learning_rate
    match config.rate:
        case "inverse-root":
            rate *= min(step / config.warmup, math.sqrt(config.warmup / step))
        case "epoch-decay":
            rate /= 1 + config.decay * (epoch - 1)
    left = steps - step + 1
    return rate * min(1.0, left / (config.cooldown + 1))


def freeze_parts(network: nn.Module, parts: tuple[str, ...]) -> None:
    """Freeze the parameters in the named parts.

    Raises DecabenchError if a part is unknown or if no parameters are left to train.
    """
    for part in parts:
        require_part(part, (name for name, _ in network.named_parameters()), "to freeze")
    for name, parameter in network.named_parameters():
        if parts and is_within(name, parts):
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise DecabenchError("All parts of the network are frozen. Remove at least one part from 'freeze'.")


def is_within(name: str, parts: tuple[str, ...]) -> bool:
    """Return whether a parameter is in one of the named parts of a network, or True if no parts are named."""
    return not parts or any(name == part or name.startswith(f"{part}.") for part in parts)


def require_part(part: str, names: Iterable[str], what: str) -> None:
    """Raise DecabenchError if a network with these parameter names has no such part.

    `what` completes the message "There is no part NAME", for example with `to freeze`.
    """
    names = list(names)
    if not any(is_within(name, (part,)) for name in names):
        tops = sorted({".".join(name.split(".")[:length]) for name in names for length in (1, 2)})
        raise DecabenchError(
            f"There is no part {part!r} {what}. Choose from {', '.join(tops)}, or name a part inside one of these."
        )
