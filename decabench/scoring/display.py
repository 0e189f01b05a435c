"""Results as tables: HTML for notebooks, a few lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from decabench.text import terminal_safe

__all__ = ["show_html", "show_lines"]


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
