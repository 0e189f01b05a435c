"""Answers from other programs, and results and tasks for them."""

from decabench.exchange.foreign_files import FORMATS, Places
from decabench.exchange.imports import ImportReport, ImportSettings, RefusedImportError, import_answers

__all__ = [
    "FORMATS",
    "ImportReport",
    "ImportSettings",
    "Places",
    "RefusedImportError",
    "import_answers",
]
