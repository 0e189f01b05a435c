"""Compare a training step with that of the authors' code of 2018, for `train_step.py --authors CLONE`.

    git clone https://github.com/salesforce/decaNLP && git -C decaNLP checkout 9a4493b

`authors_network.py` runs the clone's network. Batches are random words with the lengths of a batch of 2,000 tokens of
each task. Every side runs in a process of its own, and these take turns, a step each: on a busy machine, all
have the same share of the disturbance. CPU seconds of one thread, medians and ranges. `--record FILE` keeps those of
every step, from which `show` makes the table again.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

# Examples, and the ranges of the lengths of context, question and answer, with <init> and <eos>.
BATCHES = {
    "woz.en": (38, (8, 15), (9, 9), (5, 8)),
    "sst": (38, (24, 31), (9, 9), (3, 3)),
    "squad": (13, (112, 119), (11, 13), (3, 4)),
}
SIZES = ((128, 1, 2), (200, 2, 3))
"""d, layers and heads: those of the runs in docs/reference-models.md, and the paper's."""
SIDES = ("authors' code", "here, same network", "here, the paper's network")
STEPS = 15
_FIXED = {"dropout": 0.2, "hidden": 150}


def make_items(task: str, vocabulary: int):
    """Make a batch of random words, the frequent ones as frequent as Zipf says; a fifth are not in the vocabulary."""
    import numpy as np

    from decabench.vectors.tokenizer import EOS, INIT

    random = np.random.default_rng(0)
    examples, *ranges = BATCHES[task]

    def words(shortest: int, longest: int):
        count = random.integers(shortest, longest, endpoint=True) - 2
        drawn = 4 + (vocabulary - 4) ** random.random(count)
        return np.array([INIT, *drawn + (random.random(count) < 0.2) * vocabulary // 2, EOS], dtype=np.int32)

    columns = ("context", "question", "answer")
    return [
        {name: words(*limits) for name, limits in zip(columns, ranges, strict=True)} for _ in range(examples)
    ]


def make_step(side: str, clone: str, task: str, size: tuple[int, int, int], vocabulary: int):
    """Return a function for one step: forward, backward, clipping, Adam."""
    import torch
    from authors_network import AuthorsConfig, AuthorsNetwork

    from decabench.models.mqan import MQAN
    from decabench.models.mqan_batch import MQANConfig, collate
    from decabench.vectors.tokenizer import Lexicon
    from decabench.vectors.word_vectors import JoinedVectors, NoVectors, WordTable

    torch.manual_seed(0)
    torch.set_num_threads(1)
    lexicon = Lexicon([f" w{n} " for n in range(vocabulary - 4)])
    lexicon.number(f" o{n} " for n in range(vocabulary))
    table = WordTable(lexicon, JoinedVectors((NoVectors(300),)))
    dimension, layers, heads = size
    departures = ("split_heads", "layer_by_layer", "norm_sublayers", "tanh_coattention")
    config = MQANConfig(
        dimension=dimension,
        layers=layers,
        heads=heads,
        lstm_dropout=-1 if side == SIDES[2] else 0,
        **_FIXED,
        **dict.fromkeys(departures, side != SIDES[2]),
    )
    items = make_items(task, vocabulary)
    batch = collate(task, items, table, config)
    if side == SIDES[0]:
        model = AuthorsNetwork(
            AuthorsConfig(clone=clone, dimension=dimension, layers=layers, heads=heads, **_FIXED), table
        )
    else:
        model = MQAN(config, table)

    def loss():
        value, count = model.losses(batch)["loss"]
        return value / count

    model.train()
    fused = side != SIDES[0]  # which has Adam as it was
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=fused)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def serve(side: str, clone: str, task: str, vocabulary: int, *size: int) -> None:
    """Take a step for each line of the input, and answer with its CPU seconds."""
    from contextlib import nullcontext

    from decabench.models.devices import reuse_memory

    step = make_step(side, clone, task, size, vocabulary)
    with nullcontext() if side == SIDES[0] else reuse_memory():  # as `decabench train` does
        step()
        print("ready", flush=True)
        for _ in sys.stdin:
            begun = time.process_time()
            step()
            print(time.process_time() - begun, flush=True)


def measure(clone: str, task: str, size: tuple[int, int, int], vocabulary: int) -> list[list[float]]:
    """Return the CPU seconds of each side's steps."""
    rest = [clone, task, str(vocabulary), *map(str, size)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers = [subprocess.Popen([sys.executable, __file__, side, *rest], **pipes) for side in SIDES]
    found: list[list[float]] = [[] for _ in workers]
    try:
        if any(worker.stdout.readline() != "ready\n" for worker in workers):
            raise SystemExit(f"A side did not start: is {clone} a clone of github.com/salesforce/decaNLP?")
        for _ in range(STEPS):
            for worker, seconds in zip(workers, found, strict=True):
                worker.stdin.write("\n")
                worker.stdin.flush()
                seconds.append(float(worker.stdout.readline()))
    finally:
        for worker in workers:
            worker.stdin.close()
            worker.wait()
    return found


def main(clone: str, vocabulary: int, record: str) -> None:
    """Measure the sides' steps on the same batches; print them as a table, and write every step's seconds to a file."""
    import torch
    from timing import describe_machine

    rows = []
    print(f"\n{HEAD}", flush=True)
    for size in SIZES:
        for task in BATCHES:
            found = measure(clone, task, size, vocabulary)
            rows.append({"size": size, "task": task, "seconds": dict(zip(SIDES, found, strict=True))})
            print(show(vocabulary, rows[-1]), flush=True)
    if record:
        made = {
            "torch": torch.__version__,
            "machine": describe_machine(),
            "vocabulary": vocabulary,
            "rows": rows,
        }
        Path(record).write_text(json.dumps(made, indent=1) + "\n")


HEAD = f"| words, size | task | batch | {' | '.join(SIDES)} |\n|---|---|---|---|---|---|"


def show(vocabulary: int, row: Mapping[str, Any]) -> str:
    """Return a row of the table: median and range of each side, and how many times as fast it is here."""
    dimension, layers, _ = row["size"]
    examples, *ranges = BATCHES[row["task"]]
    lengths = " + ".join(f"{low}–{high}" if low < high else f"{low}" for low, high in ranges)
    theirs, *ours = (row["seconds"][side] for side in SIDES)
    middle = statistics.median(theirs)
    cells = [
        f"{vocabulary:,}, d {dimension}, {'one layer' if layers == 1 else 'two layers'}",
        row["task"],
        f"{examples} × ({lengths})",  # noqa: RUF001
        _cell(theirs),
        *(f"{_cell(own)}: {middle / statistics.median(own):.1f} times" for own in ours),
    ]
    return f"| {' | '.join(cells)} |"


def _cell(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f} s ({min(seconds):.2f}–{max(seconds):.2f})"


if __name__ == "__main__":
    side, clone, task, *numbers = sys.argv[1:]
    serve(side, clone, task, *map(int, numbers))
