"""The equations of recurrent modular networks and the encoders they extend, for one token and one text at a time.

This shares only the names of weights with `decabench.models`, no code. Xu et al. 2021 (Eq. 1-11), Misra et al. 2016
(cross-stitch), Ruder et al. 2019 (sluice), Gupta et al. 2019 (GIRNet), and DC-MTL and IC-MTL as
`recurrent_modules.py` describes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tests.models.equations.meta import GATES, advance, gates, lstm

Weights = Mapping[str, Tensor]


@dataclass
class Text:
    """The states that a task reads for a text, and the open connections."""

    states: Tensor
    """(T, width): the output layer's input at each token"""
    encoder: list[list[int]] = field(default_factory=list)
    """for each token, 1 or 0 for each connection in the shared encoder, layer by layer from the bottom"""
    decoder: list[list[int]] = field(default_factory=list)
    """the same for those to the task's decoder"""


def lower(task: str) -> str:
    """Return a task's name as used in the names of weights."""
    return task.replace(".", "/")


# The encoders


def separate(x: Tensor, w: Weights, task: str, tasks: list[str], config: Any) -> Tensor:
    return lstm(x, w, f"heads.{lower(task)}.lstms.0")


def cross_stitch(x: Tensor, w: Weights, task: str, tasks: list[str], config: Any) -> Tensor:
    inputs = {each: x for each in tasks}
    for layer in range(config.layers):
        alpha = w["encoder.stitches"][layer]
        states = {each: lstm(inputs[each], w, f"heads.{lower(each)}.lstms.{layer}") for each in tasks}
        inputs = {
            one: sum(alpha[i, j] * states[other] for j, other in enumerate(tasks))
            for i, one in enumerate(tasks)
        }
    return inputs[task]


def sluice(x: Tensor, w: Weights, task: str, tasks: list[str], config: Any) -> Tensor:
    inputs, half, read = {each: x for each in tasks}, config.hidden // 2, 0
    beta = w["encoder.mixtures"][tasks.index(task)]
    for layer in range(config.layers):
        alpha = w["encoder.stitches"][layer]
        states = [lstm(inputs[each], w, f"heads.{lower(each)}.lstms.{layer}") for each in tasks]
        parts = [part for state in states for part in (state[:, :half], state[:, half:])]
        mixed = [sum(alpha[i, j] * parts[j] for j in range(len(parts))) for i in range(len(parts))]
        inputs = {each: torch.cat(mixed[2 * at : 2 * at + 2], 1) for at, each in enumerate(tasks)}
        read = read + beta[layer] * inputs[task]
    return read


def girnet(x: Tensor, w: Weights, task: str, tasks: list[str], config: Any) -> Tensor:
    if task != config.primary:
        return lstm(x, w, f"heads.{lower(task)}.lstms.0")
    shares = girnet_gates(x, w)
    cells = [f"heads.{lower(each)}.lstms.0" for each in tasks if each != config.primary]
    h = c = x.new_zeros(config.hidden)
    states = []
    for x_t, g in zip(x, shares, strict=True):
        moved = []
        for cell in cells:
            W, b = gates(w[f"{cell}.weight"]), gates(w[f"{cell}.bias"])
            pre = {gate: W[gate] @ torch.cat([x_t, h]) + b[gate] for gate in GATES}
            moved.append(advance(pre, c))
        h = g[0] * h + sum(share * own for share, (own, _) in zip(g[1:], moved, strict=True))
        c = g[0] * c + sum(share * own for share, (_, own) in zip(g[1:], moved, strict=True))
        states.append(h)
    return torch.stack(states)


