"""Figures as text: Markdown tables and their cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev

from papers.plan import Measure
from papers.scores import FIXED

NONE = "–"


def show(by_seed: Mapping[int, float], digits: int) -> str:
    """Format the mean of a row's figures by seed and, of several, their standard deviation."""
    figures = list(by_seed.values())
    if not figures:
        return NONE
    if FIXED in by_seed:
        return f"{figures[0]:.{digits}f}"
    spread = f" ± {stdev(figures):.{digits}f} ({len(figures)})" if len(figures) > 1 else " (1)"
    return f"{mean(figures):.{digits}f}{spread}"


def show_signed(digits: int, *ends: float) -> str:
    """Format a difference, or the ends of its interval."""
    return " to ".join(f"{end:+.{digits}f}" for end in ends)


def show_p(p: float | None) -> str:
    """Format a p; None is that of no test."""
    if p is None:
        return NONE
    return f"{p:.4f}" if p >= 0.0001 else "< 0.0001"


def published_remark(measure: Measure, development: bool) -> str:
    """Return what to know about published figures; empty if there is nothing."""
    return ", ".join(remark for remark in (measure.remark, "dev" if development else "") if remark)


def in_brackets(remark: str) -> str:
    """Return a remark as it stands behind a figure; empty if there is none."""
    return f" ({remark})" if remark else ""


def as_table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, without the columns that have nothing in any line."""
    kept = [at for at in range(len(heads)) if not at or any(line[at] for line in lines)]
    cells = [[text.replace("|", "\\|") for text in line] for line in (heads, *lines)]
    head, *rows = ([line[at] for at in kept] for line in cells)
    rows = [head, ["---"] * len(kept), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
