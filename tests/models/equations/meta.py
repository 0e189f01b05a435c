"""The equations of the Meta-LSTM paper and its baselines as printed, for one token and one text at a time.

This shares only the names of weights with `decabench.models`, no code. Chen et al. 2018 (Eq. 9-33), Ha et al. 2017
(HyperLSTM), Liu et al. 2017 (adversarial losses).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

Weights = Mapping[str, Tensor]
GATES = "oifg"  # the order of the gates in the weights


def gates(weight: Tensor) -> dict[str, Tensor]:
    """Split a matrix or a bias of four gates."""
    return dict(zip(GATES, weight.chunk(4), strict=True))


def advance(pre: Mapping[str, Tensor], c: Tensor) -> tuple[Tensor, Tensor]:
    """h and c from the four gates before their activations (the last lines of Eq. 9)"""
    g, o = torch.tanh(pre["g"]), torch.sigmoid(pre["o"])
    i, f = torch.sigmoid(pre["i"]), torch.sigmoid(pre["f"])
    c = g * i + c * f
    return o * torch.tanh(c), c


def lstm(x: Tensor, w: Weights, name: str) -> Tensor:
    """(T, d) -> (T, h), Eq. 9"""
    W, b = gates(w[f"{name}.weight"]), gates(w[f"{name}.bias"])
    h = c = torch.zeros_like(b["o"])
    states = []
    for x_t in x:
        h, c = advance({gate: W[gate] @ torch.cat([x_t, h]) + b[gate] for gate in GATES}, c)
        states.append(h)
    return torch.stack(states)


def meta_lstm(x: Tensor, w: Weights, meta: str, basic: str) -> Tensor:
    """(T, d) -> (T, h), Eq. 27-31, with W(z_t) as a matrix; Q is z x (d + h)"""
    W_m, b_m, W_z = gates(w[f"{meta}.weight"]), gates(w[f"{meta}.bias"]), w[f"{meta}.project"]
    P, Q, B = (dict(zip(GATES, w[f"{basic}.{part}"], strict=True)) for part in "PQB")
    h = c = x.new_zeros(len(P["o"]))
    h_meta = c_meta = torch.zeros_like(b_m["o"])
    states = []
    for x_t in x:
        u = torch.cat([x_t, h, h_meta])  # the order of the columns is ours
        h_meta, c_meta = advance({gate: W_m[gate] @ u + b_m[gate] for gate in GATES}, c_meta)  # Eq. 30
        z = W_z @ h_meta
        W = {gate: P[gate] @ torch.diag(z) @ Q[gate] for gate in GATES}  # Eq. 28
        b = {gate: B[gate] @ z for gate in GATES}
        h, c = advance({gate: W[gate] @ torch.cat([x_t, h]) + b[gate] for gate in GATES}, c)  # Eq. 27
        states.append(h)
    return torch.stack(states)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    centred = x - x.mean()
    return centred / (centred.square().mean() + 1e-5).sqrt() * weight + bias


def hyper_lstm(x: Tensor, w: Weights, name: str) -> Tensor:
    """(T, d) -> (T, h), Ha et al. 2017, appendix A.2, with the scaled matrices built"""
    own = {key.removeprefix(f"{name}."): value for key, value in w.items() if key.startswith(f"{name}.")}
    W_hyper, b_hyper, W = gates(own["hyper_weight"]), gates(own["hyper_bias"]), gates(own["weight"])
    embed = dict(zip("hxb", (gates(part) for part in own["embed_weight"].chunk(3)), strict=True))
    bias = dict(zip("hx", (gates(part) for part in own["embed_bias"].chunk(2)), strict=True))
    scale = dict(
        zip("hx", (dict(zip(GATES, part, strict=True)) for part in own["scale"].chunk(2)), strict=True)
    )
    shift = dict(zip(GATES, own["shift"], strict=True))
    *gains, c_gain = own["norm_weight"]
    gain, offset = (dict(zip(GATES, rows, strict=True)) for rows in (gains, own["norm_bias"]))
    d = x.shape[1]
    h = c = torch.zeros_like(offset["o"])
    hyper = c_hyper = torch.zeros_like(b_hyper["o"])
    states = []
    for x_t in x:
        u = torch.cat([x_t, h, hyper])
        hyper, c_hyper = advance({gate: W_hyper[gate] @ u + b_hyper[gate] for gate in GATES}, c_hyper)
        pre = {}
        for gate in GATES:
            d_h = scale["h"][gate].T @ (embed["h"][gate] @ hyper + bias["h"][gate])
            d_x = scale["x"][gate].T @ (embed["x"][gate] @ hyper + bias["x"][gate])
            b = shift[gate].T @ (embed["b"][gate] @ hyper)
            W_x, W_h = torch.diag(d_x) @ W[gate][:, :d], torch.diag(d_h) @ W[gate][:, d:]
            pre[gate] = layer_norm(W_h @ h + W_x @ x_t + b, gain[gate], offset[gate])
        _, c = advance(pre, c)
        h = torch.sigmoid(pre["o"]) * torch.tanh(layer_norm(c, c_gain, own["cell_bias"]))
        states.append(h)
    return torch.stack(states)


def run(x: Tensor, w: Weights, shared: str, task: str, model: str, reads_words: bool = True) -> list[Tensor]:
    """(T, d) -> the states that represent a text, one direction: of the shared and of the task's network, or one."""
    match model:
        case "lstm":
            return [lstm(x, w, task)]
        case "hyper-lstm":
            return [hyper_lstm(x, w, task)]
        case "meta-lstm":
            return [meta_lstm(x, w, shared, task)]  # Eq. 33
        case "shared-lstm":
            return [lstm(x, w, shared)]
        case "ssp-mtl":
            below = lstm(x, w, shared)
            return [lstm(torch.cat([x, below], 1) if reads_words else below, w, task)]  # Eq. 13
        case _:
            return [lstm(x, w, shared), lstm(x, w, task)]


def label_loss(last: Tensor, w: Weights, task: str, label: int) -> Tensor:
    """-log p of a text's label, Eq. 16 and 19"""
    scores = w[f"heads.{task}.output.score.weight"] @ last + w[f"heads.{task}.output.score.bias"]
    return -torch.log(torch.exp(scores[label]) / torch.exp(scores).sum())


def adversarial_losses(shared: Tensor, own: Tensor, w: Weights, task: int) -> tuple[Tensor, Tensor]:
    """(B, h) each -> the discriminator's loss and the penalty, over a batch (Liu et al. 2017, Eq. 11-14)"""
    total = shared.new_zeros(())
    for s in shared:
        scores = w["discriminator.weight"] @ s + w["discriminator.bias"]
        total = total - torch.log(torch.exp(scores[task]) / torch.exp(scores).sum())
    penalty = shared.new_zeros(())
    for a in range(shared.shape[1]):
        for b in range(own.shape[1]):
            penalty = penalty + (shared[:, a] * own[:, b]).sum() ** 2
    return total, penalty
