"""Outside code, found only when somebody asks for it: `package.module:object`, a file, an entry point."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from decabench.errors import UnknownNameError

__all__ = ["load_entry_point", "load_file", "load_object", "plugin_names"]

_BROKEN = (Exception, SystemExit)
"""What a module may raise when it runs: a script that ends itself must not end decabench as if all were well."""


def load_object(reference: str) -> Any:
    """The object that `package.module:object` names. Raises UnknownNameError.

    Modules of the current folder are found, as by `python -m`: its folder goes first on `sys.path` and stays there,
    for a module may import others only when it is used.
    """
    module_name, _, path = reference.partition(":")
    if not module_name or not path:
        raise UnknownNameError(f"{reference!r} names no object: write package.module:object.")
    _look_here()
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise UnknownNameError(
            f"{reference!r} cannot be imported ({error}): is its package installed?"
        ) from error
    except _BROKEN as error:
        raise UnknownNameError(
            f"{reference!r} cannot be imported, for its module fails ({type(error).__name__}: {error}): mend it."
        ) from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise UnknownNameError(f"{module_name} has no {part!r}, which {reference!r} asks for.")
        found = getattr(found, part)
    return found


def _look_here() -> None:
    """An installed script has the folder of the script on `sys.path`, not the one it is started in."""
    here = os.getcwd()
    if not {"", here} & set(sys.path):
        sys.path.insert(0, here)


def load_file(path: Path) -> ModuleType:
    """A Python file as a module. It runs: include only files that you trust."""
    name = f"decabench_include_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UnknownNameError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # as an import does: dataclasses look for their module there
    try:
        spec.loader.exec_module(module)
    except _BROKEN as error:  # whatever the file raises is about the file
        del sys.modules[name]
        raise UnknownNameError(f"{path} cannot be run ({type(error).__name__}: {error}).") from error
    return module


def plugin_names(group: str) -> dict[str, EntryPoint]:
    """The installed entry points of a group by name, not loaded."""
    return {point.name: point for point in entry_points(group=group)}


def load_entry_point(point: EntryPoint) -> Any:
    """What an entry point names. Raises UnknownNameError where its package is broken."""
    try:
        return point.load()
    except _BROKEN as error:  # a broken package must not break decabench
        raise UnknownNameError(
            f"The entry point {point.name} = {point.value} cannot be loaded ({error})."
        ) from error
