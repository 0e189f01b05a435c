"""What a run leaves to read: two CSV files, TensorBoard's events where it is installed, and a plot of both."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from decabench.files import atomic_file

__all__ = ["Log", "plot_curves", "read_rows"]

STEPS, VALIDATION = "train.csv", "validation.csv"
_COLUMNS = {
    STEPS: ("step", "task", "loss", "learning_rate", "gradient_norm", "examples", "tokens", "seconds"),
    VALIDATION: ("step", "task", "score"),
}


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file; none where there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Log:
    """Appends to a run's logs. What they hold beyond `step`, of a run that was killed, is dropped first."""

    def __init__(self, output: Path, step: int) -> None:
        for name, columns in _COLUMNS.items():
            kept = [row for row in read_rows(output / name) if _is_whole(row) and int(row["step"]) <= step]
            text = io.StringIO()
            writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
            writer.writeheader()
            writer.writerows(kept)
            with atomic_file(output / name) as file:
                file.write(text.getvalue().encode())
        # A line at a time, so that a run can be watched.
        self._files = {
            name: (output / name).open("a", encoding="utf-8", newline="", buffering=1) for name in _COLUMNS
        }
        self._board = _board(output / "tensorboard", step)

    def step(self, row: Mapping[str, Any]) -> None:
        """One optimizer step."""
        self._write(STEPS, row)
        if self._board is not None:
            for key in ("loss", "gradient_norm"):
                self._board.add_scalar(f"{key}/{row['task']}", row[key], row["step"])
            self._board.add_scalar("learning_rate", row["learning_rate"], row["step"])

    def validation(self, step: int, scores: Mapping[str, float]) -> None:
        """One validation."""
        for task, score in scores.items():
            self._write(VALIDATION, {"step": step, "task": task, "score": f"{score:.4f}"})
            if self._board is not None:
                self._board.add_scalar(f"score/{task}", score, step)

    def _write(self, name: str, row: Mapping[str, Any]) -> None:
        csv.DictWriter(self._files[name], _COLUMNS[name], lineterminator="\n").writerow(row)

    def close(self) -> None:
        """Ends the logs."""
        for file in self._files.values():
            file.close()
        if self._board is not None:
            self._board.close()


def _is_whole(row: Mapping[str, str | None]) -> bool:
    """Whether a line is not the last of a run that was killed while it wrote."""
    return None not in row.values() and (row["step"] or "").isdigit()


def _board(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:  # an extra of its own: the CSV files say the same
        return None
    return SummaryWriter(str(folder), purge_step=step + 1)


def plot_curves(output: Path) -> Path | None:
    """Draws `curves.png` from the CSV files: loss (a running mean) and score by task. None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    loss, score = figure.subplots(1, 2)
    for task, rows in _by_task(read_rows(output / STEPS)).items():
        steps, losses = [int(row["step"]) for row in rows], [float(row["loss"]) for row in rows]
        loss.plot(steps, _running_mean(losses, max(1, len(losses) // 50)), label=task, linewidth=1)
    loss.set(xlabel="step", ylabel="loss per answer token", yscale="log")
    validated = _by_task(read_rows(output / VALIDATION))
    validated.pop("total", None)  # of another scale
    for task, rows in validated.items():
        steps, scores = [int(row["step"]) for row in rows], [float(row["score"]) for row in rows]
        score.plot(steps, scores, label=task, marker=".", linewidth=1)
    score.set(xlabel="step", ylabel="validation score", ylim=(0, 100))
    for axes in (loss, score):
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(fontsize="small")
    path = output / "curves.png"
    with atomic_file(path) as file:
        figure.savefig(file, format="png", dpi=120)
    return path


def _by_task(rows: Sequence[Mapping[str, str]]) -> dict[str, list[Mapping[str, str]]]:
    made: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        made.setdefault(row["task"], []).append(row)
    return made


def _running_mean(values: Sequence[float], window: int) -> list[float]:
    import numpy as np

    total = np.cumsum([0.0, *values])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(0, ends - window)
    return list(((total[ends] - total[starts]) / (ends - starts)).tolist())
