"""What `train_step.py` and `decode.py` share: a model and batches of a given shape, and one process a measurement."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))


@dataclass(frozen=True)
class Shape:
    """A batch, and the model's sizes."""

    batch: int
    length: int
    question: int
    answer: int
    vocabulary: int
    dimension: int

    def __str__(self) -> str:
        return f"{self.batch} x ({self.length} + {self.question} + {self.answer})"


def made(shape: Shape, device: str):
    """An MQAN with Appendix D's sizes and a batch of random words, all of one length as the yardstick has no padding.

    Of the context's words one in five is beyond the vocabulary.
    """
    import numpy as np
    import torch

    from decabench.models.answering import pick_device
    from decabench.models.batches import Collator, Encoded, VectorTable
    from decabench.models.mqan import MQAN, ModelConfig
    from decabench.models.vectors import Joined, NoVectors
    from decabench.models.words import EOS, INIT, Lexicon

    torch.manual_seed(0)
    random = np.random.default_rng(0)
    lexicon = Lexicon([f" w{n} " for n in range(shape.vocabulary - 4)])
    others = shape.vocabulary // 4
    lexicon.learn(f" o{n} " for n in range(others))
    table = VectorTable(lexicon, Joined((NoVectors(50),)))
    config = ModelConfig(dimension=shape.dimension, dropout=0.0, max_answer_tokens=shape.answer)
    place = pick_device(device)
    model = MQAN(config, table.vocabulary()).to(place)

    def words(count: int, source=None):
        return random.choice(np.arange(4, shape.vocabulary + others) if source is None else source, count)

    rows = []
    for _ in range(shape.batch):
        # Without <eos>, which could be pointed at.
        context, question = (words(count).astype(np.int32) for count in (shape.length, shape.question))
        answer = np.array([INIT, *words(shape.answer - 1, context), EOS], dtype=np.int32)
        rows.append(Encoded(context, question, answer))
    model.generate.weight.data *= 30  # far from flat, so that rounding does not decide what is said
    return model, Collator(table)(rows).to(place)


def timed(call: Callable[[], object], repeats: int) -> dict[str, float]:
    """Best wall and CPU seconds of some calls after one to warm up, and the process's peak memory."""
    import torch

    def once() -> tuple[float, float]:
        begun, cpu = time.perf_counter(), time.process_time()
        call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter() - begun, time.process_time() - cpu

    once()
    runs = [once() for _ in range(repeats)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if torch.cuda.is_available():
        peak = torch.cuda.max_memory_allocated() / 2**20
    return {"wall": min(wall for wall, _ in runs), "cpu": min(cpu for _, cpu in runs), "peak": peak}


def arguments(description: str) -> argparse.Namespace:
    """The options of both benchmarks."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--batches", default="8,32")
    parser.add_argument("--lengths", default="50,200", help="context tokens")
    parser.add_argument("--question", type=int, default=15)
    parser.add_argument("--answer", type=int, default=10)
    parser.add_argument("--vocabulary", type=int, default=50_000)
    parser.add_argument("--dimension", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args()


def main(
    description: str, script: str, calls: Callable[[Shape, str, str], Callable[[], object]], tokens
) -> None:
    """Prints a Markdown table: both sides for every shape, each measured in a process of its own."""
    given = arguments(description)
    if given.one:
        import torch

        torch.set_num_threads(given.threads)
        shape, side = json.loads(given.one)
        print(json.dumps(timed(calls(Shape(**shape), side, given.device), given.repeats)))
        return
    print("| batch x (context + question + answer) | who | tokens/s | CPU s | wall s | peak MB | times |")
    print("|---|---|---|---|---|---|---|")
    for length in map(int, given.lengths.split(",")):
        for batch in map(int, given.batches.split(",")):
            shape = Shape(batch, length, given.question, given.answer, given.vocabulary, given.dimension)
            yardstick = 0.0
            for side in ("yardstick", "decabench"):
                found = measured(script, given, shape, side)
                yardstick = yardstick or found["cpu"]
                print(
                    f"| {shape} | {side} | {tokens(shape) / found['wall']:,.0f} | {found['cpu']:.3f} "
                    f"| {found['wall']:.3f} | {found['peak']:,.0f} | {yardstick / found['cpu']:.1f} |",
                    flush=True,
                )


def measured(script: str, given: argparse.Namespace, shape: Shape, side: str) -> dict[str, float]:
    """One measurement. Times are compared by CPU seconds, which other people's work on the machine does not add to."""
    command = [sys.executable, script, "--one", json.dumps([vars(shape), side])]
    for name in ("repeats", "threads", "device"):
        command += [f"--{name}", str(getattr(given, name))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)
