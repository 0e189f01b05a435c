"""Outside code, loaded on request only: `package.module:object`, a Python file, an entry point."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from decabench.errors import DecabenchError, UnknownNameError

TRUSTED = "DECABENCH_MODELS"
"""The environment variable that lists the references that files may name."""
_FAILURES = (Exception, SystemExit)
"""Errors from running a module; a script that exits must not end decabench as if it had succeeded."""

_folders: list[Path] = []


def add_module_folder(folder: Path) -> None:
    """Make `load_object` search a folder too."""
    _folders.append(folder.absolute())


def load_object(reference: str) -> Any:
    """Import the object that the user named as `package.module:object`. Raises UnknownNameError.

    Modules in the current folder and in those of `add_module_folder` are found too, after the installed ones. The
    folders stay on `sys.path`, because a module may import others later.
    """
    searched = {path or os.getcwd() for path in sys.path}
    folders = dict.fromkeys(map(str, (Path.cwd(), *_folders)))
    sys.path += [folder for folder in folders if folder not in searched]
    found = _import_object(reference, "install its package, or run this in the folder of its file")
    _named_by_user.add(reference)
    return found


def load_named(reference: str, said_by: str) -> Any:
    """Import an object that a file names, if the user named it too; `said_by` says which file.

    The user names it in DECABENCH_MODELS, with commas between several, or gave the same reference before. The current
    folder is not searched: it may be the folder of the file. Raises DecabenchError, UnknownNameError.
    """
    trusted = {name.strip() for name in os.environ.get(TRUSTED, "").split(",")}
    if reference in trusted or reference in _named_by_user:
        return _import_object(reference, "install its package, or add the folder of its file to PYTHONPATH")
    raise DecabenchError(
        f"{said_by} names the model {reference}, but a file may not choose which code runs. If you "
        f"trust this model, set {TRUSTED}={reference}."
    )


_named_by_user: set[str] = set()
"""The references that the user has given in this process."""


def _import_object(reference: str, advice: str) -> Any:
    module_name, _, path = reference.partition(":")
    if not module_name or not path:
        raise UnknownNameError(f"{reference!r} does not name an object: write package.module:object.")
    if module_name.endswith(".py") or "/" in module_name or os.sep in module_name:
        folder, stem = os.path.dirname(module_name), os.path.basename(module_name).removesuffix(".py")
        place = "" if folder in ("", ".") else f"run this in {folder} and "
        raise UnknownNameError(f"{reference!r} names a file, not a module: {place}write {stem}:{path}.")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise UnknownNameError(f"{reference!r} cannot be imported ({error}): {advice}.") from error
    except _FAILURES as error:
        raise UnknownNameError(
            f"{reference!r} cannot be imported because its module fails ({type(error).__name__}: {error}): fix it."
        ) from error
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            place = f" ({module.__file__})" if getattr(module, "__file__", None) else ""
            raise UnknownNameError(f"{module_name}{place} has no {part!r}, which {reference!r} refers to.")
        found = getattr(found, part)
    return found


def load_file(path: Path) -> ModuleType:
    """Run a Python file and return it as a module. Raises UnknownNameError if it fails."""
    name = f"decabench_include_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UnknownNameError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # like an import, because dataclasses look for their module there
    try:
        spec.loader.exec_module(module)
    except _FAILURES as error:
        del sys.modules[name]
        raise UnknownNameError(f"{path} cannot be run ({type(error).__name__}: {error}): fix it.") from error
    return module


def plugin_names(group: str) -> dict[str, EntryPoint]:
    """Return the names of a group's installed entry points, not loaded."""
    return {point.name: point for point in entry_points(group=group)}


def load_entry_point(point: EntryPoint) -> Any:
    """Load the object of an installed package's entry point. Raises UnknownNameError if it fails."""
    try:
        return point.load()
    except _FAILURES as error:
        raise UnknownNameError(
            f"The entry point {point.name} = {point.value} cannot be loaded ({error}): reinstall or remove its package."
        ) from error
