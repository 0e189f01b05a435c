"""A comparison of two submissions as one page that opens from the disk."""

from __future__ import annotations

from pathlib import Path

from decabench.comparison import Comparison
from decabench.tasks.home import atomic_file

__all__ = ["write_comparison_page"]


def write_comparison_page(comparison: Comparison, path: Path) -> None:
    """Writes the page. All text of submissions and data is escaped. Raises StorageError."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("comparison.html").render(comparison=comparison)
    with atomic_file(path) as file:
        file.write(page.encode("utf-8", "replace"))
