"""decabench: one model, ten and more language tasks, scores that agree with the official scorers.

The names are in `__init__.pyi` and load on first use: importing this package, or `decabench.metrics`, loads nothing but
the standard library.
"""

from decabench.lazy import lazy_names

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
