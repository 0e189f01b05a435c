"""The equations of the shared-memory paper (Liu et al. 2016) as printed, for one token and one text at a time.

This shares only the names of weights with `decabench.models`, no code. The cosine with a key of zeros, as before the
first word, is 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

Weights = Mapping[str, Tensor]


def own(w: Weights, name: str) -> dict[str, Tensor]:
    """The weights of a part, by their own names."""
    return {key.removeprefix(f"{name}."): value for key, value in w.items() if key.startswith(f"{name}.")}


def attend(memory: Tensor, key: Tensor, w: Weights) -> Tensor:
    """alpha_t, Eq. 7 with either form of Eq. 8"""
    if "align" in w:
        aligned = torch.stack(
            [w["vector"] @ torch.tanh(w["align"] @ torch.cat([row, key])) for row in memory]
        )
        return torch.exp(aligned) / torch.exp(aligned).sum()
    if not key.any():
        return torch.full((len(memory),), 1 / len(memory), dtype=memory.dtype)
    similar = torch.stack([row @ key / (row.norm() * key.norm()) for row in memory])
    return torch.exp(similar) / torch.exp(similar).sum()


def write(memory: Tensor, alpha: Tensor, state: Tensor, w: Weights) -> tuple[Tensor, Tensor]:
    """M_t and k_t, Eq. 5 and 9"""
    k, a, e = (w["weight"] @ state + w["bias"]).chunk(3)
    k, a, e = torch.tanh(k), torch.tanh(a), torch.sigmoid(e)
    return memory * (1 - torch.outer(alpha, e)) + torch.outer(alpha, a), k


def gates(x_t: Tensor, h: Tensor, c: Tensor, cell: Weights) -> tuple[Tensor, Tensor]:
    """o_t and c_t, Eq. 1 and 2"""
    o, i, f, candidate = (cell["weight"] @ torch.cat([x_t, h]) + cell["bias"]).chunk(4)
    c = torch.tanh(candidate) * torch.sigmoid(i) + c * torch.sigmoid(f)
    return torch.sigmoid(o), c


def fuse(o: Tensor, c: Tensor, r: Tensor, fusion: Weights) -> tuple[Tensor, Tensor]:
    """h_t and g_t, Eq. 11 and 12"""
    W_f, W_r = fusion["read"].chunk(2)
    g = torch.sigmoid(W_r @ r + fusion["cell"] @ c)
    return o * torch.tanh(c + g * (W_f @ r)), g


def me_lstm(x: Tensor, cell: Weights, fusion: Weights, memory: Weights) -> tuple[Tensor, Tensor]:
    """(T, m) -> states and fusion gates, (T, d) each: Eq. 13 and 14"""
    h = c = x.new_zeros(len(cell["bias"]) // 4)
    M, k = memory["initial"], x.new_zeros(memory["initial"].shape[1])
    states, opened = [], []
    for x_t in x:
        alpha = attend(M, k, memory)
        r = alpha @ M  # Eq. 6
        o, c = gates(x_t, h, c, cell)
        h, g = fuse(o, c, r, fusion)
        M, k = write(M, alpha, h, memory)
        states.append(h)
        opened.append(g)
    return torch.stack(states), torch.stack(opened)


def arc_two(
    x: Tensor, cell: Weights, fusion: Weights, local: Weights, shared: Weights, reads: str
) -> tuple[Tensor, Tensor]:
    """(T, m) -> states and fusion gates, (T, d) each: Eq. 16-19"""
    h = c = x.new_zeros(len(cell["bias"]) // 4)
    M, M_s = local["initial"], shared["initial"]
    k, k_s = x.new_zeros(M.shape[1]), x.new_zeros(M_s.shape[1])
    alpha, alpha_s = attend(M, k, local), attend(M_s, k_s, shared)  # of t = 0
    r = alpha @ M
    r_s = alpha_s @ M_s
    states, opened = [], []
    for x_t in x:
        before, r_s = r_s, alpha_s @ M_s  # Eq. 18
        seen = {"both": [r, r_s], "global": [r_s], "late": [r, before]}[reads]
        o, c = gates(x_t, h, c, cell)
        h, g = fuse(o, c, torch.cat(seen), fusion)
        alpha, alpha_s = attend(M, k, local), attend(M_s, k_s, shared)
        M, k = write(M, alpha, h, local)  # Eq. 17
        r = alpha @ M  # Eq. 16
        M_s, k_s = write(M_s, alpha_s, r, shared)  # Eq. 19
        states.append(h)
        opened.append(g)
    return torch.stack(states), torch.stack(opened)


def run(
    x: Tensor, w: Weights, task: str, model: str, way: int = 0, reads: str = "both"
) -> tuple[Tensor, Tensor]:
    """(T, m) -> states and fusion gates of a model, (T, d) each, in one direction."""

    def part(name: str) -> Weights:
        return own(w, f"heads.{task}.{name}.{way}") or own(w, f"shared.{name}.{way}")

    if model == "arc-ii":
        return arc_two(x, part("cell"), part("fusion"), part("memory"), part("global_memory"), reads)
    return me_lstm(x, part("cell"), part("fusion"), part("memory"))


def bag(x: Tensor, w: Weights, task: str, model: str) -> Tensor:
    """(T, m) -> the representation of a text by NBOW or MT-DNN."""
    if model == "nbow":
        return torch.clamp(x.sum(0), min=0)
    lower = torch.tanh(w["shared.weight"] @ x.mean(0) + w["shared.bias"])
    return torch.tanh(w[f"heads.{task}.layer.weight"] @ lower + w[f"heads.{task}.layer.bias"])


def convolution(x: Tensor, w: Weights, task: str) -> Tensor:
    """(T, m) -> the representation of a text by MT-CNN: tanh of the largest value of each filter of three words."""
    filters, bias = w[f"heads.{task}.filters.weight"], w[f"heads.{task}.filters.bias"]
    zero = torch.zeros_like(x[:1])
    around = torch.cat([zero, x, zero])
    found = [filters @ torch.cat([around[t], around[t + 1], around[t + 2]]) + bias for t in range(len(x))]
    return torch.tanh(torch.stack(found).amax(0))


def label_loss(x: Tensor, w: Weights, task: str, label: int) -> Tensor:
    """-log p of a text's label, Eq. 20"""
    scores = w[f"heads.{task}.output.score.weight"] @ x + w[f"heads.{task}.output.score.bias"]
    return -torch.log(torch.exp(scores[label]) / torch.exp(scores).sum())
