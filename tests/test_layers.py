"""Dependencies point one way: metrics <- tasks <- decabench <- leaderboard, and only models know torch."""

import sys

import pytest

from tests.sources import Import, imports, modules

ON_USE = {"sacrebleu", "rouge_score", "numpy"}
"""What metrics may load beside the standard library, on first use: scorers, and numpy where arrays are given."""

FRONT = ("decabench.cli", "decabench.commands")
MODELS = ("decabench.models", "decabench.training")


def within(module, *packages):
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def room(module):
    """Which of the four a module belongs to, and the console as a fifth."""
    if within(module, *FRONT):
        return "console"
    part = module.split(".")[1] if "." in module else ""
    return part if part in ("metrics", "tasks", "leaderboard") else "decabench"


MAY_IMPORT = {
    "metrics": {"metrics"},
    "tasks": {"metrics", "tasks"},
    "decabench": {"metrics", "tasks", "decabench"},
    "leaderboard": {"metrics", "tasks", "decabench", "leaderboard"},
    "console": {"metrics", "tasks", "decabench", "leaderboard", "console"},
}


def target(found):
    """The module that an import reaches: `from decabench.tasks import store` is the store."""
    whole = f"{found.module}.{found.name}"
    return whole if whole in modules() else found.module


def faults(module, found):
    """What an import breaks."""
    reached = target(found)
    if within(reached, "decabench") and room(reached) not in MAY_IMPORT[room(module)]:
        # The bare package holds only the version and three lazy names; metrics must do without it too.
        if reached != "decabench" or room(module) == "metrics":
            yield f"{module} imports {reached}"
    if room(module) == "metrics":
        top = found.module.partition(".")[0]
        if top == "decabench" and not found.relative:
            yield f"{module} does not import {found.module} relatively"
        elif top not in sys.stdlib_module_names | ON_USE | {"decabench"}:
            yield f"{module} imports {found.module}"
    if within(found.module, "torch") and not within(module, *MODELS, "decabench.predictors"):
        yield f"{module} imports torch"


def all_faults(module, text, is_package=False):
    return [fault for found in imports(text, module, is_package) for fault in faults(module, found)]


@pytest.mark.parametrize("module", modules())
def test_dependencies_point_one_way(module):
    path = modules()[module]
    assert all_faults(module, path.read_text(encoding="utf-8"), path.name == "__init__.py") == []


@pytest.mark.parametrize(
    ("module", "text", "count"),
    [
        ("decabench.metrics.x", "from .base import Item\nimport math", 0),
        ("decabench.metrics.x", "from decabench.metrics.base import Item", 1),
        ("decabench.metrics.x", "from ..tasks import Task", 1),
        ("decabench.metrics.x", "import pandas", 1),
        ("decabench.metrics.x", "def f():\n    import sacrebleu", 0),
        ("decabench.tasks.x", "from decabench.metrics.errors import DecabenchError", 0),
        ("decabench.tasks.x", "from decabench.scoring import find_metric", 1),
        ("decabench.tasks.x", "def f():\n    from decabench import scoring", 1),
        ("decabench.scoring", "from decabench.tasks.store import Store", 0),
        ("decabench.scoring", "from decabench.leaderboard import build", 1),
        ("decabench.scoring", "from decabench.commands.options import home_option", 1),
        ("decabench.scoring", "import torch.nn", 1),
        ("decabench.tasks.x", "from torch import nn", 1),
        ("decabench.models.mqan", "import torch", 0),
        ("decabench.leaderboard.x", "from decabench.results import Results", 0),
        ("decabench.leaderboard.x", "from decabench.cli import cli", 1),
        ("decabench.commands.x", "from decabench.leaderboard import build", 0),
    ],
)
def test_the_rule_itself(module, text, count):
    assert len(all_faults(module, text)) == count


def test_relative_imports_are_resolved():
    assert list(imports("from .base import Item", "decabench.metrics", True)) == [
        Import("decabench.metrics.base", "Item", True)
    ]
    assert list(imports("from ..tasks import Task", "decabench.metrics.nf1")) == [
        Import("decabench.tasks", "Task", True)
    ]


def test_every_room_was_looked_at():
    assert {room(module) for module in modules()} == set(MAY_IMPORT)
