"""Predictors answer questions: the protocol, baselines, Python objects, trained models, hf:, openai: and command:.

The names are in `__init__.pyi` and load on first use, because some need an extra.
"""

from decabench.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
