"""The project's own source files, read as syntax: what each module imports and offers."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["ROOT", "SHARED", "Import", "imports", "modules"]

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("DECABENCH_SHARED", ROOT.parent / "shared"))
"""The folder next to the project that contains the real data and the official scores."""
LINKED = ("metrics", "tasks", "leaderboard")


@dataclass(frozen=True)
class Import:
    """`from module import name`, or `import module` where the name is empty."""

    module: str
    """Absolute, `decabench.metrics.base`."""
    name: str
    """The name imported from the module."""
    relative: bool
    """Whether it was written with dots."""


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its name; the folders at the root count once, not again by their links."""
    found = {}
    for folder in ("decabench", *LINKED):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if folder == "decabench" and parts[1] in LINKED:
                continue
            parts = parts if folder == "decabench" else ("decabench", *parts)
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


@cache
def imports(text: str, module: str, is_package: bool = False) -> tuple[Import, ...]:
    """Every import of a source text, inside functions and under TYPE_CHECKING too."""
    return tuple(_imports(text, module, is_package))


def _imports(text: str, module: str, is_package: bool) -> Iterator[Import]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, "", False) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = _absolute(node, module, is_package)
            yield from (Import(source, alias.name, node.level > 0) for alias in node.names)


def _absolute(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    above = module.split(".")[: len(module.split(".")) - node.level + is_package]
    return ".".join([*above, node.module] if node.module else above)
