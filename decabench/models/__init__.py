"""Trainable models, with one file for each model family, and the components that families share.

Requires the `models` extra. The public names are listed in `__init__.pyi` and loaded on first use, because
most of them need torch.
"""

from decabench.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
