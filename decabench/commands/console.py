"""What commands print with."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "count", "score"]


def console(stderr: bool = False) -> Console:
    """A console whose tables fit the terminal, or 140 columns of a pipe or a file; a sentence stays one line."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 140
    return Console(stderr=stderr, width=width, highlight=False, markup=False, emoji=False, soft_wrap=True)


def count(value: int | None) -> str:
    """`87,599`, or a dash for what is not known."""
    return "–" if value is None else f"{value:,}"


def score(value: float | None) -> str:
    """`75.31`, or a dash for what was not scored."""
    return "–" if value is None else f"{value:.2f}"
