"""Results as tables: HTML for notebooks, a few lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from decabench.text import terminal_safe

__all__ = ["show_difference", "show_html", "show_interval", "show_lines", "show_p"]


def show_interval(ends: tuple[float, float] | None, digits: int = 2, sign: str = "") -> str:
    """Return `24.5 to 59.1`, or with the sign `+` `+0.12 to +0.98`; a dash if there is no interval."""
    return "–" if ends is None else f"{ends[0]:{sign}.{digits}f} to {ends[1]:{sign}.{digits}f}"


def show_difference(interval: tuple[float, float] | None, same: bool) -> str:
    """Return the interval of a difference, with signs; or that no sampled unit tells the two apart."""
    return "nothing differs" if same else show_interval(interval, sign="+")


def show_p(p: float | None) -> str:
    """Return a p-value as `0.0312`, or a dash if there was no test."""
    return "–" if p is None else f"{p:.4f}"


def show_html(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table whose first two columns are names; whatever is in it is shown as plain text."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f'<{tag} style="text-align: {"left" if at < 2 else "right"}">{escape(terminal_safe(cell))}</{tag}>'
            for at, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    caption = f'<caption style="text-align: left">{escape(terminal_safe(title))}</caption>'
    return f"<table>{caption}<thead><tr>{cells('th', headings)}</tr></thead><tbody>{body}</tbody></table>"


def show_lines(title: str, rows: Iterable[Sequence[str]]) -> str:
    """Return a title and a line for each row, its cells below each other."""
    found = [[terminal_safe(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*found, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in found)
    return "\n".join([terminal_safe(title), *(f"  {line}" for line in lines)])
