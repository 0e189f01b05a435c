"""Schedules, data encoding, the training loop, and exact resumption of runs. Requires the `train` extra.

The public names are listed in `__init__.pyi` and loaded on first use, because most of them need torch.
"""

from decabench.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
