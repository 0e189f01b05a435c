"""Optimizers by name, their state by parameter name, and the learning rate at each step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn

from decabench.errors import DataError, DecabenchError
from decabench.models import WordEmbedding
from decabench.training.config import TrainConfig

__all__ = [
    "apply_freezes",
    "clip_gradients",
    "learning_rate",
    "make_optimizer",
    "optimizer_state",
    "restore_optimizer",
]


def make_optimizer(
    config: TrainConfig, network: nn.Module, is_parallel: bool = False
) -> torch.optim.Optimizer:
    """Make an optimizer for all parameters that are not frozen for the whole run. Each step sets its learning rate.

    Tables of words get sparse gradients if the network allows that and it makes no difference: Adagrad, and SGD without
    momentum, leave rows without a gradient as they are, unless their weights decay.
    """
    is_local = config.optimizer == "adagrad" or (config.optimizer == "sgd" and not config.momentum)
    for module in network.modules():
        if isinstance(module, WordEmbedding) and module.may_be_sparse:
            module.table.sparse = is_local and not config.weight_decay and not is_parallel
            # The default, but PyTorch warns unless it is said.
            torch.sparse.check_sparse_tensor_invariants.disable()  # type: ignore[no-untyped-call]
    free = [parameter for parameter in network.parameters() if parameter.requires_grad]
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


def clip_gradients(network: nn.Module, limit: float) -> Tensor:
    """Scale gradients down to a norm of `limit`; return the norm that they had."""
    learned = [parameter for parameter in network.parameters() if parameter.grad is not None]
    sparse = [parameter for parameter in learned if cast(Tensor, parameter.grad).is_sparse]
    if not sparse:
        return nn.utils.clip_grad_norm_(learned, limit)
    for parameter in sparse:  # all unknown words of a batch share a row, whose gradients must be added first
        parameter.grad = cast(Tensor, parameter.grad).coalesce()
    gradients = [cast(Tensor, parameter.grad) for parameter in learned]
    values = [gradient.values() if gradient.is_sparse else gradient for gradient in gradients]
    norm = nn.utils.get_total_norm(values)
    if limit < math.inf:
        factor = (limit / (norm + 1e-6)).clamp(max=1.0)
        for value in values:
            value.mul_(factor)
    return norm


def optimizer_state(network: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of an optimizer, with keys `PARAMETER/KEY`."""
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
    """Load the state that `optimizer_state` returned into an optimizer. Raises DataError."""
    parameters = dict(network.named_parameters())
    counts_on_device = bool(optimizer.defaults.get("fused"))
    for name, value in state.items():
        parameter, _, key = name.rpartition("/")
        if parameter not in parameters:
            raise DataError(
                f"The optimizer's state has an entry for {parameter}, a parameter that the network does not have."
            )
        own = parameters[parameter]
        stays = key == "step" and not counts_on_device
        optimizer.state[own][key] = value if stays else value.to(own.device)


def learning_rate(config: TrainConfig, step: int, steps: int, epoch: int) -> float:
    """Compute the learning rate of a step out of `steps`. Steps and epochs count from 1; epoch 0 means no epochs.

    `inverse-root` is from Appendix D of the decathlon paper, `epoch-decay` from Hashimoto et al. 2017 (section 5.2).
    `cooldown`, which neither has, scales the rate down linearly, to reach 0 just after the last step.
    """
    rate = config.learning_rate
    match config.rate:
        case "inverse-root":
            rate *= min(step / config.warmup, math.sqrt(config.warmup / step))
        case "epoch-decay":
            rate /= 1 + config.decay * (epoch - 1)
        case "step-decay":
            rate *= config.decay ** ((step - 1) // config.decay_every)
    left = steps - step + 1
    return rate * min(1.0, left / (config.cooldown + 1))


def apply_freezes(network: nn.Module, parts: tuple[str, ...]) -> None:
    """Freeze the parameters within the named parts and unfreeze all others. Raises DecabenchError for unknown parts."""
    names = [name for name, _ in network.named_parameters()]
    for part in parts:
        if not any(_is_within(name, part) for name in names):
            tops = sorted({".".join(name.split(".")[:length]) for name in names for length in (1, 2)})
            raise DecabenchError(
                f"There is no part {part!r} to freeze: the parts are {', '.join(tops)}, and the parts within them."
            )
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(not any(_is_within(name, part) for part in parts))
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise DecabenchError("Everything is frozen: leave a part to train.")


def _is_within(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")
