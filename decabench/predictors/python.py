"""Predictors that are Python objects: ours by name, an installed package's entry point, or `package.module:object`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import decabench
from decabench.errors import UnknownNameError
from decabench.fingerprint import file_digest
from decabench.predictor import Predictor, PredictorFactory, Setting, StreamingPredictor
from decabench.predictors.options import ModelOptions
from decabench.tasks.plugins import load_entry_point, load_object, plugin_names
from decabench.tasks.registry import named

__all__ = ["GROUP", "PythonBackend", "find_predictor"]

GROUP = "decabench.predictors"
"""The entry-point group of packages that bring predictors."""


def find_predictor(name: str) -> Any:
    """A predictor, a factory of predictors or a backend, by name. Raises UnknownNameError."""
    from decabench.predictors import PREDICTORS, SCHEMES

    if name in PREDICTORS:
        return PREDICTORS[name]
    if ":" in name:
        return load_object(name)
    points = plugin_names(GROUP)
    known = (*PREDICTORS, *points, *(f"{scheme}:…" for scheme in SCHEMES))
    return load_entry_point(points[named(name, known, "predictor")])


@dataclass(frozen=True)
class PythonBackend:
    """An object with `predict` or `stream`, or whatever makes one from a Setting."""

    reference: str
    """How it was named."""
    options: ModelOptions
    """What was asked of it: only a revision, a seed and the size of a batch mean something here."""

    prompted = False
    learns = True
    """Whether it is given training answers, which then decide what it says."""

    def describe(self) -> Mapping[str, Any]:
        """Its source and what it says of itself in `describe()`; weights that it loads are its own to name."""
        found = find_predictor(self.reference)
        described = getattr(found, "describe", None)
        content: dict[str, Any] = {"revision": self.options.revision, **_origin(self.reference, found)}
        if callable(described) and not (isinstance(found, type) and _needs_self(found)):
            content["says"] = dict(described())
        return {key: value for key, value in content.items() if value is not None}

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


def _origin(reference: str, found: Any) -> dict[str, Any]:
    """What is known of the code: ours by version, a package's by version, a file's by its bytes."""
    from decabench.predictors import PREDICTORS

    if reference in PREDICTORS:
        return {"decabench": decabench.__version__}
    if point := plugin_names(GROUP).get(reference):
        dist = point.dist
        return {"entry_point": point.value, "package": f"{dist.name} {dist.version}" if dist else None}
    source = inspect.getsourcefile(inspect.getmodule(found) or type(found)) if _has_source(found) else None
    return {"source": file_digest(Path(source))} if source and Path(source).is_file() else {}


def _has_source(found: Any) -> bool:
    """An object made in a console, or by C code, has none."""
    try:
        return inspect.getsourcefile(inspect.getmodule(found) or type(found)) is not None
    except TypeError:
        return False
