"""Logs of a training run: CSV files, a plot and progress messages."""

from __future__ import annotations

import csv
import io
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decabench.errors import DataError
from decabench.files import atomic_file, require_machine, storage_errors, write_file

if TYPE_CHECKING:
    from decabench.exchange import Trackers

STEPS, VALIDATION = "train.csv", "validation.csv"
_NOT_A_LOG = (
    "{path} is not a training log ({error}). Move the file out of the run's folder, then resume the run."
)
_COLUMNS = {
    STEPS: ("step", "task", "loss", "learning_rate", "gradient_norm", "examples", "tokens", "seconds"),
    VALIDATION: ("step", "task", "score"),
}


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file, or an empty list if the file does not exist.

    Raises DataError if the file can't be read.
    """
    if not path.exists():
        return []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        require_machine(error, path)
        raise DataError(_NOT_A_LOG.format(path=path, error=error)) from error


def has_steps(output: Path) -> bool:
    """Return whether a folder contains the step log of a run."""
    file = output / STEPS
    return file.exists() and file.read_bytes()[:1_000].startswith(",".join(_COLUMNS[STEPS]).encode())


class TrainingLog:
    """The log files of a run, opened for appending.

    If a killed run left lines for steps after `step`, they are removed. Raises DataError if one of the files is not
    a log, and StorageError if a log can't be written.
    """

    def __init__(
        self, output: Path, step: int, losses: Sequence[str] = (), trackers: Trackers | None = None
    ) -> None:
        """Open the logs.

        Each of `losses` gets a column `loss.NAME`. Losses, gradient norms, learning rates and scores are
        also sent to `trackers`.
        """
        self._output, self._trackers = output, trackers
        self._columns = {**_COLUMNS, STEPS: (*_COLUMNS[STEPS], *(f"loss.{name}" for name in losses))}
        for name, columns in self._columns.items():
            rows = read_rows(output / name)
            if rows and "step" not in rows[0]:
                raise DataError(_NOT_A_LOG.format(path=output / name, error="the 'step' column is missing"))
            kept = [row for row in rows if _is_whole(row) and int(row["step"]) <= step]
            text = io.StringIO()
            writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
            writer.writeheader()
            writer.writerows(kept)
            write_file(output / name, text.getvalue())
        # Buffer single lines only, so that users can follow the logs during a run.
        self._files = {
            name: (output / name).open("a", encoding="utf-8", newline="", buffering=1)
            for name in self._columns
        }

    def step(self, row: Mapping[str, Any]) -> None:
        """Log an optimizer step."""
        self._write(STEPS, row)
        if self._trackers is not None:
            measured = [key for key in row if key.startswith("loss") or key == "gradient_norm"]
            numbers = {f"{key}/{row['task']}": row[key] for key in measured}
            self._trackers.log({**numbers, "learning_rate": row["learning_rate"]}, row["step"])

    def validation(self, step: int, scores: Mapping[str, float]) -> None:
        """Log the scores of a validation."""
        for task, score in scores.items():
            self._write(VALIDATION, {"step": step, "task": task, "score": f"{score:.4f}"})
        if self._trackers is not None:
            self._trackers.log({f"score/{task}": score for task, score in scores.items()}, step)

    def _write(self, name: str, row: Mapping[str, Any]) -> None:
        with storage_errors(self._output / name):
            csv.DictWriter(self._files[name], self._columns[name], lineterminator="\n").writerow(row)

    def close(self) -> None:
        """Close the log files. Raises StorageError if a file can't be written."""
        for name, file in self._files.items():
            with storage_errors(self._output / name):
                file.close()


def _is_whole(row: Mapping[str, str | None]) -> bool:
    # A run that is killed while writing leaves an incomplete line.
    return None not in row.values() and (row["step"] or "").isdecimal()


class ProgressReport:
    """Reports progress with a bar on a terminal, or by printing a line at regular intervals."""

    def __init__(
        self,
        step: int,
        steps: int,
        bar: bool,
        say: Callable[[str], None],
        time_left: float = math.inf,
    ) -> None:
        """Report the progress of a run that has completed `step` of `steps` steps.

        `time_left` is the number of seconds until the run's time limit. If `bar` is false, a line is passed to `say`
        every minute.
        """
        self._bar: Any = None
        if bar:
            from tqdm import tqdm

            self._bar = tqdm(total=steps, initial=step, disable=None, unit="step")
        self._say, self._steps, self._time_left = say, steps, time_left
        self._begun = self._last = time.monotonic()
        self._done = self._tokens = 0
        self._losses: dict[str, float] = {}

    def step(self, row: Mapping[str, Any]) -> None:
        """Count a step and report the progress, given the step's row in the log."""
        task, loss = row["task"], float(row["loss"])
        self._losses[task] = loss if task not in self._losses else 0.9 * self._losses[task] + 0.1 * loss
        self._done, self._tokens = self._done + 1, self._tokens + row["tokens"]
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(1)
            self._bar.set_postfix_str(f"{task} {loss:.3f}", refresh=False)
        elif now - self._last >= 60:
            self._last = now
            self._say(self._line(row["step"], now - self._begun))

    def _line(self, step: int, seconds: float) -> str:
        losses = ", ".join(f"{name} {value:.3f}" for name, value in self._losses.items())
        needed = seconds / self._done * (self._steps - step)
        given = max(0.0, self._time_left - seconds)
        # Otherwise the time limit ends the run first.
        total = f" of {self._steps:,}" if needed <= given else ""
        return (
            f"step {step:,}{total}: loss {losses}; {self._done / seconds:.1f} steps and "
            f"{self._tokens / seconds:,.0f} target tokens per second; "
            f"{_format_duration(min(needed, given))} left"
        )

    def say(self, text: str) -> None:
        """Print a message on a separate line above the bar."""
        if self._bar is None:
            self._say(text)
            return
        self._bar.clear()
        self._say(text)
        self._bar.refresh()

    def close(self) -> None:
        """Close the progress bar."""
        if self._bar is not None:
            self._bar.close()


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{rest} s"


def plot_curves(output: Path) -> Path | None:
    """Plot the loss (a running mean) and score of each task to `curves.png` and return its path.

    Returns None if matplotlib is not installed.
    """
    import numpy as np

    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    loss, score = figure.subplots(1, 2)
    for axes, name, column in ((loss, STEPS, "loss"), (score, VALIDATION, "score")):
        by_task: dict[str, list[tuple[int, float]]] = {}
        for row in read_rows(output / name):
            by_task.setdefault(row["task"], []).append((int(row["step"]), float(row[column])))
        by_task.pop("total", None)  # its scale is different
        for task, points in by_task.items():
            steps, values = np.array(points).T
            if axes is loss:  # the mean of each value and those before it, up to a fiftieth of all values
                window = max(1, len(values) // 50)
                sums = np.convolve(values, np.ones(window))[: len(values)]
                values = sums / np.minimum(np.arange(1, len(values) + 1), window)
            axes.plot(steps, values, label=task, linewidth=1, marker="." if axes is score else None)
    positive = all(value > 0 for line in loss.lines for value in line.get_ydata())
    loss.set(xlabel="step", ylabel="loss", yscale="log" if positive else "linear")
    score.set(xlabel="step", ylabel="validation score")
    for axes in (loss, score):
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(fontsize="small")
    path = output / "curves.png"
    with atomic_file(path) as file:
        figure.savefig(file, format="png", dpi=120)
    return path
