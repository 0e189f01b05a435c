"""Where a predictor runs: in this process, or on a pool of workers."""

from __future__ import annotations

from decabench.engines.engine import BATCH, Engine, EngineOptions
from decabench.engines.local import LocalEngine

__all__ = ["BATCH", "ENGINES", "Engine", "EngineOptions", "make_engine"]

ENGINES = ("local", "ray")
"""What `--engine` takes."""


def make_engine(name: str, options: EngineOptions) -> Engine:
    """An engine by name, to be entered before it is used. Raises DecabenchError where its extra is missing."""
    if name == "ray":
        from decabench.engines.ray import RayEngine

        return RayEngine(options)
    return LocalEngine(options)
