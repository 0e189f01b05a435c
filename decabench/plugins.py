"""Load third-party code on request, from a `package.module:object` reference, a Python file or an entry point."""

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
"""The environment variable that lists the `package.module:object` references that files may load."""
_FAILURES = (Exception, SystemExit)
"""Exceptions to catch when running third-party code, including SystemExit so that a script can't end
decabench.
"""

_folders: list[Path] = []


def add_module_folder(folder: Path) -> None:
    """Add a folder for `load_object` to search."""
    _folders.append(folder.absolute())


def load_object(reference: str) -> Any:
    """Import an object that the user named as `package.module:object`.

    Searches installed modules first, then the current folder and the folders from `add_module_folder`, which stay on
    `sys.path` because modules may import others later. Raises UnknownNameError if the object can't be imported.
    """
    searched = {path or os.getcwd() for path in sys.path}
    folders = dict.fromkeys(map(str, (Path.cwd(), *_folders)))
    sys.path += [folder for folder in folders if folder not in searched]
    found = _import_object(
        reference, "Install the module's package, or run the command in the folder that contains the module"
    )
    _named_by_user.add(reference)
    return found


def load_named(reference: str, said_by: str) -> Any:
    """Import an object that a file refers to, if the user has allowed it.

    Users allow references by listing them in DECABENCH_MODELS, separated by commas. References that
    they have given to `load_object` are also allowed. The current folder is not added to the search
    path, because its code may come from the same source as the file. `said_by` names the file in
    messages. Raises DecabenchError if the reference isn't allowed, and UnknownNameError if it can't be
    imported.
    """
    trusted = {name.strip() for name in os.environ.get(TRUSTED, "").split(",")}
    if reference in trusted or reference in _named_by_user:
        return _import_object(
            reference,
            "Install the module's package, or add the folder that contains the module to PYTHONPATH",
        )
    raise DecabenchError(
        f"{said_by} refers to the model {reference}, but a file may not choose which code runs. If you "
        f"trust this model, set {TRUSTED}={reference}."
    )


_named_by_user: set[str] = set()
"""The references that the user has given in this process."""


def _import_object(reference: str, advice: str) -> Any:
    module_name, _, path = reference.partition(":")
    if not module_name or not path:
        raise UnknownNameError(
            f"{reference!r} does not refer to an object. Use the form package.module:object."
        )
    if module_name.endswith(".py") or "/" in module_name or os.sep in module_name:
        folder, stem = os.path.dirname(module_name), os.path.basename(module_name).removesuffix(".py")
        place = "Use " if folder in ("", ".") else f"Run the command in {folder}, and use "
        raise UnknownNameError(f"{reference!r} refers to a file, not a module. {place}{stem}:{path}.")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise UnknownNameError(f"{reference!r} can't be imported ({error}). {advice}.") from error
    except _FAILURES as error:
        raise UnknownNameError(
            f"{reference!r} can't be imported, because its module raised an error ({type(error).__name__}: {error}). "
            "Fix the error in the module."
        ) from error
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            place = f" ({module.__file__})" if getattr(module, "__file__", None) else ""
            raise UnknownNameError(
                f"{reference!r} can't be imported, because {module_name}{place} has no {part!r}."
            )
        found = getattr(found, part)
    return found


def load_file(path: Path) -> ModuleType:
    """Run a Python file and return it as a module. Raises UnknownNameError if it fails."""
    name = f"decabench_include_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UnknownNameError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # as an import does, because dataclasses look up their module there
    try:
        spec.loader.exec_module(module)
    except _FAILURES as error:
        del sys.modules[name]
        reason = f"{type(error).__name__}: {error}"
        raise UnknownNameError(f"{path} can't be run ({reason}). Fix the error in the file.") from error
    return module


def plugin_names(group: str) -> dict[str, EntryPoint]:
    """Return the installed entry points of a group by name, without loading them."""
    return {point.name: point for point in entry_points(group=group)}


def load_entry_point(point: EntryPoint) -> Any:
    """Load the object that an entry point refers to. Raises UnknownNameError if that fails."""
    try:
        return point.load()
    except _FAILURES as error:
        raise UnknownNameError(
            f"The entry point {point.name} = {point.value} can't be loaded ({error}). "
            "Reinstall or remove its package."
        ) from error
