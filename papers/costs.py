"""Gain and cost of each kind of sharing, as a table and a plot of scores, weights and training minutes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from papers.effort import measure_effort
from papers.plan import Place, Plan
from papers.scores import FIXED, Scored, Tested, compare_rows, spread_over_seeds, values

MARKERS = "osD^vP*X<>hd"
COLORS = (*(f"C{at}" for at in range(10)), "black", "navy", "darkgreen", "maroon", "gold", "teal")


@dataclass(frozen=True)
class Cost:
    """The score and effort of a row."""

    row: str
    figures: Mapping[int, float]
    """The score for each seed."""
    twin: str
    """The name of the row to compare with. Empty if no contrast names such a row, or if it has no runs."""
    tested: Tested | None
    """The result of comparing the two rows, or None if there is no row to compare with."""
    weights: int | None
    """The number of weights in all models of the row, without embeddings."""
    minutes: float | None
    """The training minutes for one seed."""

    @property
    def ends(self) -> tuple[float, float] | None:
        """The 95% interval of the gain, over texts and seeds if possible, otherwise over texts.

        None without a test.
        """
        if self.tested is None:
            return None
        if (both := self.tested.over_seeds) is not None:
            return both.low, both.high
        return self.tested.over_texts


def read_costs(plan: Plan, scored: Scored, place: Place) -> list[Cost]:
    """Return the costs of all rows that have a score on the measure `costs`.

    Each row is compared with the first row that it can be tested against. Untrained rows are left out,
    because they cost nothing.
    """
    measure = plan.measures[plan.costs]
    spread = spread_over_seeds(plan, scored, measure, place)
    contrasts = [one for one in plan.contrasts if plan.costs in one.measures and len(one.baseline) == 1]
    found = []
    for row in plan.trained_rows:
        figures = values(scored, row, measure, place)
        if not figures or FIXED in figures:
            continue
        effort = measure_effort(plan, place, row)
        twin, tested = "", None
        for contrast in (one for one in contrasts if one.row == row and tested is None):
            twin, tested = contrast.baseline[0], compare_rows(contrast, measure, scored, place, spread)
        found.append(Cost(row, figures, twin if tested else "", tested, effort.all_weights, effort.minutes))
    return found


def cost_lines(costs: Sequence[Cost], digits: int) -> tuple[list[str], list[list[str]]]:
    """Return the headings and rows of the table."""
    by_row = {one.row: one for one in costs}
    both = any(one.tested and one.tested.over_seeds for one in costs)
    lines = []
    for one in costs:
        twin, gain = by_row.get(one.twin), one.tested.difference if one.tested else None
        lines.append(
            [
                one.row,
                f"{mean(one.figures.values()):.{digits}f}",
                str(len(one.figures)),
                one.twin,
                "" if gain is None else f"{gain:+.{digits + 1}f}",
                "" if one.ends is None else " to ".join(f"{end:+.{digits + 1}f}" for end in one.ends),
                "" if one.weights is None else f"{one.weights:,}",
                _times(one.weights, twin.weights if twin else None),
                "" if one.minutes is None else f"{one.minutes:.0f}",
                _times(one.minutes, twin.minutes if twin else None),
            ]
        )
    interval = "95%, texts and seeds" if both else "95%, texts"
    heads = ["", "score", "seeds", "compared with", "gain", interval, "weights of all its models"]
    return [*heads, "weights, times", "training minutes per seed", "minutes, times"], lines


def _times(own: float | None, other: float | None) -> str:
    return f"{own / other:.2f}" if own and other else ""


def plot_costs(costs: Sequence[Cost], name: str, path: Path) -> None:
    """Plot each row's gain over its baseline, and plot scores against weights and against training minutes.

    An arrow points from each baseline to the rows that are compared with it.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.8, 4.6), layout="constrained")
    gains, weights, minutes = (figure.add_subplot(1, 3, at) for at in (1, 2, 3))
    _plot_gains(gains, [one for one in costs if one.tested], name)
    _plot_points(weights, costs, lambda one: one.weights, "weights of all its models, without embeddings")
    _plot_points(minutes, costs, lambda one: one.minutes, "training minutes per seed")
    weights.set_ylabel(name, fontsize="small")
    handles, labels = weights.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize="x-small", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _plot_gains(axes: Any, costs: Sequence[Cost], name: str) -> None:
    axes.set_xlabel(f"gain in {name}, with its 95% interval", fontsize="small")
    axes.axvline(0, color="black", linewidth=0.8)
    for at, one in enumerate(reversed(costs)):
        assert one.tested is not None
        if one.ends is not None:
            axes.plot(one.ends, (at, at), color="C0", linewidth=1.5)
        axes.plot(one.tested.difference, at, "o", color="C0", markersize=4)
    titles = [f"{one.row}\nover {one.twin}" for one in reversed(costs)]
    axes.set_yticks(range(len(costs)), titles, fontsize="xx-small")
    axes.grid(axis="x", alpha=0.3)


def _plot_points(axes: Any, costs: Sequence[Cost], read: Callable[[Cost], float | None], unit: str) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(unit, fontsize="small")
    places = {one.row: (x, mean(one.figures.values())) for one in costs if (x := read(one))}
    for at, one in enumerate(costs):
        if one.row not in places:
            continue
        x, y = places[one.row]
        color = COLORS[at % len(COLORS)]
        axes.plot(
            x, y, MARKERS[at % len(MARKERS)], color=color, markersize=6, linestyle="none", label=one.row
        )
        if len(one.figures) > 1:
            axes.plot((x, x), (min(one.figures.values()), max(one.figures.values())), color=color)
        if one.twin in places:
            style = {"arrowstyle": "->", "color": color, "alpha": 0.5, "shrinkA": 4, "shrinkB": 4}
            axes.annotate("", (x, y), places[one.twin], arrowprops=style)
    axes.grid(alpha=0.3)
