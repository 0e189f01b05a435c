"""Every dataset as (question, context, answer) triples. Importing this package loads no data library."""

from decabench.tasks.example import SPLITS, Example, Question
from decabench.tasks.frames import load
from decabench.tasks.outputs import (
    Label,
    Number,
    Output,
    Tags,
    Text,
    Tree,
    default_metric,
    describe_output,
)
from decabench.tasks.preparation import (
    Preparation,
    Request,
    available_splits,
    is_web_address,
    prepare,
    prepare_all,
    requested_splits,
)
from decabench.tasks.registry import SUITES, TASKS, get_suite, get_task, known_suites, known_tasks
from decabench.tasks.store import SplitRecord, Store, fingerprint_line, home_folder
from decabench.tasks.suite import Combination, PublishedRow, Suite
from decabench.tasks.suites.decathlon import DECATHLON
from decabench.tasks.task import ContextLimit, Files, Hub, RemoteFile, Source, Task, context_limits
from decabench.tasks.wording import (
    KIND_OF_METRIC,
    KINDS,
    AnswerForm,
    Kind,
    PromptTemplate,
    Variant,
    fixed,
    matched,
    read_prompt,
    wrapped,
)

__all__ = [
    "DECATHLON",
    "KINDS",
    "KIND_OF_METRIC",
    "SPLITS",
    "SUITES",
    "TASKS",
    "AnswerForm",
    "Combination",
    "ContextLimit",
    "Example",
    "Files",
    "Hub",
    "Kind",
    "Label",
    "Number",
    "Output",
    "Preparation",
    "PromptTemplate",
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
    "context_limits",
    "default_metric",
    "describe_output",
    "fingerprint_line",
    "fixed",
    "get_suite",
    "get_task",
    "home_folder",
    "is_web_address",
    "known_suites",
    "known_tasks",
    "load",
    "matched",
    "prepare",
    "prepare_all",
    "read_prompt",
    "requested_splits",
    "wrapped",
]
