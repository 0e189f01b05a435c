"""Training: data encoding, schedules, the training loop and exact resumption. Needs the extra `train`.

The names are in `__init__.pyi` and load on first use, because most of them need torch.
"""

from decabench.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
