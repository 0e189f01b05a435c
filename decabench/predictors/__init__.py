"""Predictors: the baselines, Python objects, trained models, and schemes such as `hf:`, `openai:` and `command:`.

Public names are listed in `__init__.pyi`. They are imported lazily because some need optional packages.
"""

from decabench.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
