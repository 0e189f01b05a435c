"""Predictors: the protocol, baselines, Python objects, trained models, `hf:`, `openai:` and `command:`.

Public names are listed in `__init__.pyi` and imported lazily because some require an extra.
"""

from decabench.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
