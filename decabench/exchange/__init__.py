"""Import answers from other programs, and export results and tasks to other tools."""

from pathlib import Path
from typing import Any

from decabench.errors import require_package
from decabench.exchange.foreign_files import FORMATS
from decabench.exchange.foreign_rows import Places
from decabench.exchange.imports import ImportReport, ImportSettings, import_answers
from decabench.exchange.result_exports import (
    escape_markdown,
    export_results,
    find_results,
    group_seeds,
    push_card,
)
from decabench.exchange.row_matching import RefusedImportError
from decabench.exchange.task_exports import HARNESSES, ExportedTask, export_tasks
from decabench.exchange.trackers import TRACKERS, Tracker, Trackers, make_trackers, track_results

__all__ = [
    "FORMATS",
    "HARNESSES",
    "TRACKERS",
    "ExportedTask",
    "ImportReport",
    "ImportSettings",
    "Places",
    "RefusedImportError",
    "Tracker",
    "Trackers",
    "escape_markdown",
    "export_results",
    "export_tasks",
    "find_results",
    "group_seeds",
    "import_answers",
    "make_inspect_task",
    "make_trackers",
    "push_card",
    "track_results",
]


def make_inspect_task(path: str | Path) -> Any:
    """Return an exported task as an `inspect_ai.Task`.

    Raises DecabenchError if Inspect is not installed.
    """
    require_package("The exported task", "inspect", "inspect_ai")
    from decabench.exchange import inspect_scorer

    return inspect_scorer.make_inspect_task(path)
