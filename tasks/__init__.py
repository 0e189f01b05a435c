"""Every dataset as (question, context, answer) triples. Importing this loads no data library."""

from decabench.tasks.example import SPLITS, Example, Question
from decabench.tasks.frames import load
from decabench.tasks.outputs import Label, Number, Output, Tags, Text, Tree, default_metric
from decabench.tasks.preparation import Outcome, Request, available_splits, prepare_all, requested_splits
from decabench.tasks.registry import SUITES, TASKS, get_task, known_tasks
from decabench.tasks.store import SplitRecord, Store, fingerprint_line, home_folder
from decabench.tasks.suite import Combination, PublishedRow, Suite
from decabench.tasks.suites.decathlon import DECATHLON
from decabench.tasks.task import Files, Hub, RemoteFile, Source, Task, Variant

__all__ = [
    "DECATHLON",
    "SPLITS",
    "SUITES",
    "TASKS",
    "Combination",
    "Example",
    "Files",
    "Hub",
    "Label",
    "Number",
    "Outcome",
    "Output",
    "PublishedRow",
    "Question",
    "RemoteFile",
    "Request",
    "Source",
    "SplitRecord",
    "Store",
    "Suite",
    "Tags",
    "Task",
    "Text",
    "Tree",
    "Variant",
    "available_splits",
    "default_metric",
    "fingerprint_line",
    "get_task",
    "home_folder",
    "known_tasks",
    "load",
    "prepare_all",
    "requested_splits",
]