def girnet_gates(x: Tensor, w: Weights) -> Tensor:
    """A softmax over keeping the state and each auxiliary cell, from a BiLSTM in PyTorch's order of gates."""
    sides = []
    for suffix, words in (("", x), ("_reverse", x.flip(0))):
        inner, recurrent, b_i, b_h = (
            w[f"encoder.reader.lstm.{part}_l0{suffix}"]
            for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        h = c = x.new_zeros(recurrent.shape[1])
        states = []
        for x_t in words:
            i, f, g, o = (inner @ x_t + b_i + recurrent @ h + b_h).chunk(4)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            states.append(h)
        sides.append(torch.stack(states) if not suffix else torch.stack(states).flip(0))
    scores = torch.cat(sides, 1) @ w["encoder.gates.weight"].T + w["encoder.gates.bias"]
    return scores.exp() / scores.exp().sum(1, keepdim=True)


ENCODERS = {"ns-mtl": separate, "cross-stitch": cross_stitch, "sluice": sluice, "girnet": girnet}


# The modular network


def mlp(x: Tensor, w: Weights, name: str, j: int) -> Tensor:
    """The j-th of several networks of one hidden layer."""
    inner = torch.relu(x @ w[f"{name}.first"][j] + w[f"{name}.first_bias"][j].flatten())
    return inner @ w[f"{name}.second"][j] + w[f"{name}.second_bias"][j].flatten()


def is_open(alpha: Tensor, noise: Tensor | None = None) -> int:
    """Eq. 8; without noise, as answers are given"""
    return int((alpha if noise is None else alpha + noise).argmax())


def connect(u: list[Tensor], zeta: list[int]) -> Tensor:
    """Eq. 4; zeros if nothing is connected"""
    if not sum(zeta):
        return torch.zeros_like(u[0])
    return sum(z / sum(zeta) * each for z, each in zip(zeta, u, strict=True))


def modular(x: Tensor, h: Tensor, w: Weights, task: str, config: Any) -> Text:
    """(T, d) and the task's states (T, h) -> [the outputs of the decoder; h]"""
    cells = [lstm(x, w, f"shared.cells.{i}") for i in range(config.cells)]  # Eq. 1
    own, states, encoder, decoder = f"heads.{lower(task)}.extension", [], [], []
    for t in range(len(x)):
        u, opened, chosen, outputs = [cell[t] for cell in cells], [], [], []
        for layer in range(config.depth - 1):
            name = f"shared.layers.{0 if config.extension == 'rrn' else layer}"
            zeta = [
                [is_open(mlp(each, w, f"{name}.policies", j)) for j in range(config.modules)] for each in u
            ]  # Eq. 2 and 3
            opened += [z for row in zeta for z in row]
            inputs = [connect(u, [row[j] for row in zeta]) for j in range(config.modules)]
            u = [mlp(v, w, f"{name}.networks", j) for j, v in enumerate(inputs)]  # Eq. 5
            z = [is_open(score_decoder(each, h[t], w, own, config)) for each in u]  # Eq. 6 and 7
            chosen += z
            outputs.append(mlp(connect(u, z), w, f"{own}.networks", layer))
        encoder.append(opened)
        decoder.append(chosen)
        states.append(torch.cat([*outputs, h[t]]))
    return Text(torch.stack(states), encoder, decoder)


def score_decoder(u: Tensor, h: Tensor, w: Weights, own: str, config: Any) -> Tensor:
    return mlp(torch.cat([u, w[f"{own}.transform.weight"] @ h]), w, f"{own}.policy", 0)


def sparsity(open_at: list[list[int]], gamma: float) -> float:
    """Eq. 10 and 11 without lambda, as a sum over tokens"""
    return sum(max(0.0, sum(zeta) - gamma * len(zeta)) for zeta in open_at)


# Messages


def direct(x: Tensor, h: Tensor, w: Weights, task: str, tasks: list[str], config: Any) -> Tensor:
    own = f"heads.{lower(task)}.extension"
    sent = [ENCODERS[config.name](x, w, each, tasks, config) for each in tasks if each != task]
    read = []
    for t in range(len(x)):
        scores = torch.stack(
            [
                w[f"{own}.score.weight"][0]
                @ torch.tanh(w[f"{own}.query.weight"] @ torch.cat([h[t], s[t]]) + w[f"{own}.query.bias"])
                for s in sent
            ]
        )
        shares = scores.exp() / scores.exp().sum()
        read.append(sum(share * s[t] for share, s in zip(shares, sent, strict=True)))
    return torch.cat([torch.stack(read), h], 1)


def shared(x: Tensor, h: Tensor, w: Weights, task: str) -> Tensor:
    own, states = f"heads.{lower(task)}.extension.gate", lstm(x, w, "shared")
    gate = torch.sigmoid(torch.cat([h, states], 1) @ w[f"{own}.weight"].T + w[f"{own}.bias"])
    return torch.cat([gate * states, h], 1)


def run(x: Tensor, w: Weights, task: str, tasks: list[str], config: Any) -> Text:
    """(T, d) -> the input of the task's output layer at each token"""
    h = ENCODERS[config.name](x, w, task, tasks, config)
    match config.extension:
        case "rmn" | "rrn":
            return modular(x, h, w, task, config)
        case "direct":
            return Text(direct(x, h, w, task, tasks, config))
        case "shared":
            return Text(shared(x, h, w, task))
        case _:
            return Text(h)


def loss(state: Tensor, w: Weights, task: str, label: int) -> Tensor:
    """-log p of a label or a tag"""
    own = f"heads.{lower(task)}.output.score"
    scores = w[f"{own}.weight"] @ state + w[f"{own}.bias"]
    return -torch.log(torch.exp(scores[label]) / torch.exp(scores).sum())
