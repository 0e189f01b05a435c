"""Predictors that are Python objects: ours by name, an installed package's entry point, or `package.module:object`."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import decabench
from decabench.errors import DecabenchError, UnknownNameError, require_name
from decabench.files import file_digest
from decabench.plugins import load_entry_point, load_object, plugin_names
from decabench.predictors.options import ModelOptions, unused
from decabench.predictors.protocol import Predictor, PredictorFactory, Setting, StreamingPredictor
from decabench.text import describe_error, excerpt

__all__ = ["GROUP", "PythonBackend", "find_predictor"]

GROUP = "decabench.predictors"
"""The entry-point group of packages that bring predictors."""

USED = ("revision", "seed", "batch_size")
"""The options that mean something to a Python object."""


def find_predictor(name: str) -> Any:
    """A predictor, a factory of predictors or a backend, by name. Raises UnknownNameError."""
    from decabench.predictors.schemes import PREDICTORS, SCHEMES

    if name in PREDICTORS:
        return PREDICTORS[name]
    if ":" in name:
        return load_object(name)
    points = plugin_names(GROUP)
    known = (*PREDICTORS, *points, *(f"{scheme}:…" for scheme in SCHEMES))
    return load_entry_point(points[require_name(name, known, "predictor")])


@dataclass(frozen=True)
class PythonBackend:
    """An object with `predict` or `stream`, or whatever makes one from a Setting."""

    reference: str
    """How it was named."""
    options: ModelOptions
    """What was asked of it."""

    prompted = False
    learns = True
    """Whether it is given training answers, which then decide what it says."""

    def __post_init__(self) -> None:
        if flag := unused(self.options, USED):
            raise DecabenchError(
                f"{self.reference} has no use for {flag}: an object in Python sets it itself; only --revision, --seed "
                "and --batch-size are for it."
            )

    def describe(self) -> Mapping[str, Any]:
        """Its source and what it says of itself in `describe()`; weights that it loads are its own to name."""
        found = find_predictor(self.reference)
        content: dict[str, Any] = {"revision": self.options.revision, **_origin(self.reference, found)}
        content["says"] = self._said(found)
        return {key: value for key, value in content.items() if value is not None}

    def _said(self, found: Any) -> dict[str, Any] | None:
        """What it says of itself, as JSON has it. Raises DecabenchError where nothing can be made of it."""
        describe = getattr(found, "describe", None)
        if describe is None:
            return None
        if isinstance(found, type) and _needs_self(found):
            if self.options.revision is not None:
                return None
            raise DecabenchError(
                f"{self.reference} is a class whose describe() needs an object, and what it says is asked before one "
                "is made: make describe a classmethod, or name the version with --revision."
            )
        try:
            said = describe()
        except (Exception, SystemExit) as error:
            raise DecabenchError(
                f"{self.reference} could not describe itself ({describe_error(error)}): "
                "describe() returns a dict that names "
                "what decides the answers."
            ) from error
        return _as_json(self.reference, said)

    @contextmanager
    def open(self) -> Iterator[PredictorFactory]:
        """The object itself, where it is a predictor, serves for all tasks."""
        found = find_predictor(self.reference)
        is_ready = isinstance(found, (Predictor, StreamingPredictor)) and not isinstance(found, type)
        if not is_ready and not callable(found):
            raise self._no_predictor()

        def make(setting: Setting) -> Any:
            made = found if is_ready else found(setting)
            if not isinstance(made, (Predictor, StreamingPredictor)):
                raise self._no_predictor()
            return made

        yield make

    def _no_predictor(self) -> UnknownNameError:
        return UnknownNameError(
            f"{self.reference} is no predictor: it needs a method predict(questions) that returns one text each."
        )


def _needs_self(found: type) -> bool:
    """Whether `describe` of a class can only be called on an object of it."""
    return not isinstance(inspect.getattr_static(found, "describe"), (classmethod, staticmethod))


def _as_json(reference: str, said: Any) -> dict[str, Any]:
    try:
        if not isinstance(said, Mapping):
            raise TypeError("it is no dict")
        text = json.dumps(dict(said), ensure_ascii=False, allow_nan=False)
        text.encode()
        found: dict[str, Any] = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise DecabenchError(
            f"describe() of {reference} returned {excerpt(repr(said), 100)}, which no record can hold "
            f"({excerpt(str(error))}): it must be a dict of texts, numbers, lists and dicts."
        ) from error
    return found


def _origin(reference: str, found: Any) -> dict[str, Any]:
    """What is known of the code: ours by version, a package's by version, a file's by its bytes."""
    from decabench.predictors.schemes import PREDICTORS

    if reference in PREDICTORS:
        return {"decabench": decabench.__version__}
    if point := plugin_names(GROUP).get(reference):
        dist = point.dist
        return {"entry_point": point.value, "package": f"{dist.name} {dist.version}" if dist else None}
    # An object may be made here of a class from elsewhere: both files decide what it answers.
    named = _file(sys.modules.get(reference.partition(":")[0]))
    code = _file(_module_of(found))
    content = {"source": named, "code": code if code != named else None}
    return {key: file_digest(path) for key, path in content.items() if path is not None}


def _module_of(found: Any) -> ModuleType | None:
    """Where the code of an object is; of a partial that of its function."""
    while isinstance(found, partial):
        found = found.func
    return inspect.getmodule(found) or inspect.getmodule(type(found))


def _file(module: ModuleType | None) -> Path | None:
    """A module made in a console, or by C code, has none."""
    name = getattr(module, "__file__", None)
    return Path(name) if isinstance(name, str) and Path(name).is_file() else None
