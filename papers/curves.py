"""Learning curves. Each panel shows a measure for at most eight rows, with the mean and range over seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from textwrap import fill
from typing import Any

from papers.effort import asked_for, read_training
from papers.plan import Measure, Place, Plan, SeededRun, Table, seeded_runs, tasks_of
from papers.scores import combine

LINES = 8
"""The maximum number of lines in a panel."""

LABEL = 48
"""The maximum length of a line in a label, in characters."""

COLORS = 10
"""The number of colors to use before they repeat in a different line style."""

STYLES = ("-", "--", ":", "-.")

Curve = list[tuple[float, float]]
"""The epoch or step, and the score, of each validation."""


@dataclass(frozen=True)
class Panel:
    """A panel of a plot."""

    title: str
    """The name of the validated task or suite."""
    unit: str
    """The unit of the horizontal axis."""
    curves: Mapping[str, Sequence[Curve]]
    """The curves of each row, with one curve per seed."""
    colors: Mapping[str, int]
    """The color number of each row, which is the same in all panels of a plot."""
    number: str = ""
    """The number of the panel among panels with the same title."""


def read_curve(plan: Plan, place: Place, row: str, measure: Measure, seed: int) -> tuple[str, Curve] | None:
    """Return a row's learning curve on a task or suite, and the unit of its first column, `epoch` or `step`.

    The curve of a suite consists of the suite's totals. If its tasks have separate runs, their first validations are
    combined, then their second validations, and so on. Only completed runs count, and runs that learned from the
    validation examples are left out. Returns None if this leaves a task without a curve.
    """
    tasks = tasks_of(measure, place.include)
    found: dict[str, Curve] = {}
    epochs = True
    for one in seeded_runs(plan, place, plan.runs_of(row), {seed}):
        training = read_training(one)
        if training is None or _learns_validation(one):
            continue
        for task in set(one.run.tasks) & set(tasks):
            points = [(step, score) for step, own, score in training.validations if own == task]
            found[task] = (
                [(at, score) for at, (_, score) in enumerate(points, 1)] if training.by_epoch else points
            )
            epochs = epochs and training.by_epoch
    if set(found) != set(tasks) or not all(found.values()):
        return None
    curves = [found[task] for task in tasks]
    points = Curve()
    for together in zip(*curves, strict=False):
        scores = dict(zip(tasks, (score for _, score in together), strict=True))
        points.append((mean(x for x, _ in together), combine(measure, scores, place)))
    return "epoch" if epochs else "step", points


def _learns_validation(one: SeededRun) -> bool:
    asked = asked_for(one)
    return bool({**asked["config"], **asked["settings"]}.get("learn_validation"))


def make_panels(plan: Plan, place: Place, table: Table) -> Iterator[Panel]:
    """Yield the panels of a table: for each task or suite, one panel for every eight rows.

    A transposed table has no panels.
    """
    seen = set()
    colors = {row: number for number, row in enumerate(plan.rows_of(table, place.include))}
    for name in () if table.transposed else table.measures:
        measure = plan.measures[name]
        tasks = tasks_of(measure, place.include)
        if (
            tasks in seen or measure.split
        ):  # scores on the same task share a curve, which shows validation scores
            continue
        seen.add(tasks)
        found: dict[str, list[Curve]] = {}
        units = set()
        for row in plan.rows_of(table, place.include):
            for seed in sorted({seed for run in plan.runs_of(row) for seed in plan.seeds_of(run)}):
                if (read := read_curve(plan, place, row, measure, seed)) is not None:
                    units.add(read[0])
                    found.setdefault(row, []).append(read[1])
        title = name if measure.suite else measure.task
        shown = list(found)
        for start in range(0, len(shown), LINES):
            part = {row: found[row] for row in shown[start : start + LINES]}
            place_of = f" ({start // LINES + 1} of {-(-len(shown) // LINES)})" if len(shown) > LINES else ""
            yield Panel(title, "epoch" if units == {"epoch"} else "step", part, colors, place_of)


def plot_panels(panels: Sequence[Panel], path: Path) -> None:
    """Plot panels, up to three side by side. Lines are means over seeds, and shading shows the range."""
    from matplotlib.figure import Figure

    across = min(3, len(panels))
    down = -(-len(panels) // across)
    figure = Figure(figsize=(4.6 * across, 3.4 * down), layout="constrained")
    for at, panel in enumerate(panels, 1):
        axes: Any = figure.add_subplot(down, across, at, title=panel.title + panel.number, xlabel=panel.unit)
        for row, curves in panel.curves.items():
            number = panel.colors[row]
            together = list(zip(*curves, strict=False))
            steps = [mean(x for x, _ in points) for points in together]
            scores = [[score for _, score in points] for points in together]
            style = STYLES[number // COLORS % len(STYLES)]
            axes.plot(
                steps,
                list(map(mean, scores)),
                style,
                color=f"C{number % COLORS}",
                linewidth=1.3,
                label=fill(row, LABEL),
                zorder=3 - len(steps) / 1000,  # so that a run doesn't hide the run that it continues
            )
            if len(curves) > 1:
                axes.fill_between(
                    steps,
                    list(map(min, scores)),
                    list(map(max, scores)),
                    color=f"C{number % COLORS}",
                    alpha=0.15,
                    linewidth=0,
                )
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_ylabel("validation score", fontsize="small")
        axes.set_ylim(*_limits([one for one in panels if one.title == panel.title]))
        axes.grid(alpha=0.3)
        axes.legend(fontsize="x-small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _limits(panels: Sequence[Panel]) -> tuple[float, float]:
    scores = [
        score
        for panel in panels
        for curves in panel.curves.values()
        for curve in curves
        for _, score in curve
    ]
    margin = 0.04 * (max(scores) - min(scores)) or 1.0
    return min(scores) - margin, max(scores) + margin
