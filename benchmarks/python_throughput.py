"""Measure what `decabench predict` adds to a Python object: the object called bare, and the whole run, in turns.

    python benchmarks/python_throughput.py HOME [--task sst] [--milliseconds 2] [--rounds 5]

HOME is a folder of prepared data. The object computes for a fixed time per question, as a model would. Prints a
Markdown table: the median seconds of the rounds, and what is added to `bare`. The run includes planning, journal and
submission.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType

from decabench.runs import Selection, predict
from decabench.tasks import Question, Store

BATCH = 64


class Busy:
    """Computes for so many seconds per question."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def predict(self, questions: Sequence[Question]) -> list[str]:
        end = time.perf_counter() + self.seconds * len(questions)
        while time.perf_counter() < end:
            pass
        return [question.context[:20] for question in questions]


def bare(model: Busy, store: Store, task: str) -> None:
    questions = Selection().questions(store, task, "validation")
    while batch := list(islice(questions, BATCH)):
        model.predict(batch)


def whole(store: Store, task: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        predict("decabench_benchmark:model", Path(folder) / "s", [task], home=store.home)


def seconds(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("home", type=Path)
    parser.add_argument("--task", default="sst")
    parser.add_argument("--milliseconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    module = ModuleType("decabench_benchmark")
    module.model = model = Busy(given.milliseconds / 1000)  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    store = Store(given.home)
    rows: list[tuple[float, float]] = []
    for _ in range(given.rounds):
        rows.append(
            (seconds(lambda: bare(model, store, given.task)), seconds(lambda: whole(store, given.task)))
        )
    alone, harness = (statistics.median(column) for column in zip(*rows, strict=True))
    print("| | seconds | added |\n|---|---|---|")
    print(f"| bare | {alone:.3f} | |\n| predict | {harness:.3f} | {100 * (harness / alone - 1):+.1f} % |")


if __name__ == "__main__":
    main()
