"""decabench: one model, ten language tasks, scores that agree with the official scorers.

Importing this package loads nothing heavy; the three functions below load what they need when called.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from decabench.scoring import evaluate as evaluate
    from decabench.scoring import read_results as read_results
    from decabench.tasks import load as load

__version__ = "0.1.0"
__all__ = ["__version__", "evaluate", "load", "read_results"]

_HOMES = {
    "evaluate": "decabench.scoring",
    "load": "decabench.tasks",
    "read_results": "decabench.scoring",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'decabench' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
