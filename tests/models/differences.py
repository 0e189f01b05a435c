from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import pytest
import torch
from torch import Tensor, nn

_STEP = 1e-5


def check_gradients(
    network: nn.Module, loss: Callable[[], Tensor], constant: Collection[tuple[str, int]] = ()
) -> None:
    """Compare each parameter's gradient with central differences of the loss along a random direction, in float64.

    The direction changes every value of the parameter, so any wrong gradient shows. `constant` lists
    values, as (parameter, flat index), that are never trained.
    """
    loss().backward()
    random = np.random.default_rng(0)
    for key, parameter in network.named_parameters():
        values = parameter.data.view(-1)
        direction = torch.from_numpy(random.standard_normal(len(values))).to(values) / len(values) ** 0.5
        direction[[at for name, at in constant if name == key]] = 0
        found, kept = [], values.clone()
        with torch.no_grad():
            for step in (_STEP, -_STEP):
                values.copy_(kept + step * direction)
                found.append(loss().item())
        values.copy_(kept)
        own = 0.0 if parameter.grad is None else (parameter.grad.reshape(-1) * direction).sum().item()
        assert own == pytest.approx((found[0] - found[1]) / (2 * _STEP), rel=1e-4, abs=1e-7), key
