"""Tasks: every dataset as (question, context, answer) triples. Importing this loads no data library."""

from decabench.tasks.custom import known_tasks
from decabench.tasks.example import SPLITS, Example
from decabench.tasks.registry import DECATHLON, TASKS, get_task
from decabench.tasks.task import Files, Hub, RemoteFile, Source, Task
from decabench.tasks.variants import Variant

__all__ = [
    "DECATHLON",
    "SPLITS",
    "TASKS",
    "Example",
    "Files",
    "Hub",
    "RemoteFile",
    "Source",
    "Task",
    "Variant",
    "get_task",
    "known_tasks",
]
