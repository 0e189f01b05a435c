"""Every dataset as (question, context, answer) triples. Importing this loads no data library."""

from decabench.tasks.example import SPLITS, Example, Question
from decabench.tasks.preparation import Outcome, Request, available_splits, prepare_all, requested_splits
from decabench.tasks.registry import DECATHLON, TASKS, get_task, known_tasks
from decabench.tasks.store import SplitRecord, Store, canonical_json, fingerprint_line
from decabench.tasks.task import Files, Hub, RemoteFile, Source, Task, Variant

__all__ = [
    "DECATHLON",
    "SPLITS",
    "TASKS",
    "Example",
    "Files",
    "Hub",
    "Outcome",
    "Question",
    "RemoteFile",
    "Request",
    "Source",
    "SplitRecord",
    "Store",
    "Task",
    "Variant",
    "available_splits",
    "canonical_json",
    "fingerprint_line",
    "get_task",
    "known_tasks",
    "prepare_all",
    "requested_splits",
]
