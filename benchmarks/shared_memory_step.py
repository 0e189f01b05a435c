"""ME-LSTM's and ARC-II's recurrence, forward and backward, against their equations in a loop followed by autograd.

    python benchmarks/shared_memory_step.py --lengths 50,200

"plain" takes the equations token by token, for a batch at once; decabench takes W_p x out of the loop and writes the
gradient out; "together" is the same for one batch of each of four tasks in one go, its time divided by four. The first
two have equal weights and words, at the paper's sizes (words and states 100, memories of 50 x 20, 16 texts), and are
checked to agree before they are timed in turn: the median CPU seconds of the repeats, and their range. An LSTM of torch
stands beside them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from timing import time_in_turn
from torch import Tensor
from torch.nn import functional as F

from decabench.models import flush_denormals
from decabench.models.memory_cells import MemoryWeights, unroll
from decabench.models.recurrent_cells import LSTM

TEXTS, WORDS, HIDDEN, SEGMENTS, WIDTH = 16, 100, 100, 50, 20


def make_weights(hybrid: bool, tasks: int = 1) -> list[Tensor]:
    """W_p, b_p, W_f above W_r, W_c, and a memory's content, W_m and b_m, or those of two memories."""
    d, m = HIDDEN, WIDTH * (1 + hybrid)
    sizes = [
        (4 * d, WORDS + d),
        (4 * d,),
        (2 * d, m),
        (d, d),
        (SEGMENTS, WIDTH),
        (d, 3 * WIDTH),
        (1, 3 * WIDTH),
    ]
    sizes += [(SEGMENTS, WIDTH), (WIDTH, 3 * WIDTH), (1, 3 * WIDTH)] if hybrid else []
    return [torch.empty(tasks, *size).uniform_(-0.1, 0.1).requires_grad_() for size in sizes]


def fused(x: Tensor, weights: list[Tensor]) -> Tensor:
    """(G, B, T, m) -> (G, B, T, d), by decabench"""
    memories = tuple(MemoryWeights(*weights[at : at + 3]) for at in range(4, len(weights), 3))
    return unroll(x, *weights[:4], memories)[0]


def plain(x: Tensor, weights: list[Tensor]) -> Tensor:
    """(B, T, m) -> (B, T, d), Eq. 5-13 or 16-19"""
    W_p, b_p, W_fr, W_c, *memory = (weight[0] for weight in weights)
    W_f, W_r = W_fr.chunk(2)

    def attend(M: Tensor, k: Tensor) -> Tensor:
        return F.cosine_similarity(M, k[:, None], 2).softmax(1)

    def read(alpha: Tensor, M: Tensor) -> Tensor:
        return (alpha[..., None] * M).sum(1)

    def write(M: Tensor, alpha: Tensor, state: Tensor, W: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        k, a, e = (state @ W + b).chunk(3, 1)
        alpha = alpha[..., None]
        return M * (1 - alpha * e.sigmoid()[:, None]) + alpha * a.tanh()[:, None], k.tanh()

    h = c = x.new_zeros(len(x), HIDDEN)
    contents = [memory[at].expand(len(x), -1, -1) for at in range(0, len(memory), 3)]
    keys = [x.new_zeros(len(x), WIDTH) for _ in contents]
    alphas = [attend(M, k) for M, k in zip(contents, keys, strict=True)]
    reads = [read(alpha, M) for alpha, M in zip(alphas, contents, strict=True)]
    states = []
    for t in range(x.shape[1]):
        o, i, f, g = (torch.cat([x[:, t], h], 1) @ W_p.T + b_p).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        alphas = [attend(M, k) for M, k in zip(contents, keys, strict=True)]
        if len(contents) == 1:
            reads = [read(alphas[0], contents[0])]
        r = torch.cat(reads, 1)
        gate = (r @ W_r.T + c @ W_c.T).sigmoid()
        h = o.sigmoid() * (c + gate * (r @ W_f.T)).tanh()
        contents[0], keys[0] = write(contents[0], alphas[0], h, *memory[1:3])
        if len(contents) == 2:
            local = read(alphas[0], contents[0])
            contents[1], keys[1] = write(contents[1], alphas[1], local, *memory[4:6])
            reads = [local, read(alphas[1], contents[1])]
        states.append(h)
    return torch.stack(states, 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", default="50,200")
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("| | words | plain | decabench | together | LSTM | times plain |\n|---|---|---|---|---|---|---|")
    lstm = LSTM(WORDS, HIDDEN)
    for name, hybrid in (("ME-LSTM, ARC-I", False), ("ARC-II", True)):
        weights, four = make_weights(hybrid), make_weights(hybrid, 4)
        for length in map(int, given.lengths.split(",")):
            x = (torch.randn(4, TEXTS, length, WORDS) * 0.4).requires_grad_()
            sides: dict[str, Callable[[], Tensor]] = {
                "plain": lambda x=x, w=weights: plain(x[0], w),
                "decabench": lambda x=x, w=weights: fused(x[:1], w)[0],
                "together": lambda x=x, w=four: fused(x, w),
                "LSTM": lambda x=x: lstm(x[0]),
            }
            with torch.no_grad():
                torch.testing.assert_close(sides["plain"](), sides["decabench"](), atol=1e-5, rtol=1e-4)
            steps = {side: lambda run=run: run()[..., -1, :].sum().backward() for side, run in sides.items()}
            with flush_denormals():
                timed = time_in_turn(steps, given.repeats, {"together": 4})
            ratio = f"{timed['plain'].median / timed['decabench'].median:.1f}"
            print(
                f"| {name} | {TEXTS} x {length} | {' | '.join([*map(str, timed.values()), ratio])} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
