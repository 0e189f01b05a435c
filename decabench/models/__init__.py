"""Models that learn: families of one file each, with layers, heads, words and vectors beside them.

Needs the extra `models`. The names are in `__init__.pyi` and load on first use, for most of them need torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
