"""Format figures as text: Markdown tables and their cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev

from papers.plan import Measure
from papers.scores import FIXED

NONE = "–"


def show(by_seed: Mapping[int, float], digits: int) -> str:
    """Format the mean of a row's figures by seed, with the standard deviation if there are several seeds."""
    figures = list(by_seed.values())
    if not figures:
        return NONE
    if FIXED in by_seed:
        return f"{figures[0]:.{digits}f}"
    spread = f" ± {stdev(figures):.{digits}f} ({len(figures)})" if len(figures) > 1 else " (1)"
    return f"{mean(figures):.{digits}f}{spread}"


def show_signed(digits: int, *ends: float) -> str:
    """Format a difference, or both ends of its interval."""
    return " to ".join(f"{end:+.{digits}f}" for end in ends)


def show_p(p: float | None) -> str:
    """Format a p value. None means that there was no test."""
    if p is None:
        return NONE
    return f"{p:.4f}" if p >= 0.0001 else "< 0.0001"


def published_remark(measure: Measure, development: bool) -> str:
    """Return the remark on published figures, or an empty string."""
    return ", ".join(remark for remark in (measure.remark, "dev" if development else "") if remark)


def in_brackets(remark: str) -> str:
    """Return a remark in parentheses, to be placed after a figure, or an empty string."""
    return f" ({remark})" if remark else ""


def join_words(words: Sequence[str]) -> str:
    """Join words with commas, and with "and" before the last."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def as_table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, leaving out columns that are empty in every row."""
    kept = [at for at in range(len(heads)) if not at or any(line[at] for line in lines)]
    cells = [[text.replace("|", "\\|") for text in line] for line in (heads, *lines)]
    head, *rows = ([line[at] for at in kept] for line in cells)
    rows = [head, ["---"] * len(kept), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
