"""Answers from other programs, and results and tasks for them."""

from decabench.exchange.foreign_files import FORMATS, Places
from decabench.exchange.imports import ImportReport, ImportSettings, RefusedImportError, import_answers
from decabench.exchange.result_exports import export_results, find_results

__all__ = [
    "FORMATS",
    "ImportReport",
    "ImportSettings",
    "Places",
    "RefusedImportError",
    "export_results",
    "find_results",
    "import_answers",
]
