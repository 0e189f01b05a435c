from __future__ import annotations

import ast
import importlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest

from tests.sources import Import, imports, modules

ROOMS = (
    "metrics",
    "base",
    "tasks",
    "prompts",
    "submission",
    "vectors",
    "models",
    "scoring",
    "exchange",
    "predictors",
    "training",
    "runs",
    "leaderboard",
    "commands",
    "console",
)
"""Rooms from the lowest to the highest. A room may import the rooms before it. `base` has errors, files and similar
modules. `console` has the command line and the package's public names, which it loads from all rooms on request."""

BESIDE = {"training": {"predictors"}, "leaderboard": {"predictors", "training", "runs"}, "runs": {"training"}}
"""Lower rooms that a room must not import, because the two are on one level."""

ON_USE = {"sacrebleu", "rouge_score", "numpy"}
"""Packages that metrics may import on first use: scorers, and numpy for arrays."""

WITH_TORCH = ("vectors", "models", "training", "predictors")


def room(module: str) -> str:
    """Return the room that a module belongs to."""
    if module in ("decabench", "decabench.cli", "decabench.__main__"):
        return "console"
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else "base"


def face(module: str) -> str:
    """Return the package from which other rooms must import."""
    return f"decabench.{room(module)}"


def target(found: Import) -> str:
    """Return the module that an import loads. `from decabench.tasks import store` loads the store."""
    whole = f"{found.module}.{found.name}"
    return whole if whole in modules() else found.module


def faults(module: str, found: Import) -> Iterator[str]:
    """Yield the rules that an import breaks."""
    own, reached = room(module), target(found)
    if reached.partition(".")[0] == "decabench" and reached != "decabench":
        other = room(reached)
        allowed = set(ROOMS[: ROOMS.index(own) + 1]) - BESIDE.get(own, set())
        if other not in allowed:
            yield f"{module} imports {reached}, and {own} is below {other} or on its level"
        if (
            other not in (own, "base", "commands", "console")
            and reached != face(reached)
            and not is_public(reached)
        ):
            yield f"{module} imports {reached}, and not the face {face(reached)}"
    top = found.module.partition(".")[0]
    if own == "metrics":
        if top == "decabench" and not found.relative:
            yield f"{module} does not import {found.module} relatively"
        elif top not in sys.stdlib_module_names | ON_USE | {"decabench"}:
            yield f"{module} imports {found.module}"
    if top == "torch" and own not in WITH_TORCH:
        yield f"{module} imports torch"


def is_public(module: str) -> bool:
    """Return whether a module is public by itself: named in a table and loaded on request."""
    return module == "decabench.metrics.selftest"


def test_no_package_imports_papers() -> None:
    for module, path in modules().items():
        found = imports(path.read_text(encoding="utf-8"), module, path.name == "__init__.py")
        assert "papers" not in {each.module.partition(".")[0] for each in found}, module


def all_faults(module: str, text: str, is_package: bool = False) -> list[str]:
    """Return the rules that the imports of a source text break."""
    return [fault for found in imports(text, module, is_package) for fault in faults(module, found)]


@pytest.mark.parametrize("module", modules())
def test_imports_go_downward_and_through_packages(module: str) -> None:
    path = modules()[module]
    assert all_faults(module, path.read_text(encoding="utf-8"), path.name == "__init__.py") == []


@pytest.mark.parametrize(
    ("module", "text", "count"),
    [
        ("decabench.metrics.x", "from ..tasks import Task", 1),
        ("decabench.metrics.x", "def f():\n    import sacrebleu", 0),
        ("decabench.tasks.x", "def f():\n    from decabench import scoring", 1),
        ("decabench.scoring.x", "from decabench.tasks.store import Store", 1),
        ("decabench.scoring.x", "import torch.nn", 1),
        ("decabench.commands.x", "from decabench.leaderboard import build", 0),
    ],
)
def test_wrong_imports_are_found(module: str, text: str, count: int) -> None:
    assert len(all_faults(module, text)) == count


def imported(module: str) -> set[str]:
    """Return the project's files that a file imports, including inside functions, except its own room's `__init__`."""
    path = modules()[module]
    found = imports(path.read_text(encoding="utf-8"), module, path.name == "__init__.py")
    return {reached for reached in map(target, found) if reached in modules()} - {module}


def circle(arrows: Mapping[str, set[str]]) -> list[str]:
    """Return files that import each other in a circle, if any."""
    left = {name: set(reached) for name, reached in arrows.items()}
    while free := [name for name, reached in left.items() if not reached & left.keys()]:
        for name in free:
            del left[name]
    if not left:
        return []
    way = [next(iter(left))]
    while (following := min(left[way[-1]] & left.keys())) not in way:
        way.append(following)
    return way[way.index(following) :]


def test_no_files_import_each_other() -> None:
    arrows = {
        module: imported(module) - {"decabench"} for module in modules()
    }  # which is lazy, and has the version
    assert circle(arrows) == []


def test_no_package_exports_a_name_that_is_also_a_file() -> None:
    hidden = []
    for package in {face(module) for module in modules() if room(module) in ROOMS[2:-2]}:
        listed = getattr(importlib.import_module(package), "__all__", ())
        hidden += [f"{package}.{name}" for name in listed if f"{package}.{name}" in modules()]
    assert sorted(hidden) == []


def test_no_two_files_have_one_name() -> None:
    names = Counter(path.name for path in modules().values() if not path.name.startswith("__"))
    assert {name: count for name, count in names.items() if count > 1} == {}


def test_no_two_public_classes_have_one_name() -> None:
    names: Counter[str] = Counter()
    for path in modules().values():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names.update(
            node.name for node in tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_"
        )
    assert {name: count for name, count in names.items() if count > 1} == {}
