"""Gradients against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import pytest
from torch import Tensor, nn

_STEP = 1e-5


def check_gradients(
    network: nn.Module,
    loss: Callable[[], Tensor],
    count: int = 3,
    constant: Collection[tuple[str, int]] = (),
) -> None:
    """Compare `count` values of each parameter's gradient with central differences of the loss, in float64.

    `constant` names places, (parameter, index in its flat values), that are never trained.
    """
    loss().backward()
    random = np.random.default_rng(0)
    for key, parameter in network.named_parameters():
        values = parameter.data.view(-1)
        for at in random.choice(len(values), min(count, len(values)), replace=False).tolist():
            if (key, at) in constant:
                continue
            found, kept = [], values[at].item()
            for step in (_STEP, -_STEP):
                values[at] = kept + step
                found.append(loss().item())
            values[at] = kept
            own = 0.0 if parameter.grad is None else parameter.grad.reshape(-1)[at].item()
            assert own == pytest.approx((found[0] - found[1]) / (2 * _STEP), rel=1e-4, abs=1e-7), key
