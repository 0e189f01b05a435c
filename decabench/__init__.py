"""decabench: one model, ten and more language tasks, scores that agree with the official scorers.

The names below load when they are first used: importing this package, or `decabench.metrics`, loads nothing but the
standard library. `__init__.pyi` has their types.
"""

from importlib import import_module

__version__ = "0.1.0"

_ROOMS = {
    "DecabenchError": "errors",
    "Example": "tasks",
    "Metric": "metrics",
    "Suite": "tasks",
    "Task": "tasks",
    "compare": "scoring",
    "evaluate": "scoring",
    "import_answers": "exchange",
    "load": "tasks",
    "predict": "runs",
    "prepare": "tasks",
    "read_results": "scoring",
    "run": "runs",
    "train": "training",
    "verify": "scoring",
    "write_leaderboard": "leaderboard",
    "write_submission": "submission",
}
__all__ = [
    "DecabenchError",
    "Example",
    "Metric",
    "Suite",
    "Task",
    "compare",
    "evaluate",
    "import_answers",
    "load",
    "predict",
    "prepare",
    "read_results",
    "run",
    "train",
    "verify",
    "write_leaderboard",
    "write_submission",
]


def __getattr__(name: str) -> object:
    if name not in _ROOMS:
        raise AttributeError(f"module 'decabench' has no attribute {name!r}")
    return getattr(import_module(f"decabench.{_ROOMS[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
