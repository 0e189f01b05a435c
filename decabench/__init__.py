"""Evaluate one model on ten or more language tasks, with scores that match the official scorers.

Public names are listed in `__init__.pyi` and imported on first use, so importing this package or `decabench.metrics`
loads only the standard library.
"""

from decabench.lazy import lazy_names

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
