"""The predictors that decabench ships, by name, and the schemes that run any model."""

from __future__ import annotations

from importlib import import_module

from decabench.predictors.baselines import copy_context, first_choice, lead_3, majority, oracle, random_answer
from decabench.predictors.options import ModelOptions
from decabench.predictors.protocol import Backend, PredictorFactory

__all__ = ["PREDICTORS", "SCHEMES", "make_backend"]

PREDICTORS: dict[str, PredictorFactory] = {
    "majority": majority,
    "first-choice": first_choice,
    "copy-context": copy_context,
    "lead-3": lead_3,
    "random": random_answer,
    "oracle": oracle,
}
"""The floor and the ceiling of every board: predictors that know nothing, and one that knows the answers."""

SCHEMES: dict[str, str] = {
    "hf": "decabench.predictors.hf.backend",
    "openai": "decabench.predictors.openai.server",
    "command": "decabench.predictors.command.program",
    "trained": "decabench.predictors.trained",
    "mqan": "decabench.predictors.trained",  # the old name
}
"""`SCHEME:TARGET` to the module that runs it, imported on use: each has `backend(target, options)`."""


def make_backend(predictor: str, options: ModelOptions) -> Backend:
    """What `--predictor` names, with nothing loaded yet. Raises DecabenchError for what there is not."""
    scheme, colon, target = predictor.partition(":")
    if colon and scheme in SCHEMES:
        found: Backend = import_module(SCHEMES[scheme]).backend(target, options)
        return found
    from decabench.predictors.python_object import PythonBackend, find_predictor

    made = PythonBackend(predictor, options)
    find_predictor(predictor)  # raises for what there is not, before anything else is looked at
    return made
