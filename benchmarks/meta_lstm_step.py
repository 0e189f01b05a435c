"""Meta-LSTM's recurrence, forward and backward, against its equations in a loop over time followed by autograd.

    python benchmarks/meta_lstm_step.py --lengths 50,200

"printed" builds W(z_t) for every text and token (Eq. 27-28); "plain" multiplies P (z * Q [x; h]) instead, token by
token; decabench takes W_m x and Q x out of the loop and writes the gradient out. All have equal weights and words, at
the paper's sizes (words 200, states 100, meta-network and rank 40, 16 texts), and are checked to agree before they are
timed in turn: the median CPU seconds of the repeats, and their range.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from timing import time_in_turn
from torch import Tensor

from decabench.models import flush_denormals
from decabench.models.recurrent_cells import BasicLSTM, MetaNetwork

TEXTS, WORDS, HIDDEN, META, RANK = 16, 200, 100, 40, 40


def advance(pre: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    o, i, f, g = pre
    c = g.tanh() * i.sigmoid() + c * f.sigmoid()
    return o.sigmoid() * c.tanh(), c


def looped(x: Tensor, meta: MetaNetwork, basic: BasicLSTM, builds: bool) -> Tensor:
    """(B, T, d) -> (B, T, h), Eq. 27-31"""
    h = c = x.new_zeros(len(x), HIDDEN)
    meta_h = meta_c = x.new_zeros(len(x), META)
    states = []
    for x_t in x.unbind(1):
        pre = torch.cat([x_t, h, meta_h], 1) @ meta.weight.T + meta.bias
        meta_h, meta_c = advance(torch.stack(pre.chunk(4, 1)), meta_c)
        z = meta_h @ meta.project.T
        inputs = torch.cat([x_t, h], 1)
        if builds:
            built = (basic.P[:, None] * z[:, None]) @ basic.Q[:, None]  # W(z_t): (4, B, h, d + h)
            product = (built @ inputs[:, :, None]).squeeze(3)
        else:
            product = (inputs @ basic.Q.transpose(1, 2) * z) @ basic.P.transpose(1, 2)
        h, c = advance(product + z @ basic.B.transpose(1, 2), c)
        states.append(h)
    return torch.stack(states, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", default="50,200")
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    meta, basic = MetaNetwork(WORDS, HIDDEN, META, RANK), BasicLSTM(WORDS, HIDDEN, RANK)
    print("| words | printed | plain | decabench | times printed | times plain |\n|---|---|---|---|---|---|")
    for length in map(int, given.lengths.split(",")):
        x = (torch.randn(TEXTS, length, WORDS) * 0.4).requires_grad_()
        sides = {
            "printed": lambda x=x: looped(x, meta, basic, True),
            "plain": lambda x=x: looped(x, meta, basic, False),
            "decabench": lambda x=x: basic(x, meta),
        }
        with torch.no_grad():
            for side in sides.values():
                torch.testing.assert_close(side(), sides["decabench"](), atol=1e-4, rtol=1e-4)
        steps = {name: lambda side=side: side()[:, -1].sum().backward() for name, side in sides.items()}
        with flush_denormals():
            timed = time_in_turn(steps, given.repeats)
        ratios = [f"{timed[name].median / timed['decabench'].median:.1f}" for name in ("printed", "plain")]
        print(f"| {TEXTS} x {length} | {' | '.join([*map(str, timed.values()), *ratios])} |", flush=True)


if __name__ == "__main__":
    main()
