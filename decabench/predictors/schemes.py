"""Find predictors by name: baselines, entry points, `package.module:object`, and schemes such as `hf:`."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import decabench
from decabench.errors import DecabenchError, ModelError, UnknownNameError, near_matches, require_name
from decabench.files import file_digest
from decabench.plugins import load_entry_point, load_object, plugin_names
from decabench.predictors.baselines import (
    copy_context,
    first_choice,
    lead_3,
    majority,
    most_frequent_tag,
    oracle,
    random_answer,
)
from decabench.predictors.protocol import (
    Backend,
    ModelOptions,
    Predictor,
    PredictorFactory,
    Setting,
    StreamingPredictor,
    refuse_unused,
)
from decabench.text import describe_error

PREDICTORS: dict[str, PredictorFactory] = {
    "majority": majority,
    "most-frequent-tag": most_frequent_tag,
    "first-choice": first_choice,
    "copy-context": copy_context,
    "lead-3": lead_3,
    "random": random_answer,
    "oracle": oracle,
}
"""The baselines by name. They include the oracle, which is an upper bound."""

SCHEMES: dict[str, str] = {
    "hf": "decabench.predictors.hf.backend",
    "openai": "decabench.predictors.openai.server",
    "vllm": "decabench.predictors.vllm_models",
    "inspect": "decabench.predictors.inspect_models",
    "command": "decabench.predictors.program",
    "trained": "decabench.predictors.trained",
}
"""The module of each scheme, imported on first use. Each provides `backend(target, options)`, `USED` and `ADVICE`."""

GROUP = "decabench.predictors"
"""The entry-point group for packages that provide predictors."""


def make_backend(predictor: str, options: ModelOptions) -> Backend:
    """Create the backend for a `--predictor` name without loading the model.

    Raises DecabenchError if there is no such predictor, or for an invalid option.
    """
    if not isinstance(predictor, str):
        raise DecabenchError(
            f"'predictor' must be a name such as majority or my_module:MyModel, not {predictor!r:.200}. The name is "
            "recorded in the submission."
        )
    scheme, colon, target = predictor.partition(":")
    if colon and scheme in SCHEMES:
        module = import_module(SCHEMES[scheme])
        refuse_unused(options, module.USED, scheme, module.ADVICE)
        backend: Backend = module.backend(target, options)
        return backend
    find_predictor(predictor)  # report an unknown name before invalid options
    return PythonBackend(predictor, options)


def find_predictor(name: str) -> Any:
    """Look up a predictor or predictor factory by name. Raises UnknownNameError if there is none."""
    if name in PREDICTORS:
        return PREDICTORS[name]
    if _ADDRESS.match(name):
        raise UnknownNameError(
            f"{name!r} is a URL. For a server that supports the OpenAI API, write openai:{name}."
        )
    if ":" in name:
        scheme, _, target = name.partition(":")
        try:
            return load_object(name)
        except UnknownNameError as error:
            near = near_matches(scheme, SCHEMES, 1)
            raise UnknownNameError(
                f"{error} Did you mean {near[0]}:{target}?" if near else str(error)
            ) from error
    points = plugin_names(GROUP)
    known = (*PREDICTORS, *points, *(f"{scheme}:…" for scheme in SCHEMES), "package.module:object")
    try:
        return load_entry_point(points[require_name(name, known, "predictor")])
    except UnknownNameError as error:
        is_near = near_matches(name, (*PREDICTORS, *points)) and "/" not in name
        raise UnknownNameError(str(error) if is_near else f"{error}{_likely_form(name)}") from None


_ADDRESS = re.compile("https?://")


def _likely_form(name: str) -> str:
    path = Path(name)
    file = path if path.suffix == ".py" else path.with_name(f"{path.name}.py") if path.name else path
    module, _, attribute = name.rpartition(".")
    if path.suffix == ".py" and not path.exists():
        return f" There is no file {name}."
    if path.suffix != ".py" and Path(f"{module}.py").is_file():
        return f" For {attribute} in {module}.py, write {module}:{attribute}."
    if file.is_file():
        found = re.search(r"^(?:class|def) (\w+)", file.read_text(encoding="utf-8", errors="replace"), re.M)
        return f" For a class or function in {file}, write {file.stem}:{found[1] if found else 'NAME'}."
    if path.is_dir():
        return (
            f" For a model from decabench train, write trained:{name}; for a transformers model, hf:{name}."
        )
    if re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        return (
            f" For a model on the Hugging Face Hub, write hf:{name}; for a model on a server, write openai:URL and add "
            f"--model {name}."
        )
    return ""


def predictor_names() -> list[str]:
    """Return the names of all predictors, followed by the prefixes of all schemes, such as `hf:`."""
    return [*PREDICTORS, *plugin_names(GROUP), *(f"{scheme}:" for scheme in SCHEMES)]


@dataclass(frozen=True)
class PythonBackend:
    """A Python object with a method `predict` or `stream`, or a class or function that creates such an object.

    A class or function is called with the Setting if it accepts an argument.
    """

    reference: str
    """The predictor's name on the command line."""
    options: ModelOptions
    """The requested options. Only --revision, --seed and --batch-size are allowed."""

    prompted = False
    learns = True
    """Whether the predictor can read training answers, so that they may affect its own answers."""

    def __post_init__(self) -> None:
        first = (
            "Leave out the option" if self.reference in PREDICTORS else "Set the value in the Python object"
        )
        hint = f"{first}. This predictor uses only --revision, --seed and --batch-size."
        refuse_unused(self.options, ("revision", "seed", "batch_size"), self.reference, hint)

    def describe(self) -> Mapping[str, Any]:
        """Return versions or digests of the source code, and the result of the predictor's own `describe()`.

        If the predictor has weights, its `describe()` must identify them.
        """
        found = find_predictor(self.reference)
        content: dict[str, Any] = {"revision": self.options.revision, **_source_of(self.reference, found)}
        content["says"] = self._own_description(found)
        return {key: value for key, value in content.items() if value is not None}

    def _own_description(self, found: Any) -> dict[str, Any] | None:
        """Return the result of the predictor's `describe()` as JSON types.

        Errors of `describe()` are ignored if a revision is given.
        """
        if not hasattr(found, "describe"):
            return None
        try:
            said = json.dumps(dict(found.describe()), ensure_ascii=False, allow_nan=False)
            said.encode()
            described: dict[str, Any] = json.loads(said)
            return described
        except (Exception, SystemExit) as error:
            if self.options.revision is not None:
                return None
            raise DecabenchError(
                f"The method describe() of {self.reference} failed ({describe_error(error)}). It must be a classmethod "
                "that returns a dict of strings, numbers, lists and dicts, with everything that affects the answers. "
                "Change the method, or specify a version with --revision."
            ) from error

    @contextmanager
    def open(self) -> Iterator[PredictorFactory]:
        """Return a predictor factory. An object that is already a predictor is used for all tasks."""
        found = find_predictor(self.reference)
        is_ready = isinstance(found, (Predictor, StreamingPredictor)) and not isinstance(found, type)
        if not is_ready and not callable(found):
            self._refuse()
        takes_setting = not is_ready and self._takes_setting(found)

        def make(setting: Setting) -> Any:
            try:
                made = found if is_ready else found(setting) if takes_setting else found()
            except (AttributeError, TypeError) as error:
                if not inspect.isfunction(found):
                    raise
                raise ModelError(
                    f"{self.reference} failed when it was called with the setting ({describe_error(error)}). It must "
                    "return a predictor, which has a method predict(questions)."
                ) from error
            if not isinstance(made, (Predictor, StreamingPredictor)):
                self._refuse()
            return made

        yield make

    def _takes_setting(self, factory: Callable[..., Any]) -> bool:
        try:
            signature = inspect.signature(factory)
        except (TypeError, ValueError):  # C code or an invalid signature
            return True
        for arguments in ((None,), ()):
            try:
                signature.bind(*arguments)
            except TypeError:
                continue
            return bool(arguments)
        raise DecabenchError(
            f"{self.reference} has the signature {signature}, but is called with at most one argument, the setting. "
            "Add default values for all other parameters."
        )

    def _refuse(self) -> NoReturn:
        raise UnknownNameError(
            f"{self.reference} is not a predictor. A predictor must have a method predict(questions) that returns "
            "a list with one answer for each question."
        )


def _source_of(reference: str, found: Any) -> dict[str, Any]:
    """Return the version or the file digests that identify a predictor's code.

    Baselines and installed packages are identified by version, and Python files by digest.
    """
    if reference in PREDICTORS:
        return {"decabench": decabench.__version__}
    if point := plugin_names(GROUP).get(reference):
        dist = point.dist
        return {"entry_point": point.value, "package": f"{dist.name} {dist.version}" if dist else None}
    # If the object is an instance of a class from another module, the files of both modules affect answers.
    code = found
    while isinstance(code, partial):
        code = code.func
    named = _file_of(sys.modules.get(reference.partition(":")[0]))
    defined = _file_of(inspect.getmodule(code) or inspect.getmodule(type(code)))
    files = {"source": named, "code": defined if defined != named else None}
    return {key: file_digest(path) for key, path in files.items() if path is not None}


def _file_of(module: ModuleType | None) -> Path | None:
    name = getattr(module, "__file__", None)
    return Path(name) if isinstance(name, str) and Path(name).is_file() else None
