"""Submissions: their files, metadata, answers and possible faults. The names are in `__init__.pyi` and load on
first use.
"""

from decabench.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
