"""Draws the training losses of several runs side by side, and prints them as a table.

    python tools/learning_curves.py NAME=RUN[,RUN...] ... [--task sst] [--steps 100,200,300,600] [--window 50]
                                    [--output curves.png]

Each NAME is a line of the plot and a column of the table; of several runs, such as one for each seed, the mean
is shown and their range is shaded. RUN is a folder that `decabench train` wrote; its train.csv is all that is read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from decabench.training.logs import read_rows, running_mean

Curve = npt.NDArray[np.float64]


def read_losses(run: Path, task: str) -> Curve:
    """Read the losses of one task's steps, in the order of training. Ends the script if there are none."""
    path = run / "train.csv"
    if not path.is_file():
        sys.exit(f"{run} has no train.csv: name a folder that `decabench train` wrote.")
    rows = [(row["task"], float(row["loss"])) for row in read_rows(path)]
    losses = [loss for name, loss in rows if not task or name == task]
    if not losses:
        names = ", ".join(sorted({name for name, _ in rows}))
        sys.exit(f"{run} has no steps of {task or 'any task'}" + (f"; it has {names}." if names else "."))
    return np.array(losses)


def read_group(runs: str, task: str, window: int) -> Curve:
    """Read a group of runs as smoothed curves of one length, the shortest run's: shape (runs, steps)."""
    curves = [np.array(running_mean(read_losses(Path(run), task), window)) for run in runs.split(",")]
    shortest = min(map(len, curves))
    return np.stack([curve[:shortest] for curve in curves])


def as_table(groups: dict[str, Curve], steps: Sequence[int]) -> str:
    """Return a Markdown table: a row for each step, a column for each group's mean loss, `–` where it has ended."""
    lines = ["| step | " + " | ".join(groups) + " |", "|---" * (len(groups) + 1) + "|"]
    for step in steps:
        cells = (
            f"{curves[:, step - 1].mean():.3f}" if step <= curves.shape[1] else "–"
            for curves in groups.values()
        )
        lines.append(f"| {step:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot(groups: dict[str, Curve], path: Path, title: str) -> None:
    """Draw each group's mean and its range over runs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for name, curves in groups.items():
        steps = np.arange(1, curves.shape[1] + 1)
        (line,) = axes.plot(steps, curves.mean(0), label=f"{name} ({len(curves)})", linewidth=1.2)
        if len(curves) > 1:
            axes.fill_between(
                steps, curves.min(0), curves.max(0), color=line.get_color(), alpha=0.15, linewidth=0
            )
    axes.set(xlabel="step", ylabel="training loss", yscale="log", title=title)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", title="(runs)")
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="+", metavar="NAME=RUN[,RUN...]")
    parser.add_argument("--task", default="", help="which task's steps; without it, all steps")
    parser.add_argument("--steps", default="100,200,300,600,1000,2000,3000")
    parser.add_argument("--window", type=int, default=50)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    pairs = [group.partition("=") for group in given.groups]
    if wrong := [name for name, _, runs in pairs if not runs]:
        parser.error(f"{wrong[0]!r} is not NAME=RUN.")
    groups = {name: read_group(runs, given.task, given.window) for name, _, runs in pairs}
    print(as_table(groups, [int(step) for step in given.steps.split(",")]))
    if given.output:
        plot(groups, given.output, given.task)


if __name__ == "__main__":
    main()
