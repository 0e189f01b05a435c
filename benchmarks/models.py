"""What `train_step.py` and `decode.py` share: a model and a batch of a given shape, and one process a measurement."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

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


def make_model(shape: Shape, device: str):
    """Make an MQAN with Appendix D's sizes, and a batch of random words of one length, as the yardstick has no padding.

    One in five of the context's words is beyond the vocabulary.
    """
    import numpy as np
    import torch

    from decabench.models.devices import pick_device
    from decabench.models.mqan import MQAN
    from decabench.models.mqan_batch import MQANConfig, collate
    from decabench.vectors.tokenizer import EOS, INIT, Lexicon
    from decabench.vectors.word_vectors import JoinedVectors, NoVectors, WordTable

    torch.manual_seed(0)
    random = np.random.default_rng(0)
    lexicon = Lexicon([f" w{n} " for n in range(shape.vocabulary - 4)])
    others = shape.vocabulary // 4
    lexicon.number(f" o{n} " for n in range(others))
    table = WordTable(lexicon, JoinedVectors((NoVectors(50),)))
    config = MQANConfig(dimension=shape.dimension, dropout=0.0, max_answer_tokens=shape.answer)
    place = pick_device(device)
    model = MQAN(config, table).to(place)

    def words(count: int, source=None):
        return random.choice(np.arange(4, shape.vocabulary + others) if source is None else source, count)

    rows = []
    for _ in range(shape.batch):
        # Without <eos>, which could be pointed at.
        context, question = (words(count).astype(np.int32) for count in (shape.length, shape.question))
        answer = np.array([INIT, *words(shape.answer - 1, context), EOS], dtype=np.int32)
        rows.append({"context": context, "question": question, "answer": answer})
    model.generate.weight.data *= 30  # far from flat, so that rounding does not decide the answers
    return model, collate("", rows, table, config).to(place)


def time_call(call: Callable[[], object], repeats: int) -> dict[str, float]:
    """Time some calls after one to warm up: the best wall and CPU seconds, and the process's peak memory."""
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


def parse_arguments(description: str, options: Mapping[str, str]) -> argparse.Namespace:
    """Parse the options of both benchmarks, and further ones, given with their help."""
    parser = argparse.ArgumentParser(description=description)
    for name, about in options.items():
        parser.add_argument(name, help=about)
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
    description: str,
    script: str,
    calls: Callable[[Shape, str, str], Callable[[], object]],
    tokens,
    options: Mapping[str, str] = MappingProxyType({}),
) -> argparse.Namespace:
    """Print a Markdown table: both sides for every shape, each measured in a process of its own. Return the options."""
    given = parse_arguments(description, options)
    if given.one:
        import torch

        torch.set_num_threads(given.threads)
        shape, side = json.loads(given.one)
        print(json.dumps(time_call(calls(Shape(**shape), side, given.device), given.repeats)))
        raise SystemExit
    print("| batch x (context + question + answer) | who | tokens/s | CPU s | wall s | peak MB | times |")
    print("|---|---|---|---|---|---|---|")
    for length in map(int, filter(None, given.lengths.split(","))):
        for batch in map(int, given.batches.split(",")):
            shape = Shape(batch, length, given.question, given.answer, given.vocabulary, given.dimension)
            yardstick = 0.0
            for side in ("yardstick", "decabench"):
                found = measure(script, given, shape, side)
                yardstick = yardstick or found["cpu"]
                print(
                    f"| {shape} | {side} | {tokens(shape) / found['wall']:,.0f} | {found['cpu']:.3f} "
                    f"| {found['wall']:.3f} | {found['peak']:,.0f} | {yardstick / found['cpu']:.1f} |",
                    flush=True,
                )
    return given


def measure(script: str, given: argparse.Namespace, shape: Shape, side: str) -> dict[str, float]:
    """Measure one side in a process of its own. Compare CPU seconds: other work on the machine adds nothing to them."""
    command = [sys.executable, script, "--one", json.dumps([vars(shape), side])]
    for name in ("repeats", "threads", "device"):
        command += [f"--{name}", str(getattr(given, name))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)
