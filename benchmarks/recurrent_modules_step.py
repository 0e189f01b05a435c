"""A training step's forward and backward pass of recurrent modules and of GIRNet, against loops followed by autograd.

    python benchmarks/recurrent_modules_step.py --lengths 20,50

"printed" is the transcription of the equations, a text, a word and a network at a time (`modular_equations.py`);
"plain" does the same for all texts of a batch at once, but word by word and network by network, as a loop over time
would; decabench runs each layer of small networks as one product over all words, and GIRNet's loop has its gradient
written out. All have equal weights and words, at the sizes of GIRNet's code (words 50, states 100, 32 texts), and are
checked to agree, without noise, before they are timed in turn: the median CPU seconds of the repeats, and their range.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from timing import time_in_turn
from torch import Tensor
from torch.nn import functional as F

from benchmarks import modular_equations as equations
from decabench.models import ColumnBatch, flush_denormals
from decabench.models.recurrent_modules import FAMILY, RecurrentModules, RecurrentModulesConfig
from decabench.tasks import Tags
from decabench.vectors.tokenizer import Lexicon
from decabench.vectors.word_vectors import JoinedVectors, NoVectors, WordTable

TEXTS, WORDS = 32, 50
OUTPUTS = {name: Tags(names=tuple(map(str, range(n)))) for name, n in (("p", 18), ("hi", 25), ("en", 44))}


def advance(pre: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    o, i, f, g = pre.chunk(4, 1)
    c = g.tanh() * i.sigmoid() + c * f.sigmoid()
    return o.sigmoid() * c.tanh(), c


def mlp(x: Tensor, networks: torch.nn.Module, j: int) -> Tensor:
    bias = networks.first_bias[j].flatten(), networks.second_bias[j].flatten()
    return torch.addmm(bias[1], torch.addmm(bias[0], x, networks.first[j]).relu(), networks.second[j])


def connect(u: list[Tensor], gates: list[Tensor]) -> Tensor:
    total = torch.stack(gates).sum(0).clamp_min(1)
    return sum(gate[:, None] * each for gate, each in zip(gates, u, strict=True)) / total[:, None]


def read_both_ways(lstm: torch.nn.LSTM, x: Tensor) -> Tensor:
    sides = []
    for weights, words in zip(lstm.all_weights, (x, x.flip(1)), strict=True):
        inner, recurrent, *biases = weights
        h = c = x.new_zeros(len(x), lstm.hidden_size)
        states = []
        for x_t in words.unbind(1):
            i, f, g, o = (F.linear(x_t, inner, biases[0]) + F.linear(h, recurrent, biases[1])).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            states.append(h)
        sides.append(torch.stack(states, 1))
    return torch.cat([sides[0], sides[1].flip(1)], 2)


def plain(model: RecurrentModules, x: Tensor) -> Tensor:
    """(B, T, d) -> what the output layer of the primary task reads, (B, T, width)"""
    config, own, rows = model.config, model.heads["p"], len(x)
    zero = x.new_zeros(rows, config.hidden)
    cells = list(model.shared.cells) if config.is_modular else []
    moved = [(x.new_zeros(rows, cell.size),) * 2 for cell in cells]
    h, c, states = zero, zero, []
    if config.name == "girnet":
        shares = model.encoder.gates(read_both_ways(model.encoder.reader.lstm, x)).softmax(2)
        auxiliary = [model.heads[task].lstms[0] for task in OUTPUTS if task != "p"]
    for t, x_t in enumerate(x.unbind(1)):
        if config.name == "girnet":
            both = [advance(F.linear(torch.cat([x_t, h], 1), a.weight, a.bias), c) for a in auxiliary]
            g = shares[:, t]
            h = g[:, :1] * h + sum(g[:, at : at + 1] * one for at, (one, _) in enumerate(both, 1))
            c = g[:, :1] * c + sum(g[:, at : at + 1] * one for at, (_, one) in enumerate(both, 1))
        else:
            lstm = own.lstms[0]
            h, c = advance(F.linear(torch.cat([x_t, h], 1), lstm.weight, lstm.bias), c)
        read = [h]
        if config.is_modular:
            moved = [
                advance(F.linear(torch.cat([x_t, one], 1), cell.weight, cell.bias), two)
                for cell, (one, two) in zip(cells, moved, strict=True)
            ]
            read = [*route(model, own.extension, [one for one, _ in moved], h), h]
        states.append(torch.cat(read, 1))
    return torch.stack(states, 1)


def route(model: RecurrentModules, decoder: torch.nn.Module, u: list[Tensor], h: Tensor) -> list[Tensor]:
    router, outputs = model.shared.router, []
    for at, layer in enumerate(model.shared.layers):
        gates = [[router(mlp(each, layer.policies, j)) for each in u] for j in range(model.config.modules)]
        u = [mlp(connect(u, own), layer.networks, j) for j, own in enumerate(gates)]
        query = decoder.transform(h)
        chosen = [router(mlp(torch.cat([each, query], 1), decoder.policy, 0)) for each in u]
        outputs.append(mlp(connect(u, chosen), decoder.networks, at))
    return outputs


def printed(model: RecurrentModules, x: Tensor) -> Tensor:
    weights = dict(model.named_parameters())
    return torch.stack([equations.run(text, weights, "p", list(OUTPUTS), model.config).states for text in x])


def backward(outputs: Tensor) -> None:
    outputs.square().mean().backward()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", default="20,50")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--printed", action="store_true", help="time the transcription too, which takes minutes"
    )
    given = parser.parse_args()
    torch.set_num_threads(1)
    words = WordTable(Lexicon([f" w{n} " for n in range(2_000)]), JoinedVectors((NoVectors(WORDS),)))
    print("| model | texts x words | printed | plain | decabench | times plain |\n|---|---|---|---|---|---|")
    for name, extension in (("ns-mtl", "rmn"), ("girnet", "none"), ("girnet", "rmn")):
        for length in map(int, given.lengths.split(",")):
            torch.manual_seed(0)
            config = RecurrentModulesConfig(name=name, extension=extension, primary="p")
            model = RecurrentModules(config, OUTPUTS, words)
            numbers = np.random.default_rng(0).integers(4, 2_000, (TEXTS, length)).astype(np.int32)
            items = [{"text": row} for row in numbers]
            batch = ColumnBatch.of("p", items, words, FAMILY.columns, vectors=False)
            x = model.embed(batch, "text").detach()
            sides: dict[str, Callable[[], Tensor]] = {
                "plain": lambda m=model, x=x: plain(m, x),
                "decabench": lambda m=model, b=batch: m.represent(b).x,
            }
            with torch.no_grad():
                model.eval()
                expected = printed(model, x[:2])
                for side in sides.values():
                    torch.testing.assert_close(side()[:2], expected, atol=1e-4, rtol=1e-4)
                model.train()
            steps = {side: lambda run=run: backward(run()) for side, run in sides.items()}
            with flush_denormals():
                timed, slow = time_in_turn(steps, given.repeats), "–"
                if given.printed:
                    step = {"printed": lambda m=model, x=x: backward(printed(m, x))}
                    slow = f"{time_in_turn(step, 1)['printed'].median:.1f}"
            title = name if extension == "none" else f"{name} with {extension}"
            ratio = f"{timed['plain'].median / timed['decabench'].median:.1f}"
            shown = " | ".join([*map(str, timed.values()), ratio])
            print(f"| {title} | {TEXTS} x {length} | {slow} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
